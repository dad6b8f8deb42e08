/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer in programs that do unusual things: test-tracer LIBRARY PROGRAM… */
#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>

#include "tests/lib/trie-fixture.h"

#define MIB (1024 * 1024)

static const char *library;

typedef struct
{
  const char *what;     /* the program's argument */
  const char *expected; /* its trie */
} Case;

/* Its functions, by address, as the program printed them. */
static GHashTable *functions;

static const char *
name_function (guint64 function)
{
  const char *name = g_hash_table_lookup (functions, GSIZE_TO_POINTER (function));

  if (function == SONDE_TRIE_ROOT)
    return "";
  return function == SONDE_TRIE_SIGNAL_ROOT ? "[signal]" : name != NULL ? name : "?";
}

/* Of a program that ran to its end. */
typedef struct
{
  TrieFixture *trie;
  SondeTrieCounts counts;
  char *text;
  guint n_handled;
} Run;

static void
keep_descriptor (gpointer data)
{
  int fd = GPOINTER_TO_INT (data);

  dup2 (fd, 3);
  fcntl (3, F_SETFD, 0);
}

/* The region is the program's descriptor 3. */
static Run
run (const char *program, const char *what, SondeTrieMode mode, gsize size_bytes)
{
  char *argv[] = { (char *) program, (char *) what, NULL };
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  g_auto (GStrv) environment = g_get_environ ();
  g_auto (GStrv) lines = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *output = NULL;
  g_autofree char *errors = NULL;
  SondeTrieMemory memory;
  Run made = { 0 };
  int status;

  wish.mode = mode;
  made.trie = g_new0 (TrieFixture, 1);
  g_assert_cmpint (sonde_trie_memory_create (size_bytes, &wish, &memory, &made.trie->fd), ==, 0);
  made.trie->memory = memory;
  g_assert_cmpint (sonde_trie_reader_new (&memory, &made.trie->reader), ==, 0);
  environment = g_environ_setenv (environment, "LD_PRELOAD", library, TRUE);
  environment = g_environ_setenv (environment, "SONDE_TRACE_FD", "3", TRUE);
  g_assert_true (g_spawn_sync (NULL, argv, environment, G_SPAWN_LEAVE_DESCRIPTORS_OPEN,
                               keep_descriptor, GINT_TO_POINTER (made.trie->fd), &output, &errors,
                               &status, &error));
  g_assert_no_error (error);
  g_assert_cmpstr (errors, ==, "");
  g_assert_true (g_spawn_check_wait_status (status, &error));

  g_hash_table_remove_all (functions);
  lines = g_strsplit (output, "\n", -1);
  for (gsize i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) words = g_strsplit (lines[i], " ", 2);

      if (words[0] == NULL || words[1] == NULL)
        continue;
      if (g_str_equal (words[0], "handled"))
        made.n_handled = (guint) atoi (words[1]);
      else
        g_hash_table_insert (functions, GSIZE_TO_POINTER (g_ascii_strtoull (words[1], NULL, 16)),
                             g_strdup (words[0]));
    }
  made.counts = trie_fixture_count (made.trie);
  made.text = trie_reader_print (made.trie->reader, name_function);
  return made;
}

static void
clear_run (Run *made)
{
  trie_fixture_free (made->trie);
  g_free (made->text);
}

static const Case cases[] = {
  { "calls", "main 1\n"
             "main calls 1\n"
             "main calls mid 1000\n"
             "main calls mid leaf 1000\n"
             "main calls mid leaf2 1000" },
  { "jumps", "main 1\n"
             "main jumps 1\n"
             "main jumps jump_once 1000\n"
             "main jumps jump_once leaf 1000\n"
             "main jumps jump_once sink 1000\n"
             "main jumps jump_once sink sink 1000\n"
             "main jumps jump_once sink sink sink 1000\n"
             "main jumps jump_once sink sink sink sink 1000\n"
             "main jumps jump_once sink sink sink sink sink 1000\n"
             "main jumps jump_once sink sink sink sink sink sink 1000" },
  { "throws", "main 1\n"
              "main throws 1\n"
              "main throws throw_once 1000\n"
              "main throws throw_once leaf 1000\n"
              "main throws throw_once leaf2 1000\n"
              "main throws throw_once sink 1000\n"
              "main throws throw_once sink sink 1000\n"
              "main throws throw_once sink sink sink 1000\n"
              "main throws throw_once sink sink sink sink 1000\n"
              "main throws throw_once sink sink sink sink sink 1000\n"
              "main throws throw_once sink sink sink sink sink sink 1000" },
  { "allocas", "main 1\n"
               "main allocas 1\n"
               "main allocas allocate 1000\n"
               "main allocas allocate leaf 1000" },
  { "handlers", "main 1\n"
                "main handlers 1\n"
                "main handlers raise_once 2000\n"
                "main handlers raise_once handle 2000\n"
                "main handlers raise_once handle leaf 2000\n"
                "main handlers raise_once leaf2 2000" },
  { "contexts", "main 1\n"
                "main contexts 1\n"
                "main contexts resume 1000\n"
                "main contexts resume coroutine 2\n"
                "main contexts resume coroutine give_way 1000\n"
                "main contexts resume coroutine leaf 1000" },
  { "forks", "main 1\n"
             "main forks 1\n"
             "main forks leaf 2" },
  { "threads", "main 1\n"
               "main threads 1\n"
               "thread 100\n"
               "thread mid 100\n"
               "thread mid leaf 100\n"
               "thread mid leaf2 100" },
};

static void
every_path_has_its_count (gconstpointer data)
{
  static const SondeTrieMode modes[] = { SONDE_TRIE_COUNT, SONDE_TRIE_AUTO, SONDE_TRIE_EXACT };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (modes); j++)
      {
        Run made = run (data, cases[i].what, modes[j], 4 * MIB);

        g_test_message ("%s: %" G_GUINT64_FORMAT " resynced", cases[i].what, made.counts.resynced);
        g_assert_cmpstr (made.text, ==, cases[i].expected);
        g_assert_cmpuint (made.counts.calls, ==, made.counts.counted);
        g_assert_cmpuint (made.counts.unmatched, ==, 0);
        g_assert_cmpuint (made.counts.lost_threads, ==, 0);
        g_assert_cmpuint (made.counts.lost_interrupted, ==, 0);
        clear_run (&made);
      }
}

/* The sum of all paths that end so. */
static guint64
sum_paths (const char *text, const char *end)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  guint64 sum = 0;

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      char *count = strrchr (lines[i], ' ');

      *count = '\0';
      if (g_str_has_suffix (lines[i], end))
        sum += g_ascii_strtoull (count + 1, NULL, 10);
    }
  return sum;
}

static void
handlers_that_interrupt_hooks_are_counted (gconstpointer data)
{
  Run made = run (data, "interrupts", SONDE_TRIE_EXACT, 4 * MIB);

  g_test_message ("%u handlers, %" G_GUINT64_FORMAT " within hooks", made.n_handled,
                  sum_paths (made.text, "[signal] handle"));
  g_assert_cmpuint (made.n_handled, >, 0);
  g_assert_cmpuint (made.counts.calls, ==, made.counts.counted);
  g_assert_cmpuint (made.counts.unmatched, ==, 0);
  g_assert_cmpuint (sum_paths (made.text, "calls mid") + sum_paths (made.text, "interrupts mid"),
                    ==, 300000);
  g_assert_cmpuint (sum_paths (made.text, "mid leaf"), ==, 300000);
  g_assert_cmpuint (sum_paths (made.text, "mid leaf2"), ==, 300000);
  /* What interrupted a handler's hook is lost, but counted. */
  g_assert_cmpuint (sum_paths (made.text, "handle") + sum_paths (made.text, "handle leaf")
                        + made.counts.lost_interrupted,
                    ==, 2 * (guint64) made.n_handled);
  clear_run (&made);
}

static void
threads_one_by_one_share_a_trie (gconstpointer data)
{
  Run made = run (data, "many_threads", SONDE_TRIE_AUTO, MIB);

  g_test_message ("%u slots, %u slabs", made.counts.n_slots, made.counts.n_slabs);
  g_assert_cmpuint (sum_paths (made.text, "thread mid leaf"), ==, 10000);
  g_assert_cmpuint (made.counts.lost_threads, ==, 0);
  g_assert_cmpuint (made.counts.unmatched, ==, 0);
  /* A thread may begin before the one before it has quite ended. */
  g_assert_cmpuint (made.counts.n_slots, <=, 2 * 4);
  clear_run (&made);
}

static void
closed_descriptors_do_no_harm (gconstpointer data)
{
  Run made = run (data, "no_descriptors", SONDE_TRIE_AUTO, MIB);

  g_assert_cmpuint (sum_paths (made.text, "thread mid leaf"), ==, 1);
  clear_run (&made);
}

static void
confined_programs_live (gconstpointer data)
{
  Run strict = run (data, "confined", SONDE_TRIE_AUTO, MIB);
  Run filtered = run (data, "filtered", SONDE_TRIE_AUTO, MIB);

  g_assert_cmpuint (sum_paths (strict.text, "confined mid leaf"), >=, 1);
  if (strict.counts.lost_threads > 0)
    g_assert_cmpuint (strict.counts.lost_threads, ==, 3000);
  g_assert_cmpuint (strict.counts.unmatched, ==, 0);
  g_assert_cmpuint (sum_paths (filtered.text, "filtered mid leaf"), >=, 1);
  /* The thread's: itself, and the three that it calls. */
  if (sum_paths (filtered.text, "filtered mid leaf") == 2)
    g_assert_cmpuint (filtered.counts.lost_threads, ==, 4);
  clear_run (&strict);
  clear_run (&filtered);
}

/* A program that is given what is no region runs as if it were not traced. */
static void
what_is_no_region_does_no_harm (gconstpointer data)
{
  static const char *const texts[]
      = { "", "x", "3x", "-1", "999999", "99999999999999999999", "0", "1" };
  const char *program = data;

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      char *argv[] = { (char *) program, (char *) "calls", NULL };
      g_auto (GStrv) environment = g_get_environ ();
      g_autoptr (GError) error = NULL;
      g_autofree char *output = NULL;
      int status;

      environment = g_environ_setenv (environment, "LD_PRELOAD", library, TRUE);
      environment = g_environ_setenv (environment, "SONDE_TRACE_FD", texts[i], TRUE);
      g_assert_true (g_spawn_sync (NULL, argv, environment, G_SPAWN_DEFAULT, NULL, NULL, &output,
                                   NULL, &status, &error));
      g_assert_true (g_spawn_check_wait_status (status, &error));
      g_assert_nonnull (strstr (output, "handled 0"));
    }
}

static void
a_region_is_of_one_process (gconstpointer data)
{
  char *argv[] = { (char *) data, (char *) "calls", NULL };
  g_auto (GStrv) environment = g_get_environ ();
  Run made = run (data, "calls", SONDE_TRIE_COUNT, MIB);
  g_autofree char *output = NULL;
  SondeTrieCounts counts;

  environment = g_environ_setenv (environment, "LD_PRELOAD", library, TRUE);
  environment = g_environ_setenv (environment, "SONDE_TRACE_FD", "3", TRUE);
  g_assert_true (g_spawn_sync (NULL, argv, environment, G_SPAWN_LEAVE_DESCRIPTORS_OPEN,
                               keep_descriptor, GINT_TO_POINTER (made.trie->fd), &output, NULL,
                               NULL, NULL));
  counts = trie_fixture_count (made.trie);
  g_assert_cmpuint (counts.calls, ==, made.counts.calls);
  clear_run (&made);
}

int
main (int argc, char *argv[])
{
  static const struct
  {
    const char *name;
    GTestDataFunc function;
  } tests[] = {
    { "every-path-has-its-count", every_path_has_its_count },
    { "handlers-that-interrupt-hooks-are-counted", handlers_that_interrupt_hooks_are_counted },
    { "threads-one-by-one-share-a-trie", threads_one_by_one_share_a_trie },
    { "closed-descriptors-do-no-harm", closed_descriptors_do_no_harm },
    { "confined-programs-live", confined_programs_live },
    { "what-is-no-region-does-no-harm", what_is_no_region_does_no_harm },
    { "a-region-is-of-one-process", a_region_is_of_one_process },
  };

  g_test_init (&argc, &argv, NULL);
  library = argv[1];
  functions = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  for (int i = 2; i < argc; i++)
    for (gsize j = 0; j < G_N_ELEMENTS (tests); j++)
      {
        g_autofree char *base = g_path_get_basename (argv[i]);
        g_autofree char *name = g_strdup_printf ("/tracer/%s/%s", base, tests[j].name);

        g_test_add_data_func (name, argv[i], tests[j].function);
      }
  return g_test_run ();
}
