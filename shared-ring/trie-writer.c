/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/trie-writer.h"

#include "shared-ring/trie-context.h"

/* So many calls of a path are timed whatever comes. */
#define FIRST_CALLS 8u

/* Calls between two that are unusual, where nothing is timed. */
#define MAX_QUICK (UINT32_C (1) << 30)

/* The site of a frame whose end nobody tells, where no site is known. */
#define ENDLESS UINT64_C (1)

/* --- paths --- */

HOT uint32_t
look_up (SondeTrieWriter *self, uint32_t parent, uint64_t function)
{
  uint32_t number = self->table[hash (parent, function)];
  const SondeTrieNode *node = node_at (self, number);

  if (LIKELY (node->function == function && node->parent == parent))
    return number;
  return parent != 0 ? sonde_trie_context_find_callee (self, parent, function) : 0;
}

/* Whether the function is not to be counted any more. What it calls is then its caller's. */
HOT bool
is_left_out (const SondeTrieWriter *self, uint64_t function)
{
  uint32_t at;

  if (LIKELY (self->n_left_out == 0))
    return false;
  for (at = left_out_hash (function); self->left_out[at] != function; at = (at + 1) % LEFT_OUT_SIZE)
    if (self->left_out[at] == 0)
      return false;
  return true;
}

/* The same of a function that the user does not want. Asked where hooks say whose exit it is:
 * others are not called for such functions. */
HOT bool
is_unwanted (const SondeTrieWriter *self, uint64_t function)
{
  SondeTrie *trie = self->trie;
  uint64_t verdict;

  if (LIKELY (trie->user.is_wanted == NULL))
    return false;
  verdict = sonde_ring_load_relaxed (&trie->verdicts[verdict_hash (function)]);
  if (LIKELY ((verdict & ~IS_UNWANTED) == function))
    return (verdict & IS_UNWANTED) != 0;
  return sonde_trie_context_is_unwanted (trie, function);
}

/* --- frames --- */

HOT SondeTrieFrame *
above (SondeTrieWriter *self, SondeTrieFrame *frame)
{
  if (LIKELY (frame != self->first))
    return frame - 1;
  frame = sonde_trie_context_ascend (self, frame);
  sonde_trie_context_use_slab (self, slab_of (self, frame),
                               self->slab_depth - SONDE_TRIE_SLAB_FRAMES);
  return frame;
}

/* --- time --- */

/* Of a path that was called once more, and has flags, for which its calls are unusual. */
static __attribute__ ((noinline)) void
note_age (const SondeTrieWriter *self, SondeTrieNode *node)
{
  uint32_t over = (node->calls > FIRST_CALLS ? SONDE_TRIE_IS_NEW : 0)
                  | (self->mode == SONDE_TRIE_COUNT ? SONDE_TRIE_TIMED_EACH : 0);

  sonde_ring_store_relaxed (&node->timing, node->timing & ~over);
}

/* Calls that were quick were steps to the one that is timed next. */
HOT void
settle (SondeTrieWriter *self)
{
  if (self->news != NO_NEWS)
    self->gap -= self->n_planned - self->n_quick;
}

/* Up to when nothing has to be timed, neither a call nor a hook. */
HOT void
plan (SondeTrieWriter *self)
{
  uint64_t n;

  if (self->news == NO_NEWS)
    return;
  n = self->hook_mask - (self->slot->calls & self->hook_mask) + 1;
  if (self->mode == SONDE_TRIE_AUTO && self->gap < n)
    n = self->gap;
  self->n_quick = self->n_planned = n - 1 < MAX_QUICK ? (uint32_t) n : MAX_QUICK;
}

/* How many calls this one stands for; 0: it is not timed. It follows from earlier calls alone: so
 * sums are right on average. */
HOT uint32_t
decide (SondeTrieWriter *self, const SondeTrieNode *node)
{
  if (self->mode != SONDE_TRIE_AUTO)
    return self->mode == SONDE_TRIE_EXACT;
  if (UNLIKELY ((node->timing & SONDE_TRIE_FLAGS) != 0))
    return 1;
  if (LIKELY (--self->gap != 0))
    return 0;
  self->gap = sonde_trie_context_draw_gap (self);
  return self->sample_every;
}

/* Returns: NULL if there is no room */
static SondeTrieTiming *
get_timing (SondeTrieWriter *self, SondeTrieNode *node)
{
  uint32_t line = node->timing & ~SONDE_TRIE_FLAGS;
  SondeTrieTiming *timing;

  if (LIKELY (line != 0))
    return at_line (self, line);

  timing = sonde_trie_context_reserve (self, &self->timings, SONDE_TRIE_TIMINGS, sizeof *timing,
                                       SONDE_TRIE_SLAB_TIMINGS);
  if (timing == NULL)
    return NULL;
  sonde_trie_context_publish (&self->timings);
  /* Pairs with the acquire of the reader: what the line says is there. */
  sonde_ring_store_release (&node->timing, node->timing | line_of (self, timing));
  return timing;
}

static uint32_t *
get_bucket (SondeTrieWriter *self, SondeTrieTiming *timing, uint64_t ticks)
{
  uint32_t bucket = sonde_calls_bucket (ticks);
  uint32_t *line = &timing->octaves[bucket / SONDE_CALLS_OCTAVE_BUCKETS];
  SondeTrieOctave *octave;

  if (UNLIKELY (*line == 0))
    {
      octave = sonde_trie_context_reserve (self, &self->octaves, SONDE_TRIE_OCTAVES, sizeof *octave,
                                           SONDE_TRIE_SLAB_OCTAVES);
      if (octave == NULL)
        return NULL;
      sonde_trie_context_publish (&self->octaves);
      sonde_ring_store_release (line, line_of (self, octave));
    }
  octave = at_line (self, *line);
  return &octave->buckets[bucket % SONDE_CALLS_OCTAVE_BUCKETS];
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
  const uint64_t weight = frame->weight & ~WEIGHT_FLAGS;
  SondeTrieFrame *caller;

  if (UNLIKELY (ticks > self->slow_from))
    sonde_trie_context_note_slow (self, frame, ticks);
  if (bucket == NULL)
    {
      grow (&self->slot->lost_timings, 1);
      return;
    }

  if (self->mode == SONDE_TRIE_AUTO)
    note_mean (self, node, timing, ticks);
  else
    {
      caller = frame != self->first ? frame - 1 : sonde_trie_context_ascend (self, frame);
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
  if (UNLIKELY ((frame->weight & ~WEIGHT_FLAGS) != 0))
    record (self, frame, now (self));
  return above (self, frame);
}

RARE SondeTrieFrame *
pop_dead (SondeTrieWriter *self, SondeTrieFrame *frame)
{
  grow (&self->slot->resynced, frame->sp != 0 && frame->site != ENDLESS);
  self->n_over = 0;
  return pop (self, frame);
}

/* Of a call that stood before its thread was traced, as hooks of this kind say it. */
HOT uint64_t
sp_of (const SondeTrieFrame *frame, bool is_within)
{
  if (LIKELY (frame->sp != 0))
    return frame->sp;
  return is_within ? frame->children_ticks : frame->start_ticks;
}

/* @is_within: of a function that others may be inlined into. One that stood before its thread was
 * traced is always dead: has_returned() looks again. */
HOT bool
is_dead (const SondeTrieFrame *frame, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  if (!is_within)
    return frame->sp <= sp;
  return frame->sp < sp
         || (frame->sp == sp && (frame->site != site || frame->function == function));
}

/* Of a frame that is_dead(). The stack pointer tells it of one that has its hooks. Of others
 * the stack does, until something else is where their return address was. */
RARE bool
has_returned (const SondeTrieWriter *self,
              const SondeTrieFrame *frame,
              uint64_t function,
              uint64_t sp,
              uint64_t site,
              bool is_within)
{
  const uint64_t place = frame->start_ticks;
  SondeTrieFrame real;

  if (frame->sp != 0)
    return true;
  real = (SondeTrieFrame){ .sp = sp_of (frame, is_within),
                           .function = frame->function,
                           .site = frame->site };
  return is_dead (&real, function, sp, site, is_within)
         || (place != 0 && place > sp && place - self->stack_lo < self->stack_bytes - sizeof place
             && sonde_ring_load_relaxed ((const uintptr_t *) (uintptr_t) place) != frame->site);
}

HOT void
enter (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  uint64_t begin_ticks = 0;
  SondeTrieFrame *frame;
  SondeTrieNode *node;
  uint32_t weight = 0;
  uint32_t flags = 0;
  uint32_t number;
  uint64_t calls;

  self = begin (self, sp, true);
  if (UNLIKELY (self == NULL))
    return;
  settle (self);
  if (UNLIKELY (self->epoch != sonde_ring_load_relaxed (&self->header->epoch)))
    sonde_trie_context_take_epoch (self);
  if (UNLIKELY (self->n_left_out != sonde_ring_load_relaxed (&self->header->n_left_out)))
    sonde_trie_context_take_left_out (self);
  if (UNLIKELY (self->mode == SONDE_TRIE_OFF || is_left_out (self, function)
                || ((is_within || site == ENDLESS) && is_unwanted (self, function))))
    goto out;

  calls = self->slot->calls + 1;
  if (UNLIKELY ((calls & self->hook_mask) == 0))
    begin_ticks = now (self);
  if (UNLIKELY (sp - self->stack_lo >= self->stack_bytes)
      && !sonde_trie_context_switch_stack (self, sp))
    {
      grow (&self->slot->calls, 1);
      grow (&self->slot->lost_budget, 1);
      goto out;
    }

  frame = self->top;
  while (UNLIKELY (is_dead (frame, function, sp, site, is_within))
         && has_returned (self, frame, function, sp, site, is_within))
    frame = pop_dead (self, frame);
  self->top = frame;
  /* It is none of theirs. */
  sonde_ring_store_relaxed (&self->slot->calls, calls);

  number = frame->node;
  frame++;
  if (UNLIKELY (frame == self->end))
    {
      frame = sonde_trie_context_deepen (self);
      if (frame == NULL)
        {
          self->n_over++;
          self->top->weight |= UNUSUAL_EXIT;
          goto out;
        }
      flags = UNUSUAL_EXIT;
    }
  number = look_up (self, number, function);
  if (LIKELY (number != 0))
    {
      node = node_at (self, number);
      grow (&node->calls, 1);
      if (UNLIKELY (node->timing >= SONDE_TRIE_IS_NEW))
        note_age (self, node);
      if (self->mode != SONDE_TRIE_COUNT && (is_within || site != ENDLESS))
        weight = decide (self, node);
    }
  else
    grow (&self->slot->lost_budget, 1);

  frame->sp = sp;
  frame->function = function;
  frame->site = site;
  sonde_ring_store_relaxed (&frame->node, number);
  frame->weight = weight | flags;
  if (UNLIKELY (weight != 0))
    {
      frame->calls = calls;
      frame->children_ticks = 0;
      frame->start_ticks = now (self);
    }
  set_top (self, frame);
  if (UNLIKELY (begin_ticks != 0))
    {
      if (site != ENDLESS)
        frame->weight |= TIMED_EXIT;
      note_hook (self, begin_ticks);
    }
out:
  plan (self);
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
      is_it = is_within
                  ? found->function == function && found->site == site && sp_of (found, true) >= sp
                  : sp_of (found, false) == sp;
      if (!is_it && !is_within && sp_of (found, false) > sp)
        break;
      if (!is_it)
        {
          const SondeTrieSlab *slab = slab_of (self, found);

          found = found == (const SondeTrieFrame *) (const void *) (slab + 1)
                      ? sonde_trie_context_ascend (self, found)
                      : found - 1;
        }
    }
  /* A call that was left out has no frame, and who tells of its exit not whose it is. */
  if (!is_it && (is_within || self->n_left_out == 0))
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
    sonde_trie_context_take_epoch (self);
  if (UNLIKELY (self->mode == SONDE_TRIE_OFF
                || (is_within && (is_left_out (self, function) || is_unwanted (self, function)))))
    goto out;
  if (UNLIKELY (sp - self->stack_lo >= self->stack_bytes)
      && !sonde_trie_context_switch_stack (self, sp))
    goto out;
  frame = self->top;
  if (UNLIKELY ((frame->weight & TIMED_EXIT) != 0))
    begin_ticks = now (self);

  /* Calls without a frame are deeper than all that have one. */
  if (UNLIKELY (self->n_over > 0))
    {
      if (is_within ? sp <= sp_of (frame, true) : sp < sp_of (frame, false))
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

/* --- most of them ---
 *
 * A call of a known path that is not timed, and its exit. All is asked before anything is changed,
 * and nothing is called: so there is no register to be saved, and what is unusual is left to the
 * above, before which a signal handler may come and find all as it was. */

HOT bool
enter_quickly (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  SondeTrieFrame *frame;
  SondeTrieNode *node;
  uint32_t number;
  uint64_t news;

  if (UNLIKELY (self->busy != 0))
    return false;
  news = sonde_ring_load_relaxed (&self->header->news);
  if (UNLIKELY (news != self->quick_news))
    {
      if (news != self->news)
        return false;
      if (is_left_out (self, function))
        return true;
    }
  self->busy = sp;
  sonde_ring_signal_fence ();

  frame = self->top;
  number = self->table[hash (frame->node, function)];
  node = node_at (self, number);
  if (UNLIKELY (node->function != function || node->parent != frame->node
                || node->timing >= SONDE_TRIE_IS_NEW || frame + 1 == self->end
                || sp - self->stack_lo >= self->stack_bytes)
      || (UNLIKELY (frame->sp <= sp) && is_dead (frame, function, sp, site, is_within))
      || UNLIKELY (self->n_quick <= 1))
    {
      end (self);
      return false;
    }

  self->n_quick--;
  grow (&self->slot->calls, 1);
  grow (&node->calls, 1);
  frame++;
  frame->sp = sp;
  frame->function = function;
  frame->site = site;
  sonde_ring_store_relaxed (&frame->node, number);
  frame->weight = 0;
  set_top (self, frame);
  end (self);
  return true;
}

/* Whose frame has no flag has room for the one above it in its slab, and none is deeper. Where
 * exits are of stack pointers these tell of the stack, too. */
HOT bool
leave_quickly (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site, bool is_within)
{
  SondeTrieFrame *frame;
  uint64_t news;

  if (UNLIKELY (self->busy != 0))
    return false;
  news = sonde_ring_load_relaxed (&self->header->news);
  if (UNLIKELY (news != self->quick_news))
    {
      if (news != self->news)
        return false;
      if (is_within && is_left_out (self, function))
        return true;
    }
  self->busy = sp;
  sonde_ring_signal_fence ();

  frame = self->top;
  if (UNLIKELY (is_within ? frame->function != function || frame->site != site
                                || sp - self->stack_lo >= self->stack_bytes
                          : frame->sp != sp)
      || UNLIKELY (frame->weight != 0))
    {
      end (self);
      return false;
    }

  set_top (self, frame - 1);
  end (self);
  return true;
}

/* Most of those have others to end. */
HOT bool
pass_quickly (SondeTrieWriter *self, uint64_t function, uint64_t sp)
{
  SondeTrieFrame *frame;
  SondeTrieNode *node;
  uint32_t number;
  uint64_t news;

  if (UNLIKELY (self->busy != 0))
    return false;
  news = sonde_ring_load_relaxed (&self->header->news);
  if (UNLIKELY (news != self->quick_news))
    {
      if (news != self->news)
        return false;
      if (is_left_out (self, function))
        return true;
    }
  self->busy = sp;
  sonde_ring_signal_fence ();

  frame = self->top;
  while (frame->sp <= sp && frame->site == ENDLESS && frame->weight == 0)
    frame--;
  number = self->table[hash (frame->node, function)];
  node = node_at (self, number);
  if (UNLIKELY (node->function != function || node->parent != frame->node || frame->sp <= sp
                || frame + 1 == self->end || sp - self->stack_lo >= self->stack_bytes
                || self->n_over > 0)
      || UNLIKELY (self->n_quick <= 1))
    {
      end (self);
      return false;
    }

  /* Not timed, it is no step to a call that is. */
  self->n_planned--;
  self->n_quick--;
  grow (&self->slot->calls, 1);
  grow (&node->calls, 1);
  frame++;
  frame->sp = sp;
  frame->function = function;
  frame->site = ENDLESS;
  sonde_ring_store_relaxed (&frame->node, number);
  frame->weight = 0;
  set_top (self, frame);
  end (self);
  return true;
}

static __attribute__ ((noinline)) void
pass_fully (SondeTrieWriter *self, uint64_t function, uint64_t sp)
{
  enter (self, function, sp, ENDLESS, false);
}

static __attribute__ ((noinline)) void
enter_fully (SondeTrieWriter *self, uint64_t function, uint64_t sp)
{
  enter (self, function, sp, 0, false);
}

static __attribute__ ((noinline)) void
leave_fully (SondeTrieWriter *self, uint64_t sp)
{
  leave (self, 0, sp, 0, false);
}

static __attribute__ ((noinline)) void
enter_fully_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site)
{
  enter (self, function, sp, site, true);
}

static __attribute__ ((noinline)) void
leave_fully_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site)
{
  leave (self, function, sp, site, true);
}

void
sonde_trie_enter (SondeTrieWriter *self, uint64_t function, uint64_t sp)
{
  if (UNLIKELY (!enter_quickly (self, function, sp, 0, false)))
    enter_fully (self, function, sp);
}

void
sonde_trie_exit (SondeTrieWriter *self, uint64_t sp)
{
  if (UNLIKELY (!leave_quickly (self, 0, sp, 0, false)))
    leave_fully (self, sp);
}

void
sonde_trie_enter_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site)
{
  if (UNLIKELY (!enter_quickly (self, function, sp, site, true)))
    enter_fully_within (self, function, sp, site);
}

void
sonde_trie_exit_within (SondeTrieWriter *self, uint64_t function, uint64_t sp, uint64_t site)
{
  if (UNLIKELY (!leave_quickly (self, function, sp, site, true)))
    leave_fully_within (self, function, sp, site);
}

void
sonde_trie_seed (SondeTrieWriter *self, const SondeTrieStanding *calls, size_t n_calls)
{
  for (size_t i = 0; i < n_calls; i++)
    {
      const SondeTrieStanding *call = &calls[i];
      SondeTrieFrame *frame = self->top + 1;
      uint32_t number;

      if (call->function <= SONDE_TRIE_SIGNAL_ROOT || is_left_out (self, call->function)
          || is_unwanted (self, call->function))
        continue;
      number = look_up (self, self->top->node, call->function);
      if (number == 0 || frame == self->end)
        return;
      frame->sp = 0;
      frame->function = call->function;
      frame->site = call->site;
      frame->start_ticks = call->place;
      frame->children_ticks = call->sp;
      sonde_ring_store_relaxed (&frame->node, number);
      frame->weight = 0;
      set_top (self, frame);
    }
}

void
sonde_trie_pass (SondeTrieWriter *self, uint64_t function, uint64_t sp)
{
  if (UNLIKELY (!pass_quickly (self, function, sp)))
    pass_fully (self, function, sp);
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
      while (sp_of (frame, false) < sp)
        frame = pop_dead (self, frame);
      set_top (self, frame);
    }
  end (self);
}
