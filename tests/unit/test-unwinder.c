/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples that lie, files that lie, and how each unwinder says where it ended. */
#include <glib.h>
#include <linux/perf_event.h>
#include <string.h>

#include "tests/lib/fake-elf32.h"
#include "tests/lib/fake-go.h"
#include "unwind/unwinder.h"

#define BASE   UINT64_C (0x7f0000000000)
#define SP     UINT64_C (0x7ffe00001000)
#define PC     (BASE + FAKE_ELF_TEXT + 0x10)
#define CALLER (BASE + FAKE_ELF_TEXT + 0x20)

typedef SondeUnwinder *NewUnwinder (SondeProcessTable *processes);

typedef struct
{
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeUnwinder *unwinder;
  SondeProcess *process;
  uint64_t regs[N_SLOTS];
  uint64_t stack[16];
  SondeUserState state;
  uint64_t addrs[64];
  size_t n_addrs;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  f->processes = sonde_process_table_new (f->modules);
  f->unwinder = ((NewUnwinder *) data) (f->processes);
  f->process = sonde_process_table_ensure (f->processes, 1, 0);
  f->regs[SLOT_SP] = SP;
  f->regs[SLOT_PC] = PC;
  f->state = (SondeUserState){ .abi = PERF_SAMPLE_REGS_ABI_64,
                               .regs_mask = sonde_unwinder_regs_mask (),
                               .regs = f->regs,
                               .n_regs = N_SLOTS,
                               .stack = (const uint8_t *) f->stack };
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  sonde_unwinder_free (f->unwinder);
  sonde_process_table_free (f->processes);
  sonde_module_store_free (f->modules);
}

static void
set_stack (Fixture *f, const uint64_t *words, size_t n_words)
{
  memcpy (f->stack, words, n_words * sizeof *words);
  f->state.stack_size_bytes = f->state.dump_size_bytes = n_words * sizeof *words;
}

/* The file @inode: one function, and rules for it. */
static void
load_file (Fixture *f, uint64_t inode, const void *rules, guint size)
{
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf_add_cie (cfi, "zR", NULL, 0);
  SondeFileId id = { .inode = inode };

  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT, 0x100, rules, size);
  file = fake_elf_build (cfi, &(FakeElf){ .section = ".eh_frame" });
  g_assert_cmpint (sonde_module_store_load (f->modules, &id, fake_elf_open (file->data, file->len)),
                   ==, 0);
}

static void
map_file (Fixture *f, uint64_t inode)
{
  SondeProcessMapping mapping
      = { .start = BASE, .end = BASE + FAKE_ELF_SIZE, .file.inode = inode, .path = "/fake" };

  g_assert_cmpint (
      sonde_process_add_mapping (f->processes, f->process, &mapping, SONDE_MAP_FROM_EVENT), ==, 1);
}

static const guint8 plain_rules[] = { PLAIN_RULES };
static const guint8 undefined_rules[] = { 0x0c, DWARF_SP, 8, 0x07, DWARF_RA };

static void
assert_end (Fixture *f, const char *expected, size_t n_addrs)
{
  SondeUnwindEnd end = sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs,
                                              G_N_ELEMENTS (f->addrs), &f->n_addrs);

  g_assert_cmpstr (sonde_unwind_end_name (end), ==, expected);
  g_assert_cmpuint (f->n_addrs, ==, n_addrs);
  if (n_addrs > 0)
    g_assert_cmphex (f->addrs[0], ==, f->regs[SLOT_PC]);
}

static void
test_states_without_use (Fixture *f, gconstpointer data)
{
  assert_end (f, "no-module", 1);
  f->regs[SLOT_PC] = 0x8048000;
  f->state.abi = PERF_SAMPLE_REGS_ABI_32;
#ifdef __x86_64__
  assert_end (f, "no-module", 1);
#else
  assert_end (f, "no-cfi", 1);
#endif
  f->state.abi = PERF_SAMPLE_REGS_ABI_NONE;
  assert_end (f, "no-module", 0);
  f->state.abi = PERF_SAMPLE_REGS_ABI_64;
  f->state.n_regs = SLOT_PC;
  assert_end (f, "no-module", 0);
  f->state.n_regs = N_SLOTS;
  f->state.regs_mask = 1;
  assert_end (f, "no-module", 0);
}

static void
test_no_cfi (Fixture *f, gconstpointer data)
{
  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  f->regs[SLOT_PC] = BASE + FAKE_ELF_TEXT + 0x8000;
  assert_end (f, "no-cfi", 1);
  f->regs[SLOT_PC] = BASE - 0x1000;
  assert_end (f, "no-module", 1);
}

static void
test_zero_ends (Fixture *f, gconstpointer data)
{
  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ CALLER, CALLER, 0, CALLER }, 4);
  assert_end (f, "complete", 3);
  f->state.stack_size_bytes = 16;
  assert_end (f, "truncated-page", 3);
  f->state.stack_size_bytes = 20; /* half a word is none */
  assert_end (f, "truncated-page", 3);
  f->state.stack_size_bytes = f->state.dump_size_bytes = 16;
  assert_end (f, "truncated-dump", 3);
  f->state.stack_size_bytes = 0;
  assert_end (f, "truncated-page", 1);
}

static void
test_undefined_ends (Fixture *f, gconstpointer data)
{
  load_file (f, 1, undefined_rules, sizeof undefined_rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ CALLER }, 1);
  assert_end (f, "complete", 1);
  assert_end (f, "complete", 1);
}

/* libdwfl also says "undefined" when it could not compute the address: here from a register that no
 * sample has. */
static void
test_unknown_register (Fixture *f, gconstpointer data)
{
  static const guint8 rules[] = { 0x0c, DWARF_SP, 8, 0x09, DWARF_RA, DWARF_NOT_SAMPLED };

  load_file (f, 1, rules, sizeof rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ CALLER }, 1);
  assert_end (f, "bad-cfi", 1);
}

static void
test_wild_reads (Fixture *f, gconstpointer data)
{
  static const guint8 rules[] = { 0x0c, DWARF_FP, 8, 0x80 | DWARF_RA, 1 }; /* CFA fp+8 */
  static const uint64_t wild[] = { 0, 8, BASE, SP - 0x1000, UINT64_MAX, UINT64_MAX - 15 };

  load_file (f, 1, rules, sizeof rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ CALLER }, 1);
  for (size_t i = 0; i < G_N_ELEMENTS (wild); i++)
    {
      f->regs[SLOT_FP] = wild[i];
      assert_end (f, "bad-cfi", 1);
    }
  f->regs[SLOT_FP] = SP + 0x100000;
  assert_end (f, "truncated-dump", 1);
}

static void
test_loops (Fixture *f, gconstpointer data)
{
  /* The caller is in a register. */
  static const guint8 still[]
      = { 0x0c, DWARF_SP, 0, 0x09, DWARF_RA, DWARF_KEPT }; /* the CFA is sp */
  static const guint8 down[] = { 0x12, DWARF_SP, 1, 0x09, DWARF_RA, DWARF_KEPT }; /* and sp-8 */

  load_file (f, 1, still, sizeof still);
  load_file (f, 2, down, sizeof down);
  f->regs[SLOT_KEPT] = CALLER;
  set_stack (f, (uint64_t[]){ CALLER }, 1);
  map_file (f, 1);
  assert_end (f, "loop", 2);
  map_file (f, 2);
  assert_end (f, "loop", 1);
}

/* Callee-saved registers: DWARF number, slot. */
static const guint8 kept[][2] = {
#if defined(__x86_64__)
  { 3, 1 }, { 6, 6 }, { 12, 13 }, { 13, 14 }, { 14, 15 }, { 15, 16 },
#elif defined(__aarch64__)
  { 19, 0 }, { 20, 1 }, { 21, 2 }, { 22, 3 }, { 23, 4 },  { 24, 5 },
  { 25, 6 }, { 26, 7 }, { 27, 8 }, { 28, 9 }, { 29, 10 }, { 30, 11 },
#endif
};

static void
test_kept_registers (Fixture *f, gconstpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    f->regs[kept[i][1]] = CALLER + i;
  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    {
      const guint8 rules[] = { 0x0c, DWARF_SP, 0, 0x09, DWARF_RA, kept[i][0] };

      load_file (f, i + 1, rules, sizeof rules);
      map_file (f, i + 1);
      sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs, G_N_ELEMENTS (f->addrs),
                             &f->n_addrs);
      g_assert_cmpuint (f->n_addrs, >=, 2);
      g_assert_cmphex (f->addrs[1], ==, CALLER + i);
    }
}

/* Four functions: a plain frame, one that saved a register, another plain one, and one whose return
 * address is in it: a register that plain frames need not follow. */
static void
test_return_in_saved_register (Fixture *f, gconstpointer data)
{
  static const guint8 saves[] /* below the return address */
      = { 0x0c, DWARF_SP, 16, 0x80 | DWARF_RA, 1, 0x80 | DWARF_KEPT, 2 };
  static const guint8 in_register[] = { 0x0c, DWARF_SP, 8, 0x09, DWARF_RA, DWARF_KEPT };
  const uint64_t base = BASE + FAKE_ELF_TEXT;
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf_add_cie (cfi, "zR", NULL, 0);
  SondeFileId id = { .inode = 1 };

  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT, 0x100, plain_rules, sizeof plain_rules);
  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT + 0x100, 0x100, saves, sizeof saves);
  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT + 0x200, 0x100, in_register, sizeof in_register);
  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT + 0x300, 0x100, undefined_rules,
                    sizeof undefined_rules);
  file = fake_elf_build (cfi, &(FakeElf){ .section = ".eh_frame" });
  g_assert_cmpint (sonde_module_store_load (f->modules, &id, fake_elf_open (file->data, file->len)),
                   ==, 0);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ base + 0x110, base + 0x310, base + 0x20, base + 0x210, 0 }, 5);
  for (guint i = 0; i < 3; i++) /* the first finds the rules, the others have them */
    {
      assert_end (f, "complete", 5);
      g_assert_cmphex (f->addrs[3], ==, base + 0x210);
      g_assert_cmphex (f->addrs[4], ==, base + 0x310);
    }
}

static void
test_remapping (Fixture *f, gconstpointer data)
{
  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ CALLER, 0 }, 2);
  assert_end (f, "complete", 2);
  map_file (f, 2);
  assert_end (f, "no-module", 1);
  load_file (f, 2, undefined_rules, sizeof undefined_rules);
  assert_end (f, "complete", 1);
  map_file (f, 1);
  assert_end (f, "complete", 2);
  sonde_process_table_exec (f->processes, 1, "new", 1);
  assert_end (f, "no-module", 1);
}

/* Its segment claims all the address space, and shadows nobody else's mapping. */
static void
test_overlap (Fixture *f, gconstpointer data)
{
  SondeProcessMapping mapping
      = { .start = BASE - 0x1000, .end = BASE, .file.inode = 2, .path = "/big" };
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = fake_elf_build (cfi, &(FakeElf){ 0 });
  Elf64_Phdr *load = (gpointer) (file->data + sizeof (Elf64_Ehdr));

  load->p_memsz = UINT64_C (1) << 62;
  g_assert_cmpint (
      sonde_module_store_load (f->modules, &mapping.file, fake_elf_open (file->data, file->len)),
      ==, 0);
  load_file (f, 1, plain_rules, sizeof plain_rules);
  sonde_process_add_mapping (f->processes, f->process, &mapping, SONDE_MAP_FROM_EVENT);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ CALLER, 0 }, 2);
  assert_end (f, "complete", 2);
}

/* More processes than may have a Dwfl at a time, all of one file. */
static void
test_many_processes (Fixture *f, gconstpointer data)
{
  SondeProcess *first = f->process;

  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ CALLER, 0 }, 2);
  sonde_process_set_state (first, SONDE_PROCESS_KNOWN);
  for (int32_t i = 0; i < 10000; i++)
    {
      int32_t pid = 2 + i % 3000;

      f->process = sonde_process_table_fork (f->processes, 1, pid, i);
      assert_end (f, "complete", 2);
      if (i % 2 == 0)
        sonde_process_table_exit (f->processes, pid, i);
      sonde_process_table_expire (f->processes, i - 1000);
    }
  f->process = first;
  assert_end (f, "complete", 2);
}

#ifdef __x86_64__
/* --- 32-bit programs --- */

#define BASE_32   UINT64_C (0x8048000)
#define SP_32     UINT64_C (0xffffd000)
#define TEXT_32   (BASE_32 + FAKE_ELF_TEXT)
#define SLOT_EBP  SLOT_FP
#define HIGH_BITS UINT64_C (0xdead00000000)

/* The functions, 0x100 bytes each: a leaf, one with a frame pointer, one behind a realigned stack,
 * one called through a PLT entry, and the outermost. */
static void
set_up_32_bit (Fixture *f)
{
  static const guint8 frame_pointer[] = { 0x0c, 5, 8, 0x85, 2 };
  static const guint8 realigned[] = { 0x0f, 3, 0x75, 0x7c, 6, 0x10, 5, 2, 0x75, 0 };
  static const guint8 plt[]
      = { 0x0f, 11, 0x74, 4, 0x78, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x32, 0x24, 0x22 };
  static const guint8 outermost[] = { 0x07, 8 };
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf32_add_cie (cfi);
  SondeProcessMapping mapping
      = { .start = BASE_32, .end = BASE_32 + FAKE_ELF_SIZE, .file.inode = 32, .path = "/i386" };

#define ADD_FUNCTION(i, rules)                                                                     \
  fake_elf32_add_fde (cfi, cie, FAKE_ELF_TEXT + (i) *0x100, 0x100, rules, sizeof rules)
  fake_elf32_add_fde (cfi, cie, FAKE_ELF_TEXT, 0x100, NULL, 0);
  ADD_FUNCTION (1, frame_pointer);
  ADD_FUNCTION (2, realigned);
  ADD_FUNCTION (3, plt);
  ADD_FUNCTION (4, outermost);
  file = fake_elf32_build (cfi);
  g_assert_cmpint (
      sonde_module_store_load (f->modules, &mapping.file, fake_elf_open (file->data, file->len)),
      ==, 0);
  g_assert_cmpint (
      sonde_process_add_mapping (f->processes, f->process, &mapping, SONDE_MAP_FROM_EVENT), ==, 1);
  f->state.abi = PERF_SAMPLE_REGS_ABI_32;
  f->regs[SLOT_SP] = SP_32;
  f->regs[SLOT_PC] = TEXT_32 + 0x10;
}

static void
set_stack_32_bit (Fixture *f, const uint32_t *words, size_t n_words)
{
  memcpy (f->stack, words, n_words * sizeof *words);
  f->state.stack_size_bytes = f->state.dump_size_bytes = n_words * sizeof *words;
}

static void
assert_stack_32_bit (Fixture *f, const uint32_t *expected, size_t n)
{
  assert_end (f, "complete", n);
  for (size_t i = 0; i < n; i++)
    g_assert_cmphex (f->addrs[i], ==, expected[i]);
}

#define WORDS(...)                                                                                 \
  (const uint32_t[]){ __VA_ARGS__ }, sizeof ((const uint32_t[]){ __VA_ARGS__ }) / sizeof (uint32_t)

#define BARE    (BASE + FAKE_ELF_TEXT + 0x8000) /* code without CFI */
#define SLOT_BX 1

/* Where no frame pointer led, a zero says nothing: code without frame pointers has it throughout.
 */
static void
test_zero_frame_pointer (Fixture *f, gconstpointer data)
{
  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ BARE }, 1);
  assert_end (f, "no-cfi", 2);
  f->regs[SLOT_PC] = BARE;
  f->regs[SLOT_FP] = SP + 8;
  set_stack (f, (uint64_t[]){ 1, 0, BARE + 8 }, 3);
  assert_end (f, "complete", 2);
  set_stack (f, (uint64_t[]){ 1, SP + 24, BARE + 8, 0, 0 }, 5);
  assert_end (f, "complete", 2);
  set_stack (f, (uint64_t[]){ 1, SP + 24, BARE + 8, 1, 0 }, 5);
  assert_end (f, "no-cfi", 2);
  set_stack (f, (uint64_t[]){ 1, 0, 0 }, 3); /* the sampled one may use it for anything */
  assert_end (f, "no-cfi", 1);
}

/* What starts a thread has the address of the thread's function above its frame. */
static void
test_thread_start (Fixture *f, gconstpointer data)
{
  const uint64_t function = BASE + FAKE_ELF_TEXT;

  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  set_stack (f, (uint64_t[]){ BARE, 1, 2, 3, function }, 5);
  assert_end (f, "complete", 2);
  f->regs[SLOT_FP] = 1;
  assert_end (f, "no-cfi", 2);
  f->regs[SLOT_FP] = 0;
  set_stack (f, (uint64_t[]){ BARE, 1, 2, 3, function + 1 }, 5);
  assert_end (f, "no-cfi", 2);
  set_stack (f, (uint64_t[]){ CALLER, BARE, 2, 3, function }, 5); /* a return address */
  assert_end (f, "complete", 3);
  f->regs[SLOT_PC] = BARE; /* sampled: it has called nobody */
  assert_end (f, "no-cfi", 1);
}

static void
test_frame_pointer_cycle (Fixture *f, gconstpointer data)
{
  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  f->regs[SLOT_PC] = BARE;
  f->regs[SLOT_FP] = SP + 8;
  set_stack (f, (uint64_t[]){ 1, SP + 8, BARE, 1 }, 4);
  assert_end (f, "no-cfi", 2);
  set_stack (f, (uint64_t[]){ 1, SP + 24, BARE, SP + 8, BARE }, 5);
  assert_end (f, "no-cfi", 3);
}

/* A coroutine returns to the begin of a function, and rbx says where what comes next is. */
#define MADE UINT64_C (0x7e0000000000)

static bool
is_made (SondeProcess *process, uint64_t address, uint64_t *begin, void *user_data)
{
  *begin = MADE;
  return address >= MADE && address < MADE + 16;
}

/* At each instruction of one: sub $8,%rsp; call *%rcx; add $8,%rsp; ret. */
static void
test_trampoline (Fixture *f, gconstpointer data)
{
  static const struct
  {
    unsigned offset;
    uint64_t stack[2];
  } places[]
      = { { 0, { CALLER, 0 } }, { 4, { 0, CALLER } }, { 6, { 0, CALLER } }, { 10, { CALLER, 0 } } };
  const SondeProcessMapping made = { .start = MADE, .end = MADE + 4096, .path = "//anon" };

  load_file (f, 1, undefined_rules, sizeof undefined_rules);
  map_file (f, 1);
  g_assert_cmpint (
      sonde_process_add_mapping (f->processes, f->process, &made, SONDE_MAP_FROM_EVENT), ==, 1);
  f->regs[SLOT_PC] = MADE + 4;
  set_stack (f, places[1].stack, 2);
  assert_end (f, "no-module", 1); /* nobody knows that it is one */
  sonde_unwinder_set_trampolines (f->unwinder, is_made, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      f->regs[SLOT_PC] = MADE + places[i].offset;
      set_stack (f, places[i].stack, 2);
      assert_end (f, "complete", 2);
      g_assert_cmphex (f->addrs[1], ==, CALLER);
    }
}

/* Who says that it is one may lie. */
static void
test_false_trampoline (Fixture *f, gconstpointer data)
{
  static const uint64_t nothing[] = { 0x4141414141, 0x4141414141 };
  const SondeProcessMapping made = { .start = MADE, .end = MADE + 4096, .path = "//anon" };
  uint64_t itself[16];

  g_assert_cmpint (
      sonde_process_add_mapping (f->processes, f->process, &made, SONDE_MAP_FROM_EVENT), ==, 1);
  sonde_unwinder_set_trampolines (f->unwinder, is_made, NULL);
  f->regs[SLOT_PC] = MADE + 4;
  set_stack (f, nothing, 2);
  assert_end (f, "no-module", 1);
  set_stack (f, nothing, 1);
  assert_end (f, "truncated-dump", 1);
  for (guint i = 0; i < G_N_ELEMENTS (itself); i++)
    itself[i] = MADE + 8;
  set_stack (f, itself, G_N_ELEMENTS (itself));
  assert_end (f, "truncated-dump", 9);
}
static void
test_end_of_context (Fixture *f, gconstpointer data)
{
  const uint64_t begin = BASE + FAKE_ELF_TEXT;

  load_file (f, 1, plain_rules, sizeof plain_rules);
  map_file (f, 1);
  f->regs[SLOT_FP] = 1;
  set_stack (f, (uint64_t[]){ begin, 7, 8, 9 }, 4);
  f->regs[SLOT_BX] = SP + 8;
  assert_end (f, "complete", 2);
  f->regs[SLOT_BX] = SP + 24; /* behind two arguments */
  assert_end (f, "complete", 2);
  f->regs[SLOT_BX] = SP; /* below */
  assert_end (f, "no-cfi", 2);
  f->regs[SLOT_BX] = SP + 32; /* not in the copy */
  assert_end (f, "no-cfi", 2);
  f->regs[SLOT_BX] = SP + 9;
  assert_end (f, "no-cfi", 2);
  f->regs[SLOT_BX] = SP + 8;
  set_stack (f, (uint64_t[]){ begin + 0x8000, 7, 8, 9 }, 4); /* no function begins there */
  assert_end (f, "no-cfi", 2);
}

/* As musl has it: between the entry code and main() there is no CFI and no frame pointer. */
static void
test_near_entry (Fixture *f, gconstpointer data)
{
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf_add_cie (cfi, "zR", NULL, 0);
  SondeFileId id = { .inode = 1 };
  uint64_t stack[20] = { BARE };

  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT, 0x100, plain_rules, sizeof plain_rules);
  file = fake_elf_build (cfi, &(FakeElf){ .section = ".eh_frame" });
  ((Elf64_Ehdr *) (gpointer) file->data)->e_entry = FAKE_ELF_TEXT + 0x400;
  g_assert_cmpint (sonde_module_store_load (f->modules, &id, fake_elf_open (file->data, file->len)),
                   ==, 0);
  map_file (f, 1);
  f->regs[SLOT_FP] = 1;
  stack[5] = BASE + FAKE_ELF_TEXT + 0x410;
  f->state.stack = (const uint8_t *) stack;
  f->state.stack_size_bytes = f->state.dump_size_bytes = sizeof stack;
  assert_end (f, "complete", 2);
  stack[17] = stack[5];                    /* too far */
  stack[5] = BASE + FAKE_ELF_TEXT + 0x400; /* no return address of its */
  assert_end (f, "no-cfi", 2);
  stack[5] = stack[17];
  f->state.stack_size_bytes = 40;
  assert_end (f, "no-cfi", 2);
  f->regs[SLOT_PC] = BARE; /* sampled, with who knows how much on the stack */
  f->state.stack_size_bytes = sizeof stack;
  assert_end (f, "no-cfi", 1);
}

static void
load_go_program (Fixture *f)
{
  static const FakeGoFunction functions[] = {
    { "main.leaf", 0, "\2\4\x20\x7c", 0 },
    { "main.main", 0x80, "\x12\x7f", 0 },
    { "runtime.goexit", 0x100, "\2\x7f", 0 },
    { "runtime.systemstack", 0x180, "\2\x7f", 0 },
    { "main.lie", 0x200, "\1\x7f", 0 },
    { "main.huge", 0x280, "\xfe\xff\xff\x7f\x7f", 0 },
    { NULL, 0x300, NULL, 0 },
  };
  g_autoptr (GByteArray) table = fake_go_build (FAKE_GO_1_20, functions, FAKE_ELF_TEXT);
  g_autoptr (GByteArray) file = fake_elf_build (table, &(FakeElf){ .section = ".gopclntab" });
  SondeFileId id = { .inode = 1 };

  g_assert_cmpint (sonde_module_store_load (f->modules, &id, fake_elf_open (file->data, file->len)),
                   ==, 0);
  map_file (f, 1);
}

static void
test_go_program (Fixture *f, gconstpointer data)
{
  const uint64_t text = BASE + FAKE_ELF_TEXT;

  load_go_program (f);
  f->regs[SLOT_FP] = 1;
  set_stack (f, (uint64_t[]){ 1, 2, text + 0x90, 3, text + 0x101 }, 5);
  f->regs[SLOT_PC] = text + 8;
  for (guint i = 0; i < 3; i++) /* with rules that are known by then, too */
    {
      assert_end (f, "complete", 3);
      g_assert_cmphex (f->addrs[1], ==, text + 0x90);
      g_assert_cmphex (f->addrs[2], ==, text + 0x101);
    }
  f->state.stack_size_bytes = 32;
  assert_end (f, "truncated-page", 2);
  set_stack (f, (uint64_t[]){ text + 0x90, 3, text + 0x191 }, 3);
  f->regs[SLOT_PC] = text + 3;
  assert_end (f, "complete", 3); /* what called systemstack is on another stack */
  set_stack (f, (uint64_t[]){ text + 0x90, 3, text + 0x101 }, 3);
  f->regs[SLOT_PC] = text + 0x190;
  assert_end (f, "complete", 3); /* but not before it calls */
  f->regs[SLOT_PC] = text + 0x210;
  assert_end (f, "bad-cfi", 1);
  f->regs[SLOT_PC] = text + 0x290;
  assert_end (f, "bad-cfi", 1);
  f->regs[SLOT_PC] = text + 0x310;
  assert_end (f, "no-cfi", 1);
}

/* The caller of a leaf has a frame pointer; its caller's is at the place that the realigned one
 * points below; a PLT entry past its push comes before the outermost. */
static void
test_32_bit (Fixture *f, gconstpointer data)
{
  const uint32_t text = TEXT_32;
  const uint32_t sp = SP_32;

  set_up_32_bit (f);
  f->regs[SLOT_EBP] = SP_32 + 12;
  set_stack_32_bit (f, WORDS (text + 0x110, 1, 2,    /* esp: into the frame pointer's function */
                              sp + 36, text + 0x210, /* ebp, return address */
                              0, 0, 0, sp + 44,      /* ebp - 4 of the realigned: its CFA */
                              sp + 40, text + 0x30c, /* its ebp, return address */
                              7, text + 0x410, 0));  /* pushed by the PLT entry; its return */
  assert_stack_32_bit (f,
                       WORDS (text + 0x10, text + 0x110, text + 0x210, text + 0x30c, text + 0x410));
  f->regs[SLOT_PC] |= HIGH_BITS; /* nobody says what is above 32 bits */
  f->regs[SLOT_SP] |= HIGH_BITS;
  sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs, 64, &f->n_addrs);
  g_assert_cmpuint (f->n_addrs, ==, 5);
  f->state.stack_size_bytes = 6;
  sonde_unwinder_unwind (f->unwinder, f->process, &f->state, f->addrs, 64, &f->n_addrs);
  g_assert_cmpuint (f->n_addrs, ==, 2);
}

/* A frame pointer where there is no CFI; a stack cut within a word. */
static void
test_32_bit_without_cfi (Fixture *f, gconstpointer data)
{
  const uint32_t text = TEXT_32;

  set_up_32_bit (f);
  f->regs[SLOT_PC] = TEXT_32 + 0x8000;
  f->regs[SLOT_EBP] = SP_32 + 4;
  set_stack_32_bit (f, WORDS (1, SP_32 + 8, text + 0x410));
  assert_stack_32_bit (f, WORDS (text + 0x8000, text + 0x410));
  f->state.stack_size_bytes = 10;
  assert_end (f, "no-cfi", 1);
}

/* A file of the other kind says nothing about a sample, whatever it has been before. */
static void
test_other_word_size (Fixture *f, gconstpointer data)
{
  set_up_32_bit (f);
  load_file (f, 1, undefined_rules, sizeof undefined_rules);
  map_file (f, 1);
  f->regs[SLOT_PC] = TEXT_32 + 0x410;
  for (guint i = 0; i < 3; i++)
    {
      f->regs[SLOT_PC] = TEXT_32 + 0x410;
      f->state.abi = PERF_SAMPLE_REGS_ABI_32;
      assert_end (f, "complete", 1);
      f->state.abi = PERF_SAMPLE_REGS_ABI_64;
      assert_end (f, "no-module", 1);
      f->regs[SLOT_PC] = PC;
      assert_end (f, "complete", 1);
    }
}
#endif

/* --- above the copy, by the kernel's chain --- */

#define WITH_FP    (BASE + FAKE_ELF_TEXT + 0x10)
#define WITH_FP_2  (BASE + FAKE_ELF_TEXT + 0x20)
#define WITHOUT_FP (BASE + FAKE_ELF_TEXT + 0x110)
#define OUTERMOST  (BASE + FAKE_ELF_TEXT + 0x210)
#define BROKEN     (BASE + FAKE_ELF_TEXT + 0x310)
#define NO_RULE    (BASE + FAKE_ELF_TEXT + 0x410)
#define NOWHERE    (BASE + 2 * FAKE_ELF_SIZE)
#define IN_KERNEL  UINT64_C (0xffffffff81000000)
#define MARK       ((uint64_t) PERF_CONTEXT_KERNEL)
#define ABOVE      (SP + 0x4000)

/* A sample in a function with a frame pointer, whose caller's frame is above the copy. */
static void
set_up_chain (Fixture *f)
{
  static const guint8 broken[] = { 0x0c, DWARF_SP, 0, 0x80 | DWARF_RA, 1 };
  static const guint8 by_fp[] = { 0x0c, DWARF_FP, 16, 0x80 | DWARF_RA, 1, 0x80 | DWARF_FP, 2 };
  g_autoptr (GByteArray) cfi = g_byte_array_new ();
  g_autoptr (GByteArray) file = NULL;
  guint cie = fake_elf_add_cie (cfi, "zR", NULL, 0);
  SondeFileId id = { .inode = 1 };

  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT, 0x100, by_fp, sizeof by_fp);
  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT + 0x100, 0x100, plain_rules, sizeof plain_rules);
  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT + 0x200, 0x100, undefined_rules,
                    sizeof undefined_rules);
  fake_elf_add_fde (cfi, cie, FAKE_ELF_TEXT + 0x300, 0x100, broken, sizeof broken);
  file = fake_elf_build (cfi, &(FakeElf){ .section = ".eh_frame" });
  g_assert_cmpint (sonde_module_store_load (f->modules, &id, fake_elf_open (file->data, file->len)),
                   ==, 0);
  map_file (f, 1);
  f->regs[SLOT_PC] = WITH_FP;
  f->regs[SLOT_FP] = SP + 16;
  set_stack (f, (uint64_t[]){ 1, 2, ABOVE, WITH_FP_2 }, 4);
}

static void
assert_chain (Fixture *f, const uint64_t *chain, size_t n_chain, const char *end, size_t n_addrs)
{
  f->state.chain = chain;
  f->state.n_chain = n_chain;
  assert_end (f, end, n_addrs);
  for (size_t i = 0; i < MIN (n_addrs, n_chain); i++)
    g_assert_cmphex (f->addrs[i], ==, chain[i]);
}

#define ADDRESSES(...)                                                                             \
  (const uint64_t[]) { __VA_ARGS__ }
#define CHAIN(...) ADDRESSES (__VA_ARGS__), sizeof (ADDRESSES (__VA_ARGS__)) / sizeof (uint64_t)

static void
test_chain (Fixture *f, gconstpointer data)
{
  set_up_chain (f);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, WITH_FP, WITH_FP, OUTERMOST), "chain-complete", 5);
  /* What is above that is not looked at. */
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, OUTERMOST, WITH_FP), "chain-complete", 3);
  /* In a recursion, the place is that of the frame pointer. */
  f->stack[3] = WITH_FP;
  assert_chain (f, CHAIN (WITH_FP, WITH_FP, WITH_FP, WITH_FP, WITH_FP, OUTERMOST), "chain-complete",
                6);
  /* Also when it is for want of a page, and within a frame's two words. */
  f->state.dump_size_bytes = 64;
  assert_chain (f, CHAIN (WITH_FP, WITH_FP, OUTERMOST), "chain-complete", 3);
  f->state.stack_size_bytes = 24;
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, OUTERMOST), "chain-complete", 3);
}

static void
test_chain_short (Fixture *f, gconstpointer data)
{
  set_up_chain (f);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, WITH_FP, WITHOUT_FP, OUTERMOST), "chain-short", 4);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, WITH_FP), "chain-short", 3);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, WITH_FP, NOWHERE, OUTERMOST), "chain-short", 3);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, WITH_FP, MARK, WITH_FP), "chain-short", 3);
  /* Code without rules is believed to have one. */
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, NO_RULE, WITH_FP), "chain-short", 4);
  f->stack[3] = NO_RULE;
  assert_chain (f, CHAIN (WITH_FP, NO_RULE, WITH_FP, OUTERMOST), "chain-complete", 4);
}

/* What does not belong to the stack as far as it is known is not followed. */
static void
test_chain_refused (Fixture *f, gconstpointer data)
{
  set_up_chain (f);
  assert_chain (f, NULL, 0, "truncated-dump", 2);
  assert_chain (f, CHAIN (WITH_FP), "truncated-dump", 2);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2), "truncated-dump", 2);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, NOWHERE), "truncated-dump", 2);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, IN_KERNEL), "truncated-dump", 2);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, MARK), "truncated-dump", 2);
  assert_chain (f, CHAIN (WITH_FP, WITH_FP_2, 0), "truncated-dump", 2);
  f->state.n_chain = 3;
  f->state.chain = ADDRESSES (WITH_FP_2, WITH_FP_2, OUTERMOST); /* of another place */
  assert_end (f, "truncated-dump", 2);
  f->state.chain = ADDRESSES (WITH_FP, WITH_FP, OUTERMOST); /* of another caller */
  assert_end (f, "truncated-dump", 2);
  f->state.chain = ADDRESSES (WITH_FP, WITH_FP_2, OUTERMOST);
  f->stack[2] = SP + 16; /* frame pointers that do not rise, and are none */
  assert_end (f, "loop", 2);
  f->stack[2] = ABOVE + 4;
  assert_end (f, "truncated-dump", 2);
  f->regs[SLOT_FP] = SP - 16;
  assert_end (f, "bad-cfi", 1);
  /* The last frame has none, and the kernel went on with that of another. */
  f->regs[SLOT_FP] = ABOVE;
  f->regs[SLOT_PC] = WITHOUT_FP;
  set_stack (f, (uint64_t[]){ WITHOUT_FP, WITHOUT_FP }, 2);
  f->state.chain = ADDRESSES (WITHOUT_FP, WITH_FP, OUTERMOST);
  assert_end (f, "truncated-dump", 3);
}

/* Wrong rules lead nowhere, but a frame pointer does, to another stack. */
static void
test_chain_elsewhere (Fixture *f, gconstpointer data)
{
  set_up_chain (f);
  set_stack (f, (uint64_t[]){ 1, 2, SP + (UINT64_C (1) << 36), BROKEN }, 4);
  assert_chain (f, CHAIN (WITH_FP, BROKEN, WITH_FP, OUTERMOST), "chain-complete", 4);
  assert_chain (f, CHAIN (WITH_FP, BROKEN, BROKEN, OUTERMOST), "chain-short", 3); /* but once */
  assert_chain (f, CHAIN (WITH_FP, BROKEN, NOWHERE), "loop", 2);
}

static void
test_chain_depth (Fixture *f, gconstpointer data)
{
  uint64_t chain[G_N_ELEMENTS (f->addrs) + 36] = { WITH_FP };

  set_up_chain (f);
  for (size_t i = 1; i < G_N_ELEMENTS (chain); i++)
    chain[i] = WITH_FP_2;
  assert_chain (f, chain, G_N_ELEMENTS (chain), "depth-limit", G_N_ELEMENTS (f->addrs));
  chain[G_N_ELEMENTS (f->addrs) - 1] = OUTERMOST;
  assert_chain (f, chain, G_N_ELEMENTS (chain), "chain-complete", G_N_ELEMENTS (f->addrs));
}

/* Where the chain ends with what calls main(), what stood above that in whole stacks of the
 * process follows, unless that was not always the same. */
static void
test_chain_outer_frames (Fixture *f, gconstpointer data)
{
  const uint64_t cut[] = { WITH_FP, WITH_FP_2, WITH_FP, WITHOUT_FP };

  set_up_chain (f);
  assert_chain (f, cut, 4, "chain-short", 4);
  f->regs[SLOT_PC] = WITHOUT_FP;
  set_stack (f, (uint64_t[]){ WITHOUT_FP, WITHOUT_FP + 1, OUTERMOST }, 3);
  assert_end (f, "complete", 4);
  f->regs[SLOT_PC] = WITH_FP;
  set_stack (f, (uint64_t[]){ 1, 2, ABOVE, WITH_FP_2 }, 4);
  assert_chain (f, cut, 4, "chain-complete", 6);
  g_assert_cmphex (f->addrs[4], ==, WITHOUT_FP + 1);
  g_assert_cmphex (f->addrs[5], ==, OUTERMOST);
  f->regs[SLOT_PC] = WITHOUT_FP; /* the copy ends just there */
  set_stack (f, (uint64_t[]){ WITHOUT_FP }, 1);
  assert_end (f, "chain-complete", 4);
  g_assert_cmphex (f->addrs[3], ==, OUTERMOST);
  f->regs[SLOT_PC] = WITHOUT_FP;
  set_stack (f, (uint64_t[]){ WITHOUT_FP, WITHOUT_FP + 2, OUTERMOST }, 3);
  assert_end (f, "complete", 4);
  f->regs[SLOT_PC] = WITH_FP;
  set_stack (f, (uint64_t[]){ 1, 2, ABOVE, WITH_FP_2 }, 4);
  assert_chain (f, cut, 4, "chain-short", 4);
}

#ifdef __x86_64__
/* Go's functions keep one, though their rules need none. */
static void
test_chain_of_go (Fixture *f, gconstpointer data)
{
  const uint64_t text = BASE + FAKE_ELF_TEXT;

  load_go_program (f);
  f->regs[SLOT_PC] = text + 8; /* main.leaf, of 16 bytes */
  f->regs[SLOT_FP] = SP + 8;
  set_stack (f, (uint64_t[]){ 1, ABOVE, text + 8 }, 3);
  assert_chain (f, CHAIN (text + 8, text + 8, text + 8, text + 0x101), "chain-complete", 4);
  assert_chain (f, CHAIN (text + 8, text + 8, text + 0x191), "chain-complete", 3);
  assert_chain (f, CHAIN (text + 8, text + 8, text + 0x310), "chain-short", 3);
}

static void
test_chain_32_bit (Fixture *f, gconstpointer data)
{
  const uint64_t text = TEXT_32;

  set_up_32_bit (f);
  f->regs[SLOT_PC] = text + 0x110;
  f->regs[SLOT_EBP] = SP_32 + 4;
  set_stack_32_bit (f, WORDS (1, SP_32 + 0x2000, (uint32_t) text + 0x120));
  assert_chain (f, CHAIN (text + 0x110, text + 0x120, text + 0x130, text + 0x410), "chain-complete",
                4);
  assert_chain (f, CHAIN (text + 0x110, text + 0x120, HIGH_BITS | (text + 0x130)), "truncated-dump",
                2);
}
#endif

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, test)                                                                            \
  g_test_add ("/unwinder/cfi/" path, Fixture, sonde_unwinder_new_cfi, set_up, test, tear_down);    \
  g_test_add ("/unwinder/libdwfl/" path, Fixture, sonde_unwinder_new_libdwfl, set_up, test,        \
              tear_down)
  ADD ("refuses-states-without-registers", test_states_without_use);
  ADD ("says-where-there-is-no-cfi", test_no_cfi);
  ADD ("says-when-an-address-could-not-be-computed", test_unknown_register);
  ADD ("says-when-reads-are-wild", test_wild_reads);
  ADD ("stops-when-the-stack-does-not-rise", test_loops);
  ADD ("finds-the-caller-in-each-register-that-a-call-keeps", test_kept_registers);
  ADD ("ends-at-a-zero-return-address", test_zero_ends);
  ADD ("ends-at-an-undefined-return-address", test_undefined_ends);
  ADD ("finds-a-return-address-in-a-saved-register", test_return_in_saved_register);
  ADD ("follows-remapping-and-exec", test_remapping);
  ADD ("lets-no-image-shadow-another", test_overlap);
  ADD ("unwinds-ten-thousand-processes-of-one-file", test_many_processes);
#define ADD_OURS(path, test)                                                                       \
  g_test_add ("/unwinder/cfi/" path, Fixture, sonde_unwinder_new_cfi, set_up, test, tear_down)
  ADD_OURS ("follows-a-chain-above-the-copy", test_chain);
  ADD_OURS ("says-where-a-chain-ends", test_chain_short);
  ADD_OURS ("follows-no-chain-that-does-not-fit", test_chain_refused);
  ADD_OURS ("follows-a-chain-to-another-stack", test_chain_elsewhere);
  ADD_OURS ("follows-a-chain-to-the-depth-limit", test_chain_depth);
  ADD_OURS ("knows-the-outer-frames-of-whole-stacks", test_chain_outer_frames);
#ifdef __x86_64__
  ADD_OURS ("follows-a-chain-of-go", test_chain_of_go);
  ADD_OURS ("follows-a-32-bit-chain", test_chain_32_bit);
  ADD_OURS ("believes-no-false-trampoline", test_false_trampoline);
  ADD_OURS ("steps-over-a-trampoline-wherever-it-is", test_trampoline);
  ADD_OURS ("stops-at-a-cycle-of-frame-pointers", test_frame_pointer_cycle);
  ADD_OURS ("ends-where-a-thread-started", test_thread_start);
  ADD_OURS ("ends-at-a-zero-frame-pointer", test_zero_frame_pointer);
  ADD_OURS ("ends-just-below-the-entry-point", test_near_entry);
  ADD_OURS ("ends-where-a-coroutine-began", test_end_of_context);
  ADD_OURS ("unwinds-a-program-of-go", test_go_program);
  ADD ("unwinds-a-32-bit-program", test_32_bit);
  ADD ("follows-a-32-bit-frame-pointer", test_32_bit_without_cfi);
  ADD_OURS ("takes-no-file-of-the-other-word-size", test_other_word_size);
#endif
  return g_test_run ();
}
