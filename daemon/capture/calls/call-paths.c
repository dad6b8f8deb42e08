/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/calls/call-paths.h"

#include "base/hash.h"
#include "base/table.h"

/* Of a function below a path; @path is never 0. */
typedef struct
{
  guint64 function;
  guint32 parent;
  guint32 path;
} PathSlot;

G_STATIC_ASSERT (G_STRUCT_OFFSET (PathSlot, path) == G_STRUCT_OFFSET (PathSlot, parent) + 4);

struct SondeCallPaths
{
  SondeTable slots; /* PathSlot */
  GArray *paths;    /* SondeCallPath, number 1 first */
  GArray *of_nodes; /* guint32, by number: paths; 0: not known yet */
};

static uint64_t
hash_path (const void *slot, uint64_t seed)
{
  const PathSlot *path = slot;

  return sonde_hash (sonde_hash (seed, path->function), path->parent);
}

static bool
has_path (const void *slot, uint64_t hash, const void *key)
{
  const PathSlot *path = slot;
  const PathSlot *wanted = key;

  return path->function == wanted->function && path->parent == wanted->parent;
}

static void *
allocate (size_t n, size_t bytes)
{
  return g_malloc0_n (n, bytes);
}

static const SondeTableKind path_slots = { .slot_bytes = sizeof (PathSlot),
                                           .used_at = G_STRUCT_OFFSET (PathSlot, parent),
                                           .n_first_slots = 64,
                                           .max_eighths = 5,
                                           .allocate = allocate,
                                           .hash = hash_path,
                                           .has_key = has_path };

SondeCallPaths *
sonde_call_paths_new (void)
{
  SondeCallPaths *self = g_new0 (SondeCallPaths, 1);

  self->slots.seed = sonde_hash_seed ();
  self->paths = g_array_new (FALSE, FALSE, sizeof (SondeCallPath));
  self->of_nodes = g_array_new (FALSE, TRUE, sizeof (guint32));
  return self;
}

void
sonde_call_paths_free (SondeCallPaths *self)
{
  if (self == NULL)
    return;
  sonde_table_clear (&self->slots);
  g_array_unref (self->paths);
  g_array_unref (self->of_nodes);
  g_free (self);
}

guint32
sonde_call_paths_n (const SondeCallPaths *self)
{
  return self->paths->len;
}

const SondeCallPath *
sonde_call_paths_at (const SondeCallPaths *self, guint32 number)
{
  return &g_array_index (self->paths, SondeCallPath, number - 1);
}

guint32
sonde_call_paths_of_node (const SondeCallPaths *self, guint32 node)
{
  return node < self->of_nodes->len ? g_array_index (self->of_nodes, guint32, node) : 0;
}

guint32
sonde_call_paths_take (SondeCallPaths *self, const SondeTrieChange *change)
{
  PathSlot wanted = { .function = change->function,
                      .parent = sonde_call_paths_of_node (self, change->parent),
                      .path = sonde_call_paths_of_node (self, change->node) };
  const PathSlot *known;

  if (wanted.path != 0)
    return wanted.path;
  known = sonde_table_find (&path_slots, &self->slots, hash_path (&wanted, self->slots.seed),
                            &wanted);
  if (known != NULL)
    wanted.path = known->path;
  else
    {
      const SondeCallPath made = { wanted.parent, wanted.function };

      g_array_append_val (self->paths, made);
      wanted.path = self->paths->len;
      sonde_table_add (&path_slots, &self->slots, &wanted);
    }
  if (change->node >= self->of_nodes->len)
    g_array_set_size (self->of_nodes, change->node + 1);
  g_array_index (self->of_nodes, guint32, change->node) = wanted.path;
  return wanted.path;
}
