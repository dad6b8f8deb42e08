/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/mapping-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Each path once, however many mappings name it. */
typedef struct
{
  size_t n_refs;
  uint64_t hash;
  char text[];
} Path;

static Path *
path_of (const char *text)
{
  return (Path *) (void *) ((char *) (uintptr_t) text - offsetof (Path, text));
}

static size_t
path_bytes (const char *text)
{
  return sizeof (Path) + strlen (text) + 1;
}

static bool
has_text (const void *item, const void *key)
{
  return strcmp (((const Path *) item)->text, key) == 0;
}

/* One reference to the table's copy of @text; NULL on ENOMEM. */
static const char *
intern_path (SondeMappingPool *self, const char *text)
{
  size_t length = strlen (text);
  uint64_t hash = sonde_hash_bytes (text, length);
  Path *path = sonde_item_table_find (&self->paths, hash, has_text, text);

  if (path != NULL)
    {
      path->n_refs++;
      return path->text;
    }

  path = malloc (path_bytes (text));
  if (path == NULL)
    return NULL;
  path->n_refs = 1;
  path->hash = hash;
  memcpy (path->text, text, length + 1);
  if (sonde_item_table_add (&self->paths, hash, path) < 0)
    {
      free (path);
      return NULL;
    }
  self->n_path_bytes += path_bytes (text);
  return path->text;
}

enum
{
  MIN_ALLOCATED = 8,
};

static size_t
list_bytes (const SondeMappingList *self)
{
  return sizeof *self + self->n_allocated * (sizeof *self->mappings + sizeof *self->epochs);
}

SondeMappingList *
sonde_mapping_list_new (SondeMappingPool *pool)
{
  SondeMappingList *self = calloc (1, sizeof *self);

  if (self == NULL)
    return NULL;
  self->pool = pool;
  self->n_refs = 1;
  pool->n_bytes += list_bytes (self);
  return self;
}

SondeMappingList *
sonde_mapping_list_ref (SondeMappingList *self)
{
  self->n_refs++;
  return self;
}

static void
release (SondeProcessMapping *mapping, SondeMappingPool *pool)
{
  Path *path = path_of (mapping->path);

  sonde_module_unref (mapping->module);
  if (--path->n_refs > 0)
    return;
  pool->n_path_bytes -= path_bytes (path->text);
  sonde_item_table_remove (&pool->paths, path->hash, path);
  free (path);
}

void
sonde_mapping_list_unref (SondeMappingList *self)
{
  if (self == NULL || --self->n_refs > 0)
    return;
  for (size_t i = 0; i < self->n_mappings; i++)
    release (&self->mappings[i], self->pool);
  self->pool->n_bytes -= list_bytes (self);
  free (self->mappings);
  free (self->epochs);
  free (self);
}

static int
reserve (SondeMappingList *self, SondeMappingPool *pool, size_t n)
{
  size_t n_allocated = self->n_allocated < MIN_ALLOCATED ? MIN_ALLOCATED : self->n_allocated;
  SondeProcessMapping *mappings;
  uint32_t *epochs;

  if (n <= self->n_allocated)
    return 0;
  while (n_allocated < n)
    n_allocated += n_allocated / 2;

  mappings = reallocarray (self->mappings, n_allocated, sizeof *mappings);
  if (mappings == NULL)
    return -ENOMEM;
  self->mappings = mappings;
  epochs = reallocarray (self->epochs, n_allocated, sizeof *epochs);
  if (epochs == NULL)
    return -ENOMEM;
  self->epochs = epochs;
  pool->n_bytes -= list_bytes (self);
  self->n_allocated = n_allocated;
  pool->n_bytes += list_bytes (self);
  return 0;
}

int
sonde_mapping_list_make_own (SondeMappingList **self, SondeMappingPool *pool)
{
  SondeMappingList *old = *self;
  SondeMappingList *copy;

  if (old != NULL && old->n_refs == 1)
    return 0;
  copy = sonde_mapping_list_new (pool);
  if (copy == NULL)
    return -ENOMEM;
  *self = copy;
  if (old == NULL)
    return 0;
  if (reserve (copy, pool, old->n_mappings + 1) < 0)
    {
      *self = old;
      sonde_mapping_list_unref (copy);
      return -ENOMEM;
    }

  for (size_t i = 0; i < old->n_mappings; i++)
    {
      copy->mappings[i] = old->mappings[i];
      copy->epochs[i] = old->epochs[i];
      path_of (copy->mappings[i].path)->n_refs++;
      if (copy->mappings[i].module != NULL)
        sonde_module_ref (copy->mappings[i].module);
    }
  copy->n_mappings = old->n_mappings;
  copy->modules_serial = old->modules_serial;
  copy->store_serial = old->store_serial;
  sonde_mapping_list_unref (old);
  return 0;
}

/* The first mapping that ends behind @address. */
static size_t
first_behind (const SondeMappingList *self, uint64_t address)
{
  size_t low = 0;
  size_t high = self->n_mappings;

  while (low < high)
    {
      size_t middle = low + (high - low) / 2;

      if (self->mappings[middle].end > address)
        high = middle;
      else
        low = middle + 1;
    }
  return low;
}

SondeProcessMapping *
sonde_mapping_list_find (const SondeMappingList *self, uint64_t address)
{
  size_t i;

  if (self == NULL)
    return NULL;
  i = first_behind (self, address);
  return i < self->n_mappings && self->mappings[i].start <= address ? &self->mappings[i] : NULL;
}

bool
sonde_mapping_list_has_equal (const SondeMappingList *self, const SondeProcessMapping *mapping)
{
  const SondeProcessMapping *other = sonde_mapping_list_find (self, mapping->start);

  return other != NULL && other->start == mapping->start && other->end == mapping->end
         && other->offset == mapping->offset && other->file.inode == mapping->file.inode
         && other->file.dev_major == mapping->file.dev_major
         && other->file.dev_minor == mapping->file.dev_minor
         && (other->file.generation == mapping->file.generation || other->file.generation == 0
             || mapping->file.generation == 0)
         && strcmp (other->path, mapping->path) == 0;
}

/* Room was reserved; the references in @mapping become the list's. */
static void
insert_at (SondeMappingList *self, size_t i, const SondeProcessMapping *mapping, uint32_t epoch)
{
  size_t n_behind = self->n_mappings - i;

  memmove (&self->mappings[i + 1], &self->mappings[i], n_behind * sizeof *self->mappings);
  memmove (&self->epochs[i + 1], &self->epochs[i], n_behind * sizeof *self->epochs);
  self->mappings[i] = *mapping;
  self->epochs[i] = epoch;
  self->n_mappings++;
}

static int
add_piece (SondeMappingList *self,
           SondeMappingPool *pool,
           const SondeProcessMapping *mapping,
           uint64_t start,
           uint64_t end,
           uint32_t epoch)
{
  SondeProcessMapping piece = *mapping;

  if (self->n_mappings >= SONDE_PROCESS_MAX_MAPPINGS)
    return -ENOSPC;
  if (reserve (self, pool, self->n_mappings + 1) < 0)
    return -ENOMEM;
  piece.path = intern_path (pool, mapping->path);
  if (piece.path == NULL)
    return -ENOMEM;
  piece.start = start;
  piece.end = end;
  piece.offset += start - mapping->start;
  piece.module = NULL;
  piece.bias = 0;
  insert_at (self, first_behind (self, start), &piece, epoch);
  self->store_serial = 0; /* look for its module */
  return 1;
}

/* Cuts a hole into one mapping. At the cap its upper part is lost rather than the cap broken. */
static int
split (SondeMappingList *self, SondeMappingPool *pool, size_t i, uint64_t start, uint64_t end)
{
  SondeProcessMapping upper;

  if (self->n_mappings < SONDE_PROCESS_MAX_MAPPINGS)
    {
      if (reserve (self, pool, self->n_mappings + 1) < 0)
        return -ENOMEM;
      upper = self->mappings[i];
      upper.offset += end - upper.start;
      upper.start = end;
      path_of (upper.path)->n_refs++;
      if (upper.module != NULL)
        sonde_module_ref (upper.module);
      insert_at (self, i + 1, &upper, self->epochs[i]);
    }
  self->mappings[i].end = start;
  return 0;
}

static int
cut (SondeMappingList *self, SondeMappingPool *pool, uint64_t start, uint64_t end)
{
  size_t from = first_behind (self, start);
  size_t to, n_behind;

  if (from < self->n_mappings && self->mappings[from].start < start)
    {
      if (self->mappings[from].end > end)
        return split (self, pool, from, start, end);
      self->mappings[from++].end = start;
    }
  for (to = from; to < self->n_mappings && self->mappings[to].end <= end; to++)
    ;
  if (to < self->n_mappings && self->mappings[to].start < end)
    {
      self->mappings[to].offset += end - self->mappings[to].start;
      self->mappings[to].start = end;
    }
  if (from == to)
    return 0;
  n_behind = self->n_mappings - to;
  for (size_t i = from; i < to; i++)
    release (&self->mappings[i], pool);
  memmove (&self->mappings[from], &self->mappings[to], n_behind * sizeof *self->mappings);
  memmove (&self->epochs[from], &self->epochs[to], n_behind * sizeof *self->epochs);
  self->n_mappings = from + n_behind;
  return 0;
}

int
sonde_mapping_list_replace (SondeMappingList *self,
                            SondeMappingPool *pool,
                            const SondeProcessMapping *mapping,
                            uint32_t epoch)
{
  int r = cut (self, pool, mapping->start, mapping->end);

  return r < 0 ? r : add_piece (self, pool, mapping, mapping->start, mapping->end, epoch);
}

int
sonde_mapping_list_fill (SondeMappingList *self,
                         SondeMappingPool *pool,
                         const SondeProcessMapping *mapping,
                         uint32_t epoch)
{
  uint64_t position = mapping->start;
  int added = 0;

  while (position < mapping->end)
    {
      size_t i = first_behind (self, position);
      bool is_last = i == self->n_mappings || self->mappings[i].start >= mapping->end;
      uint64_t gap_end = is_last ? mapping->end : self->mappings[i].start;
      uint64_t next = is_last ? mapping->end : self->mappings[i].end;

      if (gap_end > position)
        {
          int r = add_piece (self, pool, mapping, position, gap_end, epoch);

          if (r < 0)
            return r;
          added = 1;
        }
      position = next;
    }
  return added;
}

bool
sonde_mapping_list_has_older (const SondeMappingList *self, uint32_t epoch)
{
  for (size_t i = 0; self != NULL && i < self->n_mappings; i++)
    if (self->epochs[i] < epoch)
      return true;
  return false;
}

void
sonde_mapping_list_drop_older (SondeMappingList *self, SondeMappingPool *pool, uint32_t epoch)
{
  size_t n_kept = 0;

  for (size_t i = 0; i < self->n_mappings; i++)
    {
      if (self->epochs[i] < epoch)
        {
          release (&self->mappings[i], pool);
          continue;
        }
      self->mappings[n_kept] = self->mappings[i];
      self->epochs[n_kept++] = self->epochs[i];
    }
  self->n_mappings = n_kept;
}

const SondeProcessMapping *
sonde_process_mappings (const SondeProcess *self, size_t *n_mappings)
{
  const SondeMappingList *list = sonde_process_mapping_list (self);

  *n_mappings = list != NULL ? list->n_mappings : 0;
  return list != NULL ? list->mappings : NULL;
}
