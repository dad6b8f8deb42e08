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

/* The files that tables beside each other have open. */
typedef struct
{
  guint n_refs;
  guint n_fds;
  guint max_fds;
  GHashTable *by_module; /* id → SampledFile */
} FilePool;

typedef struct
{
  guint n_refs;
  FilePool *pool;
  uint32_t module; /* its id */
  int fd;          /* -1: there were too many */
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
  FilePool *pool;
  GPtrArray *files;       /* SampledFile */
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
pool_unref (FilePool *self)
{
  if (--self->n_refs > 0)
    return;
  g_hash_table_unref (self->by_module);
  g_free (self);
}

static void
file_unref (gpointer data)
{
  SampledFile *file = data;

  if (--file->n_refs > 0)
    return;
  g_hash_table_remove (file->pool->by_module, GUINT_TO_POINTER (file->module));
  file->pool->n_fds -= file->fd >= 0;
  pool_unref (file->pool);
  sonde_clear_fd (&file->fd);
  g_free (file->name);
  g_free (file);
}

/* @pool: (transfer full) */
static SondeSampledAddresses *
new_with (const SondeProcessTable *processes, FilePool *pool)
{
  SondeSampledAddresses *self = g_new0 (SondeSampledAddresses, 1);

  self->processes = processes;
  self->hits.seed = sonde_hash_seed ();
  sonde_table_resize (&hits, &self->hits, hits.n_first_slots);
  self->words = g_array_new (FALSE, FALSE, sizeof (uint32_t));
  self->groups = g_array_new (FALSE, FALSE, sizeof (AddressGroup));
  self->sites = g_array_new (FALSE, FALSE, sizeof (SondeSite));
  self->site_slots.seed = self->hits.seed;
  self->pool = pool;
  self->files = g_ptr_array_new_with_free_func (file_unref);
  self->file_index = g_hash_table_new (NULL, NULL);

  return self;
}

SondeSampledAddresses *
sonde_sampled_addresses_new (const SondeProcessTable *processes)
{
  FilePool *pool = g_new0 (FilePool, 1);

  pool->n_refs = 1;
  pool->max_fds = (guint) sonde_module_max_fds ();
  pool->by_module = g_hash_table_new (NULL, NULL);
  return new_with (processes, pool);
}

SondeSampledAddresses *
sonde_sampled_addresses_new_beside (const SondeSampledAddresses *other)
{
  other->pool->n_refs++;
  return new_with (other->processes, other->pool);
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
  g_ptr_array_unref (self->files);
  pool_unref (self->pool);
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

static const SampledFile *
file_of (const SondeSampledAddresses *self, const SondeSite *site)
{
  return g_ptr_array_index (self->files, site->file);
}

int
sonde_sampled_addresses_fd (const SondeSampledAddresses *self, const SondeSite *site)
{
  return file_of (self, site)->fd;
}

const char *
sonde_sampled_addresses_file_name (const SondeSampledAddresses *self, const SondeSite *site)
{
  return file_of (self, site)->name;
}

/* Returns: (transfer full): the pool's file of that module, or a new one */
static SampledFile *
open_file (FilePool *pool, const SondeProcessMapping *mapping)
{
  uint32_t module = sonde_module_id (mapping->module);
  SampledFile *file = g_hash_table_lookup (pool->by_module, GUINT_TO_POINTER (module));
  const char *path = mapping->vdso ? "[vdso]" : mapping->path;
  const char *slash = strrchr (path, '/');

  if (file != NULL)
    {
      file->n_refs++;
      return file;
    }
  file = g_new0 (SampledFile, 1);
  file->n_refs = 1;
  file->pool = pool;
  pool->n_refs++;
  file->module = module;
  file->fd = -1;
  file->name = g_strdup (slash != NULL ? slash + 1 : path);
  if (pool->n_fds < pool->max_fds && sonde_module_fd (mapping->module) >= 0)
    file->fd = fcntl (sonde_module_fd (mapping->module), F_DUPFD_CLOEXEC, 0);
  pool->n_fds += file->fd >= 0;
  g_hash_table_insert (pool->by_module, GUINT_TO_POINTER (module), file);
  return file;
}

/* Its index + 1; 0: it is not there. */
static guint
find_file (const SondeSampledAddresses *self, uint32_t module)
{
  return GPOINTER_TO_UINT (g_hash_table_lookup (self->file_index, GUINT_TO_POINTER (module)));
}

/* @file: (transfer full). Returns its index. */
static guint
add_file (SondeSampledAddresses *self, SampledFile *file)
{
  g_ptr_array_add (self->files, file);
  g_hash_table_insert (self->file_index, GUINT_TO_POINTER (file->module),
                       GUINT_TO_POINTER (self->files->len));
  return self->files->len - 1;
}

static guint
intern_file (SondeSampledAddresses *self, const SondeProcessMapping *mapping)
{
  guint index = find_file (self, sonde_module_id (mapping->module));

  return index != 0 ? index - 1 : add_file (self, open_file (self->pool, mapping));
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

/* Whether there is a free slot now. */
static gboolean
make_room (SondeSampledAddresses *self)
{
  g_assert (!self->ended);
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
  return TRUE;
}

gboolean
sonde_sampled_addresses_add (SondeSampledAddresses *self,
                             int32_t pid,
                             uint64_t address,
                             const SondeProcessMapping *mapping,
                             gboolean is_return)
{
  SondeSite site = { address - mapping->bias, 0, is_return ? 1 : 0 };

  if (sonde_sampled_addresses_contains (self, pid, address))
    return TRUE;
  if (!make_room (self))
    return FALSE;
  site.file = intern_file (self, mapping);
  sonde_table_add (&hits, &self->hits, &(Hit){ address, pid, intern_site (self, &site) + 1 });

  return TRUE;
}

/* @index: of a site of @other, which is seen at that bias */
static void
absorb_site (SondeSampledAddresses *self,
             const SondeSampledAddresses *other,
             int32_t pid,
             uint64_t bias,
             uint32_t index)
{
  SondeSite site = *sonde_sampled_addresses_site (other, index);
  SampledFile *file = g_ptr_array_index (other->files, site.file);
  uint64_t address = site.vaddr + bias;
  guint number = find_file (self, file->module);

  if (sonde_sampled_addresses_contains (self, pid, address) || !make_room (self))
    return;
  if (number == 0)
    {
      file->n_refs++;
      number = add_file (self, file) + 1;
    }
  site.file = number - 1;
  sonde_table_add (&hits, &self->hits, &(Hit){ address, pid, intern_site (self, &site) + 1 });
}

void
sonde_sampled_addresses_absorb (SondeSampledAddresses *self, const SondeSampledAddresses *other)
{
  const Hit *slots = other->hits.slots;

  g_assert (self->pool == other->pool);
  for (gsize i = 0; i < other->hits.n_slots; i++)
    if (sonde_table_is_used (&hits, &slots[i]))
      {
        uint32_t index = slots[i].site - 1;
        uint64_t bias = slots[i].address - sonde_sampled_addresses_site (other, index)->vaddr;

        absorb_site (self, other, slots[i].pid, bias, index);
      }
  for (guint at = 0; at < other->words->len;)
    {
      NamesHeader header = header_at (other, at);

      at += HEADER_WORDS;
      for (guint end = at + header.n_sites; at < end; at++)
        absorb_site (self, other, header.pid, header.bias,
                     g_array_index (other->words, uint32_t, at));
    }
  self->n_left_out += other->n_left_out;
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
