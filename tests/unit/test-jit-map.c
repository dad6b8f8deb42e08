/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Code that a program made: which there was at an address at a time. */
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "symbols/jit-map.h"

#define ROOM (1u << 20)

static void
add (SondeJitMap *map, uint64_t begin, uint64_t size, const char *name, int64_t since_ns)
{
  g_assert_cmpint (sonde_jit_map_add (map, begin, size, name, strlen (name), since_ns), ==, 0);
}

static void
assert_name (SondeJitMap *map, uint64_t address, int64_t time_ns, const char *name)
{
  SondeJitCode code = { 0 };
  bool is_found = sonde_jit_map_lookup (map, address, time_ns, &code);

  g_assert_cmpstr (is_found ? code.name : NULL, ==, name);
  if (is_found)
    {
      g_assert_cmpuint (code.begin, <=, address);
      g_assert_cmpuint (code.end, >, address);
    }
}

static void
test_refused (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);

  g_assert_cmpint (sonde_jit_map_add (map, 0x1000, 0, "none", 4, 0), ==, -EINVAL);
  g_assert_cmpint (sonde_jit_map_add (map, 0x1000, 8, "", 0, 0), ==, -EINVAL);
  g_assert_cmpint (sonde_jit_map_add (map, 0x1000, 8, "a\0b", 3, 0), ==, -EINVAL);
  g_assert_cmpint (sonde_jit_map_add (map, UINT64_MAX, 8, "wraps", 5, 0), ==, -EINVAL);
  g_assert_cmpint (sonde_jit_map_move (map, 0x1000, UINT64_MAX, 8, 0), ==, -EINVAL);
  g_assert_cmpint (sonde_jit_map_move (map, 0x1000, 0x2000, 0, 0), ==, -EINVAL);
  g_assert_cmpuint (sonde_jit_map_n_entries (map), ==, 0);
  assert_name (map, 0x1000, 1, NULL);
  sonde_jit_map_free (map);
}

static void
test_cut (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);

  add (map, 0x1000, 0x100, "old", 0);
  add (map, 0x1040, 0x10, "new", 0);
  add (map, 0x1000, 0x10, "newest", 0);
  assert_name (map, 0x0fff, 0, NULL);
  assert_name (map, 0x1000, 0, "newest");
  assert_name (map, 0x1010, 0, "old");
  assert_name (map, 0x103f, 0, "old");
  assert_name (map, 0x1040, 0, "new");
  assert_name (map, 0x1050, 0, "old");
  assert_name (map, 0x10ff, 0, "old");
  assert_name (map, 0x1100, 0, NULL);
  add (map, 0x0f00, 0x180, "over the first ones", 0);
  assert_name (map, 0x107f, 0, "over the first ones");
  assert_name (map, 0x1080, 0, "old");
  g_assert_cmpuint (sonde_jit_map_n_entries (map), ==, 2);
  sonde_jit_map_free (map);
}

static void
test_time (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);

  add (map, 0x1000, 0x100, "first", 10);
  add (map, 0x1000, 0x80, "second", 20);
  add (map, 0x1000, 0x80, "third", 30);
  assert_name (map, 0x1000, 9, NULL);
  assert_name (map, 0x1000, 10, "first");
  assert_name (map, 0x1000, 19, "first");
  assert_name (map, 0x1000, 20, "second");
  assert_name (map, 0x1080, 29, "first");
  assert_name (map, 0x1000, 40, "third");
  sonde_jit_map_free (map);
}

static void
test_move (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);

  add (map, 0x1000, 0x20, "f", 10);
  g_assert_cmpint (sonde_jit_map_move (map, 0x1000, 0x4000, 0x20, 20), ==, 0);
  add (map, 0x1000, 0x20, "g", 30);
  g_assert_cmpint (sonde_jit_map_move (map, 0x9000, 0x5000, 0x20, 30), ==, 0); /* of nothing */
  assert_name (map, 0x4000, 19, NULL);
  assert_name (map, 0x401f, 20, "f");
  assert_name (map, 0x1000, 30, "g");
  assert_name (map, 0x4000, 30, "f");
  assert_name (map, 0x5000, 30, NULL);
  sonde_jit_map_free (map);
}

static void
test_mark (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);
  SondeJitCode code;

  add (map, 0x1000, 0x100, "f", 0);
  g_assert_true (sonde_jit_map_lookup (map, 0x1000, 0, &code));
  g_assert_cmpuint (*code.mark, ==, 0);
  *code.mark = 42;
  add (map, 0x1040, 0x10, "g", 1);
  g_assert_true (sonde_jit_map_lookup (map, 0x1080, 1, &code));
  g_assert_cmpuint (*code.mark, ==, 42); /* what is left of f */
  g_assert_true (sonde_jit_map_lookup (map, 0x1040, 1, &code));
  g_assert_cmpuint (*code.mark, ==, 0);
  sonde_jit_map_free (map);
}

/* What a table of pages says that remembers everything. */
static void
test_like_a_table (void)
{
  enum
  {
    N_PLACES = 512,
    N_ROUNDS = 20000
  };
  SondeJitMap *map = sonde_jit_map_new (64 * ROOM);
  g_autoptr (GRand) rand = g_rand_new_with_seed (4711);
  guint names[N_PLACES] = { 0 };

  for (guint i = 1; i <= N_ROUNDS; i++)
    {
      guint begin = (guint) g_rand_int_range (rand, 0, N_PLACES);
      guint end = (guint) g_rand_int_range (rand, (gint32) begin, N_PLACES) + 1;
      guint asked = (guint) g_rand_int_range (rand, 0, N_PLACES);
      g_autofree char *name = g_strdup_printf ("%u", i);
      g_autofree char *expected = NULL;

      add (map, begin, end - begin, name, i);
      for (guint at = begin; at < end; at++)
        names[at] = i;
      expected = names[asked] != 0 ? g_strdup_printf ("%u", names[asked]) : NULL;
      assert_name (map, asked, i, expected);
    }
  g_assert_cmpuint (sonde_jit_map_n_entries (map), <=, N_PLACES);
  sonde_jit_map_free (map);
}

static void
test_full (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);
  uint64_t n = 0;
  int r;

  while ((r = sonde_jit_map_add (map, 0x1000 + n * 16, 16, "name", 4, 0)) == 0)
    {
      n++;
      assert_name (map, 0x1000, 0, "name");
    }
  g_assert_cmpint (r, ==, -ENOSPC);
  g_assert_cmpuint (n, >, ROOM / 100);
  g_assert_cmpuint (sonde_jit_map_bytes (map), <=, ROOM);
  assert_name (map, 0x1000 + (n - 1) * 16, 0, "name");
  sonde_jit_map_free (map);
}

static void
test_waiting_full (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);
  int64_t n = 0;
  int r;

  while ((r = sonde_jit_map_add (map, 0x1000, 16, "name", 4, n + 1)) == 0)
    n++;
  g_assert_cmpint (r, ==, -ENOSPC);
  g_assert_cmpuint (sonde_jit_map_bytes (map), <=, ROOM);
  g_assert_cmpuint (sonde_jit_map_n_entries (map), ==, (size_t) n);
  assert_name (map, 0x1000, n, "name");
  g_assert_cmpuint (sonde_jit_map_n_entries (map), ==, 1);
  sonde_jit_map_free (map);
}

/* Names of code that is there no more make room, however often memory is used again. */
static void
test_reuse_for_ever (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);
  g_autofree char *last = NULL;

  add (map, 0x100000, 16, "it stays", 0);
  for (int64_t i = 1; i < 100000; i++)
    {
      g_free (last);
      last = g_strdup_printf ("a function with a number, which is %06d", (int) i);
      add (map, 0x1000 + (uint64_t) (i % 64) * 32, 32, last, i);
      assert_name (map, 0x1000 + (uint64_t) (i % 64) * 32, i, last);
    }
  assert_name (map, 0x10000f, 100000, "it stays");
  g_assert_cmpuint (sonde_jit_map_n_entries (map), ==, 65);
  sonde_jit_map_free (map);
}

static void
test_long_name (void)
{
  SondeJitMap *map = sonde_jit_map_new (ROOM);
  g_autofree char *name = g_strnfill (SONDE_JIT_MAP_MAX_NAME + 100, 'x');
  SondeJitCode code;

  add (map, 0x1000, 16, name, 0);
  g_assert_true (sonde_jit_map_lookup (map, 0x1000, 0, &code));
  g_assert_cmpuint (strlen (code.name), ==, SONDE_JIT_MAP_MAX_NAME);
  sonde_jit_map_free (map);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/jit-map/refuses-what-cannot-be-code", test_refused);
  g_test_add_func ("/jit-map/refuses-more-than-its-memory", test_full);
  g_test_add_func ("/jit-map/refuses-more-than-can-wait", test_waiting_full);
  g_test_add_func ("/jit-map/cuts-long-names", test_long_name);
  g_test_add_func ("/jit-map/new-code-cuts-what-it-overlaps", test_cut);
  g_test_add_func ("/jit-map/names-what-was-there-at-the-time", test_time);
  g_test_add_func ("/jit-map/follows-code-that-is-moved", test_move);
  g_test_add_func ("/jit-map/keeps-marks-of-what-is-left", test_mark);
  g_test_add_func ("/jit-map/knows-what-a-table-knows", test_like_a_table);
  g_test_add_func ("/jit-map/drops-names-of-code-that-is-gone", test_reuse_for_ever);
  return g_test_run ();
}
