/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Two profiles, and what became slower from one to the other. */
#include "client/report/profile-diff.h"

#include <string.h>

/* @names: of functions, in one module; main calls the others, which weigh @weights. */
static SondeProfile *
new_profile (const char *const *names, const guint64 *weights, guint n)
{
  SondeProfile *profile = sonde_profile_new (SONDE_UNIT_SAMPLES, NULL);
  char comm[] = "prog";
  SondeModelProcess process = { .pid = 5, .comm = comm, .cmdline = comm };
  SondeCallTree *tree = sonde_call_tree_new (NULL);
  guint32 path[2] = { sonde_profile_name_function (profile, "main", "prog") };

  for (guint i = 0; i < n; i++)
    {
      path[1] = sonde_profile_name_function (profile, names[i], "prog");
      sonde_call_tree_add (tree, path, 2, weights[i]);
    }
  sonde_profile_add_process (profile, &process, SONDE_TID_ALL, tree, NULL);
  return profile;
}

static SondeProfileDiff *
new_diff (const SondeProfile *before, const SondeProfile *after)
{
  const SondeProfileSide sides[] = { { .profile = before }, { .profile = after } };

  return sonde_profile_diff_new (&sides[0], &sides[1]);
}

static char *
show_functions (const SondeProfile *before, const SondeProfile *after, double percent_limit)
{
  g_autoptr (SondeProfileDiff) diff = new_diff (before, after);
  SondeProfileStyle style = { .percent_limit = percent_limit, .max_depth = 16 };
  GString *out = g_string_new (NULL);

  sonde_profile_diff_append_functions (out, diff, &style);
  return g_string_free (out, FALSE);
}

static char *
show_paths (const SondeProfile *before, const SondeProfile *after, guint max_depth)
{
  g_autoptr (SondeProfileDiff) diff = new_diff (before, after);
  SondeProfileStyle style = { .percent_limit = 1, .max_depth = max_depth };
  GString *out = g_string_new (NULL);

  sonde_profile_diff_append_paths (out, diff, &style);
  return g_string_free (out, FALSE);
}

static SondeProfile *
new_before (void)
{
  return new_profile ((const char *const[]){ "a", "b", "c" }, (const guint64[]){ 50, 40, 10 }, 3);
}

/* Twice as long; @b is gone, @d is new, and functions are numbered otherwise. */
static SondeProfile *
new_after (void)
{
  return new_profile ((const char *const[]){ "d", "c", "a" }, (const guint64[]){ 60, 20, 120 }, 3);
}

static void
functions_are_compared_by_share_slower_ones_first (void)
{
  g_autoptr (SondeProfile) before = new_before ();
  g_autoptr (SondeProfile) after = new_after ();
  g_autofree char *text = show_functions (before, after, 0.5);
  const char *rows = strchr (text + 1, '\n') + 1;
  g_auto (GStrv) lines = g_strsplit (rows, "\n", -1);

  g_assert_cmpuint (g_strv_length (lines), ==, 4);
  g_assert_true (g_str_has_prefix (lines[0], "   0.0%   30.0%   +30.0  d "));
  g_assert_true (g_str_has_prefix (lines[1], "  50.0%   60.0%   +10.0  a "));
  g_assert_true (g_str_has_prefix (lines[2], "  40.0%    0.0%   -40.0  b "));
}

static void
what_stays_is_left_out (void)
{
  g_autoptr (SondeProfile) before = new_before ();
  g_autoptr (SondeProfile) same = new_before ();
  g_autofree char *functions = show_functions (before, same, 0);
  g_autofree char *paths = show_paths (before, same, 16);

  g_assert_nonnull (strstr (functions, "No function changed by 0.0% or more.\n"));
  g_assert_nonnull (strstr (paths, "No path changed by 1.0% or more.\n"));
}

static void
paths_lead_to_what_changed (void)
{
  g_autoptr (SondeProfile) before = new_before ();
  g_autoptr (SondeProfile) after = new_after ();
  g_autofree char *text = show_paths (before, after, 16);

  g_assert_cmpstr (text, ==,
                   "\n Before   After  Change  Path (with callees)\n"
                   " 100.0%  100.0%    +0.0  main\n"
                   "   0.0%   30.0%   +30.0  |- d\n"
                   "  50.0%   60.0%   +10.0  |- a\n"
                   "  40.0%    0.0%   -40.0  `- b\n");
}

static void
paths_end_at_the_depth_limit (void)
{
  g_autoptr (SondeProfile) before = new_before ();
  g_autoptr (SondeProfile) after = new_after ();
  g_autofree char *text = show_paths (before, after, 1);

  g_assert_nonnull (strstr (text, "main\n"));
  g_assert_null (strstr (text, "- d\n"));
}

typedef struct
{
  SondeProfile *sides[2];
  SondeProfileDiff *diff;
} Judged;

static void
judged_clear (Judged *self)
{
  sonde_profile_diff_free (self->diff);
  for (guint i = 0; i < G_N_ELEMENTS (self->sides); i++)
    sonde_profile_free (self->sides[i]);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Judged, judged_clear)

/* As many functions of equal weight, of which the last one is new in @after; samples are of each in
 * turn. */
static SondeDiffVerdict
judge (Judged *self, guint n_functions, gsize n_samples, double percent_limit)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autofree guint64 *weights = g_new0 (guint64, n_functions);
  g_autofree gint64 *times_ns = g_new (gint64, n_samples);
  g_autofree guint32 *functions = g_new (guint32, n_samples);
  SondeProfileTimes times = { .times_ns = times_ns, .functions = functions, .n = n_samples };

  for (guint i = 0; i < n_functions; i++)
    {
      g_ptr_array_add (names, g_strdup_printf ("f%u", i));
      weights[i] = 1;
    }
  for (gsize i = 0; i < n_samples; i++)
    {
      times_ns[i] = (gint64) i;
      functions[i] = 1 + (guint32) (i % n_functions);
    }
  times.to_ns = (gint64) n_samples;
  for (guint i = 0; i < G_N_ELEMENTS (self->sides); i++)
    self->sides[i] = new_profile ((const char *const *) names->pdata, weights, n_functions - 1 + i);
  self->diff = new_diff (self->sides[0], self->sides[1]);
  return sonde_profile_diff_judge (self->diff, &times, &times, percent_limit);
}

static void
assert_chance (const SondeProfileDiff *diff, const char *line)
{
  const SondeProfileStyle style = { .max_depth = 16 };
  g_autoptr (GString) out = g_string_new (NULL);

  sonde_profile_diff_append_chance (out, diff, &style, FALSE);
  g_assert_nonnull (strstr (out->str, line));
}

static void
few_samples_are_no_verdict (void)
{
  g_auto (Judged) diff = { 0 };

  g_assert_cmpint (judge (&diff, 4, 40, 0), ==, SONDE_DIFF_UNKNOWN);
  assert_chance (diff.diff, "Chance    too few samples to tell it from changes\n");
}

/* Few samples do not say that either. */
static void
what_is_too_small_to_change_so_much_is_not_judged (void)
{
  g_auto (Judged) diff = { 0 };
  g_auto (Judged) few = { 0 };

  g_assert_cmpint (judge (&diff, 10, 1000, 50), ==, SONDE_DIFF_EMPTY);
  assert_chance (diff.diff,
                 "Chance    nothing is so large that it could have changed by 50 points\n");
  g_assert_cmpint (judge (&few, 10, 40, 50), ==, SONDE_DIFF_UNKNOWN);
}

static void
what_is_beyond_the_rows_is_told (void)
{
  g_auto (Judged) diff = { 0 };
  g_auto (Judged) all = { 0 };

  g_assert_cmpint (judge (&diff, 1030, 5000, 0), ==, SONDE_DIFF_KNOWN);
  assert_chance (diff.diff, "Beyond    6 that are smaller than these 1024 are not judged\n");
  g_assert_cmpuint (sonde_profile_diff_count_unjudged (diff.diff, 0), ==, 1);
  g_assert_cmpuint (sonde_profile_diff_count_unjudged (diff.diff, 0.09), ==, 1);
  g_assert_cmpuint (sonde_profile_diff_count_unjudged (diff.diff, 0.1), ==, 0);
  g_assert_cmpint (judge (&all, 1024, 5000, 0), ==, SONDE_DIFF_KNOWN);
  g_assert_cmpuint (sonde_profile_diff_count_unjudged (all.diff, 0), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/profile-diff/functions-are-compared-by-share-slower-ones-first",
                   functions_are_compared_by_share_slower_ones_first);
  g_test_add_func ("/profile-diff/what-stays-is-left-out", what_stays_is_left_out);
  g_test_add_func ("/profile-diff/paths-lead-to-what-changed", paths_lead_to_what_changed);
  g_test_add_func ("/profile-diff/paths-end-at-the-depth-limit", paths_end_at_the_depth_limit);
  g_test_add_func ("/profile-diff/few-samples-are-no-verdict", few_samples_are_no_verdict);
  g_test_add_func ("/profile-diff/what-is-too-small-to-change-so-much-is-not-judged",
                   what_is_too_small_to_change_so_much_is_not_judged);
  g_test_add_func ("/profile-diff/what-is-beyond-the-rows-is-told",
                   what_is_beyond_the_rows_is_told);
  return g_test_run ();
}
