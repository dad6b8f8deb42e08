/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/unwinder.h"

#include "unwind/unwinder-private.h"

#if defined(__x86_64__)
#include <asm/perf_regs.h>

/* Without flags and segments: what DWARF numbers 0 to 16 name. */
#define REGS_MASK UINT64_C (0xff01ff)
#define PERF_PC   PERF_REG_X86_IP
#define PERF_SP   PERF_REG_X86_SP

static const uint8_t perf_register[SONDE_N_DWARF_REGISTERS] = {
  PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,  PERF_REG_X86_SI,
  PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,  PERF_REG_X86_R9,
  PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
  PERF_REG_X86_R15, PERF_REG_X86_IP,
};

/* A 32-bit program's have the same places in a sample, but other numbers in DWARF. */
static const uint8_t i386_perf_register[] = {
  PERF_REG_X86_AX, PERF_REG_X86_CX, PERF_REG_X86_DX, PERF_REG_X86_BX, PERF_REG_X86_SP,
  PERF_REG_X86_BP, PERF_REG_X86_SI, PERF_REG_X86_DI, PERF_REG_X86_IP,
};
#elif defined(__aarch64__)
#include <asm/perf_regs.h>

/* What a caller may rely on: X19 to X30, then SP and PC. */
#define REGS_MASK UINT64_C (0x1fff80000)
#define PERF_PC   PERF_REG_ARM64_PC
#define PERF_SP   PERF_REG_ARM64_SP

/* The numbers are DWARF's own; the PC has none there. */
static const uint8_t perf_register[SONDE_N_DWARF_REGISTERS] = {
  0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
};
#endif

const char *
sonde_unwind_end_name (SondeUnwindEnd end)
{
  static const char *const names[SONDE_N_UNWIND_ENDS] = {
    [SONDE_UNWIND_END_COMPLETE] = "complete",
    [SONDE_UNWIND_END_TRUNCATED_DUMP] = "truncated-dump",
    [SONDE_UNWIND_END_TRUNCATED_PAGE] = "truncated-page",
    [SONDE_UNWIND_END_NO_CFI] = "no-cfi",
    [SONDE_UNWIND_END_BAD_CFI] = "bad-cfi",
    [SONDE_UNWIND_END_NO_MODULE] = "no-module",
    [SONDE_UNWIND_END_DEPTH_LIMIT] = "depth-limit",
    [SONDE_UNWIND_END_LOOP] = "loop",
    [SONDE_UNWIND_END_CHAIN_COMPLETE] = "chain-complete",
    [SONDE_UNWIND_END_CHAIN_SHORT] = "chain-short",
  };

  return (unsigned) end < SONDE_N_UNWIND_ENDS ? names[end] : "unknown";
}

uint64_t
sonde_unwinder_regs_mask (void)
{
  return REGS_MASK;
}

/* Only the registers in the mask were written, lowest bit first. */
static bool
mask_slot (uint64_t regs_mask, unsigned perf_number, uint8_t *slot)
{
  uint64_t bit = UINT64_C (1) << perf_number;

  *slot = (uint8_t) __builtin_popcountll (regs_mask & (bit - 1));
  return (regs_mask & bit) != 0;
}

bool
sonde_regs_mask_slot (SondeArch arch, uint64_t regs_mask, unsigned number, uint8_t *slot)
{
#ifdef __x86_64__
  if (arch == SONDE_ARCH_I386)
    return number < sizeof i386_perf_register
           && mask_slot (regs_mask, i386_perf_register[number], slot);
#endif
  return arch == sonde_arch_native () && number < SONDE_N_DWARF_REGISTERS
         && mask_slot (regs_mask, perf_register[number], slot);
}

bool
sonde_regs_mask_pc_slot (uint64_t regs_mask, uint8_t *slot)
{
  return mask_slot (regs_mask, PERF_PC, slot);
}

static bool
get_register (const SondeUserState *state, unsigned perf_number, uint64_t *value)
{
  uint8_t slot;

  if (!mask_slot (state->regs_mask, perf_number, &slot) || slot >= state->n_regs)
    return false;
  *value = state->regs[slot];
  return true;
}

bool
sonde_user_state_pc (const SondeUserState *state, uint64_t *pc, uint64_t *sp)
{
  return state->abi != PERF_SAMPLE_REGS_ABI_NONE && get_register (state, PERF_PC, pc)
         && get_register (state, PERF_SP, sp);
}

bool
sonde_user_state_dwarf_register (const SondeUserState *state, unsigned number, uint64_t *value)
{
  return number < SONDE_N_DWARF_REGISTERS && get_register (state, perf_register[number], value);
}

SondeUnwindEnd
sonde_user_state_truncation (const SondeUserState *state)
{
  return state->stack_size_bytes < state->dump_size_bytes ? SONDE_UNWIND_END_TRUNCATED_PAGE
                                                          : SONDE_UNWIND_END_TRUNCATED_DUMP;
}

void
sonde_unwinder_free (SondeUnwinder *self)
{
  if (self != NULL)
    self->ops->free (self);
}

void
sonde_unwinder_set_trampolines (SondeUnwinder *self, SondeTrampolineTest test, void *user_data)
{
  self->is_trampoline = test;
  self->user_data = user_data;
}

SondeUnwindEnd
sonde_unwinder_unwind (SondeUnwinder *self,
                       SondeProcess *process,
                       const SondeUserState *state,
                       uint64_t *addrs,
                       size_t max_addrs,
                       size_t *n_addrs)
{
  uint64_t sp;

  *n_addrs = 0;
  if (state->abi == PERF_SAMPLE_REGS_ABI_64)
    return self->ops->unwind (self, process, state, addrs, max_addrs, n_addrs);
  if (state->abi == PERF_SAMPLE_REGS_ABI_32 && self->ops->unwind_32_bit != NULL)
    return self->ops->unwind_32_bit (self, process, state, addrs, max_addrs, n_addrs);
  if (!sonde_user_state_pc (state, &addrs[0], &sp))
    return SONDE_UNWIND_END_NO_MODULE;
  *n_addrs = 1;
  return SONDE_UNWIND_END_NO_CFI;
}
