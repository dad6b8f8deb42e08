/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The last stack that was walked, and the words in memory that it was found by. */
#include "unwind/known-stack.h"

#include <string.h>

static bool
can_be_read (const SondeStackCopy *stack, uint64_t place)
{
  return place - stack->address <= stack->size_bytes - sizeof (uint64_t)
         && stack->size_bytes >= sizeof (uint64_t);
}

static uint64_t
place_at (uint64_t base, int16_t words)
{
  return base + (uint64_t) ((int64_t) words * 8);
}

void
sonde_known_frame_learn (SondeKnownFrame *frame,
                         const SondeRule *rule,
                         uint64_t caller_sp,
                         const SondeStackCopy *stack)
{
  const SondeArchRegisters *registers = sonde_arch_registers (sonde_arch_native ());
  uint64_t base = rule->cfa_register == registers->sp ? frame->sp : frame->fp;
  bool is_plain = rule->kind == SONDE_RULE_REGISTER || rule->kind == SONDE_RULE_DEREF
                  || rule->kind == SONDE_RULE_PLT;

  frame->pc_place
      = place_at ((rule->flags & SONDE_RULE_RA_FROM_BASE) != 0 ? base : caller_sp, rule->ra_place);
  frame->fp_place = 0;
  frame->sp_place = 0;
  if ((rule->saved_mask & 1) != 0)
    frame->fp_place = place_at ((rule->flags & SONDE_RULE_SAVED_FROM_BASE) != 0 ? base : caller_sp,
                                rule->saved_offset[0]);
  if (rule->kind == SONDE_RULE_DEREF)
    frame->sp_place = base + (uint64_t) (int64_t) rule->cfa_offset;
  frame->needs_fp = rule->cfa_register == registers->fp;
  frame->is_opaque = frame->is_opaque || !is_plain
                     || (rule->flags & (SONDE_RULE_SIGNAL | SONDE_RULE_RA_IN_REGISTER)) != 0
                     || (rule->cfa_register != registers->sp && rule->cfa_register != registers->fp)
                     || !can_be_read (stack, frame->pc_place)
                     || (frame->fp_place != 0 && !can_be_read (stack, frame->fp_place))
                     || (frame->sp_place != 0 && !can_be_read (stack, frame->sp_place));
}

void
sonde_known_frame_end (SondeKnownFrame *frame, const SondeRule *rule)
{
  frame->is_opaque = frame->is_opaque || rule == NULL || rule->kind != SONDE_RULE_END;
  frame->pc_place = 0;
  frame->fp_place = 0;
  frame->sp_place = 0;
  frame->needs_fp = false;
}

void
sonde_known_stack_clear (SondeKnownStack *self)
{
  self->n_frames = 0;
  self->candidate = 0;
  self->is_cut = false;
}

void
sonde_known_stack_begin (SondeKnownStack *self)
{
  self->candidate = self->n_frames;
}

static inline bool
says (uint64_t place, uint64_t value)
{
  return *(const volatile uint64_t *) (uintptr_t) place == value;
}

/* The word may carry a pointer-authentication code. */
static inline bool
leads_to (const SondeKnownFrame *frame, const SondeKnownFrame *caller)
{
  uint64_t word = *(const volatile uint64_t *) (uintptr_t) frame->pc_place;

  return sonde_arch_strip_pac (sonde_arch_native (), word) == caller->pc
         && (frame->fp_place == 0 || says (frame->fp_place, caller->fp))
         && (frame->sp_place == 0 || says (frame->sp_place, caller->sp));
}

bool
sonde_known_stack_follow_from (
    SondeKnownStack *self, size_t index, uint64_t *addrs, size_t max_addrs, size_t *n_addrs)
{
  const SondeKnownFrame *frame = &self->frames[index];
  const SondeKnownFrame *last = frame - (index < max_addrs ? index : max_addrs);

  if (self->is_cut && index < max_addrs)
    return false;
  for (; frame > last; frame--)
    {
      if (__builtin_expect (!leads_to (frame, frame - 1), false))
        {
          /* What is inside of it cannot lead on either. */
          self->candidate = (size_t) (frame - self->frames);
          return false;
        }
      *addrs++ = frame[-1].pc;
    }
  self->candidate = index + 1;
  *n_addrs = index < max_addrs ? index : max_addrs;
  return true;
}

/* A walk that ended without coming to a known frame leaves nothing of the last one. */
void
sonde_known_stack_add (SondeKnownStack *self, const SondeKnownFrame *walked, size_t n_walked)
{
  size_t n = self->candidate;

  if (n + n_walked > SONDE_KNOWN_STACK_MAX_FRAMES)
    n = 0;
  if (n == 0)
    self->is_cut = n_walked > 0 && walked[n_walked - 1].pc_place != 0;
  for (size_t i = n_walked; i > 0 && !walked[i - 1].is_opaque; i--)
    {
      SondeKnownFrame *frame = &self->frames[n];
      bool caller_needs_fp = n > 0 && self->frames[n - 1].needs_fp;

      *frame = walked[i - 1];
      if (!caller_needs_fp)
        frame->fp_place = 0;
      else if (frame->fp_place == 0)
        frame->needs_fp = true;
      n++;
    }
  self->n_frames = n;
}
