/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of code that a program made, from text and from jitdump, while it goes on writing. */
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "symbols/jit-file.h"

#define ROOM      (4u << 20)
#define MAX_BYTES (1u << 20)
#define ALL       SIZE_MAX

typedef struct
{
  char *path;
  int fd; /* the program's */
  SondeJitMap *map;
  SondeJitFile *file;
  GByteArray *dump;
} Fixture;

static void
open_file (Fixture *fixture, SondeJitFileKind kind)
{
  sonde_jit_file_free (fixture->file);
  fixture->file = sonde_jit_file_new (open (fixture->path, O_RDONLY | O_CLOEXEC), kind, MAX_BYTES);
}

static void
put (Fixture *fixture, const void *bytes, size_t size)
{
  g_assert_cmpint (write (fixture->fd, bytes, size), ==, (ssize_t) size);
}

static void
put_text (Fixture *fixture, const char *text)
{
  put (fixture, text, strlen (text));
}

static int
read_at (Fixture *fixture, int64_t now_ns)
{
  return sonde_jit_file_read (fixture->file, fixture->map, ALL, now_ns);
}

static void
assert_name (Fixture *fixture, uint64_t address, int64_t time_ns, const char *name)
{
  SondeJitCode code = { 0 };
  bool is_found = sonde_jit_map_lookup (fixture->map, address, time_ns, &code);

  g_assert_cmpstr (is_found ? code.name : NULL, ==, name);
}

static void
append (GByteArray *bytes, uint64_t value, unsigned n_bytes)
{
  g_byte_array_append (bytes, (const guint8 *) &value, n_bytes); /* of a little-endian machine */
}

static void
setup (Fixture *fixture, gconstpointer data)
{
  fixture->fd = g_file_open_tmp ("jit-XXXXXX", &fixture->path, NULL);
  g_assert_cmpint (fixture->fd, >=, 0);
  fixture->map = sonde_jit_map_new (ROOM);
  open_file (fixture, SONDE_JIT_FILE_MAP);
  fixture->dump = g_byte_array_new ();
  append (fixture->dump, 0x4A695444, 4);
  append (fixture->dump, 1, 4);
  append (fixture->dump, 40, 4);
  append (fixture->dump, 62, 4);
  append (fixture->dump, 0, 4);
  append (fixture->dump, 42, 4);
  append (fixture->dump, 0, 8);
  append (fixture->dump, 0, 8);
}

static void
teardown (Fixture *fixture, gconstpointer data)
{
  g_unlink (fixture->path);
  g_free (fixture->path);
  close (fixture->fd);
  sonde_jit_file_free (fixture->file);
  sonde_jit_map_free (fixture->map);
  g_byte_array_unref (fixture->dump);
}

/* --- text --- */

static void
test_text (Fixture *fixture, gconstpointer data)
{
  put_text (fixture, "1000 20 LazyCompile:*f /a.js:1:2\n0x2000 10 g\n3000 1 h\n");
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  g_assert_cmpuint (sonde_jit_map_n_entries (fixture->map), ==, 3);
  assert_name (fixture, 0x0fff, 1, NULL);
  assert_name (fixture, 0x1000, 1, "LazyCompile:*f /a.js:1:2");
  assert_name (fixture, 0x101f, 1, "LazyCompile:*f /a.js:1:2");
  assert_name (fixture, 0x1020, 1, NULL);
  assert_name (fixture, 0x2005, 1, "g");
  assert_name (fixture, 0x3000, 1, "h");
}

static void
test_bad_lines (Fixture *fixture, gconstpointer data)
{
  put_text (fixture, "\n \nzz 10 a\n1000\n1000 \n1000 0 none\n1000 10\n1000 10 \n"
                     "11111111111111111 10 long\nffffffffffffffff 10 wraps\n"
                     "2000 10 good\n3000 10 not whole");
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  g_assert_cmpuint (sonde_jit_map_n_entries (fixture->map), ==, 1);
  assert_name (fixture, 0x2000, 1, "good");
  assert_name (fixture, 0x1000, 1, NULL);
  assert_name (fixture, 0x3000, 1, NULL);
  put_text (fixture, " yet\n");
  g_assert_cmpint (read_at (fixture, 200), ==, 0);
  assert_name (fixture, 0x3000, 200, "not whole yet");
}

/* Samples from before the file was read last have the name that was there. */
static void
test_times_of_text (Fixture *fixture, gconstpointer data)
{
  put_text (fixture, "1000 20 first\n");
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  g_assert_cmpint (read_at (fixture, 150), ==, 0);
  put_text (fixture, "1000 20 second\n");
  g_assert_cmpint (read_at (fixture, 200), ==, 0);
  assert_name (fixture, 0x1000, 149, "first");
  assert_name (fixture, 0x1000, 150, "second");
}

static void
test_long_line (Fixture *fixture, gconstpointer data)
{
  g_autofree char *line = g_strnfill (200000, 'x');

  put_text (fixture, "1000 10 ");
  put_text (fixture, line);
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  put_text (fixture, " 2000 10 no\n3000 10 yes\n");
  g_assert_cmpint (read_at (fixture, 200), ==, 0);
  g_assert_cmpuint (sonde_jit_map_n_entries (fixture->map), ==, 1);
  assert_name (fixture, 0x3000, 200, "yes");
}

static void
test_pieces (Fixture *fixture, gconstpointer data)
{
  guint n_readings = 1;
  int r;

  for (guint i = 0; i < 10000; i++)
    {
      g_autofree char *line = g_strdup_printf ("%x 10 function_%u\n", 0x10000 + i * 16, i);

      put_text (fixture, line);
    }
  while ((r = sonde_jit_file_read (fixture->file, fixture->map, 65536, 100)) == 1)
    n_readings++;
  g_assert_cmpint (r, ==, 0);
  g_assert_cmpuint (n_readings, >, 3);
  g_assert_cmpuint (sonde_jit_map_n_entries (fixture->map), ==, 10000);
  assert_name (fixture, 0x10000 + 9999 * 16, 1, "function_9999");
}

/* In place, to fewer bytes, to as many and more. */
static void
test_anew (Fixture *fixture, gconstpointer data)
{
  put_text (fixture, "1000 10 first\n2000 10 second\n");
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  g_assert_cmpint (ftruncate (fixture->fd, 0), ==, 0);
  lseek (fixture->fd, 0, SEEK_SET);
  put_text (fixture, "1000 10 third\n");
  g_assert_cmpint (read_at (fixture, 200), ==, 0);
  assert_name (fixture, 0x1000, 200, "third");
  lseek (fixture->fd, 0, SEEK_SET);
  put_text (fixture, "1000 10 fourth\n3000 10 fifth\n4000 10 sixth\n");
  g_assert_cmpint (read_at (fixture, 300), ==, 0);
  assert_name (fixture, 0x1000, 300, "fourth");
  assert_name (fixture, 0x2000, 300, "second");
  assert_name (fixture, 0x3000, 300, "fifth");
}

static void
test_removed (Fixture *fixture, gconstpointer data)
{
  put_text (fixture, "1000 10 first\n");
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  g_assert_false (sonde_jit_file_is_removed (fixture->file));
  g_assert_cmpint (g_unlink (fixture->path), ==, 0);
  put_text (fixture, "2000 10 last\n");
  g_assert_cmpint (read_at (fixture, 200), ==, 0);
  g_assert_true (sonde_jit_file_is_removed (fixture->file));
  assert_name (fixture, 0x2000, 200, "last");
}

static void
test_grows_for_ever (Fixture *fixture, gconstpointer data)
{
  g_autofree char *lines = g_strnfill (65536, '\n');
  int r = 0;
  guint n;

  for (n = 0; r == 0; n++)
    {
      put (fixture, lines, 65536);
      r = read_at (fixture, n);
    }
  g_assert_cmpint (r, ==, -EFBIG);
  g_assert_cmpuint (n, <=, MAX_BYTES / 65536);
  g_assert_cmpuint (n, >, MAX_BYTES / 65536 / 2);
}

static void
test_full (Fixture *fixture, gconstpointer data)
{
  sonde_jit_map_free (fixture->map);
  fixture->map = sonde_jit_map_new (4096);
  for (guint i = 0; i < 1000; i++)
    {
      g_autofree char *line = g_strdup_printf ("%x 10 function_%u\n", 0x10000 + i * 16, i);

      put_text (fixture, line);
    }
  g_assert_cmpint (read_at (fixture, 100), ==, -ENOSPC);
  assert_name (fixture, 0x10000, 1, "function_0");
}

/* --- jitdump --- */

static void
add_record (GByteArray *dump, uint64_t kind, uint64_t size, uint64_t time_ns)
{
  append (dump, kind, 4);
  append (dump, size, 4);
  append (dump, time_ns, 8);
}

static void
add_load (GByteArray *dump,
          uint64_t address,
          uint64_t size,
          const char *name,
          size_t code_bytes,
          uint64_t time_ns)
{
  g_autofree guint8 *code = g_malloc0 (code_bytes);

  add_record (dump, 0, 16 + 40 + strlen (name) + 1 + code_bytes, time_ns);
  append (dump, 42, 4);
  append (dump, 42, 4);
  append (dump, address, 8);
  append (dump, address, 8);
  append (dump, size, 8);
  append (dump, 7, 8);
  g_byte_array_append (dump, (const guint8 *) name, (guint) strlen (name) + 1);
  g_byte_array_append (dump, code, (guint) code_bytes);
}

static void
add_move (GByteArray *dump, uint64_t from, uint64_t to, uint64_t size, uint64_t time_ns)
{
  add_record (dump, 1, 16 + 48, time_ns);
  append (dump, 42, 4);
  append (dump, 42, 4);
  append (dump, to, 8);
  append (dump, from, 8);
  append (dump, to, 8);
  append (dump, size, 8);
  append (dump, 7, 8);
}

static void
put_dump (Fixture *fixture, size_t size)
{
  open_file (fixture, SONDE_JIT_FILE_DUMP);
  put (fixture, fixture->dump->data, size);
}

static void
test_dump (Fixture *fixture, gconstpointer data)
{
  add_load (fixture->dump, 0x1000, 0x20, "Foo.bar(I)V", 4, 10);
  add_record (fixture->dump, 2, 24, 11); /* of another kind */
  append (fixture->dump, 0, 8);
  add_move (fixture->dump, 0x1000, 0x4000, 0x20, 20);
  add_load (fixture->dump, 0x1000, 0x20, "large", 300000, 30);
  add_load (fixture->dump, 0x1000, 0x20, "later than now", 4, 500);
  put_dump (fixture, fixture->dump->len);
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  assert_name (fixture, 0x1010, 9, NULL);
  assert_name (fixture, 0x1010, 10, "Foo.bar(I)V");
  assert_name (fixture, 0x4010, 19, NULL);
  assert_name (fixture, 0x401f, 20, "Foo.bar(I)V");
  assert_name (fixture, 0x1010, 30, "large");
  assert_name (fixture, 0x1010, 99, "large");
  assert_name (fixture, 0x1010, 100, "later than now");
}

/* Its times are of another clock: they say nothing. */
static void
test_foreign_times (Fixture *fixture, gconstpointer data)
{
  fixture->dump->data[32] = 1;
  add_load (fixture->dump, 0x1000, 0x20, "f", 4, 99999);
  put_dump (fixture, fixture->dump->len);
  g_assert_cmpint (read_at (fixture, 100), ==, 0);
  assert_name (fixture, 0x1010, 1, "f");
}

static void
test_cut_dump (Fixture *fixture, gconstpointer data)
{
  size_t first;

  add_load (fixture->dump, 0x1000, 0x20, "first", 4, 1);
  first = fixture->dump->len;
  add_load (fixture->dump, 0x2000, 0x20, "second", 4, 2);
  open_file (fixture, SONDE_JIT_FILE_DUMP);
  for (size_t size = 0; size < fixture->dump->len; size++)
    {
      g_assert_cmpint (read_at (fixture, (int64_t) size), ==, 0);
      assert_name (fixture, 0x1000, 1000, size >= first ? "first" : NULL);
      assert_name (fixture, 0x2000, 1000, NULL);
      put (fixture, fixture->dump->data + size, 1);
    }
  g_assert_cmpint (read_at (fixture, 1000), ==, 0);
  assert_name (fixture, 0x2000, 1000, "second");
}

static void
test_false_dump (Fixture *fixture, gconstpointer data)
{
  add_load (fixture->dump, 0x1000, 0x20, "name", 4, 1);
  fixture->dump->data[0] ^= 1;
  put_dump (fixture, fixture->dump->len);
  g_assert_cmpint (read_at (fixture, 1), ==, -ENOEXEC);
}

static void
test_short_header (Fixture *fixture, gconstpointer data)
{
  add_load (fixture->dump, 0x1000, 0x20, "name", 4, 1);
  fixture->dump->data[8] = 39;
  put_dump (fixture, fixture->dump->len);
  g_assert_cmpint (read_at (fixture, 1), ==, -ENOEXEC);
}

static void
test_short_record (Fixture *fixture, gconstpointer data)
{
  add_load (fixture->dump, 0x1000, 0x20, "name", 4, 1);
  fixture->dump->data[44] = 15;
  put_dump (fixture, fixture->dump->len);
  g_assert_cmpint (read_at (fixture, 1), ==, -EBADMSG);
  g_assert_cmpuint (sonde_jit_map_n_entries (fixture->map), ==, 0);
}

static void
test_open_name (Fixture *fixture, gconstpointer data)
{
  add_record (fixture->dump, 0, 16 + 40 + 4, 1);
  for (guint i = 0; i < 5; i++)
    append (fixture->dump, 0x1000, 8);
  append (fixture->dump, 0x61616161, 4);
  put_dump (fixture, fixture->dump->len);
  g_assert_cmpint (read_at (fixture, 1), ==, 0);
  g_assert_cmpuint (sonde_jit_map_n_entries (fixture->map), ==, 0);
}

#define ADD(name, test) g_test_add ("/jit-file/" name, Fixture, NULL, setup, test, teardown)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("refuses-what-is-no-dump", test_false_dump);
  ADD ("refuses-a-header-that-is-too-short", test_short_header);
  ADD ("refuses-a-record-shorter-than-its-header", test_short_record);
  ADD ("refuses-more-bytes-than-may-be", test_grows_for_ever);
  ADD ("refuses-more-names-than-have-room", test_full);
  ADD ("passes-over-a-name-without-an-end", test_open_name);
  ADD ("passes-over-bad-lines", test_bad_lines);
  ADD ("passes-over-a-line-that-is-too-long", test_long_line);
  ADD ("takes-whole-records-as-they-come", test_cut_dump);
  ADD ("takes-names-of-lines", test_text);
  ADD ("takes-a-large-file-in-pieces", test_pieces);
  ADD ("keeps-old-names-for-old-times", test_times_of_text);
  ADD ("takes-times-of-a-dump", test_dump);
  ADD ("takes-no-times-of-another-clock", test_foreign_times);
  ADD ("begins-anew-when-a-file-is-written-anew", test_anew);
  ADD ("reads-on-when-a-file-is-removed", test_removed);
  return g_test_run ();
}
