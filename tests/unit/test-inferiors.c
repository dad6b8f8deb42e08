/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What programs tell through rings, as a whole worker records it: the test plays the programs. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/base/limits.h"
#include "tests/unit/worker-fixture.h"

#define OTHER_PID 12345

/* The frames of one type in the stream, copies. */
static GPtrArray *
find_frames (const Worker *worker, guint8 type)
{
  GPtrArray *found = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GByteArray) copy = g_byte_array_new ();
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  g_byte_array_append (copy, worker->stream->data, worker->stream->len);
  g_assert_cmpint (sonde_reader_new (stream_source, copy, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    if (frame->type == type)
      g_ptr_array_add (found, g_memdup2 (frame, frame->len));
  sonde_reader_free (reader);

  return found;
}

/* A copy of the whole stream is needed, since reading it empties it. */
static StreamSummary *
finish (Worker *worker)
{
  StreamSummary *summary;
  GByteArray *kept;

  sonde_channel_send_simple (worker->control, SONDE_MESSAGE_STOP, NULL);
  while (worker->status < 0 || !worker->stream_ended)
    worker_run (worker);
  g_assert_cmpint (worker->status, ==, 0);
  kept = g_byte_array_sized_new (worker->stream->len);
  g_byte_array_append (kept, worker->stream->data, worker->stream->len);
  summary = stream_summary_new (worker->stream);
  g_byte_array_unref (worker->stream);
  worker->stream = kept;

  return summary;
}

/* Whether a LOG frame of ours has these words. */
static gboolean
was_said (const Worker *worker, const char *words)
{
  g_autoptr (GPtrArray) logs = find_frames (worker, SONDE_FRAME_LOG);

  for (guint i = 0; i < logs->len; i++)
    {
      const SondeFrameLog *log = g_ptr_array_index (logs, i);

      if (strcmp (log->domain, "sonde") == 0 && strstr (log->message, words) != NULL)
        return TRUE;
    }
  return FALSE;
}

static SondeFrameOrigin
origin_at (gint64 time_ns)
{
  return (SondeFrameOrigin){ .time_ns = time_ns, .cpu = 0, .pid = OTHER_PID };
}

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

static void
define_counter (Program *program, guint32 id, const char *category, const char *name)
{
  SondeFrameOrigin origin = origin_at (now_ns ());
  const SondeCounter counter
      = { .category = category, .name = name, .description = "text", .id = id };

  g_assert_cmpint (program_commit (program, sonde_writer_add_counter_define (
                                                sonde_ring_writer_frames (program->writer), &origin,
                                                &counter, 1)),
                   ==, 0);
}

static void
set_counter (Program *program, guint32 id, gint64 value)
{
  SondeFrameOrigin origin = origin_at (now_ns ());
  const SondeCounterValue values = { .v64 = value };

  g_assert_cmpint (program_commit (program, sonde_writer_add_counter_set (
                                                sonde_ring_writer_frames (program->writer), &origin,
                                                &id, &values, 1)),
                   ==, 0);
}

static void
name_address (Program *program, guint64 address, const char *name)
{
  SondeFrameOrigin origin = origin_at (now_ns ());
  const SondeJitName jit_name = { address, name };

  g_assert_cmpint (
      program_commit (program, sonde_writer_add_jitmap (sonde_ring_writer_frames (program->writer),
                                                        &origin, &jit_name, 1)),
      ==, 0);
}

static void
allocate (Program *program, const uint64_t *addrs, guint n_addrs)
{
  SondeFrameOrigin origin = origin_at (now_ns ());

  g_assert_cmpint (program_commit (program, sonde_writer_add_allocation (
                                                sonde_ring_writer_frames (program->writer), &origin,
                                                7, 0x5000, 64, addrs, n_addrs)),
                   ==, 0);
}

static void
take_sample (Program *program, const uint64_t *addrs, guint n_addrs)
{
  SondeFrameOrigin origin = origin_at (now_ns ());

  g_assert_cmpint (
      program_commit (program, sonde_writer_add_sample (sonde_ring_writer_frames (program->writer),
                                                        &origin, 7, addrs, n_addrs)),
      ==, 0);
}

static void
log_line (Program *program, const char *domain)
{
  SondeFrameOrigin origin = origin_at (now_ns ());

  g_assert_cmpint (
      program_commit (program, sonde_writer_add_log (sonde_ring_writer_frames (program->writer),
                                                     &origin, 64, domain, "a line")),
      ==, 0);
}

/* --- what arrives --- */

static void
check_delivery (gconstpointer is_sysprof)
{
  static const uint64_t addrs[] = { 0x1000, SONDE_JIT_ADDRESS_BASE + 5, (uint64_t) -128, 0x2000 };
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) marks = NULL;
  g_autoptr (GPtrArray) allocations = NULL;
  const SondeFrameAllocation *allocation;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = is_sysprof != NULL ? program_open_sysprof (&worker) : program_open (&worker);
  g_assert_cmpint (program_mark (&program, "first"), ==, 0);
  name_address (&program, addrs[1], "made_up");
  allocate (&program, addrs, 4);
  take_sample (&program, addrs, 4);
  log_line (&program, "domain");
  define_counter (&program, 1, "category", "name");
  set_counter (&program, 1, 77);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 4);
  summary = finish (&worker);

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, 4);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 4);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_RECORDED], ==, 1);
  g_assert_cmpuint (summary->n_addrs, ==, 4); /* the marker, and no address of the kernel */
  g_assert_cmpuint (summary->addrs[0], ==, SONDE_CONTEXT_USER);
  g_assert_cmpuint (summary->addrs[1], ==, 0x1000);
  g_assert_cmpstr (g_hash_table_lookup (summary->names, &summary->addrs[2]), ==, "made_up");

  marks = find_frames (&worker, SONDE_FRAME_MARK);
  g_assert_cmpuint (marks->len, ==, 1);
  /* whom the kernel vouches for, whatever the frame claims */
  g_assert_cmpint (((const SondeFrame *) g_ptr_array_index (marks, 0))->pid, ==, getpid ());
  allocations = find_frames (&worker, SONDE_FRAME_ALLOCATION);
  allocation = g_ptr_array_index (allocations, 0);
  g_assert_cmpint (allocation->frame.pid, ==, getpid ());
  g_assert_cmpuint (allocation->n_addrs, ==, 3);
  worker_clear (&worker);
}

static void
check_numbers_of_two_programs (void)
{
  static const uint64_t addrs[] = { SONDE_JIT_ADDRESS_BASE, SONDE_JIT_ADDRESS_BASE + 1 };
  Worker worker = { 0 };
  Program a, b;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) defines = NULL;
  g_autoptr (GPtrArray) samples = NULL;
  g_autoptr (GHashTable) ids = g_hash_table_new (NULL, NULL);

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  a = program_open (&worker);
  b = program_open (&worker);
  for (guint i = 0; i < 2; i++)
    {
      Program *program = i == 0 ? &a : &b;

      define_counter (program, 1, "c", "n");
      define_counter (program, 1, "c", "n"); /* as each thread of a program does */
      set_counter (program, 1, 1);
      name_address (program, addrs[0], i == 0 ? "of a" : "of b");
      take_sample (program, addrs, 2); /* the second one was never named */
    }
  program_close (&a, TRUE);
  program_close (&b, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = finish (&worker);

  defines = find_frames (&worker, SONDE_FRAME_CTRDEF);
  g_assert_cmpuint (defines->len, ==, 3); /* the ledger's, and one of each */
  for (guint i = 1; i < defines->len; i++)
    {
      const SondeFrameCounterDefine *define = g_ptr_array_index (defines, i);

      g_assert_cmpuint (sonde_counter_id (define->counters[0].id_type), >, SONDE_N_LEDGER);
      g_hash_table_add (ids, GUINT_TO_POINTER (sonde_counter_id (define->counters[0].id_type)));
    }
  g_assert_cmpuint (g_hash_table_size (ids), ==, 2);

  samples = find_frames (&worker, SONDE_FRAME_SAMPLE);
  g_assert_cmpuint (samples->len, ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      const SondeFrameSample *sample = g_ptr_array_index (samples, i);
      uint64_t named = sample->addrs[1];
      uint64_t unnamed = sample->addrs[2];

      g_assert_cmpstr (g_hash_table_lookup (summary->names, &named), ==, i == 0 ? "of a" : "of b");
      g_assert_cmpstr (g_hash_table_lookup (summary->names, &unnamed), ==, "[unknown name]");
    }
  worker_clear (&worker);
}

/* What sonded says of a capture, and what its ledger is read from. */
static void
check_impostors (void)
{
  static const uint64_t addrs[] = { SONDE_JIT_ADDRESS_BASE };
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) logs = NULL;
  g_autoptr (GPtrArray) defines = NULL;
  const SondeFrameCounterDefine *define;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  log_line (&program, "sonde");
  define_counter (&program, 2, "Sonde", "recorded");
  set_counter (&program, 2, 1000000);
  set_counter (&program, 3, 5); /* that nobody defined */
  name_address (&program, addrs[0], "[kernel]");
  take_sample (&program, addrs, 1);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = finish (&worker);

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_REFUSED], ==, 1);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_RECORDED], ==, 1);
  g_assert_cmpuint (summary->addrs[1], >=, SONDE_JIT_ADDRESS_BASE + (UINT64_C (1) << 32));
  logs = find_frames (&worker, SONDE_FRAME_LOG);
  g_assert_cmpstr (((const SondeFrameLog *) g_ptr_array_index (logs, 0))->domain, ==,
                   "sonde (program)");
  defines = find_frames (&worker, SONDE_FRAME_CTRDEF);
  define = g_ptr_array_index (defines, 1);
  g_assert_cmpstr (define->counters[0].category, ==, "Sonde (program)");
  worker_clear (&worker);
}

static void
check_times (void)
{
  const gint64 times[] = { G_MININT64, 0, G_MAXINT64 };
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) marks = NULL;
  gint64 start = now_ns ();

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      SondeFrameOrigin origin = origin_at (times[i]);

      g_assert_cmpint (program_commit (&program, sonde_writer_add_mark (
                                                     sonde_ring_writer_frames (program.writer),
                                                     &origin, G_MAXINT64, "g", "n", "m")),
                       ==, 0);
    }
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 3);
  summary = finish (&worker);

  marks = find_frames (&worker, SONDE_FRAME_MARK);
  for (guint i = 0; i < marks->len; i++)
    {
      const SondeFrameMark *mark = g_ptr_array_index (marks, i);

      g_assert_cmpint (mark->frame.time_ns, >=, start);
      g_assert_cmpint (mark->duration_ns, >=, 0);
      g_assert_cmpint (mark->frame.time_ns + mark->duration_ns, <=, now_ns ());
    }
  worker_clear (&worker);
}

/* A reader that comes late gets the counters and names that are in use. */
static void
check_late_reader (void)
{
  static const uint64_t addrs[] = { SONDE_JIT_ADDRESS_BASE };
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) defines = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  define_counter (&program, 1, "c", "n");
  set_counter (&program, 1, 1);
  name_address (&program, addrs[0], "made_up");
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  close (worker.reader);
  worker.reader = worker_open_stream (&worker, 2);
  g_byte_array_set_size (worker.stream, 0);
  worker_run (&worker);

  take_sample (&program, addrs, 1);
  set_counter (&program, 1, 2);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 1);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS_BEFORE], ==, 1);
  g_assert_cmpstr (g_hash_table_lookup (summary->names, &summary->addrs[1]), ==, "made_up");
  defines = find_frames (&worker, SONDE_FRAME_CTRDEF);
  g_assert_cmpuint (defines->len, ==, 2);
  worker_clear (&worker);
}

/* --- what is lost --- */

static void
check_losses (void)
{
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  guint64 n_written = 0, n_lost = 0;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  /* The worker, which is this thread, does not look: most have no room. */
  for (guint i = 0; i < 10000; i++)
    {
      int r = program_mark (&program, "name");

      g_assert_true (r == 0 || r == -ENOBUFS);
      n_written += r == 0;
      n_lost += r != 0;
    }
  g_assert_cmpuint (n_lost, >, 5000);
  program_close (&program, FALSE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_LOST_RING, n_lost);
  summary = finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, 10000);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_RECORDED], ==, (gint64) n_written);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, (gint64) n_written);
  g_assert_true (was_said (&worker, "events in rings of programs"));
  g_assert_true (was_said (&worker, "left open by a program that is gone"));
  worker_clear (&worker);
}

/* What a native program does not send, and what one of the old kind sends all the same. */
static void
check_pause (void)
{
  Worker worker = { 0 };
  Program native, sysprof;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  native = program_open (&worker);
  sysprof = program_open_sysprof (&worker);
  sonde_channel_send_simple (worker.control, SONDE_MESSAGE_PAUSE, NULL);
  worker_run (&worker);
  g_assert_cmpint (program_mark (&native, "no"), ==, -EAGAIN);
  g_assert_cmpint (program_mark (&sysprof, "no"), ==, 0);
  worker_wait_until_ns (&worker, g_get_monotonic_time () + 300000);

  sonde_channel_send_simple (worker.control, SONDE_MESSAGE_RESUME, NULL);
  worker_run (&worker);
  g_assert_cmpint (program_mark (&native, "yes"), ==, 0);
  g_assert_cmpint (program_mark (&sysprof, "yes"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_REFUSED], ==, 1);
  /* Behind the end of the session there are no events. */
  g_assert_cmpint (program_mark (&native, "no"), ==, -EAGAIN);
  program_close (&native, FALSE);
  program_close (&sysprof, FALSE);
  worker_clear (&worker);
}

/* What is in the rings when the session ends is in the capture. */
static void
check_stop (void)
{
  Worker worker = { 0 };
  Program native, sysprof;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  native = program_open (&worker);
  sysprof = program_open_sysprof (&worker);
  for (guint i = 0; i < 100; i++)
    {
      g_assert_cmpint (program_mark (&native, "n"), ==, 0);
      g_assert_cmpint (program_mark (&sysprof, "n"), ==, 0);
    }
  summary = finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 200);
  program_close (&native, FALSE);
  program_close (&sysprof, FALSE);
  worker_clear (&worker);
}

static void
check_memory_mode (void)
{
  SondeControlRingAnswer answer;
  Worker off = { 0 }, on = { 0 };
  int link, ring;

  worker_init (&off, SONDE_MEMORY_OFF, 0);
  link = program_open_link (&off);
  g_assert_cmpint (program_ask_ring (&off, link, SONDE_PRODUCER_MEMORY, 0, &answer), ==, -1);
  g_assert_cmpint (answer.error, ==, -EOPNOTSUPP);
  g_assert_cmpint (program_ask_ring (&off, link, SONDE_PRODUCER_TRACER, 0, &answer), ==, -1);
  g_assert_cmpint (answer.error, ==, -EOPNOTSUPP);
  close (link);
  worker_clear (&off);

  worker_init (&on, SONDE_MEMORY_SAMPLED, 250);
  link = program_open_link (&on);
  ring = program_ask_ring (&on, link, SONDE_PRODUCER_MEMORY, 1 << 20, &answer);
  g_assert_cmpuint (answer.memory_mode, ==, SONDE_MEMORY_SAMPLED);
  g_assert_cmpuint (answer.memory_interval_bytes, ==, 4096);
  g_assert_cmpuint (answer.max_depth, ==, 16);
  {
    SondeRingMemory memory;

    g_assert_cmpint (sonde_ring_memory_map (ring, &memory), ==, 0);
    g_assert_cmpuint (memory.wait_us, ==, 250);
    g_assert_cmpuint (memory.size_bytes, ==, 1 << 20);
    sonde_ring_memory_unmap (&memory);
  }
  close (ring);
  g_assert_cmpint (program_ask_ring (&on, link, SONDE_PRODUCER_MEMORY, 5000, &answer), ==, -1);
  g_assert_cmpint (answer.error, ==, -EINVAL);
  close (link);
  worker_clear (&on);
}

#define TEST(name, function) g_test_add_func ("/inferiors/" name, function)

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  TEST ("a-memory-collector-is-refused-unless-it-was-asked-for", check_memory_mode);
  TEST ("nobody-speaks-for-sonded", check_impostors);
  TEST ("times-lie-within-the-session", check_times);
  g_test_add_data_func ("/inferiors/a-program-delivers", NULL, check_delivery);
  g_test_add_data_func ("/inferiors/a-program-delivers-in-the-old-way", "sysprof", check_delivery);
  TEST ("two-programs-with-the-same-numbers-are-told-apart", check_numbers_of_two_programs);
  TEST ("a-late-reader-gets-what-is-defined", check_late_reader);
  TEST ("lost-and-delivered-are-what-was-produced", check_losses);
  TEST ("a-pause-stops-programs", check_pause);
  TEST ("a-stop-takes-what-is-in-the-rings", check_stop);

  return g_test_run ();
}
