/* SPDX-License-Identifier: LGPL-2.1-or-later */
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
  PLT_THRESHOLD = 6, /* where it is in the expression of .plt */
};

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

/* What linkers write for .plt: breg7 8; breg16 0; lit15; and; litN; ge; lit3; shl; plus. On i386:
 * breg4 4; breg8 0; ... lit2; ... */
static bool
parse_plt (
    const SondeCfiSection *section, int64_t at, uint16_t length, SondeArch arch, int32_t *threshold)
{
  /* Not named after the machines alone: compilers for i386 define that one. */
  static const uint8_t of_x86_64[]
      = { 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0, 0x2a, 0x33, 0x24, 0x22 };
  static const uint8_t of_i386[]
      = { 0x74, 0x04, 0x78, 0x00, 0x3f, 0x1a, 0, 0x2a, 0x32, 0x24, 0x22 };
  const uint8_t *expected = arch == SONDE_ARCH_I386 ? of_i386 : of_x86_64;
  const uint8_t *bytes = section->bytes + at;

  if (arch == SONDE_ARCH_AARCH64 || length != sizeof of_x86_64
      || memcmp (bytes, expected, PLT_THRESHOLD) != 0
      || memcmp (bytes + PLT_THRESHOLD + 1, expected + PLT_THRESHOLD + 1,
                 sizeof of_x86_64 - PLT_THRESHOLD - 1)
             != 0)
    return false;
  if (bytes[PLT_THRESHOLD] < OP_LIT0 || bytes[PLT_THRESHOLD] > OP_LIT15)
    return false;
  *threshold = bytes[PLT_THRESHOLD] - OP_LIT0;
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
      if (parse_plt (section, row->cfa_offset, row->cfa_length, arch, &rule->cfa_offset))
        {
          rule->kind = SONDE_RULE_PLT;
          rule->cfa_register = sonde_arch_registers (arch)->sp;
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
            const SondeArchRegisters *arch,
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
  if (offset % arch->word_bytes != 0 || offset / arch->word_bytes >= INT16_MAX
      || offset / arch->word_bytes <= INT16_MIN)
    return false;
  *words = (int16_t) (offset / arch->word_bytes);
  return true;
}

static bool
fill_return (SondeRule *rule,
             const SondeCfiRow *row,
             const SondeCfiSection *section,
             const SondeArchRegisters *arch)
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
      rule->ra_place = row->return_register;
      return true;
    case SONDE_CFI_REGISTER:
      rule->flags |= SONDE_RULE_RA_IN_REGISTER;
      rule->ra_place = (int16_t) column->offset;
      return column->offset >= 0 && column->offset < SONDE_CFI_N_REGISTERS;
    case SONDE_CFI_OFFSET:
    case SONDE_CFI_EXPRESSION:
      if (!fill_place (column, section, arch, rule->cfa_register, &rule->ra_place, &from_base))
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

      if (column->kind == SONDE_CFI_SAME || column->kind == SONDE_CFI_UNDEFINED)
        continue;
      if (column->kind != SONDE_CFI_OFFSET && column->kind != SONDE_CFI_EXPRESSION)
        return false;
      if (!fill_place (column, section, arch, rule->cfa_register, &rule->saved_offset[i],
                       &from_base))
        return false;
      rule->saved_mask |= (uint8_t) (1 << i);
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
      || !fill_saved (&filled, row, section, registers)
      || !fill_return (&filled, row, section, registers))
    filled.kind = SONDE_RULE_SLOW;
  *rule = filled;
}

static SondeStep
failed_read (const SondeStackCopy *stack)
{
  return stack->ran_out ? SONDE_STEP_RAN_OUT : SONDE_STEP_BAD;
}

/* Each frame must lie above the one before; the sampled one may not have moved the stack pointer
 * yet. Behind a signal handler there may be another stack, which the copy does not hold: nothing
 * can be read there, so that is no way to run in circles. */
static bool
check_progress (uint64_t sp, uint64_t cfa, SondeStackCopy *stack, bool is_first, bool is_signal)
{
  if (is_signal && cfa - stack->address >= stack->size_bytes)
    stack->ran_out = true;
  return cfa > sp || (cfa == sp && is_first) || (is_signal && cfa < stack->address);
}

/* The caller's registers stand, its pc too. */
static SondeStep
enter_caller (SondeFrameState *frame, SondeArch arch, uint64_t cfa, uint64_t pc, bool is_signal)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);

  frame->registers.values[registers->sp] = cfa;
  frame->registers.valid &= registers->kept;
  frame->pc = sonde_arch_strip_pac (arch, pc);
  frame->exact_pc = is_signal;
  return frame->pc == 0 ? SONDE_STEP_END : SONDE_STEP_OK;
}

#define RED_ZONE_BYTES 128

/* A caller's register whose place is not in the copy. Just below it: an epilogue has popped the
 * register from there, so it has the caller's value already. Elsewhere it is unknown, which matters
 * only if a frame is found through it. */
static void
miss_register (SondeCfiRegisters *registers,
               unsigned reg,
               const SondeStackCopy *stack,
               uint64_t address,
               bool is_first)
{
  if (!is_first || address >= stack->address || stack->address - address > RED_ZONE_BYTES)
    registers->valid &= ~((uint64_t) 1 << reg);
}

static void
restore_saved (const SondeRule *rule,
               const SondeArchRegisters *registers,
               uint64_t base,
               SondeCfiRegisters *values,
               SondeStackCopy *stack,
               bool is_first)
{
  for (unsigned saved = rule->saved_mask; saved != 0; saved &= saved - 1)
    {
      unsigned i = (unsigned) __builtin_ctz (saved);
      unsigned reg = registers->saved[i];
      uint64_t address = sonde_stack_copy_wrap (
          stack, base + (uint64_t) ((int64_t) rule->saved_offset[i] * registers->word_bytes));
      uint64_t value;

      if (sonde_stack_copy_read (stack, address, registers->word_bytes, &value))
        sonde_cfi_registers_set (values, reg, value);
      else
        miss_register (values, reg, stack, address, is_first);
    }
}

static SondeStep
rule_cfa (const SondeRule *rule,
          uint64_t pc,
          uint64_t base,
          unsigned word_bytes,
          SondeStackCopy *stack,
          uint64_t *cfa)
{
  *cfa = base + (uint64_t) (int64_t) rule->cfa_offset;
  if (rule->kind == SONDE_RULE_PLT)
    *cfa = base + word_bytes + ((pc & 15) >= (uint64_t) rule->cfa_offset ? word_bytes : 0);
  *cfa = sonde_stack_copy_wrap (stack, *cfa);
  if (rule->kind == SONDE_RULE_DEREF && !sonde_stack_copy_read (stack, *cfa, word_bytes, cfa))
    return failed_read (stack);
  return SONDE_STEP_OK;
}

static SondeStep
rule_return (const SondeRule *rule,
             const SondeCfiRegisters *registers,
             uint64_t base,
             uint64_t cfa,
             unsigned word_bytes,
             SondeStackCopy *stack,
             uint64_t *pc)
{
  uint64_t place = (rule->flags & SONDE_RULE_RA_FROM_BASE) != 0 ? base : cfa;
  uint64_t offset = (uint64_t) ((int64_t) rule->ra_place * word_bytes);
  bool found;

  if ((rule->flags & SONDE_RULE_RA_IN_REGISTER) != 0)
    found = sonde_cfi_registers_get (registers, (uint64_t) rule->ra_place, pc);
  else
    found = sonde_stack_copy_read (stack, sonde_stack_copy_wrap (stack, place + offset), word_bytes,
                                   pc);
  return found ? SONDE_STEP_OK : failed_read (stack);
}

/* What a rule says that does not lead to a caller. */
static SondeStep
rule_verdict (const SondeRule *rule, bool has_called)
{
  switch ((SondeRuleKind) rule->kind)
    {
    case SONDE_RULE_REGISTER:
    case SONDE_RULE_DEREF:
    case SONDE_RULE_PLT:
      return SONDE_STEP_OK;
    case SONDE_RULE_JOINT:
      return has_called ? SONDE_STEP_END : SONDE_STEP_OK;
    case SONDE_RULE_END:
      return SONDE_STEP_END;
    case SONDE_RULE_NONE:
      return SONDE_STEP_NO_RULE;
    case SONDE_RULE_SLOW:
    case SONDE_RULE_BAD:
    default:
      return SONDE_STEP_BAD;
    }
}

SondeStep
sonde_rule_step (const SondeRule *rule,
                 SondeArch arch,
                 SondeFrameState *frame,
                 SondeStackCopy *stack,
                 bool is_first)
{
  const SondeArchRegisters *registers = sonde_arch_registers (arch);
  bool is_signal = (rule->flags & SONDE_RULE_SIGNAL) != 0;
  SondeStep step = rule_verdict (rule, !frame->exact_pc);
  uint64_t base, cfa, pc;

  if (step != SONDE_STEP_OK)
    return step;
  if (!sonde_cfi_registers_get (&frame->registers, rule->cfa_register, &base))
    return failed_read (stack);
  step = rule_cfa (rule, frame->pc, base, registers->word_bytes, stack, &cfa);
  if (step == SONDE_STEP_OK)
    step = rule_return (rule, &frame->registers, base, cfa, registers->word_bytes, stack, &pc);
  if (step != SONDE_STEP_OK)
    return step;
  if (!check_progress (frame->registers.values[registers->sp], cfa, stack, is_first, is_signal))
    return SONDE_STEP_LOOP;
  restore_saved (rule, registers, (rule->flags & SONDE_RULE_SAVED_FROM_BASE) != 0 ? base : cfa,
                 &frame->registers, stack, is_first);
  return enter_caller (frame, arch, cfa, pc, is_signal);
}

/* A row being applied: what every column needs. */
typedef struct
{
  const SondeCfiSection *section;
  const SondeCfiRegisters *registers;
  SondeStackCopy *stack;
  uint64_t cfa;
} RowContext;

/* Columns come from sonde_cfi_row_find() over the same section, which checked the place. */
static bool
evaluate (
    const RowContext *self, int64_t at, uint16_t length, const uint64_t *initial, uint64_t *value)
{
  return sonde_cfi_expression_evaluate (self->section->bytes + at, length, self->registers,
                                        self->stack, initial, value)
         == 0;
}

#define NOT_IN_MEMORY UINT64_MAX

/* The caller's value of one register that has a rule, and where it was saved. */
static bool
find_column (const RowContext *self,
             const SondeCfiColumn *column,
             uint64_t *address,
             uint64_t *value)
{
  *address = NOT_IN_MEMORY;
  switch ((SondeCfiColumnKind) column->kind)
    {
    case SONDE_CFI_OFFSET:
      *address = sonde_stack_copy_wrap (self->stack, self->cfa + (uint64_t) column->offset);
      break;
    case SONDE_CFI_EXPRESSION:
      if (!evaluate (self, column->offset, column->length, &self->cfa, address))
        return false;
      break;
    case SONDE_CFI_VAL_OFFSET:
      *value = sonde_stack_copy_wrap (self->stack, self->cfa + (uint64_t) column->offset);
      return true;
    case SONDE_CFI_VAL_EXPRESSION:
      return evaluate (self, column->offset, column->length, &self->cfa, value);
    case SONDE_CFI_REGISTER:
      return sonde_cfi_registers_get (self->registers, (uint64_t) column->offset, value);
    case SONDE_CFI_SAME:
    case SONDE_CFI_UNDEFINED:
    default:
      return false;
    }
  return sonde_stack_copy_read (self->stack, *address, sonde_stack_copy_word_bytes (self->stack),
                                value);
}

static void
restore_columns (const RowContext *self,
                 const SondeCfiRow *row,
                 SondeCfiRegisters *caller,
                 bool is_first)
{
  for (unsigned reg = 0; reg < SONDE_CFI_N_REGISTERS; reg++)
    {
      const SondeCfiColumn *column = &row->columns[reg];
      uint64_t address, value;

      if (column->kind == SONDE_CFI_SAME || column->kind == SONDE_CFI_UNDEFINED)
        continue;
      if (find_column (self, column, &address, &value))
        sonde_cfi_registers_set (caller, reg, value);
      else
        miss_register (caller, reg, self->stack, address, is_first);
    }
}

SondeStep
sonde_row_step (const SondeCfiRow *row,
                const SondeCfiSection *section,
                SondeArch arch,
                SondeFrameState *frame,
                SondeStackCopy *stack,
                bool is_first)
{
  uint8_t sp_register = sonde_arch_registers (arch)->sp;
  RowContext context = { section, &frame->registers, stack, 0 };
  SondeCfiRegisters caller = frame->registers;
  uint64_t sp, pc;
  bool is_there;

  if (row->columns[row->return_register].kind == SONDE_CFI_UNDEFINED)
    return SONDE_STEP_END;
  if (row->cfa_is_expression)
    is_there = evaluate (&context, row->cfa_offset, row->cfa_length, NULL, &context.cfa);
  else
    {
      is_there = sonde_cfi_registers_get (context.registers, row->cfa_register, &context.cfa);
      if (is_there)
        context.cfa = sonde_stack_copy_wrap (stack, context.cfa + (uint64_t) row->cfa_offset);
    }
  if (!is_there)
    return failed_read (stack);
  sonde_cfi_registers_set (&caller, sp_register, context.cfa);
  restore_columns (&context, row, &caller, is_first);
  if (!sonde_cfi_registers_get (&caller, row->return_register, &pc)
      || !sonde_cfi_registers_get (&caller, sp_register, &sp))
    return failed_read (stack);
  if (!check_progress (frame->registers.values[sp_register], sp, stack, is_first,
                       row->is_signal_frame))
    return SONDE_STEP_LOOP;
  frame->registers = caller;
  return enter_caller (frame, arch, sp, pc, row->is_signal_frame);
}
