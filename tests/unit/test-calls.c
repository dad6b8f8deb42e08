/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests that the call tries of threads become one set of paths, and which functions a budget ends.
 */
#include "daemon/capture/calls/call-budget.h"
#include "daemon/capture/calls/call-paths.h"
#include "daemon/capture/calls/calls-file.h"
#include "tests/lib/calls-summary.h"

static guint32
take (SondeCallPaths *paths, guint32 node, guint32 parent, guint64 function)
{
  const SondeTrieChange change = { .node = node, .parent = parent, .function = function };

  return sonde_call_paths_take (paths, &change);
}

static void
paths_of_threads_are_one (void)
{
  g_autoptr (SondeCallPaths) paths = sonde_call_paths_new ();

  g_assert_cmpuint (take (paths, 10, 0, SONDE_TRIE_ROOT), ==, 1);
  g_assert_cmpuint (take (paths, 11, 10, 'a'), ==, 2);
  g_assert_cmpuint (take (paths, 12, 11, 'b'), ==, 3);
  /* another thread, which was there, too, and elsewhere */
  g_assert_cmpuint (take (paths, 600, 0, SONDE_TRIE_ROOT), ==, 1);
  g_assert_cmpuint (take (paths, 601, 600, 'b'), ==, 4);
  g_assert_cmpuint (take (paths, 602, 600, 'a'), ==, 2);
  g_assert_cmpuint (take (paths, 603, 602, 'b'), ==, 3);
  g_assert_cmpuint (take (paths, 700, 0, SONDE_TRIE_SIGNAL_ROOT), ==, 5);
  /* one that is known */
  g_assert_cmpuint (take (paths, 603, 602, 'b'), ==, 3);

  g_assert_cmpuint (sonde_call_paths_n (paths), ==, 5);
  g_assert_cmpuint (sonde_call_paths_at (paths, 3)->parent, ==, 2);
  g_assert_cmpuint (sonde_call_paths_at (paths, 3)->function, ==, 'b');
  g_assert_cmpuint (sonde_call_paths_at (paths, 5)->parent, ==, 0);
  g_assert_cmpuint (sonde_call_paths_of_node (paths, 603), ==, 3);
  g_assert_cmpuint (sonde_call_paths_of_node (paths, 604), ==, 0);
  g_assert_cmpuint (sonde_call_paths_of_node (paths, 13), ==, 0);
}

static void
take_bytes (CallsProgram *program, SondeCallsFile *file, gint64 begin_ns, gint64 end_ns)
{
  const SondeCallsHead head = { .ticks_per_s = 2600000000,
                                .mode = SONDE_TRIE_AUTO,
                                .sample_every = 64,
                                .begin_ns = begin_ns,
                                .end_ns = end_ns };
  g_autoptr (GBytes) content = sonde_calls_file_end (file, &head);
  gsize size_bytes;
  const guint8 *bytes = g_bytes_get_data (content, &size_bytes);
  g_autoptr (GByteArray) copy = g_byte_array_new ();

  g_byte_array_append (copy, bytes, (guint) size_bytes);
  calls_take_file (program, copy);
}

static CallsProgram *
program_new (void)
{
  CallsProgram *program = g_new0 (CallsProgram, 1);

  program->paths = g_array_new (FALSE, FALSE, sizeof (CallsPath));
  program->uncounted = g_array_new (FALSE, FALSE, sizeof (guint64));
  program->words = g_array_new (FALSE, FALSE, sizeof (guint64));
  return program;
}

static void
files_have_what_was_put (void)
{
  g_autoptr (SondeCallsFile) file = sonde_calls_file_new ();
  const SondeTrieCounts counts = { .calls = 7, .counted = 4, .lost_budget = 2, .lost_depth = 1 };
  SondeTrieTimes times = { .timed = 66, .min_ticks = 3, .max_ticks = G_MAXUINT64 };
  CallsProgram *program = program_new ();

  times.buckets[0] = 1;
  times.buckets[SONDE_CALLS_N_BUCKETS - 1] = 65;
  sonde_calls_file_put_path (file, 1, 0, 0);
  sonde_calls_file_put_path (file, 2, 1, 0x7ffff7dd0000);
  sonde_calls_file_put_calls (file, 2, 3);
  sonde_calls_file_put_times (file, 2, &times);
  sonde_calls_file_put_uncounted (file, 0x7ffff7dd0000, 5, 3);
  sonde_calls_file_put_words (file, 77, 2);
  sonde_calls_file_put_told (file, 1, 2, 3, 4);
  sonde_calls_file_put_account (file, &counts, 2);
  take_bytes (program, file, 1, 9);
  g_assert_cmpuint (sonde_calls_file_size (file), ==, 0);
  sonde_calls_file_put_calls (file, 2, G_MAXUINT64 - 5);
  sonde_calls_file_put_refused (file, "why");
  take_bytes (program, file, 9, 9);

  g_assert_cmpuint (program->mode, ==, SONDE_TRIE_AUTO);
  g_assert_cmpuint (calls_path (program, 2)->calls, ==, G_MAXUINT64 - 2);
  g_assert_cmpuint (calls_path (program, 2)->timed, ==, 66);
  g_assert_cmpuint (calls_path (program, 2)->buckets, ==, 66);
  g_assert_cmpuint (program->account[SONDE_CALLS_ACCOUNT_LOST_BUDGET], ==, 2);
  g_assert_cmpuint (program->account[SONDE_CALLS_ACCOUNT_N_PATHS], ==, 2);
  g_assert_cmpuint (g_array_index (program->uncounted, guint64, 0), ==, 0x7ffff7dd0000);
  g_assert_cmpuint (g_array_index (program->words, guint64, 0), ==, 2);
  g_assert_cmpstr (program->refused, ==, "why");
  calls_program_free (program);
}

/* Of as many calls of 10 ticks each as are timed of them. */
static void
add (SondeCallBudget *budget, guint64 function, guint64 calls, guint64 mean_ticks)
{
  const SondeTrieTimes times = { .timed = calls, .total_ticks = calls * mean_ticks };

  sonde_call_budget_add (budget, function, calls, mean_ticks > 0 ? &times : NULL);
}

static void
budget_ends_what_is_called_most_and_takes_least (void)
{
  g_autoptr (SondeCallBudget) budget = sonde_call_budget_new ();
  SondeCallLeftOut chosen[4];

  add (budget, 'l', 1000, 5);   /* a leaf */
  add (budget, 'm', 900, 2000); /* as many, but long */
  add (budget, 'n', 300, 5);
  add (budget, 'o', 2, 0);
  g_assert_cmpuint (sonde_call_budget_choose (budget, 1200, 20, chosen, 4), ==, 2);
  g_assert_cmpuint (chosen[0].function, ==, 'l');
  g_assert_cmpuint (chosen[0].calls, ==, 1000);
  g_assert_cmpuint (chosen[1].function, ==, 'n');

  /* Never twice, and by what came since then. */
  sonde_call_budget_pass (budget);
  add (budget, 'l', 5000, 5);
  add (budget, 'o', 2, 0);
  g_assert_cmpuint (sonde_call_budget_choose (budget, 1000, 20, chosen, 4), ==, 1);
  g_assert_cmpuint (chosen[0].function, ==, 'o');
  g_assert_cmpuint (chosen[0].calls, ==, 4);
  sonde_call_budget_pass (budget);
  g_assert_cmpuint (sonde_call_budget_choose (budget, 1000, 20, chosen, 4), ==, 0);
  add (budget, 'm', 1, 2000);
  g_assert_cmpuint (sonde_call_budget_choose (budget, 1000, 20, chosen, 0), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/calls/make-one-set-of-the-paths-of-threads", paths_of_threads_are_one);
  g_test_add_func ("/calls/have-in-files-what-was-put-there", files_have_what_was_put);
  g_test_add_func ("/calls/leave-out-what-is-called-most-and-takes-least",
                   budget_ends_what_is_called_most_and_takes_least);
  return g_test_run ();
}
