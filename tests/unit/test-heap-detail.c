/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Log and sums of heap events, as a whole worker writes it for readers that come at any time. */
#include "client/model/heap-log-reader.h"
#include "client/model/heap-sums-reader.h"

#include "tests/unit/worker-fixture.h"

typedef struct
{
  GPtrArray *events; /* copies of ALLOCATION frames */
  SondeHeapLogCounts counts;
} Log;

static void
take_event (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  guint n_addrs = stack != NULL ? stack->n_addrs : 0;
  SondeFrameAllocation *frame = g_malloc0 (sizeof *event + n_addrs * sizeof (guint64));

  *frame = *event;
  frame->n_addrs = (guint16) n_addrs;
  if (stack != NULL)
    memcpy (frame->addrs, stack->addrs, n_addrs * sizeof (guint64));
  g_ptr_array_add (user_data, frame);
}

static void
read_log (Log *self, const Worker *worker)
{
  g_autoptr (GPtrArray) chunks = worker_find_frames (worker, SONDE_FRAME_FILE_CHUNK);
  g_autoptr (GPtrArray) frames = worker_find_frames (worker, SONDE_FRAME_ALLOCATION);
  g_autoptr (SondeHeapLogReader) reader = NULL;

  g_assert_cmpuint (frames->len, ==, 0);
  self->events = g_ptr_array_new_with_free_func (g_free);
  reader = sonde_heap_log_reader_new (take_event, self->events);
  for (guint i = 0; i < chunks->len; i++)
    sonde_heap_log_reader_add (reader, g_ptr_array_index (chunks, i));
  self->counts = *sonde_heap_log_reader_counts (reader);
  g_assert_null (self->counts.fault);
  g_assert_cmpuint (self->counts.n_told, ==, self->counts.n_events);
}

static const SondeFrameAllocation *
event_at (const Log *self, guint i)
{
  g_assert_cmpuint (i, <, self->events->len);
  return g_ptr_array_index (self->events, i);
}

static void
check_events (void)
{
  static const uint64_t addrs[] = { 0x1000, SONDE_JIT_ADDRESS_BASE + 5, (uint64_t) -128, 0x2000 };
  Worker worker = { .memory_detail = SONDE_MEMORY_DETAIL_LOG };
  g_autoptr (StreamSummary) summary = NULL;
  Program program;
  uint64_t name;
  Log log;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  program = program_open_memory (&worker);
  program_name_address (&program, addrs[1], "made_up");
  program_allocate_short (&program, 0x6000, addrs, 2);
  program_allocate (&program, addrs, 4);
  program_mark (&program, "a mark is a frame as ever");
  program_allocate (&program, addrs, 4);
  program_allocate_short (&program, 0x7000, NULL, 0);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 5);
  summary = worker_finish (&worker);
  read_log (&log, &worker);

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, 5);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 5);
  g_assert_cmpuint (summary->n_events, ==, 5);
  g_assert_cmpuint (log.events->len, ==, 4);
  for (guint i = 0; i < 4; i++)
    {
      g_assert_cmpint (event_at (&log, i)->frame.pid, ==, getpid ());
      g_assert_cmpint (event_at (&log, i)->tid, ==, 7);
    }
  g_assert_cmpint (event_at (&log, 0)->size_bytes, ==, 24);
  g_assert_cmpint (event_at (&log, 1)->size_bytes, ==, 64);
  /* no address of the kernel, and the session's own for what has a name */
  g_assert_cmpuint (event_at (&log, 1)->n_addrs, ==, 3);
  memcpy (&name, event_at (&log, 1)->addrs + 1, sizeof name);
  g_assert_cmpstr (g_hash_table_lookup (summary->names, &name), ==, "made_up");
  /* where the one before it lay */
  g_assert_cmphex (event_at (&log, 2)->address, ==, event_at (&log, 1)->address);
  g_assert_cmpuint (event_at (&log, 3)->n_addrs, ==, 0);
  g_ptr_array_unref (log.events);
  worker_clear (&worker);
}

static void
check_late_reader (void)
{
  static const uint64_t addrs[] = { 0x1000, 0x2000 };
  Worker worker = { .memory_detail = SONDE_MEMORY_DETAIL_LOG };
  g_autoptr (StreamSummary) summary = NULL;
  Program program;
  Log log;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  program = program_open_memory (&worker);
  program_allocate (&program, addrs, 2);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  close (worker.reader);
  worker.reader = worker_open_stream (&worker, 2);
  g_byte_array_set_size (worker.stream, 0);
  worker_run (&worker);

  program_allocate (&program, addrs, 2);
  program_allocate_short (&program, 0x7000, addrs, 2);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 3);
  summary = worker_finish (&worker);
  read_log (&log, &worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 2);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS_BEFORE], ==, 1);
  g_assert_cmpuint (log.events->len, ==, 2);
  for (guint i = 0; i < 2; i++)
    g_assert_cmpuint (event_at (&log, i)->n_addrs, ==, 2);
  g_assert_cmphex (event_at (&log, 0)->address, ==, SONDE_HEAP_LOG_ADDRESS (1));
  g_assert_cmphex (event_at (&log, 1)->address, ==, SONDE_HEAP_LOG_ADDRESS (2));
  g_ptr_array_unref (log.events);
  worker_clear (&worker);
}

static void
look_for_short (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  if (event->size_bytes == 24)
    *(gboolean *) user_data = TRUE;
}

/* Whether what program_allocate_short() made is in the stream. */
static gboolean
was_told (const Worker *worker)
{
  g_autoptr (GPtrArray) chunks = worker_find_frames (worker, SONDE_FRAME_FILE_CHUNK);
  g_autoptr (SondeHeapLogReader) reader = NULL;
  gboolean is_there = FALSE;

  reader = sonde_heap_log_reader_new (look_for_short, &is_there);
  for (guint i = 0; i < chunks->len; i++)
    sonde_heap_log_reader_add (reader, g_ptr_array_index (chunks, i));
  return is_there;
}

/* A program whose events are all of the same time keeps its ring full. */
static void
check_old_times (void)
{
  static const uint64_t addrs[] = { 0x1000, 0x2000 };
  const gint64 end_us = g_get_monotonic_time () + 10 * G_USEC_PER_SEC;
  const SondeFrameOrigin origin = { .time_ns = 1, .cpu = -1, .pid = 1 };
  Worker worker = { .memory_detail = SONDE_MEMORY_DETAIL_LOG };
  Program liar, program;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  liar = program_open_memory (&worker);
  program = program_open_memory (&worker);
  program_allocate_short (&program, 0x6000, addrs, 2);
  for (guint i = 0; i % 256 != 255 || !was_told (&worker); i++)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, end_us);
      while (program_commit (&liar,
                             sonde_writer_add_allocation (sonde_ring_writer_frames (liar.writer),
                                                          &origin, 7, 0x5000, 64, addrs, 2))
             == 0)
        ;
      g_main_context_iteration (NULL, FALSE);
      stream_receive (worker.reader, worker.stream);
      g_usleep (100);
    }
  program_close (&liar, TRUE);
  program_close (&program, TRUE);
  stream_summary_free (worker_finish (&worker));
  worker_clear (&worker);
}

/* A program goes on in a larger ring, and does not end the one before it. */
static void
check_open_end (void)
{
  static const uint64_t addrs[] = { 0x1000, 0x2000 };
  const gint64 end_us = g_get_monotonic_time () + 10 * G_USEC_PER_SEC;
  Worker worker = { .memory_detail = SONDE_MEMORY_DETAIL_LOG };
  SondeControlRingAnswer answer;
  Program liar, larger, program;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  liar = program_open_memory (&worker);
  larger = (Program){ .link = liar.link };
  program_map (&larger, program_ask_ring_as (&worker, liar.link, 43, 42, &answer));
  program_allocate (&larger, addrs, 2);
  program = program_open_memory (&worker);
  program_allocate_short (&program, 0x6000, addrs, 2);
  while (!was_told (&worker))
    {
      g_assert_cmpint (g_get_monotonic_time (), <, end_us);
      worker_run (&worker);
      g_usleep (1000);
    }
  larger.link = -1;
  program_close (&larger, TRUE);
  program_close (&liar, TRUE);
  program_close (&program, TRUE);
  stream_summary_free (worker_finish (&worker));
  worker_clear (&worker);
}

/* --- sums --- */

typedef struct
{
  SondeHeapSumsReader *reader;
  guint n_addrs; /* of the stack that was told last */
} Sums;

static void
take_stack (guint32 sum, gint32 pid, gint64 time_ns, SondeHeapLogStack *stack, gpointer user_data)
{
  Sums *self = user_data;

  g_assert_cmpint (pid, ==, getpid ());
  self->n_addrs = stack->n_addrs;
}

static void
read_sums (Sums *self, const Worker *worker)
{
  const SondeHeapSumsFuncs funcs = { .stack = take_stack };
  g_autoptr (GPtrArray) chunks = worker_find_frames (worker, SONDE_FRAME_FILE_CHUNK);
  g_autoptr (GPtrArray) frames = worker_find_frames (worker, SONDE_FRAME_ALLOCATION);
  const SondeHeapSumsCounts *counts;

  g_assert_cmpuint (frames->len, ==, 0);
  self->reader = sonde_heap_sums_reader_new (&funcs, self);
  for (guint i = 0; i < chunks->len; i++)
    sonde_heap_sums_reader_add (self->reader, g_ptr_array_index (chunks, i));
  counts = sonde_heap_sums_reader_counts (self->reader);
  g_assert_cmpstr (counts->log.fault, ==, NULL);
  g_assert_cmpuint (counts->log.n_told, ==, counts->log.n_events);
  g_assert_cmpstr (sonde_heap_sums_reader_check (self->reader), ==, NULL);
}

static void
check_sums (void)
{
  static const uint64_t addrs[] = { 0x1000, 0x2000, (uint64_t) -128 };
  Worker worker = { .memory_detail = SONDE_MEMORY_DETAIL_SUMS };
  g_autoptr (StreamSummary) summary = NULL;
  const SondeHeapSumsSegment *header;
  Program program;
  Sums sums;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  program = program_open_memory (&worker);
  for (guint i = 0; i < 5; i++)
    program_allocate_short (&program, 0x6000 + 64 * i, addrs, 3);
  program_mark (&program, "a mark is a frame as ever");
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 6);
  summary = worker_finish (&worker);
  read_sums (&sums, &worker);
  header = &sonde_heap_sums_reader_counts (sums.reader)->header;

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, 6);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 6);
  g_assert_cmpuint (summary->n_events, ==, 6);
  g_assert_cmpuint (sonde_heap_sums_reader_n_sums (sums.reader), ==, 1);
  g_assert_cmpuint (sums.n_addrs, ==, 2); /* no address of the kernel */
  g_assert_cmpuint (header->n_allocated, ==, 5);
  g_assert_cmpuint (header->live.bytes + header->left.bytes, ==, 5 * 24);
  g_assert_cmpuint (header->at_peak.blocks, ==, 5);
  sonde_heap_sums_reader_free (sums.reader);
  worker_clear (&worker);
}

/* Who comes later has what was live by then, and the ledger says that he has not seen it come. */
static void
check_late_reader_of_sums (void)
{
  static const uint64_t addrs[] = { 0x1000, 0x2000 };
  Worker worker = { .memory_detail = SONDE_MEMORY_DETAIL_SUMS };
  g_autoptr (StreamSummary) summary = NULL;
  const SondeHeapSumsCounts *counts;
  Program program;
  Sums sums;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  program = program_open_memory (&worker);
  program_allocate_short (&program, 0x6000, addrs, 2);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  close (worker.reader);
  worker.reader = worker_open_stream (&worker, 2);
  g_byte_array_set_size (worker.stream, 0);
  worker_run (&worker);

  program_allocate_short (&program, 0x7000, addrs, 2);
  program_allocate (&program, addrs, 1);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 3);
  summary = worker_finish (&worker);
  read_sums (&sums, &worker);
  counts = sonde_heap_sums_reader_counts (sums.reader);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 2);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS_BEFORE], ==, 1);
  g_assert_cmpuint (counts->n_before, ==, 1);
  g_assert_cmpuint (counts->header.n_allocated, ==, 3);
  g_assert_cmpuint (sonde_heap_sums_reader_n_sums (sums.reader), ==, 2);
  g_assert_cmpuint (counts->header.live.bytes + counts->header.left.bytes, ==, 2 * 24 + 64);
  sonde_heap_sums_reader_free (sums.reader);
  worker_clear (&worker);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/heap-detail/the-log-has-what-frames-have", check_events);
  g_test_add_func ("/heap-detail/a-late-reader-can-read-it", check_late_reader);
  g_test_add_func ("/heap-detail/sums-have-what-frames-have", check_sums);
  g_test_add_func ("/heap-detail/a-late-reader-has-all-sums", check_late_reader_of_sums);
  g_test_add_func ("/heap-detail/old-times-hold-nobody-up", check_old_times);
  g_test_add_func ("/heap-detail/an-open-end-holds-nobody-up", check_open_end);
  return g_test_run ();
}
