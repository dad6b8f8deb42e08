/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of CPython and of the C library that say where frames are, recorded of builds of each
 * version, and changed. */
#include "daemon/capture/interpreter/python-finder.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "tests/lib/runtime-file.h"

#define CODE_BYTES 48

/* Addresses of symbols, and the first bytes of PyGILState_GetThisThreadState(). */
typedef struct
{
  const char *file_name;
  unsigned minor;
  guint64 runtime;
  guint64 runtime_size;
  guint64 this_thread;
  guint64 evaluator;
  guint64 evaluator_size;
  guint32 version; /* 0: this version does not export it */
  guint64 code_type;
  guint64 text_type;
  guint64 key; /* behind runtime */
  const char *code;
} RecordedPython;

static const RecordedPython pythons[] = {
  /* Debian's program */
  { "python3.11", 11, 0xa56220, 0x28b20, 0x4cd350, 0x501f40, 61733, 0x030b02f0, 0x954440, 0x953980,
    592,
    "\x48\x83\x3d\x10\x91\x58\x00\x00\x74\x0b\x8b\x3d\x14\x91\x58\x00\xe9\x8b\x33\xf5\xff\x31\xc0"
    "\xc3"
    "\x0f\x1f\x84\x00\x00\x00\x00\x00\x41\x57\x41\x56\x49\x89\xfe\x41\x55\x49\x89\xd5\x41\x54\x55"
    "\x53" },
  /* libraries, built from source */
  { "libpython3.8.so.1.0", 8, 0x372e00, 0x5b8, 0x1b25b0, 0x6bf60, 34511, 0, 0x321000, 0x3388e0,
    1392,
    "\x48\x8b\x05\xc1\x86\x16\x00\x48\x83\xb8\x68\x05\x00\x00\x00\x74\x0f\x48\x8d\xb8\x70\x05\x00"
    "\x00"
    "\xe9\x23\x7a\xeb\xff\x0f\x1f\x00\x31\xc0\xc3\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x66"
    "\x90" },
  { "libpython3.9.so.1.0", 9, 0x3acf60, 0x290, 0x1dc1e0, 0x66920, 35197, 0, 0x359cc0, 0x371940, 584,
    "\x48\x8b\x05\x21\x7b\x17\x00\x48\x83\xb8\x40\x02\x00\x00\x00\x74\x0f\x48\x8d\xb8\x48\x02\x00"
    "\x00"
    "\xe9\x83\x90\xe8\xff\x0f\x1f\x00\x31\xc0\xc3\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x66"
    "\x90" },
  { "libpython3.10.so.1.0", 10, 0x3a8660, 0x2a0, 0x1f6bc0, 0x65540, 38051, 0, 0x379b20, 0x391c60,
    584,
    "\x48\x8b\x05\x69\xd1\x17\x00\x48\x83\xb8\x40\x02\x00\x00\x00\x74\x0f\x48\x8d\xb8\x48\x02\x00"
    "\x00"
    "\xe9\x13\xd5\xe6\xff\x0f\x1f\x00\x31\xc0\xc3\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x66"
    "\x90" },
  { "libpython3.11.so.1.0", 11, 0x54e540, 0x28b20, 0x296520, 0xfab70, 43345, 0x030b07f0, 0x449b00,
    0x461860, 592,
    "\x48\x8b\x05\x09\xd8\x1a\x00\x48\x83\xb8\x48\x02\x00\x00\x00\x74\x0f\x48\x8d\xb8\x50\x02\x00"
    "\x00"
    "\xe9\xf3\x3b\xe6\xff\x0f\x1f\x00\x31\xc0\xc3\x66\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00\x66"
    "\x90" },
  { "libpython3.12.so.1.0", 12, 0x643340, 0x704a8, 0x2d7c30, 0x10bdc0, 51245, 0x030c01f0, 0x549e80,
    0x563c20, 1544,
    "\x48\x8b\x05\xc9\xc0\x26\x00\x53\x48\x8d\x98\x08\x06\x00\x00\x48\x89\xdf\xe8\xd9\x21\xe3\xff"
    "\x85"
    "\xc0\x74\x0d\x48\x89\xdf\x5b\xe9\xec\x36\xe3\xff\x0f\x1f\x40\x00\x31\xc0\x5b\xc3\x0f\x1f\x40"
    "\x00" },
  { "libpython3.13.so.1.0", 13, 0x5294c0, 0x452b8, 0x2940c0, 0x8b8e0, 48125, 0x030d00f0, 0x4f0bc0,
    0x50c5e0, 2160,
    "\x48\x8b\x05\xe9\x6b\x25\x00\x53\x48\x8d\x98\x70\x08\x00\x00\x48\x89\xdf\xe8\xd9\x59\xdf\xff"
    "\x85"
    "\xc0\x74\x0d\x48\x89\xdf\x5b\xe9\x5c\x6d\xdf\xff\x0f\x1f\x40\x00\x31\xc0\x5b\xc3\x0f\x1f\x40"
    "\x00" },
};

#define VERSION_PLACE 0x8000000

/* @recorded: outlives it */
static void
python_init (RuntimeFile *file, const RecordedPython *recorded)
{
  runtime_file_init (file);
  runtime_file_add (file, "_PyRuntime", recorded->runtime, recorded->runtime_size);
  runtime_file_add (file, "_PyRuntime_Initialize", 0x77, 1);
  runtime_file_add (file, "_PyEval_EvalFrameDefault", recorded->evaluator,
                    recorded->evaluator_size);
  runtime_file_add (file, "PyCode_Type", recorded->code_type, 408);
  runtime_file_add (file, "PyUnicode_Type", recorded->text_type, 408);
  runtime_file_add (file, "PyGILState_GetThisThreadState", recorded->this_thread, 44);
  runtime_file_put (file, recorded->this_thread, recorded->code, CODE_BYTES);
  if (recorded->version == 0)
    return;
  runtime_file_add (file, "Py_Version", VERSION_PLACE, 8);
  runtime_file_put (file, VERSION_PLACE, &recorded->version, sizeof recorded->version);
}

static int
find (const RuntimeFile *file, const char *file_name, SondeRuntime *python, const char **why)
{
  sonde_autofd int fd = runtime_file_open (file);

  return sonde_runtime_find (SONDE_WALK_PYTHON, fd, file_name, python, why);
}

/* --- cases --- */

static void
finds_frames_of_each_version (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (pythons); i++)
    {
      g_auto (RuntimeFile) file;
      SondeRuntime python;
      const char *why;

      python_init (&file, &pythons[i]);
      g_assert_true (sonde_python_has_name (pythons[i].file_name));
      g_assert_cmpint (find (&file, pythons[i].file_name, &python, &why), ==, 0);
      g_assert_cmpuint (python.version, ==, pythons[i].minor);
      g_assert_cmpuint (python.key, ==, pythons[i].runtime + pythons[i].key);
      g_assert_cmpuint (python.code_type, ==, pythons[i].code_type);
      g_assert_cmpuint (python.text_type, ==, pythons[i].text_type);
      g_assert_cmpuint (python.n_evaluators, ==, 1);
      g_assert_cmpuint (python.evaluators[0][1], ==,
                        pythons[i].evaluator + pythons[i].evaluator_size);
      g_assert_cmpuint (python.layout.entry, ==,
                        pythons[i].minor < 11    ? SONDE_WALK_ENTRY_ALWAYS
                        : pythons[i].minor == 11 ? SONDE_WALK_ENTRY_FLAG
                                                 : SONDE_WALK_ENTRY_SHIM);
    }
}

static void
assert_refused (const RecordedPython *changed, int expected, const char *phrase)
{
  g_auto (RuntimeFile) file;
  SondeRuntime python;
  const char *why = "";

  python_init (&file, changed);
  g_assert_cmpint (find (&file, changed->file_name, &python, &why), ==, expected);
  g_assert_nonnull (strstr (why, phrase));
}

static void
refuses_what_its_code_does_not_confirm (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (pythons); i++)
    {
      RecordedPython changed = pythons[i];

      changed.runtime += 64;
      /* In a program the distance from the code is what was changed; in a library it is one from
       * the runtime, and stays right. */
      if (g_str_has_prefix (changed.file_name, "python"))
        assert_refused (&changed, -ENOTSUP, "does not confirm");
      changed = pythons[i];
      changed.code = "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"
                     "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90"
                     "\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90";
      assert_refused (&changed, -ENOTSUP, "does not confirm");
      changed = pythons[i];
      changed.runtime_size = changed.key;
      assert_refused (&changed, -ENOTSUP, "does not confirm");
      changed = pythons[i];
      changed.text_type = 0;
      assert_refused (&changed, -ENOTSUP, "does not confirm");
    }
}

static void
refuses_versions_and_builds_that_it_does_not_know (void)
{
  RecordedPython changed = pythons[0];

  changed.version = 0x030f00a1;
  assert_refused (&changed, -ENOTSUP, "its version");
  changed.version = 0x030701f0;
  assert_refused (&changed, -ENOTSUP, "its version");
  changed = pythons[1];
  changed.file_name = "libpython3.7m.so.1.0";
  assert_refused (&changed, -ENOTSUP, "its version");
  changed.file_name = "libpython3.so";
  assert_refused (&changed, -ENOTSUP, "its version");
  changed = pythons[0];
  changed.file_name = "python3.11d";
  assert_refused (&changed, -ENOTSUP, "for debugging");
  changed = pythons[6];
  changed.file_name = "libpython3.13t.so.1.0";
  assert_refused (&changed, -ENOTSUP, "without the global lock");
}

static void
refuses_builds_that_say_that_they_have_no_lock (void)
{
  static const guint64 words[] = { G_GUINT64_CONSTANT (0x7970677562656478), 0x030d00f0, 1 };
  g_auto (RuntimeFile) file;
  SondeRuntime python;
  const char *why = "";

  python_init (&file, &pythons[6]);
  runtime_file_put (&file, pythons[6].runtime, words, sizeof words);
  g_assert_cmpint (find (&file, pythons[6].file_name, &python, &why), ==, -ENOTSUP);
  g_assert_nonnull (strstr (why, "without the global lock"));
}

static void
takes_no_other_file_for_python (void)
{
  RecordedPython changed = pythons[0];
  sonde_autofd int fd = open ("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  sonde_autofd int text_fd = open ("/proc/self/status", O_RDONLY | O_CLOEXEC);
  SondeRuntime python;
  const char *why;

  g_assert_cmpint (sonde_runtime_find (SONDE_WALK_PYTHON, fd, "python3", &python, &why), ==,
                   -ENOENT);
  g_assert_cmpint (sonde_runtime_find (SONDE_WALK_PYTHON, text_fd, "python3", &python, &why), <, 0);
  /* A program that is linked with the library. */
  changed.runtime = 0;
  assert_refused (&changed, -ENOENT, "exports nothing");
  g_assert_false (sonde_python_has_name ("pythonize"));
  g_assert_false (sonde_python_has_name ("python2.7"));
  g_assert_false (sonde_python_has_name ("libc.so.6"));
}

static void
reads_no_file_beyond_its_end (void)
{
  g_auto (RuntimeFile) file;
  g_autoptr (GByteArray) bytes = NULL;
  SondeRuntime python;
  const char *why;

  python_init (&file, &pythons[0]);
  bytes = runtime_file_build (&file);
  for (guint size_bytes = 0; size_bytes < bytes->len; size_bytes++)
    {
      sonde_autofd int fd = memfd_create ("cut", MFD_CLOEXEC);

      g_assert_cmpint (write (fd, bytes->data, size_bytes), ==, size_bytes);
      g_assert_cmpint (sonde_runtime_find (SONDE_WALK_PYTHON, fd, "python3.11", &python, &why), <,
                       0);
    }
}

/* --- the C library --- */

/* Of Debian's 2.36. */
static const guint32 specific[] = { 64, 32, 1296 };
static const guint32 data_value[] = { 64, 1, 8 };
static const guint32 data_size = 16;

static void
threads_init (RuntimeFile *file, const guint32 *place, const guint32 *value, const guint32 *size)
{
  runtime_file_init (file);
  runtime_file_add (file, "_thread_db_pthread_specific", 0x1000, 12);
  runtime_file_add (file, "_thread_db_pthread_key_data_data", 0x2000, 12);
  runtime_file_add (file, "_thread_db_sizeof_pthread_key_data", 0x3000, 4);
  runtime_file_put (file, 0x1000, place, 12);
  runtime_file_put (file, 0x2000, value, 12);
  runtime_file_put (file, 0x3000, size, 4);
}

static int
find_threads (const RuntimeFile *file, SondeWalkLayout *layout)
{
  sonde_autofd int fd = runtime_file_open (file);

  return sonde_python_find_threads (fd, layout);
}

static void
finds_data_of_threads (void)
{
  g_auto (RuntimeFile) file;
  SondeWalkLayout layout = { .state_frame = 5 };

  threads_init (&file, specific, data_value, &data_size);
  g_assert_cmpint (find_threads (&file, &layout), ==, 0);
  g_assert_cmpuint (layout.thread_data, ==, 1296);
  g_assert_cmpuint (layout.thread_data_value, ==, 8);
  g_assert_cmpuint (layout.thread_data_size, ==, 16);
  g_assert_cmpuint (layout.state_frame, ==, 5);
  g_assert_true (sonde_python_has_name_of_libc ("libc.so.6"));
  g_assert_true (sonde_python_has_name_of_libc ("libc-2.31.so"));
  g_assert_false (sonde_python_has_name_of_libc ("libcrypt.so.1"));
}

static void
refuses_data_of_threads_that_cannot_be (void)
{
  static const guint32 far[] = { 64, 32, 4096 };
  static const guint32 near[] = { 64, 32, 100 };
  static const guint32 sizes[] = { 0, 129 };
  SondeWalkLayout layout = { .thread_data = 77 };

  for (guint i = 0; i < 5; i++)
    {
      g_auto (RuntimeFile) file;

      threads_init (&file,
                    i == 0   ? far
                    : i == 1 ? near
                             : specific,
                    i == 2 ? far : data_value, i > 2 ? &sizes[i - 3] : &data_size);
      g_assert_cmpint (find_threads (&file, &layout), ==, -ENOENT);
      g_assert_cmpuint (layout.thread_data, ==, 77);
    }
  {
    g_auto (RuntimeFile) file;

    runtime_file_init (&file);
    g_assert_cmpint (find_threads (&file, &layout), ==, -ENOENT);
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/python-finder/refuses-what-its-code-does-not-confirm",
                   refuses_what_its_code_does_not_confirm);
  g_test_add_func ("/python-finder/refuses-versions-and-builds-that-it-does-not-know",
                   refuses_versions_and_builds_that_it_does_not_know);
  g_test_add_func ("/python-finder/refuses-builds-that-say-that-they-have-no-lock",
                   refuses_builds_that_say_that_they_have_no_lock);
  g_test_add_func ("/python-finder/takes-no-other-file-for-python", takes_no_other_file_for_python);
  g_test_add_func ("/python-finder/reads-no-file-beyond-its-end", reads_no_file_beyond_its_end);
  g_test_add_func ("/python-finder/refuses-data-of-threads-that-cannot-be",
                   refuses_data_of_threads_that_cannot_be);
  g_test_add_func ("/python-finder/finds-frames-of-each-version", finds_frames_of_each_version);
  g_test_add_func ("/python-finder/finds-data-of-threads", finds_data_of_threads);
  return g_test_run ();
}
