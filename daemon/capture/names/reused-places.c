/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/names/reused-places.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/capture/names/function-names.h"

#define N_TABLES    4
#define CACHE_SLOTS 1024 /* a power of two */

#define PAGE_BYTES  4096 /* the smallest there is: mappings are multiples of it */

/* What is at a place: this file at this distance. There may be several for each process of a long
 * session, over or not, as its pid may be used again. */
typedef struct
{
  uint64_t start;
  uint64_t delta; /* file offset minus address */
  uint32_t n_pages;
  uint32_t file; /* see file_index() */
} Claim;

/* The claims of one pid: sorted, without overlaps, in no more memory than they need. */
typedef struct
{
  guint n_claims;
  Claim claims[];
} Claims;

typedef struct
{
  uint64_t inode;
  uint64_t device;
  uint32_t index;
} ReusedFile;

typedef struct
{
  uint32_t module_id; /* 0: empty */
  uint64_t vaddr;
  uint64_t made_up;
} PlaceSlot;

typedef struct
{
  uint32_t module_id;
  SondeFunctionNames *functions; /* NULL: empty */
} PlaceNames;

struct SondeReusedPlaces
{
  SondeRecorder *recorder;
  GHashTable *claims; /* pid → Claims */
  GHashTable *files;  /* File, as a set */
  guint n_claims;
  PlaceNames tables[N_TABLES]; /* used last first */
  guint n_loads;
  PlaceSlot cache[CACHE_SLOTS];
};

static guint
hash_file (gconstpointer data)
{
  const ReusedFile *file = data;

  return (guint) (file->inode * 31 + file->device * 257);
}

static gboolean
is_same_file (gconstpointer first, gconstpointer second)
{
  const ReusedFile *a = first;
  const ReusedFile *b = second;

  return a->inode == b->inode && a->device == b->device;
}

SondeReusedPlaces *
sonde_reused_places_new (SondeRecorder *recorder)
{
  SondeReusedPlaces *self = g_new0 (SondeReusedPlaces, 1);

  self->recorder = recorder;
  self->claims = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->files = g_hash_table_new_full (hash_file, is_same_file, g_free, NULL);

  return self;
}

void
sonde_reused_places_free (SondeReusedPlaces *self)
{
  if (self == NULL)
    return;

  for (guint i = 0; i < N_TABLES; i++)
    sonde_function_names_free (self->tables[i].functions);
  g_hash_table_unref (self->claims);
  g_hash_table_unref (self->files);
  g_free (self);
}

/* --- whose a place is --- */

/* A small number for a file; G_MAXUINT32 when it is new and not to be @kept. */
static uint32_t
file_index (SondeReusedPlaces *self, const SondeFileId *id, gboolean kept)
{
  ReusedFile wanted = { id->inode, (uint64_t) id->dev_major << 32 | id->dev_minor,
                        g_hash_table_size (self->files) };
  const ReusedFile *found = g_hash_table_lookup (self->files, &wanted);

  if (found != NULL)
    return found->index;
  if (!kept)
    return G_MAXUINT32;
  g_hash_table_add (self->files, g_memdup2 (&wanted, sizeof wanted));

  return wanted.index;
}

static void
set_range (Claim *claim, uint64_t start, uint64_t last)
{
  claim->start = start;
  claim->n_pages = (uint32_t) MIN ((last - start) / PAGE_BYTES + 1, G_MAXUINT32);
}

static Claim
claim_of (SondeReusedPlaces *self, const SondeProcessMapping *mapping)
{
  Claim claim = {
    .delta = mapping->offset - mapping->start,
    .file = file_index (self, &mapping->file, FALSE),
  };

  set_range (&claim, mapping->start, mapping->end - 1);
  return claim;
}

static uint64_t
last_of (const Claim *claim)
{
  return claim->start + (uint64_t) claim->n_pages * PAGE_BYTES - 1;
}

/* The claims that overlap @wanted: from the index returned, as many as @n_overlaps says. */
static guint
find_overlaps (const Claims *all, const Claim *wanted, guint *n_overlaps)
{
  guint low = 0;
  guint high = all != NULL ? all->n_claims : 0;
  guint n_claims = high;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (last_of (&all->claims[middle]) >= wanted->start)
        high = middle;
      else
        low = middle + 1;
    }
  *n_overlaps = 0;
  while (low + *n_overlaps < n_claims && all->claims[low + *n_overlaps].start <= last_of (wanted))
    (*n_overlaps)++;

  return low;
}

static gboolean
is_anothers (const Claims *all, const Claim *wanted, guint at, guint n_overlaps)
{
  for (guint i = at; i < at + n_overlaps; i++)
    if (all->claims[i].delta != wanted->delta || all->claims[i].file != wanted->file)
      return TRUE;

  return FALSE;
}

gboolean
sonde_reused_places_is_contested (SondeReusedPlaces *self, SondeProcess *process)
{
  const Claims *all
      = g_hash_table_lookup (self->claims, GINT_TO_POINTER (sonde_process_pid (process)));
  const SondeProcessMapping *mappings;
  gboolean is_contested = FALSE;
  size_t n_mappings = 0;

  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_SETTLED))
    return sonde_process_flag (process, SONDE_PROCESS_FLAG_CONTESTED);

  mappings = sonde_process_mappings (process, &n_mappings);
  for (size_t i = 0; all != NULL && i < n_mappings && !is_contested; i++)
    {
      Claim wanted = claim_of (self, &mappings[i]);
      guint n_overlaps;
      guint at = find_overlaps (all, &wanted, &n_overlaps);

      is_contested = is_anothers (all, &wanted, at, n_overlaps);
    }
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_CONTESTED, is_contested);
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_SETTLED, true);

  return is_contested;
}

gboolean
sonde_reused_places_claim (SondeReusedPlaces *self, int32_t pid, const SondeProcessMapping *mapping)
{
  Claims *all = g_hash_table_lookup (self->claims, GINT_TO_POINTER (pid));
  guint n_claims = all != NULL ? all->n_claims : 0;
  gboolean has_room
      = self->n_claims < SONDE_REUSED_PLACES_MAX && n_claims < SONDE_REUSED_PLACES_MAX_A_PID;
  Claim wanted = claim_of (self, mapping);
  guint n_overlaps;
  guint at = find_overlaps (all, &wanted, &n_overlaps);

  if (is_anothers (all, &wanted, at, n_overlaps))
    return FALSE;

  if (n_overlaps > 0)
    {
      Claim *first = &all->claims[at];
      Claim *last = &all->claims[at + n_overlaps - 1];

      set_range (first, MIN (first->start, wanted.start), last_of (first));
      set_range (last, last->start, MAX (last_of (last), last_of (&wanted)));
    }
  else if (has_room)
    {
      /* Only here: who maps a new file at the same place again and again claims no more. */
      wanted.file = file_index (self, &mapping->file, TRUE);
      if (all != NULL)
        g_hash_table_steal (self->claims, GINT_TO_POINTER (pid));
      all = g_realloc (all, sizeof *all + (n_claims + 1) * sizeof wanted);
      memmove (&all->claims[at + 1], &all->claims[at], (n_claims - at) * sizeof wanted);
      all->claims[at] = wanted;
      all->n_claims = n_claims + 1;
      g_hash_table_insert (self->claims, GINT_TO_POINTER (pid), all);
      self->n_claims++;
    }

  return TRUE;
}

/* --- names --- */

static const char *
file_name (const SondeProcessMapping *mapping)
{
  const char *slash = strrchr (mapping->path, '/');

  return slash != NULL ? slash + 1 : mapping->path;
}

/* NULL: too many were read already. */
static SondeFunctionNames *
find_table (SondeReusedPlaces *self, const SondeProcessMapping *mapping)
{
  uint32_t module_id = sonde_module_id (mapping->module);
  PlaceNames found;
  guint i;

  for (i = 0; i < N_TABLES - 1; i++)
    if (self->tables[i].functions != NULL && self->tables[i].module_id == module_id)
      break;
  found = self->tables[i];
  if (found.functions == NULL || found.module_id != module_id)
    {
      if (self->n_loads >= SONDE_REUSED_PLACES_MAX_LOADS)
        return NULL;
      self->n_loads++;
      sonde_function_names_free (found.functions);
      found.module_id = module_id;
      found.functions
          = sonde_function_names_new (sonde_module_fd (mapping->module), file_name (mapping));
    }
  memmove (&self->tables[1], &self->tables[0], i * sizeof self->tables[0]);
  self->tables[0] = found;

  return found.functions;
}

uint64_t
sonde_reused_places_name (SondeReusedPlaces *self,
                          const SondeProcessMapping *mapping,
                          uint64_t address,
                          gint64 time_ns)
{
  uint64_t vaddr = address - mapping->bias;
  uint32_t module_id;
  PlaceSlot *slot;

  /* Its file could not be had: no more than its name is known. */
  if (mapping->module == NULL)
    return sonde_recorder_name (self->recorder, file_name (mapping), time_ns);

  module_id = sonde_module_id (mapping->module);
  slot = &self->cache[((vaddr ^ (uint64_t) module_id << 40) * UINT64_C (0x9E3779B97F4A7C15)) >> 32
                      & (CACHE_SLOTS - 1)];
  if (slot->module_id != module_id || slot->vaddr != vaddr)
    {
      SondeFunctionNames *table = find_table (self, mapping);
      uint64_t begin, end;
      g_autofree char *name = table != NULL
                                  ? sonde_function_names_find (table, vaddr, &begin, &end)
                                  : g_strdup_printf ("%s+0x%" PRIx64, file_name (mapping), vaddr);

      *slot = (PlaceSlot){ module_id, vaddr, sonde_recorder_name (self->recorder, name, time_ns) };
    }

  return slot->made_up;
}
