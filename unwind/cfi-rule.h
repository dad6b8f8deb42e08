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
  SONDE_RULE_NONE = 0,  /* there is no row: remembered, so that it is not looked for again */
  SONDE_RULE_REGISTER,  /* CFA = register + cfa_offset */
  SONDE_RULE_DEREF,     /* CFA = *(register + cfa_offset): realigned stacks, signal frames */
  SONDE_RULE_PLT,       /* CFA = sp + 8 + ((pc & 15) >= cfa_offset ? 8 : 0) */
  SONDE_RULE_END,       /* return address undefined: the outermost frame */
  SONDE_RULE_SLOW,      /* use the row */
  SONDE_RULE_BAD,       /* the row is malformed */
} SondeRuleKind;

enum
{
  SONDE_RULE_SIGNAL = 1 << 0,          /* signal frame: the caller's pc is exact */
  SONDE_RULE_RA_IN_REGISTER = 1 << 1,  /* return address in ra_register, not in memory */
  SONDE_RULE_RA_FROM_BASE = 1 << 2,    /* ra_offset counts from the CFA's base register, not the CFA */
  SONDE_RULE_SAVED_FROM_BASE = 1 << 3, /* so do saved_offset */
};

#define SONDE_RULE_N_SAVED 6

typedef struct
{
  int32_t cfa_offset;   /* bytes */
  uint8_t kind;         /* SondeRuleKind */
  uint8_t flags;        /* SONDE_RULE_* bits */
  uint8_t cfa_register; /* DWARF number */
  uint8_t ra_register;  /* DWARF number */
  int16_t ra_offset;    /* words of 8 bytes */
  int16_t saved_offset[SONDE_RULE_N_SAVED]; /* words of 8 bytes, in SondeArchRegisters' order */
  uint8_t saved_mask; /* bit n: saved_offset[n] counts; the other registers keep their values */
  uint8_t padding;
} SondeRule;

_Static_assert (sizeof (SondeRule) == 24, "rules are cached by the thousand");

/* Which machine's conventions hold. */
typedef enum
{
  SONDE_ARCH_X86_64,
  SONDE_ARCH_AARCH64,
} SondeArch;

/* DWARF numbers. */
typedef struct
{
  uint8_t sp;
  uint8_t fp;
  uint8_t saved[SONDE_RULE_N_SAVED]; /* callee-saved registers that a rule can restore */
  uint64_t kept; /* bit mask: registers whose value a call preserves; the others are unknown above */
} SondeArchRegisters;

const SondeArchRegisters *sonde_arch_registers (SondeArch arch);
SondeArch sonde_arch_native (void);

/* Never fails: what does not fit becomes SLOW. @section: for the expressions' bytes. */
void sonde_rule_from_row (SondeRule *rule,
                          const SondeCfiRow *row,
                          const SondeCfiSection *section,
                          SondeArch arch);

typedef enum
{
  SONDE_STEP_OK,
  SONDE_STEP_END,      /* the outermost frame */
  SONDE_STEP_NO_RULE,
  SONDE_STEP_BAD,      /* malformed, or wants memory below the copy */
  SONDE_STEP_RAN_OUT,  /* wants memory above the copy */
  SONDE_STEP_LOOP,     /* the CFA did not rise */
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
