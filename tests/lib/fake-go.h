/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Go's table of functions, in the layouts of its versions, with functions of one's own making. */
#pragma once

#include <glib.h>
#include <string.h>

/* By the version that was the first to have it. */
typedef enum
{
  FAKE_GO_1_16,
  FAKE_GO_1_18,
  FAKE_GO_1_20,
} FakeGoLayout;

typedef struct
{
  const char *name;
  guint64 begin;      /* from the text's address; the next one's is the end */
  const char *sizes;  /* pairs of bytes: twice the change of the size, how many bytes it holds for;
                         the first change counts from -1. NULL: none */
  guint64 said_begin; /* what its own record says; 0: begin */
} FakeGoFunction;

/* Places of names and sizes begin behind a byte that nobody uses: 0 means that there is none. */
static inline void
fake_go_append (GByteArray *bytes, guint64 value, guint n_bytes)
{
  g_byte_array_append (bytes, (const guint8 *) &value, n_bytes);
}

static inline guint64
fake_go_entry (FakeGoLayout layout, guint64 text, guint64 begin)
{
  return layout == FAKE_GO_1_16 ? text + begin : begin;
}

/* @functions: the last one has no name, and is where the one before it ends. */
static inline GByteArray *
fake_go_build (FakeGoLayout layout, const FakeGoFunction *functions, guint64 text)
{
  static const guint32 magics[] = { 0xfffffffa, 0xfffffff0, 0xfffffff1 };
  const guint word = layout == FAKE_GO_1_16 ? 8 : 4;
  g_autoptr (GByteArray) names = g_byte_array_new ();
  g_autoptr (GByteArray) sizes = g_byte_array_new ();
  g_autoptr (GByteArray) rows = g_byte_array_new ();
  g_autoptr (GByteArray) records = g_byte_array_new ();
  GByteArray *table = g_byte_array_new ();
  guint64 header, n = 0;

  while (functions[n].name != NULL)
    n++;
  fake_go_append (names, 0, 1);
  fake_go_append (sizes, 0, 1);
  for (guint64 i = 0; i < n; i++)
    {
      const FakeGoFunction *function = &functions[i];
      guint64 begin = function->said_begin != 0 ? function->said_begin : function->begin;

      fake_go_append (rows, fake_go_entry (layout, text, function->begin), word);
      fake_go_append (rows, (2 * n + 1) * word + records->len, word);
      fake_go_append (records, fake_go_entry (layout, text, begin), word);
      fake_go_append (records, names->len, 4);
      fake_go_append (records, 0, 8);
      fake_go_append (records, function->sizes != NULL ? sizes->len : 0, 4);
      fake_go_append (records, 0, 8);
      fake_go_append (records, 0, 8);
      g_byte_array_append (names, (const guint8 *) function->name,
                           (guint) strlen (function->name) + 1);
      if (function->sizes != NULL)
        g_byte_array_append (sizes, (const guint8 *) function->sizes,
                             (guint) strlen (function->sizes) + 1);
    }
  fake_go_append (rows, fake_go_entry (layout, text, functions[n].begin), word);

  header = layout == FAKE_GO_1_16 ? 8 + 7 * 8 : 8 + 8 * 8;
  fake_go_append (table, magics[layout], 4);
  fake_go_append (table, 0, 2);
  fake_go_append (table, 1, 1);
  fake_go_append (table, 8, 1);
  fake_go_append (table, n, 8);
  fake_go_append (table, 0, 8); /* files */
  if (layout != FAKE_GO_1_16)
    fake_go_append (table, text, 8);
  fake_go_append (table, header, 8);
  fake_go_append (table, header, 8); /* units */
  fake_go_append (table, header, 8); /* names of files */
  fake_go_append (table, header + names->len, 8);
  fake_go_append (table, header + names->len + sizes->len, 8);
  g_byte_array_append (table, names->data, names->len);
  g_byte_array_append (table, sizes->data, sizes->len);
  g_byte_array_append (table, rows->data, rows->len);
  g_byte_array_append (table, records->data, records->len);
  return table;
}
