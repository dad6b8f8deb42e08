/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A row of call frame information, small enough to be cached by address. */
#include "unwind/cfi-rule.h"

#include <errno.h>
#include <string.h>

enum
{
  OP_DEREF = 0x06,
  OP_BREG0 = 0x70,
  OP_BREG31 = 0x8f,
  OP_LIT0 = 0x30,
  OP_LIT15 = 0x3f,
};

static const SondeArchRegisters x86_64_registers = {
  .sp = 7,
  .fp = 6,
  .saved = { 6, 3, 12, 13, 14, 15 }, /* rbp rbx r12-r15 */
  .kept = 1 << 3 | 1 << 6 | 1 << 7 | 0xf << 12,
};

static const SondeArchRegisters aarch64_registers = {
  .sp = 31,
  .fp = 29,
  .saved = { 29, 30, 19, 20, 21, 28 },
  .kept = UINT64_C (0x1fff) << 19, /* x19-x30, sp */
};

const SondeArchRegisters *
sonde_arch_registers (SondeArch arch)
{
  return arch == SONDE_ARCH_AARCH64 ? &aarch64_registers : &x86_64_registers;
}

SondeArch
sonde_arch_native (void)
{
#ifdef __aarch64__
  return SONDE_ARCH_AARCH64;
#else
  return SONDE_ARCH_X86_64;
#endif
}

/* "register + constant", and nothing else or a dereference behind it. */
static bool
parse_base (const SondeCfiSection *section,
            int64_t at,
            uint16_t length,
            bool *deref,
            uint8_t *reg,
            int64_t *offset)
{
  SondeCfiCursor cursor = { section->bytes + at, section->bytes + at + length };
  uint8_t op;

  if (!sonde_cfi_read_u8 (&cursor, &op) || op < OP_BREG0 || op > OP_BREG31
      || !sonde_cfi_read_sleb128 (&cursor, offset))
    return false;
  *reg = op - OP_BREG0;
  *deref = cursor.at < cursor.end;
  if (*deref && (!sonde_cfi_read_u8 (&cursor, &op) || op != OP_DEREF))
    return false;
  return cursor.at == cursor.end;
}

/* What linkers write for .plt: breg7 8; breg16 0; lit15; and; litN; ge; lit3; shl; plus. */
static bool
parse_plt (const SondeCfiSection *section, int64_t at, uint16_t length, int32_t *threshold)
{
  static const uint8_t head[] = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a };
  static const uint8_t tail[] = { 0x2a, 0x33, 0x24, 0x22 };
  const uint8_t *bytes = section->bytes + at;

  if (length != sizeof head + 1 + sizeof tail || memcmp (bytes, head, sizeof head) != 0
      || memcmp (bytes + sizeof head + 1, tail, sizeof tail) != 0)
    return false;
  if (bytes[sizeof head] < OP_LIT0 || bytes[sizeof head] > OP_LIT15)
    return false;
  *threshold = bytes[sizeof head] - OP_LIT0;
  return true;
}

static bool
fits_words (int64_t offset, int16_t *words)
{
  if (offset % 8 != 0 || offset / 8 >= INT16_MAX || offset / 8 <= INT16_MIN)
    return false;
  *words = (int16_t) (offset / 8);
  return true;
}

static bool
fill_cfa (SondeRule *rule, const SondeCfiRow *row, const SondeCfiSection *section, SondeArch arch)
{
  int64_t offset = row->cfa_offset;
  bool deref = false;

  rule->kind = SONDE_RULE_REGISTER;
  rule->cfa_register = row->cfa_register;
  if (row->cfa_is_expression)
    {
      if (arch == SONDE_ARCH_X86_64
          && parse_plt (section, row->cfa_offset, row->cfa_length, &rule->cfa_offset))
        {
          rule->kind = SONDE_RULE_PLT;
          rule->cfa_register = x86_64_registers.sp;
          return true;
        }
      if (!parse_base (section, row->cfa_offset, row->cfa_length, &deref, &rule->cfa_register,
                       &offset))
        return false;
      rule->kind = deref ? SONDE_RULE_DEREF : SONDE_RULE_REGISTER;
    }
  rule->cfa_offset = (int32_t) offset;
  return rule->cfa_offset == offset && rule->cfa_register < SONDE_CFI_N_REGISTERS;
}

/* A column that says "in memory", relative to the CFA or to its base register. */
static bool
fill_place (const SondeCfiColumn *column,
            const SondeCfiSection *section,
            uint8_t base,
            int16_t *words,
            bool *from_base)
{
  int64_t offset = column->offset;
  uint8_t reg = 0;
  bool deref = false;

  *from_base = column->kind == SONDE_CFI_EXPRESSION;
  if (*from_base
      && (!parse_base (section, column->offset, column->length, &deref, &reg, &offset) || deref
          || reg != base))
    return false;
  return fits_words (offset, words);
}

static bool
fill_return (SondeRule *rule, const SondeCfiRow *row, const SondeCfiSection *section)
{
  const SondeCfiColumn *column = &row->columns[row->return_register];
  bool from_base;

  switch ((SondeCfiColumnKind) column->kind)
    {
    case SONDE_CFI_UNDEFINED:
      rule->kind = SONDE_RULE_END;
      return true;
    case SONDE_CFI_SAME:
      rule->flags |= SONDE_RULE_RA_IN_REGISTER;
      rule->ra_register = row->return_register;
      return true;
    case SONDE_CFI_REGISTER:
      rule->flags |= SONDE_RULE_RA_IN_REGISTER;
      rule->ra_register = (uint8_t) column->offset;
      return column->offset >= 0 && column->offset < SONDE_CFI_N_REGISTERS;
    case SONDE_CFI_OFFSET:
    case SONDE_CFI_EXPRESSION:
      if (!fill_place (column, section, rule->cfa_register, &rule->ra_offset, &from_base))
        return false;
      rule->flags |= from_base ? SONDE_RULE_RA_FROM_BASE : 0;
      return true;
    case SONDE_CFI_VAL_OFFSET:
    case SONDE_CFI_VAL_EXPRESSION:
    default:
      return false;
    }
}

/* All saved registers must count from the same place, or the row is for the slow path. */
static bool
fill_saved (SondeRule *rule,
            const SondeCfiRow *row,
            const SondeCfiSection *section,
            const SondeArchRegisters *arch)
{
  int n_cfa = 0, n_base = 0;

  for (unsigned i = 0; i < SONDE_RULE_N_SAVED; i++)
    {
      const SondeCfiColumn *column = &row->columns[arch->saved[i]];
      bool from_base;

      rule->saved_offset[i] = SONDE_RULE_SAME;
      if (column->kind == SONDE_CFI_SAME || column->kind == SONDE_CFI_UNDEFINED)
        continue;
      if (column->kind != SONDE_CFI_OFFSET && column->kind != SONDE_CFI_EXPRESSION)
        return false;
      if (!fill_place (column, section, rule->cfa_register, &rule->saved_offset[i], &from_base))
        return false;
      n_base += from_base;
      n_cfa += !from_base;
    }
  rule->flags |= n_base > 0 ? SONDE_RULE_SAVED_FROM_BASE : 0;
  return n_base == 0 || n_cfa == 0;
}

void
sonde_rule_from_row (SondeRule *rule,
                     const SondeCfiRow *row,
                     const SondeCfiSection *section,
                     SondeArch arch)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);
  SondeRule filled = { .flags = row->is_signal_frame ? SONDE_RULE_SIGNAL : 0 };
  bool sp_is_cfa = row->columns[registers->sp].kind == SONDE_CFI_SAME || row->is_signal_frame;

  if (!sp_is_cfa || !fill_cfa (&filled, row, section, arch)
      || !fill_saved (&filled, row, section, registers) || !fill_return (&filled, row, section))
    filled.kind = SONDE_RULE_SLOW;
  *rule = filled;
}

static SondeStep
failed_read (const SondeStackCopy *stack)
{
  return stack->ran_out ? SONDE_STEP_RAN_OUT : SONDE_STEP_BAD;
}

/* A pointer-authentication code sits above the 48 (or 52) address bits; perf does not tell the mask. */
static uint64_t
strip_pac (SondeArch arch, uint64_t address)
{
  return arch == SONDE_ARCH_AARCH64 ? address & 0x0000ffffffffffffull : address;
}

/* The new frame stands: checks the progress and takes it over. */
static SondeStep
commit (SondeFrameState *frame,
        const SondeFrameState *next,
        SondeArch arch,
        uint64_t cfa,
        bool is_first)
{
  uint8_t sp_register = sonde_arch_registers (arch)->sp;
  uint64_t sp = frame->registers.values[sp_register];

  if (cfa < sp || (cfa == sp && !is_first))
    return SONDE_STEP_LOOP;
  *frame = *next;
  frame->registers.valid &= sonde_arch_registers (arch)->kept;
  frame->pc = strip_pac (arch, frame->pc);
  return frame->pc == 0 ? SONDE_STEP_END : SONDE_STEP_OK;
}

SondeStep
sonde_rule_step (const SondeRule *rule,
                 SondeArch arch,
                 SondeFrameState *frame,
                 SondeStackCopy *stack,
                 bool is_first)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);
  SondeFrameState next;
  uint64_t base, cfa, value;

  switch ((SondeRuleKind) rule->kind)
    {
    case SONDE_RULE_REGISTER:
    case SONDE_RULE_DEREF:
    case SONDE_RULE_PLT:
      break;
    case SONDE_RULE_END:
      return SONDE_STEP_END;
    case SONDE_RULE_NONE:
      return SONDE_STEP_NO_RULE;
    case SONDE_RULE_SLOW:
    case SONDE_RULE_BAD:
    default:
      return SONDE_STEP_BAD;
    }
  if (!sonde_cfi_registers_get (&frame->registers, rule->cfa_register, &base))
    return SONDE_STEP_BAD;
  cfa = base + (uint64_t) (int64_t) rule->cfa_offset;
  if (rule->kind == SONDE_RULE_PLT)
    cfa = base + 8 + ((frame->pc & 15) >= (uint64_t) rule->cfa_offset ? 8 : 0);
  else if (rule->kind == SONDE_RULE_DEREF && !sonde_stack_copy_read (stack, cfa, 8, &cfa))
    return failed_read (stack);

  next = *frame;
  next.exact_pc = (rule->flags & SONDE_RULE_SIGNAL) != 0;
  if ((rule->flags & SONDE_RULE_RA_IN_REGISTER) != 0)
    {
      if (!sonde_cfi_registers_get (&frame->registers, rule->ra_register, &next.pc))
        return SONDE_STEP_BAD;
    }
  else
    {
      value = (rule->flags & SONDE_RULE_RA_FROM_BASE) != 0 ? base : cfa;
      value += (uint64_t) ((int64_t) rule->ra_offset * 8);
      if (!sonde_stack_copy_read (stack, value, 8, &next.pc))
        return failed_read (stack);
    }
  value = (rule->flags & SONDE_RULE_SAVED_FROM_BASE) != 0 ? base : cfa;
  for (unsigned i = 0; i < SONDE_RULE_N_SAVED; i++)
    if (rule->saved_offset[i] != SONDE_RULE_SAME
        && !sonde_stack_copy_read (stack, value + (uint64_t) ((int64_t) rule->saved_offset[i] * 8),
                                   8, &next.registers.values[registers->saved[i]]))
      return failed_read (stack);
  next.registers.values[registers->sp] = cfa;
  return commit (frame, &next, arch, cfa, is_first);
}

/* A row being applied: what every column needs. */
typedef struct
{
  const SondeCfiSection *section;
  const SondeFrameState *frame;
  SondeStackCopy *stack;
  uint64_t cfa;
} RowContext;

static SondeStep
evaluate (const RowContext *self, int64_t at, uint16_t length, const uint64_t *initial,
          uint64_t *value)
{
  int result;

  /* columns come from sonde_cfi_row_find() over the same section, which checked the place */
  result = sonde_cfi_expression_evaluate (self->section->bytes + at, length,
                                          &self->frame->registers, self->stack, initial, value);
  if (result == 0)
    return SONDE_STEP_OK;
  return result == -EFAULT ? failed_read (self->stack) : SONDE_STEP_BAD;
}

static SondeStep
load (const RowContext *self, uint64_t address, uint64_t *value)
{
  return sonde_stack_copy_read (self->stack, address, 8, value) ? SONDE_STEP_OK
                                                                : failed_read (self->stack);
}

/* The caller's value of one register. SAME: @value stays as it is. */
static SondeStep
apply_column (const RowContext *self, const SondeCfiColumn *column, uint64_t *value)
{
  uint64_t address;
  SondeStep step;

  switch ((SondeCfiColumnKind) column->kind)
    {
    case SONDE_CFI_OFFSET:
      return load (self, self->cfa + (uint64_t) column->offset, value);
    case SONDE_CFI_VAL_OFFSET:
      *value = self->cfa + (uint64_t) column->offset;
      return SONDE_STEP_OK;
    case SONDE_CFI_REGISTER:
      return sonde_cfi_registers_get (&self->frame->registers, (uint64_t) column->offset, value)
               ? SONDE_STEP_OK
               : SONDE_STEP_BAD;
    case SONDE_CFI_EXPRESSION:
      step = evaluate (self, column->offset, column->length, &self->cfa, &address);
      return step == SONDE_STEP_OK ? load (self, address, value) : step;
    case SONDE_CFI_VAL_EXPRESSION:
      return evaluate (self, column->offset, column->length, &self->cfa, value);
    case SONDE_CFI_SAME:
    case SONDE_CFI_UNDEFINED:
    default:
      return SONDE_STEP_OK;
    }
}

static SondeStep
row_cfa (const RowContext *self, const SondeCfiRow *row, uint64_t *cfa)
{
  if (row->cfa_is_expression)
    return evaluate (self, row->cfa_offset, row->cfa_length, NULL, cfa);
  if (!sonde_cfi_registers_get (&self->frame->registers, row->cfa_register, cfa))
    return SONDE_STEP_BAD;
  *cfa += (uint64_t) row->cfa_offset;
  return SONDE_STEP_OK;
}

SondeStep
sonde_row_step (const SondeCfiRow *row,
                const SondeCfiSection *section,
                SondeArch arch,
                SondeFrameState *frame,
                SondeStackCopy *stack,
                bool is_first)
{
  uint8_t sp = sonde_arch_registers (arch)->sp;
  RowContext context = { section, frame, stack, 0 };
  SondeFrameState next = *frame;
  SondeStep step = row_cfa (&context, row, &context.cfa);

  if (step != SONDE_STEP_OK)
    return step;
  if (row->columns[row->return_register].kind == SONDE_CFI_UNDEFINED)
    return SONDE_STEP_END;
  next.registers.values[sp] = context.cfa;
  for (unsigned reg = 0; reg < SONDE_CFI_N_REGISTERS; reg++)
    {
      const SondeCfiColumn *column = &row->columns[reg];

      if (column->kind == SONDE_CFI_SAME || column->kind == SONDE_CFI_UNDEFINED)
        continue;
      step = apply_column (&context, column, &next.registers.values[reg]);
      if (step != SONDE_STEP_OK)
        return step;
      next.registers.valid |= (uint64_t) 1 << reg;
    }
  if (!sonde_cfi_registers_get (&next.registers, row->return_register, &next.pc))
    return SONDE_STEP_BAD;
  next.exact_pc = row->is_signal_frame;
  return commit (frame, &next, arch, next.registers.values[sp], is_first);
}
