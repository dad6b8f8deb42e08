/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/cfi-check.h"

#include <dwarf.h>

enum
{
  BUDGET_FACTOR = 8, /* of the section's size: each CIE is looked at a few times */
};

void
sonde_cfi_check_init (SondeCfiCheck *self, size_t section_size_bytes)
{
  *self = (SondeCfiCheck){
    .budget_bytes = (uint64_t) section_size_bytes * BUDGET_FACTOR,
    .cie_offset = SIZE_MAX,
  };
}

static bool
check_register (SondeCfiCursor *cursor)
{
  uint64_t number;

  return sonde_cfi_read_uleb128 (cursor, &number) && number < SONDE_CFI_MAX_REGISTER;
}

static bool
check_uleb128 (SondeCfiCursor *cursor)
{
  uint64_t ignored;

  return sonde_cfi_read_uleb128 (cursor, &ignored);
}

static bool
check_sleb128 (SondeCfiCursor *cursor)
{
  int64_t ignored;

  return sonde_cfi_read_sleb128 (cursor, &ignored);
}

/* The operations that make sense in CFI and that libdw evaluates. */
static bool
check_operation (SondeCfiCursor *cursor)
{
  uint8_t operation = 0;

  if (!sonde_cfi_read_u8 (cursor, &operation))
    return false;
  if (operation >= DW_OP_lit0 && operation <= DW_OP_lit31)
    return true;
  if (operation >= DW_OP_breg0 && operation <= DW_OP_breg31)
    return check_sleb128 (cursor);
  if (operation >= DW_OP_dup && operation <= DW_OP_rot && operation != DW_OP_pick)
    return true;
  if (operation >= DW_OP_abs && operation <= DW_OP_xor && operation != DW_OP_plus_uconst)
    return true;
  if (operation >= DW_OP_eq && operation <= DW_OP_ne)
    return true;

  switch (operation)
    {
    case DW_OP_deref:
    case DW_OP_nop:
    case DW_OP_stack_value:
      return true;
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_pick:
    case DW_OP_deref_size:
      return sonde_cfi_skip (cursor, 1);
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_skip:
    case DW_OP_bra:
      return sonde_cfi_skip (cursor, 2);
    case DW_OP_const4u:
    case DW_OP_const4s:
      return sonde_cfi_skip (cursor, 4);
    case DW_OP_addr:
    case DW_OP_const8u:
    case DW_OP_const8s:
      return sonde_cfi_skip (cursor, 8);
    case DW_OP_constu:
    case DW_OP_plus_uconst:
      return check_uleb128 (cursor);
    case DW_OP_consts:
      return check_sleb128 (cursor);
    case DW_OP_bregx:
      return check_register (cursor) && check_sleb128 (cursor);
    default:
      return false;
    }
}

static bool
check_expression (SondeCfiCursor *cursor)
{
  SondeCfiCursor expression;
  uint64_t size;

  if (!sonde_cfi_read_uleb128 (cursor, &size) || size > SONDE_CFI_MAX_EXPRESSION)
    return false;
  expression.at = cursor->at;
  if (!sonde_cfi_skip (cursor, size))
    return false;
  expression.end = cursor->at;
  while (expression.at < expression.end)
    if (!check_operation (&expression))
      return false;
  return true;
}

/* DW_CFA_set_loc is among the refused: no compiler emits it for these machines. */
static bool
check_extended (SondeCfiCursor *cursor, uint8_t instruction, int *n_states)
{
  switch (instruction)
    {
    case DW_CFA_nop:
    case DW_CFA_GNU_window_save: /* on AArch64: the return address is signed from here on */
      return true;
    case DW_CFA_remember_state:
      return ++*n_states <= SONDE_CFI_MAX_STATES;
    case DW_CFA_restore_state:
      return --*n_states >= 0;
    case DW_CFA_advance_loc1:
      return sonde_cfi_skip (cursor, 1);
    case DW_CFA_advance_loc2:
      return sonde_cfi_skip (cursor, 2);
    case DW_CFA_advance_loc4:
      return sonde_cfi_skip (cursor, 4);
    case DW_CFA_restore_extended:
    case DW_CFA_undefined:
    case DW_CFA_same_value:
    case DW_CFA_def_cfa_register:
      return check_register (cursor);
    case DW_CFA_def_cfa_offset:
    case DW_CFA_GNU_args_size:
      return check_uleb128 (cursor);
    case DW_CFA_def_cfa_offset_sf:
      return check_sleb128 (cursor);
    case DW_CFA_register:
      return check_register (cursor) && check_register (cursor);
    case DW_CFA_offset_extended:
    case DW_CFA_def_cfa:
    case DW_CFA_val_offset:
      return check_register (cursor) && check_uleb128 (cursor);
    case DW_CFA_offset_extended_sf:
    case DW_CFA_def_cfa_sf:
    case DW_CFA_val_offset_sf:
      return check_register (cursor) && check_sleb128 (cursor);
    case DW_CFA_def_cfa_expression:
      return check_expression (cursor);
    case DW_CFA_expression:
    case DW_CFA_val_expression:
      return check_register (cursor) && check_expression (cursor);
    default:
      return false;
    }
}

static bool
check_instructions (SondeCfiCheck *self, SondeCfiCursor cursor)
{
  uint64_t size = (uint64_t) (cursor.end - cursor.at);
  int n_states = 0;

  if (size > SONDE_CFI_MAX_INSTRUCTIONS || size > self->budget_bytes)
    return false;
  self->budget_bytes -= size;

  while (cursor.at < cursor.end)
    {
      uint8_t instruction = 0;
      bool ok = false;

      sonde_cfi_read_u8 (&cursor, &instruction);
      switch (instruction & 0xc0)
        {
        case DW_CFA_advance_loc:
        case DW_CFA_restore:
          ok = true;
          break;
        case DW_CFA_offset:
          ok = check_uleb128 (&cursor);
          break;
        default:
          ok = check_extended (&cursor, instruction, &n_states);
          break;
        }
      if (!ok)
        return false;
    }
  return true;
}

bool
sonde_cfi_check_fde (SondeCfiCheck *self, const SondeCfiCie *cie, const SondeCfiFde *fde)
{
  if (cie->offset != self->cie_offset)
    {
      self->cie_offset = cie->offset;
      self->cie_is_safe = cie->return_register < SONDE_CFI_MAX_REGISTER
                          && check_instructions (self, cie->instructions);
    }
  return self->cie_is_safe && check_instructions (self, fde->instructions);
}
