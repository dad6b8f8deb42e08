/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adds up the files of calls in a capture for tests. */
#pragma once

#include <glib.h>
#include <string.h>

#include "protocol/calls.h"
#include "protocol/frame.h"
#include "protocol/number-column.h"

typedef struct
{
  guint64 parent;
  guint64 address;
  guint64 calls;
  guint64 timed;
  guint64 buckets; /* calls in all of them */
} CallsPath;

/* A process, or rather its region. */
typedef struct
{
  GArray *paths; /* CallsPath, number 1 first */
  guint n_files;
  guint n_wholes; /* sums so far, but for the first file */
  guint64 ticks_per_s;
  guint64 mode;
  guint64 begin_ns;
  guint64 end_ns;
  guint64 account[SONDE_CALLS_N_ACCOUNTS];
  guint64 told[4];
  char *refused;
  GArray *uncounted; /* guint64 addresses */
  GArray *words;     /* guint64 paths */
} CallsProgram;

static inline void
calls_program_free (gpointer data)
{
  CallsProgram *self = data;

  g_array_unref (self->paths);
  g_array_unref (self->uncounted);
  g_array_unref (self->words);
  g_free (self->refused);
  g_free (self);
}

static inline guint64
calls_number (SondeNumberColumn *from)
{
  guint64 number = 0;

  g_assert_true (sonde_number_get (from, &number));
  return number;
}

static inline CallsPath *
calls_path (CallsProgram *self, guint64 number)
{
  g_assert_cmpuint (number, >, 0);
  g_assert_cmpuint (number, <=, self->paths->len);
  return &g_array_index (self->paths, CallsPath, number - 1);
}

static inline void
calls_take_path (CallsProgram *self, SondeNumberColumn *body)
{
  guint64 number = calls_number (body);
  CallsPath path = { .parent = calls_number (body), .address = calls_number (body) };

  g_assert_cmpuint (path.parent, <, number);
  if (number <= self->paths->len)
    {
      g_assert_cmpuint (calls_path (self, number)->address, ==, path.address);
      return;
    }
  g_assert_cmpuint (number, ==, self->paths->len + 1);
  g_array_append_val (self->paths, path);
}

static inline void
calls_take_times (CallsProgram *self, SondeNumberColumn *body)
{
  CallsPath *path = calls_path (self, calls_number (body));
  guint64 n_buckets;

  path->timed += calls_number (body);
  for (guint i = 0; i < 5; i++)
    calls_number (body); /* total, self, nested, min, max */
  n_buckets = calls_number (body);
  for (guint64 i = 0; i < n_buckets; i++)
    {
      calls_number (body);
      path->buckets += calls_number (body);
    }
}

static inline void
calls_take_record (CallsProgram *self, guint64 kind, SondeNumberColumn *body)
{
  guint64 number;

  switch (kind)
    {
    case SONDE_CALLS_PATH:
      calls_take_path (self, body);
      return;
    case SONDE_CALLS_CALLS:
      number = calls_number (body);
      calls_path (self, number)->calls += calls_number (body);
      return;
    case SONDE_CALLS_TIMES:
      calls_take_times (self, body);
      return;
    case SONDE_CALLS_ACCOUNT:
      for (guint i = 0; i < SONDE_CALLS_N_ACCOUNTS; i++)
        self->account[i] = calls_number (body);
      return;
    case SONDE_CALLS_UNCOUNTED:
      number = calls_number (body);
      g_array_append_val (self->uncounted, number);
      return;
    case SONDE_CALLS_WORDS:
      calls_number (body);
      number = calls_number (body);
      calls_path (self, number);
      g_array_append_val (self->words, number);
      return;
    case SONDE_CALLS_TOLD:
      for (guint i = 0; i < G_N_ELEMENTS (self->told); i++)
        self->told[i] = calls_number (body);
      return;
    case SONDE_CALLS_REFUSED:
      g_free (self->refused);
      self->refused = g_strndup ((const char *) body->at, (gsize) (body->end - body->at));
      return;
    default:
      return;
    }
}

static inline void
calls_take_file (CallsProgram *self, const GByteArray *file)
{
  SondeNumberColumn rest = { file->data + SONDE_CALLS_MAGIC_BYTES, file->data + file->len };
  guint64 begin_ns, end_ns;
  gboolean has_ended = FALSE;

  g_assert_cmpuint (file->len, <=, SONDE_CALLS_MAX_BYTES);
  g_assert_cmpmem (file->data, SONDE_CALLS_MAGIC_BYTES, SONDE_CALLS_MAGIC, SONDE_CALLS_MAGIC_BYTES);
  g_assert_cmpuint (calls_number (&rest), ==, SONDE_CALLS_VERSION);
  self->ticks_per_s = calls_number (&rest);
  self->mode = calls_number (&rest);
  calls_number (&rest);
  begin_ns = calls_number (&rest);
  end_ns = calls_number (&rest);
  g_assert_cmpuint (begin_ns, <=, end_ns);
  if (self->n_files == 0)
    self->begin_ns = begin_ns;
  else if (begin_ns < self->end_ns)
    {
      g_assert_cmpuint (begin_ns, ==, self->begin_ns);
      self->n_wholes++;
      g_array_set_size (self->paths, 0);
      g_array_set_size (self->uncounted, 0);
    }
  else
    g_assert_cmpuint (begin_ns, ==, self->end_ns);
  self->end_ns = end_ns;
  self->n_files++;
  while (!sonde_number_column_is_over (&rest))
    {
      const guint8 *at = rest.at;
      guint64 kind = calls_number (&rest);
      guint64 n_bytes = calls_number (&rest);
      SondeNumberColumn body = { rest.at, rest.at + n_bytes };

      g_assert_false (has_ended);
      g_assert_cmpuint (n_bytes, <=, rest.end - rest.at);
      has_ended = kind == SONDE_CALLS_END;
      if (has_ended)
        g_assert_cmpuint (calls_number (&body), ==, at - file->data);
      else
        calls_take_record (self, kind, &body);
      rest.at += n_bytes;
    }
  g_assert_true (has_ended);
}

/* @chunks: FILE_CHUNK frames. Returns: "PID-START" → CallsProgram */
static inline GHashTable *
calls_summary_new (const GPtrArray *chunks)
{
  GHashTable *programs
      = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, calls_program_free);
  g_autoptr (GHashTable) files = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                                        (GDestroyNotify) g_byte_array_unref);

  for (guint i = 0; i < chunks->len; i++)
    {
      const SondeFrameFileChunk *chunk = g_ptr_array_index (chunks, i);
      const char *slash = strrchr (chunk->path, '/');
      g_autofree char *name = NULL;
      CallsProgram *program;
      GByteArray *file;

      if (!g_str_has_prefix (chunk->path, SONDE_CALLS_FOLDER))
        continue;
      file = g_hash_table_lookup (files, chunk->path);
      if (file == NULL)
        {
          file = g_byte_array_new ();
          g_hash_table_insert (files, g_strdup (chunk->path), file);
        }
      g_byte_array_append (file, chunk->data, chunk->data_len);
      if (!chunk->is_last)
        continue;
      name = g_strndup (chunk->path + strlen (SONDE_CALLS_FOLDER),
                        (gsize) (slash - chunk->path) - strlen (SONDE_CALLS_FOLDER));
      program = g_hash_table_lookup (programs, name);
      if (program == NULL)
        {
          program = g_new0 (CallsProgram, 1);
          program->paths = g_array_new (FALSE, FALSE, sizeof (CallsPath));
          program->uncounted = g_array_new (FALSE, FALSE, sizeof (guint64));
          program->words = g_array_new (FALSE, FALSE, sizeof (guint64));
          g_hash_table_insert (programs, g_strdup (name), program);
        }
      calls_take_file (program, file);
    }
  return programs;
}

/* Calls of the path that these functions are, from the root's child on; 0: there is none. */
static inline guint64
calls_of (CallsProgram *self, const guint64 *functions, guint n_functions)
{
  guint64 at = 0;

  for (guint64 i = 1; i <= self->paths->len && at == 0; i++)
    if (calls_path (self, i)->parent == 0 && calls_path (self, i)->address == 0)
      at = i;
  for (guint i = 0; i < n_functions; i++)
    {
      guint64 child = 0;

      for (guint64 j = at + 1; at != 0 && j <= self->paths->len; j++)
        if (calls_path (self, j)->parent == at && calls_path (self, j)->address == functions[i])
          {
            g_assert_cmpuint (child, ==, 0); /* a path is there once */
            child = j;
          }
      at = child;
    }
  return at != 0 ? calls_path (self, at)->calls : 0;
}

/* Of all paths. */
static inline guint64
calls_sum (CallsProgram *self)
{
  guint64 sum = 0;

  for (guint64 i = 1; i <= self->paths->len; i++)
    sum += calls_path (self, i)->calls;
  return sum;
}
