/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Live blocks by page against a plain table, and their bound. */
#include "daemon/capture/heap/live-blocks.h"

#define MIB (UINT64_C (1) << 20)

typedef struct
{
  SondeLiveBudget budget;
  SondeLiveBlocks blocks;
} Fixture;

static void
set_up (Fixture *self, gsize max_bytes)
{
  self->budget = (SondeLiveBudget){ .max_bytes = max_bytes };
  sonde_live_blocks_init (&self->blocks, &self->budget);
}

static void
tear_down (Fixture *self)
{
  sonde_live_blocks_clear (&self->blocks);
  g_assert_cmpuint (self->budget.used_bytes, ==, 0);
  g_assert_cmpuint (self->blocks.n_blocks, ==, 0);
}

static void
test_finds_what_was_put (void)
{
  Fixture self;

  set_up (&self, MIB);
  g_assert_cmpuint (sonde_live_blocks_find (&self.blocks, 0x1000), ==, 0);
  g_assert_cmpuint (sonde_live_blocks_take (&self.blocks, 0x1000), ==, 0);
  g_assert_true (sonde_live_blocks_put (&self.blocks, 0x1000, 24, 7));
  g_assert_cmpuint (sonde_live_blocks_find (&self.blocks, 0x1000), ==, 7);
  g_assert_cmpuint (sonde_live_blocks_find (&self.blocks, 0x1008), ==, 0);
  g_assert_cmpuint (sonde_live_blocks_take (&self.blocks, 0x1000), ==, 7);
  g_assert_cmpuint (sonde_live_blocks_take (&self.blocks, 0x1000), ==, 0);
  tear_down (&self);
}

/* Allocators other than glibc's have blocks that are nearer to each other than a place is large,
 * and tools make addresses that are no multiples of anything. */
static void
test_tells_neighbours_apart (void)
{
  static const uint64_t addresses[]
      = { 0, 1, 7, 8, 16, 24, 32, 0x1010, 0x1018, UINT64_MAX, UINT64_MAX - 7, UINT64_C (1) << 56 };
  Fixture self;

  set_up (&self, MIB);
  for (guint i = 0; i < G_N_ELEMENTS (addresses); i++)
    g_assert_true (sonde_live_blocks_put (&self.blocks, addresses[i], i * 1000, i + 1));
  g_assert_cmpuint (self.blocks.n_blocks, ==, G_N_ELEMENTS (addresses));
  for (guint i = 0; i < G_N_ELEMENTS (addresses); i++)
    g_assert_cmpuint (sonde_live_blocks_find (&self.blocks, addresses[i]), ==, i + 1);
  for (guint i = 0; i < G_N_ELEMENTS (addresses); i++)
    g_assert_cmpuint (sonde_live_blocks_take (&self.blocks, addresses[i]), ==, i + 1);
  tear_down (&self);
}

static void
test_keeps_the_largest_value (void)
{
  Fixture self;

  set_up (&self, MIB);
  g_assert_true (sonde_live_blocks_put (&self.blocks, 0x1018, 1, SONDE_LIVE_BLOCKS_MAX_VALUE));
  g_assert_true (sonde_live_blocks_put (&self.blocks, 0x1011, 1, SONDE_LIVE_BLOCKS_MAX_VALUE));
  g_assert_cmpuint (sonde_live_blocks_take (&self.blocks, 0x1018), ==, SONDE_LIVE_BLOCKS_MAX_VALUE);
  g_assert_cmpuint (sonde_live_blocks_take (&self.blocks, 0x1011), ==, SONDE_LIVE_BLOCKS_MAX_VALUE);
  tear_down (&self);
}

/* Against GLib's table, with addresses that meet each other often. */
static void
test_is_what_a_table_is (void)
{
  g_autoptr (GHashTable) oracle = g_hash_table_new (NULL, NULL);
  Fixture self;

  set_up (&self, 64 * MIB);
  for (guint i = 1; i < 400000; i++)
    {
      uint64_t address = (uint64_t) g_test_rand_int_range (1, 3000) * 8
                         + ((uint64_t) g_test_rand_int_range (0, 40) << 30)
                         + (g_test_rand_bit () && g_test_rand_bit () ? 3 : 0);
      gpointer known = g_hash_table_lookup (oracle, GSIZE_TO_POINTER (address));

      /* which changes nothing */
      sonde_live_blocks_expect_page (&self.blocks, address);
      sonde_live_blocks_expect_place (&self.blocks, address + i % 9000);
      g_assert_cmpuint (sonde_live_blocks_find (&self.blocks, address), ==,
                        GPOINTER_TO_SIZE (known));
      if (known != NULL)
        {
          g_assert_cmpuint (sonde_live_blocks_take (&self.blocks, address), ==,
                            GPOINTER_TO_SIZE (known));
          g_hash_table_remove (oracle, GSIZE_TO_POINTER (address));
        }
      else
        {
          uint64_t size_bytes = g_test_rand_bit () ? 100 : 5000;

          g_assert_true (sonde_live_blocks_put (&self.blocks, address, size_bytes, i));
          g_hash_table_insert (oracle, GSIZE_TO_POINTER (address), GSIZE_TO_POINTER (i));
        }
      g_assert_cmpuint (self.blocks.n_blocks, ==, g_hash_table_size (oracle));
    }
  tear_down (&self);
}

static void
remove_told (uint64_t value, gpointer user_data)
{
  g_assert_true (g_hash_table_remove (user_data, GSIZE_TO_POINTER (value)));
}

static void
test_tells_each_once (void)
{
  g_autoptr (GHashTable) values = g_hash_table_new (NULL, NULL);
  Fixture self;

  set_up (&self, MIB);
  for (uint64_t i = 1; i <= 1000; i++)
    {
      g_assert_true (sonde_live_blocks_put (&self.blocks, i * 48, i % 3 == 0 ? 9999 : 8, i));
      g_hash_table_add (values, GSIZE_TO_POINTER (i));
    }
  sonde_live_blocks_foreach (&self.blocks, remove_told, values);
  g_assert_cmpuint (g_hash_table_size (values), ==, 0);
  tear_down (&self);
}

static void
test_refuses_more_than_its_budget (void)
{
  const gsize max_bytes = 100000;
  Fixture self;
  guint n_put[2] = { 0, 0 };

  set_up (&self, max_bytes);
  for (uint64_t i = 1; i < 100000; i++)
    {
      n_put[0] += sonde_live_blocks_put (&self.blocks, i * 4096, 8, i);
      g_assert_cmpuint (self.budget.used_bytes, <=, max_bytes);
    }
  for (uint64_t i = 1; i < 100000; i++)
    {
      n_put[1] += sonde_live_blocks_put (&self.blocks, i * 4096 + 2048, 8192, i);
      g_assert_cmpuint (self.budget.used_bytes, <=, max_bytes);
    }
  g_assert_cmpuint (n_put[0], >, 50);
  g_assert_cmpuint (n_put[0], <, 100);
  g_assert_cmpuint (self.blocks.n_blocks, ==, n_put[0] + n_put[1]);
  /* and takes more when there is room again */
  for (uint64_t i = 1; i <= 20; i++)
    sonde_live_blocks_take (&self.blocks, i * 4096);
  g_assert_true (sonde_live_blocks_put (&self.blocks, 4096, 8, 1));
  tear_down (&self);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/live-blocks/finds-what-was-put", test_finds_what_was_put);
  g_test_add_func ("/live-blocks/tells-neighbours-apart", test_tells_neighbours_apart);
  g_test_add_func ("/live-blocks/keeps-the-largest-value", test_keeps_the_largest_value);
  g_test_add_func ("/live-blocks/is-what-a-table-is", test_is_what_a_table_is);
  g_test_add_func ("/live-blocks/tells-each-once", test_tells_each_once);
  g_test_add_func ("/live-blocks/refuses-more-than-its-budget", test_refuses_more_than_its_budget);
  return g_test_run ();
}
