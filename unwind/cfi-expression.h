/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Evaluates DWARF expressions as they occur in call frame information. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi-program.h"
#include "unwind/stack-copy.h"

#define SONDE_CFI_EXPRESSION_STACK 32

/* DWARF-numbered registers; bit n of valid: registers[n] is known. */
typedef struct
{
  uint64_t values[SONDE_CFI_N_REGISTERS];
  uint64_t valid;
} SondeCfiRegisters;

static inline bool
sonde_cfi_registers_get (const SondeCfiRegisters *self, uint64_t reg, uint64_t *value)
{
  if (reg >= SONDE_CFI_N_REGISTERS || (self->valid >> reg & 1) == 0)
    return false;
  *value = self->values[reg];
  return true;
}

static inline void
sonde_cfi_registers_set (SondeCfiRegisters *self, unsigned reg, uint64_t value)
{
  self->values[reg] = value;
  self->valid |= (uint64_t) 1 << reg;
}

/**
 * sonde_cfi_expression_evaluate:
 * @bytes: the expression, hostile
 * @initial: pushed first (the CFA, for register rules), or NULL
 * @value: (out): top of the stack at the end
 *
 * At most SONDE_CFI_MAX_EXPRESSION_STEPS operations; reads memory from @stack only.
 *
 * Returns: 0, -EBADMSG malformed, unknown operation or over a bound, -EFAULT memory not in the copy
 * Source: DWARF 5 §2.5, §6.4.2
 */
int sonde_cfi_expression_evaluate (const uint8_t *bytes,
                                   size_t size_bytes,
                                   const SondeCfiRegisters *registers,
                                   SondeStackCopy *stack,
                                   const uint64_t *initial,
                                   uint64_t *value);
