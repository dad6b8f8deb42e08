/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs one function's call frame program up to an address. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi-check.h" /* SONDE_CFI_MAX_STATES, _INSTRUCTIONS */
#include "unwind/cfi-reader.h"

/**
 * SECTION: cfi-program
 *
 * Pure functions over bytes in memory: no allocation, no calls out, async-signal-safe; bounded
 * whatever the bytes say. Registers have DWARF numbers; those behind SONDE_CFI_N_REGISTERS (vector
 * registers) are skipped, since no return address depends on them.
 *
 * Source: DWARF 5 §6.4; Linux Standard Base, "Exception Frames"; psABI x86-64 and AArch64
 */
#define SONDE_CFI_N_REGISTERS          35 /* x86-64: 0-16, aarch64: 0-31, 34 */
#define SONDE_CFI_MAX_EXPRESSION_STEPS 512
#define SONDE_CFI_MAX_PROGRAM          SONDE_CFI_MAX_INSTRUCTIONS /* bytes of one CIE or FDE */

typedef enum
{
  SONDE_CFI_SAME = 0, /* keeps the callee's value (or undefined for what nobody saves) */
  SONDE_CFI_UNDEFINED,
  SONDE_CFI_OFFSET,         /* saved at CFA + offset */
  SONDE_CFI_VAL_OFFSET,     /* is CFA + offset */
  SONDE_CFI_REGISTER,       /* in register `offset` */
  SONDE_CFI_EXPRESSION,     /* saved at the expression's value */
  SONDE_CFI_VAL_EXPRESSION, /* is the expression's value */
} SondeCfiColumnKind;

/* offset is in bytes; for expressions the program's place: offset and length in the section. */
typedef struct
{
  int64_t offset;
  uint16_t length;
  uint8_t kind; /* SondeCfiColumnKind */
} SondeCfiColumn;

typedef struct
{
  SondeCfiColumn columns[SONDE_CFI_N_REGISTERS];
  int64_t cfa_offset;  /* bytes; or the expression's place in the section */
  uint16_t cfa_length; /* of the expression */
  uint8_t cfa_register;
  bool cfa_is_expression;
  bool is_signal_frame;
  bool ra_signed; /* aarch64: return addresses carry an authentication code here */
  uint8_t return_register;
  uint64_t begin; /* vaddr from which the row holds */
  uint64_t end;   /* first vaddr behind */
} SondeCfiRow;

/* What a row costs, in bytes of programs run: to begin with, and for each copy of a state. */
#define SONDE_CFI_ROW_WORK   32
#define SONDE_CFI_STATE_WORK 16

/* What a program remembers while it runs: about 10 KiB, which a small stack may not have. */
typedef struct
{
  SondeCfiRow states[SONDE_CFI_MAX_STATES];
  SondeCfiRow initial; /* after the CIE's program */
} SondeCfiScratch;

/* The row for @pc (vaddr). @cie is the FDE's. What it cost is taken from *@work. 0, -ENODATA @pc is
 * not in the FDE, -EBADMSG malformed or over a bound, -EDQUOT *@work was not enough and is 0. */
int sonde_cfi_row_find (const SondeCfiSection *section,
                        const SondeCfiCie *cie,
                        const SondeCfiFde *fde,
                        uint64_t pc,
                        uint32_t *work,
                        SondeCfiRow *row);
/* The same with a @scratch of the caller's, whose content does not matter. */
int sonde_cfi_row_find_with (SondeCfiScratch *scratch,
                             const SondeCfiSection *section,
                             const SondeCfiCie *cie,
                             const SondeCfiFde *fde,
                             uint64_t pc,
                             uint32_t *work,
                             SondeCfiRow *row);
/* How many operations its expressions may take at most. */
uint64_t sonde_cfi_row_max_steps (const SondeCfiRow *row);
