/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files made to hurt whoever unwinds through them: each costs little time and no memory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <malloc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/lib/module-fixture.h"
#include "unwind/cfi-program.h"
#include "unwind/unwinder.h"

#define BASE       UINT64_C (0x7f0000000000)
#define SP         UINT64_C (0x7ffe00001000)
#define TEXT       (BASE + FAKE_ELF_TEXT)
#define CODE_BYTES 0x20000
#define N_WORDS    4096
#define N_SAMPLES  200
/* What one slice of a file and one stack may cost, ten times what the dearest do on a busy machine.
 * An emulated one and a sanitizer's build are forgiven more; what has no bound takes seconds. */
#if defined(IS_EMULATED)
#define MAX_CPU_NS INT64_C (500000000)
#elif defined(__SANITIZE_ADDRESS__) || defined(__clang__)
#define MAX_CPU_NS INT64_C (25000000)
#else
#define MAX_CPU_NS INT64_C (10000000)
#endif
#define N_TRIES       20    /* at most: what the machine has to do besides is no matter of ours */
#define ALLOCATOR_LAG 65536 /* bytes */

typedef struct
{
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeUnwinder *unwinder;
  SondeProcess *process;
  GByteArray *cfi;
  guint64 regs[N_SLOTS];
  guint64 stack[N_WORDS];
  SondeUserState state;
  guint64 addrs[1024];
  size_t n_addrs;
  guint64 last_inode;
} Hostile;

static void
set_up_hostile (Hostile *f, gconstpointer data)
{
  f->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  f->processes = sonde_process_table_new (f->modules);
  f->unwinder = sonde_unwinder_new_cfi (f->processes);
  f->process = sonde_process_table_ensure (f->processes, 1, 0);
  f->cfi = g_byte_array_new ();
  for (guint i = 0; i < N_SLOTS; i++)
    f->regs[i] = SP;
  f->regs[SLOT_PC] = TEXT;
  for (guint i = 0; i < N_WORDS; i++)
    f->stack[i] = TEXT + 1 + i * 7 % (CODE_BYTES - 1);
  f->state = (SondeUserState){ .abi = PERF_SAMPLE_REGS_ABI_64,
                               .regs_mask = sonde_unwinder_regs_mask (),
                               .regs = f->regs,
                               .n_regs = N_SLOTS,
                               .stack = (const uint8_t *) f->stack,
                               .stack_size_bytes = sizeof f->stack,
                               .dump_size_bytes = sizeof f->stack };
}

static void
tear_down_hostile (Hostile *f, gconstpointer data)
{
  sonde_unwinder_free (f->unwinder);
  sonde_process_table_free (f->processes);
  sonde_module_store_free (f->modules);
  g_byte_array_unref (f->cfi);
}

static gint64
cpu_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * INT64_C (1000000000) + now.tv_nsec;
}

static void
assert_cheap (const char *what, gint64 used_ns)
{
  g_test_message ("%s: %.3f ms of CPU", what, (double) used_ns / 1e6);
  g_assert_cmpint (used_ns, <, MAX_CPU_NS);
}

/* What each slice of a file cost when it was disturbed least: reading the same file again takes the
 * same slices. */
typedef struct
{
  GArray *least_ns; /* of gint64 */
} Slices;

static void
slices_add (Slices *slices, guint i, gint64 used_ns)
{
  if (i == slices->least_ns->len)
    g_array_append_val (slices->least_ns, used_ns);
  else if (used_ns < g_array_index (slices->least_ns, gint64, i))
    g_array_index (slices->least_ns, gint64, i) = used_ns;
}

static gint64
slices_dearest_ns (const Slices *slices)
{
  gint64 most_ns = 0;

  for (guint i = 0; i < slices->least_ns->len; i++)
    most_ns = MAX (most_ns, g_array_index (slices->least_ns, gint64, i));
  return most_ns;
}

static int
read_in_slices (SondeModuleStore *modules, const SondeFileId *id, int fd, Slices *slices)
{
  gint64 start_ns = cpu_ns ();
  int r = sonde_module_store_begin (modules, id, fd);
  gboolean has_more = r == 1;

  slices_add (slices, 0, cpu_ns () - start_ns);
  for (guint i = 1; has_more; i++)
    {
      start_ns = cpu_ns ();
      has_more = sonde_module_store_work (modules);
      slices_add (slices, i, cpu_ns () - start_ns);
    }
  return MIN (r, 0);
}

/* A few times over in stores of their own, and then in the fixture's. */
static int
load (Hostile *f, int fd)
{
  g_autoptr (GArray) least_ns = g_array_new (FALSE, FALSE, sizeof (gint64));
  Slices slices = { least_ns };
  SondeFileId id = { .inode = ++f->last_inode };

  for (guint i = 0; i < N_TRIES && (i == 0 || slices_dearest_ns (&slices) >= MAX_CPU_NS); i++)
    {
      SondeModuleStore *modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);

      read_in_slices (modules, &id, fd >= 0 ? fcntl (fd, F_DUPFD_CLOEXEC, 0) : -1, &slices);
      sonde_module_store_free (modules);
    }
  assert_cheap ("dearest slice", slices_dearest_ns (&slices));
  return read_in_slices (f->modules, &id, fd, &slices);
}

static void
map_last (Hostile *f)
{
  SondeProcessMapping mapping = {
    .start = BASE, .end = BASE + FAKE_ELF_SIZE, .file.inode = f->last_inode, .path = "/hostile"
  };

  g_assert_cmpint (
      sonde_process_add_mapping (f->processes, f->process, &mapping, SONDE_MAP_FROM_EVENT), ==, 1);
}

/* A file with the CFI so far, loaded and mapped. */
static void
load_cfi (Hostile *f)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });

  g_assert_cmpint (load (f, fake_elf_open (file->data, file->len)), ==, 0);
  map_last (f);
}

static void
load_rules (Hostile *f, const void *rules, guint size)
{
  static const guint8 common[] = { PLAIN_RULES };
  guint cie = fake_elf_add_cie (f->cfi, "zR", common, sizeof common);

  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT, CODE_BYTES, rules, size);
  load_cfi (f);
}

/* Returns what all of them cost an unwinder that has seen none yet; what they cost together in
 * memory is nothing. @is_cached: what the first samples learned may bring later ones farther. */
static gint64
unwind_all (Hostile *f, const char *expected, gboolean is_cached)
{
  size_t bytes_before = 0;
  gint64 all_ns = 0;

  sonde_unwinder_free (f->unwinder);
  f->unwinder = sonde_unwinder_new_cfi (f->processes);
  for (guint i = 0; i < N_SAMPLES; i++)
    {
      gint64 start_ns = cpu_ns ();
      SondeUnwindEnd end;

      f->regs[SLOT_PC] = TEXT + i * 509 % CODE_BYTES;
      end = sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs,
                                   G_N_ELEMENTS (f->addrs), &f->n_addrs);
      all_ns += cpu_ns () - start_ns;
      if (i == 0 || !is_cached)
        g_assert_cmpstr (sonde_unwind_end_name (end), ==, expected);
      g_assert_cmpuint (f->n_addrs, <=, G_N_ELEMENTS (f->addrs));
      if (i == 0)
        bytes_before = mallinfo2 ().uordblks;
    }
  g_assert_cmpuint (mallinfo2 ().uordblks, <=, bytes_before + ALLOCATOR_LAG);
  return all_ns;
}

static void
assert_ends_or_learns (Hostile *f, const char *expected, gboolean is_cached)
{
  gint64 least_ns = G_MAXINT64;

  for (guint i = 0; i < N_TRIES && least_ns >= N_SAMPLES * MAX_CPU_NS; i++)
    least_ns = MIN (least_ns, unwind_all (f, expected, is_cached));
  assert_cheap ("a stack", least_ns / N_SAMPLES);
}

static void
assert_ends (Hostile *f, const char *expected)
{
  assert_ends_or_learns (f, expected, FALSE);
}

static void
test_huge_register (Hostile *f, gconstpointer data)
{
  static const guint8 rules[] = { 0x05, 0x80, 0x80, 0x80, 0x38, 1 };

  load_rules (f, rules, sizeof rules);
  assert_ends (f, "depth-limit");
}

static void
test_remember_pile (Hostile *f, gconstpointer data)
{
  guint8 rules[46] = { 0x05, 0x80, 0x80, 0x80, 0x08, 1 };

  memset (rules + 6, 0x0a, 40);
  load_rules (f, rules, sizeof rules);
  assert_ends (f, "bad-cfi");
}

/* Two bytes of program copy two rows; no piece of the code has the same. */
static void
test_states_in_turn (Hostile *f, gconstpointer data)
{
  g_autofree guint8 *rules = g_malloc (3 * 16384);

  for (guint i = 0; i < 16384; i++)
    memcpy (rules + 3 * i, "\x0a\x0b\x41", 3);
  for (guint i = 0; i < N_WORDS; i++)
    f->stack[i] = TEXT + 16380 - i;
  load_rules (f, rules, 3 * 16384);
  assert_ends_or_learns (f, "bad-cfi", TRUE);
}

/* A CFA that does not move, a return address that is always the same. */
static void
test_endless_frames (Hostile *f, gconstpointer data)
{
  static const guint8 rules[] = { 0x0f,     9, 0x0e, 0x08, 0x10, 0, 0, 0xfe, 0x7f, 0, 0, 0x16,
                                  DWARF_RA, 9, 0x0e, 0x20, 0,    1, 0, 0,    0x7f, 0, 0 };

  load_rules (f, rules, sizeof rules);
  assert_ends (f, "loop");
  g_assert_cmpuint (f->n_addrs, ==, 2);
}

static void
test_skip_loop (Hostile *f, gconstpointer data)
{
  static const guint8 rules[] = { 0x0f, 4, 0x31, 0x2f, 0xfd, 0xff };

  load_rules (f, rules, sizeof rules);
  assert_ends (f, "bad-cfi");
}

static void
test_unknown_operation (Hostile *f, gconstpointer data)
{
  static const guint8 rules[] = { 0x0f, 3, 0x31, 0xe5, 0x22 };

  load_rules (f, rules, sizeof rules);
  assert_ends (f, "bad-cfi");
}

/* A long program with a row for each byte of code, so that no rule serves two frames. */
static void
test_long_program (Hostile *f, gconstpointer data)
{
  g_autofree guint8 *rules = g_malloc (SONDE_CFI_MAX_PROGRAM - 16);

  memset (rules, 0x41, SONDE_CFI_MAX_PROGRAM - 16);
  for (guint i = 0; i < N_WORDS; i++)
    f->stack[i] = TEXT + SONDE_CFI_MAX_PROGRAM - 20 - i;
  load_rules (f, rules, SONDE_CFI_MAX_PROGRAM - 16);
  assert_ends_or_learns (f, "bad-cfi", TRUE);
}

/* As many steps as expressions may take, for each register of each frame. */
static void
test_long_expressions (Hostile *f, gconstpointer data)
{
  g_autoptr (GByteArray) rules = g_byte_array_new ();

  for (guint8 reg = 0; reg < SONDE_CFI_N_REGISTERS; reg++)
    {
      const guint8 expression[]
          = { 0x16, reg, 11, 0x08, 120, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff, 0x13, 0x77, 8 };

      if (reg != DWARF_SP && reg != DWARF_RA)
        g_byte_array_append (rules, expression, sizeof expression);
    }
  load_rules (f, rules->data, rules->len);
  assert_ends (f, "bad-cfi");
  g_assert_cmpuint (f->n_addrs, <, 100);
}

static void
add_unsorted (Hostile *f)
{
  static const guint8 common[] = { PLAIN_RULES };
  guint cie = fake_elf_add_cie (f->cfi, "zR", common, sizeof common);

  for (guint64 i = 0; i < 65536; i++)
    fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + i * 40503 % 65536 * 2, 2, NULL, 0);
}

static void
test_unsorted (Hostile *f, gconstpointer data)
{
  size_t bytes;

  add_unsorted (f);
  bytes = sonde_module_store_bytes (f->modules);
  load_cfi (f);
  g_assert_cmpuint (sonde_module_store_bytes (f->modules) - bytes, <, f->cfi->len * 2);
  assert_ends (f, "depth-limit");
}

/* Without section headers, and with a table that turns out wrong in its very last row. */
static void
test_wrong_at_the_end (Hostile *f, gconstpointer data)
{
  g_autofree guint64 *rows = NULL;
  g_autoptr (GByteArray) file = NULL;
  FakeElf spec = { .n_rows = 65536, .has_header = TRUE };

  add_unsorted (f);
  rows = g_new (guint64, 2 * spec.n_rows);
  for (guint64 i = 0; i < spec.n_rows; i++)
    {
      rows[2 * i] = FAKE_ELF_TEXT + 2 * i;
      rows[2 * i + 1] = FAKE_ELF_CFI_OFFSET + 32;
    }
  rows[2 * spec.n_rows - 1] = FAKE_ELF_CFI_OFFSET - 8;
  spec.rows = rows;
  file = fake_elf_build (f->cfi, &spec);
  g_assert_cmpint (load (f, fake_elf_open (file->data, file->len)), ==, 0);
  map_last (f);
  assert_ends (f, "depth-limit");
}

/* As large as it may be, and good for nothing in the end: more functions than fit beside it. */
static void
test_too_large (Hostile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf_add_cie (f->cfi, "zR", NULL, 0);

  while (f->cfi->len < 27u << 20)
    fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT + f->cfi->len * 40503ull % CODE_BYTES, 2, NULL, 0);
  file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
  g_assert_cmpint (load (f, fake_elf_open (file->data, file->len)), ==, 0);
  g_assert_cmpuint (sonde_module_store_bytes (f->modules), <, 4096);
}

/* As many sections as may be, none of them the one that is looked for. */
static void
test_sections (Hostile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame_not" });
  Elf64_Ehdr elf;
  Elf64_Shdr sections[3];

  memcpy (&elf, file->data, sizeof elf);
  memcpy (sections, file->data + elf.e_shoff, sizeof sections);
  elf.e_shoff = file->len;
  elf.e_shnum = SONDE_ELF_MAX_SECTIONS;
  elf.e_shstrndx = SONDE_ELF_MAX_SECTIONS - 1;
  for (guint i = 0; i < elf.e_shstrndx; i++)
    g_byte_array_append (file, (const guint8 *) &sections[1], sizeof *sections);
  g_byte_array_append (file, (const guint8 *) &sections[2], sizeof *sections);
  memcpy (file->data, &elf, sizeof elf);
  g_assert_cmpint (load (f, fake_elf_open (file->data, file->len)), ==, 0);
}

/* A full store makes room for a file at a time, and that is no long work either. */
static void
test_eviction (Hostile *f, gconstpointer data)
{
  g_autoptr (GArray) least_ns = g_array_new (FALSE, FALSE, sizeof (gint64));
  Slices slices = { least_ns };
  int fds[48];

  for (guint i = 0; i < G_N_ELEMENTS (fds); i++)
    {
      g_autoptr (GByteArray) file = NULL;
      SondeFileId id = { .inode = ++f->last_inode };

      g_byte_array_set_size (f->cfi, 0);
      fake_elf_add_fde (f->cfi, fake_elf_add_cie (f->cfi, "zR", NULL, 0), FAKE_ELF_TEXT, CODE_BYTES,
                        NULL, 0);
      for (guint n = f->cfi->len; n < 4u << 20; n *= 2)
        {
          g_byte_array_set_size (f->cfi, 2 * n);
          memcpy (f->cfi->data + n, f->cfi->data, n);
        }
      file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
      /* whoever closes the last descriptor of a file in memory frees that as well */
      fds[i] = fake_elf_open (file->data, file->len);
      if (i == 20) /* it is full by now */
        g_array_set_size (least_ns, 0);
      g_assert_cmpint (
          read_in_slices (f->modules, &id, fcntl (fds[i], F_DUPFD_CLOEXEC, 0), &slices), ==, 0);
      g_assert_cmpuint (sonde_module_store_bytes (f->modules), <=, SONDE_MODULE_STORE_MAX_BYTES);
    }
  assert_cheap ("dearest slice", slices_dearest_ns (&slices));
  for (guint i = 0; i < G_N_ELEMENTS (fds); i++)
    close (fds[i]);
}

/* All the functions contain the sampled code, and begin one byte apart. */
static void
test_overlapping (Hostile *f, gconstpointer data)
{
  static const guint8 common[] = { PLAIN_RULES };
  guint cie = fake_elf_add_cie (f->cfi, "zR", common, sizeof common);

  for (guint64 i = 0; i < 4096; i++)
    fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT - i, CODE_BYTES + 2 * i, NULL, 0);
  load_cfi (f);
  assert_ends (f, "depth-limit");
}

static void
test_compressed (Hostile *f, gconstpointer data)
{
  static const guint8 xz[4096] = { 0xfd, '7', 'z', 'X', 'Z', 0 };
  static const guint8 gzip[4096] = { 0x1f, 0x8b, 8 };
  g_autoptr (GByteArray) file = NULL;
  Elf64_Shdr *section;
  size_t bytes;

  g_assert_cmpint (load (f, fake_elf_open (xz, sizeof xz)), ==, -ENOEXEC);
  g_assert_cmpint (load (f, fake_elf_open (gzip, sizeof gzip)), ==, -ENOEXEC);
  add_three_functions ((Fixture *) &(Fixture){ .cfi = f->cfi }, (guint64[6]){ 0 });
  file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
  section = (Elf64_Shdr *) (gpointer) (file->data + ((Elf64_Ehdr *) (gpointer) file->data)->e_shoff)
            + 1;
  section->sh_flags = SHF_COMPRESSED;
  bytes = sonde_module_store_bytes (f->modules);
  g_assert_cmpint (load (f, fake_elf_open (file->data, file->len)), ==, 0);
  g_assert_cmpuint (sonde_module_store_bytes (f->modules) - bytes, <, 4096);
  map_last (f);
  f->state.stack_size_bytes = 0;
  assert_ends (f, "no-cfi");
}

/* What was read is kept: the file is not looked at again. */
static void
test_truncated_later (Hostile *f, gconstpointer data)
{
  g_autoptr (GByteArray) file = NULL;
  guint64 rows[6];
  int fd;
  int kept;

  add_three_functions ((Fixture *) &(Fixture){ .cfi = f->cfi }, rows);
  file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
  fd = fake_elf_open (file->data, file->len);
  kept = fcntl (fd, F_DUPFD_CLOEXEC, 0);
  g_assert_cmpint (load (f, fd), ==, 0);
  map_last (f);
  g_assert_cmpint (ftruncate (kept, 0), ==, 0);
  close (kept);
  for (guint i = 0; i < N_WORDS; i++)
    f->stack[i] = TEXT + 0x80;
  for (f->regs[SLOT_PC] = TEXT; f->regs[SLOT_PC] < TEXT + 0x300; f->regs[SLOT_PC] += 0x10)
    g_assert_cmpint (sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs,
                                            G_N_ELEMENTS (f->addrs), &f->n_addrs),
                     ==, SONDE_UNWIND_END_DEPTH_LIMIT);
}

static void
test_no_regular_files (Hostile *f, gconstpointer data)
{
  g_autofree char *folder = g_dir_make_tmp ("hostile-XXXXXX", NULL);
  g_autofree char *fifo = g_build_filename (folder, "fifo", NULL);
  int sockets[2];

  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);
  g_assert_cmpint (load (f, open (fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC)), ==, -EINVAL);
  g_assert_cmpint (load (f, open ("/dev/zero", O_RDONLY | O_CLOEXEC)), ==, -EINVAL);
  g_assert_cmpint (load (f, open ("/dev/null", O_RDONLY | O_CLOEXEC)), ==, -EINVAL);
  g_assert_cmpint (load (f, open (folder, O_RDONLY | O_CLOEXEC)), ==, -EINVAL);
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), ==, 0);
  close (sockets[1]);
  g_assert_cmpint (load (f, sockets[0]), ==, -EINVAL);
  g_assert_cmpint (load (f, -1), ==, -EBADF);
  g_assert_cmpuint (sonde_module_store_n_modules (f->modules), ==, 0);
  unlink (fifo);
  rmdir (folder);
}

/* The third program header and what it points at: the same name tag in both files. */
static void
add_build_id (GByteArray *file)
{
  static const guint8 note[] = { 4, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 1, 2, 3, 4 };
  Elf64_Ehdr *elf = (gpointer) file->data;
  Elf64_Phdr *segments = (gpointer) (file->data + sizeof *elf);

  segments[elf->e_phnum++] = (Elf64_Phdr){ .p_type = PT_NOTE,
                                           .p_offset = 0x200,
                                           .p_vaddr = 0x200,
                                           .p_filesz = sizeof note,
                                           .p_memsz = sizeof note };
  memcpy (file->data + 0x200, note, sizeof note);
}

/* Who forges another file's build id does not get that file's place. */
static void
test_forged_build_id (Hostile *f, gconstpointer data)
{
  static const guint8 rules[] = { PLAIN_RULES };
  static const guint8 ends[] = { 0x07, DWARF_RA };
  guint cie = fake_elf_add_cie (f->cfi, "zR", rules, sizeof rules);
  const char *expected[] = { "depth-limit", "complete" };

  fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT, CODE_BYTES, "\0\0", 2);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GByteArray) file = NULL;

      if (i == 1)
        {
          g_byte_array_set_size (f->cfi, 0);
          fake_elf_add_cie (f->cfi, "zR", rules, sizeof rules);
          fake_elf_add_fde (f->cfi, cie, FAKE_ELF_TEXT, CODE_BYTES, ends, sizeof ends);
        }
      file = fake_elf_build (f->cfi, &(FakeElf){ .section = ".eh_frame" });
      add_build_id (file);
      g_assert_cmpint (load (f, fake_elf_open (file->data, file->len)), ==, 0);
      g_assert_cmpuint (sonde_module_store_n_modules (f->modules), ==, i + 1);
      map_last (f);
      assert_ends (f, expected[i]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  mallopt (M_PERTURB, 0); /* Meson's MALLOC_PERTURB_ writes all of each block, which costs */
#define ADD(path, test)                                                                            \
  g_test_add ("/hostile-cfi/" path, Hostile, NULL, set_up_hostile, test, tear_down_hostile)
  ADD ("register-0x7000000-takes-no-memory", test_huge_register);
  ADD ("a-pile-of-states-takes-no-memory", test_remember_pile);
  ADD ("states-in-turn-end-the-stack", test_states_in_turn);
  ADD ("frames-without-end-end", test_endless_frames);
  ADD ("an-expression-that-loops-ends", test_skip_loop);
  ADD ("an-unknown-operation-leaks-nothing", test_unknown_operation);
  ADD ("long-programs-end-the-stack", test_long_program);
  ADD ("long-expressions-end-the-stack", test_long_expressions);
  ADD ("64-ki-functions-in-no-order-are-found", test_unsorted);
  ADD ("a-table-wrong-in-its-last-row-is-made-anew", test_wrong_at_the_end);
  ADD ("more-functions-than-fit-are-left", test_too_large);
  ADD ("thousands-of-sections-are-looked-through", test_sections);
  ADD ("a-full-store-makes-room", test_eviction);
  ADD ("functions-in-functions-are-found", test_overlapping);
  ADD ("nothing-is-decompressed", test_compressed);
  ADD ("a-file-truncated-later-does-not-matter", test_truncated_later);
  ADD ("fifos-devices-and-sockets-are-refused", test_no_regular_files);
  ADD ("a-forged-build-id-gains-nothing", test_forged_build_id);
  return g_test_run ();
}
