/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Splits foreign bytes into call frame programs, registers and a stack, and unwinds with them. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "unwind/plain-frame.h"

#define CODE_BEGIN UINT64_C (0x1000)
#define CODE_END   UINT64_C (0x1100)
#define SP         UINT64_C (0x7ffe00001000)
#define MAX_FRAMES 64

enum
{
  IS_AARCH64 = 1,
  IS_SIGNAL = 2,
  IS_I386 = 4,
};

/* What an input begins with; then come the two programs, and the stack. */
typedef struct
{
  uint8_t flags;
  uint8_t cie_bytes;
  uint16_t fde_bytes;
  uint32_t valid;        /* bit mask of DWARF numbers */
  int16_t registers[34]; /* from the stack pointer */
} Header;

typedef struct
{
  Header header;
  SondeArch arch;
  SondeCfiSection section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  SondeStackCopy stack;
} Input;

static SondeArch
arch_of (uint8_t flags)
{
  if ((flags & IS_I386) != 0)
    return SONDE_ARCH_I386;
  return (flags & IS_AARCH64) != 0 ? SONDE_ARCH_AARCH64 : SONDE_ARCH_X86_64;
}

/* Where DWARF has the return address; on x86 also the sampled pc. */
static uint8_t
return_register (SondeArch arch)
{
  return arch == SONDE_ARCH_AARCH64 ? 30 : arch == SONDE_ARCH_I386 ? 8 : 16;
}

static uint64_t
cut_to_word (SondeArch arch, uint64_t value)
{
  return arch == SONDE_ARCH_I386 ? (uint32_t) value : value;
}

static bool
split (Input *self, uint8_t *bytes, size_t size)
{
  uint8_t *cie = bytes + sizeof self->header;
  uint8_t *fde, *stack;

  if (size < sizeof self->header)
    return false;
  memcpy (&self->header, bytes, sizeof self->header);
  if (size - sizeof self->header < (size_t) self->header.cie_bytes + self->header.fde_bytes)
    return false;
  fde = cie + self->header.cie_bytes;
  stack = fde + self->header.fde_bytes;
  self->arch = arch_of (self->header.flags);
  self->section = (SondeCfiSection){ .bytes = bytes,
                                     .size_bytes = size,
                                     .is_32_bit = self->arch == SONDE_ARCH_I386 };
  self->cie = (SondeCfiCie){ .code_alignment = 1,
                             .data_alignment = -sonde_arch_registers (self->arch)->word_bytes,
                             .return_register = return_register (self->arch),
                             .is_signal_frame = (self->header.flags & IS_SIGNAL) != 0,
                             .instructions = { cie, fde } };
  self->fde = (SondeCfiFde){ .begin = CODE_BEGIN, .end = CODE_END, .instructions = { fde, stack } };
  self->stack = (SondeStackCopy){ .bytes = stack,
                                  .address = cut_to_word (self->arch, SP),
                                  .size_bytes = size - (size_t) (stack - bytes),
                                  .is_32_bit = self->arch == SONDE_ARCH_I386 };
  return true;
}

static void
begin (const Input *input, SondeFrameState *frame)
{
  memset (frame, 0, sizeof *frame);
  frame->pc = CODE_BEGIN;
  frame->exact_pc = true;
  frame->registers.valid = input->header.valid;
  for (unsigned i = 0; i < 34; i++)
    frame->registers.values[i] = cut_to_word (
        input->arch, input->stack.address + (uint64_t) (int64_t) input->header.registers[i]);
  sonde_cfi_registers_set (&frame->registers, sonde_arch_registers (input->arch)->sp,
                           input->stack.address);
}

static bool
find_row (const Input *input, const SondeFrameState *frame, SondeCfiRow *row)
{
  uint64_t pc = CODE_BEGIN + frame->pc % (CODE_END - CODE_BEGIN);
  uint32_t work = UINT32_MAX;

  return sonde_cfi_row_find (&input->section, &input->cie, &input->fde, pc, &work, row) == 0;
}

/* The small rule must lead where the whole row leads. @frame is of the sampled kind: on x86 the
 * return address's register is its pc. */
static void
compare (Input *input, const SondeCfiRow *row, SondeFrameState *frame, bool is_first)
{
  SondeFrameState by_rule, by_row;
  SondePlainFrame plain;
  SondeRule rule;
  SondeStep step;

  if (input->arch != SONDE_ARCH_AARCH64)
    sonde_cfi_registers_set (&frame->registers, return_register (input->arch), frame->pc);
  by_rule = by_row = *frame;
  sonde_rule_from_row (&rule, row, &input->section, input->arch);
  step = sonde_rule_step (&rule, input->arch, &by_rule, &input->stack, is_first);
  if (step != SONDE_STEP_OK || row->is_signal_frame)
    return;
  if (sonde_row_step (row, &input->section, input->arch, &by_row, &input->stack, is_first)
          != SONDE_STEP_OK
      || by_row.pc != by_rule.pc || by_row.registers.valid != by_rule.registers.valid)
    abort ();
  if (input->arch != SONDE_ARCH_I386 && sonde_plain_frame_enter (&plain, input->arch, frame)
      && sonde_plain_frame_step (&plain, input->arch, &rule, &input->stack)
      && plain.pc != by_row.pc)
    abort ();
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  uint8_t *copy = malloc (size + 1);
  SondeFrameState frame;
  SondeCfiRow row;
  Input input;

  if (copy == NULL)
    return 0;
  memcpy (copy, data, size);
  if (split (&input, copy, size))
    {
      begin (&input, &frame);
      for (unsigned n = 0; n < MAX_FRAMES && find_row (&input, &frame, &row); n++)
        {
          compare (&input, &row, &frame, n == 0);
          if (sonde_row_step (&row, &input.section, input.arch, &frame, &input.stack, n == 0)
              != SONDE_STEP_OK)
            break;
        }
    }
  free (copy);

  return 0;
}
