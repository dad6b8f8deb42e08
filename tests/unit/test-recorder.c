/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Frames in a stream, and what happened that made the recorder write them. */
#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "daemon/base/socket.h"
#include "daemon/capture/process/sampler.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/recorder-fixture.h"
#include "tests/lib/stream-summary.h"

#define PID 10

typedef struct
{
  RecorderFixture base;
  int reader;
  GByteArray *stream;
  guint n_closed;
} Fixture;

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_cmpuint (sink_id, ==, 1);
  g_assert_cmpint (reason, ==, 0);
  fixture->n_closed++;
}

static const SondeMessageSink all_frames = { .sink_id = 1,
                                             .kind = SONDE_SINK_STREAM,
                                             .buffer_size_bytes = 1 << 20,
                                             .frames = SONDE_SINK_FRAMES_ALL };

static int
add_sink (Fixture *fixture)
{
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &all_frames), ==, 0);

  return fds[1];
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, sink_closed, fixture);
  fixture->stream = g_byte_array_new ();
  fixture->reader = add_sink (fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_clear (&fixture->base);
  sonde_clear_fd (&fixture->reader);
  g_byte_array_unref (fixture->stream);
}

static StreamSummary *
finish (Fixture *fixture)
{
  sonde_recorder_finish (fixture->base.recorder, NULL);
  while (!stream_receive (fixture->reader, fixture->stream))
    g_main_context_iteration (NULL, FALSE);

  return stream_summary_new (fixture->stream);
}

static void
record_addrs (Fixture *fixture, const uint64_t *addrs, size_t n_addrs)
{
  SondeStack stack = { 5000, 0, PID, PID, addrs, n_addrs };

  sonde_tally_sample_read (&fixture->base.tally);
  sonde_recorder_sample (fixture->base.recorder, &stack);
}

static void
record_sample (Fixture *fixture)
{
  static const uint64_t addrs[] = { SONDE_CONTEXT_USER, 0x1000 };

  record_addrs (fixture, addrs, G_N_ELEMENTS (addrs));
}

static SondeProcess *
add_process (Fixture *fixture, guint n_mappings)
{
  SondeProcess *process = sonde_process_table_ensure (fixture->base.processes, PID, 1);

  for (guint i = 0; i < n_mappings; i++)
    {
      SondeProcessMapping mapping = { .start = 0x100000ull * (i + 1),
                                      .end = 0x100000ull * (i + 1) + 0x1000,
                                      .file = { .inode = i + 1, .dev_major = 8 },
                                      .path = "/usr/bin/program (deleted)" };

      g_assert_cmpint (sonde_process_add_mapping (fixture->base.processes, process, &mapping,
                                                  SONDE_MAP_FROM_EVENT),
                       ==, 1);
    }

  return process;
}

/* --- cases --- */

static gboolean
adds_up (const SondeTally *tally)
{
  const guint64 *values = tally->values;

  return values[SONDE_LEDGER_PRODUCED]
             == values[SONDE_LEDGER_RECORDED] + values[SONDE_LEDGER_LOST_KERNEL]
                    + values[SONDE_LEDGER_LOST_RING] + values[SONDE_LEDGER_LOST_QUEUE]
         && values[SONDE_LEDGER_EVENTS_PRODUCED]
                == values[SONDE_LEDGER_EVENTS_RECORDED] + values[SONDE_LEDGER_EVENTS_LOST_RING]
                       + values[SONDE_LEDGER_EVENTS_REFUSED];
}

static void
counts_a_sample_that_fits_no_frame (Fixture *fixture, gconstpointer data)
{
  g_autofree uint64_t *addrs = g_new0 (uint64_t, 8192);
  g_autoptr (StreamSummary) summary = NULL;

  record_addrs (fixture, addrs, 8192);
  record_sample (fixture);
  g_assert_cmpuint (fixture->base.tally.values[SONDE_LEDGER_LOST_QUEUE], ==, 1);
  g_assert_true (adds_up (&fixture->base.tally));
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_nonnull (strstr (summary->log, "1 samples before the recorder"));
}

/* A program may change its names as often as it likes: the stream has each turn's last one. */
static void
tells_names_once_a_turn (Fixture *fixture, gconstpointer data)
{
  SondeProcess *process = add_process (fixture, 0);
  g_autoptr (StreamSummary) summary = NULL;
  g_autofree char *lines = NULL;

  sonde_recorder_process (fixture->base.recorder, process, 10);
  for (int i = 0; i < 1000; i++)
    {
      g_autofree char *name = g_strdup_printf ("name-%d", i);

      sonde_process_table_set_comm (fixture->base.processes, PID, name);
      sonde_recorder_renamed (fixture->base.recorder, process);
      sonde_recorder_thread (fixture->base.recorder, PID, PID + 1, name, 20 + i);
      sonde_recorder_thread (fixture->base.recorder, PID, PID + 2, name, 20 + i);
      if (i == 500)
        { /* what it was called when it was sampled, and when a thread ended */
          sonde_recorder_process (fixture->base.recorder, process, 20 + i);
          record_sample (fixture);
          sonde_recorder_settle_task (fixture->base.recorder, PID, PID + 2, 20 + i);
          sonde_stream_state_forget_task (fixture->base.state, PID, PID + 2);
        }
    }
  sonde_recorder_settle_names (fixture->base.recorder, FALSE);
  sonde_recorder_settle_names (fixture->base.recorder, TRUE);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 3);
  lines = g_strndup ((const char *) summary->file->data, summary->file->len);
  g_assert_cmpstr (lines, ==,
                   "thread 10 12 520 name-500\nthread 10 11 1019 name-999\n"
                   "thread 10 12 1019 name-999\n");
}

static void
tells_no_more_names_than_it_keeps (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  for (int i = 1; i <= SONDE_STREAM_STATE_MAX_TASKS + 10; i++)
    sonde_recorder_thread (fixture->base.recorder, PID, i, "worker", 20);
  sonde_recorder_settle_names (fixture->base.recorder, FALSE);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_FILE_CHUNK], ==, 1);
  g_assert_cmpstr (summary->log, ==,
                   "Names of threads or control groups are missing: there are too many, or one is "
                   "too long");
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], ==, 1);
}

static void
takes_no_sink_when_it_is_finished (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = finish (fixture);
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_cmpint (sonde_recorder_add_sink (fixture->base.recorder, fds[0], &all_frames), ==,
                   ESHUTDOWN);
  close (fds[1]);
  g_assert_cmpuint (fixture->n_closed, ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 0);
}

static void
warns_of_losses_once (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  sonde_tally_set_lost_kernel (&fixture->base.tally, 7);
  sonde_recorder_report (fixture->base.recorder);
  sonde_recorder_report (fixture->base.recorder);
  /* The kernel's count never shrinks. */
  sonde_tally_set_lost_kernel (&fixture->base.tally, 3);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], ==, 1);
  g_assert_nonnull (strstr (summary->log, "Lost 7 samples in the kernel's ring between"));
  g_assert_cmpint (summary->ledger[SONDE_LEDGER_LOST_KERNEL], ==, 7);
}

static void
tells_of_events_that_the_kernel_held_back (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;

  sonde_tally_add (&fixture->base.tally, SONDE_STATISTIC_THROTTLED, 2);
  sonde_recorder_report (fixture->base.recorder);
  sonde_recorder_report (fixture->base.recorder);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_LOG], ==, 1);
  g_assert_nonnull (strstr (summary->log, "The kernel held events back 2 times, as too frequent, "
                                          "between"));
}

static void
writes_a_name_before_its_first_use (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  uint64_t addrs[] = { SONDE_CONTEXT_USER, 0 };

  addrs[1] = sonde_recorder_name (fixture->base.recorder, "[stack truncated]", 5000);
  g_assert_cmpuint (addrs[1], >=, SONDE_JIT_ADDRESS_BASE);
  record_addrs (fixture, addrs, 2);
  g_assert_cmpuint (sonde_recorder_name (fixture->base.recorder, "[stack truncated]", 6000), ==,
                    addrs[1]);
  g_assert_cmpuint (sonde_recorder_name (fixture->base.recorder, "[kernel]", 6000), !=, addrs[1]);
  summary = finish (fixture);
  g_assert_cmpstr (summary->last_name, ==, "[stack truncated]");
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_JITMAP], ==, 2);
}

static void
bounds_the_names (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  uint64_t last = 0;

  for (guint i = 0; i < SONDE_STREAM_STATE_MAX_NAMES + 10; i++)
    {
      g_autofree char *name = g_strdup_printf ("function_%u", i);

      last = sonde_recorder_name (fixture->base.recorder, name, 5000);
      if (i % 1000 == 0)
        {
          sonde_recorder_flush (fixture->base.recorder);
          stream_receive (fixture->reader, fixture->stream);
        }
    }
  g_assert_cmpuint (fixture->base.state->names->len, ==, SONDE_STREAM_STATE_MAX_NAMES);
  g_assert_cmpuint (last, ==, SONDE_JIT_ADDRESS_BASE + SONDE_STREAM_STATE_MAX_NAMES - 1);
  record_addrs (fixture, (uint64_t[]){ SONDE_CONTEXT_KERNEL, last }, 2);
  summary = finish (fixture);
  g_assert_cmpstr (summary->last_name, ==, "[too many names]");
}

static void
bounds_the_bytes_of_names (Fixture *fixture, gconstpointer data)
{
  g_autofree char *name = g_strnfill (SONDE_STREAM_STATE_MAX_NAME_BYTES / 16, 'x');
  SondeRecorder *recorder = fixture->base.recorder;
  const GArray *names = fixture->base.state->names;

  for (guint i = 0; i < 32; i++)
    {
      name[0] = (char) ('A' + i);
      sonde_recorder_name (recorder, name, 5000);
    }
  g_assert_cmpuint (names->len, ==, 15 + 1);
  g_assert_cmpstr (g_array_index (names, SondeJitName, 15).name, ==, "[too many names]");
  /* What is known stays known, and small ones find their place. */
  name[0] = 'A';
  g_assert_cmpuint (sonde_recorder_name (recorder, name, 5000), ==, SONDE_JIT_ADDRESS_BASE);
  sonde_recorder_name (recorder, "small", 5000);
  g_assert_cmpuint (names->len, ==, 15 + 2);
}

static void
writes_a_process_once_with_all_its_mappings (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  SondeProcess *process = add_process (fixture, 40);

  sonde_recorder_process (fixture->base.recorder, process, 5000);
  sonde_recorder_process (fixture->base.recorder, process, 6000);
  record_sample (fixture);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 40);
}

/* The file of the first mapping of add_process(), whose build id is "ab01". */
static void
load_module (Fixture *fixture)
{
  static const struct
  {
    Elf64_Nhdr header;
    char name[4];
    guint8 id[4];
  } note = { { 4, 2, NT_GNU_BUILD_ID }, "GNU", { 0xab, 0x01 } };
  const SondeFileId id = { .inode = 1, .dev_major = 8 };
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = fake_elf_build (cfi, &(FakeElf){ 0 });
  Elf64_Phdr *segments = (gpointer) (file->data + sizeof (Elf64_Ehdr));

  memcpy (file->data + 0x200, &note, sizeof note);
  segments[1] = (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = 0x200, .p_filesz = sizeof note };
  g_assert_cmpint (
      sonde_module_store_load (fixture->base.modules, &id, fake_elf_open (file->data, file->len)),
      ==, 0);
}

static guint
count_in (const GByteArray *stream, const char *text)
{
  guint n = 0;

  for (guint i = 0; i + strlen (text) <= stream->len; i++)
    n += memcmp (stream->data + i, text, strlen (text)) == 0;
  return n;
}

static guint
count_told (Fixture *fixture)
{
  sonde_recorder_settle_maps (fixture->base.recorder);
  sonde_recorder_flush (fixture->base.recorder);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  stream_receive (fixture->reader, fixture->stream);
  return count_in (fixture->stream, "@ab01");
}

static void
tells_a_mapping_again_when_its_file_is_known (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  SondeProcess *process = add_process (fixture, 2);

  sonde_recorder_process (fixture->base.recorder, process, 5000);
  g_assert_cmpuint (count_told (fixture), ==, 0);
  load_module (fixture);
  g_assert_cmpuint (count_told (fixture), ==, 1);
  g_assert_cmpuint (count_told (fixture), ==, 1); /* once is enough */
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 3);
}

static void
tells_the_build_id_at_once_if_it_is_known (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  SondeProcess *process = add_process (fixture, 2);

  load_module (fixture);
  sonde_recorder_process (fixture->base.recorder, process, 5000);
  g_assert_cmpuint (count_told (fixture), ==, 1);
  /* Who comes later is told the same. */
  sonde_clear_fd (&fixture->reader);
  sonde_recorder_free (fixture->base.recorder);
  g_byte_array_set_size (fixture->stream, 0);
  fixture->base.recorder
      = sonde_recorder_new (fixture->base.state, &fixture->base.tally, sink_closed, fixture);
  fixture->reader = add_sink (fixture);
  g_assert_cmpuint (count_told (fixture), ==, 1);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 2);
}

static void
gives_up_what_is_gone (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  SondeProcess *process = add_process (fixture, 2);

  sonde_recorder_process (fixture->base.recorder, process, 5000);
  sonde_process_table_exec (fixture->base.processes, PID, "other", 6000);
  load_module (fixture);
  g_assert_cmpuint (count_told (fixture), ==, 0);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 2);
}

static void
leaves_mappings_of_unwritten_processes_for_later (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  SondeProcess *process = add_process (fixture, 1);
  size_t n_mappings;
  const SondeProcessMapping *mappings = sonde_process_mappings (process, &n_mappings);

  sonde_recorder_map (fixture->base.recorder, process, &mappings[0], 5000);
  sonde_recorder_rename (fixture->base.recorder, process, 5000);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 0);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 0);
}

static void
gives_a_late_reader_the_whole_state (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  SondeProcess *process = add_process (fixture, 40);
  uint64_t address = sonde_recorder_name (fixture->base.recorder, "[kernel]", 5000);

  sonde_recorder_process (fixture->base.recorder, process, 5000);
  sonde_recorder_flush (fixture->base.recorder);
  /* The first reader leaves, another one comes. */
  sonde_clear_fd (&fixture->reader);
  sonde_recorder_free (fixture->base.recorder);
  fixture->base.recorder
      = sonde_recorder_new (fixture->base.state, &fixture->base.tally, sink_closed, fixture);
  fixture->reader = add_sink (fixture);
  record_addrs (fixture, (uint64_t[]){ SONDE_CONTEXT_KERNEL, address }, 2);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_PROCESS], ==, 1);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_MAP], ==, 40);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_CTRDEF], ==, 1);
  g_assert_cmpstr (summary->last_name, ==, "[kernel]");
}

/* Of a segment that begins where the queue has room, and ends where it has none, no event is lost:
 * readers miss it all the same. */
static void
misses_the_end_of_a_segment (Fixture *fixture, gconstpointer data)
{
  g_autofree guint8 *segment = g_malloc0 (100000);
  const SondeHeapLabel label = { SONDE_HEAP_LABEL_MAGIC, 8, 5, 100000 - sizeof label };
  guint64 values[SONDE_N_STATISTICS];
  gboolean is_cut = FALSE;

  memcpy (segment, &label, sizeof label);
  for (guint i = 0; i < 10000 && !is_cut; i++)
    {
      guint64 n_missed = sonde_recorder_n_missed (fixture->base.recorder);
      guint64 before[SONDE_N_STATISTICS] = { 0 };

      memset (values, 0, sizeof values);
      sonde_recorder_sum (fixture->base.recorder, before);
      sonde_recorder_segment (fixture->base.recorder, SONDE_HEAP_LOG_PATH, segment, 100000, 5);
      sonde_recorder_flush (fixture->base.recorder);
      sonde_recorder_sum (fixture->base.recorder, values);
      if (values[SONDE_LEDGER_STREAM_LOST] == before[SONDE_LEDGER_STREAM_LOST])
        continue;
      g_assert_cmpuint (sonde_recorder_n_missed (fixture->base.recorder), >, n_missed);
      is_cut = values[SONDE_LEDGER_STREAM_EVENTS_LOST] == before[SONDE_LEDGER_STREAM_EVENTS_LOST];
      stream_receive (fixture->reader, fixture->stream);
      sonde_recorder_flush (fixture->base.recorder);
    }
  g_assert_true (is_cut);
}

/* A sample whose unwinding needs what nobody knows. */
static void
marks_a_stack_that_does_not_reach_the_end (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  const SondeMessageSetup setup = { .asked.unwind = SONDE_UNWIND_DWARF,
                                    .asked.max_depth = 16,
                                    .sample_regs_user = sonde_unwinder_regs_mask () };
  SondeUnwinder *unwinder = sonde_unwinder_new_libdwfl (fixture->base.processes);
  g_autoptr (SondeSampler) sampler
      = sonde_sampler_new (&setup, fixture->base.processes, unwinder, NULL, NULL, NULL,
                           fixture->base.jit_names, fixture->base.recorder, &fixture->base.tally);
  uint64_t regs[64];
  uint64_t stack[16];
  SondePerfRecord record
      = { .type = SONDE_PERF_RECORD_SAMPLE,
          .cpu = 0,
          .pid = PID,
          .tid = PID,
          .time_ns = 5000,
          .sample = { .mode = SONDE_PERF_RECORD_MODE_USER,
                      .ip = 0x100010,
                      .abi = PERF_SAMPLE_REGS_ABI_64,
                      .regs = regs,
                      .n_regs = (size_t) __builtin_popcountll (setup.sample_regs_user),
                      .stack = (const uint8_t *) stack,
                      .stack_size_bytes = sizeof stack,
                      .dump_size_bytes = sizeof stack } };

  for (guint i = 0; i < G_N_ELEMENTS (regs); i++)
    regs[i] = 0x100010;
  for (guint i = 0; i < G_N_ELEMENTS (stack); i++)
    stack[i] = 0x4141414141;
  sonde_tally_sample_read (&fixture->base.tally);
  sonde_sampler_record (sampler, add_process (fixture, 1), &record);
  g_clear_pointer (&sampler, sonde_sampler_free);
  sonde_unwinder_free (unwinder);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (summary->addrs[0], ==, SONDE_CONTEXT_USER);
  g_assert_cmpuint (summary->addrs[1], ==, 0x100010);
  g_assert_nonnull (summary->last_name);
  g_assert_true (summary->last_name[0] == '[');
}

static void
cuts_deep_chains_and_says_so (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  const SondeMessageSetup setup
      = { .asked.unwind = SONDE_UNWIND_FRAME_POINTER, .asked.max_depth = 4 };
  g_autoptr (SondeSampler) sampler
      = sonde_sampler_new (&setup, fixture->base.processes, NULL, NULL, NULL, NULL,
                           fixture->base.jit_names, fixture->base.recorder, &fixture->base.tally);
  uint64_t chain[] = {
    (uint64_t) PERF_CONTEXT_KERNEL, 0xffffffff81000000, (uint64_t) PERF_CONTEXT_USER, 1, 2, 3, 4, 5
  };
  SondePerfRecord record = { .type = SONDE_PERF_RECORD_SAMPLE,
                             .pid = PID,
                             .tid = PID,
                             .sample = { .mode = SONDE_PERF_RECORD_MODE_KERNEL,
                                         .chain = chain,
                                         .n_chain = G_N_ELEMENTS (chain) } };

  sonde_tally_sample_read (&fixture->base.tally);
  sonde_sampler_record (sampler, add_process (fixture, 0), &record);
  summary = finish (fixture);
  /* kernel, [kernel], user, four addresses, the reason */
  g_assert_cmpuint (summary->n_addrs, ==, 8);
  g_assert_cmpuint (summary->addrs[1], >=, SONDE_JIT_ADDRESS_BASE);
  g_assert_cmpuint (summary->addrs[1], <, 0xffffffff81000000);
  g_assert_cmpuint (summary->addrs[6], ==, 4);
  g_assert_cmpstr (summary->last_name, ==, "[depth limit]");
}

/* Other marks begin other parts, which are not the program's. */
static void
takes_the_program_s_part_of_a_chain (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  const SondeMessageSetup setup
      = { .asked.unwind = SONDE_UNWIND_FRAME_POINTER, .asked.max_depth = 4 };
  g_autoptr (SondeSampler) sampler
      = sonde_sampler_new (&setup, fixture->base.processes, NULL, NULL, NULL, NULL,
                           fixture->base.jit_names, fixture->base.recorder, &fixture->base.tally);
  uint64_t chain[] = { 7, (uint64_t) PERF_CONTEXT_USER, 1, 2, (uint64_t) PERF_CONTEXT_GUEST_USER,
                       3, (uint64_t) PERF_CONTEXT_USER };
  SondePerfRecord record = { .type = SONDE_PERF_RECORD_SAMPLE,
                             .pid = PID,
                             .tid = PID,
                             .sample = { .mode = SONDE_PERF_RECORD_MODE_USER,
                                         .ip = 9,
                                         .chain = chain,
                                         .n_chain = G_N_ELEMENTS (chain) } };

  for (guint i = 0; i < 3; i++)
    sonde_tally_sample_read (&fixture->base.tally);
  sonde_sampler_record (sampler, add_process (fixture, 0), &record);
  record.sample.n_chain = 2; /* a mark and nothing behind it */
  sonde_sampler_record (sampler, add_process (fixture, 0), &record);
  record.sample.n_chain = 1; /* no mark */
  sonde_sampler_record (sampler, add_process (fixture, 0), &record);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 3);
  g_assert_cmpuint (summary->n_addrs, ==, 2);
  g_assert_cmpuint (summary->addrs[1], ==, 9);
}

typedef struct
{
  const char *path;
  int32_t tid; /* of the sample; the chain is of PID */
  uint64_t cookie;
  size_t n_marked; /* addresses of the sample's own chain: a mark and the cookie */
  size_t n_later;  /* in the record */
  guint n_addrs;   /* recorded, with the mark */
} LaterCase;

static const LaterCase later_cases[] = {
  { "/recorder/later-chain/is-taken", PID, 77, 2, 5, 4 },
  { "/recorder/later-chain/of-another-cookie-is-not", PID, 78, 2, 5, 2 },
  { "/recorder/later-chain/of-another-thread-is-not", PID + 1, 77, 2, 5, 2 },
  { "/recorder/later-chain/wants-a-cookie", PID, 77, 1, 5, 2 },
  { "/recorder/later-chain/wants-a-mark", PID, 77, 2, 0, 2 },
  { "/recorder/later-chain/has-a-bound", PID, 77, 2, 200, 129 },
};

static void
takes_a_chain_that_came_apart (Fixture *fixture, gconstpointer data)
{
  const LaterCase *row = data;
  g_autoptr (StreamSummary) summary = NULL;
  const SondeMessageSetup setup = { .flags = SONDE_SPEC_DEFERRED,
                                    .asked.unwind = SONDE_UNWIND_FRAME_POINTER,
                                    .asked.max_depth = 256 };
  g_autoptr (SondeSampler) sampler
      = sonde_sampler_new (&setup, fixture->base.processes, NULL, NULL, NULL, NULL,
                           fixture->base.jit_names, fixture->base.recorder, &fixture->base.tally);
  uint64_t chain[] = { SONDE_PERF_CONTEXT_USER_DEFERRED, row->cookie };
  uint64_t later[200] = { (uint64_t) PERF_CONTEXT_USER };
  SondePerfRecord sample = {
    .type = SONDE_PERF_RECORD_SAMPLE,
    .pid = PID,
    .tid = row->tid,
    .sample
    = { .mode = SONDE_PERF_RECORD_MODE_USER, .ip = 9, .chain = chain, .n_chain = row->n_marked }
  };
  SondePerfRecord record
      = { .type = SONDE_PERF_RECORD_CHAIN, .tid = PID, .chain = { 77, later, row->n_later } };

  for (guint i = 1; i < G_N_ELEMENTS (later); i++)
    later[i] = row->n_later == 5 && i == 4 ? (uint64_t) PERF_CONTEXT_KERNEL : 9;
  sonde_sampler_take_chain (sampler, &record);
  sonde_tally_sample_read (&fixture->base.tally);
  sonde_sampler_record (sampler, add_process (fixture, 0), &sample);
  summary = finish (fixture);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (summary->n_addrs, ==, row->n_addrs);
  g_assert_cmpuint (summary->addrs[1], ==, 9);
}

#define ADD(name, function)                                                                        \
  g_test_add ("/recorder/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("counts-a-sample-that-fits-no-frame", counts_a_sample_that_fits_no_frame);
  ADD ("takes-the-program-s-part-of-a-chain", takes_the_program_s_part_of_a_chain);
  for (guint i = 0; i < G_N_ELEMENTS (later_cases); i++)
    g_test_add (later_cases[i].path, Fixture, &later_cases[i], set_up,
                takes_a_chain_that_came_apart, tear_down);
  ADD ("tells-names-once-a-turn", tells_names_once_a_turn);
  ADD ("tells-no-more-names-than-it-keeps", tells_no_more_names_than_it_keeps);
  ADD ("takes-no-sink-when-it-is-finished", takes_no_sink_when_it_is_finished);
  ADD ("warns-of-losses-once", warns_of_losses_once);
  ADD ("tells-of-events-that-the-kernel-held-back", tells_of_events_that_the_kernel_held_back);
  ADD ("writes-a-name-before-its-first-use", writes_a_name_before_its_first_use);
  ADD ("bounds-the-names", bounds_the_names);
  ADD ("bounds-the-bytes-of-names", bounds_the_bytes_of_names);
  ADD ("writes-a-process-once-with-all-its-mappings", writes_a_process_once_with_all_its_mappings);
  ADD ("tells-a-mapping-again-when-its-file-is-known",
       tells_a_mapping_again_when_its_file_is_known);
  ADD ("tells-the-build-id-at-once-if-it-is-known", tells_the_build_id_at_once_if_it_is_known);
  ADD ("gives-up-what-is-gone", gives_up_what_is_gone);
  ADD ("leaves-mappings-of-unwritten-processes-for-later",
       leaves_mappings_of_unwritten_processes_for_later);
  ADD ("gives-a-late-reader-the-whole-state", gives_a_late_reader_the_whole_state);
  ADD ("misses-the-end-of-a-segment", misses_the_end_of_a_segment);
  ADD ("marks-a-stack-that-does-not-reach-the-end", marks_a_stack_that_does_not_reach_the_end);
  ADD ("cuts-deep-chains-and-says-so", cuts_deep_chains_and_says_so);
  return g_test_run ();
}
