/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/trie-writer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "shared-ring/ring-atomic.h"
#include "shared-ring/trie-gaps.h"

#define LIKELY(condition)   __builtin_expect (!!(condition), true)
#define UNLIKELY(condition) __builtin_expect (!!(condition), false)
#define HOT                 static inline __attribute__ ((always_inline))
#define RARE                static __attribute__ ((noinline, cold))

/* Callees of a path are found by a table that holds about as many paths as programs have; lists of
 * them are behind it. */
#define TABLE_BITS 12
#define TABLE_SIZE (1u << TABLE_BITS)

/* Other stacks than the thread's own, and that. */
#define MAX_STACKS 64u

/* So many calls of a path are timed whatever comes. */
#define FIRST_CALLS 8u

/* One in so many hooks is timed itself. What took longer was interrupted. */
#define HOOK_MASK      63u
#define MAX_HOOK_TICKS 400u

/* Of a stack that nobody knows: where it is, about. */
#define UNKNOWN_STACK_MASK UINT64_C (0xffff)

/* Of the frame above a stack's first call. */
#define NO_SP      UINT64_MAX

#define MEAN_SHIFT 3

/* Where the next entry of a kind goes. */
typedef struct
{
  SondeTrieSlab *slab; /* NULL: none yet */
  uint32_t n_used;
} Cursor;

typedef struct
{
  SondeTrieRange range; /* of size 0: free */
  uint32_t first_slab;  /* a line; 0: none */
  SondeTrieFrame *top;
  uint64_t last_used; /* in calls */
} Stack;

struct SondeTrieWriter
{
  uint64_t busy; /* the stack pointer of the hook that is running; 0: none */
  uint8_t *base;
  SondeTrieHeader *header;
  SondeTrieSlot *slot;
  SondeTrieFrame *top;
  SondeTrieFrame *first; /* of the slab that @top is in */
  SondeTrieFrame *end;   /* no frame fits there */
  uint64_t stack_lo;
  uint64_t stack_bytes;
  uint64_t (*read_clock) (void);
  uint64_t random;
  uint64_t hook_mask;
  uint64_t timed_from;
  uint64_t timed_until;
  uint32_t epoch;
  uint32_t mode;
  uint32_t gap;          /* the call that is timed next, counted from here */
  uint32_t sample_every; /* and what it stands for */
  uint32_t max_depth;
  uint32_t slab_depth; /* of frames in the slabs before */
  uint32_t n_over;     /* calls without a frame that have not returned */
  uint32_t number;     /* of the slot */
  uint32_t is_taken;
  uint32_t stack; /* in @stacks */
  SondeTrieWriter *second;
  SondeTrie *trie;
  Cursor nodes, timings, octaves;
  uint32_t table[TABLE_SIZE];
  uint16_t gaps[SONDE_TRIE_N_GAPS];
  Stack stacks[MAX_STACKS];
};

struct SondeTrie
{
  SondeTrieMemory memory;
  SondeTrieUser user;
  size_t size_bytes;          /* of this struct */
  SondeTrieWriter *writers[]; /* by slot */
};

/* --- memory --- */

static void *
map_private (size_t size_bytes)
{
  int saved_errno = errno;
  void *memory
      = mmap (NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  errno = saved_errno;
  return memory != MAP_FAILED ? memory : NULL;
}

int
sonde_trie_new (SondeTrieMemory *memory, const SondeTrieUser *user, SondeTrie **self)
{
  size_t size_bytes = sizeof (SondeTrie) + memory->geometry.max_slots * sizeof (SondeTrieWriter *);
  SondeTrie *made = map_private (size_bytes);

  if (made == NULL)
    return -ENOMEM;

  made->memory = *memory;
  made->user = *user;
  made->size_bytes = size_bytes;
  memset (memory, 0, sizeof *memory);
  *self = made;
  return 0;
}

void
sonde_trie_free (SondeTrie *self)
{
  if (self == NULL)
    return;

  for (uint32_t i = 0; i < self->memory.geometry.max_slots; i++)
    if (self->writers[i] != NULL)
      munmap (self->writers[i], sizeof *self->writers[i]);
  sonde_trie_memory_unmap (&self->memory);
  munmap (self, self->size_bytes);
}

void
sonde_trie_lose (SondeTrie *self)
{
  sonde_ring_add (&self->memory.header->lost_threads, 1);
}

HOT void *
at_line (const SondeTrieWriter *self, uint32_t line)
{
  return self->base + (size_t) line * SONDE_TRIE_LINE_BYTES;
}

HOT uint32_t
line_of (const SondeTrieWriter *self, const void *place)
{
  return (uint32_t) ((size_t) ((const uint8_t *) place - self->base) / SONDE_TRIE_LINE_BYTES);
}

HOT SondeTrieNode *
node_at (const SondeTrieWriter *self, uint32_t node)
{
  return (SondeTrieNode *) (void *) (self->base + (size_t) node * SONDE_TRIE_NODE_BYTES);
}

/* A word that only its thread writes. */
HOT void
grow (uint64_t *word, uint64_t by)
{
  sonde_ring_store_relaxed (word, *word + by);
}

/* Looks before it counts: a counter that goes on for refused ones would come round. */
static SondeTrieSlab *
take_slab (SondeTrieWriter *self, SondeTrieSlabKind kind)
{
  const SondeTrieGeometry *geometry = &self->trie->memory.geometry;
  SondeTrieSlab *slab;
  uint32_t i;

  if (sonde_ring_load_relaxed (&self->header->n_slabs) >= geometry->max_slabs)
    return NULL;
  i = __atomic_fetch_add (&self->header->n_slabs, 1, __ATOMIC_RELAXED);
  if (i >= geometry->max_slabs)
    return NULL;

  slab = at_line (self, geometry->slabs_at + i * SONDE_TRIE_SLAB_LINES);
  sonde_ring_store_relaxed (&slab->slot, self->number);
  sonde_ring_store_release (&slab->kind, (uint32_t) kind);
  return slab;
}

/* Returns: where an entry goes that is there after publish(), or NULL */
static void *
reserve (SondeTrieWriter *self, Cursor *cursor, SondeTrieSlabKind kind, size_t size, uint32_t max)
{
  if (cursor->slab == NULL || cursor->n_used == max)
    {
      SondeTrieSlab *slab = take_slab (self, kind);

      if (slab == NULL)
        return NULL;
      *cursor = (Cursor){ slab, 0 };
    }
  return (uint8_t *) (cursor->slab + 1) + cursor->n_used * size;
}

/* Pairs with the acquire of the reader that copies a slab's head. */
static void
publish (Cursor *cursor)
{
  cursor->n_used++;
  sonde_ring_store_release (&cursor->slab->n_used, cursor->n_used);
}

/* --- paths --- */

HOT uint32_t
hash (uint32_t parent, uint64_t function)
{
  uint64_t word = (function ^ (uint64_t) parent << 40 ^ parent) * UINT64_C (0x9E3779B97F4A7C15);

  return (uint32_t) (word >> (64 - TABLE_BITS));
}

/* Returns: 0 if there is no room */
static uint32_t
make_node (SondeTrieWriter *self, uint32_t parent, uint64_t function)
{
  SondeTrieNode *node = reserve (self, &self->nodes, SONDE_TRIE_NODES, sizeof (SondeTrieNode),
                                 SONDE_TRIE_SLAB_NODES);
  uint32_t number;

  if (node == NULL)
    return 0;

  number = (uint32_t) ((size_t) ((uint8_t *) node - self->base) / SONDE_TRIE_NODE_BYTES);
  sonde_ring_store_relaxed (&node->function, function);
  sonde_ring_store_relaxed (&node->parent, parent);
  if (parent != 0)
    {
      node->sibling = node_at (self, parent)->first_child;
      node_at (self, parent)->first_child = number;
    }
  publish (&self->nodes);
  return number;
}

/* Behind the table. */
RARE uint32_t
find_callee (SondeTrieWriter *self, uint32_t parent, uint64_t function)
{
  uint32_t number = node_at (self, parent)->first_child;

  while (number != 0 && node_at (self, number)->function != function)
    number = node_at (self, number)->sibling;
  if (number == 0)
    number = make_node (self, parent, function);
  if (number != 0)
    self->table[hash (parent, function)] = number;
  return number;
}

HOT uint32_t
look_up (SondeTrieWriter *self, uint32_t parent, uint64_t function)
{
  uint32_t number = self->table[hash (parent, function)];
  const SondeTrieNode *node = node_at (self, number);

  if (LIKELY (node->function == function && node->parent == parent))
    return number;
  return parent != 0 ? find_callee (self, parent, function) : 0;
}

/* --- shadow stacks --- */

HOT SondeTrieSlab *
slab_of (const SondeTrieWriter *self, const SondeTrieFrame *frame)
{
  size_t offset = (size_t) ((const uint8_t *) frame - self->base);

  return (SondeTrieSlab *) (void *) (self->base + (offset - offset % SONDE_TRIE_SLAB_BYTES));
}

static void
use_slab (SondeTrieWriter *self, SondeTrieSlab *slab, uint32_t depth)
{
  /* The frame below the first call counts, too. */
  uint32_t room = self->max_depth + 1 > depth ? self->max_depth + 1 - depth : 0;

  self->slab_depth = depth;
  self->first = (SondeTrieFrame *) (slab + 1);
  self->end = self->first + (room < SONDE_TRIE_SLAB_FRAMES ? room : SONDE_TRIE_SLAB_FRAMES);
}

HOT void
set_top (SondeTrieWriter *self, SondeTrieFrame *top)
{
  self->top = top;
  /* Pairs with the acquire of who looks where the program was. */
  sonde_ring_store_release (&self->slot->top, line_of (self, top));
}

/* Returns: where a frame goes that has no room in this slab; NULL if there is none */
RARE SondeTrieFrame *
deepen (SondeTrieWriter *self)
{
  SondeTrieSlab *slab = slab_of (self, self->first);
  SondeTrieSlab *next = slab->next != 0 ? at_line (self, slab->next) : NULL;

  if (self->end - self->first < (ptrdiff_t) SONDE_TRIE_SLAB_FRAMES
      || self->slab_depth + SONDE_TRIE_SLAB_FRAMES > self->max_depth)
    {
      grow (&self->slot->lost_depth, 1);
      return NULL;
    }
  if (next == NULL)
    {
      next = take_slab (self, SONDE_TRIE_FRAMES);
      if (next == NULL)
        {
          grow (&self->slot->lost_budget, 1);
          return NULL;
        }
      sonde_ring_store_relaxed (&next->previous, line_of (self, slab));
      slab->next = line_of (self, next);
    }
  use_slab (self, next, self->slab_depth + SONDE_TRIE_SLAB_FRAMES);
  return self->first;
}

/* The frame above one that is the first of its slab. */
static SondeTrieFrame *
ascend (const SondeTrieWriter *self, const SondeTrieFrame *frame)
{
  SondeTrieSlab *slab = at_line (self, slab_of (self, frame)->previous);

  return (SondeTrieFrame *) (slab + 1) + SONDE_TRIE_SLAB_FRAMES - 1;
}

HOT SondeTrieFrame *
above (SondeTrieWriter *self, SondeTrieFrame *frame)
{
  if (LIKELY (frame != self->first))
    return frame - 1;
  frame = ascend (self, frame);
  use_slab (self, slab_of (self, frame), self->slab_depth - SONDE_TRIE_SLAB_FRAMES);
  return frame;
}

static void
init_stack (SondeTrieWriter *self, Stack *stack, const SondeTrieRange *range, uint32_t node)
{
  SondeTrieFrame *frame = (SondeTrieFrame *) at_line (self, stack->first_slab + 1);

  stack->range = *range;
  stack->top = frame;
  sonde_ring_store_relaxed (&frame->sp, NO_SP);
  sonde_ring_store_relaxed (&frame->function, 0);
  sonde_ring_store_relaxed (&frame->node, node);
  sonde_ring_store_relaxed (&frame->weight, 0);
}

static void
use_stack (SondeTrieWriter *self, Stack *stack)
{
  SondeTrieSlab *slab = slab_of (self, stack->top);
  uint32_t depth = 0;

  for (uint32_t line = slab->previous; line != 0;
       line = ((SondeTrieSlab *) at_line (self, line))->previous)
    depth += SONDE_TRIE_SLAB_FRAMES;
  self->stack = (uint32_t) (stack - self->stacks);
  self->stack_lo = stack->range.lo;
  self->stack_bytes = stack->range.size_bytes;
  self->n_over = 0;
  use_slab (self, slab, depth);
  set_top (self, stack->top);
}

/* One that was never used, or was not for the longest time. The thread's own stays. */
static Stack *
choose_stack (SondeTrieWriter *self)
{
  Stack *oldest = NULL;

  for (uint32_t i = 1; i < MAX_STACKS; i++)
    {
      Stack *stack = &self->stacks[i];

      if (i == self->stack)
        continue;
      if (stack->range.size_bytes == 0)
        return stack;
      if (oldest == NULL || stack->last_used < oldest->last_used)
        oldest = stack;
    }
  return oldest;
}

/* Returns: the one that @sp is on, or one that becomes it */
static Stack *
find_stack (SondeTrieWriter *self, uint64_t sp, SondeTrieRange *range)
{
  for (uint32_t i = 0; i < MAX_STACKS; i++)
    if (sp - self->stacks[i].range.lo < self->stacks[i].range.size_bytes)
      return &self->stacks[i];
  if (self->trie->user.find_stack == NULL || !self->trie->user.find_stack (sp, range)
      || sp - range->lo >= range->size_bytes)
    *range = (SondeTrieRange){ sp & ~UNKNOWN_STACK_MASK, 2 * (UNKNOWN_STACK_MASK + 1) };

  /* A stack grows, downwards. Others may be in the same mapping. */
  for (uint32_t i = 0; i < MAX_STACKS; i++)
    {
      SondeTrieRange *known = &self->stacks[i].range;
      uint64_t end = range->lo + range->size_bytes;

      if (known->size_bytes == 0 || known->lo >= end || known->lo < range->lo)
        continue;
      if (known->lo + known->size_bytes == end)
        {
          *known = *range;
          return &self->stacks[i];
        }
      if (known->lo > sp)
        range->size_bytes = known->lo - range->lo;
      else
        *range = (SondeTrieRange){ known->lo + known->size_bytes,
                                   end - known->lo - known->size_bytes };
    }
  return choose_stack (self);
}

/* A stack begins where it was first entered, and keeps that path however often the program leaves
 * it and comes back. Returns: false: there is no room for its frames */
RARE bool
switch_stack (SondeTrieWriter *self, uint64_t sp)
{
  SondeTrieRange range;
  Stack *stack = find_stack (self, sp, &range);

  if (sp - stack->range.lo >= stack->range.size_bytes)
    {
      if (stack->first_slab == 0)
        {
          SondeTrieSlab *slab = take_slab (self, SONDE_TRIE_FRAMES);

          if (slab == NULL)
            return false;
          stack->first_slab = line_of (self, slab);
        }
      if (stack->range.size_bytes > 0)
        grow (&self->slot->lost_stacks, 1);
      init_stack (self, stack, &range, self->top->node);
    }
  self->stacks[self->stack].top = self->top;
  self->stacks[self->stack].last_used = self->slot->calls;
  use_stack (self, stack);
  return true;
}

/* --- time --- */

HOT uint64_t
now (const SondeTrieWriter *self)
{
#if defined(__x86_64__)
  if (LIKELY (self->read_clock == NULL))
    return __builtin_ia32_rdtsc ();
#elif defined(__aarch64__)
  if (LIKELY (self->read_clock == NULL))
    {
      uint64_t ticks;

      __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
      return ticks;
    }
#endif
  return self->read_clock ();
}

static uint32_t
draw_gap (SondeTrieWriter *self)
{
  self->random ^= self->random << 13;
  self->random ^= self->random >> 7;
  self->random ^= self->random << 17;
  return self->gaps[self->random >> 54];
}

/* How many calls this one stands for; 0: it is not timed. It follows from earlier calls alone: so
 * sums are right on average. */
HOT uint32_t
decide (SondeTrieWriter *self, const SondeTrieNode *node)
{
  if (self->mode != SONDE_TRIE_AUTO)
    return self->mode == SONDE_TRIE_EXACT;
  if (UNLIKELY (node->calls <= FIRST_CALLS || (node->timing & SONDE_TRIE_TIMED_EACH) != 0))
    return 1;
  if (LIKELY (--self->gap != 0))
    return 0;
  self->gap = draw_gap (self);
  return self->sample_every;
}

/* Returns: NULL if there is no room */
static SondeTrieTiming *
get_timing (SondeTrieWriter *self, SondeTrieNode *node)
{
  uint32_t line = node->timing & ~SONDE_TRIE_TIMED_EACH;
  SondeTrieTiming *timing;

  if (LIKELY (line != 0))
    return at_line (self, line);

  timing
      = reserve (self, &self->timings, SONDE_TRIE_TIMINGS, sizeof *timing, SONDE_TRIE_SLAB_TIMINGS);
  if (timing == NULL)
    return NULL;
  publish (&self->timings);
  /* Pairs with the acquire of the reader: what the line says is there. */
  sonde_ring_store_release (&node->timing, line_of (self, timing));
  return timing;
}

static uint32_t *
get_bucket (SondeTrieWriter *self, SondeTrieTiming *timing, uint64_t ticks)
{
  uint32_t bucket = sonde_trie_bucket (ticks);
  uint32_t *line = &timing->octaves[bucket / SONDE_TRIE_N_BUCKETS];
  SondeTrieOctave *octave;

  if (UNLIKELY (*line == 0))
    {
      octave = reserve (self, &self->octaves, SONDE_TRIE_OCTAVES, sizeof *octave,
                        SONDE_TRIE_SLAB_OCTAVES);
      if (octave == NULL)
        return NULL;
      publish (&self->octaves);
      sonde_ring_store_release (line, line_of (self, octave));
    }
  octave = at_line (self, *line);
  return &octave->buckets[bucket % SONDE_TRIE_N_BUCKETS];
}

static void
note_mean (SondeTrieWriter *self, SondeTrieNode *node, SondeTrieTiming *timing, uint64_t ticks)
{
  uint64_t mean = timing->mean_ticks;
  uint32_t flag = node->timing & SONDE_TRIE_TIMED_EACH;

  if (ticks > UINT32_MAX / 2)
    ticks = UINT32_MAX / 2;
  mean = timing->timed == 0 ? ticks
         : ticks > mean     ? mean + ((ticks - mean) >> MEAN_SHIFT)
                            : mean - ((mean - ticks) >> MEAN_SHIFT);
  timing->mean_ticks = (uint32_t) mean;
  if (flag == 0 ? mean > self->timed_from : mean < self->timed_until)
    sonde_ring_store_relaxed (&node->timing, node->timing ^ SONDE_TRIE_TIMED_EACH);
}

/* A reader that has @timed before and after the buckets knows that their sum was between the two,
 * but for this one call: so it is written first, and they behind it. */
static void
record (SondeTrieWriter *self, SondeTrieFrame *frame, uint64_t end_ticks)
{
  SondeTrieNode *node = node_at (self, frame->node);
  SondeTrieTiming *timing = get_timing (self, node);
  uint64_t ticks = end_ticks > frame->start_ticks ? end_ticks - frame->start_ticks : 0;
  uint32_t *bucket = timing != NULL ? get_bucket (self, timing, ticks) : NULL;
  const uint64_t weight = frame->weight;
  SondeTrieFrame *caller;

  if (bucket == NULL)
    {
      grow (&self->slot->lost_timings, 1);
      return;
    }

  if (self->mode == SONDE_TRIE_AUTO)
    note_mean (self, node, timing, ticks);
  else
    {
      caller = frame != self->first ? frame - 1 : ascend (self, frame);
      caller->children_ticks += ticks;
      grow (&timing->self_ticks, ticks > frame->children_ticks ? ticks - frame->children_ticks : 0);
    }
  grow (&timing->total_ticks, ticks * weight);
  grow (&timing->nested, (self->slot->calls - frame->calls) * weight);
  if (timing->timed == 0 || ticks < timing->min_ticks)
    sonde_ring_store_relaxed (&timing->min_ticks, ticks);
  if (ticks > timing->max_ticks)
    sonde_ring_store_relaxed (&timing->max_ticks, ticks);
  sonde_ring_store_release (&timing->timed, timing->timed + weight);
  sonde_ring_store_release (bucket, *bucket + (uint32_t) weight);
}

/* --- hooks --- */

/* A hook while another one runs: of a signal handler, or that one was left by longjmp(). */
RARE SondeTrieWriter *
interrupt (SondeTrieWriter *self, uint64_t sp, bool is_call)
{
  SondeTrieWriter *second = self->second;

  if (sp >= self->busy && sp - self->stack_lo < self->stack_bytes)
    return self;
  if (second != NULL
      && (second->busy == 0 || (sp >= second->busy && sp - second->stack_lo < second->stack_bytes)))
    return second;
  if (is_call)
    sonde_ring_add (&self->slot->lost_interrupted, 1);
  return NULL;
}

HOT SondeTrieWriter *
begin (SondeTrieWriter *self, uint64_t sp, bool is_call)
{
  if (UNLIKELY (self->busy != 0))
    {
      self = interrupt (self, sp, is_call);
      if (self == NULL)
        return NULL;
    }
  self->busy = sp;
  sonde_ring_signal_fence ();
  return self;
}

HOT void
end (SondeTrieWriter *self)
{
  sonde_ring_signal_fence ();
  self->busy = 0;
}

/* All its stacks are void: what was called meanwhile, or left, nobody said. */
static void
void_stacks (SondeTrieWriter *self)
{
  for (uint32_t i = 1; i < MAX_STACKS; i++)
    self->stacks[i].range = (SondeTrieRange){ 0 };
  init_stack (self, &self->stacks[0], &self->stacks[0].range, self->slot->root);
  use_stack (self, &self->stacks[0]);
}

/* Pairs with the release of sonde_trie_memory_wish(). */
RARE void
take_epoch (SondeTrieWriter *self)
{
  const SondeTrieHeader *header = self->header;
  uint32_t sample_every;

  self->epoch = sonde_ring_load_acquire (&header->epoch);
  self->mode = sonde_ring_load_relaxed (&header->mode);
  sample_every = sonde_ring_load_relaxed (&header->sample_every);
  self->max_depth = sonde_ring_load_relaxed (&header->max_depth);
  self->timed_from = sonde_ring_load_relaxed (&header->timed_from_ticks);
  self->timed_until = sonde_ring_load_relaxed (&header->timed_until_ticks);
  if (self->max_depth > SONDE_TRIE_MAX_DEPTH)
    self->max_depth = SONDE_TRIE_MAX_DEPTH;
  if (sample_every == 0 || sample_every > 4096)
    sample_every = 64;
  if (sample_every != self->sample_every)
    {
      self->sample_every = sample_every;
      sonde_trie_gaps_init (self->gaps, sample_every);
      self->gap = draw_gap (self);
    }
  self->hook_mask
      = self->mode == SONDE_TRIE_AUTO || self->mode == SONDE_TRIE_EXACT ? HOOK_MASK : UINT64_MAX;
  void_stacks (self);
}

HOT void
note_hook (SondeTrieWriter *self, uint64_t begin_ticks)
{
  uint64_t ticks = now (self) - begin_ticks;

  if (ticks >= MAX_HOOK_TICKS)
    return;
  grow (&self->slot->hook_ticks, ticks);
  grow (&self->slot->n_hooks, 1);
}

/* Ends the call of the top frame. Returns: the one above */
HOT SondeTrieFrame *
pop (SondeTrieWriter *self, SondeTrieFrame *frame)
{
  if (UNLIKELY (frame->weight != 0))
    record (self, frame, now (self));
  return above (self, frame);
}

RARE SondeTrieFrame *
pop_dead (SondeTrieWriter *self, SondeTrieFrame *frame)
{
  grow (&self->slot->resynced, 1);
  self->n_over = 0;
  return pop (self, frame);
}

/* @is_within: of a function that others may be inlined into */
HOT bool
is_dead (const SondeTrieFrame *frame, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  if (!is_within)
    return frame->sp <= sp;
  return frame->sp < sp
         || (frame->sp == sp && (frame->site != site || frame->function == function));
}

HOT void
enter (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  uint64_t begin_ticks = 0;
  SondeTrieFrame *frame;
  SondeTrieNode *node;
  uint32_t weight = 0;
  uint32_t number;
  uint64_t calls;

  self = begin (self, sp, true);
  if (UNLIKELY (self == NULL))
    return;
  if (UNLIKELY (self->epoch != sonde_ring_load_relaxed (&self->header->epoch)))
    take_epoch (self);
  if (UNLIKELY (self->mode == SONDE_TRIE_OFF))
    goto out;

  calls = self->slot->calls + 1;
  if (UNLIKELY ((calls & self->hook_mask) == 0))
    begin_ticks = now (self);
  if (UNLIKELY (sp - self->stack_lo >= self->stack_bytes) && !switch_stack (self, sp))
    {
      grow (&self->slot->calls, 1);
      grow (&self->slot->lost_budget, 1);
      goto out;
    }

  frame = self->top;
  while (UNLIKELY (is_dead (frame, function, sp, site, is_within)))
    frame = pop_dead (self, frame);
  self->top = frame;
  /* It is none of theirs. */
  sonde_ring_store_relaxed (&self->slot->calls, calls);

  number = frame->node;
  frame++;
  if (UNLIKELY (frame == self->end))
    {
      frame = deepen (self);
      if (frame == NULL)
        {
          self->n_over++;
          goto out;
        }
    }
  number = look_up (self, number, function);
  if (LIKELY (number != 0))
    {
      node = node_at (self, number);
      grow (&node->calls, 1);
      if (self->mode != SONDE_TRIE_COUNT)
        weight = decide (self, node);
    }
  else
    grow (&self->slot->lost_budget, 1);

  frame->sp = sp;
  frame->function = function;
  frame->site = site;
  sonde_ring_store_relaxed (&frame->node, number);
  frame->weight = weight;
  if (UNLIKELY (weight != 0))
    {
      frame->calls = calls;
      frame->children_ticks = 0;
      frame->start_ticks = now (self);
    }
  set_top (self, frame);
  if (UNLIKELY (begin_ticks != 0))
    note_hook (self, begin_ticks);
out:
  end (self);
}

/* An exit that is not the top frame's: those above it that it is of are dead. */
RARE SondeTrieFrame *
find_exit (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  SondeTrieFrame *frame = self->top;
  SondeTrieFrame *found = frame;
  bool is_it = false;

  while (!is_it && found->sp != NO_SP)
    {
      is_it = is_within ? found->function == function && found->site == site && found->sp >= sp
                        : found->sp == sp;
      if (!is_it && !is_within && found->sp > sp)
        break;
      if (!is_it)
        {
          const SondeTrieSlab *slab = slab_of (self, found);

          found = found == (const SondeTrieFrame *) (slab + 1) ? ascend (self, found) : found - 1;
        }
    }
  if (!is_it)
    grow (&self->slot->unmatched, 1);
  if (!is_it && is_within)
    return NULL;

  while (frame != found)
    frame = pop_dead (self, frame);
  set_top (self, frame);
  return is_it ? frame : NULL;
}

HOT void
leave (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  uint64_t begin_ticks = 0;
  SondeTrieFrame *frame;

  self = begin (self, sp, false);
  if (UNLIKELY (self == NULL))
    return;
  if (UNLIKELY (self->epoch != sonde_ring_load_relaxed (&self->header->epoch)))
    take_epoch (self);
  if (UNLIKELY (self->mode == SONDE_TRIE_OFF))
    goto out;
  if (UNLIKELY (sp - self->stack_lo >= self->stack_bytes) && !switch_stack (self, sp))
    goto out;
  if (UNLIKELY ((self->slot->calls & self->hook_mask) == 0))
    begin_ticks = now (self);

  frame = self->top;
  /* Calls without a frame are deeper than all that have one. */
  if (UNLIKELY (self->n_over > 0))
    {
      if (is_within ? sp <= frame->sp : sp < frame->sp)
        {
          self->n_over--;
          goto out;
        }
      self->n_over = 0;
    }
  if (UNLIKELY (is_within ? frame->function != function || frame->site != site : frame->sp != sp))
    {
      frame = find_exit (self, function, sp, site, is_within);
      if (frame == NULL)
        goto out;
    }
  set_top (self, pop (self, frame));
  if (UNLIKELY (begin_ticks != 0))
    note_hook (self, begin_ticks);
out:
  end (self);
}

void
sonde_trie_enter (SondeTrieWriter *self, uint64_t function, uint64_t sp)
{
  enter (self, function, sp, 0, false);
}

void
sonde_trie_exit (SondeTrieWriter *self, uint64_t sp)
{
  leave (self, 0, sp, 0, false);
}

void
sonde_trie_enter_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site)
{
  enter (self, function, sp, site, true);
}

void
sonde_trie_exit_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site)
{
  leave (self, function, sp, site, true);
}

void
sonde_trie_unwind (SondeTrieWriter *self, uint64_t sp)
{
  SondeTrieFrame *frame;

  self = begin (self, sp, false);
  if (self == NULL)
    return;
  if (sp - self->stack_lo < self->stack_bytes
      && self->epoch == sonde_ring_load_relaxed (&self->header->epoch))
    {
      frame = self->top;
      while (frame->sp < sp)
        frame = pop_dead (self, frame);
      set_top (self, frame);
    }
  end (self);
}

/* --- threads --- */

/* A slot with the first slabs of a trie. Returns: NULL if there is no room */
static SondeTrieWriter *
make_writer (SondeTrie *trie, bool is_signals)
{
  const SondeTrieGeometry *geometry = &trie->memory.geometry;
  SondeTrieHeader *header = trie->memory.header;
  SondeTrieWriter *self;
  SondeTrieSlab *frames;
  uint32_t number;

  if (sonde_ring_load_relaxed (&header->n_slots) >= geometry->max_slots
      || sonde_ring_load_relaxed (&header->n_slabs) + 2 > geometry->max_slabs)
    return NULL;
  self = map_private (sizeof *self);
  if (self == NULL)
    return NULL;
  number = __atomic_fetch_add (&header->n_slots, 1, __ATOMIC_RELAXED);
  if (number >= geometry->max_slots)
    {
      munmap (self, sizeof *self);
      return NULL;
    }

  self->trie = trie;
  self->base = trie->memory.base;
  self->header = header;
  self->number = number;
  self->read_clock = trie->user.read_clock;
  self->slot = (SondeTrieSlot *) (void *) (self->base + SONDE_TRIE_HEADER_BYTES) + number;
  self->is_taken = 1;
  frames = take_slab (self, SONDE_TRIE_FRAMES);
  if (frames != NULL)
    sonde_ring_store_relaxed (
        &self->slot->root,
        make_node (self, 0, is_signals ? SONDE_TRIE_SIGNAL_ROOT : SONDE_TRIE_ROOT));
  /* The slot is lost then, but so is all hope for room. */
  if (self->slot->root == 0)
    {
      munmap (self, sizeof *self);
      return NULL;
    }
  self->stacks[0].first_slab = line_of (self, frames);
  sonde_ring_store_relaxed (&self->slot->is_signals, is_signals);
  return self;
}

/* The first gap is drawn, too: whoever timed the first call of a thread would count each thread's
 * first function as many. */
static void
begin_thread (SondeTrieWriter *self, int32_t tid, const SondeTrieRange *stack)
{
  SondeTrieSlot *slot = self->slot;

  self->busy = 0;
  self->random = (now (self) ^ (uint64_t) (uint32_t) tid << 32 ^ self->number)
                     * UINT64_C (0x9E3779B97F4A7C15)
                 | 1;
  self->stacks[0].range = *stack;
  self->sample_every = 0;
  take_epoch (self);
  sonde_ring_store_relaxed (&slot->tid, tid);
  sonde_ring_store_relaxed (&slot->generation, slot->generation + 1);
  sonde_ring_store_release (&slot->state, (uint32_t) SONDE_TRIE_SLOT_LIVE);
}

SondeTrieWriter *
sonde_trie_take_writer (SondeTrie *trie, int32_t tid, const SondeTrieRange *stack)
{
  uint32_t n_slots = sonde_ring_load_relaxed (&trie->memory.header->n_slots);
  SondeTrieWriter *self = NULL;

  for (uint32_t i = 0; i < n_slots && i < trie->memory.geometry.max_slots && self == NULL; i++)
    {
      SondeTrieWriter *left = sonde_ring_load_acquire (&trie->writers[i]);

      if (left != NULL && __atomic_exchange_n (&left->is_taken, 1, __ATOMIC_ACQUIRE) == 0)
        self = left;
    }
  if (self == NULL)
    {
      self = make_writer (trie, false);
      if (self == NULL)
        return NULL;
      self->second = make_writer (trie, true);
      if (self->second != NULL)
        sonde_ring_store_release (&trie->writers[self->second->number], self->second);
      sonde_ring_store_release (&trie->writers[self->number], self);
    }
  begin_thread (self, tid, stack);
  if (self->second != NULL)
    begin_thread (self->second, tid, stack);
  return self;
}

void
sonde_trie_leave_writer (SondeTrieWriter *self)
{
  SondeTrieWriter *second = self->second;

  if (second != NULL)
    sonde_ring_store_release (&second->slot->state, (uint32_t) SONDE_TRIE_SLOT_LEFT);
  sonde_ring_store_release (&self->slot->state, (uint32_t) SONDE_TRIE_SLOT_LEFT);
  /* Pairs with the acquire of whoever adopts it. */
  sonde_ring_store_release (&self->is_taken, 0);
}
