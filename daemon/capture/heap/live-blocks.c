/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/heap/live-blocks.h"

#include <string.h>

#include "base/hash.h"

#define PAGE_BITS  12u
#define PLACE_BITS 5u
#define PAGE_BYTES (UINT64_C (1) << PAGE_BITS)

/* An entry: the value, and which of the addresses of its place it is of: multiples of 8. Others
 * have no place. */
#define OFFSET_BITS  2u
#define OFFSET_MASK  ((UINT64_C (1) << OFFSET_BITS) - 1)

#define PLACES_BYTES (SONDE_LIVE_BLOCKS_PLACES * sizeof (uint64_t))

/* Who looks for a page finds all of it but its places in the slot. */
typedef struct
{
  uint64_t number;  /* address >> PAGE_BITS */
  uint64_t *places; /* owned */
  guint n_used;
} PageSlot;

typedef struct
{
  uint64_t address;
  uint64_t value; /* above 0 */
} BlockSlot;

static uint64_t
hash_page (const void *slot, uint64_t seed)
{
  return sonde_hash (seed, ((const PageSlot *) slot)->number);
}

static bool
is_page (const void *slot, uint64_t hash, const void *number)
{
  return ((const PageSlot *) slot)->number == *(const uint64_t *) number;
}

static uint64_t
hash_block (const void *slot, uint64_t seed)
{
  return sonde_hash (seed, ((const BlockSlot *) slot)->address);
}

static bool
is_block (const void *slot, uint64_t hash, const void *address)
{
  return ((const BlockSlot *) slot)->address == *(const uint64_t *) address;
}

static const SondeTableKind pages = { .slot_bytes = sizeof (PageSlot),
                                      .used_at = offsetof (PageSlot, places),
                                      .n_first_slots = 8,
                                      .max_eighths = 6,
                                      .allocate = g_malloc0_n,
                                      .hash = hash_page,
                                      .has_key = is_page };
static const SondeTableKind others = { .slot_bytes = sizeof (BlockSlot),
                                       .used_at = offsetof (BlockSlot, value),
                                       .n_first_slots = 8,
                                       .max_eighths = 6,
                                       .allocate = g_malloc0_n,
                                       .hash = hash_block,
                                       .has_key = is_block };

void
sonde_live_blocks_init (SondeLiveBlocks *self, SondeLiveBudget *budget)
{
  memset (self, 0, sizeof *self);
  self->budget = budget;
  self->pages.seed = self->others.seed = sonde_hash_seed ();
}

static gsize
table_bytes (const SondeLiveBlocks *self)
{
  return self->pages.n_slots * sizeof (PageSlot) + self->others.n_slots * sizeof (BlockSlot);
}

void
sonde_live_blocks_clear (SondeLiveBlocks *self)
{
  const PageSlot *slot;
  size_t position = 0;

  self->budget->used_bytes -= table_bytes (self) + self->pages.n_used * PLACES_BYTES;
  while ((slot = sonde_table_next (&pages, &self->pages, &position)) != NULL)
    g_free (slot->places);
  sonde_table_clear (&self->pages);
  sonde_table_clear (&self->others);
  memset (self->n_others, 0, sizeof self->n_others);
  self->n_blocks = 0;
}

static PageSlot *__attribute__ ((noinline)) look_up_page (SondeLiveBlocks *self, uint64_t number)
{
  PageSlot *slots = self->pages.slots;
  PageSlot *slot
      = sonde_table_find (&pages, &self->pages, sonde_hash (self->pages.seed, number), &number);

  if (slot != NULL)
    self->recent[number % SONDE_LIVE_BLOCKS_N_RECENT] = (guint32) (slot - slots);
  return slot;
}

/* Until a page is added or removed. Where it was before, another one may be now, or none. */
static inline PageSlot *
find_page (SondeLiveBlocks *self, uint64_t number)
{
  guint32 recent = self->recent[number % SONDE_LIVE_BLOCKS_N_RECENT];
  PageSlot *slots = self->pages.slots;

  if (__builtin_expect (recent < self->pages.n_slots && slots[recent].number == number
                            && slots[recent].places != NULL,
                        true))
    return &slots[recent];
  return look_up_page (self, number);
}

static uint64_t *
place_of (const PageSlot *page, uint64_t address)
{
  return &page->places[(address % PAGE_BYTES) >> PLACE_BITS];
}

/* How an entry of @address begins. */
static uint64_t
offset_of (uint64_t address)
{
  return (address >> 3) & OFFSET_MASK;
}

static gboolean
has_place (uint64_t address)
{
  return address % 8 == 0;
}

static guint32 *
n_others_near (SondeLiveBlocks *self, uint64_t address)
{
  return &self->n_others[(address >> PAGE_BITS) % SONDE_LIVE_BLOCKS_N_RECENT];
}

static BlockSlot *
find_other (SondeLiveBlocks *self, uint64_t address)
{
  if (*n_others_near (self, address) == 0)
    return NULL;
  return sonde_table_find (&others, &self->others, sonde_hash (self->others.seed, address),
                           &address);
}

void
sonde_live_blocks_expect_page (const SondeLiveBlocks *self, uint64_t address)
{
  uint64_t number = address >> PAGE_BITS;

  if (self->pages.n_slots > 0)
    __builtin_prefetch (
        sonde_table_slot (&pages, &self->pages, sonde_hash (self->pages.seed, number)));
}

void
sonde_live_blocks_expect_place (SondeLiveBlocks *self, uint64_t address)
{
  const PageSlot *page = find_page (self, address >> PAGE_BITS);

  if (page != NULL)
    __builtin_prefetch (place_of (page, address), 1);
}

uint64_t
sonde_live_blocks_find (SondeLiveBlocks *self, uint64_t address)
{
  const PageSlot *page = has_place (address) ? find_page (self, address >> PAGE_BITS) : NULL;
  const uint64_t *place = page != NULL ? place_of (page, address) : NULL;
  const BlockSlot *other;

  if (place != NULL && *place != 0 && (*place & OFFSET_MASK) == offset_of (address))
    return *place >> OFFSET_BITS;
  other = find_other (self, address);
  return other != NULL ? other->value : 0;
}

static void
forget_page (SondeLiveBlocks *self, PageSlot *page)
{
  g_free (page->places);
  sonde_table_remove (&pages, &self->pages, page);
  self->budget->used_bytes -= PLACES_BYTES;
}

uint64_t
sonde_live_blocks_take (SondeLiveBlocks *self, uint64_t address)
{
  PageSlot *page = has_place (address) ? find_page (self, address >> PAGE_BITS) : NULL;
  uint64_t *place = page != NULL ? place_of (page, address) : NULL;
  uint64_t value = 0;
  BlockSlot *other;

  if (place != NULL && *place != 0 && (*place & OFFSET_MASK) == offset_of (address))
    {
      value = *place >> OFFSET_BITS;
      *place = 0;
      if (--page->n_used == 0)
        forget_page (self, page);
    }
  else if ((other = find_other (self, address)) != NULL)
    {
      value = other->value;
      sonde_table_remove (&others, &self->others, other);
      --*n_others_near (self, address);
    }
  self->n_blocks -= value != 0;
  return value;
}

/* Whether @bytes more fit, and the table if it has to double. */
static gboolean
has_room (const SondeLiveBlocks *self, const SondeTable *table, gsize slot_bytes, gsize bytes)
{
  const SondeLiveBudget *budget = self->budget;

  if (table->n_used >= table->n_slots / 8 * 6)
    bytes += MAX (table->n_slots, 8) * slot_bytes;
  return bytes <= budget->max_bytes && budget->used_bytes <= budget->max_bytes - bytes;
}

static PageSlot *
add_page (SondeLiveBlocks *self, uint64_t number)
{
  gsize before_bytes = table_bytes (self);
  PageSlot slot = { .number = number };

  if (!has_room (self, &self->pages, sizeof slot, PLACES_BYTES))
    return NULL;
  slot.places = g_malloc0 (PLACES_BYTES);
  sonde_table_add (&pages, &self->pages, &slot);
  self->budget->used_bytes += PLACES_BYTES + table_bytes (self) - before_bytes;
  return find_page (self, number);
}

gboolean
sonde_live_blocks_put (SondeLiveBlocks *self, uint64_t address, uint64_t size_bytes, uint64_t value)
{
  BlockSlot slot = { address, value };
  gsize before_bytes;

  g_assert (value > 0 && value <= SONDE_LIVE_BLOCKS_MAX_VALUE);
  if (has_place (address) && size_bytes < PAGE_BYTES)
    {
      PageSlot *page = find_page (self, address >> PAGE_BITS);
      uint64_t *place;

      if (page == NULL)
        page = add_page (self, address >> PAGE_BITS);
      if (page == NULL)
        return FALSE;
      place = place_of (page, address);
      if (*place == 0)
        {
          *place = value << OFFSET_BITS | offset_of (address);
          page->n_used++;
          self->n_blocks++;
          return TRUE;
        }
    }

  before_bytes = table_bytes (self);
  if (!has_room (self, &self->others, sizeof slot, 0))
    return FALSE;
  sonde_table_add (&others, &self->others, &slot);
  ++*n_others_near (self, address);
  self->budget->used_bytes += table_bytes (self) - before_bytes;
  self->n_blocks++;
  return TRUE;
}

gboolean
sonde_live_blocks_put_new (SondeLiveBlocks *self,
                           uint64_t address,
                           uint64_t size_bytes,
                           uint64_t value)
{
  PageSlot *page = has_place (address) && size_bytes < PAGE_BYTES
                       ? find_page (self, address >> PAGE_BITS)
                       : NULL;
  uint64_t *place = page != NULL ? place_of (page, address) : NULL;

  if (place == NULL || *place != 0 || *n_others_near (self, address) != 0)
    return FALSE;
  *place = value << OFFSET_BITS | offset_of (address);
  page->n_used++;
  self->n_blocks++;
  return TRUE;
}

void
sonde_live_blocks_foreach (const SondeLiveBlocks *self, SondeLiveBlockFunc func, gpointer user_data)
{
  const PageSlot *slot;
  const BlockSlot *other;
  size_t position = 0;

  while ((slot = sonde_table_next (&pages, &self->pages, &position)) != NULL)
    for (guint i = 0; i < SONDE_LIVE_BLOCKS_PLACES; i++)
      if (slot->places[i] != 0)
        func (slot->places[i] >> OFFSET_BITS, user_data);
  for (position = 0; (other = sonde_table_next (&others, &self->others, &position)) != NULL;)
    func (other->value, user_data);
}
