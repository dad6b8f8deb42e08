/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/stack-cache.h"

#include <string.h>

#include "base/hash.h"
#include "base/table.h"
#include "client/base/large-table.h"
#include "client/base/limits.h"
#include "protocol/frame.h"

static guint64
address_at (const SondeFrameStack *stack, guint index)
{
  guint64 address;

  memcpy (&address, stack->addrs + index * sizeof address, sizeof address);
  return address;
}

/* --- the last stack of a process --- */

#define CONTEXT_MAX ((guint64) -4095) /* PERF_CONTEXT_MAX: markers lie at or above it */

typedef struct
{
  guint64 address;
  guint32 number; /* of the location; meaningless for a marker */
  gboolean in_kernel;
} Located;

struct SondeStackMemo
{
  GArray *last; /* Located, leaf first */
  GArray *next; /* Located: the one at hand */
  guint32 generation;
};

SondeStackMemo *
sonde_stack_memo_new (void)
{
  SondeStackMemo *self = g_new0 (SondeStackMemo, 1);

  self->last = g_array_new (FALSE, FALSE, sizeof (Located));
  self->next = g_array_new (FALSE, FALSE, sizeof (Located));
  return self;
}

void
sonde_stack_memo_free (SondeStackMemo *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->last);
  g_array_unref (self->next);
  g_free (self);
}

void
sonde_stack_memo_forget (SondeStackMemo *self)
{
  g_array_set_size (self->last, 0);
}

/* How many of the outermost addresses are those of the last stack. */
static guint
count_common (const SondeStackMemo *self, const SondeFrameStack *stack)
{
  const Located *last = (const Located *) (void *) self->last->data;
  guint n_last = self->last->len;
  guint n_max = MIN (n_last, stack->n_addrs);
  guint n = 0;

  if (self->generation != stack->generation)
    return 0;
  while (n < n_max && last[n_last - 1 - n].address == address_at (stack, stack->n_addrs - 1 - n))
    n++;
  return n;
}

static void
locate_next (SondeStackMemo *self,
             const SondeFrameStack *stack,
             SondeLocateFunc func,
             gpointer user_data)
{
  guint first_common = stack->n_addrs - count_common (self, stack);
  guint last_shift = self->last->len - stack->n_addrs; /* wraps, and back again */
  const Located *last = (const Located *) (void *) self->last->data;
  Located *next;
  gboolean in_kernel = FALSE;
  gboolean is_caller = stack->begins_in_caller;

  g_array_set_size (self->next, stack->n_addrs);
  next = (Located *) (void *) self->next->data;
  for (guint i = 0; i < stack->n_addrs; i++)
    {
      guint64 address = address_at (stack, i);

      /* behind the same callee and in the same half all that follows is the same, too */
      if (i > first_common && last[i + last_shift].in_kernel == in_kernel)
        {
          memcpy (&next[i], &last[i + last_shift], (stack->n_addrs - i) * sizeof *next);
          break;
        }
      next[i] = (Located){ .address = address, .in_kernel = in_kernel };
      if (address >= CONTEXT_MAX)
        {
          in_kernel = address == SONDE_CONTEXT_KERNEL;
          is_caller = FALSE;
          continue;
        }
      next[i].number = func (address, in_kernel, is_caller, user_data);
      is_caller = TRUE;
    }
}

void
sonde_stack_memo_locate (SondeStackMemo *self,
                         const SondeFrameStack *stack,
                         SondeLocateFunc func,
                         gpointer user_data,
                         GArray *numbers)
{
  GArray *last = self->last;
  const Located *located;
  guint32 *out;
  guint n = 0;

  locate_next (self, stack, func, user_data);
  self->last = self->next;
  self->next = last;
  self->generation = stack->generation;

  located = (const Located *) (void *) self->last->data;
  g_array_set_size (numbers, stack->n_addrs);
  out = (guint32 *) (void *) numbers->data;
  for (guint i = stack->n_addrs; i > 0; i--)
    if (located[i - 1].address < CONTEXT_MAX)
      out[n++] = located[i - 1].number;
  g_array_set_size (numbers, n);
  if (stack->n_addrs <= SONDE_MAX_REMEMBERED)
    return;
  /* No honest program has stacks that long: its memory goes, too. */
  g_array_unref (self->last);
  self->last = g_array_new (FALSE, FALSE, sizeof (Located));
}

/* --- whole stacks --- */

/* Then it begins again: 150,000 stacks 50 deep. */
#define MAX_BYTES  (64u << 20) /* of addresses */
#define MAX_STACKS (1u << 20)

__extension__ typedef unsigned __int128 Product;

typedef struct
{
  guint process;
  guint32 generation; /* of the mappings */
  guint32 n_addrs;
  guint32 n_locations;
  guint64 first_addr; /* index of addrs */
  guint64 first_location;
} StackEntry;

typedef struct
{
  guint32 hash;
  guint32 number; /* of an entry, + 1 */
} StackSlot;

struct SondeStackCache
{
  SondeTable table;
  GArray *entries;
  GArray *addrs;     /* guint64, of all entries */
  GArray *locations; /* guint32, of all entries */
  guint64 secret;
  guint32 hash;  /* of the stack that was not there */
  guint32 round; /* counts up from 1 with each beginning */
};

/* What is looked for. */
typedef struct
{
  const SondeStackCache *cache;
  guint process;
  const SondeFrameStack *stack;
} Wanted;

static guint64
hash_slot (const void *slot, guint64 seed)
{
  return ((const StackSlot *) slot)->hash;
}

static bool
has_stack (const void *slot, guint64 hash, const void *key)
{
  const StackSlot *found = slot;
  const Wanted *wanted = key;
  const SondeFrameStack *stack = wanted->stack;
  const StackEntry *entry;

  if (found->hash != hash)
    return false;
  entry = &g_array_index (wanted->cache->entries, StackEntry, found->number - 1);
  return entry->process == wanted->process && entry->generation == stack->generation
         && entry->n_addrs == stack->n_addrs
         && memcmp (&g_array_index (wanted->cache->addrs, guint64, entry->first_addr), stack->addrs,
                    stack->n_addrs * sizeof (guint64))
                == 0;
}

static const SondeTableKind numbers = { .slot_bytes = sizeof (StackSlot),
                                        .used_at = 0,
                                        .n_first_slots = 1024,
                                        .max_eighths = 4,
                                        .allocate = sonde_large_table_allocate,
                                        .hash = hash_slot,
                                        .has_key = has_stack };

SondeStackCache *
sonde_stack_cache_new (void)
{
  SondeStackCache *self = g_new0 (SondeStackCache, 1);

  /* With room from the beginning: a stack of no addresses is somewhere, too. */
  self->entries = g_array_sized_new (FALSE, FALSE, sizeof (StackEntry), numbers.n_first_slots);
  self->addrs = g_array_sized_new (FALSE, FALSE, sizeof (guint64), numbers.n_first_slots);
  self->locations = g_array_sized_new (FALSE, FALSE, sizeof (guint32), numbers.n_first_slots);
  self->table.seed = sonde_hash_seed ();
  self->secret = sonde_hash (self->table.seed, 1);
  self->round = 1;
  return self;
}

void
sonde_stack_cache_free (SondeStackCache *self)
{
  if (self == NULL)
    return;
  sonde_table_clear (&self->table);
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

/* Two words at a time, by numbers that nobody knows who makes a capture. */
static guint64
hash_stack (const SondeStackCache *self, guint process, const SondeFrameStack *stack)
{
  guint64 hash = sonde_hash (self->table.seed, (guint64) process << 32 | stack->n_addrs);
  guint i = 0;

  for (; i + 1 < stack->n_addrs; i += 2)
    hash = fold (address_at (stack, i) ^ self->secret, address_at (stack, i + 1) ^ hash);
  if (i < stack->n_addrs)
    hash = fold (address_at (stack, i) ^ self->secret, hash);
  return sonde_hash (self->table.seed, hash ^ stack->generation);
}

static void
tell (const SondeStackCache *self, guint32 number, SondeCachedStack *known)
{
  const StackEntry *entry = &g_array_index (self->entries, StackEntry, number);

  *known = (SondeCachedStack){
    .number = number,
    .locations = (const guint32 *) (void *) self->locations->data + entry->first_location,
    .n_locations = entry->n_locations,
  };
}

gboolean
sonde_stack_cache_lookup (SondeStackCache *self,
                          guint process,
                          const SondeFrameStack *stack,
                          SondeCachedStack *known)
{
  const Wanted wanted = { self, process, stack };
  const StackSlot *slot;

  self->hash = (guint32) hash_stack (self, process, stack);
  slot = sonde_table_find (&numbers, &self->table, self->hash, &wanted);
  if (slot == NULL)
    return FALSE;
  tell (self, slot->number - 1, known);
  return TRUE;
}

gboolean
sonde_stack_cache_recall (const SondeStackCache *self,
                          guint process,
                          guint32 generation,
                          const SondeStackPlace *place,
                          SondeCachedStack *known)
{
  if (place->round != self->round || place->process != process || place->generation != generation)
    return FALSE;
  tell (self, place->number, known);
  return TRUE;
}

SondeStackPlace
sonde_stack_cache_place (const SondeStackCache *self,
                         guint process,
                         guint32 generation,
                         const SondeCachedStack *known)
{
  return (SondeStackPlace){ self->round, generation, process, known->number };
}

void
sonde_stack_cache_add (SondeStackCache *self,
                       guint process,
                       const SondeFrameStack *stack,
                       const GArray *locations,
                       SondeCachedStack *known)
{
  StackEntry entry = { .process = process,
                       .generation = stack->generation,
                       .n_addrs = stack->n_addrs,
                       .n_locations = locations->len };

  if (self->entries->len >= MAX_STACKS
      || (self->addrs->len + stack->n_addrs) * sizeof (guint64) > MAX_BYTES)
    {
      sonde_table_clear (&self->table);
      g_array_set_size (self->entries, 0);
      g_array_set_size (self->addrs, 0);
      g_array_set_size (self->locations, 0);
      self->round++;
    }
  entry.first_addr = self->addrs->len;
  entry.first_location = self->locations->len;
  g_array_append_vals (self->addrs, stack->addrs, stack->n_addrs);
  g_array_append_vals (self->locations, locations->data, locations->len);
  g_array_append_val (self->entries, entry);
  sonde_table_add (&numbers, &self->table, &(StackSlot){ self->hash, self->entries->len });
  tell (self, self->entries->len - 1, known);
}
