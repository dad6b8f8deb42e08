/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl verify: each equation of the ledger, and the ways a capture can be cut. */
#include <fcntl.h>
#include <stdio.h>

#include "client/commands.h"
#include "client/model/ledger.h"
#include "tests/unit/capture-builder.h"

/* Frames: CTRDEF, PROCESS, MAP, JITMAP, 3 SAMPLE, closing CTRSET. */
static const gint64 good[SONDE_N_LEDGER] = {
  [SONDE_LEDGER_PRODUCED] = 15,
  [SONDE_LEDGER_RECORDED] = 9,
  [SONDE_LEDGER_LOST_KERNEL] = 3,
  [SONDE_LEDGER_LOST_RING] = 2,
  [SONDE_LEDGER_LOST_QUEUE] = 1,
  [SONDE_LEDGER_STREAM_RECORDED] = 7,
  [SONDE_LEDGER_STREAM_RESENT] = 2,
  [SONDE_LEDGER_STREAM_DELIVERED] = 8,
  [SONDE_LEDGER_STREAM_LOST] = 1,
  [SONDE_LEDGER_STREAM_FILTERED] = 0,
  [SONDE_LEDGER_STREAM_SAMPLES] = 3,
  [SONDE_LEDGER_STREAM_SAMPLES_LOST] = 1,
  [SONDE_LEDGER_STREAM_SAMPLES_FILTERED] = 2,
  [SONDE_LEDGER_STREAM_SAMPLES_BEFORE] = 3,
};

static CaptureBuilder *
make_open_capture (void)
{
  CaptureBuilder *capture = capture_builder_new ();

  define_ledger (capture);
  add_process (capture, 5, "prog");
  add_map (capture, 5, 0x1000, 0x2000, "/bin/prog");
  add_jit_name (capture, JIT (1), "[stack truncated]");
  add_sample (capture, 5, SONDE_CONTEXT_USER, 0x1000, JIT (1));
  add_sample (capture, 5, SONDE_CONTEXT_USER, 0x1008);
  add_sample (capture, 5, SONDE_CONTEXT_USER, 0x1010);
  return capture;
}

static CaptureBuilder *
make_capture (const gint64 *values)
{
  CaptureBuilder *capture = make_open_capture ();

  set_ledger (capture, values, SONDE_N_LEDGER);
  return capture;
}

static void
feed (gpointer receiver, const SondeFrame *frame)
{
  sonde_ledger_check_add_frame (receiver, frame);
}

/* The worst verdict on @subject; PASSED if there is none. */
static SondeVerdict
judge (CaptureBuilder *capture, const char *subject)
{
  g_autoptr (SondeLedgerCheck) check = sonde_ledger_check_new ();
  g_autoptr (GPtrArray) findings = NULL;
  SondeVerdict worst = SONDE_VERDICT_PASSED;

  capture_foreach (capture, feed, check);
  findings = sonde_ledger_check_dup_findings (check);
  for (guint i = 0; i < findings->len; i++)
    {
      const SondeFinding *finding = g_ptr_array_index (findings, i);

      if (g_str_equal (finding->subject, subject))
        worst = MAX (worst, finding->verdict);
    }
  return worst;
}

/* The exit status of the command on the first @size bytes. Its output would disturb the test's own.
 */
static int
run_verify (CaptureBuilder *capture, gssize size)
{
  char *path = write_file (capture, size);
  char *argv[] = { (char *) "verify", path, NULL };
  int saved = dup (STDOUT_FILENO);
  int null = open ("/dev/null", O_WRONLY | O_CLOEXEC);
  int status;

  fflush (stdout);
  g_assert_cmpint (dup2 (null, STDOUT_FILENO), >=, 0);
  status = sonde_cmd_verify (2, argv);
  fflush (stdout);
  g_assert_cmpint (dup2 (saved, STDOUT_FILENO), >=, 0);
  close (null);
  close (saved);
  remove_file (path);
  return status;
}

static void
refuses_each_counter_that_is_one_off (void)
{
  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    for (gint64 off = -1; off <= 1; off += 2)
      {
        g_autoptr (CaptureBuilder) capture = NULL;
        gint64 values[SONDE_N_LEDGER];

        memcpy (values, good, sizeof values);
        values[i] += off;
        capture = make_capture (values);
        g_assert_cmpint (run_verify (capture, -1), ==, 1);
      }
}

static void
names_the_equation_that_fails (void)
{
  g_autoptr (CaptureBuilder) capture = NULL;
  gint64 values[SONDE_N_LEDGER];

  memcpy (values, good, sizeof values);
  values[SONDE_LEDGER_LOST_KERNEL]++;
  capture = make_capture (values);
  g_assert_cmpint (judge (capture, "session"), ==, SONDE_VERDICT_FAILED);
  g_assert_cmpint (judge (capture, "stream"), ==, SONDE_VERDICT_PASSED);
  g_assert_cmpint (judge (capture, "samples"), ==, SONDE_VERDICT_PASSED);
}

static void
refuses_sums_that_only_hold_modulo_2_to_64 (void)
{
  g_autoptr (CaptureBuilder) capture = NULL;
  gint64 values[SONDE_N_LEDGER];

  memcpy (values, good, sizeof values);
  values[SONDE_LEDGER_LOST_KERNEL] += 5;
  values[SONDE_LEDGER_LOST_QUEUE] -= 5;
  capture = make_capture (values);
  g_assert_cmpint (judge (capture, "session"), ==, SONDE_VERDICT_FAILED);
}

static void
refuses_a_name_that_comes_after_its_use (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();

  add_sample (capture, 5, JIT (1));
  add_jit_name (capture, JIT (1), "late");
  g_assert_cmpint (judge (capture, "names"), ==, SONDE_VERDICT_FAILED);
}

static void
refuses_a_file_that_is_no_capture (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture (good);

  g_assert_cmpint (run_verify (capture, 0), ==, 1);
  g_assert_cmpint (run_verify (capture, 100), ==, 1);
}

static void
refuses_a_file_cut_within_a_frame (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture (good);
  gsize whole = capture_bytes (capture)->len;

  g_assert_cmpint (run_verify (capture, (gssize) whole - 1), ==, 1);
  g_assert_cmpint (run_verify (capture, (gssize) sizeof (SondeFileHeader) + 10), ==, 1);
}

static void
says_that_a_capture_without_its_end_was_cut_short (void)
{
  g_autoptr (CaptureBuilder) capture = make_open_capture ();
  g_autoptr (CaptureBuilder) partial = make_open_capture ();
  g_autoptr (CaptureBuilder) longer = make_capture (good);

  g_assert_cmpint (run_verify (capture, -1), ==, 2);

  set_ledger (partial, good, SONDE_N_LEDGER - 1);
  g_assert_cmpint (run_verify (partial, -1), ==, 2);

  add_process (longer, 6, "after the end");
  g_assert_cmpint (run_verify (longer, -1), ==, 2);
}

static void
says_that_a_capture_without_a_ledger_is_open (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();

  add_process (capture, 5, "prog");
  g_assert_cmpint (run_verify (capture, -1), ==, 2);
}

static void
warns_of_samples_before_the_state_of_their_process (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();

  add_process (capture, 5, "prog");
  add_sample (capture, 5, 0x1000);
  g_assert_cmpint (judge (capture, "state"), ==, SONDE_VERDICT_WARNING);
}

/* As the session says it; what a program logs is its own affair. */
static void
warns_of_losses_that_a_program_claims (void)
{
  static const struct
  {
    gint32 pid;
    const char *domain;
    const char *text;
    SondeVerdict verdict;
  } cases[] = {
    { -1, "sonde", SONDE_LEDGER_CLAIM "ring 1", SONDE_VERDICT_WARNING },
    { -1, "sonde", "Lost 3 samples", SONDE_VERDICT_PASSED },
    { -1, "other", SONDE_LEDGER_CLAIM "ring 1", SONDE_VERDICT_PASSED },
    { 5, "sonde", SONDE_LEDGER_CLAIM "ring 1", SONDE_VERDICT_PASSED },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (CaptureBuilder) capture = capture_builder_new ();
      SondeFrameOrigin origin = at (cases[i].pid, 1000);

      ADD (sonde_writer_add_log (capture->writer, &origin, G_LOG_LEVEL_WARNING, cases[i].domain,
                                 cases[i].text));
      g_assert_cmpint (judge (capture, "claims"), ==, cases[i].verdict);
    }
}

/* Their losses are in no sum, so sums that are right do not make up for them. */
static void
refuses_threads_whose_events_are_missing (void)
{
  static const struct
  {
    gint32 pid;
    const char *domain;
    const char *text;
    SondeVerdict verdict;
  } cases[] = {
    { -1, "sonde", SONDE_LEDGER_MISSING "2 threads of process 5", SONDE_VERDICT_FAILED },
    { -1, "sonde", "Missing 2 threads", SONDE_VERDICT_PASSED },
    { -1, "other", SONDE_LEDGER_MISSING "2 threads of process 5", SONDE_VERDICT_PASSED },
    { 5, "sonde", SONDE_LEDGER_MISSING "2 threads of process 5", SONDE_VERDICT_PASSED },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (CaptureBuilder) capture = make_capture (good);
      SondeFrameOrigin origin = at (cases[i].pid, 1000);

      ADD (sonde_writer_add_log (capture->writer, &origin, G_LOG_LEVEL_WARNING, cases[i].domain,
                                 cases[i].text));
      g_assert_cmpint (judge (capture, "threads"), ==, cases[i].verdict);
    }
}

static void
needs_no_mapping_for_the_kernel_alone (void)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();

  add_process (capture, 5, "kthread");
  add_jit_name (capture, JIT (1), "[kernel]");
  add_sample (capture, 5, SONDE_CONTEXT_KERNEL, JIT (1));
  g_assert_cmpint (judge (capture, "state"), ==, SONDE_VERDICT_PASSED);
}

static void
accepts_a_ledger_that_adds_up (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture (good);

  g_assert_cmpint (judge (capture, "state"), ==, SONDE_VERDICT_PASSED);
  g_assert_cmpint (judge (capture, "names"), ==, SONDE_VERDICT_PASSED);
  g_assert_cmpint (run_verify (capture, -1), ==, 0);
}

/* A segment of which only the label came. */
static void
refuses_a_heap_log_that_cannot_be_read (void)
{
  const SondeHeapLabel label = { SONDE_HEAP_LABEL_MAGIC, 8, 5, 100 };
  const SondeFrameOrigin origin = { 2000, -1, -1 };
  gint64 values[SONDE_N_LEDGER];

  memcpy (values, good, sizeof values);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (CaptureBuilder) capture = make_open_capture ();

      values[SONDE_LEDGER_STREAM_LOST] = values[SONDE_LEDGER_STREAM_SAMPLES_LOST] + i;
      g_assert_cmpint (sonde_writer_add_file_chunk (capture->writer, &origin, SONDE_HEAP_LOG_PATH,
                                                    &label, sizeof label, false),
                       ==, 0);
      set_ledger (capture, values, SONDE_N_LEDGER);
      g_assert_cmpint (judge (capture, "heap log"), ==,
                       i == 0 ? SONDE_VERDICT_FAILED : SONDE_VERDICT_WARNING);
      /* five events are in the stream, by the label */
      g_assert_cmpint (judge (capture, "events"), ==, SONDE_VERDICT_FAILED);
    }
}

/* Nobody knows how many events it has, and the ledger of who wrote it need not say. */
static void
refuses_a_heap_log_without_a_label (void)
{
  static const SondeHeapLabel labels[]
      = { { SONDE_HEAP_LABEL_MAGIC, 8, SONDE_HEAP_LOG_MAX_EVENTS + 1, 100 },
          { SONDE_HEAP_LABEL_MAGIC + 1, 8, 5, 100 } };
  const SondeFrameOrigin origin = { 2000, -1, -1 };

  for (guint i = 0; i < G_N_ELEMENTS (labels); i++)
    {
      g_autoptr (CaptureBuilder) capture = make_open_capture ();

      g_assert_cmpint (sonde_writer_add_file_chunk (capture->writer, &origin, SONDE_HEAP_LOG_PATH,
                                                    &labels[i], sizeof labels[i], false),
                       ==, 0);
      set_ledger (capture, good, SONDE_N_LEDGER);
      g_assert_cmpint (judge (capture, "heap log"), ==, SONDE_VERDICT_FAILED);
    }
}

/* The worker was killed while it wrote one. */
static void
says_that_a_heap_log_was_cut_short (void)
{
  const SondeHeapLabel label = { SONDE_HEAP_LABEL_MAGIC, 8, 5, 100 };
  const SondeFrameOrigin origin = { 2000, -1, -1 };
  g_autoptr (CaptureBuilder) capture = make_open_capture ();

  g_assert_cmpint (sonde_writer_add_file_chunk (capture->writer, &origin, SONDE_HEAP_LOG_PATH,
                                                &label, sizeof label, false),
                   ==, 0);
  g_assert_cmpint (judge (capture, "heap log"), ==, SONDE_VERDICT_OPEN);
  g_assert_cmpint (run_verify (capture, -1), ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/verify/refuses-each-counter-that-is-one-off",
                   refuses_each_counter_that_is_one_off);
  g_test_add_func ("/verify/names-the-equation-that-fails", names_the_equation_that_fails);
  g_test_add_func ("/verify/refuses-sums-that-only-hold-modulo-2-to-64",
                   refuses_sums_that_only_hold_modulo_2_to_64);
  g_test_add_func ("/verify/refuses-a-name-that-comes-after-its-use",
                   refuses_a_name_that_comes_after_its_use);
  g_test_add_func ("/verify/refuses-a-file-that-is-no-capture", refuses_a_file_that_is_no_capture);
  g_test_add_func ("/verify/refuses-a-file-cut-within-a-frame", refuses_a_file_cut_within_a_frame);
  g_test_add_func ("/verify/says-that-a-capture-without-its-end-was-cut-short",
                   says_that_a_capture_without_its_end_was_cut_short);
  g_test_add_func ("/verify/says-that-a-capture-without-a-ledger-is-open",
                   says_that_a_capture_without_a_ledger_is_open);
  g_test_add_func ("/verify/warns-of-samples-before-the-state-of-their-process",
                   warns_of_samples_before_the_state_of_their_process);
  g_test_add_func ("/verify/refuses-threads-whose-events-are-missing",
                   refuses_threads_whose_events_are_missing);
  g_test_add_func ("/verify/warns-of-losses-that-a-program-claims",
                   warns_of_losses_that_a_program_claims);
  g_test_add_func ("/verify/needs-no-mapping-for-the-kernel-alone",
                   needs_no_mapping_for_the_kernel_alone);
  g_test_add_func ("/verify/refuses-a-heap-log-that-cannot-be-read",
                   refuses_a_heap_log_that_cannot_be_read);
  g_test_add_func ("/verify/refuses-a-heap-log-without-a-label",
                   refuses_a_heap_log_without_a_label);
  g_test_add_func ("/verify/says-that-a-heap-log-was-cut-short",
                   says_that_a_heap_log_was_cut_short);
  g_test_add_func ("/verify/accepts-a-ledger-that-adds-up", accepts_a_ledger_that_adds_up);
  return g_test_run ();
}
