/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table against GLib's, with hashes that collide. */
#include "base/table.h"

#include <glib.h>

#include "base/hash.h"

#define N_KEYS  300
#define N_STEPS 200000

typedef struct
{
  uint64_t key;
  uint64_t value; /* 0: free */
} Slot;

static bool has_room = true;

static void *
allocate (size_t n, size_t bytes)
{
  return has_room ? calloc (n, bytes) : NULL;
}

static bool
has_key (const void *slot, uint64_t hash, const void *key)
{
  return ((const Slot *) slot)->key == *(const uint64_t *) key;
}

static uint64_t
hash_well (const void *slot, uint64_t seed)
{
  return sonde_hash (seed, ((const Slot *) slot)->key);
}

/* Runs that meet, and go over the end of any array. */
static uint64_t
hash_badly (const void *slot, uint64_t seed)
{
  return UINT64_MAX - ((const Slot *) slot)->key % 7;
}

static const SondeTableKind kinds[] = {
  { sizeof (Slot), offsetof (Slot, value), 8, 6, allocate, hash_well, has_key },
  { sizeof (Slot), offsetof (Slot, value), 16, 4, allocate, hash_badly, has_key },
};

static Slot *
find (const SondeTableKind *kind, const SondeTable *table, uint64_t key)
{
  return sonde_table_find (kind, table, kind->hash (&(Slot){ .key = key }, table->seed), &key);
}

static void
assert_holds_all (const SondeTableKind *kind, const SondeTable *table, GHashTable *all)
{
  gsize position = 0;
  guint n_found = 0;
  const Slot *slot;

  while ((slot = sonde_table_next (kind, table, &position)) != NULL)
    {
      g_assert_true (g_hash_table_lookup (all, GSIZE_TO_POINTER (slot->key))
                     == GSIZE_TO_POINTER (slot->value));
      g_assert_true (find (kind, table, slot->key) == slot);
      n_found++;
    }
  g_assert_cmpuint (n_found, ==, g_hash_table_size (all));
  g_assert_cmpuint (n_found, ==, table->n_used);
  g_assert_cmpuint (table->n_used, <=, table->n_slots / 8 * kind->max_eighths);
}

static void
test_agrees_with_another_table (gconstpointer data)
{
  const SondeTableKind *kind = data;
  g_autoptr (GHashTable) all = g_hash_table_new (NULL, NULL);
  SondeTable table = { .seed = sonde_hash_seed () };

  g_assert_null (find (kind, &table, 1));
  for (guint i = 0; i < N_STEPS; i++)
    {
      uint64_t key = (uint64_t) g_test_rand_int_range (0, N_KEYS);
      Slot *slot = find (kind, &table, key);

      g_assert_cmpint (slot != NULL, ==, g_hash_table_contains (all, GSIZE_TO_POINTER (key)));
      if (slot == NULL)
        {
          g_assert_cmpint (sonde_table_add (kind, &table, &(Slot){ key, i + 1 }), ==, 0);
          g_hash_table_insert (all, GSIZE_TO_POINTER (key), GSIZE_TO_POINTER (i + 1));
        }
      else
        {
          sonde_table_remove (kind, &table, slot);
          g_hash_table_remove (all, GSIZE_TO_POINTER (key));
        }
      if (i % 1000 == 0)
        assert_holds_all (kind, &table, all);
    }
  assert_holds_all (kind, &table, all);
  sonde_table_clear (&table);
  g_assert_null (find (kind, &table, 1));
}

static void
test_stays_as_it_was_without_memory (void)
{
  const SondeTableKind *kind = &kinds[0];
  SondeTable table = { 0 };
  uint64_t key = 0;

  has_room = false;
  g_assert_cmpint (sonde_table_add (kind, &table, &(Slot){ 1, 1 }), ==, -ENOMEM);
  g_assert_null (find (kind, &table, 1));
  has_room = true;
  while (!sonde_table_is_full (kind, &table) || table.n_slots == 0)
    {
      key++;
      g_assert_cmpint (sonde_table_add (kind, &table, &(Slot){ key, key }), ==, 0);
    }
  has_room = false;
  g_assert_cmpint (sonde_table_add (kind, &table, &(Slot){ key + 1, 1 }), ==, -ENOMEM);
  has_room = true;
  g_assert_null (find (kind, &table, key + 1));
  for (; key > 0; key--)
    g_assert_cmpuint (find (kind, &table, key)->value, ==, key);
  sonde_table_clear (&table);
}

static void
test_hashes_all_bytes (void)
{
  guint8 bytes[20] = { 0 };
  uint64_t zeros = sonde_hash_bytes (bytes, sizeof bytes);

  g_assert_cmpuint (sonde_hash_bytes (bytes, sizeof bytes), ==, zeros);
  for (guint size = 0; size < sizeof bytes; size++)
    g_assert_cmpuint (sonde_hash_bytes (bytes, size), !=, zeros);
  for (guint i = 0; i < sizeof bytes; i++)
    {
      bytes[i] = 1;
      g_assert_cmpuint (sonde_hash_bytes (bytes, sizeof bytes), !=, zeros);
      bytes[i] = 0;
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/table/agrees-with-another-table", &kinds[0],
                        test_agrees_with_another_table);
  g_test_add_data_func ("/table/agrees-with-another-table-when-hashes-collide", &kinds[1],
                        test_agrees_with_another_table);
  g_test_add_func ("/table/stays-as-it-was-without-memory", test_stays_as_it_was_without_memory);
  g_test_add_func ("/table/hashes-all-bytes", test_hashes_all_bytes);
  return g_test_run ();
}
