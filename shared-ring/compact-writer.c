/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/compact-writer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define MIN_SLOTS 512u
#define GROWTH    4u

/* Odd numbers of no pattern: the first ones of splitmix64. */
#define N_FACTORS 32
static const uint64_t factors[N_FACTORS]
    = { UINT64_C (0xE220A8397B1DCDAF), UINT64_C (0x6E789E6AA1B965F5), UINT64_C (0x06C45D188009454F),
        UINT64_C (0xF88BB8A8724C81ED), UINT64_C (0x1B39896A51A8749B), UINT64_C (0x53CB9F0C747EA2EB),
        UINT64_C (0x2C829ABE1F4532E1), UINT64_C (0xC584133AC916AB3D), UINT64_C (0x3EE5789041C98AC3),
        UINT64_C (0xF3B8488C368CB0A7), UINT64_C (0x657EECDD3CB13D09), UINT64_C (0xC2D326E0055BDEF7),
        UINT64_C (0x8621A03FE0BBDB7B), UINT64_C (0x8E1F7555983AA92F), UINT64_C (0xB54E0F1600CC4D19),
        UINT64_C (0x84BB3F97971D80AB), UINT64_C (0x7D29825C75521255), UINT64_C (0xC3CF17102B7F7F87),
        UINT64_C (0x3466E9A083914F65), UINT64_C (0xD81A8D2B5A4485AD), UINT64_C (0xDB01602B100B9ED7),
        UINT64_C (0xA9038A921825F10D), UINT64_C (0xEDF5F1D90DCA2F6B), UINT64_C (0x54496AD67BD2634D),
        UINT64_C (0xDD7C01D4F5407269), UINT64_C (0x935E82F1DB4C4F7B), UINT64_C (0x69B82EBC92233301),
        UINT64_C (0x40D29EB57DE1D511), UINT64_C (0xA2F09DABB45C6317), UINT64_C (0xEE521D7A0F4D3873),
        UINT64_C (0xF16952EE72F3454F), UINT64_C (0x377D35DEA8E40225) };
#define BLOCK_FACTOR UINT64_C (0x9E3779B97F4A7C15)

void
sonde_compact_writer_init (SondeCompactWriter *self, size_t ring_bytes)
{
  *self = (SondeCompactWriter){ .max_stacks = (uint32_t) SONDE_HEAP_MAX_STACKS (ring_bytes),
                                .max_words = (uint32_t) SONDE_HEAP_MAX_STACK_WORDS (ring_bytes),
                                .era = 1,
                                .last_ns = -1 };
}

void
sonde_compact_writer_clear (SondeCompactWriter *self)
{
  int saved_errno = errno;

  if (self->slots != NULL)
    munmap (self->slots, self->n_slots * sizeof *self->slots);
  self->slots = NULL;
  self->n_slots = 0;
  errno = saved_errno;
}

/* --- stacks --- */

/* A sum in which each place has a factor of its own, counted from the outermost frame: no step
 * waits for another, as they would in a chain of multiplications. */
static uint64_t
hash_stack (const uint64_t *addrs, size_t depth)
{
  const uint64_t *addr = addrs + depth;
  uint64_t block_factor = 1;
  uint64_t hash = depth;

  while (addr > addrs)
    {
      size_t n = (size_t) (addr - addrs) < N_FACTORS ? (size_t) (addr - addrs) : N_FACTORS;
      uint64_t sum = 0;

      for (size_t i = 0; i < n; i++)
        sum += *--addr * factors[i];
      hash += sum * block_factor;
      block_factor *= BLOCK_FACTOR;
    }

  /* The finalizer of splitmix64. */
  hash = (hash ^ hash >> 30) * UINT64_C (0xBF58476D1CE4E5B9);
  hash = (hash ^ hash >> 27) * UINT64_C (0x94D049BB133111EB);
  return hash ^ hash >> 31;
}

/* The slot that has the stack, or the free one where it belongs; some are always free. */
static SondeStackSlot *
find_slot (SondeStackSlot *slots, uint32_t n_slots, uint32_t era, uint64_t hash)
{
  uint32_t i = (uint32_t) hash & (n_slots - 1);

  while (slots[i].era == era && slots[i].hash != hash)
    i = (i + 1) & (n_slots - 1);
  return &slots[i];
}

/* What stands in slots of another era is as good as nothing. */
static void
begin_era (SondeCompactWriter *self)
{
  self->n_stacks = 0;
  self->n_words = 0;
  self->era++;
  if (self->era == 0)
    {
      self->era = 1;
      for (uint32_t i = 0; i < self->n_slots; i++)
        self->slots[i].era = 0;
    }
}

static bool
grow (SondeCompactWriter *self)
{
  uint32_t n_slots = self->slots != NULL ? self->n_slots * GROWTH : MIN_SLOTS;
  int saved_errno = errno;
  SondeStackSlot *slots = mmap (NULL, n_slots * sizeof *slots, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  errno = saved_errno;
  if (slots == MAP_FAILED)
    return false;

  for (uint32_t i = 0; i < self->n_slots; i++)
    if (self->slots[i].era == self->era)
      *find_slot (slots, n_slots, self->era, self->slots[i].hash) = self->slots[i];
  sonde_compact_writer_clear (self);
  self->slots = slots;
  self->n_slots = n_slots;
  return true;
}

/* A new number for a stack that has none. Without memory it is remembered no longer than by the
 * reader: until the next one is 1, too. */
static uint32_t
define (SondeCompactWriter *self, uint64_t hash, size_t depth)
{
  if (self->n_stacks == self->max_stacks || self->max_words - self->n_words < depth + 1)
    begin_era (self);
  if ((uint64_t) self->n_stacks * 10 >= (uint64_t) self->n_slots * 6 && !grow (self))
    begin_era (self);

  self->n_stacks++;
  self->n_words += (uint32_t) depth + 1;
  if (self->slots == NULL)
    begin_era (self);
  else
    *find_slot (self->slots, self->n_slots, self->era, hash)
        = (SondeStackSlot){ hash, self->n_stacks, self->era };
  return self->slots != NULL ? self->n_stacks : 1;
}

/* --- records --- */

/* Tells the time, and the thread, if the next record cannot. Returns: where that goes */
static uint8_t *
put_clock (SondeCompactWriter *self, uint8_t *at, const SondeCompactEvent *event, uint32_t *dt_ns)
{
  int64_t time_ns = event->time_ns > self->last_ns ? event->time_ns : self->last_ns;
  SondeHeapClock clock = { .tid = event->tid };

  *dt_ns = 0;
  if (self->last_ns >= 0 && time_ns - self->last_ns <= UINT32_MAX && event->tid == self->tid)
    *dt_ns = (uint32_t) (time_ns - self->last_ns);
  else
    {
      clock.time = (uint64_t) time_ns << SONDE_HEAP_KIND_BITS | SONDE_HEAP_CLOCK;
      memcpy (at, &clock, sizeof clock);
      at += sizeof clock;
      self->tid = event->tid;
    }
  self->last_ns = time_ns;
  return at;
}

size_t
sonde_compact_writer_free (SondeCompactWriter *self, void *place, const SondeCompactEvent *event)
{
  SondeHeapFree record = { .address = event->address | SONDE_HEAP_FREE };
  uint8_t *at = put_clock (self, place, event, &record.dt_ns);

  memcpy (at, &record, sizeof record);
  return (size_t) (at + sizeof record - (uint8_t *) place);
}

/* The addresses lie where they do if clock and stack stand before them; else they are moved. */
static uint8_t *
put_stack (uint8_t *at, uint32_t id, const uint8_t *addrs, size_t depth)
{
  const SondeHeapStack stack = { .kind = SONDE_HEAP_STACK, .depth = (uint16_t) depth, .id = id };

  memmove (at + sizeof stack, addrs, depth * sizeof (uint64_t));
  memcpy (at, &stack, sizeof stack);
  return at + sizeof stack + depth * sizeof (uint64_t);
}

size_t
sonde_compact_writer_block (SondeCompactWriter *self,
                            void *place,
                            const SondeCompactEvent *event,
                            size_t depth)
{
  const uint8_t *addrs = (const uint8_t *) place + SONDE_COMPACT_ADDRS_AT;
  SondeHeapBlock record
      = { .address = event->address | SONDE_HEAP_BLOCK, .size_bytes = event->size_bytes };
  const SondeStackSlot *slot = NULL;
  bool is_known = true;
  uint64_t hash = 0;
  uint8_t *at;

  if (depth > 0)
    {
      hash = hash_stack ((const uint64_t *) (const void *) addrs, depth);
      if (self->slots != NULL)
        slot = find_slot (self->slots, self->n_slots, self->era, hash);
      is_known = slot != NULL && slot->era == self->era;
      record.stack = is_known ? slot->id : define (self, hash, depth);
    }
  /* A clock may stand where the addresses do not: in front of them. */
  at = put_clock (self, place, event, &record.dt_ns);
  if (!is_known)
    at = put_stack (at, record.stack, addrs, depth);
  memcpy (at, &record, sizeof record);
  return (size_t) (at + sizeof record - (uint8_t *) place);
}
