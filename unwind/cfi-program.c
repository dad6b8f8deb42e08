/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/cfi-program.h"

#include <errno.h>

enum
{
  CFA_ADVANCE_LOC = 0x40, /* low six bits: delta */
  CFA_OFFSET = 0x80,      /* low six bits: register */
  CFA_RESTORE = 0xc0,     /* low six bits: register */
  CFA_NOP = 0x00,
  CFA_SET_LOC = 0x01,
  CFA_ADVANCE_LOC1 = 0x02,
  CFA_ADVANCE_LOC2 = 0x03,
  CFA_ADVANCE_LOC4 = 0x04,
  CFA_OFFSET_EXTENDED = 0x05,
  CFA_RESTORE_EXTENDED = 0x06,
  CFA_UNDEFINED = 0x07,
  CFA_SAME_VALUE = 0x08,
  CFA_REGISTER = 0x09,
  CFA_REMEMBER_STATE = 0x0a,
  CFA_RESTORE_STATE = 0x0b,
  CFA_DEF_CFA = 0x0c,
  CFA_DEF_CFA_REGISTER = 0x0d,
  CFA_DEF_CFA_OFFSET = 0x0e,
  CFA_DEF_CFA_EXPRESSION = 0x0f,
  CFA_EXPRESSION = 0x10,
  CFA_OFFSET_EXTENDED_SF = 0x11,
  CFA_DEF_CFA_SF = 0x12,
  CFA_DEF_CFA_OFFSET_SF = 0x13,
  CFA_VAL_OFFSET = 0x14,
  CFA_VAL_OFFSET_SF = 0x15,
  CFA_VAL_EXPRESSION = 0x16,
  CFA_AARCH64_NEGATE_RA_STATE = 0x2d, /* GNU_window_save on SPARC only */
  CFA_GNU_ARGS_SIZE = 0x2e,
  CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* A program being run. */
typedef struct
{
  const SondeCfiSection *section;
  const SondeCfiCie *cie;
  SondeCfiCursor cursor;
  bool bad; /* an operand was cut; what was taken since is 0 */
  SondeCfiRow row;
  SondeCfiRow *initial; /* after the CIE's program; NULL while that one runs */
  SondeCfiRow *states;  /* SONDE_CFI_MAX_STATES of them, written before they are read */
  unsigned n_states;
  uint32_t work; /* that is left */
  uint64_t at;   /* vaddr the row is valid from */
  uint64_t end;  /* and up to */
} RowMachine;

#define DEFINE_TAKE(name, type, read)                                                              \
  static type name (RowMachine *self)                                                              \
  {                                                                                                \
    type value = 0;                                                                                \
                                                                                                   \
    self->bad = !read (&self->cursor, &value) || self->bad;                                        \
    return value;                                                                                  \
  }
DEFINE_TAKE (take_u8, uint8_t, sonde_cfi_read_u8)
DEFINE_TAKE (take_u16, uint16_t, sonde_cfi_read_u16)
DEFINE_TAKE (take_u32, uint32_t, sonde_cfi_read_u32)
DEFINE_TAKE (take_unsigned, uint64_t, sonde_cfi_read_uleb128)
DEFINE_TAKE (take_signed, int64_t, sonde_cfi_read_sleb128)

static void
set_column (RowMachine *self, uint64_t reg, SondeCfiColumnKind kind, int64_t offset)
{
  if (reg < SONDE_CFI_N_REGISTERS)
    self->row.columns[reg] = (SondeCfiColumn){ .kind = kind, .offset = offset };
}

/* Multiplication of hostile numbers: wraps, and a wrapped offset only leads to an address that the
 * stack copy does not hold. */
static int64_t
factored (const RowMachine *self, uint64_t value)
{
  return (int64_t) (value * (uint64_t) self->cie->data_alignment);
}

static bool
take_expression (RowMachine *self, int64_t *offset, uint16_t *length)
{
  uint64_t size = take_unsigned (self);
  const uint8_t *at = self->cursor.at;

  if (size > UINT16_MAX || !sonde_cfi_skip (&self->cursor, size))
    return false;
  *offset = at - self->section->bytes;
  *length = (uint16_t) size;
  return true;
}

static bool
set_expression (RowMachine *self, SondeCfiColumnKind kind)
{
  uint64_t reg = take_unsigned (self);
  SondeCfiColumn column = { .kind = kind };

  if (!take_expression (self, &column.offset, &column.length))
    return false;
  if (reg < SONDE_CFI_N_REGISTERS)
    self->row.columns[reg] = column;
  return true;
}

static bool
define_cfa (RowMachine *self, uint64_t reg, int64_t offset)
{
  if (reg >= SONDE_CFI_N_REGISTERS)
    return false;
  self->row.cfa_register = (uint8_t) reg;
  self->row.cfa_offset = offset;
  self->row.cfa_is_expression = false;
  return true;
}

static bool
spend (RowMachine *self, uint64_t work)
{
  bool suffices = work <= self->work;

  self->work -= suffices ? (uint32_t) work : self->work;
  return suffices;
}

/* The instructions that have an opcode of their own. False: malformed or unknown. */
static bool
run_extended (RowMachine *self, uint8_t opcode)
{
  uint64_t reg;

  switch (opcode)
    {
    case CFA_NOP:
      return true;
    case CFA_OFFSET_EXTENDED:
      reg = take_unsigned (self);
      set_column (self, reg, SONDE_CFI_OFFSET, factored (self, take_unsigned (self)));
      return true;
    case CFA_OFFSET_EXTENDED_SF:
      reg = take_unsigned (self);
      set_column (self, reg, SONDE_CFI_OFFSET, factored (self, (uint64_t) take_signed (self)));
      return true;
    case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
      reg = take_unsigned (self);
      set_column (self, reg, SONDE_CFI_OFFSET, -factored (self, take_unsigned (self)));
      return true;
    case CFA_VAL_OFFSET:
      reg = take_unsigned (self);
      set_column (self, reg, SONDE_CFI_VAL_OFFSET, factored (self, take_unsigned (self)));
      return true;
    case CFA_VAL_OFFSET_SF:
      reg = take_unsigned (self);
      set_column (self, reg, SONDE_CFI_VAL_OFFSET, factored (self, (uint64_t) take_signed (self)));
      return true;
    case CFA_RESTORE_EXTENDED:
      reg = take_unsigned (self);
      if (reg < SONDE_CFI_N_REGISTERS && self->initial != NULL)
        self->row.columns[reg] = self->initial->columns[reg];
      return true;
    case CFA_UNDEFINED:
      set_column (self, take_unsigned (self), SONDE_CFI_UNDEFINED, 0);
      return true;
    case CFA_SAME_VALUE:
      set_column (self, take_unsigned (self), SONDE_CFI_SAME, 0);
      return true;
    case CFA_REGISTER:
      reg = take_unsigned (self);
      set_column (self, reg, SONDE_CFI_REGISTER, (int64_t) take_unsigned (self));
      return true;
    case CFA_EXPRESSION:
      return set_expression (self, SONDE_CFI_EXPRESSION);
    case CFA_VAL_EXPRESSION:
      return set_expression (self, SONDE_CFI_VAL_EXPRESSION);
    case CFA_REMEMBER_STATE:
      if (self->n_states == SONDE_CFI_MAX_STATES || !spend (self, SONDE_CFI_STATE_WORK))
        return false;
      self->states[self->n_states++] = self->row;
      return true;
    case CFA_RESTORE_STATE:
      if (self->n_states == 0 || !spend (self, SONDE_CFI_STATE_WORK))
        return false;
      self->row = self->states[--self->n_states];
      return true;
    case CFA_AARCH64_NEGATE_RA_STATE:
      self->row.ra_signed = !self->row.ra_signed;
      return true;
    case CFA_GNU_ARGS_SIZE:
      take_unsigned (self);
      return true;
    default:
      return false;
    }
}

static bool
run_define_cfa (RowMachine *self, uint8_t opcode)
{
  uint64_t reg;

  switch (opcode)
    {
    case CFA_DEF_CFA:
      reg = take_unsigned (self);
      return define_cfa (self, reg, (int64_t) take_unsigned (self));
    case CFA_DEF_CFA_SF:
      reg = take_unsigned (self);
      return define_cfa (self, reg, factored (self, (uint64_t) take_signed (self)));
    case CFA_DEF_CFA_REGISTER:
      return !self->row.cfa_is_expression
             && define_cfa (self, take_unsigned (self), self->row.cfa_offset);
    case CFA_DEF_CFA_OFFSET:
      return !self->row.cfa_is_expression
             && define_cfa (self, self->row.cfa_register, (int64_t) take_unsigned (self));
    case CFA_DEF_CFA_OFFSET_SF:
      return !self->row.cfa_is_expression
             && define_cfa (self, self->row.cfa_register,
                            factored (self, (uint64_t) take_signed (self)));
    default: /* CFA_DEF_CFA_EXPRESSION */
      self->row.cfa_is_expression = true;
      return take_expression (self, &self->row.cfa_offset, &self->row.cfa_length);
    }
}

#define NO_ADVANCE UINT64_MAX

/* Bytes the location moves by; NO_ADVANCE: not a location instruction. */
static uint64_t
take_advance (RowMachine *self, uint8_t opcode)
{
  uint64_t delta;

  switch (opcode)
    {
    case CFA_ADVANCE_LOC1:
      delta = take_u8 (self);
      break;
    case CFA_ADVANCE_LOC2:
      delta = take_u16 (self);
      break;
    case CFA_ADVANCE_LOC4:
      delta = take_u32 (self);
      break;
    default:
      if ((opcode & 0xc0) != CFA_ADVANCE_LOC)
        return NO_ADVANCE;
      delta = opcode & 0x3f;
    }
  return delta * self->cie->code_alignment;
}

/* Any other instruction. */
static bool
run_one (RowMachine *self, uint8_t opcode)
{
  switch (opcode & 0xc0)
    {
    case CFA_OFFSET:
      set_column (self, opcode & 0x3f, SONDE_CFI_OFFSET, factored (self, take_unsigned (self)));
      return true;
    case CFA_RESTORE:
      if ((opcode & 0x3f) < SONDE_CFI_N_REGISTERS && self->initial != NULL)
        self->row.columns[opcode & 0x3f] = self->initial->columns[opcode & 0x3f];
      return true;
    default:
      break;
    }
  if ((opcode >= CFA_DEF_CFA && opcode <= CFA_DEF_CFA_EXPRESSION) || opcode == CFA_DEF_CFA_SF
      || opcode == CFA_DEF_CFA_OFFSET_SF)
    return run_define_cfa (self, opcode);
  return run_extended (self, opcode);
}

/* Runs until the row for @pc stands. Each turn eats a byte, so it ends. */
static bool
run (RowMachine *self, const SondeCfiCursor *instructions, uint64_t pc)
{
  self->cursor = *instructions;
  if (instructions->end - instructions->at > SONDE_CFI_MAX_PROGRAM)
    return false;
  while (self->cursor.at < self->cursor.end)
    {
      const uint8_t *begin = self->cursor.at;
      uint8_t opcode = take_u8 (self);
      uint64_t advance = take_advance (self, opcode);

      if (self->bad || (advance == NO_ADVANCE && !run_one (self, opcode)) || self->bad
          || !spend (self, (uint64_t) (self->cursor.at - begin)))
        return false;
      if (advance == NO_ADVANCE)
        continue;
      if (advance > pc - self->at)
        {
          self->end = advance < self->end - self->at ? self->at + advance : self->end;
          return true;
        }
      self->at += advance;
    }
  return true;
}

/* The CIE's program sets the row that all its functions begin with: it has no locations. */
static bool
run_both (RowMachine *self, SondeCfiRow *initial, const SondeCfiFde *fde, uint64_t pc)
{
  self->at = fde->begin;
  self->end = fde->end;
  if (!spend (self, SONDE_CFI_ROW_WORK) || !run (self, &self->cie->instructions, fde->begin))
    return false;
  *initial = self->row;
  self->initial = initial;
  self->n_states = 0;
  self->at = fde->begin;
  self->end = fde->end;
  return run (self, &fde->instructions, pc);
}

int
sonde_cfi_row_find_with (SondeCfiScratch *scratch,
                         const SondeCfiSection *section,
                         const SondeCfiCie *cie,
                         const SondeCfiFde *fde,
                         uint64_t pc,
                         uint32_t *work,
                         SondeCfiRow *row)
{
  RowMachine machine;
  bool found;

  if (pc < fde->begin || pc >= fde->end)
    return -ENODATA;
  if (cie->return_register >= SONDE_CFI_N_REGISTERS)
    return -EBADMSG;
  machine.section = section;
  machine.cie = cie;
  machine.bad = false;
  machine.row = (SondeCfiRow){ .is_signal_frame = cie->is_signal_frame,
                               .return_register = (uint8_t) cie->return_register };
  machine.initial = NULL;
  machine.states = scratch->states;
  machine.n_states = 0;
  machine.work = *work;
  found = run_both (&machine, &scratch->initial, fde, pc);
  *work = machine.work;
  if (!found)
    return machine.work == 0 ? -EDQUOT : -EBADMSG;
  *row = machine.row;
  row->begin = machine.at;
  row->end = machine.end;
  return 0;
}

int
sonde_cfi_row_find (const SondeCfiSection *section,
                    const SondeCfiCie *cie,
                    const SondeCfiFde *fde,
                    uint64_t pc,
                    uint32_t *work,
                    SondeCfiRow *row)
{
  SondeCfiScratch scratch;

  return sonde_cfi_row_find_with (&scratch, section, cie, fde, pc, work, row);
}

uint64_t
sonde_cfi_row_max_steps (const SondeCfiRow *row)
{
  uint64_t n_expressions = row->cfa_is_expression;

  for (unsigned reg = 0; reg < SONDE_CFI_N_REGISTERS; reg++)
    n_expressions += row->columns[reg].kind == SONDE_CFI_EXPRESSION
                     || row->columns[reg].kind == SONDE_CFI_VAL_EXPRESSION;
  return n_expressions * SONDE_CFI_MAX_EXPRESSION_STEPS;
}
