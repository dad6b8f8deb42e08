/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Our rows say what libdw's say, address by address, for real files. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/module-fixture.h"
#include "unwind/cfi-rule.h"

#define MIN_ROWS 1000

#if defined(__x86_64__)
static const guint columns[] = { 3, 6, 12, 13, 14, 15, 16 }; /* rbx rbp r12-r15, return address */
#elif defined(__aarch64__)
static const guint columns[] = { 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30 }; /* x19-x30 */
#endif

/* An expression is the same bytes; @ops has them decoded. */
static void
assert_same_operations (
    const SondeCfiSection *section, gint64 at, guint16 length, const Dwarf_Op *ops, size_t n_ops)
{
  for (size_t i = 0; i < n_ops; i++)
    {
      g_assert_cmpuint (ops[i].offset, <, length);
      g_assert_cmphex (ops[i].atom, ==, section->bytes[at + (gint64) ops[i].offset]);
    }
}

/* libdw turns "saved at CFA + offset" into operations: call_frame_cfa, plus_uconst. */
static void
assert_offset (gint64 offset, const Dwarf_Op *ops, size_t n_ops)
{
  g_assert_cmphex (ops[0].atom, ==, DW_OP_call_frame_cfa);
  if (offset == 0)
    {
      g_assert_cmpuint (n_ops, ==, 1);
      return;
    }
  g_assert_cmpuint (n_ops, ==, 2);
  g_assert_cmphex (ops[1].atom, ==, DW_OP_plus_uconst);
  g_assert_cmpint ((gint64) ops[1].number, ==, offset);
}

static void
assert_same_cfa (const SondeCfiSection *section, const SondeCfiRow *row, Dwarf_Frame *frame)
{
  Dwarf_Op *ops;
  size_t n_ops;

  g_assert_cmpint (dwarf_frame_cfa (frame, &ops, &n_ops), ==, 0);
  if (row->cfa_is_expression)
    {
      assert_same_operations (section, row->cfa_offset, row->cfa_length, ops, n_ops);
      return;
    }
  g_assert_cmpuint (n_ops, ==, 1);
  g_assert_cmphex (ops[0].atom, ==, DW_OP_bregx);
  g_assert_cmpuint (ops[0].number, ==, row->cfa_register);
  g_assert_cmpint ((gint64) ops[0].number2, ==, row->cfa_offset);
}

static void
assert_same_column (const SondeCfiSection *section,
                    const SondeCfiRow *row,
                    guint reg,
                    Dwarf_Frame *frame)
{
  const SondeCfiColumn *column = &row->columns[reg];
  Dwarf_Op memory[3];
  Dwarf_Op *ops;
  size_t n_ops;

  g_assert_cmpint (dwarf_frame_register (frame, (int) reg, memory, &ops, &n_ops), ==, 0);
  switch ((SondeCfiColumnKind) column->kind)
    {
    case SONDE_CFI_SAME: /* libdw knows by its ABI which of them nobody saves */
      g_assert_cmpuint (n_ops, ==, 0);
      break;
    case SONDE_CFI_UNDEFINED:
      g_assert_cmpuint (n_ops, ==, 0);
      g_assert_true (ops == memory);
      break;
    case SONDE_CFI_OFFSET:
      assert_offset (column->offset, ops, n_ops);
      break;
    case SONDE_CFI_VAL_OFFSET:
      g_assert_cmphex (ops[n_ops - 1].atom, ==, DW_OP_stack_value);
      assert_offset (column->offset, ops, n_ops - 1);
      break;
    case SONDE_CFI_REGISTER:
      g_assert_cmpuint (n_ops, ==, 1);
      g_assert_cmphex (ops[0].atom, ==, DW_OP_regx);
      g_assert_cmpuint (ops[0].number, ==, (guint64) column->offset);
      break;
    case SONDE_CFI_EXPRESSION: /* libdw puts call_frame_cfa before it */
      assert_same_operations (section, column->offset, column->length, ops + 1, n_ops - 1);
      break;
    case SONDE_CFI_VAL_EXPRESSION: /* and stack_value behind */
      assert_same_operations (section, column->offset, column->length, ops + 1, n_ops - 2);
      break;
    }
}

/* 1: both have a row, and the same. */
static guint
compare_at (const SondeUnwindModule *module, Dwarf_CFI *cfi, guint64 vaddr)
{
  const SondeCfiSection *section;
  SondeCfiCie cie;
  SondeCfiFde fde;
  SondeCfiRow row;
  Dwarf_Frame *frame = NULL;
  gboolean is_ours = sonde_module_find_cfi (module, vaddr, &section, &cie, &fde);
  gboolean is_theirs = dwarf_cfi_addrframe (cfi, vaddr, &frame) == 0;
  uint32_t work = UINT32_MAX;
  Dwarf_Addr begin, end;
  bool is_signal;

  g_assert_cmpint (is_ours, ==, is_theirs);
  if (!is_ours)
    return 0;
  g_assert_cmpint (sonde_cfi_row_find (section, &cie, &fde, vaddr, &work, &row), ==, 0);
  g_assert_cmpint (dwarf_frame_info (frame, &begin, &end, &is_signal), ==, row.return_register);
  g_assert_cmpint (is_signal, ==, row.is_signal_frame);
  g_assert_cmphex (begin, <=, row.begin); /* at its very begin libdw still tells the row before */
  g_assert_cmphex (end, ==, row.end);
  assert_same_cfa (section, &row, frame);
  for (guint i = 0; i < G_N_ELEMENTS (columns); i++)
    assert_same_column (section, &row, columns[i], frame);
  free (frame);
  return 1;
}

static void
test_rows (Fixture *f, gconstpointer data)
{
  const char *path = data;
  int fd = open (path, O_RDONLY | O_CLOEXEC);
  int error;
  SondeUnwindModule *module;
  Dwarf_CFI *cfi;
  Elf *elf;
  uint64_t low, high;
  guint n_rows = 0;

  if (fd < 0)
    {
      g_test_skip ("the file is not installed");
      return;
    }
  module = load_fd (f, fd, &error);
  g_assert_cmpint (error, ==, 0);
  elf = elf_begin (sonde_module_fd (module), ELF_C_READ, NULL);
  cfi = dwarf_getcfi_elf (elf);
  g_assert_nonnull (cfi);
  sonde_module_extent (module, &low, &high);
  for (uint64_t vaddr = low; vaddr < high; vaddr += (high - low) / 40000 + 1)
    n_rows += compare_at (module, cfi, vaddr);
  g_test_message ("%u rows of %s", n_rows, path);
  g_assert_cmpuint (n_rows, >, MIN_ROWS);
  dwarf_cfi_end (cfi);
  elf_end (elf);
}

int
main (int argc, char **argv)
{
  elf_version (EV_CURRENT);
  g_test_init (&argc, &argv, NULL);
#define ADD(path, file) g_test_add ("/cfi-row/" path, Fixture, file, set_up, test_rows, tear_down)
  ADD ("is-that-of-libdw-in-this-program", "/proc/self/exe");
  ADD ("is-that-of-libdw-in-libc", LIBC_PATH);
  ADD ("is-that-of-libdw-in-the-cxx-runtime", CXX_PATH);
#ifdef GOLD_PATH
  ADD ("is-that-of-libdw-in-python", PYTHON_PATH);
  ADD ("is-that-of-libdw-in-a-file-linked-with-gold", GOLD_PATH);
#endif
  return g_test_run ();
}
