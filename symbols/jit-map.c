/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols/jit-map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* A node of a treap: ordered by begin, a heap by priorities that nobody can foresee, so that no
 * program can make it deep. Codes do not overlap. */
typedef struct
{
  uint64_t begin;
  uint64_t end;
  uint64_t mark;
  uint32_t name;  /* offset of its NameHeader */
  uint32_t left;  /* indices; 0: none */
  uint32_t right; /* of a free one: unused; left is the next free one */
  uint32_t priority;
} JitNode;

/* What is there from a later time on. */
typedef struct
{
  uint64_t begin;
  uint64_t end;
  uint64_t from; /* of a move */
  int64_t since_ns;
  uint32_t name; /* 0: it is a move */
} JitWaiting;

/* A code, and the rest of one that it lies in. */
#define NODES_A_CODE    2

#define BYTES_A_WAITING (sizeof (JitWaiting) + NODES_A_CODE * sizeof (JitNode))

/* Before each name. */
typedef struct
{
  uint32_t moved_to; /* while names are packed; else 0 */
} NameHeader;

struct SondeJitMap
{
  size_t max_bytes;
  uint64_t random;

  JitNode *nodes; /* the first one is never used */
  uint32_t n_nodes;
  uint32_t n_nodes_allocated;
  uint32_t n_used;
  uint32_t first_free; /* 0: none */
  uint32_t root;       /* 0: none */

  int64_t asked_ns;    /* the latest time that was */
  JitWaiting *waiting; /* from first_waiting on, in the order of time */
  size_t first_waiting;
  size_t n_waiting; /* those before the first included */
  size_t n_waiting_allocated;

  char *names; /* the first bytes are none, so that no name is at 0 */
  size_t names_size;
  size_t names_allocated;
  size_t packed_size; /* what was left when they were packed last */
};

SondeJitMap *
sonde_jit_map_new (size_t max_bytes)
{
  SondeJitMap *self = calloc (1, sizeof *self);

  if (self == NULL)
    return NULL;
  self->max_bytes = max_bytes;
  self->random = sonde_hash_seed () | 1;
  self->names_size = sizeof (NameHeader);
  self->n_nodes = 1;
  self->asked_ns = INT64_MIN;
  return self;
}

void
sonde_jit_map_free (SondeJitMap *self)
{
  if (self == NULL)
    return;
  free (self->nodes);
  free (self->waiting);
  free (self->names);
  free (self);
}

size_t
sonde_jit_map_n_entries (const SondeJitMap *self)
{
  return self->n_used + self->n_waiting - self->first_waiting;
}

size_t
sonde_jit_map_bytes (const SondeJitMap *self)
{
  return self->n_nodes * sizeof (JitNode) + self->names_size
         + (self->n_waiting - self->first_waiting) * BYTES_A_WAITING;
}

/* --- the tree --- */

static uint32_t
next_random (SondeJitMap *self)
{
  self->random ^= self->random << 13;
  self->random ^= self->random >> 7;
  self->random ^= self->random << 17;
  return (uint32_t) (self->random >> 32);
}

/* Room for as many nodes as one more and all that wait can need, so that none is made in a look-up.
 */
static int
ensure_nodes (SondeJitMap *self)
{
  size_t n_wanted = self->n_nodes + NODES_A_CODE * (self->n_waiting - self->first_waiting + 1);
  JitNode *nodes;
  uint32_t n;

  if (n_wanted <= self->n_nodes_allocated)
    return 0;
  if (n_wanted > UINT32_MAX / 4)
    return -ENOSPC;
  n = (uint32_t) n_wanted * 2;
  nodes = reallocarray (self->nodes, n, sizeof *nodes);
  if (nodes == NULL)
    return -ENOMEM;
  self->nodes = nodes;
  self->n_nodes_allocated = n;
  return 0;
}

static uint32_t
new_node (SondeJitMap *self, uint64_t begin, uint64_t end, uint32_t name, uint64_t mark)
{
  uint32_t index = self->first_free;

  if (index != 0)
    self->first_free = self->nodes[index].left;
  else
    index = self->n_nodes++;
  self->nodes[index] = (JitNode){
    .begin = begin, .end = end, .mark = mark, .name = name, .priority = next_random (self)
  };
  self->n_used++;
  return index;
}

static void
free_nodes (SondeJitMap *self, uint32_t index)
{
  JitNode *node;

  if (index == 0)
    return;
  node = &self->nodes[index];
  free_nodes (self, node->left);
  free_nodes (self, node->right);
  node->left = self->first_free;
  self->first_free = index;
  self->n_used--;
}

/* @low: what begins before @key; @high: the rest */
static void
split (SondeJitMap *self, uint32_t tree, uint64_t key, uint32_t *low, uint32_t *high)
{
  JitNode *node;

  *low = *high = 0;
  if (tree == 0)
    return;
  node = &self->nodes[tree];
  if (node->begin < key)
    {
      split (self, node->right, key, &node->right, high);
      *low = tree;
    }
  else
    {
      split (self, node->left, key, low, &node->left);
      *high = tree;
    }
}

/* All of @low is before all of @high. */
static uint32_t
join (SondeJitMap *self, uint32_t low, uint32_t high)
{
  if (low == 0 || high == 0)
    return low != 0 ? low : high;
  if (self->nodes[low].priority > self->nodes[high].priority)
    {
      self->nodes[low].right = join (self, self->nodes[low].right, high);
      return low;
    }
  self->nodes[high].left = join (self, low, self->nodes[high].left);
  return high;
}

/* NULL: the tree is empty. */
static JitNode *
last_of (SondeJitMap *self, uint32_t tree)
{
  while (tree != 0 && self->nodes[tree].right != 0)
    tree = self->nodes[tree].right;
  return tree != 0 ? &self->nodes[tree] : NULL;
}

/* NULL: there is none. */
static JitNode *
find_node (SondeJitMap *self, uint64_t address)
{
  uint32_t at = self->root;

  while (at != 0)
    {
      JitNode *node = &self->nodes[at];

      if (address >= node->begin && address < node->end)
        return node;
      at = address < node->begin ? node->left : node->right;
    }
  return NULL;
}

/* There is room for two nodes. */
static void
put (SondeJitMap *self, uint64_t begin, uint64_t end, uint32_t name)
{
  JitNode *before, *last;
  uint32_t low, inside, high;
  uint32_t rest = 0;

  split (self, self->root, begin, &low, &inside);
  split (self, inside, end, &inside, &high);
  before = last_of (self, low);
  last = last_of (self, inside);
  if (last == NULL || last->end <= end)
    last = before != NULL && before->end > end ? before : NULL;
  if (last != NULL)
    {
      const JitNode cut = *last;

      rest = new_node (self, end, cut.end, cut.name, cut.mark);
    }
  if (before != NULL && before->end > begin)
    before->end = begin;
  free_nodes (self, inside);
  low = join (self, low, new_node (self, begin, end, name, 0));
  self->root = join (self, join (self, low, rest), high);
}

/* --- names --- */

static uint32_t
pack_name (SondeJitMap *self, char *packed, size_t *packed_size, uint32_t name)
{
  NameHeader header;
  size_t size_bytes;

  memcpy (&header, self->names + name, sizeof header);
  if (header.moved_to != 0)
    return header.moved_to;
  size_bytes = sizeof header + strlen (self->names + name + sizeof header) + 1;
  memcpy (packed + *packed_size, self->names + name, size_bytes);
  header.moved_to = (uint32_t) *packed_size;
  memcpy (self->names + name, &header, sizeof header);
  *packed_size += size_bytes;
  return header.moved_to;
}

static void
pack_names_of (SondeJitMap *self, char *packed, size_t *packed_size, uint32_t tree)
{
  if (tree == 0)
    return;
  self->nodes[tree].name = pack_name (self, packed, packed_size, self->nodes[tree].name);
  pack_names_of (self, packed, packed_size, self->nodes[tree].left);
  pack_names_of (self, packed, packed_size, self->nodes[tree].right);
}

/* Drops the names of code that is not there any more. */
static int
pack_names (SondeJitMap *self)
{
  char *packed = malloc (self->names_size);
  size_t size = sizeof (NameHeader);

  if (packed == NULL)
    return -ENOMEM;
  memset (packed, 0, size);
  pack_names_of (self, packed, &size, self->root);
  for (size_t i = self->first_waiting; i < self->n_waiting; i++)
    if (self->waiting[i].name != 0)
      self->waiting[i].name = pack_name (self, packed, &size, self->waiting[i].name);
  free (self->names);
  self->names = packed;
  self->names_allocated = self->names_size;
  self->names_size = self->packed_size = size;
  return 0;
}

/* Whether as much more may be kept. Packing costs time, so it is done again when there is a good
 * deal more to be dropped. */
static int
ensure_bound (SondeJitMap *self, size_t more_bytes)
{
  int r;

  if (more_bytes <= self->max_bytes && sonde_jit_map_bytes (self) <= self->max_bytes - more_bytes)
    return 0;
  if (self->names_size - self->packed_size < self->max_bytes / 8)
    return -ENOSPC;
  r = pack_names (self);
  if (r < 0)
    return r;
  return sonde_jit_map_bytes (self) <= self->max_bytes - more_bytes ? 0 : -ENOSPC;
}

static int
add_name (SondeJitMap *self, const char *name, size_t length, uint32_t *offset)
{
  const NameHeader header = { 0 };
  size_t size_bytes = sizeof header + length + 1;
  char *at;

  if (size_bytes > self->names_allocated - self->names_size || self->names == NULL)
    {
      size_t n_allocated = self->names_allocated * 2 + 2 * SONDE_JIT_MAP_MAX_NAME;
      char *names = n_allocated <= UINT32_MAX ? realloc (self->names, n_allocated) : NULL;

      if (names == NULL)
        return -ENOMEM;
      self->names = names;
      self->names_allocated = n_allocated;
    }
  at = self->names + self->names_size;
  *offset = (uint32_t) self->names_size;
  memcpy (at, &header, sizeof header);
  memcpy (at + sizeof header, name, length);
  at[sizeof header + length] = '\0';
  self->names_size += size_bytes;
  return 0;
}

/* --- time --- */

static int
wait (SondeJitMap *self, JitWaiting added)
{
  /* Those that are over go when they are half of all, so that each is moved once. */
  if (self->first_waiting > 0 && self->first_waiting >= self->n_waiting / 2)
    {
      self->n_waiting -= self->first_waiting;
      memmove (self->waiting, self->waiting + self->first_waiting,
               self->n_waiting * sizeof *self->waiting);
      self->first_waiting = 0;
    }
  if (self->n_waiting == self->n_waiting_allocated)
    {
      size_t n_allocated = self->n_waiting_allocated * 2 + 64;
      JitWaiting *waiting = reallocarray (self->waiting, n_allocated, sizeof *waiting);

      if (waiting == NULL)
        return -ENOMEM;
      self->waiting = waiting;
      self->n_waiting_allocated = n_allocated;
    }
  if (self->n_waiting > self->first_waiting
      && added.since_ns < self->waiting[self->n_waiting - 1].since_ns)
    added.since_ns = self->waiting[self->n_waiting - 1].since_ns;
  self->waiting[self->n_waiting++] = added;
  return 0;
}

/* What is there by then. */
static void
settle (SondeJitMap *self, int64_t time_ns)
{
  while (self->first_waiting < self->n_waiting
         && self->waiting[self->first_waiting].since_ns <= time_ns)
    {
      const JitWaiting *next = &self->waiting[self->first_waiting];
      const JitNode *moved = next->name == 0 ? find_node (self, next->from) : NULL;
      uint32_t name = moved != NULL ? moved->name : next->name;

      /* Their room was made when they came. */
      if (name != 0)
        put (self, next->begin, next->end, name);
      self->first_waiting++;
    }
}

static int
add (SondeJitMap *self, JitWaiting added, const char *name, size_t length)
{
  int r = ensure_bound (self, BYTES_A_WAITING + sizeof (NameHeader) + length + 1);

  if (r == 0)
    r = ensure_nodes (self);
  if (r == 0 && name != NULL)
    r = add_name (self, name, length, &added.name);
  if (r == 0)
    r = wait (self, added);
  if (r == 0)
    settle (self, self->asked_ns);
  return r;
}

int
sonde_jit_map_add (SondeJitMap *self,
                   uint64_t begin,
                   uint64_t size,
                   const char *name,
                   size_t length,
                   int64_t since_ns)
{
  if (size == 0 || size > UINT64_MAX - begin || length == 0 || memchr (name, '\0', length) != NULL)
    return -EINVAL;
  if (length > SONDE_JIT_MAP_MAX_NAME)
    length = SONDE_JIT_MAP_MAX_NAME;
  return add (self, (JitWaiting){ begin, begin + size, 0, since_ns, 0 }, name, length);
}

int
sonde_jit_map_move (
    SondeJitMap *self, uint64_t from, uint64_t begin, uint64_t size, int64_t since_ns)
{
  if (size == 0 || size > UINT64_MAX - begin)
    return -EINVAL;
  return add (self, (JitWaiting){ begin, begin + size, from, since_ns, 0 }, NULL, 0);
}

bool
sonde_jit_map_lookup (SondeJitMap *self, uint64_t address, int64_t time_ns, SondeJitCode *code)
{
  JitNode *node;

  if (self->asked_ns < time_ns)
    self->asked_ns = time_ns;
  settle (self, self->asked_ns);
  node = find_node (self, address);
  if (node == NULL)
    return false;
  *code = (SondeJitCode){ node->begin, node->end, self->names + node->name + sizeof (NameHeader),
                          &node->mark };
  return true;
}
