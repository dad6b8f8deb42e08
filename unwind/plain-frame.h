/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Steps from a frame to its caller where nothing is unusual, with three registers alone. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "unwind/cfi-rule.h"

/**
 * SECTION: plain-frame
 *
 * What sonde_rule_step() does, for nearly all frames, several times faster: the CFA counts from a
 * register, everything is in memory and in the copy. Only the registers that frames are found
 * through are followed. A walk that turns out to need another one starts again with
 * sonde_rule_step() alone. Inline, so that a frame lives in the processor's
 * registers.
 */
typedef struct
{
  uint64_t pc;
  uint64_t sp;
  uint64_t saved[2]; /* the first two of SondeArchRegisters' */
} SondePlainFrame;

static inline uint64_t
sonde_plain_frame_bits (SondeArch arch)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);

  return (uint64_t) 1 << registers->sp | (uint64_t) 1 << registers->saved[0]
         | (uint64_t) 1 << registers->saved[1];
}

/* False if one of the registers is not known. */
static inline bool
sonde_plain_frame_enter (SondePlainFrame *self, SondeArch arch, const SondeFrameState *frame)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);
  uint64_t bits = sonde_plain_frame_bits (arch);

  if ((frame->registers.valid & bits) != bits)
    return false;
  self->pc = frame->pc;
  self->sp = frame->registers.values[registers->sp];
  self->saved[0] = frame->registers.values[registers->saved[0]];
  self->saved[1] = frame->registers.values[registers->saved[1]];
  return true;
}

static inline void
sonde_plain_frame_leave (const SondePlainFrame *self, SondeArch arch, SondeFrameState *frame)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);

  frame->pc = self->pc;
  frame->exact_pc = false;
  frame->registers.values[registers->sp] = self->sp;
  frame->registers.values[registers->saved[0]] = self->saved[0];
  frame->registers.values[registers->saved[1]] = self->saved[1];
  frame->registers.valid = sonde_plain_frame_bits (arch);
}

static inline bool
sonde_plain_frame_read (
    const SondeStackCopy *stack, SondeArch arch, uint64_t cfa, int16_t words, uint64_t *value)
{
  const unsigned word_bytes = sonde_arch_registers (arch)->word_bytes;
  uint64_t offset = cfa + (uint64_t) ((int64_t) words * word_bytes) - stack->address;
  uint32_t half;

  if (stack->size_bytes < word_bytes || offset > stack->size_bytes - word_bytes)
    return false;
  if (word_bytes == sizeof *value)
    {
      memcpy (value, stack->bytes + offset, sizeof *value);
      return true;
    }
  memcpy (&half, stack->bytes + offset, sizeof half);
  *value = half;
  return true;
}

/* False if this frame is not so plain; it is unchanged then. */
static inline bool
sonde_plain_frame_step (SondePlainFrame *self,
                        SondeArch arch,
                        const SondeRule *rule,
                        const SondeStackCopy *stack)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);
  SondePlainFrame caller = *self;

  if (rule->kind != SONDE_RULE_REGISTER || rule->flags != 0)
    return false;
  if (rule->cfa_register == registers->sp)
    caller.sp = self->sp;
  else if (rule->cfa_register == registers->saved[0])
    caller.sp = self->saved[0];
  else if (rule->cfa_register == registers->saved[1])
    caller.sp = self->saved[1];
  else
    return false;
  caller.sp += (uint64_t) (int64_t) rule->cfa_offset;
  if (caller.sp <= self->sp
      || !sonde_plain_frame_read (stack, arch, caller.sp, rule->ra_place, &caller.pc)
      || ((rule->saved_mask & 1) != 0
          && !sonde_plain_frame_read (stack, arch, caller.sp, rule->saved_offset[0],
                                      &caller.saved[0]))
      || ((rule->saved_mask & 2) != 0
          && !sonde_plain_frame_read (stack, arch, caller.sp, rule->saved_offset[1],
                                      &caller.saved[1])))
    return false;
  caller.pc = sonde_arch_strip_pac (arch, caller.pc);
  if (caller.pc == 0)
    return false;
  *self = caller;
  return true;
}
