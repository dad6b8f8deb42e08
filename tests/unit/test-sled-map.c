/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Maps of sleds as clang writes them, and others; and the bytes of sleds. */
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared-ring/collector/tracer/sled-map.h"

/* --- entries --- */

#define TEXT G_GUINT64_CONSTANT (0x7f0000001000)
#define MAP  G_GUINT64_CONSTANT (0x7f0000003004)

static const SondeSledMap map = {
  .text = { { TEXT, TEXT + 0x100 }, { TEXT + 0x10000, TEXT + 0x10100 } },
  .n_texts = 2,
  .map = MAP,
  .n_entries = 1,
};

typedef struct
{
  guint64 sled;
  guint64 function;
  guint8 kind;
  guint8 always;
  guint8 version;
  guint8 padding; /* the last byte */
} Entry;

static SondeSledVerdict
judge (const Entry *entry, SondeSled *sled)
{
  guint8 bytes[SONDE_SLED_MAP_ENTRY_BYTES] = { 0 };

  memcpy (bytes, &entry->sled, 8);
  memcpy (bytes + 8, &entry->function, 8);
  bytes[16] = entry->kind;
  bytes[17] = entry->always;
  bytes[18] = entry->version;
  bytes[31] = entry->padding;
  return sonde_sled_map_judge (&map, bytes, MAP, sled);
}

static void
places_are_where_entries_say (void)
{
  static const struct
  {
    Entry entry;
    SondeSled sled;
  } rows[] = {
    { { TEXT, TEXT, 0, 0, 0, 0 }, { TEXT, TEXT, SONDE_SLED_ENTRY, 0 } },
    { { TEXT + 2, TEXT, 0, 1, 1, 0 }, { TEXT + 2, TEXT, SONDE_SLED_ENTRY, 0 } },
    { { TEXT - MAP, TEXT - MAP - 8, 0, 0, 2, 0 }, { TEXT, TEXT, SONDE_SLED_ENTRY, 0 } },
    { { TEXT + 0x20 - MAP, TEXT - MAP - 8, 1, 0, 2, 0 },
      { TEXT + 0x20, TEXT, SONDE_SLED_EXIT, 0 } },
    { { TEXT + 0x20 - MAP, TEXT - MAP - 8, 2, 0, 2, 0 },
      { TEXT + 0x20, TEXT, SONDE_SLED_TAIL, 0 } },
    { { TEXT - MAP, TEXT - MAP - 8, 3, 0, 2, 0 }, { TEXT, TEXT, SONDE_SLED_ENTRY, 0 } },
    /* The last that fits: of a text of an even number of bytes it ends one before. */
    { { TEXT + 0x100 - 12, TEXT, 1, 0, 0, 0 }, { TEXT + 0x100 - 12, TEXT, SONDE_SLED_EXIT, 0 } },
    /* Functions have parts elsewhere that are seldom called. */
    { { TEXT + 0x10000, TEXT, 1, 0, 0, 0 }, { TEXT + 0x10000, TEXT, SONDE_SLED_EXIT, 1 } },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      SondeSled sled = { 0 };

      g_test_message ("row %" G_GSIZE_FORMAT, i);
      g_assert_cmpint (judge (&rows[i].entry, &sled), ==, SONDE_SLED_OK);
      g_assert_cmphex (sled.address, ==, rows[i].sled.address);
      g_assert_cmphex (sled.function, ==, rows[i].sled.function);
      g_assert_cmpint (sled.kind, ==, rows[i].sled.kind);
      g_assert_cmpuint (sled.text, ==, rows[i].sled.text);
    }
}

static void
what_cannot_be_is_refused (void)
{
  static const struct
  {
    Entry entry;
    SondeSledVerdict verdict;
  } rows[] = {
    { { TEXT, TEXT, 0, 0, 3, 0 }, SONDE_SLED_FAULT_VERSION },
    { { TEXT, TEXT, 0, 0, 255, 0 }, SONDE_SLED_FAULT_VERSION },
    { { TEXT, TEXT, 0, 0, 0, 1 }, SONDE_SLED_FAULT_PADDING },
    { { TEXT, TEXT, 4, 0, 0, 0 }, SONDE_SLED_EVENT },
    { { 0, 0, 5, 0, 2, 0 }, SONDE_SLED_EVENT },
    { { TEXT, TEXT, 6, 0, 0, 0 }, SONDE_SLED_FAULT_KIND },
    { { TEXT, TEXT, 255, 0, 0, 0 }, SONDE_SLED_FAULT_KIND },
    { { TEXT - 2, TEXT, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT + 0x100 - 10, TEXT, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT + 0x100, TEXT, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT + 0x8000, TEXT, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { 0, TEXT, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { G_MAXUINT64 - 1, TEXT, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT, TEXT - 1, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT, TEXT + 0x100, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT, 0, 0, 0, 0, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    /* Absolute, but said to be relative; and the other way round. */
    { { TEXT, TEXT, 0, 0, 2, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT - MAP, TEXT - MAP - 8, 0, 0, 1, 0 }, SONDE_SLED_FAULT_OUTSIDE },
    { { TEXT + 1, TEXT, 0, 0, 0, 0 }, SONDE_SLED_FAULT_ODD },
    { { TEXT + 0x21 - MAP, TEXT - MAP - 8, 1, 0, 2, 0 }, SONDE_SLED_FAULT_ODD },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      SondeSled sled = { 77, 77, SONDE_SLED_N_KINDS, 77 };

      g_test_message ("row %" G_GSIZE_FORMAT, i);
      g_assert_cmpint (judge (&rows[i].entry, &sled), ==, rows[i].verdict);
      g_assert_cmpuint (sled.address, ==, 77);
    }
}

static void
noise_leads_nowhere_else (void)
{
  g_autoptr (GRand) noise = g_rand_new_with_seed (1);
  guint n_ok = 0;

  for (guint i = 0; i < 1000000; i++)
    {
      guint8 bytes[SONDE_SLED_MAP_ENTRY_BYTES] = { 0 };
      guint64 place = TEXT + (guint64) g_rand_int_range (noise, -0x200, 0x400);
      guint64 function = TEXT + (guint64) g_rand_int_range (noise, -0x200, 0x400);
      SondeSled sled;

      memcpy (bytes, &place, 8);
      memcpy (bytes + 8, &function, 8);
      bytes[g_rand_int_range (noise, 0, sizeof bytes)] ^= (guint8) g_rand_int_range (noise, 0, 256);
      if (sonde_sled_map_judge (&map, bytes, MAP, &sled) != SONDE_SLED_OK)
        continue;
      n_ok++;
      g_assert_cmpint (sled.kind, <, SONDE_SLED_N_KINDS);
      g_assert_cmpuint (sled.text, <, map.n_texts);
      g_assert_cmpuint (sled.address, >=, map.text[sled.text].lo);
      g_assert_cmpuint (sled.address + SONDE_SLED_BYTES, <=, map.text[sled.text].hi);
    }
  g_assert_cmpuint (n_ok, >, 1000);
}

/* Functions, and the table of them that is in order. */
static struct
{
  guint8 encodings[4];
  guint32 pointer;
  guint32 n_frames;
  gint32 rows[3][2];
  guint8 text[0x60];
} module = { .encodings = { 1, 0x1b, 0x03, 0x3b }, .n_frames = 3 };

static void
functions_have_room_where_they_begin (void)
{
  const guint64 text = (guintptr) module.text;
  const SondeSledMap known = {
    .text = { { text, text + sizeof module.text } },
    .n_texts = 1,
    .frames = (guintptr) &module,
    .n_frames = 3,
  };
  static const struct
  {
    gint64 offset;
    SondeSledVerdict verdict;
  } rows[] = {
    { 0, SONDE_SLED_OK },
    { 0x24, SONDE_SLED_OK }, /* behind ENDBR64 */
    { 0x20, SONDE_SLED_OK },
    { 0x40, SONDE_SLED_OK },
    { 4, SONDE_SLED_FAULT_INSIDE }, /* there is none */
    { 0x44, SONDE_SLED_FAULT_INSIDE },
    /* As of -fpatchable-function-entry=7,2. */
    { 0x3e, SONDE_SLED_FAULT_INSIDE },
    { 0x21, SONDE_SLED_FAULT_INSIDE },
    { 0x50, SONDE_SLED_FAULT_INSIDE },
    { 0x5b, SONDE_SLED_FAULT_INSIDE },
    { 0x5c, SONDE_SLED_FAULT_OUTSIDE },
    { 0x60, SONDE_SLED_FAULT_OUTSIDE },
    { -1, SONDE_SLED_FAULT_OUTSIDE },
    { G_MININT64, SONDE_SLED_FAULT_OUTSIDE },
  };
  SondeSledMap unknown = known;
  SondeSled sled;

  for (guint i = 0; i < G_N_ELEMENTS (module.rows); i++)
    module.rows[i][0] = (gint32) (module.text + 0x20 * i - (guint8 *) &module);
  memcpy (module.text + 0x20, "\xf3\x0f\x1e\xfa", 4);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("row %" G_GSIZE_FORMAT, i);
      g_assert_cmpint (sonde_sled_map_judge_begin (&known, text + (guint64) rows[i].offset, &sled),
                       ==, rows[i].verdict);
      if (rows[i].verdict == SONDE_SLED_OK)
        g_assert_cmphex (sled.address, ==, text + (guint64) rows[i].offset);
    }
  unknown.n_frames = 0;
  g_assert_cmpint (sonde_sled_map_judge_begin (&unknown, text, &sled), ==, SONDE_SLED_FAULT_INSIDE);
}

/* --- bytes --- */

typedef struct
{
  SondeSledKind kind;
  SondeSledState state;
  guint8 code[SONDE_SLED_BYTES];
} Code;

/* Of each kind, with our code below. */
static const SondeSled places[SONDE_SLED_N_KINDS] = {
  { TEXT, TEXT, SONDE_SLED_ENTRY, 0 },
  { TEXT, TEXT, SONDE_SLED_EXIT, 0 },
  { TEXT, TEXT, SONDE_SLED_TAIL, 0 },
  { TEXT, TEXT, SONDE_SLED_BEGIN, 0 },
};
#define TARGET (TEXT - 0x12345)

static const Code fresh[] = {
  { SONDE_SLED_ENTRY,
    SONDE_SLED_FRESH,
    { 0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
  { SONDE_SLED_TAIL,
    SONDE_SLED_FRESH,
    { 0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
  { SONDE_SLED_EXIT,
    SONDE_SLED_FRESH,
    { 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
  /* For processors that like short ones, as clang -march=silvermont writes them. */
  { SONDE_SLED_ENTRY,
    SONDE_SLED_FRESH,
    { 0xeb, 0x09, 0x0f, 0x1f, 0x80, 0x00, 0x02, 0x00, 0x00, 0x66, 0x90 } },
  { SONDE_SLED_EXIT,
    SONDE_SLED_FRESH,
    { 0xc3, 0x0f, 0x1f, 0x80, 0x00, 0x02, 0x00, 0x00, 0x0f, 0x1f, 0x00 } },
  { SONDE_SLED_ENTRY,
    SONDE_SLED_FRESH,
    { 0xeb, 0x09, 0x0f, 0x1f, 0x44, 0x00, 0x08, 0x0f, 0x1f, 0x40, 0x08 } },
  { SONDE_SLED_EXIT,
    SONDE_SLED_FRESH,
    { 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 } },
};

static void
what_clang_writes_is_switched (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (fresh); i++)
    {
      const SondeSled *sled = &places[fresh[i].kind];
      guint8 code[SONDE_SLED_BYTES], ready[SONDE_SLED_BYTES];
      guint n_different = 0;

      g_test_message ("row %" G_GSIZE_FORMAT, i);
      memcpy (code, fresh[i].code, sizeof code);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET), ==, SONDE_SLED_FRESH);
      sonde_sled_prepare (sled, code, TARGET);
      /* What threads reach is as it was. */
      g_assert_cmpmem (code, 1, fresh[i].code, 1);
      g_assert_true (sled->kind == SONDE_SLED_EXIT || code[1] == fresh[i].code[1]);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET), ==, SONDE_SLED_READY);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET + 1), ==, SONDE_SLED_OTHER);

      memcpy (ready, code, sizeof ready);
      sonde_sled_switch (sled, code, true);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET), ==, SONDE_SLED_ON);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET - 1), ==, SONDE_SLED_OTHER);
      for (guint j = 0; j < sizeof code; j++)
        n_different += code[j] != ready[j];
      g_assert_cmpuint (n_different, ==, 1);
      sonde_sled_switch (sled, code, false);
      g_assert_cmpmem (code, sizeof code, ready, sizeof ready);
    }
}

/* Where there is nothing but room for a call it is there at once. */
static void
room_for_a_call_is_filled (void)
{
  static const guint8 rooms[][SONDE_SLED_BEGIN_BYTES] = {
    { 0x90, 0x90, 0x90, 0x90, 0x90 }, /* of gcc */
    { 0x0f, 0x1f, 0x44, 0x00, 0x08 }, /* of clang */
    { 0x66, 0x90, 0x0f, 0x1f, 0x00 },
  };
  static const guint8 others[][SONDE_SLED_BEGIN_BYTES] = {
    { 0x90, 0x90, 0x90, 0x90, 0x55 }, { 0x90, 0x90, 0x90, 0x0f, 0x1f }, /* one goes on behind */
    { 0x66, 0x0f, 0x1f, 0x84, 0x00 }, { 0xe8, 0x00, 0x00, 0x00, 0x00 },
    { 0xcc, 0x90, 0x90, 0x90, 0x90 },
  };
  const SondeSled *sled = &places[SONDE_SLED_BEGIN];

  for (gsize i = 0; i < G_N_ELEMENTS (rooms); i++)
    {
      guint8 code[SONDE_SLED_BYTES];
      gint32 offset;

      memset (code, 0xcc, sizeof code);
      memcpy (code, rooms[i], sizeof rooms[i]);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET), ==, SONDE_SLED_FRESH);
      sonde_sled_prepare (sled, code, TARGET);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET), ==, SONDE_SLED_ON);
      g_assert_cmpint (sonde_sled_look (sled, code, TARGET + 1), ==, SONDE_SLED_OTHER);
      memcpy (&offset, code + 1, sizeof offset);
      g_assert_cmphex (code[0], ==, 0xe8);
      g_assert_cmphex (TEXT + SONDE_SLED_BEGIN_BYTES + (guint64) offset, ==, TARGET);
      for (gsize j = SONDE_SLED_BEGIN_BYTES; j < sizeof code; j++)
        g_assert_cmphex (code[j], ==, 0xcc);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (others); i++)
    g_assert_cmpint (sonde_sled_look (sled, others[i], TARGET), ==, SONDE_SLED_OTHER);
}

static void
branches_lead_to_the_target (void)
{
  guint8 entry[SONDE_SLED_BYTES], at_exit[SONDE_SLED_BYTES];
  gint32 offset;

  memcpy (entry, fresh[0].code, sizeof entry);
  sonde_sled_prepare (&places[SONDE_SLED_ENTRY], entry, TARGET);
  memcpy (&offset, entry + 3, sizeof offset);
  g_assert_cmphex (entry[2], ==, 0xe8);
  g_assert_cmphex (TEXT + SONDE_SLED_RETURN_BYTES + (guint64) offset, ==, TARGET);

  memcpy (at_exit, fresh[2].code, sizeof at_exit);
  sonde_sled_prepare (&places[SONDE_SLED_EXIT], at_exit, TARGET);
  memcpy (&offset, at_exit + 2, sizeof offset);
  g_assert_cmphex (at_exit[1], ==, 0xe9);
  g_assert_cmphex (TEXT + 6 + (guint64) offset, ==, TARGET);
}

static void
other_code_is_left_alone (void)
{
  static const Code rows[] = {
    /* A function without a sled. */
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 } },
    { SONDE_SLED_EXIT,
      SONDE_SLED_OTHER,
      { 0xc3, 0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 } },
    /* As LLVM's runtime patches them. */
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0x41, 0xba, 0x01, 0x00, 0x00, 0x00, 0xe8, 0x00, 0x00, 0x00, 0x00 } },
    { SONDE_SLED_EXIT,
      SONDE_SLED_OTHER,
      { 0x41, 0xba, 0x01, 0x00, 0x00, 0x00, 0xe9, 0x00, 0x00, 0x00, 0x00 } },
    /* Of the other kind. */
    { SONDE_SLED_EXIT,
      SONDE_SLED_OTHER,
      { 0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0xc3, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
    /* Jumps that go not so far, or farther. */
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0xeb, 0x08, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
    { SONDE_SLED_TAIL,
      SONDE_SLED_OTHER,
      { 0xeb, 0x0a, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
    /* On, but with nothing of ours behind. */
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0xeb, 0x00, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
    { SONDE_SLED_EXIT,
      SONDE_SLED_OTHER,
      { 0x90, 0x2e, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00 } },
    /* An instruction that goes on behind the sled, and one that does something. */
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0xeb, 0x09, 0x66, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00 } },
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0xeb, 0x09, 0x0f, 0x1f, 0x80, 0x00, 0x02, 0x00, 0x00, 0x31, 0xc0 } },
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0xeb, 0x09, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x66 } },
    { SONDE_SLED_EXIT,
      SONDE_SLED_OTHER,
      { 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x0f, 0x1f } },
    { SONDE_SLED_ENTRY,
      SONDE_SLED_OTHER,
      { 0xeb, 0x09, 0x0f, 0x1f, 0xc0, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 } },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("row %" G_GSIZE_FORMAT, i);
      g_assert_cmpint (sonde_sled_look (&places[rows[i].kind], rows[i].code, TARGET), ==,
                       rows[i].state);
    }
}

/* --- files --- */

/* A file of one page that is loaded whole, with a map of two entries. */
typedef struct
{
  Elf64_Ehdr header;
  Elf64_Phdr segments[2];
  Elf64_Shdr sections[4];
  char names[32];
  guint8 entries[2 * SONDE_SLED_MAP_ENTRY_BYTES];
  guint8 rest[64];
} File;

#define BASE G_GUINT64_CONSTANT (0x555500000000)

enum
{
  SECTION_NONE,
  SECTION_OTHER,
  SECTION_MAP,
  SECTION_NAMES,
};

static File
make_file (void)
{
  static const char names[32] = "\0other\0xray_instr_map\0";
  File file = { 0 };

  memcpy (file.header.e_ident, ELFMAG, SELFMAG);
  file.header.e_ident[EI_CLASS] = ELFCLASS64;
  file.header.e_ident[EI_DATA] = ELFDATA2LSB;
  file.header.e_machine = EM_X86_64;
  file.header.e_phentsize = sizeof file.segments[0];
  file.header.e_phnum = G_N_ELEMENTS (file.segments);
  file.header.e_phoff = G_STRUCT_OFFSET (File, segments);
  file.header.e_shentsize = sizeof file.sections[0];
  file.header.e_shnum = G_N_ELEMENTS (file.sections);
  file.header.e_shoff = G_STRUCT_OFFSET (File, sections);
  file.header.e_shstrndx = SECTION_NAMES;
  file.segments[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = sizeof file };
  file.segments[1] = (Elf64_Phdr){
    .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x1000, .p_filesz = 0x234
  };
  file.sections[SECTION_OTHER] = (Elf64_Shdr){
    .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addr = 64, .sh_size = 32
  };
  file.sections[SECTION_MAP] = (Elf64_Shdr){ .sh_name = 7,
                                             .sh_type = SHT_PROGBITS,
                                             .sh_flags = SHF_ALLOC,
                                             .sh_addr = G_STRUCT_OFFSET (File, entries),
                                             .sh_size = sizeof file.entries };
  file.sections[SECTION_NAMES] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
                                               .sh_offset = G_STRUCT_OFFSET (File, names),
                                               .sh_size = sizeof file.names };
  memcpy (file.names, names, sizeof names);
  return file;
}

/* @loaded: as it is in memory; @size: of the file */
static int
find (const File *file, gsize size, const File *loaded, SondeSledMap *found)
{
  struct dl_phdr_info info = { .dlpi_addr = BASE, .dlpi_phnum = G_N_ELEMENTS (loaded->segments) };
  int fd = memfd_create ("module", MFD_CLOEXEC);
  int r;

  info.dlpi_phdr = loaded->segments;
  g_assert_cmpint (write (fd, file, size), ==, size);
  r = sonde_sled_map_find (fd, &info, found);
  close (fd);
  return r;
}

static void
a_map_is_found_by_section_headers (void)
{
  const File file = make_file ();
  SondeSledMap found = { 0 };

  g_assert_cmpint (find (&file, sizeof file, &file, &found), ==, 0);
  g_assert_cmphex (found.map, ==, BASE + G_STRUCT_OFFSET (File, entries));
  g_assert_cmpuint (found.n_entries, ==, 2);
  g_assert_cmpuint (found.n_texts, ==, 1);
  g_assert_cmphex (found.text[0].lo, ==, BASE + 0x1000);
  g_assert_cmphex (found.text[0].hi, ==, BASE + 0x1234);
  g_assert_cmpint (found.protection[0], ==, PROT_READ | PROT_EXEC);
}

/* Many are read a few at a time. */
static void
a_map_is_found_among_many_sections (void)
{
  const File file = make_file ();
  const guint n = 200;
  g_autofree guint8 *data = g_malloc0 (sizeof file + n * sizeof (Elf64_Shdr));
  File *changed = (File *) (gpointer) data;
  Elf64_Shdr *sections = (Elf64_Shdr *) (gpointer) (data + sizeof file);
  struct dl_phdr_info info = { .dlpi_addr = BASE, .dlpi_phnum = G_N_ELEMENTS (file.segments) };

  memcpy (data, &file, sizeof file);
  changed->header.e_shoff = sizeof file;
  changed->header.e_shnum = (guint16) n;
  changed->header.e_shstrndx = 100;
  info.dlpi_phdr = file.segments;
  for (guint at = 1; at < n; at++)
    {
      int fd = memfd_create ("module", MFD_CLOEXEC);
      SondeSledMap found;

      memset (sections, 0, n * sizeof *sections);
      sections[100] = file.sections[SECTION_NAMES];
      if (at != 100)
        sections[at] = file.sections[SECTION_MAP];
      g_assert_cmpint (write (fd, data, sizeof file + n * sizeof *sections), >, 0);
      g_assert_cmpint (sonde_sled_map_find (fd, &info, &found), ==, at != 100 ? 0 : -ENOENT);
      close (fd);
    }
}

typedef struct
{
  const char *what;
  gsize offset; /* of a number in the file */
  gsize size_bytes;
  guint64 value;
  int result;
} Change;

#define HEADER(field, value, result)                                                               \
  {                                                                                                \
#field, G_STRUCT_OFFSET(File, header.field), sizeof(((File *) NULL)->header.field), value,     \
        result                                                                                     \
  }
#define SECTION(number, field, value, result)                                                      \
  {                                                                                                \
#number " " #field, G_STRUCT_OFFSET(File, sections[number].field),                             \
        sizeof(((File *) NULL)->sections[0].field), value, result                                  \
  }

/* The file lies in memory as it is. */
static void
addresses_are_found_with_where_functions_begin (void)
{
  static const char names[32] = "\0"
                                "__patchable_function_entries\0";
  static const guint8 encodings[] = { 1, 0x1b, 0x03, 0x3b };
  File file = make_file ();
  struct dl_phdr_info info
      = { .dlpi_addr = (guintptr) &file, .dlpi_phnum = G_N_ELEMENTS (file.segments) };
  guint32 *n_frames = (guint32 *) (gpointer) (file.rest + 8);
  SondeSledMap found = { 0 };
  int fd = memfd_create ("module", MFD_CLOEXEC);

  memcpy (file.names, names, sizeof names);
  file.sections[SECTION_MAP].sh_name = 1;
  file.sections[SECTION_MAP].sh_flags = SHF_ALLOC | SHF_WRITE;
  file.segments[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME,
                                   .p_vaddr = G_STRUCT_OFFSET (File, rest),
                                   .p_memsz = 12 + 2 * 8 };
  memcpy (file.rest, encodings, sizeof encodings);
  info.dlpi_phdr = file.segments;

  for (guint32 n = 0; n < 5; n++)
    {
      *n_frames = n;
      g_assert_cmpint (pwrite (fd, &file, sizeof file, 0), ==, sizeof file);
      g_assert_cmpint (sonde_sled_map_find (fd, &info, &found), ==, 0);
      g_assert_cmpuint (found.n_entries, ==, 0);
      g_assert_cmphex (found.addresses, ==, (guintptr) file.entries);
      g_assert_cmpuint (found.n_addresses, ==, sizeof file.entries / 8);
      /* More than the segment has room for are none. */
      g_assert_cmpuint (found.n_frames, ==, n <= 2 ? n : 0);
    }
  *n_frames = 2;
  for (guint i = 0; i < sizeof encodings; i++)
    {
      file.rest[i] ^= 1;
      g_assert_cmpint (sonde_sled_map_find (fd, &info, &found), ==, 0);
      g_assert_cmpuint (found.n_frames, ==, 0);
      file.rest[i] ^= 1;
    }
  file.sections[SECTION_MAP].sh_size = 63;
  g_assert_cmpint (pwrite (fd, &file, sizeof file, 0), ==, sizeof file);
  g_assert_cmpint (sonde_sled_map_find (fd, &info, &found), ==, -EBADMSG);
  close (fd);
}

static void
headers_that_cannot_be_are_refused (void)
{
  static const Change changes[] = {
    { "e_ident", 0, 1, 0, -ESTALE },
    { "e_ident[EI_CLASS]", EI_CLASS, 1, ELFCLASS32, -ESTALE },
    HEADER (e_machine, EM_AARCH64, -ESTALE),
    HEADER (e_phentsize, 1, -ESTALE),
    HEADER (e_phnum, 0, -ESTALE),
    HEADER (e_phnum, 3, -ESTALE),
    HEADER (e_phoff, 0, -ESTALE),
    HEADER (e_phoff, 100000, -ESTALE),
    HEADER (e_phoff, G_MAXUINT64, -ESTALE),
    { "a segment", G_STRUCT_OFFSET (File, segments[1].p_filesz), 8, 0x233, -ESTALE },
    HEADER (e_shnum, 0, -ENOENT),
    HEADER (e_shnum, 3, -EBADMSG),
    HEADER (e_shnum, 65535, -EBADMSG),
    HEADER (e_shentsize, 63, -EBADMSG),
    HEADER (e_shstrndx, 4, -EBADMSG),
    HEADER (e_shstrndx, 65535, -EBADMSG),
    HEADER (e_shoff, 100000, -EBADMSG),
    HEADER (e_shoff, G_MAXUINT64, -EBADMSG),
    HEADER (e_shoff, G_MAXINT64, -EBADMSG),
    SECTION (SECTION_NAMES, sh_offset, 100000, -EBADMSG),
    SECTION (SECTION_NAMES, sh_offset, G_MAXUINT64, -ENOENT),
    SECTION (SECTION_NAMES, sh_size, 14, -ENOENT),
    SECTION (SECTION_MAP, sh_name, G_MAXUINT32, -ENOENT),
    SECTION (SECTION_MAP, sh_name, 8, -ENOENT),
    SECTION (SECTION_MAP, sh_type, SHT_NOBITS, -ENOENT),
    SECTION (SECTION_MAP, sh_flags, 0, -ENOENT),
    SECTION (SECTION_MAP, sh_size, 0, -ENOENT),
    SECTION (SECTION_MAP, sh_size, 63, -EBADMSG),
    SECTION (SECTION_MAP, sh_size, 65536, -EBADMSG),
    SECTION (SECTION_MAP, sh_size, G_GUINT64_CONSTANT (1) << 40, -EBADMSG),
    SECTION (SECTION_MAP, sh_size, ~G_GUINT64_CONSTANT (31), -EBADMSG),
    SECTION (SECTION_MAP, sh_addr, sizeof (File) - 32, -EBADMSG),
    SECTION (SECTION_MAP, sh_addr, G_MAXUINT64 - 31, -EBADMSG),
    SECTION (SECTION_MAP, sh_addr, 0x2000, -EBADMSG),
  };
  const File loaded = make_file ();

  for (gsize i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      File file = make_file ();
      SondeSledMap found = { 0 };

      g_test_message ("%s: %" G_GINT64_MODIFIER "x", changes[i].what, changes[i].value);
      memcpy ((guint8 *) &file + changes[i].offset, &changes[i].value, changes[i].size_bytes);
      g_assert_cmpint (find (&file, sizeof file, &loaded, &found), ==, changes[i].result);
      g_assert_cmpuint (found.n_entries, ==, 0);
    }
}

static void
files_that_end_too_soon_are_refused (void)
{
  const File file = make_file ();

  for (gsize size = 0; size < G_STRUCT_OFFSET (File, names) + 22; size++)
    {
      SondeSledMap found = { 0 };

      g_assert_cmpint (find (&file, size, &file, &found), <, 0);
      g_assert_cmpuint (found.n_entries, ==, 0);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sled-map/places-are-where-entries-say", places_are_where_entries_say);
  g_test_add_func ("/sled-map/what-cannot-be-is-refused", what_cannot_be_is_refused);
  g_test_add_func ("/sled-map/noise-leads-nowhere-else", noise_leads_nowhere_else);
  g_test_add_func ("/sled-map/what-clang-writes-is-switched", what_clang_writes_is_switched);
  g_test_add_func ("/sled-map/functions-have-room-where-they-begin",
                   functions_have_room_where_they_begin);
  g_test_add_func ("/sled-map/room-for-a-call-is-filled", room_for_a_call_is_filled);
  g_test_add_func ("/sled-map/addresses-are-found-with-where-functions-begin",
                   addresses_are_found_with_where_functions_begin);
  g_test_add_func ("/sled-map/branches-lead-to-the-target", branches_lead_to_the_target);
  g_test_add_func ("/sled-map/other-code-is-left-alone", other_code_is_left_alone);
  g_test_add_func ("/sled-map/a-map-is-found-by-section-headers",
                   a_map_is_found_by_section_headers);
  g_test_add_func ("/sled-map/a-map-is-found-among-many-sections",
                   a_map_is_found_among_many_sections);
  g_test_add_func ("/sled-map/headers-that-cannot-be-are-refused",
                   headers_that_cannot_be_are_refused);
  g_test_add_func ("/sled-map/files-that-end-too-soon-are-refused",
                   files_that_end_too_soon_are_refused);
  return g_test_run ();
}
