/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/trie-context.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Of a stack that nobody knows: where it is, about. */
#define UNKNOWN_STACK_MASK UINT64_C (0xffff)

/* --- memory --- */

/* @flags: beside those of memory of one's own */
static void *
map_private (size_t size_bytes, int flags)
{
  int saved_errno = errno;
  void *memory
      = mmap (NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

  errno = saved_errno;
  return memory != MAP_FAILED ? memory : NULL;
}

int
sonde_trie_new (SondeTrieMemory *memory, const SondeTrieUser *user, SondeTrie **self)
{
  size_t size_bytes = sizeof (SondeTrie) + memory->geometry.max_slots * sizeof (SondeTrieWriter *);
  SondeTrie *made = map_private (size_bytes, 0);

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
void *
sonde_trie_context_reserve (SondeTrieWriter *self,
                            SondeTrieCursor *cursor,
                            SondeTrieSlabKind kind,
                            size_t size,
                            uint32_t max)
{
  if (cursor->slab == NULL || cursor->n_used == max)
    {
      SondeTrieSlab *slab = take_slab (self, kind);

      if (slab == NULL)
        return NULL;
      *cursor = (SondeTrieCursor){ slab, 0 };
    }
  return (uint8_t *) (cursor->slab + 1) + cursor->n_used * size;
}

/* Pairs with the acquire of the reader that copies a slab's head. */
void
sonde_trie_context_publish (SondeTrieCursor *cursor)
{
  cursor->n_used++;
  sonde_ring_store_release (&cursor->slab->n_used, cursor->n_used);
}

/* --- paths --- */

/* Returns: 0 if there is no room */
static uint32_t
make_node (SondeTrieWriter *self, uint32_t parent, uint64_t function)
{
  SondeTrieNode *node = sonde_trie_context_reserve (self, &self->nodes, SONDE_TRIE_NODES,
                                                    sizeof (SondeTrieNode), SONDE_TRIE_SLAB_NODES);
  uint32_t number;

  if (node == NULL)
    return 0;

  number = (uint32_t) ((size_t) ((uint8_t *) node - self->base) / SONDE_TRIE_NODE_BYTES);
  sonde_ring_store_relaxed (&node->function, function);
  sonde_ring_store_relaxed (&node->parent, parent);
  sonde_ring_store_relaxed (&node->timing, SONDE_TRIE_IS_NEW);
  if (parent != 0)
    {
      node->sibling = node_at (self, parent)->first_child;
      node_at (self, parent)->first_child = number;
    }
  sonde_trie_context_publish (&self->nodes);
  return number;
}

/* Behind the table. */
uint32_t
sonde_trie_context_find_callee (SondeTrieWriter *self, uint32_t parent, uint64_t function)
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

bool
sonde_trie_context_is_unwanted (SondeTrie *trie, uint64_t function)
{
  int is_wanted = trie->user.is_wanted (function);

  if (is_wanted >= 0)
    sonde_ring_store_relaxed (&trie->verdicts[verdict_hash (function)],
                              function | (is_wanted > 0 ? 0 : IS_UNWANTED));
  return is_wanted <= 0;
}

/* --- shadow stacks --- */

void
sonde_trie_context_use_slab (SondeTrieWriter *self, SondeTrieSlab *slab, uint32_t depth)
{
  /* The frame below the first call counts, too. */
  uint32_t room = self->max_depth + 1 > depth ? self->max_depth + 1 - depth : 0;

  self->slab_depth = depth;
  self->first = (SondeTrieFrame *) (void *) (slab + 1);
  self->end = self->first + (room < SONDE_TRIE_SLAB_FRAMES ? room : SONDE_TRIE_SLAB_FRAMES);
}

/* Returns: where a frame goes that has no room in this slab; NULL if there is none */
SondeTrieFrame *
sonde_trie_context_deepen (SondeTrieWriter *self)
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
  sonde_trie_context_use_slab (self, next, self->slab_depth + SONDE_TRIE_SLAB_FRAMES);
  return self->first;
}

/* The frame above one that is the first of its slab. */
SondeTrieFrame *
sonde_trie_context_ascend (const SondeTrieWriter *self, const SondeTrieFrame *frame)
{
  SondeTrieSlab *slab = at_line (self, slab_of (self, frame)->previous);

  return (SondeTrieFrame *) (void *) (slab + 1) + SONDE_TRIE_SLAB_FRAMES - 1;
}

static void
init_stack (SondeTrieWriter *self,
            SondeTrieStack *stack,
            const SondeTrieRange *range,
            uint32_t node)
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
use_stack (SondeTrieWriter *self, SondeTrieStack *stack)
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
  sonde_trie_context_use_slab (self, slab, depth);
  set_top (self, stack->top);
}

/* One that was never used, or was not for the longest time. The thread's own stays. */
static SondeTrieStack *
choose_stack (SondeTrieWriter *self)
{
  SondeTrieStack *oldest = NULL;

  for (uint32_t i = 1; i < MAX_STACKS; i++)
    {
      SondeTrieStack *stack = &self->stacks[i];

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
static SondeTrieStack *
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
bool
sonde_trie_context_switch_stack (SondeTrieWriter *self, uint64_t sp)
{
  SondeTrieRange range;
  SondeTrieStack *stack = find_stack (self, sp, &range);

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

uint32_t
sonde_trie_context_draw_gap (SondeTrieWriter *self)
{
  self->random ^= self->random << 13;
  self->random ^= self->random >> 7;
  self->random ^= self->random << 17;
  return self->gaps[self->random >> 54];
}

void
sonde_trie_context_note_slow (SondeTrieWriter *self, const SondeTrieFrame *frame, uint64_t ticks)
{
  SondeTrieCursor *ring = &self->slow_calls;
  SondeTrieSlowCall *call;

  if (ring->slab == NULL)
    ring->slab = take_slab (self, SONDE_TRIE_SLOW_CALLS);
  if (ring->slab == NULL)
    {
      grow (&self->slot->lost_slow, 1);
      return;
    }
  /* The reader knows by @n_used whether an entry is being replaced. */
  sonde_ring_full_fence ();
  call
      = (SondeTrieSlowCall *) (void *) (ring->slab + 1) + ring->n_used % SONDE_TRIE_SLAB_SLOW_CALLS;
  sonde_ring_store_relaxed (&call->start_ticks, frame->start_ticks);
  sonde_ring_store_relaxed (&call->ticks, ticks);
  sonde_ring_store_relaxed (&call->node, frame->node);
  sonde_trie_context_publish (ring);
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

/* While functions are left out each call is asked about, and in some modes none is like most. */
static void
note_news (SondeTrieWriter *self)
{
  const union
  {
    uint32_t words[2];
    uint64_t news;
  } taken = { .words = { self->epoch, self->n_left_out } };

  self->news
      = self->mode == SONDE_TRIE_COUNT || self->mode == SONDE_TRIE_AUTO ? taken.news : NO_NEWS;
  self->quick_news = self->n_left_out == 0 ? self->news : NO_NEWS;
  self->n_quick = self->n_planned = 1;
}

/* Pairs with the release of sonde_trie_memory_wish(). */
void
sonde_trie_context_take_epoch (SondeTrieWriter *self)
{
  const SondeTrieHeader *header = self->header;
  uint32_t sample_every;

  self->epoch = sonde_ring_load_acquire (&header->epoch);
  self->mode = sonde_ring_load_relaxed (&header->mode);
  sample_every = sonde_ring_load_relaxed (&header->sample_every);
  self->max_depth = sonde_ring_load_relaxed (&header->max_depth);
  self->timed_from = sonde_ring_load_relaxed (&header->timed_from_ticks);
  self->timed_until = sonde_ring_load_relaxed (&header->timed_until_ticks);
  self->slow_from = sonde_ring_load_relaxed (&header->slow_ticks);
  if (self->slow_from == 0)
    self->slow_from = UINT64_MAX;
  if (self->max_depth > SONDE_TRIE_MAX_DEPTH)
    self->max_depth = SONDE_TRIE_MAX_DEPTH;
  if (sample_every == 0 || sample_every > 4096)
    sample_every = 64;
  if (sample_every != self->sample_every)
    {
      self->sample_every = sample_every;
      sonde_trie_gaps_init (self->gaps, sample_every);
    }
  self->gap = sonde_trie_context_draw_gap (self);
  self->hook_mask = self->mode == SONDE_TRIE_COUNT ? UINT64_MAX : HOOK_MASK;
  note_news (self);
  void_stacks (self);
}

/* Pairs with the release of sonde_trie_memory_leave_out(): so many of the list are there. */
void
sonde_trie_context_take_left_out (SondeTrieWriter *self)
{
  const SondeTrieHeader *header = self->header;
  uint32_t n = sonde_ring_load_acquire (&header->n_left_out);

  memset (self->left_out, 0, sizeof self->left_out);
  for (uint32_t i = 0; i < n && i < SONDE_TRIE_MAX_LEFT_OUT; i++)
    {
      uint64_t function = sonde_ring_load_relaxed (&header->left_out[i]);
      uint32_t at = left_out_hash (function);

      while (self->left_out[at] != 0)
        at = (at + 1) % LEFT_OUT_SIZE;
      self->left_out[at] = function;
    }
  self->n_left_out = n;
  note_news (self);
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
  /* Most of it is used at once: that is one fault less for each page. */
  self = map_private (sizeof *self, MAP_POPULATE);
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
  sonde_trie_context_take_epoch (self);
  sonde_trie_context_take_left_out (self);
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
