/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rings of programs, which the test plays, as a whole worker records them. */
#include <fcntl.h>

#include "shared-ring/ring-atomic.h"
#include "tests/unit/worker-fixture.h"

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
  program_name_address (&program, addrs[1], "made_up");
  program_allocate (&program, addrs, 4);
  program_take_sample (&program, addrs, 4);
  program_log_line (&program, "domain");
  program_define_counter (&program, 1, "category", "name");
  program_set_counter (&program, 1, 77);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 4);
  summary = worker_finish (&worker);

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, 4);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 4);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_RECORDED], ==, 1);
  g_assert_cmpuint (summary->n_addrs, ==, 4); /* the marker, and no address of the kernel */
  g_assert_cmpuint (summary->addrs[0], ==, SONDE_CONTEXT_USER);
  g_assert_cmpuint (summary->addrs[1], ==, 0x1000);
  g_assert_cmpstr (g_hash_table_lookup (summary->names, &summary->addrs[2]), ==, "made_up");

  marks = worker_find_frames (&worker, SONDE_FRAME_MARK);
  g_assert_cmpuint (marks->len, ==, 1);
  /* whom the kernel vouches for, whatever the frame claims */
  g_assert_cmpint (((const SondeFrame *) g_ptr_array_index (marks, 0))->pid, ==, getpid ());
  allocations = worker_find_frames (&worker, SONDE_FRAME_ALLOCATION);
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

      program_define_counter (program, 1, "c", "n");
      program_define_counter (program, 1, "c", "n"); /* as each thread of a program does */
      program_set_counter (program, 1, 1);
      program_name_address (program, addrs[0], i == 0 ? "of a" : "of b");
      program_take_sample (program, addrs, 2); /* the second one was never named */
    }
  program_close (&a, TRUE);
  program_close (&b, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = worker_finish (&worker);

  defines = worker_find_frames (&worker, SONDE_FRAME_CTRDEF);
  g_assert_cmpuint (defines->len, ==, 3); /* the ledger's, and one of each */
  for (guint i = 1; i < defines->len; i++)
    {
      const SondeFrameCounterDefine *define = g_ptr_array_index (defines, i);

      g_assert_cmpuint (sonde_counter_id (define->counters[0].id_type), >, SONDE_N_LEDGER);
      g_hash_table_add (ids, GUINT_TO_POINTER (sonde_counter_id (define->counters[0].id_type)));
    }
  g_assert_cmpuint (g_hash_table_size (ids), ==, 2);

  samples = worker_find_frames (&worker, SONDE_FRAME_SAMPLE);
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

/* The addresses that only the worker writes: contexts, and those behind the names. */
static void
check_samples_of_no_place (void)
{
  static const uint64_t addrs[] = { SONDE_CONTEXT_KERNEL, SONDE_CONTEXT_USER, UINT64_MAX };
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) samples = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  program_take_sample (&program, addrs, G_N_ELEMENTS (addrs));
  program_take_sample (&program, addrs, 0);
  program_log_line (&program, "the end");
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  summary = worker_finish (&worker);

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_LOST_RING], ==, 2);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_RECORDED], ==, 0);
  samples = worker_find_frames (&worker, SONDE_FRAME_SAMPLE);
  g_assert_cmpuint (samples->len, ==, 0);
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
  program_log_line (&program, "sonde");
  program_define_counter (&program, 2, "Sonde", "recorded");
  program_set_counter (&program, 2, 1000000);
  program_set_counter (&program, 3, 5); /* that nobody defined */
  program_name_address (&program, addrs[0], "[kernel]");
  program_take_sample (&program, addrs, 1);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = worker_finish (&worker);

  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_REFUSED], ==, 1);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_RECORDED], ==, 1);
  g_assert_cmpuint (summary->addrs[1], >=, SONDE_JIT_ADDRESS_BASE + (UINT64_C (1) << 32));
  logs = worker_find_frames (&worker, SONDE_FRAME_LOG);
  g_assert_cmpstr (((const SondeFrameLog *) g_ptr_array_index (logs, 0))->domain, ==,
                   "sonde (program)");
  defines = worker_find_frames (&worker, SONDE_FRAME_CTRDEF);
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
  gint64 start = program_now_ns ();

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  for (guint i = 0; i < G_N_ELEMENTS (times); i++)
    {
      SondeFrameOrigin origin = program_origin (times[i]);

      g_assert_cmpint (program_commit (&program, sonde_writer_add_mark (
                                                     sonde_ring_writer_frames (program.writer),
                                                     &origin, G_MAXINT64, "g", "n", "m")),
                       ==, 0);
    }
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 3);
  summary = worker_finish (&worker);

  marks = worker_find_frames (&worker, SONDE_FRAME_MARK);
  for (guint i = 0; i < marks->len; i++)
    {
      const SondeFrameMark *mark = g_ptr_array_index (marks, i);

      g_assert_cmpint (mark->frame.time_ns, >=, start);
      g_assert_cmpint (mark->duration_ns, >=, 0);
      g_assert_cmpint (mark->frame.time_ns + mark->duration_ns, <=, program_now_ns ());
    }
  worker_clear (&worker);
}

/* More than a socket holds answers for: each gets its link. */
static void
check_crowd (void)
{
  static const SondeControlHeader request
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };
  const guint n_programs = 400;
  Worker worker = { 0 };
  SondeControlHeader answer;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  for (guint i = 0; i < n_programs; i++)
    while (send (worker.socket, &request, sizeof request, MSG_DONTWAIT) < 0)
      {
        g_assert_cmpint (errno, ==, EAGAIN);
        worker_run (&worker);
      }
  for (guint i = 0; i < n_programs; i++)
    {
      int link = program_receive (&worker, worker.socket, &answer, sizeof answer);

      g_assert_cmpint (link, >=, 0);
      close (link);
    }
  summary = worker_finish (&worker);
  g_assert_false (worker_was_said (&worker, "A control socket of programs was closed"));
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
  program_define_counter (&program, 1, "c", "n");
  program_set_counter (&program, 1, 1);
  program_name_address (&program, addrs[0], "made_up");
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  close (worker.reader);
  worker.reader = worker_open_stream (&worker, 2);
  g_byte_array_set_size (worker.stream, 0);
  worker_run (&worker);

  program_take_sample (&program, addrs, 1);
  program_set_counter (&program, 1, 2);
  program_close (&program, TRUE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 1);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS_BEFORE], ==, 1);
  g_assert_cmpstr (g_hash_table_lookup (summary->names, &summary->addrs[1]), ==, "made_up");
  defines = worker_find_frames (&worker, SONDE_FRAME_CTRDEF);
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
  g_autofree char *where = NULL;

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
  where = g_strdup_printf ("Ring 1 (application) of process %d lost %" G_GUINT64_FORMAT
                           " events between ",
                           getpid (), n_lost);
  program_close (&program, FALSE);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_LOST_RING, n_lost);
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, 10000);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_RECORDED], ==, (gint64) n_written);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, (gint64) n_written);
  g_assert_true (worker_was_said (&worker, "events in rings of programs"));
  g_assert_true (worker_was_said (&worker, where));
  g_assert_false (worker_was_said (&worker, SONDE_LEDGER_CLAIM));
  g_assert_true (worker_was_said (&worker, "left open by a program that is gone"));
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
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_REFUSED, 1);

  sonde_channel_send_simple (worker.control, SONDE_MESSAGE_RESUME, NULL);
  worker_run (&worker);
  g_assert_cmpint (program_mark (&native, "yes"), ==, 0);
  g_assert_cmpint (program_mark (&sysprof, "yes"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 2);
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_REFUSED], ==, 1);
  /* Behind the end of the session there are no events, and its ring is to be given back. */
  g_assert_cmpint (program_mark (&native, "no"), ==, -ECHILD);
  program_close (&native, FALSE);
  program_close (&sysprof, FALSE);
  worker_clear (&worker);
}

/* Events in short are in the capture as if they had come as frames, and are treated alike. */
static void
check_short_events (void)
{
  static const uint64_t first[] = { 0x1000, 0x2000, SONDE_CONTEXT_KERNEL, 0x3000 };
  static const uint64_t other[] = { 0x4000 };
  Worker worker = { 0 };
  Program program, application;
  Program shared = { .link = -1 };
  SondeControlRingAnswer answer;
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) found = NULL;

  worker_init (&worker, SONDE_MEMORY_ALL, 0);
  program = program_open_memory (&worker);
  application = program_open (&worker);
  /* Who has no heap to tell of has no records; threads that share a ring have. */
  g_assert_null (sonde_ring_writer_compact (application.writer));
  program_map (&shared,
               program_ask_ring_of (&worker, program.link, SONDE_PRODUCER_MEMORY, 0, 0, &answer));
  g_assert_nonnull (sonde_ring_writer_compact (shared.writer));
  program_close (&shared, TRUE);
  for (guint i = 1; i <= 1000; i++)
    {
      program_allocate_short (&program, i * 16, i % 2 == 0 ? first : other, i % 2 == 0 ? 4 : 1);
      if (i % 100 == 0)
        g_assert_cmpint (program_mark (&program, "between"), ==, 0);
    }
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1010);
  program_close (&program, TRUE);
  program_close (&application, TRUE);
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 1010);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_LOST_RING], ==, 0);
  found = worker_find_frames (&worker, SONDE_FRAME_ALLOCATION);
  g_assert_cmpuint (found->len, ==, 1000);
  for (guint i = 1; i <= 1000; i++)
    {
      const SondeFrameAllocation *got = g_ptr_array_index (found, i - 1);

      g_assert_cmpint (got->frame.pid, ==, getpid ());
      g_assert_cmpint (got->tid, ==, 7);
      g_assert_cmpuint (got->address, ==, i * 16);
      g_assert_cmpint (got->size_bytes, ==, 24);
      g_assert_cmpuint (got->n_addrs, ==, i % 2 == 0 ? 3 : 1);
      g_assert_cmpuint (got->addrs[got->n_addrs - 1], ==, i % 2 == 0 ? 0x3000 : 0x4000);
    }
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
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 200);
  program_close (&native, FALSE);
  program_close (&sysprof, FALSE);
  worker_clear (&worker);
}

/* A thread is in the middle of an event as its ring is looked at for the last time. */
static void
check_stop_amid_an_event (void)
{
  SondeFrameOrigin origin = { program_now_ns (), 0, getpid () };
  Worker worker = { 0 };
  Program program;
  guint64 n_frames;
  SondeRingLosses losses;
  g_autoptr (StreamSummary) summary = NULL;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  g_assert_cmpint (program_mark (&program, "before"), ==, 0);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  g_assert_cmpint (sonde_writer_add_mark (sonde_ring_writer_frames (program.writer), &origin, 1,
                                          "group", "amid", "message"),
                   ==, 0);
  g_assert_true (sonde_inferiors_drain (worker.session->inferiors, FALSE));
  sonde_ring_writer_commit (program.writer);
  sonde_inferiors_end (worker.session->inferiors);
  summary = worker_finish (&worker);
  sonde_ring_writer_count (program.writer, &n_frames, &losses);
  g_assert_cmpuint (n_frames, ==, 2);
  g_assert_cmpuint (losses.lost_events, ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_LOST_RING], ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 2);
  program_close (&program, FALSE);
  worker_clear (&worker);
}

/* A thread that hardly gets a processor is in the middle of an event as another closes the link. */
static void
check_link_closed_amid_an_event (void)
{
  SondeFrameOrigin origin = { program_now_ns (), 0, getpid () };
  Worker worker = { 0 };
  Program program;
  g_autoptr (StreamSummary) summary = NULL;
  gint64 left_us;

  worker_init (&worker, SONDE_MEMORY_OFF, 0);
  program = program_open (&worker);
  g_assert_cmpint (sonde_writer_add_mark (sonde_ring_writer_frames (program.writer), &origin, 1,
                                          "group", "amid", "message"),
                   ==, 0);
  sonde_clear_fd (&program.link);
  while (sonde_ring_load_relaxed (sonde_ring_writer_pause_word (program.writer))
         != SONDE_RING_IS_LEFT)
    worker_run (&worker);
  left_us = g_get_monotonic_time ();
  while (g_get_monotonic_time () - left_us < 250000)
    {
      worker_run (&worker);
      g_usleep (1000);
    }
  sonde_ring_writer_commit (program.writer);
  worker_wait_count (&worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  program_close (&program, FALSE);
  summary = worker_finish (&worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_LOST_RING], ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, 1);
  worker_clear (&worker);
}

#define N_LEFT 600000

/* A session whose Stop was answered while nobody took what is left in rings, which becomes many
 * times as long as frames. */
typedef struct
{
  Worker worker;
  Program application;
  Program program;
  int reader;
} Deaf;

static void
deaf_begin (Deaf *self)
{
  uint64_t addrs[60];
  SondeControlRingAnswer answer;

  *self = (Deaf){ .program.link = -1 };
  worker_init (&self->worker, SONDE_MEMORY_ALL, 0);
  for (guint i = 0; i < G_N_ELEMENTS (addrs); i++)
    addrs[i] = 0x1000 + i;
  self->application = program_open (&self->worker);
  self->program.link = program_open_link (&self->worker);
  program_map (&self->program,
               program_ask_ring (&self->worker, self->program.link, SONDE_PRODUCER_MEMORY,
                                 SONDE_RING_MAX_BYTES, &answer));
  g_assert_cmpint (program_mark (&self->application, "name"), ==, 0);
  worker_wait_count (&self->worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
  for (guint i = 1; i <= N_LEFT; i++)
    program_allocate_short (&self->program, i * 16, addrs, G_N_ELEMENTS (addrs));

  self->reader = sonde_steal_fd (&self->worker.reader);
}

static void
deaf_stop (Deaf *self)
{
  sonde_channel_send_simple (self->worker.control, SONDE_MESSAGE_STOP, NULL);
  while (worker_find (&self->worker, SONDE_MESSAGE_DRAINED) == NULL)
    {
      worker_run (&self->worker);
      g_usleep (500);
    }
  g_assert_cmpint (worker_count (&self->worker, SONDE_LEDGER_EVENTS_RECORDED), <, N_LEFT);
}

static void
deaf_clear (Deaf *self)
{
  program_close (&self->program, FALSE);
  program_close (&self->application, FALSE);
  sonde_clear_fd (&self->reader);
  worker_clear (&self->worker);
}

/* Behind the answer readers have it, and what others had to say, all the same. */
static void
check_stop_of_the_slow (void)
{
  g_autoptr (StreamSummary) summary = NULL;
  Deaf deaf;

  deaf_begin (&deaf);
  g_assert_cmpint (sonde_ring_writer_check_wanted (deaf.program.writer), ==, 0);
  deaf_stop (&deaf);
  /* Meanwhile the program may come to another session. */
  g_assert_true (sonde_ring_writer_is_left (deaf.program.writer));
  deaf.worker.reader = sonde_steal_fd (&deaf.reader);
  summary = worker_finish (&deaf.worker);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, N_LEFT + 1);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_RECORDED], ==, N_LEFT + 1);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_LOST_RING], ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, N_LEFT + 1);
  deaf_clear (&deaf);
}

/* What was told to a program that closed its link before holds while others' rings are read. */
static void
check_stop_behind_a_leaver (void)
{
  Deaf deaf;

  deaf_begin (&deaf);
  sonde_clear_fd (&deaf.application.link);
  while (!sonde_ring_writer_is_left (deaf.application.writer))
    g_main_context_iteration (NULL, FALSE);
  deaf_stop (&deaf);
  g_assert_true (sonde_ring_writer_is_left (deaf.application.writer));
  deaf_clear (&deaf);
}

/* Who is slower than the session can wait loses what is left: but that it says, and its end. */
static void
check_stop_of_the_very_slow (void)
{
  g_autoptr (StreamSummary) summary = NULL;
  Deaf deaf;
  gint64 lost;

  deaf_begin (&deaf);
  deaf_stop (&deaf);
  deaf.worker.session->urgent_ns = 0;
  for (guint i = 0; i < 1000 && deaf.worker.session->state == SONDE_WORKER_STATE_DRAINING; i++)
    {
      worker_run (&deaf.worker);
      g_usleep (1000);
    }
  deaf.worker.reader = sonde_steal_fd (&deaf.reader);
  summary = worker_finish (&deaf.worker);
  lost = summary->ledger[SONDE_LEDGER_EVENTS_LOST_RING];
  g_assert_cmpint (lost, >, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_PRODUCED], ==, N_LEFT + 1);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_EVENTS_RECORDED], ==, N_LEFT + 1 - lost);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_STREAM_EVENTS], ==, N_LEFT + 1 - lost);
  deaf_clear (&deaf);
}

/* Who takes nothing for half a minute is waited for no longer, though his queue is not full. */
static void
check_stop_of_the_deaf (void)
{
  gint64 end_us = g_get_monotonic_time () + 20 * G_USEC_PER_SEC;
  const SondeMessageSinkClosed *closed;
  Deaf deaf;

  deaf_begin (&deaf);
  deaf_stop (&deaf);
  sonde_recorder_close_stuck (deaf.worker.session->recorder, g_get_monotonic_time ());
  worker_run (&deaf.worker);
  g_assert_null (worker_find (&deaf.worker, SONDE_MESSAGE_SINK_CLOSED));
  sonde_recorder_close_stuck (deaf.worker.session->recorder,
                              g_get_monotonic_time () + 31 * G_USEC_PER_SEC);
  while (deaf.worker.status < 0 && g_get_monotonic_time () < end_us)
    worker_run (&deaf.worker);
  g_assert_cmpint (deaf.worker.status, ==, 0);
  closed = worker_find (&deaf.worker, SONDE_MESSAGE_SINK_CLOSED);
  g_assert_cmpint (closed->reason, ==, ETIMEDOUT);
  g_assert_cmpint (worker_count (&deaf.worker, SONDE_LEDGER_EVENTS_PRODUCED), ==, N_LEFT + 1);
  deaf_clear (&deaf);
}

/* --- whose names and mappings may be told --- */

/* Waits until control is asked for this process, and answers: @status 0 with its own text. */
static void
answer_process (Worker *worker, int status)
{
  SondeMessageProcess answer = { .header.type = SONDE_MESSAGE_PROCESS,
                                 .pid = getpid (),
                                 .status = status,
                                 .start_ticks = 1,
                                 .comm = "test" };
  const SondeMessageProcessRequest *request;
  int fds[2];

  while ((request = worker_find (worker, SONDE_MESSAGE_PROCESS_REQUEST)) == NULL)
    {
      worker_run (worker);
      g_usleep (500);
    }
  g_assert_cmpint (request->pid, ==, getpid ());
  answer.request_id = request->request_id;
  if (status != 0)
    {
      worker_answer (worker, &answer, sizeof answer, -1);
      return;
    }
  answer.fds = SONDE_PROCESS_FD_MAPS | SONDE_PROCESS_FD_CMDLINE;
  fds[0] = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  fds[1] = open ("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  g_assert_true (sonde_channel_send (worker->broker, &answer, sizeof answer, fds, 2, NULL));
}

/* A program that allocates once, and is gone before it could be looked at twice. */
static void
allocate_as (Worker *worker, int status)
{
  static const uint64_t addrs[] = { 0x1000 };
  Program program = program_open (worker);

  answer_process (worker, status);
  program_allocate (&program, addrs, 1);
  program_close (&program, TRUE);
  worker_wait_count (worker, SONDE_LEDGER_EVENTS_RECORDED, 1);
}

/* The broker is asked when it gets its ring. In order of time its name comes first. */
static void
check_name (void)
{
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) processes = NULL;
  g_autoptr (GPtrArray) mappings = NULL;
  g_autoptr (GPtrArray) allocations = NULL;
  g_autofree char *cmdline = NULL;
  const SondeFrameProcess *process;
  Worker worker = { 0 };

  worker_init_for (&worker, 1000, SONDE_MEMORY_ALL, 0);
  allocate_as (&worker, 0);
  summary = worker_finish (&worker);

  processes = worker_find_frames (&worker, SONDE_FRAME_PROCESS);
  mappings = worker_find_frames (&worker, SONDE_FRAME_MAP);
  allocations = worker_find_frames (&worker, SONDE_FRAME_ALLOCATION);
  g_assert_true (g_file_get_contents ("/proc/self/cmdline", &cmdline, NULL, NULL));
  g_assert_cmpuint (processes->len, ==, 1);
  g_assert_cmpuint (mappings->len, >, 0);
  g_assert_cmpuint (allocations->len, ==, 1);
  process = g_ptr_array_index (processes, 0);
  g_assert_cmpint (process->frame.pid, ==, getpid ());
  g_assert_true (g_str_has_prefix (process->cmdline, cmdline));
  g_assert_cmpint (process->frame.time_ns, <=,
                   ((const SondeFrame *) g_ptr_array_index (allocations, 0))->time_ns);
  worker_clear (&worker);
}

/* What a program of somebody else tells by itself is recorded; nothing else is told of it. */
static void
check_foreigner (void)
{
  g_autoptr (StreamSummary) summary = NULL;
  g_autoptr (GPtrArray) processes = NULL;
  g_autoptr (GPtrArray) mappings = NULL;
  g_autoptr (GPtrArray) allocations = NULL;
  const SondeFrameAllocation *allocation;
  Worker worker = { 0 };

  worker_init_for (&worker, 1000, SONDE_MEMORY_ALL, 0);
  allocate_as (&worker, EPERM);
  summary = worker_finish (&worker);

  processes = worker_find_frames (&worker, SONDE_FRAME_PROCESS);
  mappings = worker_find_frames (&worker, SONDE_FRAME_MAP);
  allocations = worker_find_frames (&worker, SONDE_FRAME_ALLOCATION);
  g_assert_cmpuint (processes->len, ==, 0);
  g_assert_cmpuint (mappings->len, ==, 0);
  g_assert_cmpuint (allocations->len, ==, 1);
  allocation = g_ptr_array_index (allocations, 0);
  g_assert_cmpint (allocation->frame.pid, ==, getpid ());
  g_assert_cmpuint (allocation->n_addrs, ==, 1);
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
  TEST ("samples-of-no-place-are-lost-and-counted", check_samples_of_no_place);
  TEST ("times-lie-within-the-session", check_times);
  g_test_add_data_func ("/inferiors/a-program-delivers", NULL, check_delivery);
  g_test_add_data_func ("/inferiors/a-program-delivers-in-the-old-way", "sysprof", check_delivery);
  TEST ("two-programs-with-the-same-numbers-are-told-apart", check_numbers_of_two_programs);
  TEST ("a-crowd-that-asks-at-once-gets-its-links", check_crowd);
  TEST ("a-late-reader-gets-what-is-defined", check_late_reader);
  TEST ("lost-and-delivered-are-what-was-produced", check_losses);
  TEST ("a-pause-stops-programs", check_pause);
  TEST ("a-program-has-its-name-before-its-first-event", check_name);
  TEST ("nothing-is-told-of-a-program-of-somebody-else", check_foreigner);
  TEST ("events-in-short-are-what-frames-are", check_short_events);
  TEST ("a-stop-takes-what-is-in-the-rings", check_stop);
  TEST ("a-stop-takes-what-a-thread-is-just-writing", check_stop_amid_an_event);
  TEST ("a-link-that-closes-leaves-what-a-thread-is-just-writing",
        check_link_closed_amid_an_event);
  TEST ("a-stop-is-answered-before-readers-have-all", check_stop_of_the_slow);
  TEST ("a-stop-calls-nobody-back-who-was-left", check_stop_behind_a_leaver);
  TEST ("a-stop-says-what-a-slow-reader-misses", check_stop_of_the_very_slow);
  TEST ("a-stop-waits-for-no-reader-that-is-stuck", check_stop_of_the_deaf);

  return g_test_run ();
}
