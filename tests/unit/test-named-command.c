/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Commands whose interpreter gets options, by its file, and those that stay as they are. */
#include "client/service/named-command.h"

#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct
{
  char *folder;
} Fixture;

static void
write_program (const Fixture *fixture, const char *name, const char *text)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  g_assert_cmpint (g_chmod (path, 0755), ==, 0);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->folder = g_dir_make_tmp (NULL, NULL);
  g_assert_nonnull (fixture->folder);
  write_program (fixture, "node", "\177ELF");
  write_program (fixture, "python3.12", "\177ELF");
  write_program (fixture, "java", "\177ELF");
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  const char *name;
  g_autoptr (GDir) folder = g_dir_open (fixture->folder, 0, NULL);

  while ((name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

      g_unlink (path);
    }
  g_rmdir (fixture->folder);
  g_free (fixture->folder);
}

/* @command: words; those that begin with a slash are in the fixture's folder. Returns: the other
 * form, without that folder; "": none */
static char *
name (const Fixture *fixture, const char *command)
{
  g_auto (GStrv) words = g_strsplit (command, " ", -1);
  g_auto (GStrv) named = NULL;
  const SondeNamedRuntime *runtime;
  g_autofree char *joined = NULL;
  g_auto (GStrv) parts = NULL;

  for (guint i = 0; words[i] != NULL; i++)
    if (words[i][0] == '/' && !g_str_has_prefix (words[i], "/usr/"))
      {
        g_autofree char *word = words[i];

        words[i] = g_strconcat (fixture->folder, word, NULL);
      }
  named = sonde_named_command_new (words, &runtime);
  if (named == NULL)
    return g_strdup ("");
  g_assert_nonnull (runtime);
  joined = g_strjoinv (" ", named);
  parts = g_strsplit (joined, fixture->folder, -1);
  return g_strjoinv ("", parts);
}

#define NODE                                                                                       \
  "--perf-basic-prof --interpreted-frames-native-stack --no-logfile-per-isolate --logfile=+"

static void
expect (const Fixture *fixture, const char *command, const char *wanted)
{
  g_autofree char *named = name (fixture, command);

  g_assert_cmpstr (named, ==, wanted);
}

static void
leaves_other_programs_as_they_are (Fixture *fixture, gconstpointer data)
{
  g_autofree char *itself = g_build_filename (fixture->folder, "itself", NULL);
  g_autofree char *line = g_strdup_printf ("#!%s\n", itself);

  write_program (fixture, "python3.12-config", "#!/usr/bin/env -S sh -e\n");
  write_program (fixture, "python3.11", "\177ELF");
  write_program (fixture, "python3.13t", "\177ELF");
  write_program (fixture, "python3", "\177ELF");
  write_program (fixture, "shell", "#!/bin/sh\nnode x\n");
  write_program (fixture, "endless", "#!/usr/bin/env node");
  write_program (fixture, "relative", "#!node\n");
  g_assert_true (g_file_set_contents (itself, line, -1, NULL));
  g_chmod (itself, 0755);
  expect (fixture, "/python3.12-config --libs", "");
  expect (fixture, "/python3.11 x", "");
  expect (fixture, "/python3.13t x", "");
  expect (fixture, "/python3 x", "");
  expect (fixture, "/shell", "");
  expect (fixture, "/endless", "");
  expect (fixture, "/relative", "");
  expect (fixture, "/itself", "");
  expect (fixture, "/missing", "");
  expect (fixture, "/usr/bin/env", "");
  expect (fixture, "/usr/bin/env -i /node x", "");
  expect (fixture, "/usr/bin/env A=1 /node x", "");
}

static void
puts_options_before_all_others (Fixture *fixture, gconstpointer data)
{
  expect (fixture, "/node", "/node " NODE);
  expect (fixture, "/node --inspect app.js 1", "/node " NODE " --inspect app.js 1");
  expect (fixture, "/python3.12 -u prog.py", "/python3.12 -X perf -u prog.py");
  expect (fixture, "/java -jar app.jar",
          "/java -XX:+IgnoreUnrecognizedVMOptions -XX:+PreserveFramePointer "
          "-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -jar app.jar");
}

static void
leaves_commands_that_have_such_options (Fixture *fixture, gconstpointer data)
{
  expect (fixture, "/node --perf-basic-prof app.js", "");
  expect (fixture, "/node --perf-prof app.js", "");
  expect (fixture, "/python3.12 -X perf x", "");
  expect (fixture, "/python3.12 -Xperf_jit x", "");
  g_setenv ("NODE_OPTIONS", "--max-old-space-size=100 --perf-basic-prof", TRUE);
  expect (fixture, "/node app.js", "");
  g_setenv ("NODE_OPTIONS", "--max-old-space-size=100", TRUE);
  expect (fixture, "/node app.js", "/node " NODE " app.js");
  g_unsetenv ("NODE_OPTIONS");
  g_setenv ("PYTHONPERFSUPPORT", "1", TRUE);
  expect (fixture, "/python3.12 x", "");
  g_unsetenv ("PYTHONPERFSUPPORT");
}

static void
finds_what_runs_scripts_and_links (Fixture *fixture, gconstpointer data)
{
  g_autofree char *line = g_strdup_printf ("#!/usr/bin/env %s/node\nx\n", fixture->folder);
  g_autofree char *other = g_strdup_printf ("#! %s/python3.12  -u \n", fixture->folder);
  g_autofree char *link = g_build_filename (fixture->folder, "venv", NULL);

  write_program (fixture, "npm", line);
  write_program (fixture, "tool", other);
  g_assert_cmpint (symlink ("python3.12", link), ==, 0);
  expect (fixture, "/npm test", "/node " NODE " /npm test");
  expect (fixture, "/usr/bin/env /npm test", "/node " NODE " /npm test");
  expect (fixture, "/tool a b", "/python3.12 -X perf -u /tool a b");
  /* A program may look at what it was called. */
  expect (fixture, "/venv x", "/venv -X perf x");
}

static void
makes_a_file_where_there_is_none (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = sonde_named_command_dup_map_path (getpid ());
  g_autofree char *text = NULL;

  g_assert_true (g_file_set_contents (path, "1 1 f\n", -1, NULL));
  g_assert_false (sonde_named_command_make_map (getpid ()));
  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "1 1 f\n");
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (symlink ("/nowhere/at/all", path), ==, 0);
  g_assert_false (sonde_named_command_make_map (getpid ()));
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_true (sonde_named_command_make_map (getpid ()));
  g_assert_true (g_file_test (path, G_FILE_TEST_IS_REGULAR));
  sonde_named_command_remove_map (getpid ());
  g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
}

static void
removes_nothing_but_a_file_of_ones_own (Fixture *fixture, gconstpointer data)
{
  g_autofree char *path = sonde_named_command_dup_map_path (getpid ());

  sonde_named_command_remove_map (getpid ());
  g_assert_cmpint (symlink ("/dev/null", path), ==, 0);
  sonde_named_command_remove_map (getpid ());
  g_assert_true (g_file_test (path, G_FILE_TEST_IS_SYMLINK));
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_true (g_file_set_contents (path, "1 1 f\n", -1, NULL));
  sonde_named_command_remove_map (getpid ());
  g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
}

#define ADD(path, test) g_test_add ("/named-command/" path, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("leaves-other-programs-as-they-are", leaves_other_programs_as_they_are);
  ADD ("leaves-commands-that-have-such-options", leaves_commands_that_have_such_options);
  ADD ("puts-options-before-all-others", puts_options_before_all_others);
  ADD ("finds-what-runs-scripts-and-links", finds_what_runs_scripts_and_links);
  ADD ("makes-a-file-where-there-is-none", makes_a_file_where_there_is_none);
  ADD ("removes-nothing-but-a-file-of-ones-own", removes_nothing_but_a_file_of_ones_own);
  return g_test_run ();
}
