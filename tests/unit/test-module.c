/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Real files must be understood exactly, hostile ones in bounds. */
#include <dlfcn.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sys/auxv.h>

#include "tests/lib/fake-elf32.h"
#include "tests/lib/module-fixture.h"

#define N_MUTATIONS 4000

static void
test_refuses_files (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  Elf64_Ehdr *elf;
  Elf64_Ehdr good;
  int ends[2];
  int error;

  load_bytes (f, "", 0, &error);
  g_assert_cmpint (error, ==, -ENOEXEC);
  load_bytes (f, "#!/bin/sh\n", 10, &error);
  g_assert_cmpint (error, ==, -ENOEXEC);
  g_assert_cmpint (pipe (ends), ==, 0);
  close (ends[1]);
  load_fd (f, ends[0], &error);
  g_assert_cmpint (error, ==, -EINVAL);

  file = fake_elf_build (f->cfi, &(FakeElf){ 0 });
  elf = (gpointer) file->data;
  good = *elf;
#define REFUSES(member, value, expected)                                                           \
  elf->member = value;                                                                             \
  load_bytes (f, file->data, file->len, &error);                                                   \
  g_assert_cmpint (error, ==, expected);                                                           \
  *elf = good
  REFUSES (e_ident[EI_CLASS], ELFCLASS32, -ENOEXEC);
  REFUSES (e_ident[EI_DATA], ELFDATA2MSB, -ENOEXEC);
  REFUSES (e_machine, EM_S390, -ENOEXEC);
  REFUSES (e_type, ET_REL, -ENOEXEC);
  REFUSES (e_phnum, 0, -EBADMSG);
  REFUSES (e_phnum, 65535, -EBADMSG);
  REFUSES (e_phentsize, 0, -EBADMSG);
  REFUSES (e_phoff, UINT64_MAX - 8, -EBADMSG);
  REFUSES (e_phoff, file->len, -EBADMSG);
  g_assert_cmpuint (sonde_module_store_n_modules (f->store), ==, 0);
  g_assert_cmpuint (sonde_module_store_bytes (f->store), ==, 0);
}

static void
test_refuses_segments (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ 0 });
  Elf64_Phdr *load = (gpointer) (file->data + sizeof (Elf64_Ehdr));
  int error;

  load->p_memsz = UINT64_C (1) << 63;
  load->p_vaddr = UINT64_C (1) << 63;
  load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, -EBADMSG);
  load->p_memsz = 0x1000;
  load->p_vaddr = UINT64_MAX - 0x1000;
  load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, -EBADMSG);
  load->p_type = PT_NOTE;
  load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, -EBADMSG);
}

/* A note of a file's own making behind the program headers, where the fake has room for it. */
#define NOTE_OFFSET 0x200

typedef struct
{
  Elf64_Nhdr header;
  char name[4];
  guint8 id[SONDE_ELF_MAX_BUILD_ID + 4];
} Note;

static void
assert_build_id (Fixture *f, const Note *note, gsize size, const char *expected)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ 0 });
  Elf64_Phdr *segments = (gpointer) (file->data + sizeof (Elf64_Ehdr));
  static guint32 n_files;
  SondeUnwindModule *module;
  int error;

  memcpy (file->data + NOTE_OFFSET, note, MIN (size, sizeof *note));
  segments[1] = (Elf64_Phdr){ .p_type = PT_NOTE, .p_offset = NOTE_OFFSET, .p_filesz = size };
  n_files++; /* files that differ have an identity each */
  g_byte_array_append (file, (const guint8 *) &n_files, sizeof n_files);
  module = load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, 0);
  g_assert_cmpstr (sonde_module_build_id (module), ==, expected);
}

static void
test_build_id (Fixture *f, gconstpointer data)
{
  const gsize fixed = offsetof (Note, id);
  const Note good = { { 4, 3, NT_GNU_BUILD_ID }, "GNU", { 0xab, 0x01, 0xff } };
  Note first = { { 4, 4, NT_GNU_ABI_TAG }, "GNU", { 9, 9, 9, 9 } };
  Note note;

  assert_build_id (f, &good, fixed + 3, "ab01ff"); /* without the padding, too */
  memcpy (first.id + 4, &good, fixed + 3);
  assert_build_id (f, &first, 2 * fixed + 4 + 3, "ab01ff");
#define IGNORES(member, value, size)                                                               \
  note = good;                                                                                     \
  note.member = value;                                                                             \
  assert_build_id (f, &note, size, "")
  IGNORES (header.n_type, NT_GNU_ABI_TAG, fixed + 4);
  IGNORES (header.n_namesz, UINT32_MAX, fixed + 4);
  IGNORES (header.n_descsz, UINT32_MAX, fixed + 4);
  IGNORES (header.n_descsz, SONDE_ELF_MAX_BUILD_ID + 1, sizeof note);
  IGNORES (header.n_descsz, 5, fixed + 4);
  IGNORES (name[0], 'g', fixed + 4);
  assert_build_id (f, &good, 0, "");
  assert_build_id (f, &good, sizeof good.header - 1, "");
  assert_build_id (f, &good, fixed, "");
  assert_build_id (f, &good, G_MAXUINT32, ""); /* behind the end of the file */
#undef IGNORES
}

static void
test_finds_functions (Fixture *f, gconstpointer data)
{
  guint64 rows[6];
  const FakeElf specs[] = {
    { .section = ".eh_frame", .rows = rows, .n_rows = 3, .has_header = TRUE },
    { .section = ".eh_frame" },
    { .rows = rows, .n_rows = 3, .has_header = TRUE },
    { .has_header = TRUE },
  };

  add_three_functions (f, rows);
  for (guint i = 0; i < G_N_ELEMENTS (specs); i++)
    {
      g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &specs[i]);
      int error;
      SondeUnwindModule *module = load_bytes (f, file->data, file->len, &error);

      g_assert_cmpint (error, ==, 0);
      assert_has_three_functions (module);
    }
}

/* Only a machine that runs such programs reads their files. */
#ifdef __x86_64__
#define READS_32_BIT 1
#else
#define READS_32_BIT 0
#endif

static void
assert_32_bit (SondeUnwindModule *module, int error)
{
  uint64_t low, high;

  if (!READS_32_BIT)
    {
      g_assert_null (module);
      g_assert_cmpint (error, ==, -ENOEXEC);
      return;
    }
  g_assert_cmpint (error, ==, 0);
  g_assert_true (sonde_module_is_32_bit (module));
  assert_has_three_functions (module);
  sonde_module_extent (module, &low, &high);
  g_assert_cmphex (low, ==, 0);
  g_assert_cmphex (high, ==, FAKE_ELF_SIZE);
  g_assert_null (sonde_module_elf (module)); /* not for libdwfl */
}

static void
test_32_bit (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf32_add_cie (f->cfi);
  SondeUnwindModule *module;
  Elf32_Ehdr *elf;
  int error;

  for (guint i = 0; i < 3; i++)
    fake_elf32_add_fde (f->cfi, cie, FAKE_ELF_TEXT + i * 0x100, 0x100, NULL, 0);
  file = fake_elf32_build (f->cfi);
  module = load_bytes (f, file->data, file->len, &error);
  assert_32_bit (module, error);
  elf = (gpointer) file->data;
  elf->e_phentsize = sizeof (Elf64_Phdr);
  load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, READS_32_BIT ? -EBADMSG : -ENOEXEC);
  elf->e_machine = EM_X86_64; /* x32: 32-bit pointers with 64-bit registers */
  load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, -ENOEXEC);
}

static void
test_distrusts_tables (Fixture *f, gconstpointer data)
{
  guint64 rows[6];
  guint64 bad[6];
  FakeElf spec = { .section = ".eh_frame", .rows = bad, .n_rows = 3, .has_header = TRUE };
  int error;

  add_three_functions (f, rows);
  for (guint i = 0; i < 4; i++)
    {
      g_autoptr (GByteArray) file = NULL;

      memcpy (bad, rows, sizeof bad);
      if (i == 0) /* unsorted */
        bad[0] = rows[4];
      else if (i == 1) /* an FDE outside of .eh_frame */
        bad[3] = FAKE_ELF_CFI_OFFSET - 8;
      else if (i == 2)
        bad[5] = FAKE_ELF_CFI_OFFSET + 0x10000000;
      file = fake_elf_build (f->cfi, &spec);
      if (i == 3) /* a count that does not fit */
        {
          const Elf64_Phdr *segments = (gpointer) (file->data + sizeof (Elf64_Ehdr));

          memset (file->data + segments[1].p_offset + 8, 0x7f, 4);
        }
      assert_has_three_functions (load_bytes (f, file->data, file->len, &error));
    }
}

static void
test_debug_frame (Fixture *f, gconstpointer data)
{
  const FakeElf spec = { .section = ".debug_frame" };
  g_autoptr (GByteArray) file = NULL;
  guint64 rows[6];
  SondeUnwindModule *module;
  int error;

  add_three_functions (f, rows);
  /* in .debug_frame: the CIE's id is all ones, an FDE has the offset of its CIE, here 0 */
  memset (f->cfi->data + 4, 0xff, 4);
  for (guint i = 0; i < 3; i++)
    memset (f->cfi->data + rows[2 * i + 1] - FAKE_ELF_CFI_OFFSET + 4, 0, 4);
  file = fake_elf_build (f->cfi, &spec);
  module = load_bytes (f, file->data, file->len, &error);
  assert_has_three_functions (module);
  g_assert_nonnull (sonde_module_elf (module));
}

static void
test_ignores_bad_sections (Fixture *f, gconstpointer data)
{
  const FakeElf spec = { .section = ".eh_frame", .has_header = TRUE };
  g_autoptr (GByteArray) file = NULL;
  guint64 rows[6];
  Elf64_Ehdr *elf;
  Elf64_Shdr *section;
  Elf64_Shdr good;
  int error;

  add_three_functions (f, rows);
  file = fake_elf_build (f->cfi, &spec);
  elf = (gpointer) file->data;
  section = (Elf64_Shdr *) (gpointer) (file->data + elf->e_shoff) + 1;
  good = *section;
#define IGNORES(member, value)                                                                     \
  section->member = value;                                                                         \
  assert_has_three_functions (load_bytes (f, file->data, file->len, &error));                      \
  *section = good
  IGNORES (sh_offset, UINT64_C (1) << 63);
  IGNORES (sh_size, UINT64_C (1) << 63);
  IGNORES (sh_size, UINT64_MAX);
  IGNORES (sh_name, UINT32_MAX);
  IGNORES (sh_type, SHT_NOBITS);
  IGNORES (sh_flags, SHF_COMPRESSED);
  elf->e_shentsize = 0;
  assert_has_three_functions (load_bytes (f, file->data, file->len, &error));
  elf->e_shentsize = sizeof *section;
  elf->e_shnum = 65535;
  assert_has_three_functions (load_bytes (f, file->data, file->len, &error));
}

static void
test_over_the_cap (Fixture *f, gconstpointer data)
{
  const FakeElf spec = { .section = ".eh_frame" };
  g_autoptr (GByteArray) file = NULL;
  guint64 rows[6];
  uint64_t begin;
  uint64_t end;
  SondeUnwindModule *module;
  int error;
  int fd;

  add_three_functions (f, rows);
  file = fake_elf_build (f->cfi, &spec);
  ((Elf64_Shdr *) (gpointer) (file->data + ((Elf64_Ehdr *) (gpointer) file->data)->e_shoff) + 1)
      ->sh_size
      = SONDE_MODULE_MAX_BYTES + 1;
  fd = fake_elf_open (file->data, file->len);
  g_assert_cmpint (ftruncate (fd, 2 * SONDE_MODULE_MAX_BYTES), ==, 0);
  module = load_fd (f, fd, &error);
  g_assert_cmpint (error, ==, 0);
  g_assert_false (sonde_module_find_function (module, FAKE_ELF_TEXT, &begin, &end));
  g_assert_null (sonde_module_elf (module));
  g_assert_cmpuint (sonde_module_store_bytes (f->store), <, 4096);
}

/* Whatever the bytes are, a lookup ends, and what it finds holds the address. */
static void
poke (SondeUnwindModule *module)
{
  uint64_t begin;
  uint64_t end;
  uint64_t bias;

  for (uint64_t vaddr = FAKE_ELF_TEXT - 0x80; vaddr < FAKE_ELF_TEXT + 0x400; vaddr += 0x40)
    if (sonde_module_find_function (module, vaddr, &begin, &end))
      g_assert_true (begin <= vaddr && vaddr < end);
  sonde_module_bias (module, 0x7f0000000000, 0, &bias);
  sonde_module_elf (module);
}

static void
test_truncated_files (Fixture *f, gconstpointer data)
{
  guint64 rows[6];
  const FakeElf spec = { .section = ".eh_frame", .rows = rows, .n_rows = 3, .has_header = TRUE };
  g_autoptr (GByteArray) file = NULL;

  add_three_functions (f, rows);
  file = fake_elf_build (f->cfi, &spec);
  for (guint size = 0; size < file->len; size++)
    {
      int error;
      SondeUnwindModule *module = load_bytes (f, file->data, size, &error);

      if (module != NULL)
        poke (module);
    }
}

static void
test_mutated_files (Fixture *f, gconstpointer data)
{
  guint64 rows[6];
  const FakeElf spec = { .section = ".eh_frame", .rows = rows, .n_rows = 3, .has_header = TRUE };
  g_autoptr (GByteArray) file = NULL;
  g_autoptr (GRand) random = g_rand_new_with_seed (7);

  add_three_functions (f, rows);
  file = fake_elf_build (f->cfi, &spec);
  for (guint i = 0; i < N_MUTATIONS; i++)
    {
      g_autofree guint8 *copy = g_memdup2 (file->data, file->len);
      SondeUnwindModule *module;
      int error;

      for (gint n = g_rand_int_range (random, 1, 12); n > 0; n--)
        copy[g_rand_int_range (random, 0, (gint) file->len)] = (guint8) g_rand_int (random);
      module = load_bytes (f, copy, file->len, &error);
      if (module != NULL)
        poke (module);
    }
}

/* What libdw 0.188 must not see does not get into the image's table; its neighbours stay. */
static void
test_hides_unsafe_instructions (Fixture *f, gconstpointer data)
{
  static const struct
  {
    const char *what;
    guint8 bytes[8];
    guint size;
  } unsafe[] = {
    { "a huge register number", { 0x05, 0x80, 0x80, 0x80, 0x38, 1 }, 6 },
    { "an operand cut short by the end", { 0, 0, 4 }, 3 },
    { "an unknown instruction", { 0x3f }, 1 },
    { "an unknown operation", { 0x10, 6, 1, 0xe5 }, 4 },
    { "restore without remember", { 0x0b }, 1 },
    { "an expression longer than its FDE", { 0x0f, 0x7f, 0x96 }, 3 },
  };
  static const guint8 rules[] = { PLAIN_RULES };
  guint8 remember[100];
  guint cie = fake_elf_add_cie (f->cfi, "zR", rules, sizeof rules);
  const FakeElf spec = { .section = ".eh_frame" };
  g_autoptr (GByteArray) file = NULL;
  SondeUnwindModule *module;
  Dwarf_CFI *cfi;
  Dwarf_Frame *frame;
  uint64_t begin, end;
  int error;

  memset (remember, 0x0a, sizeof remember);
  for (guint i = 0; i < G_N_ELEMENTS (unsafe); i++)
    fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + i * 0x100, 0x100, unsafe[i].bytes,
                      unsafe[i].size);
  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + 0x1000, 0x100, remember, sizeof remember);
  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + 0x2000, 0x100, NULL, 0);
  file = fake_elf_build (f->cfi, &spec);
  module = load_bytes (f, file->data, file->len, &error);
  cfi = dwarf_getcfi_elf (sonde_module_elf (module));
  g_assert_nonnull (cfi);
  for (guint i = 0; i < G_N_ELEMENTS (unsafe); i++)
    {
      g_test_message ("%s", unsafe[i].what);
      g_assert_cmpint (dwarf_cfi_addrframe (cfi, FAKE_ELF_TEXT + i * 0x100, &frame), !=, 0);
    }
  g_assert_cmpint (dwarf_cfi_addrframe (cfi, FAKE_ELF_TEXT + 0x1000, &frame), !=, 0);
  g_assert_cmpint (dwarf_cfi_addrframe (cfi, FAKE_ELF_TEXT + 0x2000, &frame), ==, 0);
  free (frame);
  dwarf_cfi_end (cfi);

  /* Our evaluator needs no such protection, and has lost nothing. */
  for (guint i = 0; i < G_N_ELEMENTS (unsafe); i++)
    g_assert_true (
        sonde_module_find_function (module, FAKE_ELF_TEXT + i * 0x100 + 1, &begin, &end));
  g_assert_true (sonde_module_find_function (module, FAKE_ELF_TEXT + 0x1001, &begin, &end));
}

/* Behind a function's own data, with or without a CIE between, and not behind that of another. */
static void
test_parts (Fixture *f, gconstpointer data)
{
  static const guint8 rules[] = { PLAIN_RULES };
  static const guint8 amid_a_frame[] = { 0x0e, 64 };              /* DW_CFA_def_cfa_offset */
  static const guint8 with_a_base[] = { 0x0c, DWARF_SP, 48 };     /* DW_CFA_def_cfa */
  static const guint8 as_called[] = { 0x41, 0x0e, 16, 0x0e, 64 }; /* DW_CFA_advance_loc first */
  const FakeElf spec = { .section = ".eh_frame" };
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf_add_cie (f->cfi, "zR", rules, sizeof rules);
  SondeUnwindModule *module;
  uint64_t begin;
  uint64_t end;
  int error;

  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + 0x500, 0x100, as_called, sizeof as_called);
  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + 0x100, 0x40, amid_a_frame, sizeof amid_a_frame);
  cie = fake_elf_add_cie (f->cfi, "zR", rules, sizeof rules);
  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + 0x900, 0x20, with_a_base, sizeof with_a_base);
  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + 0x700, 0x100, as_called, sizeof as_called);
  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + 0x800, 0x100, NULL, 0);
  file = fake_elf_build (f->cfi, &spec);
  module = load_bytes (f, file->data, file->len, &error);
  g_assert_cmpint (error, ==, 0);
  g_assert_true (sonde_module_find_part (module, FAKE_ELF_TEXT + 0x510, &begin, &end));
  g_assert_cmphex (begin, ==, FAKE_ELF_TEXT + 0x100);
  g_assert_cmphex (end, ==, FAKE_ELF_TEXT + 0x140);
  g_assert_true (sonde_module_find_part (module, begin, &begin, &end));
  g_assert_cmphex (begin, ==, FAKE_ELF_TEXT + 0x900);
  g_assert_false (sonde_module_find_part (module, begin, &begin, &end));
  g_assert_false (sonde_module_find_part (module, FAKE_ELF_TEXT + 0x700, &begin, &end));
  g_assert_false (sonde_module_find_part (module, FAKE_ELF_TEXT + 0x800, &begin, &end));
  g_assert_false (sonde_module_find_part (module, FAKE_ELF_TEXT + 0x400, &begin, &end));
}

/* With an empty table libdw would read all of .eh_frame. */
static void
test_hides_a_file_with_nothing_else (Fixture *f, gconstpointer data)
{
  static const guint8 rules[] = { PLAIN_RULES };
  static const guint8 huge[] = { 0x05, 0x80, 0x80, 0x80, 0x38, 1 };
  g_autoptr (GByteArray) file = NULL;
  SondeUnwindModule *module;
  guint cie = fake_elf_add_cie (f->cfi, "zR", rules, sizeof rules);
  int error;

  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT, 0x100, huge, sizeof huge);
  file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
  module = load_bytes (f, file->data, file->len, &error);
  for (guint i = 0; i < 2; i++)
    g_assert_null (sonde_module_elf (module));
}

/* The image gives libdw the same rules as the file itself. */
static void
assert_same_rules (Dwarf_CFI *ours, Dwarf_CFI *theirs, uint64_t vaddr)
{
  Dwarf_Frame *a = NULL;
  Dwarf_Frame *b = NULL;
  Dwarf_Op *ops_a;
  Dwarf_Op *ops_b;
  size_t n_a;
  size_t n_b;
  int r = dwarf_cfi_addrframe (theirs, vaddr, &b);

  g_assert_cmpint (dwarf_cfi_addrframe (ours, vaddr, &a), ==, r);
  if (r != 0)
    return;
  g_assert_cmpint (dwarf_frame_cfa (a, &ops_a, &n_a), ==, 0);
  g_assert_cmpint (dwarf_frame_cfa (b, &ops_b, &n_b), ==, 0);
  g_assert_cmpuint (n_a, ==, n_b);
  for (size_t i = 0; i < n_a; i++)
    {
      g_assert_cmphex (ops_a[i].atom, ==, ops_b[i].atom);
      g_assert_cmphex (ops_a[i].number, ==, ops_b[i].number);
      g_assert_cmphex (ops_a[i].number2, ==, ops_b[i].number2);
    }
  free (a);
  free (b);
}

static void
test_same_rules_as_the_file (Fixture *f, gconstpointer data)
{
  int fd = open (data, O_RDONLY | O_CLOEXEC);
  int error;
  SondeUnwindModule *module;
  Dwarf_CFI *ours;
  Dwarf_CFI *theirs;
  Elf *elf;
  uint64_t low;
  uint64_t high;

  if (fd < 0)
    {
      g_test_skip ("the file is not installed");
      return;
    }
  module = load_fd (f, fd, &error);
  g_assert_cmpint (error, ==, 0);
  fd = sonde_module_fd (module);
  elf = elf_begin (fd, ELF_C_READ, NULL);
  theirs = dwarf_getcfi_elf (elf);
  ours = dwarf_getcfi_elf (sonde_module_elf (module));
  g_assert_nonnull (ours);
  sonde_module_extent (module, &low, &high);
  for (uint64_t vaddr = low; vaddr < high; vaddr += 997)
    assert_same_rules (ours, theirs, vaddr);
  dwarf_cfi_end (ours);
  dwarf_cfi_end (theirs);
  elf_end (elf);
}

static int
find_libc (struct dl_phdr_info *info, size_t size, void *data)
{
  if (strstr (info->dlpi_name, "/libc.so") == NULL)
    return 0;
  *(struct dl_phdr_info *) data = *info;
  return 1;
}

static void
test_bias_and_functions_of_libc (Fixture *f, gconstpointer data)
{
  struct dl_phdr_info info = { 0 };
  SondeUnwindModule *module;
  void *libc = dlopen ("libc.so.6", RTLD_LAZY | RTLD_NOLOAD); /* not a sanitizer's */
  uint64_t function = (uint64_t) dlsym (libc, "qsort_r");
  uint64_t begin;
  uint64_t end;
  uint64_t bias;

  dl_iterate_phdr (find_libc, &info);
  g_assert_nonnull (info.dlpi_name);
  module = load_path (f, info.dlpi_name);
  for (guint i = 0; i < info.dlpi_phnum; i++)
    {
      const ElfW (Phdr) *load = &info.dlpi_phdr[i];
      uint64_t into_page = load->p_vaddr & 0xfff;

      if (load->p_type != PT_LOAD || (load->p_flags & PF_X) == 0)
        continue;
      g_assert_true (sonde_module_bias (module, info.dlpi_addr + load->p_vaddr - into_page,
                                        load->p_offset - into_page, &bias));
      g_assert_cmphex (bias, ==, info.dlpi_addr);
      g_assert_true (sonde_module_bias (module, info.dlpi_addr + load->p_vaddr - into_page + 0x5000,
                                        load->p_offset - into_page + 0x5000, &bias));
      g_assert_cmphex (bias, ==, info.dlpi_addr);
    }
  g_assert_false (sonde_module_bias (module, 0, UINT64_C (1) << 62, &bias));
  g_assert_true (sonde_module_find_function (module, function + 5 - info.dlpi_addr, &begin, &end));
  g_assert_cmphex (begin, ==, function - info.dlpi_addr);
  dlclose (libc);
}

static void
test_vdso (Fixture *f, gconstpointer data)
{
  SondeUnwindModule *vdso = sonde_module_store_vdso (f->store);
  const void *memory = (const void *) getauxval (AT_SYSINFO_EHDR);
  guint8 ident[EI_NIDENT];

  if (getauxval (AT_SYSINFO_EHDR) == 0) /* an emulator's processes have none */
    {
      g_assert_null (vdso);
      return;
    }
  /* A copy, for its names. */
  g_assert_cmpint (pread (sonde_module_fd (vdso), &ident, sizeof ident, 0), ==, sizeof ident);
  g_assert_cmpmem (ident, sizeof ident, memory, sizeof ident);
  g_assert_nonnull (sonde_module_elf (vdso));
  g_assert_true (sonde_module_store_vdso (f->store) == vdso);
}

int
main (int argc, char **argv)
{
  elf_version (EV_CURRENT);
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test) g_test_add ("/module/" path, Fixture, NULL, set_up, test, tear_down)
#define ADD_FILE(path, file)                                                                       \
  g_test_add ("/module/" path, Fixture, file, set_up, test_same_rules_as_the_file, tear_down)
  ADD ("refuses-what-is-no-elf-file-of-this-machine", test_refuses_files);
  ADD ("refuses-impossible-segments", test_refuses_segments);
  ADD ("ignores-impossible-sections", test_ignores_bad_sections);
  ADD ("ignores-unwind-data-over-the-cap", test_over_the_cap);
  ADD ("finds-other-parts-of-a-function", test_parts);
  ADD ("builds-a-table-where-the-file-lies", test_distrusts_tables);
  ADD ("survives-truncation-at-every-byte", test_truncated_files);
  ADD ("survives-mutations", test_mutated_files);
  ADD ("hides-unsafe-instructions-from-libdw", test_hides_unsafe_instructions);
  ADD ("hides-a-file-with-nothing-else-from-libdw", test_hides_a_file_with_nothing_else);
  ADD ("reads-the-build-id", test_build_id);
  ADD ("finds-functions-by-section-and-by-segment", test_finds_functions);
  ADD ("reads-32-bit-files", test_32_bit);
  ADD ("reads-debug-frame", test_debug_frame);
  ADD_FILE ("has-the-rules-of-libc", LIBC_PATH);
  ADD_FILE ("has-the-rules-of-the-cxx-runtime", CXX_PATH);
#ifdef GOLD_PATH
  ADD_FILE ("has-the-rules-of-python", PYTHON_PATH);
  ADD_FILE ("has-the-rules-of-a-file-linked-with-gold", GOLD_PATH);
#endif
  ADD ("knows-the-bias-and-functions-of-libc", test_bias_and_functions_of_libc);
  ADD ("has-the-vdso", test_vdso);
  return g_test_run ();
}
