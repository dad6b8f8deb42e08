/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names for code that came where a pid had other code before. */
#include "daemon/capture/reused-places.h"

#include <inttypes.h>
#include <string.h>

#include "daemon/capture/function-names.h"

#define N_TABLES    4
#define CACHE_SLOTS 1024 /* a power of two */

/* What is at a place: this file at this distance. */
typedef struct
{
  uint64_t start;
  uint64_t end;
  uint64_t delta; /* file offset minus address */
  uint64_t inode;
  uint64_t device;
} Claim;

typedef struct
{
  uint32_t module_id; /* 0: empty */
  uint64_t vaddr;
  uint64_t made_up;
} Slot;

struct SondeReusedPlaces
{
  SondeRecorder *recorder;
  GHashTable *claims; /* pid → GArray of Claim, sorted, without overlaps */
  guint n_claims;
  SondeFunctionNames *tables[N_TABLES]; /* used last first */
  guint n_loads;
  Slot cache[CACHE_SLOTS];
};

SondeReusedPlaces *
sonde_reused_places_new (SondeRecorder *recorder)
{
  SondeReusedPlaces *self = g_new0 (SondeReusedPlaces, 1);

  self->recorder = recorder;
  self->claims = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_array_unref);

  return self;
}

void
sonde_reused_places_free (SondeReusedPlaces *self)
{
  if (self == NULL)
    return;

  for (guint i = 0; i < N_TABLES; i++)
    sonde_function_names_free (self->tables[i]);
  g_hash_table_unref (self->claims);
  g_free (self);
}

/* --- whose a place is --- */

static Claim
claim_of (const SondeMapping *mapping)
{
  return (Claim){
    .start = mapping->start,
    .end = mapping->end,
    .delta = mapping->offset - mapping->start,
    .inode = mapping->file.inode,
    .device = (uint64_t) mapping->file.dev_major << 32 | mapping->file.dev_minor,
  };
}

static gboolean
is_same_file (const Claim *a, const Claim *b)
{
  return a->delta == b->delta && a->inode == b->inode && a->device == b->device;
}

static Claim *
claim_at (const GArray *claims, guint i)
{
  return &g_array_index (claims, Claim, i);
}

/* The claims that overlap @wanted: from the index returned, as many as @n_overlaps says. */
static guint
find_overlaps (const GArray *claims, const Claim *wanted, guint *n_overlaps)
{
  guint low = 0;
  guint high = claims->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (claim_at (claims, middle)->end > wanted->start)
        high = middle;
      else
        low = middle + 1;
    }
  *n_overlaps = 0;
  while (low + *n_overlaps < claims->len
         && claim_at (claims, low + *n_overlaps)->start < wanted->end)
    (*n_overlaps)++;

  return low;
}

static gboolean
is_anothers (const GArray *claims, const Claim *wanted, guint at, guint n_overlaps)
{
  for (guint i = at; i < at + n_overlaps; i++)
    if (!is_same_file (claim_at (claims, i), wanted))
      return TRUE;

  return FALSE;
}

gboolean
sonde_reused_places_is_contested (SondeReusedPlaces *self, SondeProcess *process)
{
  const GArray *claims
      = g_hash_table_lookup (self->claims, GINT_TO_POINTER (sonde_process_pid (process)));
  const SondeMapping *mappings;
  gboolean is_contested = FALSE;
  size_t n_mappings = 0;

  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_SETTLED))
    return sonde_process_flag (process, SONDE_PROCESS_FLAG_CONTESTED);

  mappings = sonde_process_mappings (process, &n_mappings);
  for (size_t i = 0; claims != NULL && i < n_mappings && !is_contested; i++)
    {
      Claim wanted = claim_of (&mappings[i]);
      guint n_overlaps;
      guint at = find_overlaps (claims, &wanted, &n_overlaps);

      is_contested = is_anothers (claims, &wanted, at, n_overlaps);
    }
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_CONTESTED, is_contested);
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_SETTLED, true);

  return is_contested;
}

static GArray *
claims_of (SondeReusedPlaces *self, int32_t pid)
{
  GArray *claims = g_hash_table_lookup (self->claims, GINT_TO_POINTER (pid));

  if (claims == NULL)
    {
      claims = g_array_new (FALSE, FALSE, sizeof (Claim));
      g_hash_table_insert (self->claims, GINT_TO_POINTER (pid), claims);
    }

  return claims;
}

gboolean
sonde_reused_places_claim (SondeReusedPlaces *self, int32_t pid, const SondeMapping *mapping)
{
  GArray *claims = claims_of (self, pid);
  Claim wanted = claim_of (mapping);
  guint n_overlaps;
  guint at = find_overlaps (claims, &wanted, &n_overlaps);

  if (is_anothers (claims, &wanted, at, n_overlaps))
    return FALSE;

  if (n_overlaps > 0)
    {
      Claim *first = claim_at (claims, at);
      Claim *last = claim_at (claims, at + n_overlaps - 1);

      first->start = MIN (first->start, wanted.start);
      last->end = MAX (last->end, wanted.end);
    }
  else if (self->n_claims < SONDE_REUSED_PLACES_MAX && claims->len < SONDE_REUSED_PLACES_MAX_A_PID)
    {
      g_array_insert_val (claims, at, wanted);
      self->n_claims++;
    }

  return TRUE;
}

/* --- names --- */

static const char *
file_name (const SondeMapping *mapping)
{
  const char *slash = strrchr (mapping->path, '/');

  return slash != NULL ? slash + 1 : mapping->path;
}

/* NULL: too many were read already. */
static const SondeFunctionNames *
find_table (SondeReusedPlaces *self, const SondeMapping *mapping)
{
  SondeFunctionNames *found = NULL;
  guint i;

  for (i = 0; i < N_TABLES - 1; i++)
    if (self->tables[i] != NULL && sonde_function_names_module (self->tables[i]) == mapping->module)
      break;
  found = self->tables[i];
  if (found == NULL || sonde_function_names_module (found) != mapping->module)
    {
      if (self->n_loads >= SONDE_REUSED_PLACES_MAX_LOADS)
        return NULL;
      self->n_loads++;
      sonde_function_names_free (found);
      found = sonde_function_names_new (mapping->module, file_name (mapping));
    }
  memmove (&self->tables[1], &self->tables[0], i * sizeof self->tables[0]);
  self->tables[0] = found;

  return found;
}

static char *
find_name (SondeReusedPlaces *self, const SondeMapping *mapping, uint64_t vaddr)
{
  const SondeFunctionNames *table = find_table (self, mapping);
  uint64_t begin, end;

  return table != NULL ? sonde_function_names_find (table, vaddr, &begin, &end)
                       : g_strdup_printf ("%s+0x%" PRIx64, file_name (mapping), vaddr);
}

uint64_t
sonde_reused_places_name (SondeReusedPlaces *self,
                          const SondeMapping *mapping,
                          uint64_t address,
                          gint64 time_ns)
{
  uint64_t vaddr = address - mapping->bias;
  uint32_t module_id;
  g_autofree char *name = NULL;
  Slot *slot;

  /* Its file could not be had: no more than its name is known. */
  if (mapping->module == NULL)
    return sonde_recorder_name (self->recorder, file_name (mapping), time_ns);

  module_id = sonde_module_id (mapping->module);
  slot = &self->cache[((vaddr ^ (uint64_t) module_id << 40) * UINT64_C (0x9E3779B97F4A7C15)) >> 32
                      & (CACHE_SLOTS - 1)];
  if (slot->module_id != module_id || slot->vaddr != vaddr)
    {
      name = find_name (self, mapping, vaddr);
      *slot = (Slot){ module_id, vaddr, sonde_recorder_name (self->recorder, name, time_ns) };
    }

  return slot->made_up;
}
