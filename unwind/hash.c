/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A small open-addressing table of pointers, and the hashes for its keys. */
#include "unwind/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

enum
{
  MIN_SLOTS = 16,
};

static uint64_t
mix (uint64_t value)
{
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93u;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93u;
  return value ^ (value >> 32);
}

/* The kernel's 16 random bytes of this process: no file and no system call needed. */
static uint64_t
seed (void)
{
  const void *random = (const void *) getauxval (AT_RANDOM);
  uint64_t value = 0x9e3779b97f4a7c15u;

  if (random != NULL)
    memcpy (&value, random, sizeof value);
  return value;
}

uint64_t
sonde_hash_bytes (const void *bytes, size_t size)
{
  const uint8_t *at = bytes;
  uint64_t hash = seed () ^ size;
  uint64_t word;

  for (; size >= sizeof word; at += sizeof word, size -= sizeof word)
    {
      memcpy (&word, at, sizeof word);
      hash = mix (hash ^ word);
    }
  word = 0;
  memcpy (&word, at, size);
  return mix (hash ^ word);
}

void *
sonde_hash_find (const SondeHash *self, uint64_t hash, SondeHashEqual equal, const void *key)
{
  if (self->n_slots == 0)
    return NULL;

  for (size_t i = hash & (self->n_slots - 1); self->slots[i].item != NULL;
       i = (i + 1) & (self->n_slots - 1))
    {
      if (self->slots[i].hash == hash && equal (self->slots[i].item, key))
        return self->slots[i].item;
    }
  return NULL;
}

static void
place (SondeHashSlot *slots, size_t n_slots, uint64_t hash, void *item)
{
  size_t i = hash & (n_slots - 1);

  while (slots[i].item != NULL)
    i = (i + 1) & (n_slots - 1);
  slots[i] = (SondeHashSlot){ hash, item };
}

static int
grow (SondeHash *self)
{
  size_t n_slots = self->n_slots == 0 ? MIN_SLOTS : self->n_slots * 2;
  SondeHashSlot *slots = calloc (n_slots, sizeof *slots);

  if (slots == NULL)
    return -ENOMEM;

  for (size_t i = 0; i < self->n_slots; i++)
    if (self->slots[i].item != NULL)
      place (slots, n_slots, self->slots[i].hash, self->slots[i].item);
  free (self->slots);
  self->slots = slots;
  self->n_slots = n_slots;
  return 0;
}

int
sonde_hash_add (SondeHash *self, uint64_t hash, void *item)
{
  if (self->n_items >= self->n_slots / 4 * 3 && grow (self) < 0)
    return -ENOMEM;

  place (self->slots, self->n_slots, hash, item);
  self->n_items++;
  return 0;
}

/* Closes the hole at @hole: whatever behind it would be looked for from the hole or before moves
 * up. */
static void
shift_back (SondeHash *self, size_t hole)
{
  size_t mask = self->n_slots - 1;

  for (size_t i = (hole + 1) & mask; self->slots[i].item != NULL; i = (i + 1) & mask)
    {
      size_t home = self->slots[i].hash & mask;

      if (((i - home) & mask) >= ((i - hole) & mask))
        {
          self->slots[hole] = self->slots[i];
          hole = i;
        }
    }
  self->slots[hole] = (SondeHashSlot){ 0, NULL };
}

void
sonde_hash_remove (SondeHash *self, uint64_t hash, const void *item)
{
  if (self->n_slots == 0)
    return;

  for (size_t i = hash & (self->n_slots - 1); self->slots[i].item != NULL;
       i = (i + 1) & (self->n_slots - 1))
    {
      if (self->slots[i].item == item)
        {
          shift_back (self, i);
          self->n_items--;
          return;
        }
    }
}

void *
sonde_hash_next (const SondeHash *self, size_t *position)
{
  while (*position < self->n_slots)
    {
      void *item = self->slots[(*position)++].item;

      if (item != NULL)
        return item;
    }
  return NULL;
}

void
sonde_hash_clear (SondeHash *self)
{
  free (self->slots);
  *self = (SondeHash){ 0 };
}
