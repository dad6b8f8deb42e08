/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/waits-reader.h"

#include <string.h>

#include "client/base/text.h"
#include "protocol/number-column.h"

#define MAX_TIME_NS (UINT64_C (1) << 60) /* so that no sum of a table wraps */

struct SondeWaitsReader
{
  guint max_rows;
  GArray *rows;        /* SondeWaitsRow */
  GHashTable *numbers; /* "PID TID BEGIN" → number in rows, + 1 */
  guint64 n_others;
  guint64 others[SONDE_N_TIMES];
  guint64 n_beyond;
  guint64 n_left_out;
  guint64 switch_ns;
  guint n_files;
  char *path;       /* of the file that is not whole yet; NULL: none */
  GByteArray *file; /* what came of it */
  char *fault;
};

SondeWaitsReader *
sonde_waits_reader_new_small (guint max_rows)
{
  SondeWaitsReader *self = g_new0 (SondeWaitsReader, 1);

  self->max_rows = max_rows;
  self->rows = g_array_new (FALSE, FALSE, sizeof (SondeWaitsRow));
  self->numbers = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->file = g_byte_array_new ();
  return self;
}

SondeWaitsReader *
sonde_waits_reader_new (void)
{
  return sonde_waits_reader_new_small (SONDE_WAITS_READER_MAX_ROWS);
}

void
sonde_waits_reader_free (SondeWaitsReader *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->rows);
  g_hash_table_unref (self->numbers);
  g_byte_array_unref (self->file);
  g_free (self->path);
  g_free (self->fault);
  g_free (self);
}

/* --- records --- */

static gboolean
take_times (SondeNumberColumn *body, guint64 times[SONDE_N_TIMES])
{
  guint64 sum = 0;

  for (guint i = 0; i < SONDE_N_TIMES; i++)
    if (!sonde_number_get (body, &times[i]) || times[i] > MAX_TIME_NS)
      return FALSE;
  for (guint i = SONDE_TIME_ON; i <= SONDE_TIME_UNKNOWN; i++)
    sum += times[i];
  return sum == times[SONDE_TIME_LIFE] && times[SONDE_TIME_UNSPLIT] <= times[SONDE_TIME_BLOCKED];
}

/* Returns: NULL, or what is wrong */
static const char *
take_thread (SondeWaitsReader *self, SondeNumberColumn *body)
{
  SondeWaitsRow row = { 0 };
  guint64 pid, tid, begin_ns, has_ended;
  g_autofree char *key = NULL;
  SondeWaitsRow *known;
  guint number;

  if (!sonde_number_get (body, &pid) || !sonde_number_get (body, &tid)
      || !sonde_number_get (body, &begin_ns) || !sonde_number_get (body, &has_ended) || pid == 0
      || pid > G_MAXINT32 || tid == 0 || tid > G_MAXINT32 || begin_ns > G_MAXINT64 || has_ended > 1)
    return "a thread is wrong";
  if (!take_times (body, row.times))
    return "a row does not add up";
  for (guint i = 0; i < SONDE_N_WAITS_COUNTS; i++)
    if (!sonde_number_get (body, &row.counts[i]))
      return "a row ends too early";
  row.pid = (gint32) pid;
  row.tid = (gint32) tid;
  row.begin_ns = (gint64) begin_ns;
  row.has_ended = has_ended == 1;
  key = g_strdup_printf ("%d %d %" G_GINT64_FORMAT, row.pid, row.tid, row.begin_ns);
  number = GPOINTER_TO_UINT (g_hash_table_lookup (self->numbers, key));
  if (number == 0 && self->rows->len >= self->max_rows)
    {
      self->n_left_out++;
      return NULL;
    }
  if (number == 0)
    {
      g_array_append_val (self->rows, row);
      g_hash_table_insert (self->numbers, g_steal_pointer (&key),
                           GUINT_TO_POINTER (self->rows->len));
      return NULL;
    }
  known = &g_array_index (self->rows, SondeWaitsRow, number - 1);
  if (row.times[SONDE_TIME_LIFE] < known->times[SONDE_TIME_LIFE])
    return "a thread is younger than before";
  *known = row;
  return NULL;
}

static const char *
take_others (SondeWaitsReader *self, SondeNumberColumn *body)
{
  guint64 n_others, n_beyond;
  guint64 times[SONDE_N_TIMES];

  if (!sonde_number_get (body, &n_others) || !sonde_number_get (body, &n_beyond))
    return "the others are wrong";
  if (!take_times (body, times))
    return "the others do not add up";
  self->n_others = n_others;
  self->n_beyond = n_beyond;
  memcpy (self->others, times, sizeof times);
  return NULL;
}

static const char *
take_records (SondeWaitsReader *self, SondeNumberColumn *rest)
{
  const guint8 *begin = self->file->data;

  while (!sonde_number_column_is_over (rest))
    {
      const guint8 *at = rest->at;
      const char *fault = NULL;
      SondeNumberColumn body;
      guint64 kind, size_bytes, length;

      if (!sonde_number_get (rest, &kind) || !sonde_number_get (rest, &size_bytes)
          || size_bytes > (guint64) (rest->end - rest->at))
        return "a record does not fit";
      body = (SondeNumberColumn){ rest->at, rest->at + size_bytes };
      rest->at = body.end;
      if (kind == SONDE_WAITS_THREAD)
        fault = take_thread (self, &body);
      else if (kind == SONDE_WAITS_OTHERS)
        fault = take_others (self, &body);
      else if (kind == SONDE_WAITS_END)
        return sonde_number_get (&body, &length) && length == (guint64) (at - begin)
                   ? NULL
                   : "a part of it is missing";
      if (fault != NULL)
        return fault;
    }
  return "its end is missing";
}

static const char *
take_file (SondeWaitsReader *self)
{
  SondeNumberColumn rest = { self->file->data, self->file->data + self->file->len };
  guint64 version, begin_ns, end_ns;

  if (self->file->len < SONDE_WAITS_MAGIC_BYTES
      || memcmp (self->file->data, SONDE_WAITS_MAGIC, SONDE_WAITS_MAGIC_BYTES) != 0)
    return "it does not begin as such a file";
  rest.at += SONDE_WAITS_MAGIC_BYTES;
  if (!sonde_number_get (&rest, &version) || version != SONDE_WAITS_VERSION)
    return "its version is not known";
  if (!sonde_number_get (&rest, &self->switch_ns) || !sonde_number_get (&rest, &begin_ns)
      || !sonde_number_get (&rest, &end_ns) || begin_ns > end_ns)
    return "its head is wrong";
  self->n_files++;
  return take_records (self, &rest);
}

/* --- frames --- */

/* Files come one behind the other: a second one begins if the first was cut. */
void
sonde_waits_reader_add (SondeWaitsReader *self, const SondeFrame *frame)
{
  const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;
  const char *fault = NULL;

  if (frame->type != SONDE_FRAME_FILE_CHUNK || !g_str_has_prefix (chunk->path, SONDE_WAITS_FOLDER))
    return;
  if (g_strcmp0 (self->path, chunk->path) != 0)
    {
      g_byte_array_set_size (self->file, 0);
      g_free (self->path);
      self->path = g_strdup (chunk->path);
    }
  if (self->file->len + (gsize) chunk->data_len > SONDE_WAITS_MAX_BYTES)
    fault = "it is too large";
  else
    g_byte_array_append (self->file, chunk->data, chunk->data_len);
  if (fault == NULL && !chunk->is_last)
    return;
  if (fault == NULL)
    fault = take_file (self);
  if (fault != NULL && self->fault == NULL)
    {
      g_autofree char *shown = sonde_text_escape (chunk->path, -1);

      self->fault = g_strdup_printf ("%s: %s", shown, fault);
    }
  g_byte_array_set_size (self->file, 0);
  g_clear_pointer (&self->path, g_free);
}

/* --- what came out --- */

guint
sonde_waits_reader_n_files (const SondeWaitsReader *self)
{
  return self->n_files;
}

guint
sonde_waits_reader_n_rows (const SondeWaitsReader *self)
{
  return self->rows->len;
}

const SondeWaitsRow *
sonde_waits_reader_row (const SondeWaitsReader *self, guint row)
{
  return &g_array_index (self->rows, SondeWaitsRow, row);
}

guint64
sonde_waits_reader_n_others (const SondeWaitsReader *self)
{
  return self->n_others;
}

const guint64 *
sonde_waits_reader_others (const SondeWaitsReader *self)
{
  return self->others;
}

guint64
sonde_waits_reader_n_beyond (const SondeWaitsReader *self)
{
  return self->n_beyond;
}

guint64
sonde_waits_reader_n_left_out (const SondeWaitsReader *self)
{
  return self->n_left_out;
}

guint64
sonde_waits_reader_switch_ns (const SondeWaitsReader *self)
{
  return self->switch_ns;
}

const char *
sonde_waits_reader_fault (const SondeWaitsReader *self)
{
  return self->fault;
}
