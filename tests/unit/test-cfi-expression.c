/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Every operation of a CFI expression, and every way to get one wrong. */
#include <errno.h>

#include "tests/lib/cfi-program.h"

#define SP UINT64_C (0x7ffe00001000)

static uint64_t words[] = { 0x1122334455667788, 0x99aabbccddeeff00 };

static int
evaluate (const guint8 *bytes, gsize size, const guint64 *initial, guint64 *value)
{
  g_autofree guint8 *copy = g_malloc (MAX (size, 1));
  SondeCfiRegisters registers
      = { .values = { [7] = SP, [16] = 0x401234 }, .valid = 1 << 7 | 1 << 16 };
  SondeStackCopy stack
      = { .bytes = (const uint8_t *) words, .address = SP, .size_bytes = sizeof words };

  memcpy (copy, bytes, size);
  return sonde_cfi_expression_evaluate (copy, size, &registers, &stack, initial, value);
}

static void
assert_refused (int expected, const guint8 *bytes, gsize size)
{
  guint64 value = 42;

  g_assert_cmpint (evaluate (bytes, size, NULL, &value), ==, expected);
  g_assert_cmpuint (value, ==, 42);
}

static void
assert_value (guint64 expected, const guint8 *bytes, gsize size)
{
  guint64 value = ~expected;

  g_assert_cmpint (evaluate (bytes, size, NULL, &value), ==, 0);
  g_assert_cmphex (value, ==, expected);
}

static gboolean
is_known (guint opcode)
{
  return opcode == 0x06 || (opcode >= 0x08 && opcode <= 0x17) || (opcode >= 0x19 && opcode <= 0x8f)
         || opcode == 0x92 || opcode == 0x94 || opcode == 0x96;
}

static void
test_refuses_opcodes (void)
{
  for (guint opcode = 0; opcode < 0x100; opcode++)
    if (!is_known (opcode))
      assert_refused (-EBADMSG, BYTES (0x31, 0x31, 0x31, (guint8) opcode, 0, 0));
    else if (opcode >= 0x50 && opcode < 0x70)
      assert_refused (-EBADMSG, BYTES (0x31, (guint8) opcode)); /* DW_OP_reg*: a location */
}

/* Each wants one more than there is. */
static void
test_refuses_underflow (void)
{
  static const guint8 one[] = { 0x06, 0x12, 0x13, 0x19, 0x1f, 0x20 };
  static const guint8 two[] = { 0x14, 0x16, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x21, 0x22, 0x24,
                                0x25, 0x26, 0x27, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e };

  assert_refused (-EBADMSG, BYTES (0x96));
  for (guint i = 0; i < G_N_ELEMENTS (one); i++)
    assert_refused (-EBADMSG, BYTES (one[i]));
  for (guint i = 0; i < G_N_ELEMENTS (two); i++)
    assert_refused (-EBADMSG, BYTES (0x31, two[i]));
  assert_refused (-EBADMSG, BYTES (0x31, 0x31, 0x17));
  assert_refused (-EBADMSG, BYTES (0x31, 0x15, 1));
  assert_refused (-EBADMSG, BYTES (0x31, 0x15, 255));
  assert_refused (-EBADMSG, BYTES (0x23, 1));
  assert_refused (-EBADMSG, BYTES (0x94, 8));
  assert_refused (-EBADMSG, BYTES (0x28, 0, 0));
  assert_refused (-EBADMSG, BYTES (0x31, 0x13));
}

static void
test_refuses_cut_operands (void)
{
  static const struct
  {
    guint8 bytes[12];
    gsize size;
  } cases[] = {
    { { 0x08, 1 }, 2 },
    { { 0x09, 1 }, 2 },
    { { 0x0a, 1, 0 }, 3 },
    { { 0x0b, 1, 0 }, 3 },
    { { 0x0c, 1, 0, 0, 0 }, 5 },
    { { 0x0d, 1, 0, 0, 0 }, 5 },
    { { 0x0e, 1, 0, 0, 0, 0, 0, 0, 0 }, 9 },
    { { 0x0f, 1, 0, 0, 0, 0, 0, 0, 0 }, 9 },
    { { 0x10, 0x81, 0 }, 3 },
    { { 0x11, 0x81, 0 }, 3 },
    { { 0x77, 0x81, 0 }, 3 },
    { { 0x92, 0x87, 0x00, 0x81, 0 }, 5 },
    { { 0x2f, 0, 0, 0x31 }, 4 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      guint64 value;

      g_assert_cmpint (evaluate (cases[i].bytes, cases[i].size, NULL, &value), ==, 0);
      for (gsize size = 0; size < cases[i].size; size++)
        assert_refused (-EBADMSG, cases[i].bytes, size);
    }
  assert_refused (-EBADMSG, BYTES (0x31, 0x15));
  assert_refused (-EBADMSG, BYTES (0x31, 0x23, 0x80));
  assert_refused (-EBADMSG, BYTES (0x77, 0, 0x94));
  assert_refused (-EBADMSG, BYTES (0x31, 0x31, 0x28, 0));
}

static void
test_refuses_values (void)
{
  assert_refused (-EBADMSG, BYTES (0x31, 0x30, 0x1b)); /* division by zero */
  assert_refused (-EBADMSG, BYTES (0x31, 0x30, 0x1d));
  assert_refused (-EBADMSG, BYTES (0x76, 0)); /* a register that the sample lacks */
  assert_refused (-EBADMSG, BYTES (0x92, 35, 0));
  assert_refused (-EBADMSG, BYTES (0x92, 64, 0));
  assert_refused (-EBADMSG, BYTES (0x92, 0x80, 0x80, 0x80, 0x38, 0));
  assert_refused (-EBADMSG, BYTES (0x77, 0, 0x94, 0));
  assert_refused (-EBADMSG, BYTES (0x77, 0, 0x94, 9));
  assert_refused (-EFAULT, BYTES (0x77, 0x78, 0x06)); /* below */
  assert_refused (-EFAULT, BYTES (0x77, 9, 0x06));    /* half of it above */
  assert_refused (-EFAULT, BYTES (0x30, 0x06));
  assert_refused (-EFAULT, BYTES (0x09, 0xff, 0x06));
}

static void
test_refuses_jumps_out (void)
{
  assert_refused (-EBADMSG, BYTES (0x31, 0x2f, 1, 0));
  assert_refused (-EBADMSG, BYTES (0x31, 0x2f, 0xff, 0x7f));
  assert_refused (-EBADMSG, BYTES (0x31, 0x2f, 0xfb, 0xff));
  assert_refused (-EBADMSG, BYTES (0x31, 0x2f, 0, 0x80));
  assert_refused (-EBADMSG, BYTES (0x31, 0x31, 0x28, 1, 0));
}

static void
test_bounds (void)
{
  guint8 deep[SONDE_CFI_EXPRESSION_STACK + 1];
  g_autofree guint8 *nops = g_malloc (SONDE_CFI_MAX_EXPRESSION_STEPS + 1);
  guint64 value;

  memset (deep, 0x31, sizeof deep);
  assert_value (1, deep, sizeof deep - 1);
  assert_refused (-EBADMSG, deep, sizeof deep);
  g_assert_cmpint (evaluate (deep, sizeof deep - 1, &(guint64){ 0 }, &value), ==, -EBADMSG);
  memset (nops, 0x96, SONDE_CFI_MAX_EXPRESSION_STEPS + 1);
  nops[0] = 0x31;
  assert_value (1, nops, SONDE_CFI_MAX_EXPRESSION_STEPS);
  assert_refused (-EBADMSG, nops, SONDE_CFI_MAX_EXPRESSION_STEPS + 1);
  /* backward jumps to themselves, with and without a condition */
  assert_refused (-EBADMSG, BYTES (0x31, 0x2f, 0xfd, 0xff));
  assert_refused (-EBADMSG, BYTES (0x31, 0x12, 0x28, 0xfc, 0xff));
  assert_refused (-EBADMSG, BYTES (0x31, 0x2f, 0xfc, 0xff)); /* pushes each time */
}

static void
test_constants (void)
{
  for (guint8 i = 0; i < 32; i++)
    assert_value (i, BYTES (0x30 + i));
  assert_value (0xff, BYTES (0x08, 0xff));
  assert_value (G_MAXUINT64, BYTES (0x09, 0xff));
  assert_value (0xfffe, BYTES (0x0a, 0xfe, 0xff));
  assert_value ((guint64) -2, BYTES (0x0b, 0xfe, 0xff));
  assert_value (0xfffffffe, BYTES (0x0c, 0xfe, 0xff, 0xff, 0xff));
  assert_value ((guint64) -2, BYTES (0x0d, 0xfe, 0xff, 0xff, 0xff));
  assert_value (0x8070605040302010, BYTES (0x0e, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80));
  assert_value (0x8070605040302010, BYTES (0x0f, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80));
  assert_value (0x90, BYTES (0x10, 0x90, 0x01));
  assert_value ((guint64) -2, BYTES (0x11, 0x7e));
}

static void
test_registers_and_memory (void)
{
  guint64 value;

  assert_value (SP, BYTES (0x77, 0));
  assert_value (SP - 8, BYTES (0x77, 0x78));
  assert_value (0x401234, BYTES (0x80, 0));
  assert_value (SP + 16, BYTES (0x92, 7, 16));
  assert_value (words[0], BYTES (0x77, 0, 0x06));
  assert_value (words[1], BYTES (0x77, 8, 0x06));
  assert_value (0x88, BYTES (0x77, 0, 0x94, 1));
  assert_value (0x55667788, BYTES (0x77, 0, 0x94, 4));
  assert_value (0x99, BYTES (0x77, 15, 0x94, 1));
  g_assert_cmpint (evaluate (BYTES (0x23, 8), &(guint64){ 100 }, &value), ==, 0);
  g_assert_cmpuint (value, ==, 108);
}

static void
test_moves (void)
{
  assert_value (2, BYTES (0x31, 0x32, 0x12));
  assert_value (1, BYTES (0x31, 0x32, 0x13));
  assert_value (1, BYTES (0x31, 0x32, 0x14));
  assert_value (1, BYTES (0x31, 0x32, 0x33, 0x15, 2));
  assert_value (3, BYTES (0x31, 0x32, 0x33, 0x15, 0));
  assert_value (1, BYTES (0x31, 0x32, 0x16));
  /* 1 2 3 becomes 3 1 2 */
  assert_value (2, BYTES (0x31, 0x32, 0x33, 0x17));
  assert_value (1, BYTES (0x31, 0x32, 0x33, 0x17, 0x13));
  assert_value (3, BYTES (0x31, 0x32, 0x33, 0x17, 0x13, 0x13));
}

static void
test_arithmetic (void)
{
  assert_value (5, BYTES (0x09, 0xfb, 0x19));
  assert_value (5, BYTES (0x35, 0x19));
  assert_value (4, BYTES (0x36, 0x3c, 0x1a));
  assert_value ((guint64) -2, BYTES (0x09, 0xfb, 0x32, 0x1b));
  assert_value ((guint64) -3, BYTES (0x33, 0x36, 0x1c));
  assert_value (1, BYTES (0x37, 0x33, 0x1d));
  assert_value (21, BYTES (0x37, 0x33, 0x1e));
  assert_value ((guint64) -3, BYTES (0x33, 0x1f));
  assert_value (~UINT64_C (3), BYTES (0x33, 0x20));
  assert_value (7, BYTES (0x35, 0x33, 0x21));
  assert_value (8, BYTES (0x35, 0x33, 0x22));
  assert_value (0x95, BYTES (0x35, 0x23, 0x90, 0x01));
  assert_value (40, BYTES (0x35, 0x33, 0x24));
  assert_value (2, BYTES (0x35, 0x31, 0x25));
  assert_value ((guint64) -3, BYTES (0x09, 0xfb, 0x31, 0x26));
  assert_value (6, BYTES (0x35, 0x33, 0x27));
  /* shifts as wide as the word, and the one quotient that overflows */
  assert_value (0, BYTES (0x35, 0x08, 64, 0x24));
  assert_value (0, BYTES (0x35, 0x08, 64, 0x25));
  assert_value (G_MAXUINT64, BYTES (0x09, 0xfb, 0x08, 64, 0x26));
  assert_value (UINT64_C (1) << 63, BYTES (0x31, 0x08, 63, 0x24, 0x09, 0xff, 0x1b));
  assert_value (UINT64_C (1) << 63, BYTES (0x31, 0x08, 63, 0x24, 0x19));
}

static void
test_comparisons (void)
{
  static const struct
  {
    guint8 opcode;
    guint64 below, equal, above;
  } cases[] = { { 0x29, 0, 1, 0 }, { 0x2a, 0, 1, 1 }, { 0x2b, 0, 0, 1 },
                { 0x2c, 1, 1, 0 }, { 0x2d, 1, 0, 0 }, { 0x2e, 1, 0, 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      assert_value (cases[i].below, BYTES (0x09, 0xff, 0x31, cases[i].opcode)); /* signed */
      assert_value (cases[i].equal, BYTES (0x31, 0x31, cases[i].opcode));
      assert_value (cases[i].above, BYTES (0x32, 0x31, cases[i].opcode));
    }
}

static void
test_jumps (void)
{
  assert_value (2, BYTES (0x32, 0x2f, 1, 0, 0x33));
  assert_value (2, BYTES (0x32, 0x2f, 0, 0));
  assert_value (2, BYTES (0x32, 0x31, 0x28, 1, 0, 0x33));
  assert_value (3, BYTES (0x32, 0x30, 0x28, 1, 0, 0x33));
  /* counts 10 down to 0 */
  assert_value (0, BYTES (0x3a, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add_func ("/cfi-expression/" path, test)
  ADD ("refuses-operations-without-sense-here", test_refuses_opcodes);
  ADD ("refuses-to-take-from-an-empty-stack", test_refuses_underflow);
  ADD ("refuses-operands-cut-at-every-byte", test_refuses_cut_operands);
  ADD ("refuses-impossible-values", test_refuses_values);
  ADD ("refuses-jumps-out-of-itself", test_refuses_jumps_out);
  ADD ("refuses-more-steps-and-values-than-anybody-needs", test_bounds);
  ADD ("pushes-constants", test_constants);
  ADD ("reads-registers-and-memory", test_registers_and_memory);
  ADD ("moves-values", test_moves);
  ADD ("calculates", test_arithmetic);
  ADD ("compares-signed", test_comparisons);
  ADD ("jumps", test_jumps);
  return g_test_run ();
}
