/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A profile seen from its leaves, from one function, and by larger groups. */
#include "client/report/profile-view.h"

#include <string.h>

#include "client/report/profile-text.h"

/* main → parse → copy, main → copy, main → parse → parse; in a program and its library. */
enum
{
  MAIN,
  PARSE,
  COPY
};

#define ADD_PATH(tree, weight, ...)                                                                \
  sonde_call_tree_add (tree, (const guint32[]){ __VA_ARGS__ },                                     \
                       G_N_ELEMENTS (((const guint32[]){ __VA_ARGS__ })), weight)

static SondeProfile *
new_profile (void)
{
  SondeProfile *profile = sonde_profile_new (SONDE_UNIT_SAMPLES, NULL);
  char comm[] = "prog";
  SondeModelProcess process = { .pid = 5, .comm = comm, .cmdline = comm };
  SondeCallTree *tree = sonde_call_tree_new (NULL);

  sonde_profile_name_function (profile, "main", "prog");
  sonde_profile_name_function (profile, "parse(char const*)", "prog");
  sonde_profile_name_function (profile, "copy", "libcopy.so");
  ADD_PATH (tree, 50, MAIN, PARSE, COPY);
  ADD_PATH (tree, 30, MAIN, COPY);
  ADD_PATH (tree, 20, MAIN, PARSE, PARSE);
  sonde_profile_add_process (profile, &process, tree, NULL);
  return profile;
}

static char *
show_tree (const SondeProfile *profile, gboolean colours)
{
  SondeProfileStyle style = { .max_depth = 16, .utf8 = FALSE, .colours = colours };
  GString *out = g_string_new (NULL);

  sonde_profile_append_tree (out, profile, &style);
  return g_string_free (out, FALSE);
}

static char *
show_flat (const SondeProfile *profile)
{
  SondeProfileStyle style = { .max_depth = 16 };
  GString *out = g_string_new (NULL);

  sonde_profile_append_flat (out, profile, &style);
  return g_string_free (out, FALSE);
}

static void
bottom_up_goes_from_the_leaves_to_their_callers (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();
  g_autoptr (SondeProfile) view = sonde_profile_view_bottom_up (profile);
  g_autofree char *text = show_tree (view, FALSE);

  g_assert_cmpuint (sonde_profile_total (view), ==, 100);
  g_assert_cmpstr (text, ==,
                   "\n  Total    Self\n"
                   " 100.0%          [functions, below them their callers]\n"
                   "  80.0%          |- copy\n"
                   "  50.0%          |  |- parse(char const*)\n"
                   "  50.0%          |  |  main\n"
                   "  30.0%          |  `- main\n"
                   "  20.0%          `- parse(char const*)\n"
                   "  20.0%             parse(char const*)\n"
                   "  20.0%             main\n");
}

static void
callers_count_a_stack_once (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();
  g_autoptr (SondeProfile) view = sonde_profile_view_callers (profile, "parse");
  g_autofree char *text = show_tree (view, FALSE);

  g_assert_cmpuint (sonde_profile_total (view), ==, 70);
  g_assert_cmpstr (text, ==,
                   "\n  Total    Self\n"
                   " 100.0%          [parse, below it its callers]\n"
                   " 100.0%          parse(char const*)\n"
                   "  71.4%          |- main\n"
                   "  28.6%          `- parse(char const*)\n"
                   "  28.6%             main\n");
}

static void
functions_are_found_by_whole_name_or_pattern (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();
  const char *const good[] = { "copy", "c?py", "parse", "parse(char const*)", "*" };
  const char *const bad[] = { "cop", "", "PARSE", "parse(" };

  for (gsize i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (SondeProfile) view = sonde_profile_view_callers (profile, good[i]);

      g_assert_nonnull (view);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (bad); i++)
    g_assert_null (sonde_profile_view_callers (profile, bad[i]));
}

static void
modules_have_what_their_functions_have (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();
  g_autoptr (SondeProfile) view = sonde_profile_view_by_module (profile);
  g_autofree char *text = show_flat (view);

  g_assert_nonnull (strstr (text, "  80.0%   80.0%  libcopy.so\n  20.0%  100.0%  prog\n"));
}

static void
processes_are_told_apart_by_number (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();
  g_autoptr (SondeProfile) view = sonde_profile_view_by_process (profile);
  g_autofree char *text = show_flat (view);

  g_assert_nonnull (strstr (text, " 100.0%  100.0%  prog (pid 5)\n"));
}

static void
colours_change_no_width (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();
  g_autofree char *plain = show_tree (profile, FALSE);
  g_autofree char *coloured = show_tree (profile, TRUE);
  g_autoptr (GRegex) escape = g_regex_new ("\033\\[[0-9]*m", 0, 0, NULL);
  g_autofree char *bare = g_regex_replace_literal (escape, coloured, -1, 0, "", 0, NULL);

  g_assert_null (strchr (plain, '\033'));
  g_assert_nonnull (strstr (coloured, "\033[31m 100.0%\033[m"));
  g_assert_cmpstr (bare, ==, plain);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/profile-view/bottom-up-goes-from-the-leaves-to-their-callers",
                   bottom_up_goes_from_the_leaves_to_their_callers);
  g_test_add_func ("/profile-view/callers-count-a-stack-once", callers_count_a_stack_once);
  g_test_add_func ("/profile-view/functions-are-found-by-whole-name-or-pattern",
                   functions_are_found_by_whole_name_or_pattern);
  g_test_add_func ("/profile-view/modules-have-what-their-functions-have",
                   modules_have_what_their_functions_have);
  g_test_add_func ("/profile-view/processes-are-told-apart-by-number",
                   processes_are_told_apart_by_number);
  g_test_add_func ("/profile-view/colours-change-no-width", colours_change_no_width);
  return g_test_run ();
}
