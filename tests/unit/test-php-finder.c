/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files of PHP that say where frames are, as Debian's php8.2 does, and changed. */
#include "daemon/capture/interpreter/php-finder.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "tests/lib/runtime-file.h"

#define GLOBALS        0x58ae60
#define GLOBALS_BYTES  1800
#define EVALUATOR      0x36cbe0
#define EVALUATOR_SIZE 37662

/* Both of its texts: that for extensions of the engine has another number before the date. */
static const char constants[] = "X-Powered-By: PHP/8.2.36\0API420220829,NTS\0API20220829,NTS";

typedef struct
{
  guint64 globals_bytes; /* 0: it does not export them */
  guint64 evaluator_bytes;
  const void *constants; /* NULL: the section is missing */
  gsize constants_bytes;
} PhpFile;

static const PhpFile php = { GLOBALS_BYTES, EVALUATOR_SIZE, constants, sizeof constants };

static void
php_init (RuntimeFile *file, const PhpFile *from)
{
  runtime_file_init (file);
  if (from->globals_bytes > 0)
    runtime_file_add (file, "executor_globals", GLOBALS, from->globals_bytes);
  runtime_file_add (file, "execute_ex", EVALUATOR, from->evaluator_bytes);
  runtime_file_add (file, "zend_execute_ex", 0x1000, 8);
  if (from->constants != NULL)
    runtime_file_put_section (file, ".rodata", SHT_PROGBITS, from->constants,
                              from->constants_bytes);
}

static int
find (const PhpFile *from, SondeRuntime *runtime, const char **why)
{
  g_auto (RuntimeFile) file;
  sonde_autofd int fd = -1;

  php_init (&file, from);
  fd = runtime_file_open (&file);
  return sonde_runtime_find (SONDE_WALK_PHP, fd, "php8.2", runtime, why);
}

static void
assert_refused (const PhpFile *from, int expected, const char *phrase)
{
  SondeRuntime runtime = { .key = 77 };
  const char *why = "";

  g_assert_cmpint (find (from, &runtime, &why), ==, expected);
  g_assert_nonnull (strstr (why, phrase));
  g_assert_cmpuint (runtime.key, ==, 77);
}

/* --- cases --- */

static void
refuses_what_its_size_does_not_confirm (void)
{
  PhpFile changed = php;

  changed.globals_bytes = 1776 - 8;
  assert_refused (&changed, -ENOTSUP, "is smaller");
  changed.globals_bytes = 0;
  assert_refused (&changed, -ENOTSUP, "is smaller");
}

/* 8.2.32, 8.2.36, and what may come. */
static void
takes_states_that_have_grown (void)
{
  static const guint64 sizes[] = { 1776, 1800, 1824 };
  PhpFile changed = php;

  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      SondeRuntime runtime = { 0 };
      const char *why = "";

      changed.globals_bytes = sizes[i];
      g_assert_cmpint (find (&changed, &runtime, &why), ==, 0);
      g_assert_cmpuint (runtime.version, ==, 802);
    }
}

static void
refuses_versions_and_builds_that_it_does_not_know (void)
{
  static const struct
  {
    const char *text;
    const char *phrase;
  } rows[] = {
    { "API20210902,NTS", "its version" }, /* 8.1 */
    { "API20230831,NTS", "its version" }, /* 8.3 */
    { "API420220829,NTS", "its version" },
    { "API20220829", "its version" },
    { "API20220829,TS", "with threads" },
    { "API20220829,NTS,debug", "for debugging" },
    { "", "its version" },
  };
  PhpFile changed = php;

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      char padded[64] = { 0 };

      g_strlcpy (padded, rows[i].text, sizeof padded);
      changed.constants = padded;
      changed.constants_bytes = sizeof padded;
      assert_refused (&changed, -ENOTSUP, rows[i].phrase);
    }
  changed.constants = NULL;
  assert_refused (&changed, -ENOTSUP, "cannot be read");
}

/* As those of a PHP that has fileinfo built in. */
static void
finds_the_version_anywhere_in_constants_of_many_pieces (void)
{
  static const char text[] = "API20220829,NTS";
  const gsize size_bytes = 9 << 20;
  g_autofree char *many = g_malloc0 (size_bytes);
  PhpFile changed = { GLOBALS_BYTES, EVALUATOR_SIZE, many, 0 };
  SondeRuntime runtime;
  const char *why;

  for (gsize end = 64 << 10; end <= 128 << 10; end += 64 << 10)
    for (gsize at = end - 80; at < end + 8; at++)
      {
        changed.constants_bytes = at + sizeof text;
        memcpy (many + at, text, sizeof text);
        g_assert_cmpint (find (&changed, &runtime, &why), ==, 0);
        g_assert_cmpuint (runtime.version, ==, 802);
        memset (many + at, 0, sizeof text);
      }
  changed.constants_bytes = size_bytes;
  assert_refused (&changed, -ENOTSUP, "its version");
  memcpy (many + size_bytes - sizeof text, text, sizeof text);
  g_assert_cmpint (find (&changed, &runtime, &why), ==, 0);
}

/* @constants_bytes: as the file says; @file_bytes: that it has, most of them zeros */
static int
find_resized (guint64 constants_bytes, gsize file_bytes, const char **why)
{
  g_auto (RuntimeFile) file;
  g_autoptr (GByteArray) bytes = NULL;
  sonde_autofd int fd = memfd_create ("resized", MFD_CLOEXEC);
  SondeRuntime runtime;

  php_init (&file, &php);
  bytes = runtime_file_build (&file);
  /* Of the last section. */
  memcpy (bytes->data + bytes->len - sizeof (Elf64_Shdr) + offsetof (Elf64_Shdr, sh_size),
          &constants_bytes, sizeof constants_bytes);
  g_assert_cmpint (write (fd, bytes->data, bytes->len), ==, bytes->len);
  g_assert_cmpint (ftruncate (fd, (off_t) file_bytes), ==, 0);
  return sonde_runtime_find (SONDE_WALK_PHP, fd, "php8.2", &runtime, why);
}

static void
says_of_constants_that_they_were_not_read (void)
{
  const char *why = "";

  g_assert_cmpint (find_resized (64 << 20, 65 << 20, &why), ==, 0);
  g_assert_cmpint (find_resized ((64 << 20) + 1, 65 << 20, &why), ==, -ENOTSUP);
  g_assert_nonnull (strstr (why, "larger than 64 MiB"));
  g_assert_cmpint (find_resized (64 << 20, 1 << 20, &why), ==, -ENOTSUP);
  g_assert_nonnull (strstr (why, "cannot be read"));
  g_assert_cmpint (find_resized (G_MAXUINT64, 1 << 20, &why), ==, -ENOTSUP);
  g_assert_nonnull (strstr (why, "cannot be read"));
}

static void
reads_no_constants_beyond_their_end (void)
{
  PhpFile changed = php;

  for (gsize size_bytes = 1; size_bytes < sizeof constants; size_bytes++)
    {
      changed.constants_bytes = size_bytes;
      assert_refused (&changed, -ENOTSUP, "");
    }
}

static void
takes_no_other_file_for_php (void)
{
  sonde_autofd int fd = open ("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  sonde_autofd int text_fd = open ("/proc/self/status", O_RDONLY | O_CLOEXEC);
  PhpFile changed = php;
  SondeRuntime runtime;
  const char *why;

  g_assert_cmpint (sonde_runtime_find (SONDE_WALK_PHP, fd, "php", &runtime, &why), ==, -ENOENT);
  g_assert_cmpint (sonde_runtime_find (SONDE_WALK_PHP, text_fd, "php", &runtime, &why), <, 0);
  changed.evaluator_bytes = 0;
  assert_refused (&changed, -ENOENT, "exports nothing");
}

static void
reads_no_file_beyond_its_end (void)
{
  g_auto (RuntimeFile) file;
  g_autoptr (GByteArray) bytes = NULL;
  SondeRuntime runtime;
  const char *why;

  php_init (&file, &php);
  bytes = runtime_file_build (&file);
  for (guint size_bytes = 0; size_bytes < bytes->len; size_bytes++)
    {
      sonde_autofd int fd = memfd_create ("cut", MFD_CLOEXEC);

      g_assert_cmpint (write (fd, bytes->data, size_bytes), ==, size_bytes);
      g_assert_cmpint (sonde_runtime_find (SONDE_WALK_PHP, fd, "php8.2", &runtime, &why), <, 0);
    }
}

static void
finds_the_frames_of_8_2 (void)
{
  SondeRuntime runtime;
  const char *why;

  g_assert_cmpint (find (&php, &runtime, &why), ==, 0);
  g_assert_cmpuint (runtime.kind, ==, SONDE_WALK_PHP);
  g_assert_cmpuint (runtime.version, ==, 802);
  g_assert_cmpuint (runtime.key, ==, GLOBALS);
  g_assert_cmpuint (runtime.code_type, ==, 0);
  g_assert_cmpuint (runtime.n_evaluators, ==, 1);
  g_assert_cmpuint (runtime.evaluators[0][1], ==, EVALUATOR + EVALUATOR_SIZE);
  g_assert_cmpuint (runtime.layout.state_frame, ==, 488);
}

static void
finds_the_frames_of_8_4 (void)
{
  static const char text[32] = "API20240924,NTS";
  const PhpFile newer = { 1984, EVALUATOR_SIZE, text, sizeof text };
  const PhpFile mixed = { GLOBALS_BYTES, EVALUATOR_SIZE, text, sizeof text };
  SondeRuntime runtime;
  const char *why;

  g_assert_cmpint (find (&newer, &runtime, &why), ==, 0);
  g_assert_cmpuint (runtime.version, ==, 804);
  g_assert_cmpuint (runtime.layout.code_file, ==, 168);
  assert_refused (&mixed, -ENOTSUP, "is smaller");
}

static void
guesses_kinds_by_names_of_files (void)
{
  g_assert_cmpuint (sonde_runtime_guess ("php8.2"), ==, SONDE_WALK_PHP);
  g_assert_cmpuint (sonde_runtime_guess ("php"), ==, SONDE_WALK_PHP);
  g_assert_cmpuint (sonde_runtime_guess ("php-fpm8.2"), ==, SONDE_WALK_PHP);
  g_assert_cmpuint (sonde_runtime_guess ("libphp.so"), ==, SONDE_WALK_PHP);
  g_assert_cmpuint (sonde_runtime_guess ("python3.11"), ==, SONDE_WALK_PYTHON);
  g_assert_cmpuint (sonde_runtime_guess ("libc.so.6"), ==, SONDE_WALK_NONE);
  g_assert_cmpuint (sonde_runtime_guess (""), ==, SONDE_WALK_NONE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/php-finder/refuses-what-its-size-does-not-confirm",
                   refuses_what_its_size_does_not_confirm);
  g_test_add_func ("/php-finder/takes-states-that-have-grown", takes_states_that_have_grown);
  g_test_add_func ("/php-finder/refuses-versions-and-builds-that-it-does-not-know",
                   refuses_versions_and_builds_that_it_does_not_know);
  g_test_add_func ("/php-finder/finds-the-version-anywhere-in-constants-of-many-pieces",
                   finds_the_version_anywhere_in_constants_of_many_pieces);
  g_test_add_func ("/php-finder/says-of-constants-that-they-were-not-read",
                   says_of_constants_that_they_were_not_read);
  g_test_add_func ("/php-finder/reads-no-constants-beyond-their-end",
                   reads_no_constants_beyond_their_end);
  g_test_add_func ("/php-finder/takes-no-other-file-for-php", takes_no_other_file_for_php);
  g_test_add_func ("/php-finder/reads-no-file-beyond-its-end", reads_no_file_beyond_its_end);
  g_test_add_func ("/php-finder/finds-the-frames-of-8-2", finds_the_frames_of_8_2);
  g_test_add_func ("/php-finder/finds-the-frames-of-8-4", finds_the_frames_of_8_4);
  g_test_add_func ("/php-finder/guesses-kinds-by-names-of-files", guesses_kinds_by_names_of_files);
  return g_test_run ();
}
