/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Go's table of functions in each layout, and tables that lie. */
#include <errno.h>

#include "base/go-table.h"
#include "symbols/symbol-table.h"
#include "tests/lib/fake-elf.h"
#include "tests/lib/fake-go.h"
#include "unwind/go-functions.h"

#define TEXT        FAKE_ELF_TEXT
#define N_MUTATIONS 20000

static const FakeGoLayout layouts[] = { FAKE_GO_1_16, FAKE_GO_1_18, FAKE_GO_1_20 };

/* 0 up to byte 4, 24 for 0x78 bytes, 0 again; 25 for a byte, which no frame has. */
static const FakeGoFunction usual[] = {
  { "main.leaf", 0, "\2\4\x30\x78\x2f\x78", 0 },
  { "main.main", 0x100, "\2\4\x30\x7c\2\1\1\x7f", 0 },
  { "runtime.goexit", 0x200, "\2\x7f", 0 },
  { "runtime.systemstack", 0x240, "\2\x40", 0 },
  { "main.silent", 0x280, NULL, 0 },
  { NULL, 0x300, NULL, 0 },
};

static GByteArray *
parse (FakeGoLayout layout, const FakeGoFunction *functions, SondeGoTable *table)
{
  GByteArray *bytes = fake_go_build (layout, functions, TEXT);

  g_assert_true (sonde_go_table_parse (table, bytes->data, bytes->len, 0, 0));
  return bytes;
}

static void
test_layouts (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (layouts); i++)
    {
      SondeGoTable table;
      G_GNUC_UNUSED g_autoptr (GByteArray) bytes = parse (layouts[i], usual, &table);
      SondeGoFunction function;
      uint64_t begin, end;
      uint32_t work = 100;
      int32_t size;

      g_assert_cmpuint (table.n_functions, ==, 5);
      g_assert_false (sonde_go_table_find (&table, TEXT - 1, &function));
      g_assert_false (sonde_go_table_find (&table, TEXT + 0x300, &function));
      g_assert_true (sonde_go_table_find (&table, TEXT + 0x1ff, &function));
      g_assert_cmpstr (sonde_go_table_name (&table, &function), ==, "main.main");
      g_assert_cmphex (function.begin, ==, TEXT + 0x100);
      g_assert_cmphex (function.end, ==, TEXT + 0x200);
      g_assert_true (sonde_go_table_find (&table, TEXT + 0x20, &function));
      g_assert_cmpint (
          sonde_go_table_stack_size (&table, &function, TEXT + 3, &work, &size, &begin, &end), ==,
          0);
      g_assert_cmpint (size, ==, 0);
      g_assert_cmphex (end, ==, TEXT + 4);
      g_assert_cmpint (
          sonde_go_table_stack_size (&table, &function, TEXT + 0x7b, &work, &size, &begin, &end),
          ==, 0);
      g_assert_cmpint (size, ==, 24);
      g_assert_cmphex (begin, ==, TEXT + 4);
      g_assert_cmphex (end, ==, TEXT + 0x7c);
      g_assert_cmpuint (work, ==, 97);
    }
}

static void
test_refuses_tables (void)
{
  g_autoptr (GByteArray) good = fake_go_build (FAKE_GO_1_20, usual, TEXT);
  SondeGoTable table;

#define REFUSES(offset, type, value)                                                               \
  {                                                                                                \
    g_autofree guint8 *bad = g_memdup2 (good->data, good->len);                                    \
    type number = value;                                                                           \
    memcpy (bad + (offset), &number, sizeof number);                                               \
    g_assert_false (sonde_go_table_parse (&table, bad, good->len, 0, 0));                          \
  }
  REFUSES (0, guint32, 0xfffffffb); /* Go 1.2 */
  REFUSES (4, guint8, 1);
  REFUSES (6, guint8, 0);
  REFUSES (6, guint8, 3);
  REFUSES (7, guint8, 4); /* 32-bit */
  REFUSES (8, guint64, 0);
  REFUSES (8, guint64, G_MAXUINT64);
  REFUSES (8, guint64, good->len / 8);
  for (guint place = 32; place < 72; place += 8)
    if (place != 40 && place != 48) /* units and names of files are nobody's business here */
      REFUSES (place, guint64, good->len);
  REFUSES (64, guint64, G_MAXUINT64 - 8);
  g_assert_false (sonde_go_table_parse (&table, good->data, 7, 0, 0));
  g_assert_false (sonde_go_table_parse (&table, good->data, 71, 0, 0));
}

static int
stack_size_of (const char *sizes, guint64 distance, uint32_t work)
{
  const FakeGoFunction functions[]
      = { { "f", 0, sizes, 0 }, { "g", 0x100, NULL, 0 }, { NULL, 0x200, NULL, 0 } };
  SondeGoTable table;
  G_GNUC_UNUSED g_autoptr (GByteArray) bytes = parse (FAKE_GO_1_20, functions, &table);
  SondeGoFunction function;
  uint64_t begin, end;
  int32_t size;

  g_assert_true (sonde_go_table_find (&table, TEXT + distance, &function));
  return sonde_go_table_stack_size (&table, &function, TEXT + distance, &work, &size, &begin, &end);
}

static void
test_refuses_sizes (void)
{
  g_assert_cmpint (stack_size_of ("\2\x7f", 1, 1), ==, 0);
  g_assert_cmpint (stack_size_of ("\2\x7f", 1, 0), ==, -EDQUOT);
  g_assert_cmpint (stack_size_of ("\2\1\2\1\2\1\2\1", 3, 3), ==, -EDQUOT);
  g_assert_cmpint (stack_size_of (NULL, 1, 1), ==, -ENODATA);
  g_assert_cmpint (stack_size_of ("\2\1", 1, 9), ==, -EBADMSG);     /* ends too early */
  g_assert_cmpint (stack_size_of ("\2\0\2\1", 1, 9), ==, -EBADMSG); /* holds for nothing */
  g_assert_cmpint (stack_size_of ("\xff\xff\xff\xff\xff\1", 1, 9), ==, -EBADMSG);
}

static void
test_lying_functions (void)
{
  const FakeGoFunction falling[]
      = { { "f", 0x100, NULL, 0 }, { "g", 0x80, NULL, 0 }, { NULL, 0x200, NULL, 0 } };
  const FakeGoFunction elsewhere[]
      = { { "f", 0, NULL, 0x40 }, { "", 0x100, NULL, 0 }, { NULL, 0x200, NULL, 0 } };
  SondeGoFunction function;
  SondeGoTable table;

  {
    G_GNUC_UNUSED g_autoptr (GByteArray) bytes = parse (FAKE_GO_1_18, falling, &table);

    g_assert_false (sonde_go_table_get (&table, 0, &function));
    g_assert_false (sonde_go_table_get (&table, 2, &function));
    g_assert_false (sonde_go_table_find (&table, TEXT + 0x40, &function));
  }
  {
    G_GNUC_UNUSED g_autoptr (GByteArray) bytes = parse (FAKE_GO_1_18, elsewhere, &table);

    g_assert_false (sonde_go_table_find (&table, TEXT, &function));
    g_assert_true (sonde_go_table_find (&table, TEXT + 0x100, &function));
    g_assert_null (sonde_go_table_name (&table, &function));
  }
}

/* Whatever the bytes, there is an answer, and it lies within them. */
static void
look_at_all (const guint8 *data, gsize size)
{
  SondeGoTable table;
  SondeGoFunction function;
  uint64_t begin, end;
  int32_t stack_size;

  if (!sonde_go_table_parse (&table, data, size, TEXT, 0))
    return;
  for (guint64 vaddr = TEXT; vaddr < TEXT + 0x300; vaddr += 0x1f)
    {
      uint32_t work = 1000;

      if (!sonde_go_table_find (&table, vaddr, &function))
        continue;
      g_assert_true (vaddr >= function.begin && vaddr < function.end);
      sonde_go_table_name (&table, &function);
      if (sonde_go_table_stack_size (&table, &function, vaddr, &work, &stack_size, &begin, &end)
          == 0)
        g_assert_true (vaddr >= begin && vaddr < end && begin >= function.begin
                       && end <= function.end);
    }
}

static void
test_cut_and_mutated_tables (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (layouts); i++)
    {
      g_autoptr (GByteArray) good = fake_go_build (layouts[i], usual, TEXT);

      for (gsize size = 0; size < good->len; size++)
        {
          g_autofree guint8 *cut = g_memdup2 (good->data, size);

          look_at_all (cut, size);
        }
      for (guint n = 0; n < N_MUTATIONS; n++)
        {
          g_autofree guint8 *bad = g_memdup2 (good->data, good->len);

          for (gint k = g_test_rand_int_range (1, 4); k > 0; k--)
            bad[g_test_rand_int_range (0, (gint32) good->len)]
                = (guint8) g_test_rand_int_range (0, 256);
          look_at_all (bad, good->len);
        }
    }
}

static GByteArray *
make_program (const FakeGoFunction *functions, guint64 text)
{
  g_autoptr (GByteArray) table = fake_go_build (FAKE_GO_1_20, functions, text);

  return fake_elf_build (table, &(FakeElf){ .section = ".gopclntab" });
}

static void
test_names_of_a_stripped_program (void)
{
  g_autoptr (GByteArray) file = make_program (usual, TEXT);
  SondeSymbolTable *table = NULL;
  SondeSymbol symbol;
  int fd = fake_elf_open (file->data, file->len);

  g_assert_cmpint (sonde_symbol_table_new (fd, &table), ==, 0);
  g_assert_cmpuint (sonde_symbol_table_n_symbols (table), ==, 5);
  g_assert_true (sonde_symbol_table_lookup (table, TEXT + 0x1ff, &symbol));
  g_assert_cmpstr (symbol.name, ==, "main.main");
  g_assert_cmphex (symbol.end, ==, TEXT + 0x200);
  g_assert_false (sonde_symbol_table_lookup (table, TEXT + 0x300, &symbol));
  sonde_symbol_table_free (table);
  close (fd);
}

/* As of Go 1.26: the entry point tells that functions are where .text is, or that they are not. */
static void
test_place_by_entry_point (void)
{
  static const FakeGoFunction functions[] = { { "main.main", 0, NULL, 0 },
                                              { "_rt0_amd64_linux", 0x100, NULL, 0 },
                                              { NULL, 0x200, NULL, 0 } };
  g_autoptr (GByteArray) bytes = fake_go_build (FAKE_GO_1_20, functions, 0);
  SondeGoFunction function;
  SondeGoTable table;

  g_assert_false (sonde_go_table_parse (&table, bytes->data, bytes->len, TEXT, TEXT));
  g_assert_false (sonde_go_table_parse (&table, bytes->data, bytes->len, TEXT, TEXT + 0x101));
  g_assert_false (sonde_go_table_parse (&table, bytes->data, bytes->len, TEXT, 0));
  g_assert_true (sonde_go_table_parse (&table, bytes->data, bytes->len, TEXT, TEXT + 0x100));
  g_assert_true (sonde_go_table_find (&table, TEXT + 0x10, &function));
  g_assert_cmphex (function.end, ==, TEXT + 0x100);
}

static void
test_table_without_a_place (void)
{
  g_autoptr (GByteArray) file = make_program (usual, 0);
  SondeSymbolTable *table = NULL;
  SondeGoFunctions functions = { 0 };
  SondeElfFile elf = { 0 };
  uint64_t begin, end;
  uint32_t work = 1000;
  int fd = fake_elf_open (file->data, file->len);

  g_assert_cmpint (sonde_symbol_table_new (fd, &table), ==, -ENODATA);
  g_assert_cmpint (sonde_elf_file_load (&elf, fd), ==, 0);
  sonde_go_functions_find (&functions, &elf);
  g_assert_cmpint (sonde_go_functions_read (&functions, 1 << 20, &work), ==, 0);
  g_assert_false (sonde_go_functions_range (&functions, 0x10, &begin, &end));
  g_assert_null (functions.bytes);
  g_assert_cmpuint (functions.size_bytes, ==, 0);
  sonde_elf_file_clear (&elf);
  close (fd);
}

static void
load_functions (SondeGoFunctions *functions, size_t max_bytes)
{
  g_autoptr (GByteArray) file = make_program (usual, TEXT);
  SondeElfFile elf = { 0 };
  int fd = fake_elf_open (file->data, file->len);
  uint32_t work;

  g_assert_cmpint (sonde_elf_file_load (&elf, fd), ==, 0);
  sonde_go_functions_find (functions, &elf);
  do
    work = 1;
  while (sonde_go_functions_read (functions, max_bytes, &work) == 1);
  sonde_elf_file_clear (&elf);
  close (fd);
}

static void
assert_rule (const SondeGoFunctions *functions,
             guint64 distance,
             SondeArch arch,
             SondeRule expected)
{
  SondeRule rule;
  uint64_t begin = 0, end = 0;
  uint32_t work = 1000;

  g_assert_true (
      sonde_go_functions_rule (functions, TEXT + distance, arch, &work, &rule, &begin, &end));
  g_assert_cmpint (rule.kind, ==, expected.kind);
  g_assert_cmpint (rule.flags, ==, expected.flags);
  g_assert_cmpint (rule.cfa_register, ==, expected.cfa_register);
  g_assert_cmpint (rule.cfa_offset, ==, expected.cfa_offset);
  g_assert_cmpint (rule.ra_place, ==, expected.ra_place);
  g_assert_cmpint (rule.saved_mask, ==, expected.saved_mask);
}

static void
test_rules (void)
{
  SondeGoFunctions functions = { 0 };
  SondeRule rule;
  uint64_t begin, end;
  uint32_t work = 10;

  load_functions (&functions, 1 << 20);
  assert_rule (
      &functions, 2, SONDE_ARCH_X86_64,
      (SondeRule){
          .kind = SONDE_RULE_REGISTER, .cfa_register = 7, .cfa_offset = 8, .ra_place = -1 });
  assert_rule (&functions, 0x20, SONDE_ARCH_X86_64,
               (SondeRule){ .kind = SONDE_RULE_REGISTER,
                            .cfa_register = 7,
                            .cfa_offset = 32,
                            .ra_place = -1,
                            .saved_mask = 1 });
  assert_rule (&functions, 2, SONDE_ARCH_AARCH64,
               (SondeRule){ .kind = SONDE_RULE_REGISTER,
                            .flags = SONDE_RULE_RA_IN_REGISTER,
                            .cfa_register = 31,
                            .ra_place = 30 });
  assert_rule (&functions, 0x20, SONDE_ARCH_AARCH64,
               (SondeRule){ .kind = SONDE_RULE_REGISTER,
                            .flags = SONDE_RULE_RA_FROM_BASE,
                            .cfa_register = 31,
                            .cfa_offset = 24 });
  assert_rule (&functions, 0x201, SONDE_ARCH_X86_64, (SondeRule){ .kind = SONDE_RULE_END });
  assert_rule (
      &functions, 0x250, SONDE_ARCH_X86_64,
      (SondeRule){ .kind = SONDE_RULE_JOINT, .cfa_register = 7, .cfa_offset = 8, .ra_place = -1 });
  assert_rule (&functions, 0x290, SONDE_ARCH_X86_64, (SondeRule){ .kind = SONDE_RULE_NONE });
  assert_rule (&functions, 0x180, SONDE_ARCH_X86_64, (SondeRule){ .kind = SONDE_RULE_BAD });
  g_assert_false (
      sonde_go_functions_rule (&functions, TEXT, SONDE_ARCH_X86_64, &work, &rule, &begin, &end));
  sonde_go_functions_clear (&functions);

  load_functions (&functions, 64); /* too large */
  assert_rule (&functions, 2, SONDE_ARCH_X86_64, (SondeRule){ .kind = SONDE_RULE_NONE });
  sonde_go_functions_clear (&functions);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/go-table/refuses-what-makes-no-table", test_refuses_tables);
  g_test_add_func ("/go-table/refuses-sizes-that-make-no-sense", test_refuses_sizes);
  g_test_add_func ("/go-table/believes-no-function-that-lies", test_lying_functions);
  g_test_add_func ("/go-table/needs-to-know-where-functions-are", test_table_without_a_place);
  g_test_add_func ("/go-table/stays-within-cut-and-mutated-tables", test_cut_and_mutated_tables);
  g_test_add_func ("/go-table/reads-each-layout", test_layouts);
  g_test_add_func ("/go-table/takes-the-place-from-the-entry-point", test_place_by_entry_point);
  g_test_add_func ("/go-table/names-functions-of-a-stripped-program",
                   test_names_of_a_stripped_program);
  g_test_add_func ("/go-table/makes-rules-for-each-machine", test_rules);
  return g_test_run ();
}
