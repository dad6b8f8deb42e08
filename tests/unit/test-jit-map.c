/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names of code that a program made, from text and from jitdump. */
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/jit-map.h"

typedef struct
{
  SondeJitMap *map;
  GByteArray *dump;
} Fixture;

static int
make_file (const void *bytes, size_t size)
{
  int fd = memfd_create ("jit", MFD_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, bytes, size), ==, (ssize_t) size);
  return fd;
}

static SondeJitMap *
read_text (const char *text)
{
  SondeJitMap *map = sonde_jit_map_new ();
  int fd = make_file (text, strlen (text));

  g_assert_cmpint (sonde_jit_map_read_text (map, fd), ==, 0);
  close (fd);
  return map;
}

static void
assert_name (SondeJitMap *map, uint64_t address, const char *name)
{
  SondeSymbol symbol = { 0 };
  bool is_found = sonde_jit_map_lookup (map, address, &symbol);

  g_assert_cmpstr (is_found ? symbol.name : NULL, ==, name);
  if (is_found)
    {
      g_assert_cmpuint (symbol.begin, <=, address);
      g_assert_cmpuint (symbol.end, >, address);
    }
}

static void
test_text (void)
{
  SondeJitMap *map = read_text ("1000 20 LazyCompile:*f /a.js:1:2\n0x2000 10 g\n3000 1 h\n");

  g_assert_cmpuint (sonde_jit_map_n_entries (map), ==, 3);
  assert_name (map, 0x0fff, NULL);
  assert_name (map, 0x1000, "LazyCompile:*f /a.js:1:2");
  assert_name (map, 0x101f, "LazyCompile:*f /a.js:1:2");
  assert_name (map, 0x1020, NULL);
  assert_name (map, 0x2005, "g");
  assert_name (map, 0x3000, "h");
  sonde_jit_map_free (map);
}

static void
test_bad_lines (void)
{
  SondeJitMap *map = read_text ("\n \nzz 10 a\n1000\n1000 \n1000 0 none\n1000 10\n1000 10 \n"
                                "11111111111111111 10 long\nffffffffffffffff 10 wraps\n"
                                "2000 10 good\n3000 10 not whole");

  g_assert_cmpuint (sonde_jit_map_n_entries (map), ==, 1);
  assert_name (map, 0x2000, "good");
  assert_name (map, 0x1000, NULL);
  assert_name (map, 0x3000, NULL);
  sonde_jit_map_free (map);
}

static void
test_reuse (void)
{
  SondeJitMap *map = read_text ("1000 100 old\n1040 10 new\n1000 10 newest\n");

  assert_name (map, 0x1000, "newest");
  assert_name (map, 0x1020, "old");
  assert_name (map, 0x1045, "new");
  assert_name (map, 0x1050, "old");
  sonde_jit_map_free (map);
}

static void
append (GByteArray *bytes, uint64_t value, unsigned n_bytes)
{
  g_byte_array_append (bytes, (const guint8 *) &value, n_bytes); /* of a little-endian machine */
}

static void
setup (Fixture *fixture, gconstpointer data)
{
  fixture->map = sonde_jit_map_new ();
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
  sonde_jit_map_free (fixture->map);
  g_byte_array_unref (fixture->dump);
}

static void
add_load (GByteArray *dump, uint64_t address, uint64_t size, const char *name)
{
  append (dump, 0, 4);
  append (dump, 16 + 40 + strlen (name) + 1 + 4, 4);
  append (dump, 1, 8);
  append (dump, 42, 4);
  append (dump, 42, 4);
  append (dump, address, 8);
  append (dump, address, 8);
  append (dump, size, 8);
  append (dump, 7, 8);
  g_byte_array_append (dump, (const guint8 *) name, (guint) strlen (name) + 1);
  append (dump, 0xc3909090, 4);
}

static void
add_move (GByteArray *dump, uint64_t from, uint64_t to, uint64_t size)
{
  append (dump, 1, 4);
  append (dump, 16 + 48, 4);
  append (dump, 1, 8);
  append (dump, 42, 4);
  append (dump, 42, 4);
  append (dump, to, 8);
  append (dump, from, 8);
  append (dump, to, 8);
  append (dump, size, 8);
  append (dump, 7, 8);
}

static int
read_dump (Fixture *fixture, size_t size)
{
  int fd = make_file (fixture->dump->data, size);
  int r = sonde_jit_map_read_dump (fixture->map, fd);

  close (fd);
  return r;
}

static void
test_dump (Fixture *fixture, gconstpointer data)
{
  add_load (fixture->dump, 0x1000, 0x20, "Foo.bar(I)V");
  append (fixture->dump, 3, 4); /* a record of another kind */
  append (fixture->dump, 24, 4);
  append (fixture->dump, 0, 8);
  append (fixture->dump, 0, 8);
  add_move (fixture->dump, 0x1000, 0x4000, 0x20);
  add_move (fixture->dump, 0x9000, 0x5000, 0x20); /* of nothing */
  g_assert_cmpint (read_dump (fixture, fixture->dump->len), ==, 0);
  assert_name (fixture->map, 0x1010, "Foo.bar(I)V");
  assert_name (fixture->map, 0x401f, "Foo.bar(I)V");
  assert_name (fixture->map, 0x5000, NULL);
}

static void
test_cut_dump (Fixture *fixture, gconstpointer data)
{
  add_load (fixture->dump, 0x1000, 0x20, "first");
  add_load (fixture->dump, 0x2000, 0x20, "second");
  for (size_t size = 0; size < fixture->dump->len; size++)
    g_assert_cmpint (read_dump (fixture, size), ==, size < 40 ? -ENOEXEC : 0);
  assert_name (fixture->map, 0x1000, "first");
  assert_name (fixture->map, 0x2000, NULL);
}

static void
test_false_dump (Fixture *fixture, gconstpointer data)
{
  add_load (fixture->dump, 0x1000, 0x20, "name");
  fixture->dump->data[0] ^= 1;
  g_assert_cmpint (read_dump (fixture, fixture->dump->len), ==, -ENOEXEC);
  fixture->dump->data[0] ^= 1;
  fixture->dump->data[8] = 39; /* the header's own size */
  g_assert_cmpint (read_dump (fixture, fixture->dump->len), ==, -ENOEXEC);
  fixture->dump->data[8] = 40;
  fixture->dump->data[44] = 15; /* a record shorter than its header */
  g_assert_cmpint (read_dump (fixture, fixture->dump->len), ==, 0);
  g_assert_cmpuint (sonde_jit_map_n_entries (fixture->map), ==, 0);
}

#define ADD(name, test) g_test_add ("/jit-map/" name, Fixture, NULL, setup, test, teardown)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("refuses-what-is-no-dump", test_false_dump);
  ADD ("takes-the-whole-records-of-a-cut-dump", test_cut_dump);
  ADD ("follows-code-that-is-moved", test_dump);
  g_test_add_func ("/jit-map/passes-over-bad-lines", test_bad_lines);
  g_test_add_func ("/jit-map/names-addresses-within-code", test_text);
  g_test_add_func ("/jit-map/takes-the-newest-of-several", test_reuse);
  return g_test_run ();
}
