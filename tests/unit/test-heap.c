/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The heap of captures whose truth is known. */
#include "client/heap/heap-report.h"
#include "client/report/profile-text.h"
#include "tests/unit/capture-builder.h"

#define PID 5
#define MS  G_GINT64_CONSTANT (1000000)

/* Stacks of two made-up functions each: main calls @n. */
static void
allocate (CaptureBuilder *capture,
          gint32 pid,
          gint32 tid,
          gint64 time_ns,
          guint64 address,
          gint64 size_bytes,
          guint n)
{
  SondeFrameOrigin origin = at (pid, time_ns);
  const uint64_t addrs[] = { JIT (n), JIT (0) };

  ADD (sonde_writer_add_allocation (capture->writer, &origin, tid, address, size_bytes, addrs,
                                    G_N_ELEMENTS (addrs)));
}

static void
release (CaptureBuilder *capture, gint32 pid, gint32 tid, gint64 time_ns, guint64 address)
{
  SondeFrameOrigin origin = at (pid, time_ns);

  ADD (sonde_writer_add_allocation (capture->writer, &origin, tid, address, 0, NULL, 0));
}

static CaptureBuilder *
begin (void)
{
  CaptureBuilder *capture = capture_builder_new ();

  add_process (capture, PID, "prog");
  add_jit_name (capture, JIT (0), "main");
  add_jit_name (capture, JIT (1), "one");
  add_jit_name (capture, JIT (2), "two");
  return capture;
}

static void
feed (gpointer receiver, const SondeFrame *frame)
{
  sonde_heap_add_frame (receiver, frame);
}

static SondeHeap *
analyse (CaptureBuilder *capture, const SondeHeapOptions *options)
{
  const SondeHeapOptions usual = SONDE_HEAP_OPTIONS_INIT;
  SondeHeap *heap = sonde_heap_new (options != NULL ? options : &usual, 1000);

  capture_foreach (capture, feed, heap);
  sonde_heap_finish (heap, NULL);
  return heap;
}

static void
assert_amount (const SondeHeapAmount *amount, guint64 bytes, guint64 blocks)
{
  g_assert_cmpuint (sonde_heap_round (amount->bytes), ==, bytes);
  g_assert_cmpuint (sonde_heap_round (amount->blocks), ==, blocks);
}

static void
assert_metric (const SondeHeap *heap, SondeHeapMetric metric, guint64 bytes, guint64 blocks)
{
  g_autoptr (SondeProfile) profile = sonde_heap_dup_profile (heap, metric, SONDE_UNIT_BYTES);
  guint64 beside = 0;

  assert_amount (&heap->tracker->totals.amounts[metric], bytes, blocks);
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    beside += sonde_call_tree_node (sonde_profile_process (profile, i)->beside, 0)->total;
  g_assert_cmpuint (sonde_profile_total (profile), ==, bytes);
  g_assert_cmpuint (beside, ==, blocks);
}

/* "main 300/2, one 300/2": the first process's functions with bytes and blocks, outermost first. */
static char *
describe (const SondeHeap *heap, SondeHeapMetric metric)
{
  g_autoptr (SondeProfile) profile = sonde_heap_dup_profile (heap, metric, SONDE_UNIT_BYTES);
  SondeProfileStyle style = { .max_depth = 512 };
  GString *out = g_string_new (NULL);

  sonde_profile_append_tree (out, profile, &style);
  return g_string_free (out, FALSE);
}

static void
sums_are_exact (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autofree char *tree = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, PID, 3000, 0x20, 200, 2);
  release (capture, PID, PID, 4000, 0x10);
  allocate (capture, PID, PID, 5000, 0x10, 50, 1);
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_ALLOCATED, 350, 3);
  assert_metric (heap, SONDE_HEAP_LEFT, 250, 2);
  assert_amount (&heap->tracker->totals.freed, 100, 1);
  tree = describe (heap, SONDE_HEAP_ALLOCATED);
  assert_has (tree, " 100.0%               350 B           3  main\n"
                    "  57.1%   57.1%       200 B           1  |- two\n"
                    "  42.9%   42.9%       150 B           2  `- one\n");
}

static void
the_peak_is_what_was_live_then (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autofree char *tree = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, PID, 3000, 0x20, 200, 2);
  release (capture, PID, PID, 4000, 0x10);
  allocate (capture, PID, PID, 5000, 0x30, 150, 2);
  release (capture, PID, PID, 6000, 0x20);
  release (capture, PID, PID, 6500, 0x30);
  allocate (capture, PID, PID, 7000, 0x40, 340, 1);
  release (capture, PID, PID, 8000, 0x40);
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_PEAK, 350, 2);
  g_assert_cmpint (heap->tracker->totals.peak_ns, ==, 5000);
  assert_metric (heap, SONDE_HEAP_LEFT, 0, 0);
  tree = describe (heap, SONDE_HEAP_PEAK);
  assert_has (tree, "main\n 100.0%  100.0%       350 B           2  two\n");
}

/* Against the same peak, found by looking at everything after each event. */
static void
peaks_of_any_history_are_exact (void)
{
  enum
  {
    N_STACKS = 7,
    N_BLOCKS = 64,
    N_EVENTS = 2000,
  };
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (SondeProfile) profile = NULL;
  gint64 sizes[N_BLOCKS] = { 0 };
  guint stacks[N_BLOCKS] = { 0 };
  guint64 live[N_STACKS] = { 0 };
  guint64 peak[N_STACKS] = { 0 };
  guint64 total = 0;
  guint64 total_peak = 0;
  const SondeCallTree *tree;

  for (guint i = 0; i < N_EVENTS; i++)
    {
      guint block = (guint) g_test_rand_int_range (0, N_BLOCKS);

      if (sizes[block] > 0)
        {
          release (capture, PID, PID, 2000 + i, block + 1);
          live[stacks[block]] -= (guint64) sizes[block];
          total -= (guint64) sizes[block];
          sizes[block] = 0;
          continue;
        }
      sizes[block] = g_test_rand_int_range (1, 1000);
      stacks[block] = (guint) g_test_rand_int_range (0, N_STACKS);
      allocate (capture, PID, PID, 2000 + i, block + 1, sizes[block], 10 + stacks[block]);
      live[stacks[block]] += (guint64) sizes[block];
      total += (guint64) sizes[block];
      if (total > total_peak)
        {
          total_peak = total;
          memcpy (peak, live, sizeof peak);
        }
    }
  heap = analyse (capture, NULL);
  profile = sonde_heap_dup_profile (heap, SONDE_HEAP_PEAK, SONDE_UNIT_BYTES);
  tree = sonde_profile_process (profile, 0)->tree;
  g_assert_cmpuint (sonde_profile_total (profile), ==, total_peak);
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (tree, i);
      guint64 address;

      if (node->first_child != 0)
        continue;
      address = g_ascii_strtoull (sonde_profile_function (profile, node->id)->name, NULL, 16);
      g_assert_cmpuint (node->self, ==, peak[address - JIT (10)]);
    }
}

static void
a_free_may_stand_before_its_allocation (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  release (capture, PID, 7, 3000, 0x10);
  allocate (capture, PID, 7, 4000, 0x10, 50, 1);
  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  release (capture, PID, PID, 5000, 0x10);
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_LEFT, 0, 0);
  assert_metric (heap, SONDE_HEAP_PEAK, 100, 1);
  assert_metric (heap, SONDE_HEAP_CROSS_THREAD, 150, 2);
  g_assert_cmpuint (heap->tracker->totals.n_unknown_freed, ==, 0);
  g_assert_cmpuint (heap->tracker->totals.n_frees_missing, ==, 0);
}

static void
what_is_freed_before_the_next_allocation_is_temporary (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, 7, 2500, 0x20, 200, 2); /* another thread's does not matter */
  release (capture, PID, PID, 3000, 0x10);
  release (capture, PID, PID, 4000, 0x20); /* by another thread: not temporary */
  allocate (capture, PID, PID, 5000, 0x30, 400, 1);
  allocate (capture, PID, PID, 5500, 0x40, 800, 1);
  release (capture, PID, PID, 6000, 0x30);
  release (capture, PID, PID, 7000, 0x40);
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_TEMPORARY, 900, 2);
  assert_metric (heap, SONDE_HEAP_CROSS_THREAD, 200, 1);
}

static void
what_lives_shorter_than_a_limit_is_temporary (void)
{
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, PID, 2500, 0x20, 200, 2);
  release (capture, PID, PID, 12000, 0x10);
  release (capture, PID, 7, 12499, 0x20);
  options.temporary_ns = 10000;
  heap = analyse (capture, &options);
  assert_metric (heap, SONDE_HEAP_TEMPORARY, 200, 1);
}

static void
frees_of_unknown_addresses_are_counted (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (GString) header = g_string_new (NULL);
  const SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;

  release (capture, PID, PID, 2000, 0x10);
  allocate (capture, PID, PID, 3000, 0x10, 100, 1);
  release (capture, PID, PID, 4000, 0x10);
  release (capture, PID, PID, 5000, 0x10);
  heap = analyse (capture, NULL);
  g_assert_cmpuint (heap->tracker->totals.n_unknown_freed, ==, 2);
  assert_amount (&heap->tracker->totals.freed, 100, 1);
  sonde_heap_append_header (header, heap, &options);
  assert_has (header->str, "Inexact   2 blocks were freed that");
}

static void
an_address_that_is_allocated_twice_was_freed_between (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, PID, 3000, 0x10, 50, 2);
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_ALLOCATED, 150, 2);
  assert_metric (heap, SONDE_HEAP_LEFT, 50, 1);
  assert_metric (heap, SONDE_HEAP_PEAK, 100, 1);
  g_assert_cmpuint (heap->tracker->totals.n_frees_missing, ==, 1);
}

static void
fork_to (CaptureBuilder *capture, gint32 tid, gint64 time_ns, gint32 child)
{
  SondeFrameOrigin origin = at (tid, time_ns);

  ADD (sonde_writer_add_fork (capture->writer, &origin, child));
}

static void
a_forked_child_has_blocks_of_its_parent (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  SondeHeapOptions child = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (SondeHeap) of_child = NULL;

  allocate (capture, PID, 7, 2000, 0x10, 100, 1);
  allocate (capture, PID, 7, 2100, 0x20, 200, 1);
  allocate (capture, PID, 7, 2200, 0x30, 400, 1);
  fork_to (capture, 7, 3000, 6); /* by a thread that is not the first */
  release (capture, PID, 7, 3100, 0x20);
  release (capture, 6, 6, 3200, 0x20); /* its own copy */
  release (capture, 6, 6, 3300, 0x10);
  allocate (capture, 6, 6, 3400, 0x10, 1000, 2);
  allocate (capture, PID, 7, 4000, 0x40, 800, 1);
  release (capture, 6, 6, 4100, 0x40); /* which the child never had */
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_ALLOCATED, 2500, 5);
  assert_metric (heap, SONDE_HEAP_LEFT, 2300, 4);
  assert_metric (heap, SONDE_HEAP_CROSS_THREAD, 0, 0);
  assert_amount (&heap->tracker->totals.freed, 200, 1);
  assert_amount (&heap->tracker->totals.inherited, 400, 1);
  g_assert_cmpuint (heap->tracker->totals.n_inherited_freed, ==, 2);
  g_assert_cmpuint (heap->tracker->totals.n_unknown_freed, ==, 1);

  child.filter.pid = 6;
  of_child = analyse (capture, &child);
  assert_metric (of_child, SONDE_HEAP_LEFT, 1000, 1);
  assert_metric (of_child, SONDE_HEAP_PEAK, 1000, 1);
  assert_amount (&of_child->tracker->totals.inherited, 400, 1);
}

static void
a_new_thread_is_no_new_heap (void)
{
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  fork_to (capture, PID, 3000, 7);
  release (capture, PID, 7, 4000, 0x10);
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_LEFT, 0, 0);
  assert_metric (heap, SONDE_HEAP_CROSS_THREAD, 100, 1);
  g_assert_cmpfloat (heap->tracker->totals.inherited.blocks, <=, 0);
}

static void
an_exec_begins_an_empty_heap (void)
{
  SondeFrameOrigin after = at (PID, 2500);
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autofree char *tree = NULL;

  add_map (capture, PID, 0x1000, 0x2000, "[vdso]");
  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  add_map (capture, PID, 0x1000, 0x2000, "[vdso]"); /* told once more: nothing new */
  ADD (sonde_writer_add_process (capture->writer, &after, "next"));
  ADD (sonde_writer_add_map (capture->writer, &after, 0x5000, 0x6000, 0, 0, "[vdso]", NULL));
  allocate (capture, PID, PID, 3000, 0x10, 200, 2);
  release (capture, PID, PID, 4000, 0x10);
  heap = analyse (capture, NULL);
  g_assert_cmpuint (heap->tracker->totals.n_frees_missing, ==, 0);
  assert_metric (heap, SONDE_HEAP_PEAK, 200, 1);
  assert_metric (heap, SONDE_HEAP_LEFT, 100, 1);
  tree = describe (heap, SONDE_HEAP_ALLOCATED);
  assert_has (tree, "prog (pid 5)\n");
  assert_has (tree, "next (pid 5)\n");
}

static void
an_exit_ends_a_heap_and_its_pid_may_come_again (void)
{
  SondeFrameOrigin exit = at (PID, 2500);
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  ADD (sonde_writer_add_exit (capture->writer, &exit));
  allocate (capture, PID, PID, 3000, 0x10, 50, 2);
  release (capture, PID, PID, 4000, 0x10);
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_LEFT, 100, 1);
  assert_metric (heap, SONDE_HEAP_PEAK, 100, 1);
  g_assert_cmpuint (heap->tracker->totals.n_frees_missing, ==, 0);
}

static void
filters_choose_processes (void)
{
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  add_process (capture, 6, "other");
  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, 6, 6, 2000, 0x10, 50, 2);
  release (capture, 6, 6, 3000, 0x99);
  options.filter.comm = (char[]){ "prog" };
  heap = analyse (capture, &options);
  assert_metric (heap, SONDE_HEAP_ALLOCATED, 100, 1);
  assert_metric (heap, SONDE_HEAP_LEFT, 100, 1);
  g_assert_cmpuint (heap->tracker->totals.n_unknown_freed, ==, 0);
}

static void
samples_stand_for_more (void)
{
  const char *settings = "[sonde]\nmemory=sampled\nmemory-interval=1000\n";
  SondeFrameOrigin origin = at (-1, 1000);
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  ADD (sonde_writer_add_metadata (capture->writer, &origin, "sonde", settings, strlen (settings)));
  allocate (capture, PID, PID, 2000, 0x10, 1000, 1);  /* 1 / (1 - exp (-1)) = 1.58198 blocks */
  allocate (capture, PID, PID, 3000, 0x20, 10, 2);    /* 100.5 blocks */
  allocate (capture, PID, PID, 4000, 0x30, 99999, 2); /* 1 block */
  release (capture, PID, PID, 5000, 0x10);
  heap = analyse (capture, NULL);
  g_assert_cmpuint (heap->interval_bytes, ==, 1000);
  assert_amount (&heap->tracker->totals.amounts[SONDE_HEAP_ALLOCATED], 1582 + 1005 + 99999, 103);
  assert_amount (&heap->tracker->totals.freed, 1582, 2);
  assert_amount (&heap->tracker->totals.amounts[SONDE_HEAP_LEFT], 1005 + 99999, 102);
}

static void
moments_show_what_was_live (void)
{
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  allocate (capture, PID, PID, 1 * MS, 0x10, 100, 1);
  allocate (capture, PID, PID, 2 * MS, 0x20, 200, 2);
  release (capture, PID, PID, 3 * MS, 0x10);
  allocate (capture, PID, PID, 4 * MS, 0x30, 400, 2);
  release (capture, PID, PID, 5 * MS, 0x30);
  options.moments_ns[0] = 1 * MS;
  options.moments_ns[1] = 4 * MS;
  heap = analyse (capture, &options);
  assert_metric (heap, SONDE_HEAP_AT_FIRST, 100, 1);
  assert_metric (heap, SONDE_HEAP_AT_SECOND, 600, 2);
}

static void
values_of_any_size_are_safe (void)
{
  static const gint64 times[] = { G_MININT64, 0, G_MAXINT64, G_MININT64, G_MAXINT64 };
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      allocate (capture, PID, PID, times[i], G_MAXUINT64 - i, G_MAXINT64, 1);
      allocate (capture, -1, -1, times[i], i, 1, 1);
      release (capture, PID, PID, times[G_N_ELEMENTS (times) - 1 - i], G_MAXUINT64 - i);
      fork_to (capture, PID, times[i], -1);
    }
  options.temporary_ns = 10;
  options.moments_ns[0] = G_MAXINT64 - 1;
  heap = analyse (capture, &options);
  g_assert_cmpuint (sonde_heap_round (heap->tracker->totals.amounts[0].bytes), ==,
                    G_GUINT64_CONSTANT (9000000000000000000));
}

/* Three threads, drained in turns with runs far apart; each block is freed by the next thread. */
static void
threads_come_in_runs (void)
{
  enum
  {
    N_THREADS = 3,
    RUN = 5000,
    N_RUNS = 20,
  };
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  for (guint run = 0; run < N_RUNS; run++)
    for (guint thread = N_THREADS; thread-- > 0;)
      for (guint i = run * RUN; i < (run + 1) * RUN; i++)
        {
          gint32 tid = (gint32) (PID + thread);
          gint64 time_ns = 2000 + (gint64) i * 100;

          /* the same N_THREADS addresses over and over */
          allocate (capture, PID, tid, time_ns, 1 + thread, 10, 1);
          release (capture, PID, tid, time_ns + 50 + thread, 1 + (thread + 1) % N_THREADS);
        }
  heap = analyse (capture, NULL);
  assert_metric (heap, SONDE_HEAP_ALLOCATED, N_THREADS * RUN * N_RUNS * 10,
                 N_THREADS * RUN * N_RUNS);
  assert_metric (heap, SONDE_HEAP_CROSS_THREAD, N_THREADS * RUN * N_RUNS * 10,
                 N_THREADS * RUN * N_RUNS);
  assert_metric (heap, SONDE_HEAP_LEFT, 0, 0);
  assert_metric (heap, SONDE_HEAP_PEAK, 30, 3);
  g_assert_cmpuint (heap->order.n_late, ==, 0);
  g_assert_cmpuint (heap->tracker->totals.n_unknown_freed, ==, 0);
}

/* A worker tells of a process when it is sampled, which may be after it allocated. */
static void
append_turn (SondeHeapBlockTurn turn,
             guint32 stack,
             const SondeHeapAmount *amount,
             gint64 time_ns,
             gpointer user_data)
{
  g_string_append_printf (user_data, "%c%.0f@%" G_GINT64_FORMAT " ", "+-?"[turn], amount -> bytes,
                          time_ns);
}

/* What is told of blocks adds up to the sums, also where there is no room to follow one. */
static void
blocks_are_told_one_by_one (void)
{
  SondeBudget budget;
  g_autoptr (GString) turns = g_string_new (NULL);
  const SondeHeapTrackerOptions options = { .temporary_ns = -1,
                                            .moments_ns = { G_MAXINT64, G_MAXINT64 },
                                            .budget = &budget,
                                            .block = append_turn,
                                            .user_data = turns };
  g_autoptr (SondeHeapTracker) tracker = sonde_heap_tracker_new (&options);
  const SondeHeapEvent events[]
      = { { .time_ns = 1, .address = 0x10, .size_bytes = 7 },
          { .time_ns = 2, .address = 0x20, .size_bytes = 8 }, /* without room */
          { .time_ns = 3, .address = 0x20, .stack = 1 },
          { .time_ns = 4, .address = 0x10, .size_bytes = 9 }, /* its free is missing */
          { .time_ns = 5, .address = 0x10, .stack = 1 },
          { .time_ns = 6, .address = 0x30, .size_bytes = 5 } };

  sonde_budget_init (&budget);
  budget.left[SONDE_LIMIT_BLOCKS] = 1;
  sonde_heap_tracker_ensure_thread (tracker, PID, PID);
  sonde_heap_tracker_add_stack (tracker, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (events); i++)
    sonde_heap_tracker_take (tracker, &events[i]);
  sonde_heap_tracker_finish (tracker);
  g_assert_cmpstr (turns->str, ==, "+7@1 ?8@2 -7@4 +9@4 -9@5 +5@6 ");
  g_assert_cmpuint (tracker->totals.n_unknown_freed, ==, 1);
}

static void
names_may_come_late (void)
{
  SondeFrameOrigin early = at (PID, 2000);
  SondeFrameOrigin late = at (PID, 2500);
  const guint64 address = 0x1800;
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autofree char *tree = NULL;

  ADD (sonde_writer_add_allocation (capture->writer, &early, PID, 0x10, 100, &address, 1));
  ADD (sonde_writer_add_process (capture->writer, &late, "prog"));
  ADD (sonde_writer_add_map (capture->writer, &late, 0x1000, 0x2000, 0, 0, "/lib/one.so", NULL));
  heap = analyse (capture, NULL);
  tree = describe (heap, SONDE_HEAP_ALLOCATED);
  assert_has (tree, "prog (pid 5)\n 100.0%  100.0%       100 B           1  one.so+0x7ff\n");
}

/* What came first in time is what an allocation belongs to, wherever it stands. */
static void
allocations_belong_to_the_program_of_their_time (void)
{
  SondeFrameOrigin first = at (PID, 1500);
  SondeFrameOrigin second = at (PID, 2500);
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autofree char *tree = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, PID, 3000, 0x20, 50, 2);
  ADD (sonde_writer_add_process (capture->writer, &first, "first"));
  ADD (sonde_writer_add_process (capture->writer, &second, "second"));
  heap = analyse (capture, NULL);
  tree = describe (heap, SONDE_HEAP_ALLOCATED);
  assert_has (tree, "100 B           1  first (pid 5)\n");
  assert_has (tree, "50 B           1  second (pid 5)\n");
}

/* Three threads allocate 100, 200 and 400 bytes at 2, 3 and 4 us; the second frees what the first
 * allocated, and the third its own. */
static SondeHeap *
analyse_cut (const SondeSampleFilter *filter)
{
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (CaptureBuilder) capture = begin ();

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, PID + 1, 3000, 0x20, 200, 2);
  allocate (capture, PID, PID + 2, 4000, 0x30, 400, 1);
  release (capture, PID, PID + 1, 5000, 0x10);
  release (capture, PID, PID + 2, 6000, 0x30);
  release (capture, PID, PID + 2, 7000, 0x40);
  options.filter = *filter;
  return analyse (capture, &options);
}

static void
times_choose_what_was_allocated_then (void)
{
  SondeSampleFilter late = SONDE_SAMPLE_FILTER_INIT;
  SondeSampleFilter early = SONDE_SAMPLE_FILTER_INIT;
  SondeSampleFilter middle = SONDE_SAMPLE_FILTER_INIT;
  g_autoptr (SondeHeap) first = NULL;
  g_autoptr (SondeHeap) second = NULL;
  g_autoptr (SondeHeap) third = NULL;

  early.to_s = 1.5e-6; /* since the capture began, at 1 us */
  first = analyse_cut (&early);
  assert_metric (first, SONDE_HEAP_ALLOCATED, 100, 1);
  assert_metric (first, SONDE_HEAP_LEFT, 0, 0);
  assert_metric (first, SONDE_HEAP_PEAK, 100, 1);
  assert_metric (first, SONDE_HEAP_CROSS_THREAD, 100, 1);
  assert_amount (&first->tracker->totals.freed, 100, 1);
  g_assert_cmpuint (first->tracker->totals.n_unknown_freed, ==, 1);

  late.from_s = 1.5e-6;
  second = analyse_cut (&late);
  assert_metric (second, SONDE_HEAP_ALLOCATED, 600, 2);
  assert_metric (second, SONDE_HEAP_LEFT, 200, 1);
  assert_metric (second, SONDE_HEAP_PEAK, 600, 2);

  middle.from_s = 1.5e-6;
  middle.to_s = 2.5e-6;
  third = analyse_cut (&middle);
  assert_metric (third, SONDE_HEAP_ALLOCATED, 200, 1);
  g_assert_false (sonde_heap_cannot_be_cut (third));
}

static void
threads_choose_what_they_allocated (void)
{
  SondeSampleFilter filter = SONDE_SAMPLE_FILTER_INIT;
  SondeSampleFilter nobody = SONDE_SAMPLE_FILTER_INIT;
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (SondeHeap) empty = NULL;

  filter.tid = PID;
  heap = analyse_cut (&filter);
  assert_metric (heap, SONDE_HEAP_ALLOCATED, 100, 1);
  assert_metric (heap, SONDE_HEAP_LEFT, 0, 0);
  nobody.thread = (char *) "nobody";
  empty = analyse_cut (&nobody);
  assert_metric (empty, SONDE_HEAP_ALLOCATED, 0, 0);
}

/* A child that frees nothing inherits what was chosen, and no more. */
static void
what_is_inherited_is_chosen_too (void)
{
  SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;

  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  allocate (capture, PID, PID, 3000, 0x20, 200, 2);
  fork_to (capture, PID, 4000, PID + 1);
  allocate (capture, PID + 1, PID + 1, 5000, 0x30, 400, 1);
  options.filter.from_s = 1.5e-6;
  heap = analyse (capture, &options);
  assert_metric (heap, SONDE_HEAP_ALLOCATED, 600, 2);
  assert_amount (&heap->tracker->totals.inherited, 200, 1);
}

static void
losses_are_told (void)
{
  const SondeHeapOptions options = SONDE_HEAP_OPTIONS_INIT;
  gint64 values[SONDE_N_LEDGER] = { 0 };
  g_autoptr (CaptureBuilder) capture = begin ();
  g_autoptr (SondeHeap) heap = NULL;
  g_autoptr (GString) header = g_string_new (NULL);

  values[SONDE_LEDGER_EVENTS_LOST_RING] = 3;
  values[SONDE_LEDGER_STREAM_EVENTS_LOST] = 4;
  define_ledger (capture);
  allocate (capture, PID, PID, 2000, 0x10, 100, 1);
  set_ledger (capture, values, SONDE_N_LEDGER);
  heap = analyse (capture, NULL);
  g_assert_cmpuint (sonde_heap_n_lost (heap), ==, 7);
  sonde_heap_append_header (header, heap, &options);
  assert_has (header->str, "Inexact   7 events were lost (record --memory-wait=1000000)");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/heap/values-of-any-size-are-safe", values_of_any_size_are_safe);
  g_test_add_func ("/heap/frees-of-unknown-addresses-are-counted",
                   frees_of_unknown_addresses_are_counted);
  g_test_add_func ("/heap/an-address-that-is-allocated-twice-was-freed-between",
                   an_address_that_is_allocated_twice_was_freed_between);
  g_test_add_func ("/heap/sums-are-exact", sums_are_exact);
  g_test_add_func ("/heap/the-peak-is-what-was-live-then", the_peak_is_what_was_live_then);
  g_test_add_func ("/heap/peaks-of-any-history-are-exact", peaks_of_any_history_are_exact);
  g_test_add_func ("/heap/a-free-may-stand-before-its-allocation",
                   a_free_may_stand_before_its_allocation);
  g_test_add_func ("/heap/threads-come-in-runs", threads_come_in_runs);
  g_test_add_func ("/heap/what-is-freed-before-the-next-allocation-is-temporary",
                   what_is_freed_before_the_next_allocation_is_temporary);
  g_test_add_func ("/heap/what-lives-shorter-than-a-limit-is-temporary",
                   what_lives_shorter_than_a_limit_is_temporary);
  g_test_add_func ("/heap/a-forked-child-has-blocks-of-its-parent",
                   a_forked_child_has_blocks_of_its_parent);
  g_test_add_func ("/heap/a-new-thread-is-no-new-heap", a_new_thread_is_no_new_heap);
  g_test_add_func ("/heap/an-exec-begins-an-empty-heap", an_exec_begins_an_empty_heap);
  g_test_add_func ("/heap/an-exit-ends-a-heap-and-its-pid-may-come-again",
                   an_exit_ends_a_heap_and_its_pid_may_come_again);
  g_test_add_func ("/heap/tells-of-each-block", blocks_are_told_one_by_one);
  g_test_add_func ("/heap/names-may-come-late", names_may_come_late);
  g_test_add_func ("/heap/allocations-belong-to-the-program-of-their-time",
                   allocations_belong_to_the_program_of_their_time);
  g_test_add_func ("/heap/losses-are-told", losses_are_told);
  g_test_add_func ("/heap/times-choose-what-was-allocated-then",
                   times_choose_what_was_allocated_then);
  g_test_add_func ("/heap/threads-choose-what-they-allocated", threads_choose_what_they_allocated);
  g_test_add_func ("/heap/what-is-inherited-is-chosen-too", what_is_inherited_is_chosen_too);
  g_test_add_func ("/heap/filters-choose-processes", filters_choose_processes);
  g_test_add_func ("/heap/samples-stand-for-more", samples_stand_for_more);
  g_test_add_func ("/heap/moments-show-what-was-live", moments_show_what_was_live);
  return g_test_run ();
}
