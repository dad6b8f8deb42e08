/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests what is read of the times of threads, what is refused, and the table of them. */
#include "client/model/waits-reader.h"

#include "client/report/waits-report.h"
#include "tests/unit/calls-files.h"

static GByteArray *
new_waits (void)
{
  GByteArray *bytes = g_byte_array_new ();

  g_byte_array_append (bytes, (const guint8 *) SONDE_WAITS_MAGIC, SONDE_WAITS_MAGIC_BYTES);
  put (bytes, SONDE_WAITS_VERSION);
  put (bytes, 1100);
  put (bytes, 5);
  put (bytes, 900);
  return bytes;
}

static void
add_frame (gpointer reader, const SondeFrame *frame)
{
  sonde_waits_reader_add (reader, frame);
}

/* With its end; @bytes: (transfer full) */
static void
add_file (SondeWaitsReader *reader, const char *path, GByteArray *bytes, guint piece)
{
  g_autoptr (GByteArray) taken = bytes;

  RECORD (taken, SONDE_WAITS_END, taken->len);
  tell_file (path, taken, piece, add_frame, reader);
}

/* 100 = 40 + 30 + 20 + 9 + 1, of the 20 5 not divided */
#define THREAD(pid, tid, begin) pid, tid, begin, 0, 100, 40, 30, 20, 9, 1, 5, 7, 2

static void
reads_rows (void)
{
  g_autoptr (SondeWaitsReader) reader = sonde_waits_reader_new ();
  GByteArray *bytes = new_waits ();
  const SondeWaitsRow *row;

  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 11, 6));
  RECORD (bytes, 99, 1, 2, 3); /* of a later version */
  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 12, 6), 12345);
  RECORD (bytes, SONDE_WAITS_OTHERS, 3, 2, 10, 10, 0, 0, 0, 0, 0);
  add_file (reader, "sonde/waits/1", bytes, 7);
  g_assert_cmpstr (sonde_waits_reader_fault (reader), ==, NULL);
  g_assert_cmpuint (sonde_waits_reader_n_rows (reader), ==, 2);
  row = sonde_waits_reader_row (reader, 0);
  g_assert_cmpint (row->pid, ==, 10);
  g_assert_cmpint (row->tid, ==, 11);
  g_assert_cmpuint (row->times[SONDE_TIME_RUNNABLE], ==, 30);
  g_assert_cmpuint (row->counts[SONDE_WAITS_PREEMPTED], ==, 2);
  g_assert_false (row->has_ended);
  g_assert_cmpuint (sonde_waits_reader_n_others (reader), ==, 3);
  g_assert_cmpuint (sonde_waits_reader_n_beyond (reader), ==, 2);
  g_assert_cmpuint (sonde_waits_reader_others (reader)[SONDE_TIME_ON], ==, 10);
  g_assert_cmpuint (sonde_waits_reader_switch_ns (reader), ==, 1100);
}

static void
takes_the_last_row (void)
{
  g_autoptr (SondeWaitsReader) reader = sonde_waits_reader_new ();
  GByteArray *bytes = new_waits ();

  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 11, 6));
  add_file (reader, "sonde/waits/1", bytes, 1000);
  bytes = new_waits ();
  RECORD (bytes, SONDE_WAITS_THREAD, 10, 11, 6, 1, 110, 110, 0, 0, 0, 0, 0, 8, 2);
  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 11, 700)); /* the number again */
  add_file (reader, "sonde/waits/2", bytes, 1000);
  g_assert_cmpstr (sonde_waits_reader_fault (reader), ==, NULL);
  g_assert_cmpuint (sonde_waits_reader_n_rows (reader), ==, 2);
  g_assert_cmpuint (sonde_waits_reader_row (reader, 0)->times[SONDE_TIME_ON], ==, 110);
  g_assert_true (sonde_waits_reader_row (reader, 0)->has_ended);
}

static void
assert_refused (GByteArray *bytes, const char *why)
{
  g_autoptr (SondeWaitsReader) reader = sonde_waits_reader_new ();
  g_autofree char *whole = g_strdup_printf ("sonde/waits/1: %s", why);

  add_file (reader, "sonde/waits/1", bytes, 1000);
  g_assert_cmpstr (sonde_waits_reader_fault (reader), ==, whole);
}

static GByteArray *
with_thread (const guint64 *numbers, gsize n)
{
  GByteArray *bytes = new_waits ();

  put_record (bytes, SONDE_WAITS_THREAD, numbers, n);
  return bytes;
}

static void
refuses_what_does_not_add_up (void)
{
#define REFUSE(why, ...)                                                                           \
  assert_refused (with_thread ((const guint64[]){ __VA_ARGS__ },                                   \
                               G_N_ELEMENTS (((const guint64[]){ __VA_ARGS__ }))),                 \
                  why)
  REFUSE ("a row does not add up", 10, 11, 6, 0, 101, 40, 30, 20, 9, 1, 5, 7, 2);
  REFUSE ("a row does not add up", 10, 11, 6, 0, 100, 40, 30, 20, 9, 1, 21, 7, 2);
  REFUSE ("a row does not add up", 10, 11, 6, 0, 0, G_MAXUINT64, 1, 0, 0, 0, 0, 7, 2);
  REFUSE ("a row does not add up", 10, 11, 6, 0, 100, 40, 30);
  REFUSE ("a row ends too early", 10, 11, 6, 0, 100, 40, 30, 20, 9, 1, 5, 7);
  REFUSE ("a thread is wrong", 0, 11, 6, 0, 100, 40, 30, 20, 9, 1, 5, 7, 2);
  REFUSE ("a thread is wrong", 10, UINT64_C (1) << 31, 6, 0, 100, 40, 30, 20, 9, 1, 5, 7, 2);
  REFUSE ("a thread is wrong", 10, 11, 6, 2, 100, 40, 30, 20, 9, 1, 5, 7, 2);
  REFUSE ("a thread is wrong", 10, 11, UINT64_C (1) << 63, 0, 100, 40, 30, 20, 9, 1, 5, 7, 2);
#undef REFUSE
}

static void
refuses_others_that_do_not_add_up (void)
{
  GByteArray *bytes = new_waits ();

  RECORD (bytes, SONDE_WAITS_OTHERS, 3, 2, 11, 10, 0, 0, 0, 0, 0);
  assert_refused (bytes, "the others do not add up");
  bytes = new_waits ();
  RECORD (bytes, SONDE_WAITS_OTHERS, 3);
  assert_refused (bytes, "the others are wrong");
}

static void
refuses_a_younger_thread (void)
{
  GByteArray *bytes = new_waits ();

  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 11, 6));
  RECORD (bytes, SONDE_WAITS_THREAD, 10, 11, 6, 0, 99, 99, 0, 0, 0, 0, 0, 7, 2);
  assert_refused (bytes, "a thread is younger than before");
}

static void
refuses_other_files (void)
{
  GByteArray *bytes = new_waits ();

  bytes->data[0] = 's';
  assert_refused (bytes, "it does not begin as such a file");
  bytes = new_waits ();
  bytes->data[SONDE_WAITS_MAGIC_BYTES] = 2;
  assert_refused (bytes, "its version is not known");
  bytes = new_waits ();
  bytes->data[bytes->len - 2] = 0; /* 900 is of two bytes: its end is before its begin */
  bytes->data[bytes->len - 1] = 0;
  assert_refused (bytes, "its head is wrong");
  bytes = new_waits ();
  put (bytes, SONDE_WAITS_THREAD);
  put (bytes, 1000);
  assert_refused (bytes, "a record does not fit");
}

static void
refuses_files_that_are_cut (void)
{
  g_autoptr (SondeWaitsReader) reader = sonde_waits_reader_new ();
  g_autoptr (SondeWaitsReader) shorter = sonde_waits_reader_new ();
  g_autoptr (GByteArray) bytes = new_waits ();

  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 11, 6));
  tell_file ("sonde/waits/1", bytes, 1000, add_frame, reader);
  g_assert_cmpstr (sonde_waits_reader_fault (reader), ==, "sonde/waits/1: its end is missing");
  RECORD (bytes, SONDE_WAITS_END, bytes->len + 1);
  tell_file ("sonde/waits/1", bytes, 1000, add_frame, shorter);
  g_assert_cmpstr (sonde_waits_reader_fault (shorter), ==,
                   "sonde/waits/1: a part of it is missing");
}

static void
is_bounded (void)
{
  g_autoptr (SondeWaitsReader) reader = sonde_waits_reader_new_small (2);
  g_autoptr (SondeWaitsReader) large = sonde_waits_reader_new ();
  g_autoptr (GByteArray) junk = g_byte_array_new ();
  GByteArray *bytes = new_waits ();

  for (guint64 tid = 11; tid < 15; tid++)
    RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, tid, 6));
  add_file (reader, "sonde/waits/1", bytes, 1000);
  g_assert_cmpstr (sonde_waits_reader_fault (reader), ==, NULL);
  g_assert_cmpuint (sonde_waits_reader_n_rows (reader), ==, 2);
  g_assert_cmpuint (sonde_waits_reader_n_left_out (reader), ==, 2);
  g_byte_array_set_size (junk, SONDE_WAITS_MAX_BYTES + 1);
  memset (junk->data, 0, junk->len);
  tell_file ("sonde/waits/1", junk, 4096, add_frame, large);
  g_assert_cmpstr (sonde_waits_reader_fault (large), ==, "sonde/waits/1: it is too large");
}

/* --- the table --- */

static void
add_to_report (gpointer report, const SondeFrame *frame)
{
  sonde_waits_report_add_frame (report, frame);
}

static void
shows_groups (void)
{
  const SondeSampleFilter all = SONDE_SAMPLE_FILTER_INIT;
  g_autoptr (SondeWaitsReport) report = sonde_waits_report_new ();
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GString) json = g_string_new (NULL);
  g_autoptr (GByteArray) bytes = new_waits ();

  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 11, 6));
  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 12, 6));
  RECORD (bytes, SONDE_WAITS_THREAD, 20, 20, 6, 1, 1000, 1000, 0, 0, 0, 0, 0, 1, 0);
  RECORD (bytes, SONDE_WAITS_OTHERS, 3, 2, 10, 10, 0, 0, 0, 0, 0);
  RECORD (bytes, SONDE_WAITS_END, bytes->len);
  tell_file ("sonde/waits/1", bytes, 1000, add_to_report, report);
  sonde_waits_report_finish (report, SONDE_BY_PROCESS, &all);
  g_assert_cmpuint (report->groups->len, ==, 3);
  g_assert_cmpuint (report->n_threads, ==, 6);
  g_assert_cmpuint (report->times[SONDE_TIME_LIFE], ==, 1210);
  sonde_waits_report_append (text, report);
  g_assert_true (g_str_has_prefix (
      text->str,
      "Threads   6 threads of 2 processes, which lived for 1.21 us together\n"
      "Sum       1.21 us = on 1.09 us (90.1%) + runnable 60 ns (5.0%) + blocked 40 ns (3.3%) + "
      "switching 18 ns (1.5%) + unknown 2 ns (0.2%)\n"
      "Doubt     10 ns of the 40 ns blocked were behind the last look at a thread: in them may be "
      "waits for a processor\n"
      "Lost      records of switches, or the recording was paused: what threads did then is "
      "unknown\n"
      "Left out  2 more threads are not in it: there were too many\n"));
  g_assert_nonnull (strstr (text->str, "[unknown] (pid 20)\n"));
  g_assert_nonnull (strstr (text->str, "[unknown] (pid 10), 2 threads\n"));
  g_assert_nonnull (strstr (text->str, "[other threads], 3 threads\n"));
  sonde_waits_report_append_json (json, report);
  g_assert_nonnull (strstr (json->str, "\"life-ns\""));
}

static void
chooses_threads (void)
{
  SondeSampleFilter one = SONDE_SAMPLE_FILTER_INIT;
  g_autoptr (SondeWaitsReport) report = sonde_waits_report_new ();
  g_autoptr (GByteArray) bytes = new_waits ();

  one.tid = 12;
  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 11, 6));
  RECORD (bytes, SONDE_WAITS_THREAD, THREAD (10, 12, 6));
  RECORD (bytes, SONDE_WAITS_OTHERS, 3, 2, 10, 10, 0, 0, 0, 0, 0);
  RECORD (bytes, SONDE_WAITS_END, bytes->len);
  tell_file ("sonde/waits/1", bytes, 1000, add_to_report, report);
  sonde_waits_report_finish (report, SONDE_BY_THREAD, &one);
  g_assert_cmpuint (report->groups->len, ==, 1);
  g_assert_cmpint (g_array_index (report->groups, SondeWaitsGroup, 0).tid, ==, 12);
  g_assert_cmpuint (report->times[SONDE_TIME_LIFE], ==, 100);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/waits-reader/refuses-what-does-not-add-up", refuses_what_does_not_add_up);
  g_test_add_func ("/waits-reader/refuses-others-that-do-not-add-up",
                   refuses_others_that_do_not_add_up);
  g_test_add_func ("/waits-reader/refuses-a-younger-thread", refuses_a_younger_thread);
  g_test_add_func ("/waits-reader/refuses-other-files", refuses_other_files);
  g_test_add_func ("/waits-reader/refuses-files-that-are-cut", refuses_files_that_are_cut);
  g_test_add_func ("/waits-reader/is-bounded", is_bounded);
  g_test_add_func ("/waits-reader/reads-rows", reads_rows);
  g_test_add_func ("/waits-reader/takes-the-last-row", takes_the_last_row);
  g_test_add_func ("/waits-report/shows-groups", shows_groups);
  g_test_add_func ("/waits-report/chooses-threads", chooses_threads);
  return g_test_run ();
}
