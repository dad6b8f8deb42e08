/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-tracer in programs that do unusual things: test-tracer LIBRARY PROGRAM… */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "protocol/calls.h"
#include "shared-ring/ring-atomic.h"
#include "tests/lib/trie-fixture.h"

#define MIB (1024 * 1024)

#ifndef PR_SET_MDWE
#define PR_SET_MDWE              65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

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

/* The same in a process that may not change its code. */
static void
keep_descriptor_and_code (gpointer data)
{
  keep_descriptor (data);
  prctl (PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0);
}

static gboolean
has_sleds (const char *program)
{
  return g_str_has_suffix (program, "sleds");
}

/* Whether functions have room for a call as they begin, and none where they end. */
static gboolean
has_rooms (const char *program)
{
  return g_str_has_suffix (program, "patchable");
}

static gboolean
has_entries_alone (const char *program)
{
  return g_str_has_suffix (program, "fentry") || has_rooms (program);
}

/* The region is the program's descriptor 3. */
static Run
run_with (const char *program,
          const char *what,
          const SondeTrieWish *wish,
          gsize size_bytes,
          GSpawnChildSetupFunc setup)
{
  char *argv[] = { (char *) program, (char *) what, NULL };
  g_auto (GStrv) environment = g_get_environ ();
  g_auto (GStrv) lines = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *output = NULL;
  g_autofree char *errors = NULL;
  SondeTrieMemory memory;
  Run made = { 0 };
  int status;

  made.trie = g_new0 (TrieFixture, 1);
  g_assert_cmpint (sonde_trie_memory_create (size_bytes, wish, &memory, &made.trie->fd), ==, 0);
  made.trie->memory = memory;
  g_assert_cmpint (sonde_trie_reader_new (&memory, &made.trie->reader), ==, 0);
  environment = g_environ_setenv (environment, "LD_PRELOAD", library, TRUE);
  environment = g_environ_setenv (environment, "SONDE_TRACE_FD", "3", TRUE);
  g_assert_true (g_spawn_sync (NULL, argv, environment, G_SPAWN_LEAVE_DESCRIPTORS_OPEN, setup,
                               GINT_TO_POINTER (made.trie->fd), &output, &errors, &status, &error));
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

static Run
run (const char *program, const char *what, SondeTrieMode mode, gsize size_bytes)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;

  wish.mode = mode;
  return run_with (program, what, &wish, size_bytes, keep_descriptor);
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
  { "tails", "main 1\n"
             "main tails 1\n"
             "main tails tail_once 1000\n"
             "main tails tail_once leaf2 1000" },
  { "vectors", "add 9834\n"
               "halve 9834\n"
               "main 1\n"
               "main vectors 1\n"
               "widen 33" },
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
  { "clones", "main 1\n"
              "main clones 1\n"
              "main clones leaf 2" },
  { "vforks", "main 1\n"
              "main vforks 1\n"
              "main vforks leaf 21\n"
              "main vforks vfork_once 20" },
  { "threads", "main 1\n"
               "main threads 1\n"
               "thread 100\n"
               "thread mid 100\n"
               "thread mid leaf 100\n"
               "thread mid leaf2 100" },
};

/* Where hooks see the functions' own beginnings what one jumps to has its place. */
static const char tails_in_place[] = "main 1\n"
                                     "main tails 1\n"
                                     "main tails leaf2 1000\n"
                                     "main tails tail_once 1000";

/* Where nobody tells of ends, either, a call whose arguments are on the stack is lower there than
 * the one before it, which seems to go on. */
static const char vectors_endless[] = "add 9834\n"
                                      "add halve 9801\n"
                                      "halve 33\n"
                                      "main 1\n"
                                      "main vectors 1\n"
                                      "widen 33";

static const char *
expect (const Case *of, const char *program)
{
  if (g_str_equal (of->what, "tails") && (has_sleds (program) || has_entries_alone (program)))
    return tails_in_place;
  return g_str_equal (of->what, "vectors") && has_entries_alone (program) ? vectors_endless
                                                                          : of->expected;
}

static void
every_path_has_its_count (gconstpointer data)
{
  static const SondeTrieMode modes[] = { SONDE_TRIE_COUNT, SONDE_TRIE_AUTO, SONDE_TRIE_EXACT };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (modes); j++)
      {
        Run made = run (data, cases[i].what, modes[j], 4 * MIB);
        const SondeTrieHeader *header = made.trie->memory.header;

        g_test_message ("%s: %" G_GUINT64_FORMAT " resynced", cases[i].what, made.counts.resynced);
        g_assert_cmpstr (made.text, ==, expect (&cases[i], data));
        g_assert_cmpuint (header->n_functions > 0, ==, has_sleds (data) || has_rooms (data));
        g_assert_cmpuint (header->n_patched, ==, header->n_functions);
        g_assert_cmpuint (header->n_refused, ==, 0);
        g_assert_cmpuint (made.counts.calls, ==, made.counts.counted);
        g_assert_cmpuint (made.counts.unmatched, ==, 0);
        g_assert_cmpuint (made.counts.lost_threads, ==, 0);
        g_assert_cmpuint (made.counts.lost_interrupted, ==, 0);
        if (g_str_equal (cases[i].what, "calls") || g_str_equal (cases[i].what, "vforks"))
          g_assert_cmpuint (made.counts.resynced, ==, 0);
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
add_timed (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  if (change->is_timed)
    *(guint64 *) user_data += times->timed;
}

/* A handler in the middle of a hook, whose calls are the interrupted thread's, too, leaves the
 * choice of calls that are timed as it was. */
static void
handlers_that_interrupt_hooks_stop_no_timing (gconstpointer data)
{
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  SondeTrieReader *reader;
  guint64 n_timed = 0;
  Run made;

  wish.timed_from_ticks = UINT64_MAX; /* a busy machine has long calls, each of which is timed */
  made = run_with (data, "interrupts", &wish, 4 * MIB, keep_descriptor);
  g_assert_cmpint (sonde_trie_reader_new (&made.trie->memory, &reader), ==, 0);
  while (sonde_trie_reader_turn (reader, G_MAXUINT32, add_timed, &n_timed) > 0)
    ;
  g_test_message ("%u handlers; %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " calls timed",
                  made.n_handled, n_timed, made.counts.calls);
  g_assert_cmpuint (made.counts.calls, ==, made.counts.counted);
  /* One in 64 is, and stands for as many. */
  if (!has_entries_alone (data))
    g_assert_cmpuint (n_timed, >, made.counts.calls / 4 * 3);
  sonde_trie_reader_free (reader);
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

/* --- sleds --- */

static void
functions_call_nothing_unless_wanted (gconstpointer data)
{
  Run made = run (data, "calls", SONDE_TRIE_OFF, MIB);

  g_assert_cmpuint (made.counts.n_slots, ==, 0);
  g_assert_cmpuint (made.trie->memory.header->n_switches, ==, 0);
  clear_run (&made);
}

/* Where the kernel lets nobody change code the program runs as if it were not traced, and says so.
 */
static void
code_that_stays_is_told (gconstpointer data)
{
  Run made = run_with (data, "calls", &SONDE_TRIE_USUAL_WISH, MIB, keep_descriptor_and_code);
  const SondeTrieHeader *header = made.trie->memory.header;

  if (header->n_patched > 0)
    g_test_skip ("the kernel has no PR_SET_MDWE");
  else
    {
      g_assert_cmpuint (made.counts.n_slots, ==, 0);
      g_assert_cmpuint (header->n_functions, >, 20);
      g_assert_cmpuint (header->n_refused, >=, header->n_functions);
      g_assert_cmpuint (header->reason, ==, SONDE_CALLS_REASON_PROTECTION);
    }
  clear_run (&made);
}

/* The bytes of a section of a program that this build made. */
static guint8 *
find_section (char *program, const char *name, gsize *size)
{
  const Elf64_Ehdr *header = (const Elf64_Ehdr *) (gpointer) program;
  const Elf64_Shdr *sections = (const Elf64_Shdr *) (gpointer) (program + header->e_shoff);
  const char *names = program + sections[header->e_shstrndx].sh_offset;

  for (guint i = 0; i < header->e_shnum; i++)
    if (g_str_equal (names + sections[i].sh_name, name))
      {
        *size = sections[i].sh_size;
        return (guint8 *) program + sections[i].sh_offset;
      }
  g_assert_not_reached ();
}

/* One byte in each of some entries. */
static void
scramble (guint8 *map, gsize size, GRand *noise)
{
  for (gsize at = 0; at + 32 <= size; at += 32)
    if (g_rand_boolean (noise))
      map[at + (gsize) g_rand_int_range (noise, 0, 19)]
          ^= (guint8) g_rand_int_range (noise, 1, 256);
}

/* Whatever the map says, nothing is written where no sled is, and the program runs on. */
static void
maps_of_noise_do_no_harm (gconstpointer data)
{
  g_autofree char *folder = g_dir_make_tmp ("sleds-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "program", NULL);
  g_autofree char *program = NULL;
  gsize size;
  guint n_refused = 0;

  g_assert_true (g_file_get_contents (data, &program, &size, NULL));
  for (guint seed = 0; seed < 50; seed++)
    {
      g_autoptr (GRand) noise = g_rand_new_with_seed (seed);
      g_autofree char *changed = g_memdup2 (program, size);
      gsize map_size;
      guint8 *map = find_section (changed, "xray_instr_map", &map_size);
      Run made;

      if (seed == 0)
        memset (map, 0xff, map_size);
      else if (seed == 1)
        memset (map, 0, map_size);
      else
        scramble (map, map_size, noise);
      g_assert_true (g_file_set_contents_full (path, changed, (gssize) size,
                                               G_FILE_SET_CONTENTS_NONE, 0700, NULL));
      made = run (path, "calls", SONDE_TRIE_AUTO, MIB);
      g_assert_cmpuint (made.counts.calls, ==, made.counts.counted);
      g_assert_cmpuint (made.trie->memory.header->n_refused, <=, map_size / 32);
      g_assert_cmpuint (made.trie->memory.header->reason, <, SONDE_CALLS_N_REASONS);
      if (seed < 2)
        g_assert_cmpuint (made.trie->memory.header->n_refused, ==, map_size / 32);
      n_refused += made.trie->memory.header->n_refused;
      clear_run (&made);
    }
  g_test_message ("%u refused", n_refused);
  g_unlink (path);
  g_rmdir (folder);
}

static void
libraries_that_come_later_are_found (gconstpointer data)
{
  Run made = run (data, "loads", SONDE_TRIE_COUNT, MIB);

  g_assert_cmpstr (made.text, ==,
                   "main 1\n"
                   "main loads 1\n"
                   "main loads module_leaf 1000");
  g_assert_cmpuint (made.counts.unmatched, ==, 0);
  clear_run (&made);
}

/* Until all functions have been switched once more. */
static void
wait_for_switch (const SondeTrieHeader *header, guint n_before)
{
  gint64 until = g_get_monotonic_time () + 20 * G_USEC_PER_SEC;

  while (sonde_ring_load_acquire (&header->n_switches) == n_before)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, until);
      g_usleep (50);
    }
}

/* A program that nobody wants calls of, until they are wished for. */
typedef struct
{
  TrieFixture *trie;
  GPid pid;
  int input;
} Running;

static Running
start (const char *program, const char *what)
{
  char *argv[] = { (char *) program, (char *) what, NULL };
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  g_auto (GStrv) environment = g_get_environ ();
  g_autoptr (GError) error = NULL;
  Running made = { .trie = g_new0 (TrieFixture, 1) };

  wish.mode = SONDE_TRIE_OFF;
  g_assert_cmpint (sonde_trie_memory_create (4 * MIB, &wish, &made.trie->memory, &made.trie->fd),
                   ==, 0);
  g_assert_cmpint (sonde_trie_reader_new (&made.trie->memory, &made.trie->reader), ==, 0);
  environment = g_environ_setenv (environment, "LD_PRELOAD", library, TRUE);
  environment = g_environ_setenv (environment, "SONDE_TRACE_FD", "3", TRUE);
  g_assert_true (g_spawn_async_with_pipes (
      NULL, argv, environment,
      G_SPAWN_LEAVE_DESCRIPTORS_OPEN | G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL,
      keep_descriptor, GINT_TO_POINTER (made.trie->fd), &made.pid, &made.input, NULL, NULL,
      &error));
  return made;
}

/* Returns: its region, when it has ended */
static TrieFixture *
stop (Running *running)
{
  g_autoptr (GError) error = NULL;
  int status;

  close (running->input);
  g_assert_cmpint (waitpid (running->pid, &status, 0), ==, running->pid);
  g_assert_true (g_spawn_check_wait_status (status, &error));
  return running->trie;
}

/* Has calls wanted and not wanted in turn, while a program does @what. */
static void
switch_often (const char *program, const char *what, guint n_switches)
{
  Running running = start (program, what);
  SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  g_autoptr (TrieFixture) trie = NULL;
  SondeTrieCounts counts;

  for (guint i = 0; i < n_switches; i++)
    {
      wish.mode = i % 2 == 0 ? SONDE_TRIE_COUNT : SONDE_TRIE_OFF;
      g_assert_cmpint (sonde_trie_memory_wish (&running.trie->memory, &wish), ==, 0);
      wait_for_switch (running.trie->memory.header, i);
    }
  trie = stop (&running);
  counts = trie_fixture_count (trie);
  g_test_message ("%" G_GUINT64_FORMAT " calls, %u paths", counts.calls, counts.n_nodes);
  g_assert_cmpuint (trie->memory.header->n_switches, ==, n_switches);
  g_assert_cmpuint (trie->memory.header->n_refused, ==, 0);
  g_assert_cmpuint (counts.calls, ==, counts.counted);
  g_assert_cmpuint (counts.calls, >, n_switches);
  /* Of handlers that came while a thread got its writer. */
  g_assert_cmpuint (counts.lost_threads, <, 100);
}

static void
threads_run_on_while_functions_are_switched (gconstpointer data)
{
  switch_often (data, "switches", 4000);
}

static void
libraries_come_and_go_while_functions_are_switched (gconstpointer data)
{
  switch_often (data, "reloads", 2000);
}

static guint
count_threads (GPid pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/task", pid);
  g_autoptr (GDir) folder = g_dir_open (path, 0, NULL);
  guint n = 0;

  while (folder != NULL && g_dir_read_name (folder) != NULL)
    n++;
  return n;
}

/* Instructions that a thread may stand between are left alone. */
static void
rooms_of_a_program_that_runs_are_told (gconstpointer data)
{
  Running running = start (data, "switches");
  const SondeTrieHeader *header = running.trie->memory.header;
  const SondeTrieWish wish = SONDE_TRIE_USUAL_WISH;
  gint64 until = g_get_monotonic_time () + 20 * G_USEC_PER_SEC;
  g_autoptr (TrieFixture) trie = NULL;

  /* It has begun when it has threads. */
  while (count_threads (running.pid) < 2)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, until);
      g_usleep (50);
    }
  g_assert_cmpint (sonde_trie_memory_wish (&running.trie->memory, &wish), ==, 0);
  while (sonde_ring_load_acquire (&header->n_refused) == 0)
    {
      g_assert_cmpint (g_get_monotonic_time (), <, until);
      g_usleep (50);
    }
  trie = stop (&running);
  g_assert_cmpuint (header->reason, ==, SONDE_CALLS_REASON_RUNNING);
  g_assert_cmpuint (header->n_refused, ==, header->n_functions);
  g_assert_cmpuint (header->n_patched, ==, 0);
  g_assert_cmpuint (trie_fixture_count (trie).calls, ==, 0);
}

typedef struct
{
  const char *name;
  GTestDataFunc function;
} Test;

static void
add_tests (const char *program, const Test *tests, gsize n)
{
  g_autofree char *base = g_path_get_basename (program);

  for (gsize i = 0; i < n; i++)
    {
      g_autofree char *name = g_strdup_printf ("/tracer/%s/%s", base, tests[i].name);

      g_test_add_data_func (name, program, tests[i].function);
    }
}

int
main (int argc, char *argv[])
{
  static const Test tests[] = {
    { "every-path-has-its-count", every_path_has_its_count },
    { "handlers-that-interrupt-hooks-are-counted", handlers_that_interrupt_hooks_are_counted },
    { "handlers-that-interrupt-hooks-stop-no-timing",
      handlers_that_interrupt_hooks_stop_no_timing },
    { "threads-one-by-one-share-a-trie", threads_one_by_one_share_a_trie },
    { "closed-descriptors-do-no-harm", closed_descriptors_do_no_harm },
    { "confined-programs-live", confined_programs_live },
    { "what-is-no-region-does-no-harm", what_is_no_region_does_no_harm },
    { "a-region-is-of-one-process", a_region_is_of_one_process },
  };
  /* Of a library with sleds, whatever the program has. */
  static const Test of_modules[] = {
    { "libraries-that-come-later-are-found", libraries_that_come_later_are_found },
  };
  static const Test of_sleds[] = {
    { "functions-call-nothing-unless-wanted", functions_call_nothing_unless_wanted },
    { "code-that-stays-is-told", code_that_stays_is_told },
    { "maps-of-noise-do-no-harm", maps_of_noise_do_no_harm },
    { "threads-run-on-while-functions-are-switched", threads_run_on_while_functions_are_switched },
    { "libraries-come-and-go-while-functions-are-switched",
      libraries_come_and_go_while_functions_are_switched },
  };

  static const Test of_rooms[] = {
    { "functions-call-nothing-unless-wanted", functions_call_nothing_unless_wanted },
    { "code-that-stays-is-told", code_that_stays_is_told },
    { "rooms-of-a-program-that-runs-are-told", rooms_of_a_program_that_runs_are_told },
  };

  g_test_init (&argc, &argv, NULL);
  library = argv[1];
  functions = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  for (int i = 2; i < argc; i++)
    {
      add_tests (argv[i], tests, G_N_ELEMENTS (tests));
      if (g_getenv ("TRACED_MODULE") != NULL)
        add_tests (argv[i], of_modules, G_N_ELEMENTS (of_modules));
      if (has_sleds (argv[i]))
        add_tests (argv[i], of_sleds, G_N_ELEMENTS (of_sleds));
      if (has_rooms (argv[i]))
        add_tests (argv[i], of_rooms, G_N_ELEMENTS (of_rooms));
    }
  return g_test_run ();
}
