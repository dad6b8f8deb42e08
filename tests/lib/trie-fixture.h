/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes a region of call tries with both its ends, and prints tries as text for tests. */
#pragma once

#include <glib.h>
#include <string.h>
#include <unistd.h>

#include "shared-ring/trie-reader.h"
#include "shared-ring/trie-writer.h"

typedef struct
{
  SondeTrieMemory memory; /* the maker's */
  SondeTrieReader *reader;
  SondeTrie *trie;
  int fd;
} TrieFixture;

/* The stack that writers of tests run on, unless they say otherwise. */
#define TRIE_STACK ((SondeTrieRange){ 0x10000, 0xf0000 })

/* @is_one: reader and writers share one mapping: ThreadSanitizer does not know a race by two. */
static inline TrieFixture *
trie_fixture_new (gsize size_bytes,
                  const SondeTrieWish *wish,
                  const SondeTrieUser *user,
                  gboolean is_one)
{
  TrieFixture *self = g_new0 (TrieFixture, 1);
  SondeTrieMemory mapped, seen;

  g_assert_cmpint (sonde_trie_memory_create (size_bytes, wish, &self->memory, &self->fd), ==, 0);
  g_assert_cmpint (sonde_trie_memory_map (self->fd, &mapped), ==, 0);
  seen = is_one ? mapped : self->memory;
  g_assert_cmpint (sonde_trie_new (&mapped, user, &self->trie), ==, 0);
  g_assert_cmpint (sonde_trie_reader_new (&seen, &self->reader), ==, 0);
  return self;
}

static inline void
trie_fixture_free (TrieFixture *self)
{
  sonde_trie_reader_free (self->reader);
  sonde_trie_free (self->trie);
  sonde_trie_memory_unmap (&self->memory);
  close (self->fd);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TrieFixture, trie_fixture_free)

static inline SondeTrieWriter *
trie_fixture_take (TrieFixture *self, gint32 tid)
{
  return sonde_trie_take_writer (self->trie, tid, &TRIE_STACK);
}

static inline void
trie_ignore (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
}

static inline SondeTrieCounts
trie_fixture_count (TrieFixture *self)
{
  SondeTrieCounts counts;

  g_assert_cmpint (sonde_trie_reader_turn (self->reader, G_MAXUINT32, trie_ignore, NULL), ==, 0);
  g_assert_cmpint (sonde_trie_reader_count (self->reader, &counts), ==, 0);
  return counts;
}

/* --- as text --- */

/* How a function is called in texts. */
typedef const char *(*TrieName) (guint64 function);

typedef struct
{
  GHashTable *paths; /* node → its path */
  GHashTable *sums;  /* path → its calls */
  TrieName name;
} TrieText;

static inline const char *
trie_letter (guint64 function)
{
  static char text[2];

  text[0] = (char) function;
  return function == SONDE_TRIE_ROOT ? "" : function == SONDE_TRIE_SIGNAL_ROOT ? "[signal]" : text;
}

static inline void
trie_add_line (const SondeTrieChange *change, const SondeTrieTimes *times, void *user_data)
{
  TrieText *text = user_data;
  const char *parent = g_hash_table_lookup (text->paths, GUINT_TO_POINTER (change->parent));
  const char *name = text->name (change->function);
  char *path
      = parent != NULL && *parent != '\0' ? g_strconcat (parent, " ", name, NULL) : g_strdup (name);

  g_hash_table_insert (text->paths, GUINT_TO_POINTER (change->node), path);
  if (change->calls > 0)
    {
      guint64 *sum = g_hash_table_lookup (text->sums, path);

      if (sum == NULL)
        {
          sum = g_new0 (guint64, 1);
          g_hash_table_insert (text->sums, g_strdup (path), sum);
        }
      *sum += change->calls;
    }
}

static inline gint
trie_compare_lines (gconstpointer a, gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

/* A line for each path that was called: its functions, and how often, in all slots. Sorted. */
static inline char *
trie_reader_print (SondeTrieReader *reader, TrieName name)
{
  TrieText text = { g_hash_table_new_full (NULL, NULL, NULL, g_free),
                    g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free), name };
  g_autoptr (GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer path, sum;

  sonde_trie_reader_tell_all (reader, trie_add_line, &text);
  g_hash_table_iter_init (&iter, text.sums);
  while (g_hash_table_iter_next (&iter, &path, &sum))
    g_ptr_array_add (lines,
                     g_strdup_printf ("%s %" G_GUINT64_FORMAT, (char *) path, *(guint64 *) sum));
  g_ptr_array_sort (lines, trie_compare_lines);
  g_ptr_array_add (lines, NULL);
  g_hash_table_unref (text.paths);
  g_hash_table_unref (text.sums);
  return g_strjoinv ("\n", (char **) lines->pdata);
}

static inline void
trie_fixture_assert_text (TrieFixture *self, const char *expected)
{
  g_autofree char *text = NULL;
  SondeTrieCounts counts = trie_fixture_count (self);

  text = trie_reader_print (self->reader, trie_letter);
  g_assert_cmpstr (text, ==, expected);
  g_assert_cmpuint (counts.calls, ==, counts.counted + counts.lost_budget + counts.lost_depth);
}
