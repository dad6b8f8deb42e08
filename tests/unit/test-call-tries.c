/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Regions of programs, which the test plays, as a whole worker reads them. */
#include "shared-ring/trie-writer.h"
#include "tests/lib/calls-summary.h"
#include "tests/unit/worker-fixture.h"

#define STACK_TOP 0x80000

/* A program whose calls are counted. */
typedef struct
{
  int link;
  SondeTrieMemory memory; /* the trie's */
  SondeTrie *trie;
  SondeTrieWriter *writer;
} Traced;

static void
begin_worker (Worker *worker, SondeTrieMode mode, guint64 memory_bytes)
{
  worker->trace = mode;
  worker->trace_memory_bytes = memory_bytes;
  worker_init (worker, SONDE_MEMORY_OFF, 0);
}

static void
use_region (Traced *traced, int fd)
{
  const SondeTrieUser user = { 0 };
  const SondeTrieRange stack = { 0x10000, 0xf0000 };
  SondeTrieMemory given;

  g_assert_cmpint (sonde_trie_memory_map (fd, &traced->memory), ==, 0);
  traced->memory.header->clock = SONDE_TRIE_COUNTER;
  given = traced->memory;
  g_assert_cmpint (sonde_trie_new (&given, &user, &traced->trie), ==, 0);
  traced->writer = sonde_trie_take_writer (traced->trie, 77, &stack);
  g_assert_nonnull (traced->writer);
  close (fd);
}

static Traced
traced_open (Worker *worker)
{
  Traced traced = { .link = program_open_link (worker) };
  SondeControlRingAnswer answer;

  use_region (&traced,
              program_ask_ring_of (worker, traced.link, SONDE_PRODUCER_TRACER, 0, 0, &answer));
  return traced;
}

/* As the kernel does it. */
static void
traced_close (Traced *traced)
{
  sonde_trie_free (traced->trie);
  sonde_clear_fd (&traced->link);
}

/* The functions of @path, one below the other; each call has ended then, but for those above
 * @depth. */
static void
call (Traced *traced, const char *path, guint n)
{
  guint depth = (guint) strlen (path);

  for (guint i = 0; i + 1 < depth; i++)
    sonde_trie_enter (traced->writer, (guint64) path[i], STACK_TOP - 64 * i);
  for (guint i = 0; i < n; i++)
    {
      sonde_trie_enter (traced->writer, (guint64) path[depth - 1], STACK_TOP - 64 * depth);
      sonde_trie_exit (traced->writer, STACK_TOP - 64 * depth);
    }
  for (guint i = depth - 1; i > 0; i--)
    sonde_trie_exit (traced->writer, STACK_TOP - 64 * (i - 1));
}

static guint64
calls_at (CallsProgram *program, const char *path)
{
  guint64 functions[16];

  for (guint i = 0; path[i] != '\0'; i++)
    functions[i] = (guint64) path[i];
  return calls_of (program, functions, (guint) strlen (path));
}

static GHashTable *
summarize (const Worker *worker)
{
  g_autoptr (GPtrArray) chunks = worker_find_frames (worker, SONDE_FRAME_FILE_CHUNK);

  return calls_summary_new (chunks);
}

static CallsProgram *
only_one (GHashTable *programs)
{
  GHashTableIter iter;
  gpointer program = NULL;

  g_assert_cmpuint (g_hash_table_size (programs), ==, 1);
  g_hash_table_iter_init (&iter, programs);
  g_hash_table_iter_next (&iter, NULL, &program);
  return program;
}

static void
assert_adds_up (CallsProgram *program)
{
  const guint64 *account = program->account;

  g_assert_cmpuint (account[SONDE_CALLS_ACCOUNT_CALLS], ==,
                    account[SONDE_CALLS_ACCOUNT_COUNTED] + account[SONDE_CALLS_ACCOUNT_LOST_BUDGET]
                        + account[SONDE_CALLS_ACCOUNT_LOST_DEPTH]);
  g_assert_cmpuint (account[SONDE_CALLS_ACCOUNT_COUNTED], ==, calls_sum (program));
  g_assert_cmpuint (account[SONDE_CALLS_ACCOUNT_N_PATHS], ==, program->paths->len);
}

static void
wait_files (Worker *worker, guint n_files)
{
  for (;;)
    {
      g_autoptr (GHashTable) programs = NULL;

      worker_run (worker);
      g_usleep (1000);
      programs = summarize (worker);
      if (g_hash_table_size (programs) == 1 && only_one (programs)->n_files >= n_files)
        return;
    }
}

static void
differences_sum_to_the_whole (void)
{
  Worker worker = { 0 };
  Traced traced;
  SondeTrieWriter *other;
  const SondeTrieRange stack = { 0x200000, 0x10000 };
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GHashTable) programs = NULL;
  CallsProgram *program;

  begin_worker (&worker, SONDE_TRIE_EXACT, 4 << 20);
  traced = traced_open (&worker);
  call (&traced, "abc", 1000);
  wait_files (&worker, 1);
  call (&traced, "abc", 500);
  call (&traced, "ax", 3);
  wait_files (&worker, 2);
  /* Another thread, in the same functions. */
  other = sonde_trie_take_writer (traced.trie, 78, &stack);
  sonde_trie_enter (other, 'a', 0x208000);
  sonde_trie_exit (other, 0x208000);
  summary = worker_finish (&worker);

  programs = summarize (&worker);
  program = only_one (programs);
  g_assert_cmpuint (program->n_files, >=, 3);
  g_assert_cmpuint (program->n_wholes, ==, 0);
  g_assert_cmpuint (program->mode, ==, SONDE_TRIE_EXACT);
  g_assert_cmpuint (calls_at (program, "abc"), ==, 1500);
  g_assert_cmpuint (calls_at (program, "ax"), ==, 3);
  g_assert_cmpuint (calls_at (program, "a"), ==, 4);
  for (guint64 i = 1; i <= program->paths->len; i++)
    {
      g_assert_cmpuint (calls_path (program, i)->timed, ==, calls_path (program, i)->calls);
      g_assert_cmpuint (calls_path (program, i)->buckets, ==, calls_path (program, i)->calls);
    }
  g_assert_cmpuint (program->account[SONDE_CALLS_ACCOUNT_N_THREADS], ==, 2);
  assert_adds_up (program);
  g_assert_cmpuint (worker_count (&worker, SONDE_STATISTIC_CALLS), ==, calls_sum (program));
  g_assert_null (program->refused);
  traced_close (&traced);
  worker_clear (&worker);
}

/* Who comes late has all; who was there has it, too, and knows that it stands in place of the rest.
 */
static void
late_reader_has_the_sum (void)
{
  Worker worker = { 0 };
  Traced traced;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GHashTable) first = NULL;
  g_autoptr (GHashTable) late = NULL;
  GByteArray *late_stream = g_byte_array_new ();
  GByteArray *first_stream;
  int reader;

  begin_worker (&worker, SONDE_TRIE_COUNT, 4 << 20);
  traced = traced_open (&worker);
  call (&traced, "ab", 100);
  wait_files (&worker, 1);
  reader = worker_open_stream (&worker, 2);
  worker_run (&worker);
  call (&traced, "ab", 11);
  wait_files (&worker, 2);
  call (&traced, "ac", 5);
  summary = worker_finish (&worker);
  while (!stream_receive (reader, late_stream))
    ;
  close (reader);

  first = summarize (&worker);
  first_stream = worker.stream;
  worker.stream = late_stream;
  late = summarize (&worker);
  worker.stream = first_stream;
  g_byte_array_unref (late_stream);
  g_assert_cmpuint (only_one (first)->n_wholes, ==, 1);
  g_assert_cmpuint (only_one (late)->n_files, <, only_one (first)->n_files);
  for (guint i = 0; i < 2; i++)
    {
      CallsProgram *program = only_one (i == 0 ? first : late);

      g_assert_cmpuint (calls_at (program, "ab"), ==, 111);
      g_assert_cmpuint (calls_at (program, "ac"), ==, 5);
      g_assert_cmpuint (calls_path (program, 2)->timed, ==, 0);
      assert_adds_up (program);
    }
  traced_close (&traced);
  worker_clear (&worker);
}

/* It asked for a region, and nothing in it calls hooks. */
static void
who_calls_no_hook_is_counted (void)
{
  Worker worker = { 0 };
  Traced silent, busy;
  g_autoptr (StreamSummary) summary = NULL;

  begin_worker (&worker, SONDE_TRIE_AUTO, 8 << 20);
  busy = traced_open (&worker);
  silent = traced_open (&worker);
  call (&busy, "a", 1);
  summary = worker_finish (&worker);
  g_assert_cmpuint (worker_count (&worker, SONDE_STATISTIC_TRACES_EMPTY), ==, 1);
  traced_close (&busy);
  traced_close (&silent);
  worker_clear (&worker);
}

/* One lies, and the other's calls are all there. */
static void
lie_ends_its_region_alone (void)
{
  Worker worker = { 0 };
  Traced honest, liar;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GHashTable) programs = NULL;
  GHashTableIter iter;
  gpointer value;
  guint n_refused = 0;

  begin_worker (&worker, SONDE_TRIE_AUTO, 8 << 20);
  honest = traced_open (&worker);
  liar = traced_open (&worker);
  call (&honest, "ab", 100);
  call (&liar, "ab", 100);
  memset (liar.memory.base + (gsize) liar.memory.geometry.slabs_at * SONDE_TRIE_LINE_BYTES, 0xff,
          SONDE_TRIE_SLAB_BYTES);
  worker_wait_count (&worker, SONDE_STATISTIC_TRACES_REFUSED, 1);
  call (&honest, "ab", 23);
  g_assert_cmpuint (liar.memory.header->mode, ==, SONDE_TRIE_OFF);
  g_assert_cmpuint (honest.memory.header->mode, ==, SONDE_TRIE_AUTO);
  summary = worker_finish (&worker);

  g_assert_true (worker_was_said (&worker, "are not counted any more: what it says of them"));
  programs = summarize (&worker);
  g_assert_cmpuint (g_hash_table_size (programs), ==, 2);
  g_hash_table_iter_init (&iter, programs);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      CallsProgram *program = value;

      if (program->refused != NULL)
        n_refused++;
      else
        {
          g_assert_cmpuint (calls_at (program, "ab"), ==, 123);
          assert_adds_up (program);
        }
    }
  g_assert_cmpuint (n_refused, ==, 1);
  traced_close (&honest);
  traced_close (&liar);
  worker_clear (&worker);
}

/* Its memory is ours, and has where it was. */
static void
killed_program_has_last_words (void)
{
  Worker worker = { 0 };
  Traced traced;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GHashTable) programs = NULL;
  CallsProgram *program;
  guint64 words;

  begin_worker (&worker, SONDE_TRIE_AUTO, 4 << 20);
  traced = traced_open (&worker);
  call (&traced, "ab", 10);
  sonde_trie_enter (traced.writer, 'a', STACK_TOP);
  sonde_trie_enter (traced.writer, 'w', STACK_TOP - 64);
  worker_wait_count (&worker, SONDE_STATISTIC_TRACED_PROCESSES, 1);
  traced_close (&traced);
  worker_wait_count (&worker, SONDE_STATISTIC_TRACED_PROCESSES, 0);
  summary = worker_finish (&worker);

  programs = summarize (&worker);
  program = only_one (programs);
  g_assert_cmpuint (program->words->len, ==, 1);
  words = g_array_index (program->words, guint64, 0);
  g_assert_cmpuint (calls_path (program, words)->address, ==, 'w');
  g_assert_cmpuint (calls_path (program, calls_path (program, words)->parent)->address, ==, 'a');
  g_assert_cmpuint (calls_at (program, "aw"), ==, 1);
  assert_adds_up (program);
  worker_clear (&worker);
}

static void
memory_is_divided_and_ends (void)
{
  Worker worker = { 0 };
  GArray *all = g_array_new (FALSE, FALSE, sizeof (Traced));
  g_autoptr (StreamSummary) summary = NULL;
  SondeControlRingAnswer answer;
  gsize sum_bytes = 0;
  int link;
  int fd;

  begin_worker (&worker, SONDE_TRIE_COUNT, 2 << 20);
  for (;;)
    {
      Traced traced = { .link = program_open_link (&worker) };

      fd = program_ask_ring_of (&worker, traced.link, SONDE_PRODUCER_TRACER, 0, 0, &answer);
      if (fd < 0)
        {
          link = traced.link;
          break;
        }
      use_region (&traced, fd);
      sum_bytes += traced.memory.geometry.size_bytes;
      g_array_append_val (all, traced);
    }
  g_assert_cmpint (answer.error, ==, -EDQUOT);
  g_assert_cmpuint (all->len, >=, 4);
  g_assert_cmpuint (sum_bytes, <=, 2 << 20);
  close (link);
  /* One that has a region gets no other. */
  fd = program_ask_ring_of (&worker, g_array_index (all, Traced, 0).link, SONDE_PRODUCER_TRACER, 0,
                            0, &answer);
  g_assert_cmpint (fd, ==, -1);
  g_assert_cmpint (answer.error, ==, -EALREADY);
  summary = worker_finish (&worker);
  g_assert_true (worker_was_said (&worker, "got no memory for its calls"));
  g_assert_cmpuint (worker_count (&worker, SONDE_STATISTIC_TRACES_REFUSED), ==, 1);
  for (guint i = 0; i < all->len; i++)
    traced_close (&g_array_index (all, Traced, i));
  g_array_unref (all);
  worker_clear (&worker);
}

/* A program whose code nobody may change has called nothing, and says why. */
static void
what_calls_no_hook_is_told (void)
{
  Worker worker = { 0 };
  Traced traced;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GHashTable) programs = NULL;
  const CallsProgram *program;

  begin_worker (&worker, SONDE_TRIE_COUNT, 4 << 20);
  traced = traced_open (&worker);
  traced.memory.header->n_functions = 30;
  traced.memory.header->n_patched = 10;
  traced.memory.header->n_refused = 45;
  traced.memory.header->reason = SONDE_CALLS_REASON_PROTECTION;
  summary = worker_finish (&worker);
  programs = summarize (&worker);
  program = only_one (programs);
  g_assert_cmpuint (program->told[0], ==, 30);
  g_assert_cmpuint (program->told[1], ==, 10);
  g_assert_cmpuint (program->told[2], ==, 45);
  g_assert_cmpuint (program->told[3], ==, SONDE_CALLS_REASON_PROTECTION);
  g_assert_true (worker_was_said (&worker, "10 of 30 functions of process"));
  g_assert_true (worker_was_said (&worker, "the kernel refuses to have code changed"));
  traced_close (&traced);
  worker_clear (&worker);
}

/* Nobody counts what he was not asked for. */
static void
session_without_traces_refuses (void)
{
  Worker worker = { 0 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;
  int link;

  begin_worker (&worker, SONDE_TRIE_OFF, 2 << 20);
  link = program_open_link (&worker);
  g_assert_cmpint (program_ask_ring_of (&worker, link, SONDE_PRODUCER_TRACER, 0, 0, &answer), ==,
                   -1);
  g_assert_cmpint (answer.error, ==, -EOPNOTSUPP);
  close (link);
  summary = worker_finish (&worker);
  worker_clear (&worker);
}

static void
budget_leaves_functions_out (void)
{
  Worker worker = { .trace_budget = 1 };
  Traced traced;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GHashTable) programs = NULL;
  CallsProgram *program;

  begin_worker (&worker, SONDE_TRIE_COUNT, 4 << 20);
  traced = traced_open (&worker);
  while (g_atomic_int_get ((gint *) &traced.memory.header->n_left_out) == 0)
    {
      call (&traced, "ab", 10000);
      worker_run (&worker);
    }
  g_assert_cmpuint (traced.memory.header->left_out[0], ==, 'b');
  summary = worker_finish (&worker);
  programs = summarize (&worker);
  program = only_one (programs);
  g_assert_cmpuint (program->uncounted->len, >=, 1);
  g_assert_cmpuint (g_array_index (program->uncounted, guint64, 0), ==, 'b');
  assert_adds_up (program);
  traced_close (&traced);
  worker_clear (&worker);
}

/* A call that lasts keeps its place, whatever the worker does meanwhile. */
static void
long_call_keeps_its_place (void)
{
  Worker worker = { .trace_budget = 1 };
  Traced traced;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GHashTable) programs = NULL;
  guint64 n = 0;

  begin_worker (&worker, SONDE_TRIE_COUNT, 4 << 20);
  g_usleep (2000); /* the clock's frequency is known */
  traced = traced_open (&worker);
  sonde_trie_enter (traced.writer, 'm', STACK_TOP);
  while (g_atomic_int_get ((gint *) &traced.memory.header->n_left_out) == 0)
    {
      for (guint i = 0; i < 10000; i++, n++)
        {
          sonde_trie_enter (traced.writer, 'b', STACK_TOP - 64);
          sonde_trie_exit (traced.writer, STACK_TOP - 64);
        }
      worker_run (&worker);
    }
  /* what is left out is not counted any more, and the next one is where it should be */
  sonde_trie_enter (traced.writer, 'b', STACK_TOP - 64);
  sonde_trie_enter (traced.writer, 'c', STACK_TOP - 128);
  sonde_trie_exit (traced.writer, STACK_TOP - 128);
  sonde_trie_exit (traced.writer, STACK_TOP - 64);
  summary = worker_finish (&worker);
  programs = summarize (&worker);
  g_assert_cmpuint (calls_at (only_one (programs), "m"), ==, 1);
  g_assert_cmpuint (calls_at (only_one (programs), "mb"), ==, n);
  g_assert_cmpuint (calls_at (only_one (programs), "mc"), ==, 1);
  traced_close (&traced);
  worker_clear (&worker);
}

static void
header_has_what_was_asked_for (void)
{
  Worker worker = { .trace_slow_us = 1000, .trace_filter = "*\n!lib:x" };
  Traced traced;
  g_autoptr (StreamSummary) summary = NULL;

  begin_worker (&worker, SONDE_TRIE_AUTO, 4 << 20);
  traced = traced_open (&worker);
  g_assert_cmpmem (traced.memory.header->filter, traced.memory.header->filter_bytes, "*\n!lib:x",
                   8);
  while (g_atomic_pointer_get ((gpointer *) &traced.memory.header->slow_ticks) == NULL)
    {
      call (&traced, "ab", 1);
      worker_run (&worker);
    }
  g_assert_cmpuint (traced.memory.header->mode, ==, SONDE_TRIE_AUTO);
  sonde_channel_send_simple (worker.control, SONDE_MESSAGE_PAUSE, NULL);
  while (g_atomic_int_get ((gint *) &traced.memory.header->mode) != SONDE_TRIE_OFF)
    worker_run (&worker);
  sonde_channel_send_simple (worker.control, SONDE_MESSAGE_RESUME, NULL);
  while (g_atomic_int_get ((gint *) &traced.memory.header->mode) != SONDE_TRIE_AUTO)
    worker_run (&worker);
  summary = worker_finish (&worker);
  traced_close (&traced);
  worker_clear (&worker);
}

/* Its time is the processor's; what it cannot have is cut. */
static void
slow_calls_are_marks (void)
{
  Worker worker = { .trace_slow_us = 1000 };
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) marks = NULL;
  const SondeFrameMark *mark;
  gint64 before, after;
  Traced traced;

  begin_worker (&worker, SONDE_TRIE_EXACT, 4 << 20);
  traced = traced_open (&worker);
  while (g_atomic_pointer_get ((gpointer *) &traced.memory.header->slow_ticks) == NULL)
    {
      call (&traced, "ab", 1);
      worker_run (&worker);
    }
  before = sonde_stream_now_ns ();
  sonde_trie_enter (traced.writer, 'a', STACK_TOP);
  sonde_trie_enter (traced.writer, 'b', STACK_TOP - 64);
  g_usleep (3000);
  sonde_trie_exit (traced.writer, STACK_TOP - 64);
  sonde_trie_exit (traced.writer, STACK_TOP);
  after = sonde_stream_now_ns ();
  summary = worker_finish (&worker);

  marks = worker_find_frames (&worker, SONDE_FRAME_MARK);
  g_assert_cmpuint (marks->len, ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      mark = g_ptr_array_index (marks, i);
      g_assert_cmpstr (mark->group, ==, "slow call");
      g_assert_cmpstr (mark->name, ==, i == 0 ? "0x61" : "0x62");
      g_assert_cmpstr (mark->message, ==, i == 0 ? "0x61" : "0x61 > 0x62");
      g_assert_cmpint (mark->frame.pid, ==, getpid ());
      g_assert_cmpint (mark->duration_ns, >=, 3000000);
      /* Two clocks are compared, each as well as it can be read. */
      g_assert_cmpint (mark->frame.time_ns, >=, before - 1000000);
      g_assert_cmpint (mark->frame.time_ns + mark->duration_ns, <=, after + 1000000);
    }
  traced_close (&traced);
  worker_clear (&worker);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/call-tries/come-in-differences-that-sum-to-the-whole",
                   differences_sum_to_the_whole);
  g_test_add_func ("/call-tries/give-late-readers-the-sum-so-far", late_reader_has_the_sum);
  g_test_add_func ("/call-tries/count-who-calls-no-hook", who_calls_no_hook_is_counted);
  g_test_add_func ("/call-tries/end-with-a-lie-of-their-program-alone", lie_ends_its_region_alone);
  g_test_add_func ("/call-tries/know-where-a-killed-program-was", killed_program_has_last_words);
  g_test_add_func ("/call-tries/divide-their-memory-until-it-ends", memory_is_divided_and_ends);
  g_test_add_func ("/call-tries/tell-what-calls-no-hook", what_calls_no_hook_is_told);
  g_test_add_func ("/call-tries/are-not-there-unasked", session_without_traces_refuses);
  g_test_add_func ("/call-tries/leave-functions-out-above-the-budget", budget_leaves_functions_out);
  g_test_add_func ("/call-tries/keep-the-place-of-calls-that-last", long_call_keeps_its_place);
  g_test_add_func ("/call-tries/tell-programs-what-was-asked-for", header_has_what_was_asked_for);
  g_test_add_func ("/call-tries/tell-slow-calls-as-marks", slow_calls_are_marks);
  return g_test_run ();
}
