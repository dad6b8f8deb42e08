/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* This machine's registers: their DWARF numbers, and where sonde_unwinder_regs_mask() puts them. */
#pragma once

#if defined(__x86_64__)
enum
{
  DWARF_FP = 6,
  DWARF_SP = 7,
  DWARF_KEPT = 12, /* r12: callee-saved. Not rbx, whose number elfutils believes to be 0 there */
  DWARF_RA = 16,   /* the return address' column */
  DWARF_NOT_SAMPLED = 17,
};

enum
{
  SLOT_FP = 6,
  SLOT_SP = 7,
  SLOT_PC = 8,
  SLOT_KEPT = 13,
  N_SLOTS = 17,
};
#elif defined(__aarch64__)
enum
{
  DWARF_NOT_SAMPLED = 17,
  DWARF_KEPT = 19,
  DWARF_FP = 29,
  DWARF_RA = 30,
  DWARF_SP = 31,
};

enum
{
  SLOT_KEPT = 0,
  SLOT_FP = 10,
  SLOT_SP = 12,
  SLOT_PC = 13,
  N_SLOTS = 14,
};
#endif

/* Call frame instructions: the CFA is sp+8, the return address at CFA-8. */
#define PLAIN_RULES 0x0c, DWARF_SP, 8, 0x80 | DWARF_RA, 1
