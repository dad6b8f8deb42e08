/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/mixed-stack.h"

typedef struct
{
  uint64_t *addrs;
  size_t n;
  size_t max;
} StackOutput;

static void
put (StackOutput *self, uint64_t address)
{
  if (self->n < self->max)
    self->addrs[self->n++] = address;
}

static bool
is_evaluator (const SondeMixedStack *self, size_t index)
{
  uint64_t pc = self->addrs[index] - (index > 0);

  for (size_t i = 0; i < self->n_evaluators; i++)
    if (pc >= self->evaluators[i][0] && pc < self->evaluators[i][1])
      return true;
  return false;
}

/* Whether a segment ends behind this frame. */
static bool
ends_segment (const SondeMixedStack *self, size_t index)
{
  uint8_t entry = self->frames[index].entry;

  if (index + 1 == self->n_frames)
    return true;
  switch (self->entry)
    {
    case SONDE_WALK_ENTRY_FLAG:
      return entry != 0;
    case SONDE_WALK_ENTRY_SHIM:
      return entry >= 3;
    case SONDE_WALK_ENTRY_ALWAYS:
    case SONDE_N_WALK_ENTRIES:
    default:
      return true;
    }
}

static size_t
count_segments (const SondeMixedStack *self)
{
  size_t n = 0;

  for (size_t i = 0; i < self->n_frames; i++)
    n += ends_segment (self, i);
  return n;
}

static size_t
count_evaluators (const SondeMixedStack *self)
{
  size_t n = 0;

  for (size_t i = 0; i < self->n_addrs; i++)
    n += is_evaluator (self, i);
  return n;
}

bool
sonde_mixed_stack_is_interpreted (const SondeMixedStack *self)
{
  return count_evaluators (self) > 0;
}

/* Returns: the first frame behind the segment that begins at @from */
static size_t
put_segment (const SondeMixedStack *self, size_t from, StackOutput *out)
{
  bool is_over = false;

  for (; from < self->n_frames && !is_over; from++)
    {
      is_over = ends_segment (self, from);
      if (self->names[from] != 0)
        put (out, self->names[from]);
    }
  return from;
}

SondeMixedResult
sonde_mixed_stack_merge (const SondeMixedStack *self, uint64_t *out, size_t max_out, size_t *n_out)
{
  StackOutput output = { out, 0, max_out };
  size_t n_evaluators = count_evaluators (self);
  size_t n_segments = count_segments (self);
  bool is_cut = self->flags != 0;
  /* What is missing, of either, is missing at the outer end; a list that was cut has at least the
   * segments that are known. */
  bool is_early = self->is_complete && self->begins_early && n_segments == n_evaluators + 1;
  bool from_leaf = !self->is_complete || is_cut || is_early;
  bool fits = !self->is_complete || is_early || n_evaluators == n_segments
              || n_evaluators == n_segments + 1 || (is_cut && n_evaluators > n_segments);
  size_t n_bare = from_leaf ? 0 : n_evaluators - n_segments; /* before the first segment */
  size_t next = is_early ? put_segment (self, 0, &output) : 0;

  for (size_t i = 0; i < self->n_addrs; i++)
    {
      size_t before = output.n;

      if (!fits || !is_evaluator (self, i))
        {
          put (&output, self->addrs[i]);
          continue;
        }
      if (n_bare > 0)
        n_bare--;
      else
        next = put_segment (self, next, &output);
      /* A frame of the interpreter that nothing stands for. */
      if (output.n == before)
        put (&output, self->addrs[i]);
    }
  if (!fits && self->n_frames > 0)
    put (&output, self->apart);
  while (next < self->n_frames)
    next = put_segment (self, next, &output);
  *n_out = output.n;
  return fits ? SONDE_MIXED_RIGHT : SONDE_MIXED_APART;
}
