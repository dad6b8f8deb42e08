/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Whole stacks that were met before, by their bytes: most allocations of a program come again. */
#include "client/model/stack-cache.h"

#include <string.h>

#include "client/base/hash.h"

/* Then it begins again: 150,000 stacks 50 deep. */
#define MAX_BYTES     (64u << 20) /* of addresses */
#define MAX_STACKS    (1u << 20)

#define INITIAL_SLOTS 1024u /* a power of two */

__extension__ typedef unsigned __int128 Product;

typedef struct
{
  guint64 hash;
  guint process;
  guint32 generation; /* of the mappings */
  guint32 n_addrs;
  guint32 n_locations;
  guint64 first_addr; /* index of addrs */
  guint64 first_location;
} Entry;

struct SondeStackCache
{
  guint32 *slots;  /* number of an entry, + 1; 0: none. Linear probing */
  guint32 n_slots; /* a power of two, at least twice as many as entries */
  GArray *entries;
  GArray *addrs;     /* guint64, of all entries */
  GArray *locations; /* guint32, of all entries */
  guint64 secrets[2];
  guint64 hash; /* of the stack that was not there */
};

SondeStackCache *
sonde_stack_cache_new (void)
{
  SondeStackCache *self = g_new0 (SondeStackCache, 1);

  self->n_slots = INITIAL_SLOTS;
  self->slots = g_new0 (guint32, self->n_slots);
  /* With room from the beginning: a stack of no addresses is somewhere, too. */
  self->entries = g_array_sized_new (FALSE, FALSE, sizeof (Entry), INITIAL_SLOTS);
  self->addrs = g_array_sized_new (FALSE, FALSE, sizeof (guint64), INITIAL_SLOTS);
  self->locations = g_array_sized_new (FALSE, FALSE, sizeof (guint32), INITIAL_SLOTS);
  self->secrets[0] = sonde_hash_seed ();
  self->secrets[1] = sonde_hash_seed ();
  return self;
}

void
sonde_stack_cache_free (SondeStackCache *self)
{
  if (self == NULL)
    return;
  g_free (self->slots);
  g_array_unref (self->entries);
  g_array_unref (self->addrs);
  g_array_unref (self->locations);
  g_free (self);
}

/* Both halves of the product: each bit of both words reaches all of the result. */
static guint64
fold (guint64 a, guint64 b)
{
  Product product = (Product) a * b;

  return (guint64) product ^ (guint64) (product >> 64);
}

static guint64
word_at (const SondeFrameStack *stack, guint index)
{
  guint64 word;

  memcpy (&word, stack->addrs + index * sizeof word, sizeof word);
  return word;
}

/* Two words at a time, by numbers that nobody knows who makes a capture. */
static guint64
hash_stack (const SondeStackCache *self, guint process, const SondeFrameStack *stack)
{
  guint64 hash = sonde_hash (self->secrets[0], (guint64) process << 32 | stack->n_addrs);
  guint i = 0;

  for (; i + 1 < stack->n_addrs; i += 2)
    hash = fold (word_at (stack, i) ^ self->secrets[1], word_at (stack, i + 1) ^ hash);
  if (i < stack->n_addrs)
    hash = fold (word_at (stack, i) ^ self->secrets[1], hash);
  return sonde_hash (self->secrets[0], hash ^ stack->generation);
}

static gboolean
is_same (const SondeStackCache *self,
         const Entry *entry,
         guint process,
         const SondeFrameStack *stack)
{
  return entry->hash == self->hash && entry->process == process
         && entry->generation == stack->generation && entry->n_addrs == stack->n_addrs
         && memcmp (&g_array_index (self->addrs, guint64, entry->first_addr), stack->addrs,
                    stack->n_addrs * sizeof (guint64))
                == 0;
}

static void
tell (const SondeStackCache *self, guint32 number, SondeKnownStack *known)
{
  const Entry *entry = &g_array_index (self->entries, Entry, number);

  *known = (SondeKnownStack){
    .number = number,
    .locations = (const guint32 *) (void *) self->locations->data + entry->first_location,
    .n_locations = entry->n_locations,
  };
}

gboolean
sonde_stack_cache_lookup (SondeStackCache *self,
                          guint process,
                          const SondeFrameStack *stack,
                          SondeKnownStack *known)
{
  guint32 at;

  self->hash = hash_stack (self, process, stack);
  for (at = (guint32) self->hash & (self->n_slots - 1); self->slots[at] != 0;
       at = (at + 1) & (self->n_slots - 1))
    {
      guint32 number = self->slots[at] - 1;

      if (!is_same (self, &g_array_index (self->entries, Entry, number), process, stack))
        continue;
      tell (self, number, known);
      return TRUE;
    }
  return FALSE;
}

static void
set_slot (SondeStackCache *self, guint32 number)
{
  guint32 mask = self->n_slots - 1;
  guint32 at = (guint32) g_array_index (self->entries, Entry, number).hash & mask;

  while (self->slots[at] != 0)
    at = (at + 1) & mask;
  self->slots[at] = number + 1;
}

static void
grow (SondeStackCache *self)
{
  self->n_slots *= 2;
  g_free (self->slots);
  self->slots = g_new0 (guint32, self->n_slots);
  for (guint32 i = 0; i < self->entries->len; i++)
    set_slot (self, i);
}

static void
begin_again (SondeStackCache *self)
{
  memset (self->slots, 0, self->n_slots * sizeof *self->slots);
  g_array_set_size (self->entries, 0);
  g_array_set_size (self->addrs, 0);
  g_array_set_size (self->locations, 0);
}

void
sonde_stack_cache_add (SondeStackCache *self,
                       guint process,
                       const SondeFrameStack *stack,
                       const GArray *locations,
                       SondeKnownStack *known)
{
  Entry entry = { .hash = self->hash,
                  .process = process,
                  .generation = stack->generation,
                  .n_addrs = stack->n_addrs,
                  .n_locations = locations->len };

  if (self->entries->len >= MAX_STACKS
      || (self->addrs->len + stack->n_addrs) * sizeof (guint64) > MAX_BYTES)
    begin_again (self);
  entry.first_addr = self->addrs->len;
  entry.first_location = self->locations->len;
  g_array_append_vals (self->addrs, stack->addrs, stack->n_addrs);
  g_array_append_vals (self->locations, locations->data, locations->len);
  if (self->entries->len >= self->n_slots / 2)
    grow (self);
  g_array_append_val (self->entries, entry);
  set_slot (self, self->entries->len - 1);
  tell (self, self->entries->len - 1, known);
}
