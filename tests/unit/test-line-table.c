/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Line tables that CPython made of one function, and such as it would not make. */
#include "daemon/capture/interpreter/line-table.h"

#include <glib.h>
#include <string.h>

#include "daemon/base/walk.h"

#define MAX_RUNS 40

/* From @at on the line is @line. */
typedef struct
{
  int at;
  uint32_t line;
} LineRun;

/* A function with a blank of many lines, arguments on lines of their own, a comprehension, and what
 * is jumped over; the lines as that version's own co_lines() tells them. */
static const struct
{
  SondeLineTableKind kind;
  uint32_t first_line;
  int code_bytes;
  const char *bytes;
  size_t size_bytes;
  LineRun runs[MAX_RUNS];
  size_t n_runs;
} tables[] = {
  /* 3.9 */
  { SONDE_LINE_TABLE_PAIRS,
    2,
    126,
    "\x00\x05\x04\x01\x02\x01\x02\x01\x02\x01\x02\xff\x02\xfe\x04\x7f\x00\x22"
    "\x0a\x01\x06\x01\x02\xff\x16\x07\x02\xf9\x16\x03\x04\x01\x02\xff\x0a\x02"
    "\x08\x02\x02\xfe\x06\x02",
    42,
    { { 0, 7 },    { 4, 8 },    { 6, 9 },    { 8, 10 },    { 10, 11 },   { 12, 10 },  { 14, 8 },
      { 18, 169 }, { 28, 170 }, { 34, 171 }, { 36, 170 },  { 58, 177 },  { 60, 170 }, { 82, 173 },
      { 86, 174 }, { 88, 173 }, { 98, 175 }, { 106, 177 }, { 108, 175 }, { 114, 177 } },
    20 },
  /* 3.10 */
  { SONDE_LINE_TABLE_RANGES,
    2,
    122,
    "\x04\x05\x02\x01\x02\x01\x02\x01\x02\x01\x02\xff\x04\xfe\x00\x7f\x0a\x22"
    "\x06\x01\x02\x01\x04\xff\x12\xff\x04\x08\x14\xf8\x06\x08\x04\xfc\x02\x01"
    "\x0a\xff\x08\x02\x04\x02\x02\xfc\x04\x04",
    46,
    { { 0, 7 },     { 4, 8 },     { 6, 9 },     { 8, 10 },   { 10, 11 },  { 12, 10 },
      { 14, 8 },    { 18, 169 },  { 28, 170 },  { 34, 171 }, { 36, 170 }, { 40, 169 },
      { 58, 177 },  { 62, 169 },  { 82, 177 },  { 88, 173 }, { 92, 174 }, { 94, 173 },
      { 104, 175 }, { 112, 177 }, { 116, 173 }, { 118, 177 } },
    22 },
  /* 3.11 */
  { SONDE_LINE_TABLE_LOCATIONS,
    2,
    240,
    "\x80\x00\xf0\x0a\x6a\x02\x05\x0e\xdd\x10\x13\xd8\x0c\x0d\xdd\x0c\x0f\xd8"
    "\x10\x11\xf1\x03\x02\x0d\x0e\xf4\x00\x02\x0d\x0e\xf1\x05\x05\x11\x0a\xf4"
    "\x00\x05\x11\x0a\x88\x05\xf5\x42\x05\x00\x0e\x12\x90\x21\x89\x57\x8c\x57"
    "\xf0\x00\x03\x09\x1a\x98\x01\xf0\x02\x02\x14\x1a\xf0\x00\x02\x14\x1a\xd8"
    "\x1d\x1e\xf0\x03\x02\x14\x1a\xf1\x00\x02\x14\x1a\xf4\x00\x02\x14\x1a\xf0"
    "\x03\x03\x09\x1a\xf0\x00\x03\x09\x1a\xf0\x00\x03\x09\x1a\xf0\x00\x03\x09"
    "\x1a\xf1\x00\x03\x09\x1a\xf4\x00\x03\x09\x1a\xf0\x00\x03\x09\x1a\xf0\x10"
    "\x00\x0d\x0e\x88\x41\xf0\x11\x03\x09\x1a\xf0\x00\x03\x09\x1a\xf0\x00\x03"
    "\x09\x1a\xf0\x00\x03\x09\x1a\xf8\xf8\xf8\xf0\x00\x03\x09\x1a\xf0\x00\x03"
    "\x09\x1a\xf0\x00\x03\x09\x1a\xf0\x00\x03\x09\x1a\xf0\x00\x03\x09\x1a\xf8"
    "\xf5\x08\x00\x0d\x17\xdd\x0c\x13\xf0\x03\x01\x0c\x15\xf0\x00\x02\x05\x15"
    "\xf0\x00\x02\x05\x15\xf0\x00\x02\x05\x15\xe0\x0f\x14\x88\x0c\x88\x0c\xe0"
    "\x0c\x0d\x88\x41\xf0\x09\x02\x05\x15\xf8\xf8\xf8\xf0\x09\x03\x09\x1a\xf0"
    "\x10\x00\x0d\x0e\x88\x41\x88\x41\xf8\x88\x41\x88\x05\x88\x05\x88\x05\x88"
    "\x05",
    253,
    { { 0, 2 },     { 2, 7 },     { 4, 8 },     { 16, 9 },    { 18, 10 },   { 30, 11 },
      { 32, 10 },   { 46, 8 },    { 62, 169 },  { 94, 170 },  { 98, 171 },  { 100, 170 },
      { 116, 169 }, { 140, 177 }, { 144, 169 }, { 152, 0 },   { 158, 169 }, { 168, 0 },
      { 170, 173 }, { 182, 174 }, { 194, 173 }, { 202, 175 }, { 208, 177 }, { 212, 173 },
      { 214, 0 },   { 220, 169 }, { 222, 177 }, { 228, 0 },   { 230, 177 } },
    29 },
  /* 3.13 */
  { SONDE_LINE_TABLE_LOCATIONS,
    2,
    256,
    "\x80\x00\xf0\x0a\x6a\x02\x05\x0e\xdc\x10\x13\xd8\x0c\x0d\xdc\x0c\x0f\xd8"
    "\x10\x11\xf3\x03\x02\x0d\x0e\xf3\x05\x05\x11\x0a\x88\x05\xf4\x42\x05\x00"
    "\x0e\x12\x90\x21\x8c\x57\x98\x01\xe1\x1d\x1e\xf3\x03\x02\x14\x1a\xd9\x1d"
    "\x1e\x98\x01\xdc\x17\x18\xf7\x05\x00\x15\x16\xd9\x1d\x1e\xf1\x03\x02\x14"
    "\x1a\xf7\x03\x00\x0e\x15\x88\x57\xf1\x10\x00\x0d\x0e\xf9\xf2\x0f\x02\x14"
    "\x1a\xf7\x03\x00\x0e\x15\x8d\x57\xfb\xf4\x08\x00\x0d\x17\xdc\x0c\x13\xf0"
    "\x03\x01\x0c\x15\xf3\x00\x02\x05\x15\xe0\x0f\x14\x89\x0c\xe1\x0c\x0d\xf0"
    "\x09\x02\x05\x15\xfa\xf0\x09\x00\x0e\x15\xf1\x10\x00\x0d\x0e\xf8\x89\x41"
    "\xfa",
    145,
    { { 0, 2 },     { 2, 7 },     { 4, 8 },     { 14, 9 },    { 16, 10 },   { 26, 11 },
      { 28, 10 },   { 36, 8 },    { 46, 169 },  { 70, 171 },  { 74, 170 },  { 82, 171 },
      { 88, 172 },  { 98, 170 },  { 114, 171 }, { 118, 170 }, { 122, 169 }, { 140, 177 },
      { 144, 0 },   { 148, 170 }, { 154, 169 }, { 182, 0 },   { 190, 173 }, { 200, 174 },
      { 210, 173 }, { 220, 175 }, { 226, 177 }, { 230, 173 }, { 232, 0 },   { 238, 169 },
      { 240, 177 }, { 244, 0 },   { 246, 177 }, { 250, 0 } },
    34 },
};

/* --- cases --- */

static void
tells_the_line_of_each_instruction (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      gsize run = 0;

      for (int at = 0; at < tables[i].code_bytes; at += 2)
        {
          if (run + 1 < tables[i].n_runs && tables[i].runs[run + 1].at <= at)
            run++;
          g_assert_cmpuint (sonde_line_table_find (tables[i].kind,
                                                   (const uint8_t *) tables[i].bytes,
                                                   tables[i].size_bytes, tables[i].first_line, at),
                            ==, tables[i].runs[run].line);
        }
    }
}

static void
knows_the_first_line_of_what_has_not_begun (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    g_assert_cmpuint (sonde_line_table_find (tables[i].kind, (const uint8_t *) tables[i].bytes,
                                             tables[i].size_bytes, tables[i].first_line, -2),
                      ==, tables[i].first_line);
}

static void
ends_where_it_was_cut (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    for (size_t size_bytes = 0; size_bytes < tables[i].size_bytes; size_bytes++)
      {
        /* of its own size, so that a read beyond it is seen */
        g_autofree uint8_t *cut = g_memdup2 (tables[i].bytes, size_bytes);

        for (int at = 0; at < tables[i].code_bytes; at += 2)
          sonde_line_table_find (tables[i].kind, cut, size_bytes, tables[i].first_line, at);
      }
}

static void
stays_within_lines (void)
{
  /* a line delta of 31 bits, again and again */
  static const uint8_t up[]
      = { 0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x01, 0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x01,
          0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x01, 0xe8, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x01 };
  static const uint8_t down[] = { 2, 0x81, 2, 0x81, 2, 0x81 };
  static const uint8_t endless[] = { 0xe8, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f };

  g_assert_cmpuint (
      sonde_line_table_find (SONDE_LINE_TABLE_LOCATIONS, up, sizeof up, UINT32_MAX, 7), <=,
      INT32_MAX);
  g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_PAIRS, down, sizeof down, 5, 100), ==,
                    0);
  g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_RANGES, down, sizeof down, 5, 3), ==,
                    0);
  g_assert_cmpuint (
      sonde_line_table_find (SONDE_LINE_TABLE_LOCATIONS, endless, sizeof endless, 9, 1), ==, 9);
}

/* --- Ruby --- */

#define N_WORDS   1700
#define MAX_BYTES 1024

/* As Ruby makes one (succ_index_table_create() in its iseq.c): of the words where entries begin. */
static gsize
index_init (uint8_t bytes[MAX_BYTES], const guint *begins, gsize n_begins)
{
  uint64_t counts[6] = { 0 };
  gsize at = sizeof counts;
  guint rank = 0;
  gsize next = 0;

  memset (bytes, 0, MAX_BYTES);
  for (guint word = 0; word < 54; word++)
    {
      if (next < n_begins && begins[next] == word)
        next++;
      counts[word / 9] |= (uint64_t) next << (7 * (word % 9));
    }
  memcpy (bytes, counts, sizeof counts);
  for (guint block = 0; 54 + block * 512 < N_WORDS; block++, at += 80)
    {
      uint64_t words[10] = { 0 };

      rank = (guint) next;
      words[0] = rank;
      for (guint small = 0; small < 8; small++)
        {
          if (small > 0)
            words[1] |= (uint64_t) (next - rank) << (9 * (small - 1));
          for (guint bit = 0; bit < 64; bit++)
            if (next < n_begins && begins[next] == 54 + block * 512 + small * 64 + bit)
              {
                words[2 + small] |= UINT64_C (1) << bit;
                next++;
              }
        }
      memcpy (bytes + at, words, sizeof words);
    }
  return at;
}

/* Returns: bytes of the table */
static gsize
table_init (uint8_t *table, const guint *begins, gsize n_begins)
{
  SondeWalkLines head = { .n_entries = (uint32_t) n_begins };
  uint8_t index[MAX_BYTES];

  head.index_bytes = n_begins > 1 ? (uint32_t) index_init (index, begins, n_begins) : 0;
  memcpy (table, &head, sizeof head);
  memcpy (table + sizeof head, index, head.index_bytes);
  for (gsize i = 0; i < n_begins; i++)
    {
      const int32_t entry[3] = { 100 + (int32_t) i, -1, 7 };

      memcpy (table + sizeof head + head.index_bytes + i * sizeof entry, entry, sizeof entry);
    }
  return sizeof head + head.index_bytes + n_begins * SONDE_WALK_ENTRY_BYTES;
}

static void
finds_lines_of_ruby_by_their_index (void)
{
  static const guint begins[] = { 0, 3, 4, 53, 54, 60, 117, 118, 119, 300, 565, 566, 1100, 1699 };
  static uint8_t table[SONDE_WALK_LINES_BYTES];
  gsize size_bytes = table_init (table, begins, G_N_ELEMENTS (begins));

  for (guint word = 0; word < N_WORDS; word++)
    {
      uint32_t expected = 99;

      for (gsize i = 0; i < G_N_ELEMENTS (begins) && begins[i] <= word; i++)
        expected++;
      /* A frame is at the instruction behind the one that it runs. */
      g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_INDEXED, table, size_bytes, 5,
                                               (int64_t) (word + 1) * 8),
                        ==, expected);
    }
  g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_INDEXED, table, size_bytes, 5, 0), ==,
                    100);
  /* beyond the index */
  g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_INDEXED, table, size_bytes, 5, 1 << 20),
                    ==, 5);
  /* One entry alone has no index. */
  size_bytes = table_init (table, begins, 1);
  g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_INDEXED, table, size_bytes, 5, 800), ==,
                    100);
}

static void
takes_no_index_that_cannot_be (void)
{
  static const guint begins[] = { 0, 3, 700 };
  static uint8_t table[SONDE_WALK_LINES_BYTES];
  gsize size_bytes = table_init (table, begins, G_N_ELEMENTS (begins));
  SondeWalkLines head;

  for (gsize cut = 0; cut < size_bytes; cut++)
    {
      g_autofree uint8_t *bytes = g_memdup2 (table, cut);

      for (guint word = 0; word < N_WORDS; word += 50)
        g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_INDEXED, bytes, cut, 5, word * 8),
                          <=, 102);
    }
  memcpy (&head, table, sizeof head);
  head.index_bytes = UINT32_MAX;
  memcpy (table, &head, sizeof head);
  g_assert_cmpuint (sonde_line_table_find (SONDE_LINE_TABLE_INDEXED, table, size_bytes, 5, 8), ==,
                    5);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/line-table/ends-where-it-was-cut", ends_where_it_was_cut);
  g_test_add_func ("/line-table/stays-within-lines", stays_within_lines);
  g_test_add_func ("/line-table/takes-no-index-that-cannot-be", takes_no_index_that_cannot_be);
  g_test_add_func ("/line-table/finds-lines-of-ruby-by-their-index",
                   finds_lines_of_ruby_by_their_index);
  g_test_add_func ("/line-table/tells-the-line-of-each-instruction",
                   tells_the_line_of_each_instruction);
  g_test_add_func ("/line-table/knows-the-first-line-of-what-has-not-begun",
                   knows_the_first_line_of_what_has_not_begun);
  return g_test_run ();
}
