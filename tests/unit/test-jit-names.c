/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of code that programs make, as a worker finds them while these write. */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/lib/recorder-fixture.h"

#define PID    42
#define SECOND G_GINT64_CONSTANT (1000000000)

typedef struct
{
  RecorderFixture base;
  char *path;
  int fd; /* the program's */
} Fixture;

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, sink_closed, fixture);
  fixture->fd = g_file_open_tmp ("jit-XXXXXX", &fixture->path, NULL);
  g_assert_cmpint (fixture->fd, >=, 0);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_clear (&fixture->base);
  g_unlink (fixture->path);
  g_free (fixture->path);
  close (fixture->fd);
}

static void
put (Fixture *fixture, const char *text)
{
  g_assert_cmpint (write (fixture->fd, text, strlen (text)), ==, (gssize) strlen (text));
}

static int
open_it (Fixture *fixture)
{
  return open (fixture->path, O_RDONLY | O_CLOEXEC);
}

/* The broker answers. */
static void
take (Fixture *fixture, int32_t pid)
{
  SondeJitNames *names = fixture->base.jit_names;

  g_assert_true (sonde_jit_names_wants (names, pid, SONDE_FILE_PERF_MAP, G_MAXINT64));
  sonde_jit_names_take (names, pid, SONDE_FILE_PERF_MAP, 0, open_it (fixture));
}

/* NULL: it has none. */
static const char *
name_at (Fixture *fixture, uint64_t address, gint64 time_ns)
{
  uint64_t made_up = sonde_jit_names_find (fixture->base.jit_names, PID, address, time_ns);
  const GArray *names = fixture->base.state->names;

  for (guint i = 0; i < names->len; i++)
    if (made_up != 0 && g_array_index (names, SondeJitName, i).address == made_up)
      return g_array_index (names, SondeJitName, i).name;
  g_assert_cmpuint (made_up, ==, 0);
  return NULL;
}

static void
test_kinds (Fixture *fixture, gconstpointer data)
{
  static const struct
  {
    const char *path;
    uint64_t inode;
    gboolean vdso;
    SondeFileKind kind;
  } cases[] = {
    { "//anon", 0, FALSE, SONDE_FILE_PERF_MAP },
    { "", 0, FALSE, SONDE_FILE_PERF_MAP },
    { "[anon:v8]", 0, FALSE, SONDE_FILE_PERF_MAP },
    { "[heap]", 0, FALSE, SONDE_FILE_PERF_MAP },
    { "[vdso]", 0, TRUE, SONDE_FILE_PROGRAM },
    { "[vsyscall]", 0, FALSE, SONDE_FILE_PROGRAM },
    { "[uprobes]", 0, FALSE, SONDE_FILE_PROGRAM },
    { "/usr/bin/node", 5, FALSE, SONDE_FILE_PROGRAM },
    { "/tmp/jit-42.dump", 5, FALSE, SONDE_FILE_JIT_DUMP },
    { "/tmp/jit-42.dump.so", 5, FALSE, SONDE_FILE_PROGRAM },
    { "/memfd:doublemapper (deleted)", 5, FALSE, SONDE_FILE_PERF_MAP },
    { "/dev/zero (deleted)", 5, FALSE, SONDE_FILE_PERF_MAP },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      const SondeProcessMapping mapping
          = { .path = cases[i].path, .file.inode = cases[i].inode, .vdso = cases[i].vdso };

      g_assert_cmpint (sonde_jit_names_kind (&mapping), ==, cases[i].kind);
    }
}

static void
test_refused (Fixture *fixture, gconstpointer data)
{
  SondeJitNames *names = fixture->base.jit_names;
  static const int for_good[] = { EACCES, ELOOP, ENODEV, EREMOTE, EMLINK, ENOEXEC };
  guint n = G_N_ELEMENTS (for_good);

  for (guint i = 0; i < n; i++)
    {
      g_assert_true (sonde_jit_names_wants (names, (int32_t) i + 1, SONDE_FILE_PERF_MAP, 1));
      sonde_jit_names_take (names, (int32_t) i + 1, SONDE_FILE_PERF_MAP, for_good[i], -1);
      g_assert_false (
          sonde_jit_names_wants (names, (int32_t) i + 1, SONDE_FILE_PERF_MAP, G_MAXINT64));
    }
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, n);
  /* Of a process that is not for this session nothing is told. */
  g_assert_true (sonde_jit_names_wants (names, 100, SONDE_FILE_PERF_MAP, 1));
  sonde_jit_names_take (names, 100, SONDE_FILE_PERF_MAP, EPERM, -1);
  g_assert_false (sonde_jit_names_wants (names, 100, SONDE_FILE_PERF_MAP, G_MAXINT64));
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, n);
}

static void
count_visit (int32_t pid, gpointer user_data)
{
  (*(guint *) user_data)++;
}

/* Where there is no file yet: less and less often, and only while samples want it. */
static void
test_asks (Fixture *fixture, gconstpointer data)
{
  SondeJitNames *names = fixture->base.jit_names;
  gint64 now = SECOND;
  guint n_visits = 0;
  guint n_asked = 0;

  g_assert_true (sonde_jit_names_wants (names, PID, SONDE_FILE_PERF_MAP, now));
  sonde_jit_names_set_asked (names, PID, SONDE_FILE_PERF_MAP, now);
  sonde_jit_names_take (names, PID, SONDE_FILE_PERF_MAP, ENOENT, -1);
  sonde_jit_names_foreach_missing (names, G_MAXINT64, count_visit, &n_visits);
  g_assert_cmpuint (n_visits, ==, 0);
  sonde_jit_names_note (names, PID, 0x1000, FALSE);
  sonde_jit_names_foreach_missing (names, now, count_visit, &n_visits);
  g_assert_cmpuint (n_visits, ==, 0);
  sonde_jit_names_foreach_missing (names, G_MAXINT64, count_visit, &n_visits);
  g_assert_cmpuint (n_visits, ==, 1);
  for (guint i = 0; i < 1000; i++, now += SECOND / 10)
    if (sonde_jit_names_wants (names, PID, SONDE_FILE_PERF_MAP, now))
      {
        sonde_jit_names_set_asked (names, PID, SONDE_FILE_PERF_MAP, now);
        n_asked++;
      }
  g_assert_cmpuint (n_asked, >, 10);
  g_assert_cmpuint (n_asked, <, 20);
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, 0);
}

static void
test_times (Fixture *fixture, gconstpointer data)
{
  gint64 before, between;

  put (fixture, "1000 100 first\n");
  take (fixture, PID);
  before = sonde_stream_now_ns ();
  g_assert_cmpstr (name_at (fixture, 0x1010, before - SECOND), ==, "first");
  g_assert_cmpstr (name_at (fixture, 0x1010, before), ==, "first"); /* reads what is new: nothing */
  between = sonde_stream_now_ns ();
  put (fixture, "1000 100 second\n2000 10 other\n");
  /* A sample from before does not want to know, though it is looked up later. */
  g_assert_cmpstr (name_at (fixture, 0x1010, before), ==, "first");
  g_assert_cmpstr (name_at (fixture, 0x1010, between + SECOND), ==, "second");
  g_assert_cmpstr (name_at (fixture, 0x2000, between + SECOND), ==, "other");
  g_assert_cmpstr (name_at (fixture, 0x3000, between + SECOND), ==, NULL);
}

/* A program may call its code what it likes. */
static void
test_like_ours (Fixture *fixture, gconstpointer data)
{
  SondeJitNames *names = fixture->base.jit_names;
  uint64_t ours = sonde_recorder_name (fixture->base.recorder, "[other]", 1);

  put (fixture, "1000 100 [other]\n2000 100 [other]\n");
  take (fixture, PID);
  g_assert_cmpuint (sonde_jit_names_find (names, PID, 0x1000, 1), !=, ours);
  g_assert_cmpuint (sonde_jit_names_find (names, PID, 0x1000, 1), >=, SONDE_JIT_CODE_BASE);
  g_assert_cmpuint (sonde_jit_names_find (names, PID, 0x1000, 1), ==,
                    sonde_jit_names_find (names, PID, 0x2000, 1));
}

static void
test_late (Fixture *fixture, gconstpointer data)
{
  SondeJitNames *names = fixture->base.jit_names;
  const GArray *late;
  const SondeLateName *name;

  take (fixture, PID + 1);
  take (fixture, PID);
  g_assert_cmpstr (name_at (fixture, 0x1010, sonde_stream_now_ns ()), ==, NULL);
  sonde_jit_names_note (names, PID, 0x1010, FALSE);
  sonde_jit_names_note (names, PID, 0x1018, FALSE);
  sonde_jit_names_note (names, PID, 0x3010, TRUE); /* behind a call that does not return */
  for (guint i = 0; i < 3; i++)
    sonde_jit_names_note (names, PID, 0x5000, FALSE);
  sonde_jit_names_note (names, PID, 0x6000, TRUE); /* not where a sample was */
  sonde_jit_names_note (names, PID + 1, 0x1000, FALSE);
  sonde_jit_names_note (names, PID + 2, 0x1000, FALSE); /* of whom nothing has come */
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_UNNAMED], ==, 1);
  put (fixture, "1000 100 said late\n3000 10 last\n");
  sonde_jit_names_end (names, PID + 1);
  late = sonde_jit_names_finish (names);
  g_assert_cmpuint (late->len, ==, 3);
  name = &g_array_index (late, SondeLateName, 0);
  g_assert_cmpint (name->pid, ==, PID);
  g_assert_cmpuint (name->begin, ==, 0x1000);
  g_assert_cmpuint (name->end, ==, 0x1100);
  g_assert_cmpstr (name->name, ==, "said late");
  g_assert_cmpstr (name[1].name, ==, "last");
  g_assert_cmpuint (name[1].end, ==, 0x3011);
  g_assert_cmpint (name[2].pid, ==, PID + 1);
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_UNNAMED], ==, 4);
}

static void
test_closed (Fixture *fixture, gconstpointer data)
{
  put (fixture, "1000 100 first\n");
  take (fixture, PID);
  sonde_jit_names_close (fixture->base.jit_names, PID);
  put (fixture, "1000 100 secret\n");
  g_assert_cmpstr (name_at (fixture, 0x1010, sonde_stream_now_ns ()), ==, "first");
  g_assert_false (
      sonde_jit_names_wants (fixture->base.jit_names, PID, SONDE_FILE_PERF_MAP, G_MAXINT64));
}

static void
test_exec (Fixture *fixture, gconstpointer data)
{
  put (fixture, "1000 100 first\n");
  take (fixture, PID);
  g_assert_cmpstr (name_at (fixture, 0x1010, 1), ==, "first");
  sonde_jit_names_end (fixture->base.jit_names, PID);
  g_assert_false (sonde_jit_names_has (fixture->base.jit_names, PID));
  g_assert_cmpstr (name_at (fixture, 0x1010, 1), ==, NULL);
}

/* Read in slices; samples of the process wait until it was read once. */
static void
test_long (Fixture *fixture, gconstpointer data)
{
  SondeJitNames *names = fixture->base.jit_names;
  g_autofree char *name = g_strnfill (100, 'n');
  guint n_turns = 0;

  for (guint i = 0; i < 10000; i++)
    {
      g_autofree char *line = g_strdup_printf ("%x 10 %s%u\n", 0x10000 + i * 16, name, i);

      put (fixture, line);
    }
  take (fixture, PID);
  g_assert_true (sonde_jit_names_is_reading (names, PID));
  while (sonde_jit_names_work (names))
    n_turns++;
  g_assert_cmpuint (n_turns, >, 2);
  g_assert_false (sonde_jit_names_is_reading (names, PID));
  g_assert_nonnull (name_at (fixture, 0x10000 + 9999 * 16, 1));
}

static void
test_many_files (Fixture *fixture, gconstpointer data)
{
  put (fixture, "1000 100 first\n");
  for (int32_t pid = 1; pid <= SONDE_JIT_MAX_FILES; pid++)
    take (fixture, pid);
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, 0);
  take (fixture, SONDE_JIT_MAX_FILES + 1);
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, 1);
  sonde_jit_names_end (fixture->base.jit_names, 1);
  take (fixture, SONDE_JIT_MAX_FILES + 2);
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, 1);
  sonde_jit_names_expire (fixture->base.jit_names, fixture->base.processes); /* it has none */
  g_assert_false (sonde_jit_names_has (fixture->base.jit_names, 2));
  take (fixture, 2);
}

static void
test_many_processes (Fixture *fixture, gconstpointer data)
{
  SondeJitNames *names = fixture->base.jit_names;

  for (int32_t pid = 1; pid <= SONDE_JIT_MAX_PROCESSES; pid++)
    g_assert_true (sonde_jit_names_wants (names, pid, SONDE_FILE_PERF_MAP, 1));
  for (guint i = 0; i < 2; i++)
    g_assert_false (
        sonde_jit_names_wants (names, SONDE_JIT_MAX_PROCESSES + 1, SONDE_FILE_PERF_MAP, 1));
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, 1);
  sonde_jit_names_end (names, 1);
  g_assert_true (
      sonde_jit_names_wants (names, SONDE_JIT_MAX_PROCESSES + 1, SONDE_FILE_PERF_MAP, 1));
}

static void
test_memory (Fixture *fixture, gconstpointer data)
{
  SondeJitNames *names = fixture->base.jit_names;
  g_autofree char *name = g_strnfill (4000, 'n');
  g_autoptr (GString) lines = g_string_new (NULL);

  for (guint i = 0; i < SONDE_JIT_MAX_PROCESS_BYTES / 4000; i++)
    g_string_append_printf (lines, "%x 10 %s%u\n", 0x10000 + i * 16, name, i);
  put (fixture, lines->str);
  take (fixture, PID);
  while (sonde_jit_names_work (names))
    ;
  g_assert_cmpuint (fixture->base.tally.values[SONDE_STATISTIC_JIT_REFUSED], ==, 1);
  g_assert_nonnull (name_at (fixture, 0x10000, 1)); /* what had room stays */
  g_assert_null (name_at (fixture, 0x10000 + (SONDE_JIT_MAX_PROCESS_BYTES / 4000 - 1) * 16, 1));
}

#define ADD(name, test) g_test_add ("/jit-names/" name, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("tells-what-is-refused-once", test_refused);
  ADD ("refuses-more-files-than-may-be-open", test_many_files);
  ADD ("refuses-more-processes-than-may-be", test_many_processes);
  ADD ("refuses-more-memory-than-a-process-may-have", test_memory);
  ADD ("tells-made-code-from-that-of-files", test_kinds);
  ADD ("asks-less-and-less-often", test_asks);
  ADD ("names-what-was-there-at-the-time", test_times);
  ADD ("takes-no-name-for-one-of-ours", test_like_ours);
  ADD ("names-late-what-is-said-late", test_late);
  ADD ("reads-nothing-more-of-what-has-closed-itself", test_closed);
  ADD ("forgets-a-program-that-is-over", test_exec);
  ADD ("reads-long-files-in-slices", test_long);
  return g_test_run ();
}
