/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Processes that run an interpreter, which a broker is told of, and walks of theirs. */
#include "daemon/capture/interpreter/interpreters.h"

#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>

#include "tests/lib/runtime-file.h"
#include "tests/lib/recorder-fixture.h"

#define PID          70
#define BASE         0x7f0000000000 /* where the interpreter's file is mapped */
#define LIBC_BASE    0x7e0000000000
#define RUNTIME      0x5000
#define EVALUATOR    0x7000
#define FUNCTION     0x9000
#define KEY          (RUNTIME + 592)
#define FILE_BYTES   0x10000
#define PIECE_OFFSET (sizeof (Elf64_Ehdr) + sizeof (Elf64_Phdr)) /* of its bytes in the file */
#define IN_EVAL      (BASE + PIECE_OFFSET + EVALUATOR + 0x10)
#define NAMES        0xE000000000000000u

typedef struct
{
  RecorderFixture base;
  SondeInterpreters *interpreters;
  GArray *told; /* SondeMessageInterpreter */
  SondeProcess *process;
} Fixture;

static gboolean
tell (SondeMessageInterpreter *message, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_array_append_vals (fixture->told, message, 1);
  return TRUE;
}

/* All of the file is one piece, from address 0 on; @version: what it says of itself */
static int
open_python (guint32 version)
{
  static guint8 bytes[FILE_BYTES];
  const guint32 key = KEY;
  g_auto (RuntimeFile) file;

  memset (bytes, 0x90, sizeof bytes);
  memcpy (bytes + FUNCTION, &key, sizeof key);
  memcpy (bytes + 0x8000, &version, sizeof version);
  runtime_file_init (&file);
  runtime_file_add (&file, "_PyRuntime", RUNTIME, 0x1000);
  runtime_file_add (&file, "_PyEval_EvalFrameDefault", EVALUATOR, 0x100);
  runtime_file_add (&file, "Py_Version", 0x8000, 4);
  runtime_file_add (&file, "PyCode_Type", 0x100, 408);
  runtime_file_add (&file, "PyUnicode_Type", 0x300, 408);
  runtime_file_add (&file, "PyGILState_GetThisThreadState", FUNCTION, 48);
  runtime_file_put (&file, 0, bytes, sizeof bytes);
  return runtime_file_open (&file);
}

/* @build: what it was built as */
static int
open_php (const char *build)
{
  static guint8 bytes[FILE_BYTES];
  g_auto (RuntimeFile) file;

  runtime_file_init (&file);
  runtime_file_add (&file, "executor_globals", RUNTIME, 1800);
  runtime_file_add (&file, "execute_ex", EVALUATOR, 0x100);
  runtime_file_put (&file, 0, bytes, sizeof bytes);
  runtime_file_put_section (&file, ".rodata", SHT_PROGBITS, build, strlen (build) + 1);
  return runtime_file_open (&file);
}

static int
open_libc (void)
{
  static const guint32 words[] = { 64, 32, 1296, 64, 1, 8, 16, 0 };
  g_auto (RuntimeFile) file;

  runtime_file_init (&file);
  runtime_file_add (&file, "_thread_db_pthread_specific", 0x1000, 12);
  runtime_file_add (&file, "_thread_db_pthread_key_data_data", 0x100c, 12);
  runtime_file_add (&file, "_thread_db_sizeof_pthread_key_data", 0x1018, 4);
  runtime_file_put (&file, 0x1000, words, sizeof words);
  return runtime_file_open (&file);
}

/* @offset: of the piece in the file */
static void
map (Fixture *fixture, int fd, guint64 inode, guint64 start, guint64 offset, const char *path)
{
  const SondeFileId id = { .inode = inode };
  const SondeProcessMapping mapping
      = { .start = start, .end = start + FILE_BYTES, .offset = offset, .file = id, .path = path };

  g_assert_cmpint (sonde_module_store_load (fixture->base.modules, &id, fd), ==, 0);
  g_assert_cmpint (sonde_process_add_mapping (fixture->base.processes, fixture->process, &mapping,
                                              SONDE_MAP_FROM_EVENT),
                   ==, 1);
}

static void
map_python (Fixture *fixture, guint32 version)
{
  map (fixture, open_python (version), 1, BASE + PIECE_OFFSET, PIECE_OFFSET, "/usr/bin/python3.11");
}

static void
map_libc (Fixture *fixture)
{
  map (fixture, open_libc (), 2, LIBC_BASE, PIECE_OFFSET, "/lib/libc.so.6");
}

static void
sink_closed (guint32 sink_id, int reason, gpointer user_data)
{
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  recorder_fixture_init (&fixture->base, sink_closed, NULL);
  fixture->told = g_array_new (FALSE, FALSE, sizeof (SondeMessageInterpreter));
  fixture->interpreters = sonde_interpreters_new (fixture->base.processes, fixture->base.recorder,
                                                  &fixture->base.tally, tell, fixture);
  fixture->process = sonde_process_table_ensure (fixture->base.processes, PID, 1);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_interpreters_free (fixture->interpreters);
  g_array_unref (fixture->told);
  recorder_fixture_clear (&fixture->base);
}

static const SondeMessageInterpreter *
last_told (const Fixture *fixture)
{
  g_assert_cmpuint (fixture->told->len, >, 0);
  return &g_array_index (fixture->told, SondeMessageInterpreter, fixture->told->len - 1);
}

static void
take (Fixture *fixture, const void *bytes, size_t size_bytes)
{
  const SondePerfRecord record = { .type = SONDE_PERF_RECORD_WALK,
                                   .cpu = 1,
                                   .walk = { .bytes = bytes, .size_bytes = size_bytes } };

  sonde_interpreters_take_walk (fixture->interpreters, &record);
}

static void
take_code (Fixture *fixture, guint64 generation, guint64 address, const char *name)
{
  SondeWalkCode code = { .kind = SONDE_WALK_RECORD_CODE,
                         .pid = PID,
                         .generation = generation,
                         .code = address,
                         .first_line = 7,
                         .name = { (uint32_t) strlen (name), 1 },
                         .file = { 4, 1 } };

  memcpy (code.name_bytes, name, strlen (name));
  memcpy (code.file_bytes, "a.py", 4);
  take (fixture, &code, offsetof (SondeWalkCode, lines));
}

static void
take_walk (Fixture *fixture, guint64 generation)
{
  const SondeWalkRecord walk
      = { .kind = SONDE_WALK_RECORD_FRAMES,
          .generation = generation,
          .ip = IN_EVAL,
          .pid = PID,
          .tid = PID,
          .n_frames = 2,
          .frames = { { .code = 0x1000, .at = 184 }, { .code = 0x2000, .at = 184, .entry = 1 } } };

  take (fixture, &walk, offsetof (SondeWalkRecord, frames) + 2 * sizeof walk.frames[0]);
}

/* A stack of two. Returns: how many addresses it has afterwards */
static size_t
merge_stack (Fixture *fixture, uint64_t addrs[SONDE_INTERPRETERS_MAX_DEPTH])
{
  const SondePerfRecord sample = { .type = SONDE_PERF_RECORD_SAMPLE,
                                   .cpu = 1,
                                   .pid = PID,
                                   .tid = PID,
                                   .time_ns = 5,
                                   .sample.ip = IN_EVAL };
  size_t n;

  n = sonde_interpreters_merge (fixture->interpreters, fixture->process, &sample, addrs, 2, TRUE);
  sonde_interpreters_end_sample (fixture->interpreters, 1);
  return n;
}

/* The same of the evaluator and of its caller. */
static size_t
merge (Fixture *fixture, uint64_t addrs[SONDE_INTERPRETERS_MAX_DEPTH])
{
  addrs[0] = IN_EVAL;
  addrs[1] = BASE + 0x20;
  return merge_stack (fixture, addrs);
}

static guint64
count (const Fixture *fixture, SondeStatistic statistic)
{
  return fixture->base.tally.values[statistic];
}

/* --- cases --- */

static void
tells_of_an_interpreter_once (Fixture *fixture, gconstpointer data)
{
  const SondeMessageInterpreter *message;

  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  map_python (fixture, 0x030b02f0);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 0);
  map_libc (fixture);
  for (guint i = 0; i < 3; i++)
    sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 1);
  message = last_told (fixture);
  g_assert_cmpint (message->pid, ==, PID);
  g_assert_cmpuint (message->place.kind, ==, SONDE_WALK_PYTHON);
  g_assert_cmpuint (message->start, ==, BASE + PIECE_OFFSET);
  g_assert_cmpuint (message->inode, ==, 1);
  g_assert_cmphex (message->place.key, ==, BASE + PIECE_OFFSET + KEY);
  g_assert_cmpuint (message->place.layout.thread_data, ==, 1296);
  g_assert_cmpuint (message->place.layout.frame_code, ==, 32);
  /* Another library changes nothing. */
  map (fixture, open_libc (), 3, 0x10000, PIECE_OFFSET, "/usr/lib/libz.so.1");
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 1);
}

static void
tells_when_it_is_none_any_more (Fixture *fixture, gconstpointer data)
{
  map_python (fixture, 0x030b02f0);
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  sonde_interpreters_forget (fixture->interpreters, PID);
  g_assert_cmpuint (fixture->told->len, ==, 2);
  g_assert_cmpuint (last_told (fixture)->place.kind, ==, SONDE_WALK_NONE);
  g_assert_cmpint (last_told (fixture)->pid, ==, PID);
  sonde_interpreters_forget (fixture->interpreters, PID);
  g_assert_cmpuint (fixture->told->len, ==, 2);
}

/* Names of files are a program's to choose. */
static void
reads_no_more_files_than_its_limit (Fixture *fixture, gconstpointer data)
{
  for (guint i = 0; i < 1100; i++)
    {
      g_autofree char *path = g_strdup_printf ("/tmp/%u/python3.11", i);

      map (fixture, open_libc (), 100 + i, 0x10000000 + i * 0x100000ull, PIECE_OFFSET, path);
    }
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  map_python (fixture, 0x030b02f0);
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 0);
}

static void
tells_nothing_of_a_version_that_it_does_not_know (Fixture *fixture, gconstpointer data)
{
  map_python (fixture, 0x030f02f0);
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 0);
}

static void
puts_functions_into_the_stack (Fixture *fixture, gconstpointer data)
{
  uint64_t addrs[SONDE_INTERPRETERS_MAX_DEPTH];
  uint64_t first;

  map_python (fixture, 0x030b02f0);
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  /* Its addresses in memory are those of the file and where that is mapped. */
  take_code (fixture, 1, 0x1000, "inner");
  take_code (fixture, 1, 0x2000, "outer");
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 3);
  g_assert_cmphex (addrs[0], >=, NAMES);
  g_assert_cmphex (addrs[1], >=, NAMES);
  g_assert_cmphex (addrs[0], !=, addrs[1]);
  g_assert_cmphex (addrs[2], ==, BASE + 0x20);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS), ==, 1);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS_UNNAMED), ==, 0);
  /* The same line has the same address; another function at that place another one. */
  first = addrs[0];
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 3);
  g_assert_cmphex (addrs[0], ==, first);
  take_code (fixture, 1, 0x1000, "another");
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 3);
  g_assert_cmphex (addrs[0], !=, first);
}

static void
leaves_a_stack_without_a_walk_as_it_is (Fixture *fixture, gconstpointer data)
{
  uint64_t addrs[SONDE_INTERPRETERS_MAX_DEPTH];

  map_python (fixture, 0x030b02f0);
  map_libc (fixture);
  /* of a process that nobody met */
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 2);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (merge (fixture, addrs), ==, 2);
  /* of what it ran before */
  take_walk (fixture, 2);
  g_assert_cmpuint (merge (fixture, addrs), ==, 2);
  g_assert_cmphex (addrs[0], ==, IN_EVAL);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS), ==, 0);
  /* Only those are counted that have the interpreter's function, of a process that is walked. */
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS_ABSENT), ==, 2);
  addrs[0] = BASE + 0x40;
  g_assert_cmpuint (merge_stack (fixture, addrs), ==, 2);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS_ABSENT), ==, 2);
}

static void
says_where_a_name_has_not_come (Fixture *fixture, gconstpointer data)
{
  uint64_t addrs[SONDE_INTERPRETERS_MAX_DEPTH];

  map_python (fixture, 0x030b02f0);
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  take_code (fixture, 1, 0x2000, "outer");
  /* of an earlier place */
  take_code (fixture, 9, 0x1000, "stale");
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 3);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS_UNNAMED), ==, 1);
}

static void
shows_nothing_more_of_what_has_closed_itself (Fixture *fixture, gconstpointer data)
{
  uint64_t addrs[SONDE_INTERPRETERS_MAX_DEPTH];

  map_python (fixture, 0x030b02f0);
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  sonde_process_set_flag (fixture->process, SONDE_PROCESS_FLAG_CLOSED, true);
  take_code (fixture, 1, 0x1000, "secret");
  take_code (fixture, 1, 0x2000, "secret too");
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 2);
  /* Its names were dropped, not kept. */
  sonde_process_set_flag (fixture->process, SONDE_PROCESS_FLAG_CLOSED, false);
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 3);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS_UNNAMED), ==, 1);
}

static void
map_musl (Fixture *fixture)
{
  map (fixture, open_libc (), 3, LIBC_BASE, PIECE_OFFSET, "/lib/ld-musl-x86_64.so.1");
}

/* Each process once, by the first reason. */
static void
counts_processes_whose_functions_it_cannot_show (Fixture *fixture, gconstpointer data)
{
  static const struct
  {
    guint32 version;
    void (*map_libc) (Fixture *fixture);
    gboolean is_walked;
    SondeStatistic counted;
  } rows[] = {
    { 0x030b02f0, map_libc, FALSE, SONDE_STATISTIC_INTERPRETERS_CLOSED },
    { 0x030b02f0, map_musl, TRUE, SONDE_STATISTIC_INTERPRETERS_MUSL },
    { 0x030f02f0, map_libc, TRUE, SONDE_STATISTIC_INTERPRETERS_UNKNOWN },
    { 0x030b02f0, map_libc, TRUE, SONDE_N_STATISTICS },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      tear_down (fixture, NULL);
      *fixture = (Fixture){ 0 };
      set_up (fixture, NULL);
      if (rows[i].is_walked)
        sonde_interpreters_set_walked (fixture->interpreters);
      map_python (fixture, rows[i].version);
      sonde_interpreters_meet (fixture->interpreters, fixture->process);
      g_assert_cmpuint (count (fixture, SONDE_STATISTIC_INTERPRETERS_CLOSED), ==, 0);
      rows[i].map_libc (fixture);
      sonde_interpreters_meet (fixture->interpreters, fixture->process);
      map (fixture, open_libc (), 9, 0x7d0000000000, PIECE_OFFSET, "/lib/other.so");
      sonde_interpreters_meet (fixture->interpreters, fixture->process);
      for (guint j = SONDE_STATISTIC_INTERPRETERS_CLOSED; j < SONDE_N_STATISTICS; j++)
        g_assert_cmpuint (count (fixture, j), ==, j == rows[i].counted);
    }
}

static void
says_if_more_is_missing_than_the_kernel_lost (Fixture *fixture, gconstpointer data)
{
  SondeWalkRecord walk = { .kind = SONDE_WALK_RECORD_FRAMES, .number = 4 };

  take (fixture, &walk, sizeof walk);
  g_assert_true (sonde_interpreters_check_losses (fixture->interpreters, 3));
  g_assert_false (sonde_interpreters_check_losses (fixture->interpreters, 2));
}

/* PHP keeps its state itself: whichever C library it has. */
static void
tells_of_php_without_a_c_library (Fixture *fixture, gconstpointer data)
{
  uint64_t addrs[SONDE_INTERPRETERS_MAX_DEPTH];

  sonde_interpreters_set_walked (fixture->interpreters);
  map (fixture, open_php ("xx API20220829,NTS"), 1, BASE + PIECE_OFFSET, PIECE_OFFSET,
       "/usr/bin/php8.2");
  map_musl (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 1);
  g_assert_cmpuint (last_told (fixture)->place.kind, ==, SONDE_WALK_PHP);
  g_assert_cmphex (last_told (fixture)->place.key, ==, BASE + PIECE_OFFSET + RUNTIME);
  g_assert_cmpuint (last_told (fixture)->place.code_type, ==, 0);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_INTERPRETERS_MUSL), ==, 0);
  take_code (fixture, 1, 0x1000, "inner");
  take_code (fixture, 1, 0x2000, "outer");
  take_walk (fixture, 1);
  g_assert_cmpuint (merge (fixture, addrs), ==, 3);
  g_assert_cmphex (addrs[1], >=, NAMES);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_WALKS), ==, 1);
}

static void
counts_php_of_other_builds (Fixture *fixture, gconstpointer data)
{
  sonde_interpreters_set_walked (fixture->interpreters);
  map (fixture, open_php ("xx API20220829,TS"), 1, BASE + PIECE_OFFSET, PIECE_OFFSET,
       "/usr/bin/php8.2");
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 0);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_INTERPRETERS_UNKNOWN), ==, 1);
}

/* Whoever maps files of such names, a thousand of them, takes functions from none without a word.
 */
static void
counts_who_comes_when_there_are_too_many_files (Fixture *fixture, gconstpointer data)
{
  sonde_interpreters_set_walked (fixture->interpreters);
  for (guint i = 0; i < 1024; i++)
    {
      g_autofree char *path = g_strdup_printf ("/tmp/php%u", i);

      map (fixture, open_libc (), 100 + i, BASE + 0x100000000 + (guint64) i * 0x10000, PIECE_OFFSET,
           path);
    }
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_INTERPRETERS_BEYOND), ==, 0);
  map_python (fixture, 0x030b02f0);
  map_libc (fixture);
  sonde_interpreters_meet (fixture->interpreters, fixture->process);
  g_assert_cmpuint (fixture->told->len, ==, 0);
  g_assert_cmpuint (count (fixture, SONDE_STATISTIC_INTERPRETERS_BEYOND), ==, 1);
}

#define ADD(name, test) g_test_add ("/interpreters/" name, Fixture, NULL, set_up, test, tear_down)

int
main (int argc, char **argv)
{
  struct rlimit limit;

  /* An ordinary user may have fewer files than a worker, until he asks. */
  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  limit.rlim_cur = limit.rlim_max;
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  g_test_init (&argc, &argv, NULL);
  ADD ("counts-who-comes-when-there-are-too-many-files",
       counts_who_comes_when_there_are_too_many_files);
  ADD ("tells-nothing-of-a-version-that-it-does-not-know",
       tells_nothing_of_a_version_that_it_does_not_know);
  ADD ("counts-processes-whose-functions-it-cannot-show",
       counts_processes_whose_functions_it_cannot_show);
  ADD ("says-if-more-is-missing-than-the-kernel-lost",
       says_if_more_is_missing_than_the_kernel_lost);
  ADD ("reads-no-more-files-than-its-limit", reads_no_more_files_than_its_limit);
  ADD ("leaves-a-stack-without-a-walk-as-it-is", leaves_a_stack_without_a_walk_as_it_is);
  ADD ("shows-nothing-more-of-what-has-closed-itself",
       shows_nothing_more_of_what_has_closed_itself);
  ADD ("counts-php-of-other-builds", counts_php_of_other_builds);
  ADD ("tells-of-php-without-a-c-library", tells_of_php_without_a_c_library);
  ADD ("tells-of-an-interpreter-once", tells_of_an_interpreter_once);
  ADD ("tells-when-it-is-none-any-more", tells_when_it_is_none_any_more);
  ADD ("puts-functions-into-the-stack", puts_functions_into_the_stack);
  ADD ("says-where-a-name-has-not-come", says_where_a_name_has_not_come);
  return g_test_run ();
}
