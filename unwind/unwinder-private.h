/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The head of every unwinder, and how samples' registers and addresses are read. */
#pragma once

#include <linux/perf_event.h>

#include "unwind/cfi-rule.h"
#include "unwind/unwinder.h"

typedef struct
{
  void (*free) (SondeUnwinder *self);
  /* @state is of this machine's word size; *@n_addrs is 0. */
  SondeUnwindEnd (*unwind) (SondeUnwinder *self,
                            SondeProcess *process,
                            const SondeUserState *state,
                            uint64_t *addrs,
                            size_t max_addrs,
                            size_t *n_addrs);
  /* Unwinds a sample of a 32-bit program on this machine. NULL: such samples end where they begin.
   */
  SondeUnwindEnd (*unwind_32_bit) (SondeUnwinder *self,
                                   SondeProcess *process,
                                   const SondeUserState *state,
                                   uint64_t *addrs,
                                   size_t max_addrs,
                                   size_t *n_addrs);
} SondeUnwinderOps;

struct SondeUnwinder
{
  const SondeUnwinderOps *ops;
  SondeTrampolineTest is_trampoline; /* NULL: there are none */
  void *user_data;
};

#if defined(__x86_64__)
#define SONDE_N_DWARF_REGISTERS 17 /* rax to r15, return address */
#define SONDE_DWARF_SP          7
#define SONDE_HAS_I386          true /* samples of 32-bit programs have these registers as well */
#elif defined(__aarch64__)
#define SONDE_N_DWARF_REGISTERS 32 /* x0 to x30, sp */
#define SONDE_DWARF_SP          31
#define SONDE_HAS_I386          false
#endif

/* The stack went on above its copy: because that was the size asked for, or because the kernel met
 * a page that was never touched. */
SondeUnwindEnd sonde_user_state_truncation (const SondeUserState *state);
/* False if the sample does not have it. */
bool
sonde_user_state_dwarf_register (const SondeUserState *state, unsigned number, uint64_t *value);

/* Which of a sample's registers, in the order of @regs_mask's bits, has the @number of @arch's
 * DWARF. False if none. */
bool sonde_regs_mask_slot (SondeArch arch, uint64_t regs_mask, unsigned number, uint8_t *slot);
/* Which of them is the instruction pointer. */
bool sonde_regs_mask_pc_slot (uint64_t regs_mask, uint8_t *slot);
