/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Probes of made-up files, and their arguments. */
#include "base/probe-note.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#define TEXT      0x1000 /* offset in the file; the address is 0x401000 */
#define DATA      0x2000
#define FAR       0x400000
#define BASE      0x403000
#define NOTES     0x2800
#define FILE_SIZE 0x3000

typedef struct
{
  guint8 bytes[FILE_SIZE];
  gsize notes_size;
  SondeElfFile elf;
} FakeFile;

static gsize
pad (gsize size)
{
  return (size + 3) & ~(gsize) 3;
}

static void
add_note (FakeFile *self,
          guint64 pc,
          guint64 base,
          guint64 semaphore,
          const char *provider,
          const char *name,
          const char *arguments)
{
  const guint64 addresses[] = { pc, base, semaphore };
  const char *texts[] = { provider, name, arguments };
  guint8 *note = self->bytes + NOTES + self->notes_size;
  guint8 *at = note + sizeof (Elf64_Nhdr) + 8;
  Elf64_Nhdr header = { .n_namesz = 8, .n_type = 3 };

  memcpy (note + sizeof header, "stapsdt", 8);
  memcpy (at, addresses, sizeof addresses);
  at += sizeof addresses;
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      memcpy (at, texts[i], strlen (texts[i]) + 1);
      at += strlen (texts[i]) + 1;
    }
  header.n_descsz = (Elf64_Word) (at - note - sizeof header - 8);
  memcpy (note, &header, sizeof header);
  self->notes_size += pad ((gsize) (at - note));
}

/* @base: where .stapsdt.base is now */
static void
finish (FakeFile *self, guint64 base)
{
  static const char names[] = "\0.note.stapsdt\0.stapsdt.base\0.shstrtab";
  const Elf64_Phdr loads[] = {
    { .p_type = PT_LOAD,
      .p_flags = PF_R | PF_X,
      .p_offset = TEXT,
      .p_vaddr = FAR + TEXT,
      .p_filesz = 0x800,
      .p_memsz = 0x800 },
    { .p_type = PT_LOAD,
      .p_flags = PF_R | PF_W,
      .p_offset = DATA,
      .p_vaddr = FAR + DATA,
      .p_filesz = 0x100,
      .p_memsz = 0x400 },
  };
  const Elf64_Shdr sections[] = {
    { 0 },
    { .sh_name = 1, .sh_type = SHT_NOTE, .sh_offset = NOTES, .sh_size = self->notes_size },
    { .sh_name = 15, .sh_type = SHT_PROGBITS, .sh_addr = base, .sh_offset = 0x500, .sh_size = 1 },
    { .sh_name = 29, .sh_type = SHT_STRTAB, .sh_offset = 0x400, .sh_size = sizeof names },
  };
  const Elf64_Ehdr header
      = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
          .e_type = ET_DYN,
          .e_machine = EM_X86_64,
          .e_version = EV_CURRENT,
          .e_phoff = 0x100,
          .e_phentsize = sizeof loads[0],
          .e_phnum = G_N_ELEMENTS (loads),
          .e_shoff = 0x200,
          .e_shentsize = sizeof sections[0],
          .e_shnum = G_N_ELEMENTS (sections),
          .e_shstrndx = 3,
          .e_ehsize = sizeof header };

  memcpy (self->bytes, &header, sizeof header);
  memcpy (self->bytes + 0x100, loads, sizeof loads);
  memcpy (self->bytes + 0x200, sections, sizeof sections);
  memcpy (self->bytes + 0x400, names, sizeof names);
  self->elf = (SondeElfFile){ .fd = -1, .memory = self->bytes, .size_bytes = FILE_SIZE };
  g_assert_cmpint (sonde_elf_file_read_header (&self->elf), ==, 0);
  g_assert_cmpint (sonde_elf_file_read_segments (&self->elf), ==, 0);
  g_assert_cmpint (sonde_elf_file_read_sections (&self->elf), ==, 0);
}

static FakeFile *
file_new (void)
{
  return g_new0 (FakeFile, 1);
}

static void
file_free (FakeFile *self)
{
  sonde_elf_file_clear (&self->elf);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (FakeFile, file_free)

static void
test_finds_probes (void)
{
  g_autoptr (FakeFile) file = file_new ();
  SondeProbe probes[4];

  add_note (file, FAR + TEXT + 5, BASE, 0, "libc", "setjmp", "8@%rdi");
  add_note (file, FAR + TEXT + 16, BASE, FAR + DATA + 2, "otel_memory", "alloc", "8@%rdi 8@%rsi");
  add_note (file, FAR + TEXT + 32, BASE, 0, "otel_memory", "free", "");
  finish (file, BASE);
  g_assert_cmpint (sonde_probes_find (&file->elf, "otel_memory", probes, 4), ==, 2);
  g_assert_cmpuint (probes[0].site, ==, TEXT + 16);
  g_assert_cmpuint (probes[0].semaphore, ==, DATA + 2);
  g_assert_cmpstr (probes[0].name, ==, "alloc");
  g_assert_cmpstr (probes[0].arguments, ==, "8@%rdi 8@%rsi");
  g_assert_cmpuint (probes[1].site, ==, TEXT + 32);
  g_assert_cmpuint (probes[1].semaphore, ==, 0);
  g_assert_cmpint (sonde_probes_find (&file->elf, "otel_memory", probes, 1), ==, 1);
  g_assert_cmpint (sonde_probes_find (&file->elf, "otel", probes, 4), ==, 0);
  g_assert_cmpint (sonde_probe_read (&file->elf, probes[0].note, "otel_memory", &probes[2]), ==, 0);
  g_assert_cmpuint (probes[2].site, ==, TEXT + 16);
}

/* What moved the file left its notes, and moved the section that tells. */
static void
test_follows_what_was_moved (void)
{
  g_autoptr (FakeFile) file = file_new ();
  SondeProbe probe;

  add_note (file, TEXT + 16, BASE - FAR, DATA + 2, "otel_memory", "alloc", "8@%rdi");
  finish (file, BASE);
  g_assert_cmpint (sonde_probes_find (&file->elf, "otel_memory", &probe, 1), ==, 1);
  g_assert_cmpuint (probe.site, ==, TEXT + 16);
  g_assert_cmpuint (probe.semaphore, ==, DATA + 2);
}

static void
test_refuses_impossible_places (void)
{
  static const struct
  {
    guint64 pc, semaphore;
  } places[] = {
    { FAR + TEXT - 1, 0 },              /* in no segment */
    { FAR + TEXT + 0x800, 0 },          /* behind one */
    { FAR + DATA + 2, 0 },              /* what is not executed */
    { UINT64_MAX, 0 },                  /* */
    { FAR + TEXT, FAR + TEXT + 2 },     /* a word of the code */
    { FAR + TEXT, FAR + DATA + 0xff },  /* half of it behind the end */
    { FAR + TEXT, FAR + DATA + 0x200 }, /* where the file has no bytes */
    { FAR + TEXT, UINT64_MAX },         /* */
  };
  g_autoptr (FakeFile) file = file_new ();
  SondeProbe probe = { .site = 7 };
  guint64 at = NOTES;

  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    add_note (file, places[i].pc, BASE, places[i].semaphore, "otel_memory", "alloc", "8@%rdi");
  finish (file, BASE);
  g_assert_cmpint (sonde_probes_find (&file->elf, "otel_memory", &probe, 1), ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (places); i++, at += file->notes_size / G_N_ELEMENTS (places))
    g_assert_cmpint (sonde_probe_read (&file->elf, at, "otel_memory", &probe), ==, -EBADMSG);
  g_assert_cmpuint (probe.site, ==, 7);
}

static void
test_refuses_notes_that_are_none (void)
{
  g_autoptr (FakeFile) file = file_new ();
  Elf64_Nhdr *header = (gpointer) (file->bytes + NOTES);
  SondeProbe probe;

  add_note (file, FAR + TEXT, BASE, 0, "otel_memory", "alloc", "8@%rdi");
  finish (file, BASE);
#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    guint8 before[64];                                                                             \
    memcpy (before, header, sizeof before);                                                        \
    change;                                                                                        \
    g_assert_cmpint (sonde_probe_read (&file->elf, NOTES, "otel_memory", &probe), ==, expected);   \
    g_assert_cmpint (sonde_probes_find (&file->elf, "otel_memory", &probe, 1), ==, 0);             \
    memcpy (header, before, sizeof before);                                                        \
  }                                                                                                \
  G_STMT_END
  REFUSE (header->n_type = 1, -EBADMSG);
  REFUSE (header->n_namesz = 4, -EBADMSG);
  REFUSE (file->bytes[NOTES + 12] = 'S', -EBADMSG);
  REFUSE (header->n_descsz = 8, -EBADMSG);              /* its addresses are cut */
  REFUSE (header->n_descsz = 24 + 12, -EBADMSG);        /* its texts */
  REFUSE (header->n_descsz = G_MAXUINT32, -ENOENT);     /* too long to be looked at */
  REFUSE (file->bytes[NOTES + 20 + 24] = 'O', -ENOENT); /* another's */
#undef REFUSE
  g_assert_cmpint (sonde_probe_read (&file->elf, FILE_SIZE - 4, "otel_memory", &probe), ==,
                   -EBADMSG);
  g_assert_cmpint (sonde_probe_read (&file->elf, UINT64_MAX, "otel_memory", &probe), ==, -EBADMSG);
}

/* --- arguments --- */

static void
test_refuses_arguments (void)
{
  static const char *const texts[] = {
    "8",
    "@%rdi",
    "8@",
    "8@rdi",
    "8@%xmm0",
    "8@%ah",
    "3@%rdi",
    "16@%rdi",
    "-5@%rdi",
    "8@$",
    "8@$x",
    "8@8",
    "8@8(%rbp",
    "8@(rbp)",
    "8@(%rbp,%rax,3)",
    "8@()",
    "8@(,)",
    "8@sym(%rip)",
    "8@%rdi,8@%rsi",
    " 8@%rdi",
    "8@%rdi  8@%rsi",
    "8@99999999999999999999(%rbp)",
    "8@%rax 8@%rax 8@%rax 8@%rax 8@%rax",
    "8@%fs:8",
    "8@ 8(%rbp)",
    "8@-(%rbp)",
  };
  SondeProbeOperand operands[SONDE_PROBE_MAX_ARGUMENTS];

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_assert_cmpint (sonde_probe_parse_arguments (texts[i], operands), ==, -ENOTSUP);
}

/* AX BX CX DX SI DI BP SP, R15 */
#define MASK 0x8000ffULL

static void
test_reads_arguments (void)
{
  static const guint64 registers[]
      = { 0xfedcba9876543210, 2, 3, 4, 5, 6, 0x7010, 0x7000, 0xffffffffffffff85 };
  static const guint64 stack[] = { 0x1122334455667788, 0xfffffffffffffff0, 0x33, 0x44 };
  static const struct
  {
    const char *text;
    guint64 value;
  } arguments[] = {
    { "8@%rax", 0xfedcba9876543210 },
    { "4@%eax", 0x76543210 },
    { "-4@%ebx", 2 },
    { "1@%r15b", 0x85 },
    { "-1@%r15b", 0xffffffffffffff85 },
    { "2@%ax", 0x3210 },
    { "8@$5", 5 },
    { "-4@$-1", UINT64_MAX },
    { "8@$0x10", 16 },
    { "8@(%rsp)", 0x1122334455667788 },
    { "4@4(%rsp)", 0x11223344 },
    { "8@-16(%rbp)", 0x1122334455667788 },
    { "-8@-8(%rbp)", 0xfffffffffffffff0 },
    { "8@(%rsp,%rbx,8)", 0x33 },
    { "8@8(%rsp,%rbx)", 0xfffffffffffffff0 >> 16 | UINT64_C (0x33) << 48 },
    { "8@24(%rsp)", 0x44 },
  };
  SondeProbeState state
      = { MASK, registers, G_N_ELEMENTS (registers), (const guint8 *) stack, sizeof stack };
  SondeProbeOperand operands[SONDE_PROBE_MAX_ARGUMENTS];
  guint64 value;

  for (gsize i = 0; i < G_N_ELEMENTS (arguments); i++)
    {
      g_test_message ("%s", arguments[i].text);
      g_assert_cmpint (sonde_probe_parse_arguments (arguments[i].text, operands), ==, 1);
      g_assert_true (sonde_probe_evaluate (&operands[0], &state, &value));
      g_assert_cmphex (value, ==, arguments[i].value);
    }
  g_assert_cmpint (sonde_probe_parse_arguments ("8@%rdi -4@-16(%rbp) 8@$5", operands), ==, 3);
  g_assert_cmpint (sonde_probe_parse_arguments ("", operands), ==, 0);
}

static void
test_lacks_what_the_sample_lacks (void)
{
  static const guint64 registers[] = { 1, 2, 3, 4, 5, 6, 0x7010, 0x7000, 9 };
  static const guint64 stack[] = { 1, 2 };
  static const char *const texts[] = {
    "8@%r8",          /* not in the mask */
    "8@-8(%rsp)",     /* below the copy */
    "8@9(%rsp)",      /* ends behind it */
    "8@16(%rsp)",     /* */
    "8@(%rax)",       /* elsewhere */
    "8@(%r9)",        /* */
    "8@(%rsp,%r9,8)", /* */
    "8@-9223372036854775808(%rsp)",
  };
  SondeProbeState state
      = { MASK, registers, G_N_ELEMENTS (registers), (const guint8 *) stack, sizeof stack };
  SondeProbeOperand operands[SONDE_PROBE_MAX_ARGUMENTS];
  guint64 value = 7;

  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_test_message ("%s", texts[i]);
      g_assert_cmpint (sonde_probe_parse_arguments (texts[i], operands), ==, 1);
      g_assert_false (sonde_probe_evaluate (&operands[0], &state, &value));
    }
  g_assert_cmpint (sonde_probe_parse_arguments ("8@%r15", operands), ==, 1);
  state.n_registers = 8;
  g_assert_false (sonde_probe_evaluate (&operands[0], &state, &value));
  g_assert_cmpuint (value, ==, 7);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/probe-note/refuses-impossible-places", test_refuses_impossible_places);
  g_test_add_func ("/probe-note/refuses-notes-that-are-none", test_refuses_notes_that_are_none);
  g_test_add_func ("/probe-note/finds-probes-of-one-provider", test_finds_probes);
  g_test_add_func ("/probe-note/follows-what-was-moved", test_follows_what_was_moved);
  g_test_add_func ("/probe-note/arguments/refuses-what-it-does-not-understand",
                   test_refuses_arguments);
  g_test_add_func ("/probe-note/arguments/lacks-what-the-sample-lacks",
                   test_lacks_what_the_sample_lacks);
  g_test_add_func ("/probe-note/arguments/reads-registers-constants-and-stack",
                   test_reads_arguments);
  return g_test_run ();
}
