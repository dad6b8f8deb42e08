/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests what is read of files of calls, and what is refused. */
#include "client/model/calls-reader.h"

#include "shared-ring/trie-layout.h"
#include "tests/unit/calls-files.h"

#define BEGIN_NS 1000u

static void
add_frame (gpointer reader, const SondeFrame *frame)
{
  sonde_calls_reader_add (reader, frame);
}

static void
add_file (SondeCallsReader *reader, const char *path, const GByteArray *bytes, guint piece)
{
  tell_file (path, bytes, piece, add_frame, reader);
}

/* main, which calls f: @calls times; of these @timed were, of 20 and 700 ticks. */
static GByteArray *
new_usual (guint64 begin_ns, guint64 end_ns, guint64 calls)
{
  GByteArray *bytes = new_file (begin_ns, end_ns);

  if (begin_ns == BEGIN_NS)
    {
      RECORD (bytes, SONDE_CALLS_PATH, 1, 0, 0);
      RECORD (bytes, SONDE_CALLS_PATH, 2, 1, 0x1000);
      RECORD (bytes, SONDE_CALLS_PATH, 3, 2, 0x2000);
    }
  RECORD (bytes, SONDE_CALLS_CALLS, 3, calls);
  RECORD (bytes, SONDE_CALLS_TIMES, 3, 2, 720, 0, 5, 20, 700, 2, 20, 1, 86, 1);
  return bytes;
}

static const SondeCallsPath *
path_at (const SondeCallsReader *reader, guint number)
{
  return &g_array_index (sonde_calls_reader_program (reader, 0)->paths, SondeCallsPath, number - 1);
}

/* --- what is read --- */

static void
take_path (guint program, const SondeCallsPath *path, gpointer user_data)
{
  g_assert_cmpuint (program, ==, 0);
  g_array_append_val (user_data, path->address);
}

static void
check_sums (void)
{
  g_autoptr (GArray) told = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (take_path, told);
  g_autoptr (GByteArray) first = new_usual (BEGIN_NS, 2000, 10);
  g_autoptr (GByteArray) second = new_usual (2000, 3000, 5);
  const SondeCallsProgram *program;
  const SondeCallsPath *path;

  end_file (first);
  RECORD (second, SONDE_CALLS_ACCOUNT, 15, 15, 0, 0, 0, 0, 0, 0, 0, 0, 9, 3, 1, 3);
  RECORD (second, SONDE_CALLS_WORDS, 77, 3);
  RECORD (second, SONDE_CALLS_TOLD, 30, 28, 4, SONDE_CALLS_REASON_CODE, 99);
  RECORD (second, 1000, 1, 2, 3); /* of a kind to come */
  end_file (second);
  add_file (reader, "sonde/calls/42-7/1", first, 7);
  add_file (reader, "sonde/calls/42-7/2", second, 4096);
  g_assert_null (sonde_calls_reader_fault (reader));
  g_assert_cmpuint (sonde_calls_reader_n_programs (reader), ==, 1);
  program = sonde_calls_reader_program (reader, 0);
  g_assert_cmpint (program->pid, ==, 42);
  g_assert_cmpint (program->begin_ns, ==, BEGIN_NS);
  g_assert_cmpint (program->end_ns, ==, 3000);
  g_assert_false (program->is_partial);
  g_assert_cmpuint (told->len, ==, 3);
  g_assert_cmphex (g_array_index (told, guint64, 2), ==, 0x2000);

  path = path_at (reader, 3);
  g_assert_cmpuint (path->parent, ==, 2);
  g_assert_cmpuint (path->calls, ==, 15);
  g_assert_cmpuint (path->timed, ==, 4);
  g_assert_cmpuint (path->total_ticks, ==, 1440);
  g_assert_cmpuint (path->nested, ==, 10);
  g_assert_cmpuint (path->min_ticks, ==, 20);
  g_assert_cmpuint (path->max_ticks, ==, 700);
  g_assert_cmpuint (path->buckets->len, ==, 2);
  g_assert_cmpuint (g_array_index (path->buckets, SondeCallsBucket, 1).bucket, ==, 106);
  g_assert_cmpuint (g_array_index (path->buckets, SondeCallsBucket, 1).n, ==, 2);
  g_assert_cmpuint (program->words->len, ==, 1);
  g_assert_cmpuint (program->n_functions, ==, 30);
  g_assert_cmpuint (program->n_patched, ==, 28);
  g_assert_cmpuint (program->n_refused, ==, 4);
  g_assert_cmpuint (program->reason, ==, SONDE_CALLS_REASON_CODE);
  g_assert_null (sonde_calls_program_check (program));
}

static void
check_sum_so_far (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (GByteArray) first = new_usual (BEGIN_NS, 2000, 10);
  g_autoptr (GByteArray) whole = new_usual (BEGIN_NS, 3000, 30);

  end_file (first);
  end_file (whole);
  add_file (reader, "sonde/calls/42-7/1", first, 4096);
  add_file (reader, "sonde/calls/42-7/2", whole, 4096);
  g_assert_null (sonde_calls_reader_fault (reader));
  g_assert_cmpuint (path_at (reader, 3)->calls, ==, 30);
  g_assert_cmpuint (path_at (reader, 3)->timed, ==, 2);
  g_assert_cmpuint (path_at (reader, 3)->buckets->len, ==, 2);
}

static void
check_since (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (SondeCallsReader) before = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (SondeCallsReader) since = NULL;
  g_autoptr (SondeCallsReader) whole = NULL;
  g_autoptr (GByteArray) first = new_usual (BEGIN_NS, 2000, 10);
  g_autoptr (GByteArray) second = new_usual (2000, 3000, 5);
  g_autoptr (GByteArray) other = new_usual (BEGIN_NS, 3000, 4);
  const SondeCallsPath *path;

  RECORD (first, SONDE_CALLS_ACCOUNT, 12, 10, 2, 0, 0, 0, 0, 0, 0, 0, 9, 3, 1, 3);
  end_file (first);
  RECORD (second, SONDE_CALLS_ACCOUNT, 18, 15, 3, 0, 0, 0, 0, 0, 0, 0, 99, 33, 2, 3);
  RECORD (second, SONDE_CALLS_TIMES, 3, 1, 30, 0, 0, 20, 700, 1, 30, 1);
  end_file (second);
  end_file (other);
  add_file (before, "sonde/calls/42-7/1", first, 4096);
  add_file (reader, "sonde/calls/43-7/1", other, 4096);
  add_file (reader, "sonde/calls/42-7/1", first, 4096);
  add_file (reader, "sonde/calls/42-7/2", second, 4096);
  since = sonde_calls_reader_new_since (reader, before);
  g_assert_cmpuint (sonde_calls_reader_n_programs (since), ==, 2);
  /* nothing was known of it */
  g_assert_cmpint (sonde_calls_reader_program (since, 0)->pid, ==, 43);
  g_assert_cmpuint (path_at (since, 3)->calls, ==, 4);
  g_assert_true (sonde_calls_reader_program_of (since, "sonde/calls/43-7/99")
                 == sonde_calls_reader_program (since, 0));
  g_assert_null (sonde_calls_reader_program_of (since, "sonde/calls/44-7/99"));
  path = &g_array_index (sonde_calls_reader_program (since, 1)->paths, SondeCallsPath, 2);
  g_assert_cmpuint (path->calls, ==, 5);
  g_assert_cmpuint (path->timed, ==, 3);
  g_assert_cmpuint (path->total_ticks, ==, 750);
  g_assert_cmpuint (path->max_ticks, ==, 700);
  g_assert_cmpuint (path->buckets->len, ==, 3);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (g_array_index (path->buckets, SondeCallsBucket, i).n, ==, 1);
  g_assert_cmpuint (g_array_index (path->buckets, SondeCallsBucket, 1).bucket, ==, 30);
  g_assert_cmpuint (sonde_calls_reader_program (since, 1)->account[SONDE_CALLS_ACCOUNT_LOST_BUDGET],
                    ==, 1);
  g_assert_cmpuint (sonde_calls_reader_program (since, 1)->account[SONDE_CALLS_ACCOUNT_N_HOOKS], ==,
                    33);

  /* without a moment before it is a copy, which goes on by itself */
  whole = sonde_calls_reader_new_since (before, NULL);
  add_file (whole, "sonde/calls/42-7/2", second, 4096);
  g_assert_cmpuint (path_at (whole, 3)->calls, ==, 15);
  g_assert_cmpuint (path_at (before, 3)->calls, ==, 10);
}

static void
check_small (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new_small (3);
  g_autoptr (GByteArray) file = new_usual (BEGIN_NS, 2000, 10);

  end_file (file);
  add_file (reader, "sonde/calls/42-7/1", file, 4096);
  g_assert_null (sonde_calls_reader_fault (reader));
  add_file (reader, "sonde/calls/43-7/1", file, 4096);
  g_assert_cmpstr (sonde_calls_reader_fault (reader), ==, "sonde/calls/43-7/1: a path is wrong");
  g_assert_true (sonde_calls_reader_program (reader, 1)->is_partial);
}

static void
check_gap (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (GByteArray) first = new_usual (BEGIN_NS, 2000, 10);
  g_autoptr (GByteArray) third = new_usual (2500, 3000, 1);

  end_file (first);
  end_file (third);
  add_file (reader, "sonde/calls/42-7/1", first, 4096);
  add_file (reader, "sonde/calls/42-7/3", third, 4096);
  g_assert_null (sonde_calls_reader_fault (reader));
  g_assert_true (sonde_calls_reader_program (reader, 0)->is_partial);
  g_assert_cmpuint (path_at (reader, 3)->calls, ==, 11);
}

static void
check_account (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (GByteArray) file = new_usual (BEGIN_NS, 2000, 10);

  RECORD (file, SONDE_CALLS_ACCOUNT, 15, 9, 0, 0, 0, 0, 0, 0, 0, 0, 9, 3, 1, 3);
  end_file (file);
  add_file (reader, "sonde/calls/42-7/1", file, 4096);
  g_assert_cmpstr (sonde_calls_program_check (sonde_calls_reader_program (reader, 0)), ==,
                   "its paths have more or fewer calls than were counted");
}

/* @calls: that it says there were; ten were counted, by a thread */
static const char *
check_calls (guint64 calls)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (GByteArray) file = new_usual (BEGIN_NS, 2000, 10);

  RECORD (file, SONDE_CALLS_ACCOUNT, calls, 10, 0, 0, 0, 0, 0, 0, 0, 0, 9, 3, 1, 3);
  end_file (file);
  add_file (reader, "sonde/calls/42-7/1", file, 4096);
  return sonde_calls_program_check (sonde_calls_reader_program (reader, 0));
}

static void
check_rest (void)
{
  g_assert_cmpstr (check_calls (9), ==, "more calls were counted or lost than there were");
  g_assert_null (check_calls (10));
  g_assert_null (check_calls (11)); /* a thread was in a hook */
  g_assert_cmpstr (check_calls (12), ==, "there were more calls than were counted or lost");
}

/* What builds on it is left out, but for a sum so far, which does not. */
static void
check_behind_fault (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (GByteArray) first = new_usual (BEGIN_NS, 2000, 10);
  g_autoptr (GByteArray) broken = new_usual (2000, 3000, 1);
  g_autoptr (GByteArray) third = new_usual (3000, 4000, 5);
  g_autoptr (GByteArray) whole = new_usual (BEGIN_NS, 5000, 20);

  end_file (first);
  end_file (third);
  end_file (whole);
  add_file (reader, "sonde/calls/42-7/1", first, 4096);
  add_file (reader, "sonde/calls/42-7/2", broken, 4096);
  add_file (reader, "sonde/calls/42-7/3", third, 4096);
  g_assert_true (sonde_calls_reader_program (reader, 0)->is_broken);
  g_assert_cmpuint (path_at (reader, 3)->calls, ==, 11);
  add_file (reader, "sonde/calls/42-7/4", whole, 4096);
  g_assert_false (sonde_calls_reader_program (reader, 0)->is_broken);
  g_assert_cmpuint (path_at (reader, 3)->calls, ==, 20);
}

/* --- what is refused --- */

static void
assert_refused (GByteArray *file, const char *fault)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autofree char *expected = g_strconcat ("sonde/calls/42-7/1: ", fault, NULL);

  add_file (reader, "sonde/calls/42-7/1", file, 4096);
  g_assert_cmpstr (sonde_calls_reader_fault (reader), ==, expected);
  g_assert_true (sonde_calls_reader_program (reader, 0)->is_partial);
  g_byte_array_unref (file);
}

#define REFUSE(expected, ...)                                                                      \
  G_STMT_START                                                                                     \
  {                                                                                                \
    GByteArray *file = new_usual (BEGIN_NS, 2000, 10);                                             \
                                                                                                   \
    RECORD (file, __VA_ARGS__);                                                                    \
    end_file (file);                                                                               \
    assert_refused (file, expected);                                                               \
  }                                                                                                \
  G_STMT_END

static void
check_records (void)
{
  REFUSE ("a path is wrong", SONDE_CALLS_PATH, 5, 1, 0x3000); /* one is left out */
  REFUSE ("a path is wrong", SONDE_CALLS_PATH, 4, 4, 0x3000); /* its own caller */
  REFUSE ("a path is wrong", SONDE_CALLS_PATH, 4, 0, 0x3000); /* nobody's */
  REFUSE ("a path is wrong", SONDE_CALLS_PATH, 3, 1, 0x2000); /* another caller than before */
  REFUSE ("a path is wrong", SONDE_CALLS_PATH, 4, 1);         /* too short */
  REFUSE ("calls are of no path", SONDE_CALLS_CALLS, 4, 1);
  REFUSE ("calls are of no path", SONDE_CALLS_CALLS, 0, 1);
  REFUSE ("times are wrong", SONDE_CALLS_TIMES, 9, 1, 1, 0, 0, 1, 1, 0);
  REFUSE ("times are wrong", SONDE_CALLS_TIMES, 3, 1, 1, 0, 0, 1, 1, 1, 560, 1);     /* beyond */
  REFUSE ("times are wrong", SONDE_CALLS_TIMES, 3, 1, 1, 0, 0, 1, 1, 2, 5, 1, 0, 1); /* twice */
  REFUSE ("times are wrong", SONDE_CALLS_TIMES, 3, 1, 1, 0, 0, 1, 1, 1, 5, 0);       /* no calls */
  REFUSE ("times are wrong", SONDE_CALLS_TIMES, 3, 1, 1, 0, 0, 1, 1, 561);
  REFUSE ("an account is too short", SONDE_CALLS_ACCOUNT, 1, 2, 3);
  REFUSE ("what is told is too short", SONDE_CALLS_TOLD, 1, 2, 3);
  REFUSE ("last words are of no path", SONDE_CALLS_WORDS, 1, 4);
  REFUSE ("a function that is left out is wrong", SONDE_CALLS_UNCOUNTED, 1);
  REFUSE ("a part of it is missing", SONDE_CALLS_END, 1);
}

static void
check_files (void)
{
  GByteArray *file = new_usual (BEGIN_NS, 2000, 10);

  assert_refused (file, "its end is missing");
  file = new_usual (BEGIN_NS, 2000, 10);
  end_file (file);
  RECORD (file, SONDE_CALLS_CALLS, 3, 1);
  assert_refused (file, "something is behind its end");
  file = new_usual (BEGIN_NS, 2000, 10);
  put (file, SONDE_CALLS_CALLS);
  put (file, 100);
  assert_refused (file, "a record reaches past its end");
  file = new_usual (BEGIN_NS, 2000, 10);
  file->data[0] = 'X';
  assert_refused (file, "it is no file of calls");
  file = new_usual (BEGIN_NS, 2000, 10);
  file->data[SONDE_CALLS_MAGIC_BYTES]++;
  assert_refused (file, "it has another version");
  file = new_usual (BEGIN_NS, BEGIN_NS - 1, 10);
  assert_refused (file, "its header is wrong");
}

static void
check_size (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (GByteArray) file = g_byte_array_new ();

  g_byte_array_set_size (file, SONDE_CALLS_MAX_BYTES + 1);
  memset (file->data, 0, file->len);
  add_file (reader, "sonde/calls/42-7/1", file, 4096);
  g_assert_cmpstr (sonde_calls_reader_fault (reader), ==, "sonde/calls/42-7/1: it is too large");
}

static void
check_names (void)
{
  static const char *const others[]
      = { "sonde/calls/42-7",    "sonde/calls/x-7/1",  "sonde/calls/42/1",
          "sonde/calls/1-2-3/1", "sonde/calls/-1-2/1", "sonde/heap.v1.zst" };
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new (NULL, NULL);
  g_autoptr (GByteArray) file = new_usual (BEGIN_NS, 2000, 10);

  end_file (file);
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    add_file (reader, others[i], file, 4096);
  g_assert_cmpuint (sonde_calls_reader_n_programs (reader), ==, 0);
}

/* Which are counted once each, and so are as many again. */
static void
check_many_programs (void)
{
  g_autoptr (SondeCallsReader) reader = sonde_calls_reader_new_small (8);
  g_autoptr (SondeCallsReader) since = NULL;
  g_autoptr (GByteArray) file = new_file (BEGIN_NS, 2000);

  end_file (file);
  for (guint i = 0; i < 2 * SONDE_CALLS_READER_MAX_PROGRAMS + 1; i++)
    {
      g_autofree char *first = g_strdup_printf ("sonde/calls/%u-7/1", i);
      g_autofree char *second = g_strdup_printf ("sonde/calls/%u-7/2", i);
      guint n_left_out
          = MIN (i < SONDE_CALLS_READER_MAX_PROGRAMS ? 0 : i + 1 - SONDE_CALLS_READER_MAX_PROGRAMS,
                 SONDE_CALLS_READER_MAX_PROGRAMS);

      add_file (reader, first, file, 4096);
      add_file (reader, second, file, 4096);
      g_assert_cmpuint (sonde_calls_reader_n_left_out (reader), ==, n_left_out);
    }
  g_assert_cmpuint (sonde_calls_reader_n_programs (reader), ==, SONDE_CALLS_READER_MAX_PROGRAMS);
  g_assert_cmpstr (sonde_calls_reader_fault (reader), ==,
                   "sonde/calls/4096-7/1: there are too many programs");
  since = sonde_calls_reader_new_since (reader, NULL);
  g_assert_cmpuint (sonde_calls_reader_n_left_out (since), ==, SONDE_CALLS_READER_MAX_PROGRAMS);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/calls-reader/refuses-wrong-records-by-what-they-are", check_records);
  g_test_add_func ("/calls-reader/refuses-files-that-are-not-whole", check_files);
  g_test_add_func ("/calls-reader/refuses-a-file-that-is-too-large", check_size);
  g_test_add_func ("/calls-reader/leaves-other-files-alone", check_names);
  g_test_add_func ("/calls-reader/says-when-an-account-does-not-add-up", check_account);
  g_test_add_func ("/calls-reader/says-when-calls-are-missing", check_rest);
  g_test_add_func ("/calls-reader/what-builds-on-a-fault-is-left-out", check_behind_fault);
  g_test_add_func ("/calls-reader/differences-add-up", check_sums);
  g_test_add_func ("/calls-reader/a-sum-so-far-replaces-what-came-before", check_sum_so_far);
  g_test_add_func ("/calls-reader/a-file-that-is-missing-is-noticed", check_gap);
  g_test_add_func ("/calls-reader/has-no-more-paths-than-there-is-room-for", check_small);
  g_test_add_func ("/calls-reader/counts-programs-that-it-has-no-room-for", check_many_programs);
  g_test_add_func ("/calls-reader/tells-what-came-since-a-moment", check_since);
  return g_test_run ();
}
