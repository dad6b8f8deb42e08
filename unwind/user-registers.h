/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds a sample's registers by their DWARF numbers. */
#pragma once

#include <linux/perf_event.h>

#include "unwind/cfi-rule.h"
#include "unwind/unwinder.h"

#if defined(__x86_64__)
#define SONDE_N_DWARF_REGISTERS 17 /* rax to r15, return address */
#define SONDE_DWARF_SP          7
#define SONDE_HAS_I386          true /* samples of 32-bit programs have these registers as well */
#elif defined(__aarch64__)
#define SONDE_N_DWARF_REGISTERS 32 /* x0 to x30, sp */
#define SONDE_DWARF_SP          31
#define SONDE_HAS_I386          false
#endif

/* False if the sample does not have it. */
bool
sonde_user_state_dwarf_register (const SondeUserState *state, unsigned number, uint64_t *value);

/* Which of a sample's registers, in the order of @regs_mask's bits, has the @number of @arch's
 * DWARF. False if none. */
bool sonde_regs_mask_slot (SondeArch arch, uint64_t regs_mask, unsigned number, uint8_t *slot);
/* Which of them is the instruction pointer. */
bool sonde_regs_mask_pc_slot (uint64_t regs_mask, uint8_t *slot);
