/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The distinct addresses that samples showed, to be named at the end. */
#include "daemon/capture/address-set.h"

#include <string.h>

#define FIRST_CAPACITY   4096       /* slots, a power of two */
#define CACHE_LINE_BYTES 64         /* slots never lie in two */
#define NO_SITE          UINT32_MAX /* an empty slot */

_Static_assert(CACHE_LINE_BYTES % sizeof (SondeHit) == 0, "slots share lines evenly");

struct SondeAddressSet
{
  const SondeProcessTable *processes;
  SondeHit *slots;
  guint
      capacity; /* a power of two, at most half full: so the first cache line nearly always tells */
  guint n_slots; /* in use */
  guint n_archived;
  guint64 n_left_out;
  gboolean ended;
  guint n_groups; /* once ended */
  SondeSiteTable *sites;
  SondeHitArchive *archive;
};

static SondeHit *
make_slots (guint capacity)
{
  SondeHit *slots = g_aligned_alloc (capacity, sizeof (SondeHit), CACHE_LINE_BYTES);

  memset (slots, 0xff, capacity * sizeof *slots); /* NO_SITE */

  return slots;
}

SondeAddressSet *
sonde_address_set_new (const SondeProcessTable *processes)
{
  SondeAddressSet *self = g_new0 (SondeAddressSet, 1);

  self->processes = processes;
  self->capacity = FIRST_CAPACITY;
  self->slots = make_slots (self->capacity);
  self->sites = sonde_site_table_new ();
  self->archive = sonde_hit_archive_new (self->sites);

  return self;
}

void
sonde_address_set_free (SondeAddressSet *self)
{
  if (self == NULL)
    return;

  g_aligned_free (self->slots);
  sonde_hit_archive_free (self->archive);
  sonde_site_table_free (self->sites);
  g_free (self);
}

static guint
first_slot_of (const SondeAddressSet *self, int32_t pid, uint64_t address)
{
  uint64_t hash = (address ^ ((uint64_t) (uint32_t) pid << 40)) * UINT64_C (0x9E3779B97F4A7C15);

  return (guint) (hash >> 40) & (self->capacity - 1);
}

/* Where it is, or is to be. */
static SondeHit *
slot_of (const SondeAddressSet *self, int32_t pid, uint64_t address)
{
  guint at = first_slot_of (self, pid, address);

  while (self->slots[at].site != NO_SITE
         && (self->slots[at].address != address || self->slots[at].pid != pid))
    at = (at + 1) & (self->capacity - 1);

  return &self->slots[at];
}

void
sonde_address_set_expect (const SondeAddressSet *self,
                          int32_t pid,
                          const uint64_t *addrs,
                          size_t n_addrs)
{
  for (size_t i = 0; i < n_addrs; i++)
    __builtin_prefetch (&self->slots[first_slot_of (self, pid, addrs[i])]);
}

gboolean
sonde_address_set_contains (const SondeAddressSet *self, int32_t pid, uint64_t address)
{
  return !self->ended && slot_of (self, pid, address)->site != NO_SITE;
}

/* Moves the hits of processes that are over, or of all, to the beginning of @slots. Returns how
 * many they are. */
static guint
gather (const SondeAddressSet *self, SondeHit *slots, guint capacity, gboolean all)
{
  guint n = 0;

  for (guint i = 0; i < capacity; i++)
    if (slots[i].site != NO_SITE
        && (all || !sonde_process_table_has (self->processes, slots[i].pid)))
      {
        SondeHit other = slots[n];

        slots[n++] = slots[i];
        slots[i] = other;
      }

  return n;
}

/* Makes room: processes that are over leave first. */
static void
rebuild (SondeAddressSet *self)
{
  SondeHit *old = self->slots;
  guint old_capacity = self->capacity;
  guint n_over = gather (self, old, old_capacity, FALSE);

  sonde_hit_archive_add (self->archive, old, n_over);
  self->n_archived += n_over;
  self->n_slots -= n_over;
  /* Well below half full, or it would soon be here again. */
  if (self->n_slots > self->capacity / 8 * 3)
    self->capacity *= 2;
  self->slots = make_slots (self->capacity);
  for (guint i = n_over; i < old_capacity; i++)
    if (old[i].site != NO_SITE)
      *slot_of (self, old[i].pid, old[i].address) = old[i];
  g_aligned_free (old);
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
  g_assert (!self->ended);
  if (sonde_address_set_contains (self, pid, address))
    return TRUE;
  if (sonde_address_set_size (self) >= SONDE_ADDRESS_SET_MAX)
    {
      self->n_left_out++;
      return FALSE;
    }
  if (self->n_slots >= self->capacity / 2)
    rebuild (self);

  *slot_of (self, pid, address) = (SondeHit){
    .address = address,
    .pid = pid,
    .site = sonde_site_table_intern (self->sites, module, vaddr, is_return, path),
  };
  self->n_slots++;

  return TRUE;
}

guint
sonde_address_set_size (const SondeAddressSet *self)
{
  return self->n_slots + self->n_archived;
}

guint64
sonde_address_set_n_left_out (const SondeAddressSet *self)
{
  return self->n_left_out;
}

gsize
sonde_address_set_bytes (const SondeAddressSet *self)
{
  return self->capacity * sizeof *self->slots + sonde_hit_archive_bytes (self->archive)
         + sonde_site_table_size (self->sites) * sizeof (SondeSite);
}

void
sonde_address_set_end (SondeAddressSet *self)
{
  guint n = gather (self, self->slots, self->capacity, TRUE);

  g_assert (!self->ended);
  self->ended = TRUE;
  sonde_hit_archive_add (self->archive, self->slots, n);
  self->n_archived += n;
  self->n_slots = 0;
  g_clear_pointer (&self->slots, g_aligned_free);
  self->capacity = 0;
  self->n_groups = sonde_hit_archive_sort (self->archive);
}

const SondeSiteTable *
sonde_address_set_sites (const SondeAddressSet *self)
{
  return self->sites;
}

const SondeHitArchive *
sonde_address_set_hits (const SondeAddressSet *self, guint *n_groups)
{
  *n_groups = self->n_groups;
  return self->archive;
}
