/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/names/sampled-addresses.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/table.h"

/* A slot; once packed its site is an index. */
typedef struct
{
  uint64_t address; /* bytes, in the process */
  int32_t pid;
  uint32_t site; /* index + 1: 0 is free */
} Hit;

typedef struct
{
  uint32_t hash;
  uint32_t number; /* index of a site, + 1 */
} SiteSlot;

typedef struct
{
  int fd; /* -1: there were too many */
  char *name;
} SampledFile;

/* Before the sites of a group, which are four bytes each. */
typedef struct
{
  uint64_t bias;
  int32_t pid;
  uint32_t n_sites;
} NamesHeader;

#define HEADER_WORDS (sizeof (NamesHeader) / sizeof (uint32_t))

typedef struct
{
  int32_t pid;
  guint at; /* word */
} AddressGroup;

struct SondeSampledAddresses
{
  const SondeProcessTable *processes;
  SondeTable hits; /* Hit */
  guint n_packed;
  guint64 n_left_out;
  gboolean ended;

  GArray *words;  /* uint32_t: headers and sites of processes that are over */
  GArray *groups; /* Group, once ended */

  GArray *sites;         /* SondeSite */
  SondeTable site_slots; /* SiteSlot */
  GArray *files;         /* File */
  guint max_fds;
  GHashTable *file_index; /* module id → index + 1 */
};

static uint64_t
hash_hit (const void *slot, uint64_t seed)
{
  const Hit *hit = slot;

  return sonde_hash (seed, hit->address ^ (uint64_t) (uint32_t) hit->pid << 40);
}

static bool
is_hit (const void *slot, uint64_t hash, const void *key)
{
  const Hit *hit = slot;
  const Hit *wanted = key;

  return hit->address == wanted->address && hit->pid == wanted->pid;
}

/* At most half full, and no slot lies in two cache lines: so the first line nearly always tells. */
static const SondeTableKind hits = { .slot_bytes = sizeof (Hit),
                                     .used_at = offsetof (Hit, pid),
                                     .n_first_slots = 4096,
                                     .max_eighths = 4,
                                     .allocate = g_malloc0_n,
                                     .hash = hash_hit,
                                     .has_key = is_hit };

/* What is looked for. */
typedef struct
{
  const SondeSampledAddresses *addresses;
  const SondeSite *site;
} WantedSite;

static uint64_t
hash_site_slot (const void *slot, uint64_t seed)
{
  return ((const SiteSlot *) slot)->hash;
}

static bool
is_site (const void *slot, uint64_t hash, const void *key)
{
  const SiteSlot *found = slot;
  const WantedSite *wanted = key;
  const SondeSite *site;

  if (found->hash != hash)
    return false;
  site = sonde_sampled_addresses_site (wanted->addresses, found->number - 1);
  return site->vaddr == wanted->site->vaddr && site->file == wanted->site->file
         && site->is_return == wanted->site->is_return;
}

static const SondeTableKind site_slots = { .slot_bytes = sizeof (SiteSlot),
                                           .used_at = 0,
                                           .n_first_slots = 1024,
                                           .max_eighths = 6,
                                           .allocate = g_malloc0_n,
                                           .hash = hash_site_slot,
                                           .has_key = is_site };

static void
clear_file (gpointer data)
{
  SampledFile *file = data;

  sonde_clear_fd (&file->fd);
  g_free (file->name);
}

SondeSampledAddresses *
sonde_sampled_addresses_new (const SondeProcessTable *processes)
{
  SondeSampledAddresses *self = g_new0 (SondeSampledAddresses, 1);

  self->processes = processes;
  self->hits.seed = sonde_hash_seed ();
  sonde_table_resize (&hits, &self->hits, hits.n_first_slots);
  self->words = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  self->groups = g_array_new (FALSE, FALSE, sizeof (AddressGroup));
  self->sites = g_array_new (FALSE, FALSE, sizeof (SondeSite));
  self->site_slots.seed = self->hits.seed;
  self->files = g_array_new (FALSE, FALSE, sizeof (SampledFile));
  g_array_set_clear_func (self->files, clear_file);
  self->max_fds = (guint) sonde_module_max_fds ();
  self->file_index = g_hash_table_new (NULL, NULL);

  return self;
}

void
sonde_sampled_addresses_free (SondeSampledAddresses *self)
{
  if (self == NULL)
    return;

  sonde_table_clear (&self->hits);
  g_array_unref (self->words);
  g_array_unref (self->groups);
  g_array_unref (self->sites);
  sonde_table_clear (&self->site_slots);
  g_array_unref (self->files);
  g_hash_table_unref (self->file_index);
  g_free (self);
}

/* --- places in files --- */

guint
sonde_sampled_addresses_n_sites (const SondeSampledAddresses *self)
{
  return self->sites->len;
}

const SondeSite *
sonde_sampled_addresses_site (const SondeSampledAddresses *self, guint index)
{
  return &g_array_index (self->sites, SondeSite, index);
}

int
sonde_sampled_addresses_fd (const SondeSampledAddresses *self, const SondeSite *site)
{
  return g_array_index (self->files, SampledFile, site->file).fd;
}

const char *
sonde_sampled_addresses_file_name (const SondeSampledAddresses *self, const SondeSite *site)
{
  return g_array_index (self->files, SampledFile, site->file).name;
}

static guint
intern_file (SondeSampledAddresses *self, const SondeProcessMapping *mapping)
{
  gpointer key = GUINT_TO_POINTER (sonde_module_id (mapping->module));
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->file_index, key));

  if (index == 0)
    {
      const char *path = mapping->vdso ? "[vdso]" : mapping->path;
      const char *slash = strrchr (path, '/');
      SampledFile file = { -1, g_strdup (slash != NULL ? slash + 1 : path) };

      if (self->files->len < self->max_fds && sonde_module_fd (mapping->module) >= 0)
        file.fd = fcntl (sonde_module_fd (mapping->module), F_DUPFD_CLOEXEC, 0);
      g_array_append_val (self->files, file);
      index = self->files->len;
      g_hash_table_insert (self->file_index, key, GUINT_TO_POINTER (index));
    }

  return index - 1;
}

/* Returns its index. */
static guint
intern_site (SondeSampledAddresses *self, const SondeSite *site)
{
  const WantedSite wanted = { self, site };
  uint64_t place = (uint64_t) site->file << 1 | site->is_return;
  uint32_t hash = (uint32_t) sonde_hash (sonde_hash (self->site_slots.seed, place), site->vaddr);
  const SiteSlot *slot = sonde_table_find (&site_slots, &self->site_slots, hash, &wanted);

  if (slot != NULL)
    return slot->number - 1;
  g_array_append_val (self->sites, *site);
  sonde_table_add (&site_slots, &self->site_slots, &(SiteSlot){ hash, self->sites->len });

  return self->sites->len - 1;
}

/* --- processes that are over --- */

static uint64_t
bias_of (const SondeSampledAddresses *self, const Hit *hit)
{
  return hit->address - sonde_sampled_addresses_site (self, hit->site)->vaddr;
}

static int
compare_hits (gconstpointer first, gconstpointer second, gpointer user_data)
{
  const Hit *a = first;
  const Hit *b = second;
  uint64_t a_bias = bias_of (user_data, a);
  uint64_t b_bias = bias_of (user_data, b);

  if (a->pid != b->pid)
    return a->pid < b->pid ? -1 : 1;
  if (a_bias != b_bias)
    return a_bias < b_bias ? -1 : 1;
  return (a->site > b->site) - (a->site < b->site);
}

/* Packs the hits of processes that are over, or of all. The rest is out of order after that, until
 * the table is built anew. */
static void
pack (SondeSampledAddresses *self, gboolean all)
{
  Hit *slots = self->hits.slots;
  guint n_over = 0;
  guint end;

  for (gsize i = 0; i < self->hits.n_slots; i++)
    if (sonde_table_is_used (&hits, &slots[i])
        && (all || !sonde_process_table_has (self->processes, slots[i].pid)))
      {
        Hit hit = slots[i];

        slots[i] = slots[n_over];
        hit.site--;
        slots[n_over++] = hit;
      }
  g_qsort_with_data (slots, (int) n_over, sizeof *slots, compare_hits, self);
  for (guint i = 0; i < n_over; i = end)
    {
      NamesHeader header = { bias_of (self, &slots[i]), slots[i].pid, 0 };

      for (end = i + 1; end < n_over && slots[end].pid == header.pid; end++)
        if (bias_of (self, &slots[end]) != header.bias)
          break;
      header.n_sites = end - i;
      g_array_append_vals (self->words, &header, HEADER_WORDS);
      for (guint k = i; k < end; k++)
        g_array_append_val (self->words, slots[k].site);
    }
  memset (slots, 0, n_over * sizeof *slots);
  self->n_packed += n_over;
  self->hits.n_used -= n_over;
}

static NamesHeader
header_at (const SondeSampledAddresses *self, guint at)
{
  NamesHeader header;

  memcpy (&header, &g_array_index (self->words, uint32_t, at), sizeof header);
  return header;
}

static int
compare_groups (gconstpointer first, gconstpointer second)
{
  const AddressGroup *a = first;
  const AddressGroup *b = second;

  if (a->pid != b->pid)
    return a->pid < b->pid ? -1 : 1;
  return (a->at > b->at) - (a->at < b->at);
}

guint
sonde_sampled_addresses_end (SondeSampledAddresses *self)
{
  g_assert (!self->ended);
  pack (self, TRUE);
  self->ended = TRUE;
  sonde_table_clear (&self->hits);
  for (guint at = 0; at < self->words->len;)
    {
      NamesHeader header = header_at (self, at);
      AddressGroup group = { header.pid, at };

      g_array_append_val (self->groups, group);
      at += HEADER_WORDS + header.n_sites;
    }
  g_array_sort (self->groups, compare_groups);

  return self->groups->len;
}

SondeSiteGroup
sonde_sampled_addresses_group (const SondeSampledAddresses *self, guint index)
{
  guint at = g_array_index (self->groups, AddressGroup, index).at;
  NamesHeader header = header_at (self, at);

  return (SondeSiteGroup){
    .pid = header.pid,
    .bias = header.bias,
    .sites = &g_array_index (self->words, uint32_t, at + HEADER_WORDS),
    .n_sites = header.n_sites,
  };
}

/* --- processes that run --- */

void
sonde_sampled_addresses_expect (const SondeSampledAddresses *self,
                                int32_t pid,
                                const uint64_t *addrs,
                                size_t n_addrs)
{
  for (size_t i = 0; i < n_addrs; i++)
    {
      const Hit hit = { .address = addrs[i], .pid = pid };
      uint64_t hash = hash_hit (&hit, self->hits.seed);

      __builtin_prefetch (sonde_table_slot (&hits, &self->hits, hash));
    }
}

gboolean
sonde_sampled_addresses_contains (const SondeSampledAddresses *self, int32_t pid, uint64_t address)
{
  const Hit hit = { .address = address, .pid = pid };

  return sonde_table_find (&hits, &self->hits, hash_hit (&hit, self->hits.seed), &hit) != NULL;
}

gboolean
sonde_sampled_addresses_add (SondeSampledAddresses *self,
                             int32_t pid,
                             uint64_t address,
                             const SondeProcessMapping *mapping,
                             gboolean is_return)
{
  SondeSite site = { address - mapping->bias, 0, is_return ? 1 : 0 };

  g_assert (!self->ended);
  if (sonde_sampled_addresses_contains (self, pid, address))
    return TRUE;
  if (sonde_sampled_addresses_size (self) >= SONDE_SAMPLED_ADDRESSES_MAX)
    {
      self->n_left_out++;
      return FALSE;
    }
  if (sonde_table_is_full (&hits, &self->hits))
    {
      gsize n_slots = self->hits.n_slots;

      /* Processes that are over leave first. */
      pack (self, FALSE);
      /* Well below half full, or it would soon be here again. */
      if (self->hits.n_used > n_slots / 8 * 3)
        n_slots *= 2;
      sonde_table_resize (&hits, &self->hits, n_slots);
    }

  site.file = intern_file (self, mapping);
  sonde_table_add (&hits, &self->hits, &(Hit){ address, pid, intern_site (self, &site) + 1 });

  return TRUE;
}

guint
sonde_sampled_addresses_size (const SondeSampledAddresses *self)
{
  return (guint) self->hits.n_used + self->n_packed;
}

guint64
sonde_sampled_addresses_n_left_out (const SondeSampledAddresses *self)
{
  return self->n_left_out;
}

gsize
sonde_sampled_addresses_bytes (const SondeSampledAddresses *self)
{
  return self->hits.n_slots * sizeof (Hit) + self->words->len * sizeof (uint32_t)
         + self->sites->len * sizeof (SondeSite);
}
