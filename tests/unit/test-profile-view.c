/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A profile seen from its leaves, from one function, and by larger groups. */
#include "client/report/profile-view.h"

#include <string.h>

#include "client/report/folding.h"
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
  sonde_profile_add_process (profile, &process, SONDE_TID_ALL, tree, NULL);
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
                   "  50.0%          |  |- parse\n"
                   "  50.0%          |  |  main\n"
                   "  30.0%          |  `- main\n"
                   "  20.0%          `- parse\n"
                   "  20.0%             parse\n"
                   "  20.0%             main\n");
}

static void
names_are_shortened_unless_full_ones_are_wanted (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();
  const SondeProfileStyle style = { .max_depth = 16, .full_names = TRUE };
  g_autofree char *shortened = show_flat (profile);
  g_autoptr (GString) full = g_string_new (NULL);

  sonde_profile_append_flat (full, profile, &style);
  g_assert_nonnull (strstr (shortened, "  parse                                     prog\n"));
  g_assert_nonnull (strstr (full->str, "  parse(char const*)                        prog\n"));
}

static void
no_row_is_wider_than_the_terminal (void)
{
  g_autoptr (SondeProfile) profile = new_profile ();

  for (guint width = 30; width < 100; width++)
    for (guint i = 0; i < 4; i++)
      {
        const SondeProfileStyle style
            = { .max_depth = 16, .utf8 = i % 2 == 1, .width = width, .full_names = TRUE };
        g_autoptr (GString) out = g_string_new (NULL);
        g_auto (GStrv) lines = NULL;

        if (i < 2)
          sonde_profile_append_tree (out, profile, &style);
        else
          sonde_profile_append_flat (out, profile, &style);
        lines = g_strsplit (out->str, "\n", -1);
        for (guint k = 2; lines[k] != NULL; k++)
          g_assert_cmpint (g_utf8_strlen (lines[k], -1), <=, width);
      }
}

/* A group has one process more for each pid, and its heaviest one's command line. */
static void
processes_of_one_command_are_one (void)
{
  g_autoptr (SondeProfile) profile = sonde_profile_new (SONDE_UNIT_SAMPLES, NULL);
  g_autoptr (SondeCaptureModel) model = sonde_capture_model_new (&(SondeModelFuncs){ 0 }, NULL);
  static const SondeModelProcess processes[] = {
    { 5, "cc1", "cc1 a.c" }, { 6, "sh", "sh" }, { 7, "cc1", "cc1 b.c" }, { 8, "cc1", "cc1 c.c" }
  };
  g_autofree char *text = NULL;

  sonde_profile_group (profile, sonde_grouping_new (SONDE_BY_COMMAND, model));
  sonde_profile_name_function (profile, "main", "prog");
  for (guint i = 0; i < G_N_ELEMENTS (processes); i++)
    {
      SondeCallTree *tree = sonde_call_tree_new (NULL);

      ADD_PATH (tree, i == 2 ? 40 : 20, MAIN);
      sonde_profile_add_process (profile, &processes[i], SONDE_TID_ALL, tree, NULL);
    }
  sonde_profile_sort (profile);
  text = show_tree (profile, FALSE);
  g_assert_cmpstr (text, ==,
                   "\n  Total    Self\n"
                   "  80.0%          cc1 (3 processes)\n"
                   "  80.0%   80.0%  main\n"
                   "  20.0%          sh (pid 6)\n"
                   "  20.0%   20.0%  main\n");
  g_assert_cmpstr (sonde_profile_process (profile, 0)->process.cmdline, ==, "cc1 b.c");
  sonde_profile_limit (profile, 1);
  g_assert_cmpuint (sonde_profile_n_processes (profile), ==, 1);
  g_assert_cmpuint (sonde_call_tree_node (sonde_profile_process (profile, 0)->tree, 0)->total, ==,
                    100);
  g_assert_cmpuint (sonde_profile_total (profile), ==, 100);
}

/* eval → run(script) → eval → call → step(script) → step → list_append (of the interpreter) */
static void
folding_leaves_out_an_interpreters_own (void)
{
  enum
  {
    EVAL,
    RUN,
    CALL,
    STEP,
    APPEND,
    MALLOC
  };
  g_autoptr (SondeProfile) profile = sonde_profile_new (SONDE_UNIT_SAMPLES, NULL);
  static const SondeModelProcess process = { 5, "python3", "python3" };
  SondeCallTree *tree = sonde_call_tree_new (NULL);
  g_autofree char *text = NULL;

  sonde_profile_name_function (profile, "_PyEval_EvalFrameDefault", "python3.11");
  sonde_profile_name_function (profile, "run (a.py)", "python");
  sonde_profile_name_function (profile, "PyObject_Call", "libpython3.11.so.1.0");
  sonde_profile_name_function (profile, "step (a.py)", "python");
  sonde_profile_name_function (profile, "list_append", "python3.11");
  sonde_profile_name_function (profile, "malloc", "libc.so.6");
  ADD_PATH (tree, 60, EVAL, RUN, EVAL, CALL, STEP, EVAL, STEP, APPEND);
  ADD_PATH (tree, 30, EVAL, RUN, EVAL, MALLOC);
  ADD_PATH (tree, 10, EVAL);
  sonde_profile_add_process (profile, &process, SONDE_TID_ALL, tree, NULL);
  sonde_profile_fold (profile, &(SondeFolding){ .folds_wrappers = TRUE });
  text = show_tree (profile, FALSE);
  g_assert_cmpstr (text, ==,
                   "\n  Total    Self\n"
                   " 100.0%          python3 (pid 5)\n"
                   "  90.0%          |- run (a.py)\n"
                   "  60.0%          |  |- step (a.py)  [2 deep]\n"
                   "  60.0%   60.0%  |  |  list_append\n"
                   "  30.0%   30.0%  |  `- _PyEval_EvalFrameDefault\n"
                   "  10.0%   10.0%  `- _PyEval_EvalFrameDefault\n");
}

static void
tells_each_interpreter_from_what_it_runs (void)
{
  static const struct
  {
    const char *module;
    SondeFoldKind kind;
  } rows[] = {
    { "python", SONDE_FOLD_SCRIPT },
    { "python3.11", SONDE_FOLD_INTERNAL },
    { "libpython3.so", SONDE_FOLD_INTERNAL },
    { "php", SONDE_FOLD_SCRIPT },
    { "php8.2", SONDE_FOLD_INTERNAL },
    { "bin/php", SONDE_FOLD_INTERNAL },
    { "php-fpm8.2", SONDE_FOLD_INTERNAL },
    { "libphp8.2.so", SONDE_FOLD_INTERNAL },
    { "libc.so.6", SONDE_FOLD_PLAIN },
    { "", SONDE_FOLD_PLAIN },
    { "bin/libc.so.6", SONDE_FOLD_PLAIN },
    { "phi", SONDE_FOLD_PLAIN },
    { "ruby", SONDE_FOLD_SCRIPT },
    { "libruby-3.1.so.3.1.2", SONDE_FOLD_INTERNAL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpint (sonde_fold_kind (&(SondeFunction){ .name = "f", .module = rows[i].module }), ==,
                     rows[i].kind);
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
                   " 100.0%          parse\n"
                   "  71.4%          |- main\n"
                   "  28.6%          `- parse\n"
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
  g_test_add_func ("/profile-view/tells-each-interpreter-from-what-it-runs",
                   tells_each_interpreter_from_what_it_runs);
  g_test_add_func ("/profile-view/callers-count-a-stack-once", callers_count_a_stack_once);
  g_test_add_func ("/profile-view/names-are-shortened-unless-full-ones-are-wanted",
                   names_are_shortened_unless_full_ones_are_wanted);
  g_test_add_func ("/profile-view/no-row-is-wider-than-the-terminal",
                   no_row_is_wider_than_the_terminal);
  g_test_add_func ("/profile-view/processes-of-one-command-are-one",
                   processes_of_one_command_are_one);
  g_test_add_func ("/profile-view/folding-leaves-out-an-interpreters-own",
                   folding_leaves_out_an_interpreters_own);
  g_test_add_func ("/profile-view/functions-are-found-by-whole-name-or-pattern",
                   functions_are_found_by_whole_name_or_pattern);
  g_test_add_func ("/profile-view/modules-have-what-their-functions-have",
                   modules_have_what_their_functions_have);
  g_test_add_func ("/profile-view/processes-are-told-apart-by-number",
                   processes_are_told_apart_by_number);
  g_test_add_func ("/profile-view/colours-change-no-width", colours_change_no_width);
  return g_test_run ();
}
