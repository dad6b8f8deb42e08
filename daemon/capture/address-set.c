/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distinct addresses that samples showed, to be named at the end. */
#include "daemon/capture/address-set.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY   4096 /* slots, a power of two */
#define CACHE_LINE_BYTES 64   /* a slot is half of one, so that it never needs two */

_Static_assert(CACHE_LINE_BYTES % sizeof (SondeAddressHit) == 0, "slots share lines evenly");

struct SondeAddressSet
{
  SondeAddressHit *slots; /* module NULL: empty */
  guint capacity;         /* a power of two, at most three quarters full while it can grow */
  guint n_hits;
  guint64 n_left_out;
  gboolean sorted;
  GHashTable *name_indices; /* module id → index + 1 */
  GPtrArray *names;
};

static SondeAddressHit *
make_slots (guint capacity)
{
  return g_aligned_alloc0 (capacity, sizeof (SondeAddressHit), CACHE_LINE_BYTES);
}

SondeAddressSet *
sonde_address_set_new (void)
{
  SondeAddressSet *self = g_new0 (SondeAddressSet, 1);

  self->capacity = FIRST_CAPACITY;
  self->slots = make_slots (self->capacity);
  self->name_indices = g_hash_table_new (NULL, NULL);
  self->names = g_ptr_array_new_with_free_func (g_free);

  return self;
}

void
sonde_address_set_free (SondeAddressSet *self)
{
  if (self == NULL)
    return;

  for (guint i = 0; i < self->capacity; i++)
    sonde_module_unref (self->slots[i].module);
  g_aligned_free (self->slots);
  g_hash_table_unref (self->name_indices);
  g_ptr_array_unref (self->names);
  g_free (self);
}

static guint
first_slot_of (guint capacity, int32_t pid, uint64_t address)
{
  uint64_t hash = (address ^ ((uint64_t) (uint32_t) pid << 40)) * UINT64_C (0x9E3779B97F4A7C15);

  return (guint) (hash >> 40) & (capacity - 1);
}

static guint
slot_of (const SondeAddressHit *slots, guint capacity, int32_t pid, uint64_t address)
{
  guint at = first_slot_of (capacity, pid, address);

  while (slots[at].module != NULL && (slots[at].address != address || slots[at].pid != pid))
    at = (at + 1) & (capacity - 1);

  return at;
}

void
sonde_address_set_expect (const SondeAddressSet *self,
                          int32_t pid,
                          const uint64_t *addrs,
                          size_t n_addrs)
{
  for (size_t i = 0; i < n_addrs; i++)
    __builtin_prefetch (&self->slots[first_slot_of (self->capacity, pid, addrs[i])]);
}

gboolean
sonde_address_set_contains (const SondeAddressSet *self, int32_t pid, uint64_t address)
{
  return !self->sorted
         && self->slots[slot_of (self->slots, self->capacity, pid, address)].module != NULL;
}

static void
grow (SondeAddressSet *self)
{
  guint capacity = self->capacity * 2;
  SondeAddressHit *slots = make_slots (capacity);

  for (guint i = 0; i < self->capacity; i++)
    {
      const SondeAddressHit *hit = &self->slots[i];

      if (hit->module != NULL)
        slots[slot_of (slots, capacity, hit->pid, hit->address)] = *hit;
    }
  g_aligned_free (self->slots);
  self->slots = slots;
  self->capacity = capacity;
}

static uint32_t
name_index (SondeAddressSet *self, const SondeModule *module, const char *path)
{
  gpointer key = GUINT_TO_POINTER (sonde_module_id (module));
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->name_indices, key));

  if (index == 0)
    {
      const char *slash = strrchr (path, '/');

      g_ptr_array_add (self->names, g_strdup (slash != NULL ? slash + 1 : path));
      index = self->names->len;
      g_hash_table_insert (self->name_indices, key, GUINT_TO_POINTER (index));
    }

  return index - 1;
}

gboolean
sonde_address_set_add (SondeAddressSet *self,
                       int32_t pid,
                       uint64_t address,
                       SondeModule *module,
                       uint64_t vaddr,
                       gboolean is_return,
                       const char *path)
{
  SondeAddressHit *slot;

  g_assert (!self->sorted);
  if (sonde_address_set_contains (self, pid, address))
    return TRUE;
  if (self->n_hits >= SONDE_ADDRESS_SET_MAX)
    {
      self->n_left_out++;
      return FALSE;
    }
  if (self->n_hits >= self->capacity / 4 * 3)
    grow (self);

  slot = &self->slots[slot_of (self->slots, self->capacity, pid, address)];
  slot->address = address;
  slot->vaddr = vaddr;
  slot->module = sonde_module_ref (module);
  slot->pid = pid;
  slot->name = name_index (self, module, path) & 0x7fffffffu;
  slot->is_return = is_return ? 1 : 0;
  self->n_hits++;

  return TRUE;
}

guint
sonde_address_set_size (const SondeAddressSet *self)
{
  return self->n_hits;
}

guint64
sonde_address_set_n_left_out (const SondeAddressSet *self)
{
  return self->n_left_out;
}

const char *
sonde_address_set_module_name (const SondeAddressSet *self, const SondeAddressHit *hit)
{
  return g_ptr_array_index (self->names, hit->name);
}

static int
compare_hits (const void *first, const void *second)
{
  const SondeAddressHit *a = first;
  const SondeAddressHit *b = second;
  uint32_t a_id = sonde_module_id (a->module);
  uint32_t b_id = sonde_module_id (b->module);

  if (a_id != b_id)
    return a_id < b_id ? -1 : 1;
  if (a->vaddr - a->is_return != b->vaddr - b->is_return)
    return a->vaddr - a->is_return < b->vaddr - b->is_return ? -1 : 1;
  return (a->pid > b->pid) - (a->pid < b->pid);
}

const SondeAddressHit *
sonde_address_set_sort (SondeAddressSet *self, guint *n_hits)
{
  guint n = 0;

  for (guint i = 0; i < self->capacity; i++)
    if (self->slots[i].module != NULL)
      {
        SondeAddressHit hit = self->slots[i];

        self->slots[i].module = NULL;
        self->slots[n++] = hit;
      }
  qsort (self->slots, n, sizeof *self->slots, compare_hits);
  self->sorted = TRUE;
  *n_hits = n;

  return self->slots;
}
