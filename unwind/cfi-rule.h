/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A row of call frame information, small enough to be cached by address. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/cfi-expression.h"
#include "unwind/cfi-program.h"
#include "unwind/stack-copy.h"

/**
 * SECTION: cfi-rule
 *
 * 24 bytes that say how to get from one frame to its caller: enough for all but a few rows in a
 * thousand. What does not fit is SONDE_RULE_SLOW and is evaluated from the full row each time.
 */
typedef enum
{
  SONDE_RULE_NONE = 0, /* there is no row: remembered, so that it is not looked for again */
  SONDE_RULE_REGISTER, /* CFA = register + cfa_offset */
  SONDE_RULE_DEREF,    /* CFA = *(register + cfa_offset): realigned stacks, signal frames */
  SONDE_RULE_PLT,      /* CFA = sp + a word + ((pc & 15) >= cfa_offset ? another : 0) */
  SONDE_RULE_END,      /* return address undefined: the outermost frame */
  SONDE_RULE_SLOW,     /* use the row */
  SONDE_RULE_BAD,      /* the row is malformed */
  SONDE_RULE_JOINT,    /* as REGISTER, until it calls: then it is the outermost of its stack */
} SondeRuleKind;

enum
{
  SONDE_RULE_SIGNAL = 1 << 0,         /* signal frame: the caller's pc is exact */
  SONDE_RULE_RA_IN_REGISTER = 1 << 1, /* return address in the register ra_place, not in memory */
  SONDE_RULE_RA_FROM_BASE = 1 << 2, /* ra_place counts from the CFA's base register, not the CFA */
  SONDE_RULE_SAVED_FROM_BASE = 1 << 3, /* so do saved_offset */
};

#define SONDE_RULE_N_SAVED 6

typedef struct
{
  int32_t cfa_offset;   /* bytes */
  uint8_t kind;         /* SondeRuleKind */
  uint8_t flags;        /* SONDE_RULE_* bits */
  uint8_t cfa_register; /* DWARF number */
  uint8_t saved_mask;   /* bit n: saved_offset[n] counts; the other registers keep their values */
  int16_t ra_place;     /* words of the stack; or a register's number */
  int16_t saved_offset[SONDE_RULE_N_SAVED]; /* words of the stack, in SondeArchRegisters' order */
  uint8_t first; /* the cache's: where in its block of code the rule begins to hold */
  uint8_t last;  /* and the last byte that it holds for */
} SondeRule;

_Static_assert(sizeof (SondeRule) == 24, "rules are cached by the thousand");

/* Which machine's conventions hold. */
typedef enum
{
  SONDE_ARCH_X86_64,
  SONDE_ARCH_AARCH64,
  SONDE_ARCH_I386, /* 32-bit programs on an x86-64 kernel */
} SondeArch;

/* DWARF numbers. */
typedef struct
{
  uint8_t word_bytes; /* of the stack; no DWARF number, this one */
  uint8_t sp;
  uint8_t fp;
  uint8_t saved[SONDE_RULE_N_SAVED]; /* callee-saved registers that a rule can restore */
  uint64_t
      kept; /* bit mask: registers whose value a call preserves; the others are unknown above */
} SondeArchRegisters;

/* The first two saved ones are those that frames are found through: see plain-frame.h. */
static const SondeArchRegisters sonde_x86_64_registers = {
  .word_bytes = 8,
  .sp = 7,
  .fp = 6,
  .saved = { 6, 3, 12, 13, 14, 15 }, /* rbp rbx r12-r15 */
  .kept = 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12,
};

static const SondeArchRegisters sonde_aarch64_registers = {
  .word_bytes = 8,
  .sp = 31,
  .fp = 29,
  .saved = { 29, 30, 19, 20, 21, 28 },
  .kept = UINT64_C (0xf0380000), /* these and sp; a call keeps x22-x27 too, which rules cannot */
};

static const SondeArchRegisters sonde_i386_registers = {
  .word_bytes = 4,
  .sp = 4,
  .fp = 5,
  .saved = { 5, 3, 6, 7, 7, 7 }, /* ebp ebx esi edi, and no more */
  .kept = 1 << 3 | 0xf << 4,
};

static inline const SondeArchRegisters *
sonde_arch_registers (SondeArch arch)
{
  if (arch == SONDE_ARCH_I386)
    return &sonde_i386_registers;
  return arch == SONDE_ARCH_AARCH64 ? &sonde_aarch64_registers : &sonde_x86_64_registers;
}

static inline SondeArch
sonde_arch_native (void)
{
#if defined(__aarch64__)
  return SONDE_ARCH_AARCH64;
#elif defined(__i386__)
  return SONDE_ARCH_I386;
#else
  return SONDE_ARCH_X86_64;
#endif
}

/* A pointer-authentication code sits above the 48 (or 52) address bits; perf does not tell the
 * mask. */
static inline uint64_t
sonde_arch_strip_pac (SondeArch arch, uint64_t address)
{
  return arch == SONDE_ARCH_AARCH64 ? address & 0x0000ffffffffffffull : address;
}

/* Never fails: what does not fit becomes SLOW. @section: for the expressions' bytes. */
void sonde_rule_from_row (SondeRule *rule,
                          const SondeCfiRow *row,
                          const SondeCfiSection *section,
                          SondeArch arch);

typedef enum
{
  SONDE_STEP_OK,
  SONDE_STEP_END, /* the outermost frame */
  SONDE_STEP_NO_RULE,
  SONDE_STEP_BAD,     /* malformed, or wants memory below the copy */
  SONDE_STEP_RAN_OUT, /* wants memory above the copy */
  SONDE_STEP_LOOP,    /* the CFA did not rise */
} SondeStep;

/* A frame: its registers, where it is, and whether pc is exact (sampled, or below a signal frame)
 * rather than a return address. */
typedef struct
{
  SondeCfiRegisters registers;
  uint64_t pc;
  bool exact_pc;
} SondeFrameState;

/* Goes from @frame to its caller by @rule (not SLOW). @frame changes only on SONDE_STEP_OK. The CFA
 * must rise strictly, except that the sampled frame may keep it (@is_first). */
SondeStep sonde_rule_step (const SondeRule *rule,
                           SondeArch arch,
                           SondeFrameState *frame,
                           SondeStackCopy *stack,
                           bool is_first);

/* The same by a whole row. */
SondeStep sonde_row_step (const SondeCfiRow *row,
                          const SondeCfiSection *section,
                          SondeArch arch,
                          SondeFrameState *frame,
                          SondeStackCopy *stack,
                          bool is_first);
