/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every call frame instruction, and every way to get one wrong. */
#include <errno.h>

#include "tests/lib/cfi-program.h"

#define CFA_IS_RSP_8 0x0c, 7, 8

typedef struct
{
  const char *what;
  guint8 bytes[24];
  gsize size;
} Case;

static int
run_bytes (const guint8 *bytes, gsize size, SondeCfiRow *row)
{
  g_auto (CfiProgram) program = { 0 };

  cfi_program_init (&program, BYTES (CFA_IS_RSP_8, 0x90, 1), bytes, size);
  return cfi_program_run (&program, CODE_BEGIN, row);
}

static void
test_refuses_instructions (void)
{
  static const Case cases[] = {
    { "set_loc", { 0x01, 0, 0x10, 0, 0, 0, 0, 0, 0 }, 9 },
    { "restore without remember", { 0x0b }, 1 },
    { "one restore too many", { 0x0a, 0x0b, 0x0b }, 3 },
    { "a CFA in a vector register", { 0x0c, 35, 8 }, 3 },
    { "a CFA in register 0x7000000", { 0x0c, 0x80, 0x80, 0x80, 0x38, 8 }, 6 },
    { "a signed CFA in a vector register", { 0x12, 35, 1 }, 3 },
    { "the register of a CFA that is none", { 0x0d, 35 }, 2 },
    { "a register for an expression's CFA", { 0x0f, 2, 0x77, 8, 0x0d, 6 }, 6 },
    { "an offset for an expression's CFA", { 0x0f, 2, 0x77, 8, 0x0e, 8 }, 6 },
    { "a signed offset for an expression's CFA", { 0x0f, 2, 0x77, 8, 0x13, 1 }, 6 },
    { "an expression longer than its function's program", { 0x0f, 0x7f, 0x96 }, 3 },
    { "a register's expression that is longer", { 0x10, 6, 3, 0x77, 8 }, 5 },
    { "an expression of 64 KiB", { 0x16, 6, 0x80, 0x80, 4, 0x77, 8 }, 7 },
    { "an expression as long as the address space",
      { 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0x96 },
      12 },
  };
  SondeCfiRow row;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("%s", cases[i].what);
      g_assert_cmpint (run_bytes (cases[i].bytes, cases[i].size, &row), ==, -EBADMSG);
    }
}

static gboolean
is_known (guint8 opcode)
{
  return opcode == 0x00 || (opcode >= 0x02 && opcode <= 0x16) || (opcode >= 0x2d && opcode <= 0x2f)
         || opcode >= 0x40;
}

/* Zeros are operands of all of them, and instructions that do nothing. */
static void
test_knows_opcodes (void)
{
  SondeCfiRow row;

  for (guint opcode = 0; opcode < 0x100; opcode++)
    {
      guint8 bytes[] = { (guint8) opcode, 0, 0, 0, 0, 0, 0, 0, 0 };
      int expected = is_known ((guint8) opcode) ? 0 : -EBADMSG;

      if (opcode == 0x0b) /* needs a state */
        continue;
      g_test_message ("opcode %#x", opcode);
      g_assert_cmpint (run_bytes (bytes, sizeof bytes, &row), ==, expected);
    }
}

/* Each instruction with operands, whole once, and cut behind each of its bytes. */
static void
test_refuses_cut_operands (void)
{
  static const Case cases[] = {
    { "advance_loc1", { 0x02, 0 }, 2 },
    { "advance_loc2", { 0x03, 0, 0 }, 3 },
    { "advance_loc4", { 0x04, 0, 0, 0, 0 }, 5 },
    { "offset", { 0x86, 0x82, 0x01 }, 3 },
    { "offset_extended", { 0x05, 0x86, 0x00, 0x82, 0x01 }, 5 },
    { "restore_extended", { 0x06, 0x86, 0x00 }, 3 },
    { "undefined", { 0x07, 0x86, 0x00 }, 3 },
    { "same_value", { 0x08, 0x86, 0x00 }, 3 },
    { "register", { 0x09, 0x86, 0x00, 0x83, 0x00 }, 5 },
    { "def_cfa", { 0x0c, 0x86, 0x00, 0x90, 0x01 }, 5 },
    { "def_cfa_register", { 0x0d, 0x86, 0x00 }, 3 },
    { "def_cfa_offset", { 0x0e, 0x90, 0x01 }, 3 },
    { "def_cfa_expression", { 0x0f, 0x82, 0x00, 0x77, 8 }, 5 },
    { "expression", { 0x10, 0x86, 0x00, 0x82, 0x00, 0x77, 8 }, 7 },
    { "offset_extended_sf", { 0x11, 0x86, 0x00, 0xfe, 0x7e }, 5 },
    { "def_cfa_sf", { 0x12, 0x86, 0x00, 0xfe, 0x7e }, 5 },
    { "def_cfa_offset_sf", { 0x13, 0xfe, 0x7e }, 3 },
    { "val_offset", { 0x14, 0x86, 0x00, 0x82, 0x01 }, 5 },
    { "val_offset_sf", { 0x15, 0x86, 0x00, 0xfe, 0x7e }, 5 },
    { "val_expression", { 0x16, 0x86, 0x00, 0x82, 0x00, 0x77, 8 }, 7 },
    { "GNU_args_size", { 0x2e, 0x90, 0x01 }, 3 },
    { "GNU_negative_offset_extended", { 0x2f, 0x86, 0x00, 0x82, 0x01 }, 5 },
  };
  SondeCfiRow row;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("%s", cases[i].what);
      g_assert_cmpint (run_bytes (cases[i].bytes, cases[i].size, &row), ==, 0);
      for (gsize size = 1; size < cases[i].size; size++)
        g_assert_cmpint (run_bytes (cases[i].bytes, size, &row), ==, -EBADMSG);
    }
}

static void
test_columns (void)
{
  static const struct
  {
    guint8 bytes[16];
    gsize size;
    guint column;
    SondeCfiColumnKind kind;
    gint64 offset;
  } cases[] = {
    { { 0x00 }, 1, 16, SONDE_CFI_OFFSET, -8 },
    { { 0x86, 2 }, 2, 6, SONDE_CFI_OFFSET, -16 },
    { { 0x05, 6, 2 }, 3, 6, SONDE_CFI_OFFSET, -16 },
    { { 0x11, 6, 0x7e }, 3, 6, SONDE_CFI_OFFSET, 16 },
    { { 0x2f, 6, 2 }, 3, 6, SONDE_CFI_OFFSET, 16 },
    { { 0x14, 6, 2 }, 3, 6, SONDE_CFI_VAL_OFFSET, -16 },
    { { 0x15, 6, 0x7e }, 3, 6, SONDE_CFI_VAL_OFFSET, 16 },
    { { 0x09, 16, 5 }, 3, 16, SONDE_CFI_REGISTER, 5 },
    { { 0x07, 16 }, 2, 16, SONDE_CFI_UNDEFINED, 0 },
    { { 0x08, 16 }, 2, 16, SONDE_CFI_SAME, 0 },
    { { 0x86, 2, 0xc6 }, 3, 6, SONDE_CFI_SAME, 0 },
    { { 0x07, 16, 0xd0 }, 3, 16, SONDE_CFI_OFFSET, -8 },
    { { 0x07, 16, 0x06, 16 }, 4, 16, SONDE_CFI_OFFSET, -8 },
    { { 0x2e, 0x90, 0x01, 0x86, 2 }, 5, 6, SONDE_CFI_OFFSET, -16 },
    { { 0x0a, 0x86, 2, 0x0b }, 4, 6, SONDE_CFI_SAME, 0 },
    { { 0x86, 2, 0x0a, 0x07, 6, 0x0a, 0x07, 16, 0x0b, 0x0b }, 10, 6, SONDE_CFI_OFFSET, -16 },
    { { 0x86, 2, 0x0a, 0x07, 6, 0x0a, 0x07, 16, 0x0b, 0x0b }, 10, 16, SONDE_CFI_OFFSET, -8 },
  };
  SondeCfiRow row;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_test_message ("case %u", i);
      g_assert_cmpint (run_bytes (cases[i].bytes, cases[i].size, &row), ==, 0);
      g_assert_cmpint (row.columns[cases[i].column].kind, ==, cases[i].kind);
      g_assert_cmpint (row.columns[cases[i].column].offset, ==, cases[i].offset);
      g_assert_cmpint (row.return_register, ==, 16);
    }
}

static void
test_cfa (void)
{
  static const struct
  {
    guint8 bytes[8];
    gsize size;
    guint reg;
    gint64 offset;
  } cases[] = {
    { { 0x00 }, 1, 7, 8 },
    { { 0x0c, 6, 16 }, 3, 6, 16 },
    { { 0x12, 6, 0x7e }, 3, 6, 16 },
    { { 0x0d, 6 }, 2, 6, 8 },
    { { 0x0e, 24 }, 2, 7, 24 },
    { { 0x13, 0x7d }, 2, 7, 24 },
    { { 0x0a, 0x0c, 6, 16, 0x0b }, 5, 7, 8 },
    { { 0x0f, 1, 0x50, 0x0c, 6, 16 }, 6, 6, 16 },
  };
  SondeCfiRow row;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_assert_cmpint (run_bytes (cases[i].bytes, cases[i].size, &row), ==, 0);
      g_assert_false (row.cfa_is_expression);
      g_assert_cmpuint (row.cfa_register, ==, cases[i].reg);
      g_assert_cmpint (row.cfa_offset, ==, cases[i].offset);
    }
}

static void
test_expressions (void)
{
  g_auto (CfiProgram) program = { 0 };
  SondeCfiRow row;

  cfi_program_init (&program, NO_BYTES,
                    BYTES (0x0f, 2, 0x77, 8, 0x10, 6, 3, 0x76, 0, 6, 0x16, 3, 1, 0x31));
  g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN, &row), ==, 0);
  g_assert_true (row.cfa_is_expression);
  g_assert_cmpint (row.cfa_offset, ==, 2);
  g_assert_cmpint (row.cfa_length, ==, 2);
  g_assert_cmpint (row.columns[6].kind, ==, SONDE_CFI_EXPRESSION);
  g_assert_cmpint (row.columns[6].offset, ==, 7);
  g_assert_cmpint (row.columns[6].length, ==, 3);
  g_assert_cmpint (row.columns[3].kind, ==, SONDE_CFI_VAL_EXPRESSION);
  g_assert_cmpint (row.columns[3].offset, ==, 13);
  g_assert_cmpint (row.columns[3].length, ==, 1);
}

/* What is said of vector registers, or of numbers no machine has, is passed over. */
static void
test_skips_other_registers (void)
{
  SondeCfiRow row, plain;

  run_bytes (NO_BYTES, &plain);
  g_assert_cmpint (run_bytes (BYTES (0x05, 0x80, 0x80, 0x80, 0x38, 1, 0x05, 35, 1, 0x07, 40, 0x08,
                                     41, 0x09, 42, 1, 0x14, 43, 1, 0xa8, 1, 0xe8, 0x06, 40, 0x10,
                                     44, 1, 0x30, 0x16, 45, 1, 0x30),
                              &row),
                   ==, 0);
  g_assert_cmpmem (row.columns, sizeof row.columns, plain.columns, sizeof plain.columns);
}

static void
test_locations (void)
{
  /* offsets 16, 24, ... from 0x1000, +1, +0x41, +0x241, +0x10241 */
  g_auto (CfiProgram) program = { 0 };
  static const struct
  {
    guint64 begin;
    gint64 offset;
  } rows[] = { { 0, 8 }, { 1, 16 }, { 0x41, 24 }, { 0x241, 32 }, { 0x641, 40 }, { 0x1000, 0 } };
  SondeCfiRow row;

  cfi_program_init (&program, BYTES (CFA_IS_RSP_8),
                    BYTES (0x41, 0x0e, 16, 0x02, 0x40, 0x0e, 24, 0x03, 0, 2, 0x0e, 32, 0x04, 0, 4,
                           0, 0, 0x0e, 40));
  for (guint i = 0; i + 1 < G_N_ELEMENTS (rows); i++)
    for (guint64 pc = rows[i].begin; pc < rows[i + 1].begin; pc++)
      {
        g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN + pc, &row), ==, 0);
        g_assert_cmpint (row.cfa_offset, ==, rows[i].offset);
        g_assert_cmphex (row.begin, ==, CODE_BEGIN + rows[i].begin);
        g_assert_cmphex (row.end, ==, CODE_BEGIN + rows[i + 1].begin);
      }
  g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN - 1, &row), ==, -ENODATA);
  g_assert_cmpint (cfi_program_run (&program, CODE_END, &row), ==, -ENODATA);
}

/* Advances that wrap the address space lead behind every function, never back into it. */
static void
test_wild_advances (void)
{
  g_auto (CfiProgram) program = { 0 };
  SondeCfiRow row;

  cfi_program_init (&program, BYTES (CFA_IS_RSP_8),
                    BYTES (0x04, 0xff, 0xff, 0xff, 0xff, 0x0e, 16, 0x41, 0x0e, 24));
  for (guint64 factor = 1; factor != 0; factor <<= 1)
    {
      program.cie.code_alignment = factor;
      g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN + 8, &row), ==, 0);
      g_assert_cmphex (row.begin, <=, CODE_BEGIN + 8);
      g_assert_cmphex (row.end, >, CODE_BEGIN + 8);
      g_assert_cmphex (row.end, <=, CODE_END);
    }
  program.cie.data_alignment = G_MININT64;
  g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN + 8, &row), ==, 0);
}

static void
test_bounds (void)
{
  g_autofree guint8 *bytes = g_malloc0 (SONDE_CFI_MAX_PROGRAM + 1);
  g_auto (CfiProgram) program = { 0 };
  SondeCfiRow row;

  g_assert_cmpint (run_bytes (bytes, SONDE_CFI_MAX_PROGRAM, &row), ==, 0);
  g_assert_cmpint (run_bytes (bytes, SONDE_CFI_MAX_PROGRAM + 1, &row), ==, -EBADMSG);
  memset (bytes, 0x0a, SONDE_CFI_MAX_STATES + 1);
  g_assert_cmpint (run_bytes (bytes, SONDE_CFI_MAX_STATES, &row), ==, 0);
  g_assert_cmpint (run_bytes (bytes, SONDE_CFI_MAX_STATES + 1, &row), ==, -EBADMSG);
  /* remember and restore in turn is no pile */
  for (guint i = 0; i < 1000; i++)
    bytes[i] = i % 2 == 0 ? 0x0a : 0x0b;
  g_assert_cmpint (run_bytes (bytes, 1000, &row), ==, 0);
  cfi_program_init (&program, BYTES (0x0a), BYTES (0x0b));
  g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN, &row), ==, -EBADMSG);
  program.cie.return_register = SONDE_CFI_N_REGISTERS;
  g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN, &row), ==, -EBADMSG);
}

static void
test_common_program (void)
{
  g_auto (CfiProgram) bad = { 0 };
  g_auto (CfiProgram) advancing = { 0 };
  SondeCfiRow row;

  cfi_program_init (&bad, BYTES (0x0c, 7), BYTES (CFA_IS_RSP_8));
  g_assert_cmpint (cfi_program_run (&bad, CODE_BEGIN, &row), ==, -EBADMSG);
  cfi_program_init (&advancing, BYTES (CFA_IS_RSP_8, 0x44, 0x0e, 16), NO_BYTES);
  g_assert_cmpint (cfi_program_run (&advancing, CODE_BEGIN + 8, &row), ==, 0);
  g_assert_cmpint (row.cfa_offset, ==, 8);
}

static void
test_return_address_state (void)
{
  g_auto (CfiProgram) program = { 0 };
  SondeCfiRow row;

  cfi_program_init (&program, BYTES (0x0c, 31, 0), BYTES (0x2d, 0x0a, 0x44, 0x2d, 0x44, 0x0b));
  program.cie.return_register = 30;
  program.cie.is_signal_frame = true;
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpint (cfi_program_run (&program, CODE_BEGIN + 4 * i, &row), ==, 0);
      g_assert_cmpint (row.ra_signed, ==, i != 1);
      g_assert_true (row.is_signal_frame);
      g_assert_cmpint (row.return_register, ==, 30);
    }
}

/* What a row costs is known to the byte, and it has to suffice. */
static void
test_work (void)
{
  static const guint8 rules[] = { 0x0a, 0x0b, 0x0a, 0x0b, 0x0e, 16 };
  const uint32_t cost = SONDE_CFI_ROW_WORK + 4 * SONDE_CFI_STATE_WORK + sizeof rules;
  g_auto (CfiProgram) program;
  SondeCfiRow row = { .cfa_offset = -1 };

  cfi_program_init (&program, BYTES (0x0c, 7, 8), rules, sizeof rules);
  for (uint32_t work = 0; work < cost + 3; work++)
    {
      uint32_t left = work;

      g_assert_cmpint (sonde_cfi_row_find (&program.section, &program.cie, &program.fde, CODE_BEGIN,
                                           &left, &row),
                       ==, -EDQUOT);
      g_assert_cmpuint (left, ==, 0);
      g_assert_cmpint (row.cfa_offset, ==, -1);
    }
  for (uint32_t more = 0; more < 2; more++)
    {
      uint32_t left = cost + 3 + more;

      g_assert_cmpint (sonde_cfi_row_find (&program.section, &program.cie, &program.fde, CODE_BEGIN,
                                           &left, &row),
                       ==, 0);
      g_assert_cmpuint (left, ==, more);
      g_assert_cmpint (row.cfa_offset, ==, 16);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add_func ("/cfi-program/" path, test)
  ADD ("refuses-instructions-that-make-no-sense", test_refuses_instructions);
  ADD ("refuses-operands-cut-at-every-byte", test_refuses_cut_operands);
  ADD ("refuses-what-goes-over-a-bound", test_bounds);
  ADD ("stops-when-it-has-cost-too-much", test_work);
  ADD ("knows-these-opcodes-and-no-others", test_knows_opcodes);
  ADD ("survives-advances-that-wrap", test_wild_advances);
  ADD ("skips-registers-no-return-address-depends-on", test_skips_other_registers);
  ADD ("sets-columns", test_columns);
  ADD ("sets-the-cfa", test_cfa);
  ADD ("finds-expressions", test_expressions);
  ADD ("finds-the-row-of-each-address", test_locations);
  ADD ("begins-with-the-common-program", test_common_program);
  ADD ("follows-signing-of-return-addresses", test_return_address_state);
  return g_test_run ();
}
