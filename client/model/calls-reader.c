/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/calls-reader.h"

#include <string.h>

#include "client/base/text.h"
#include "protocol/number-column.h"

struct SondeCallsReader
{
  SondeCallsPathFunc func;
  gpointer user_data;
  GHashTable *files;    /* path → GByteArray, of those that are not whole yet */
  GPtrArray *programs;  /* SondeCallsProgram */
  GHashTable *numbers;  /* "PID-START" → number in programs, + 1 */
  GHashTable *left_out; /* "PID-START" of programs that there was no room for; as many at most */
  guint n_left_out;
  guint n_paths_left;   /* that may still be kept */
  guint n_buckets_left; /* that may still be kept */
  char *fault;
};

static void
clear_path (gpointer data)
{
  SondeCallsPath *path = data;

  g_clear_pointer (&path->buckets, g_array_unref);
}

static SondeCallsProgram *
program_new (void)
{
  SondeCallsProgram *self = g_new0 (SondeCallsProgram, 1);

  self->paths = g_array_new (FALSE, FALSE, sizeof (SondeCallsPath));
  g_array_set_clear_func (self->paths, clear_path);
  self->uncounted = g_array_new (FALSE, FALSE, sizeof (SondeCallsUncounted));
  self->words = g_array_new (FALSE, FALSE, sizeof (SondeCallsWords));
  return self;
}

static void
program_free (gpointer data)
{
  SondeCallsProgram *self = data;

  g_array_unref (self->paths);
  g_array_unref (self->uncounted);
  g_array_unref (self->words);
  g_free (self->refused);
  g_free (self);
}

SondeCallsReader *
sonde_calls_reader_new (SondeCallsPathFunc func, gpointer user_data)
{
  SondeCallsReader *self = g_new0 (SondeCallsReader, 1);

  self->func = func;
  self->user_data = user_data;
  self->files = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free,
                                       (GDestroyNotify) g_byte_array_unref);
  self->programs = g_ptr_array_new_with_free_func (program_free);
  self->numbers = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->left_out = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->n_paths_left = self->n_buckets_left = SONDE_CALLS_READER_MAX_PATHS;
  return self;
}

SondeCallsReader *
sonde_calls_reader_new_small (guint max_paths)
{
  SondeCallsReader *self = sonde_calls_reader_new (NULL, NULL);

  self->n_paths_left = self->n_buckets_left = max_paths;
  return self;
}

void
sonde_calls_reader_free (SondeCallsReader *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->files);
  g_ptr_array_unref (self->programs);
  g_hash_table_unref (self->numbers);
  g_hash_table_unref (self->left_out);
  g_free (self->fault);
  g_free (self);
}

guint
sonde_calls_reader_n_programs (const SondeCallsReader *self)
{
  return self->programs->len;
}

const SondeCallsProgram *
sonde_calls_reader_program (const SondeCallsReader *self, guint program)
{
  return g_ptr_array_index (self->programs, program);
}

guint
sonde_calls_reader_n_left_out (const SondeCallsReader *self)
{
  return self->n_left_out;
}

const char *
sonde_calls_reader_fault (const SondeCallsReader *self)
{
  return self->fault;
}

const char *
sonde_calls_program_check (const SondeCallsProgram *self)
{
  const guint64 *account = self->account;
  guint64 counted = 0;

  if (self->is_partial || self->refused != NULL || !self->has_account)
    return NULL;
  for (guint i = 0; i < self->paths->len; i++)
    counted += g_array_index (self->paths, SondeCallsPath, i).calls;
  if (counted != account[SONDE_CALLS_ACCOUNT_COUNTED])
    return "its paths have more or fewer calls than were counted";
  counted += account[SONDE_CALLS_ACCOUNT_LOST_BUDGET] + account[SONDE_CALLS_ACCOUNT_LOST_DEPTH];
  if (account[SONDE_CALLS_ACCOUNT_CALLS] < counted)
    return "more calls were counted or lost than there were";
  /* Each thread may have been in a hook when it was killed. */
  if (account[SONDE_CALLS_ACCOUNT_CALLS] - counted > account[SONDE_CALLS_ACCOUNT_N_THREADS])
    return "there were more calls than were counted or lost";
  return NULL;
}

/* --- records --- */

/* NULL: there is none of that number. */
static SondeCallsPath *
get_path (const SondeCallsProgram *program, guint64 number)
{
  return number > 0 && number <= program->paths->len
             ? &g_array_index (program->paths, SondeCallsPath, number - 1)
             : NULL;
}

static gboolean
take_path (SondeCallsReader *self, guint index, SondeNumberColumn *body)
{
  SondeCallsProgram *program = g_ptr_array_index (self->programs, index);
  SondeCallsPath path = { 0 };
  const SondeCallsPath *known;
  guint64 number, parent;

  if (!sonde_number_get (body, &number) || !sonde_number_get (body, &parent)
      || !sonde_number_get (body, &path.address) || parent >= number
      || (parent == 0 && path.address > 1))
    return FALSE;
  path.parent = (guint32) parent;
  known = get_path (program, parent);
  path.depth = known != NULL ? known->depth + 1 : 0;
  known = get_path (program, number);
  if (known != NULL)
    return known->parent == parent && known->address == path.address;
  if (number != (guint64) program->paths->len + 1 || self->n_paths_left == 0
      || path.depth > SONDE_CALLS_READER_MAX_DEPTH)
    return FALSE;
  self->n_paths_left--;
  g_array_append_val (program->paths, path);
  if (self->func != NULL)
    self->func (index, get_path (program, number), self->user_data);
  return TRUE;
}

/* Both have their buckets in ascending order. */
static gboolean
add_buckets (SondeCallsReader *self, SondeCallsPath *path, SondeNumberColumn *body, guint64 n)
{
  GArray *sum = g_array_sized_new (FALSE, FALSE, sizeof (SondeCallsBucket), (guint) n);
  GArray *old = path->buckets;
  guint at = 0;
  guint64 bucket = 0;
  gboolean is_right = TRUE;

  for (guint64 i = 0; i < n && is_right; i++)
    {
      SondeCallsBucket next = { 0 };
      guint64 distance;

      is_right = sonde_number_get (body, &distance) && sonde_number_get (body, &next.n)
                 && next.n > 0 && (i == 0 || distance > 0)
                 && distance < SONDE_CALLS_N_BUCKETS - bucket;
      if (!is_right)
        break;
      bucket += distance;
      next.bucket = (guint32) bucket;
      for (; old != NULL && at < old->len
             && g_array_index (old, SondeCallsBucket, at).bucket <= bucket;
           at++)
        if (g_array_index (old, SondeCallsBucket, at).bucket == bucket)
          next.n += g_array_index (old, SondeCallsBucket, at).n;
        else
          g_array_append_val (sum, g_array_index (old, SondeCallsBucket, at));
      g_array_append_val (sum, next);
    }
  for (; old != NULL && at < old->len; at++)
    g_array_append_val (sum, g_array_index (old, SondeCallsBucket, at));
  if (is_right && sum->len > (old != NULL ? old->len : 0))
    {
      guint n_new = sum->len - (old != NULL ? old->len : 0);

      is_right = n_new <= self->n_buckets_left;
      self->n_buckets_left -= is_right ? n_new : 0;
    }
  if (!is_right)
    {
      g_array_unref (sum);
      return FALSE;
    }
  g_clear_pointer (&path->buckets, g_array_unref);
  path->buckets = sum;
  return TRUE;
}

static gboolean
take_times (SondeCallsReader *self, SondeCallsProgram *program, SondeNumberColumn *body)
{
  guint64 number, timed, total, self_ticks, nested, min, max, n;
  SondeCallsPath *path;

  if (!sonde_number_get (body, &number) || !sonde_number_get (body, &timed)
      || !sonde_number_get (body, &total) || !sonde_number_get (body, &self_ticks)
      || !sonde_number_get (body, &nested) || !sonde_number_get (body, &min)
      || !sonde_number_get (body, &max) || !sonde_number_get (body, &n)
      || n > SONDE_CALLS_N_BUCKETS)
    return FALSE;
  path = get_path (program, number);
  if (path == NULL)
    return FALSE;
  path->timed += timed;
  path->total_ticks += total;
  path->self_ticks += self_ticks;
  path->nested += nested;
  path->min_ticks = min;
  path->max_ticks = max;
  return add_buckets (self, path, body, n);
}

static gboolean
take_account (SondeCallsProgram *program, SondeNumberColumn *body)
{
  for (guint i = 0; i < SONDE_CALLS_N_ACCOUNTS; i++)
    if (!sonde_number_get (body, &program->account[i]))
      return FALSE;
  program->has_account = TRUE;
  return TRUE;
}

static gboolean
take_uncounted (SondeCallsProgram *program, SondeNumberColumn *body)
{
  SondeCallsUncounted uncounted;
  guint64 since_ns;

  if (!sonde_number_get (body, &uncounted.address) || !sonde_number_get (body, &since_ns)
      || since_ns > G_MAXINT64 || program->uncounted->len >= SONDE_CALLS_READER_MAX_PATHS)
    return FALSE;
  uncounted.since_ns = (gint64) since_ns;
  g_array_append_val (program->uncounted, uncounted);
  return TRUE;
}

static gboolean
take_words (SondeCallsProgram *program, SondeNumberColumn *body)
{
  SondeCallsWords words;
  guint64 tid, path;

  if (!sonde_number_get (body, &tid) || !sonde_number_get (body, &path) || tid > G_MAXINT32
      || get_path (program, path) == NULL || program->words->len >= SONDE_CALLS_READER_MAX_PATHS)
    return FALSE;
  words = (SondeCallsWords){ (gint32) tid, (guint32) path };
  g_array_append_val (program->words, words);
  return TRUE;
}

static gboolean
take_told (SondeCallsProgram *program, SondeNumberColumn *body)
{
  return sonde_number_get (body, &program->n_functions)
         && sonde_number_get (body, &program->n_patched)
         && sonde_number_get (body, &program->n_refused)
         && sonde_number_get (body, &program->reason);
}

/* Returns: NULL, or what is wrong. Of kinds that are not known nothing is. */
static const char *
take_record (SondeCallsReader *self, guint index, guint64 kind, SondeNumberColumn *body)
{
  SondeCallsProgram *program = g_ptr_array_index (self->programs, index);
  guint64 number, calls;

  switch (kind)
    {
    case SONDE_CALLS_PATH:
      return take_path (self, index, body) ? NULL : "a path is wrong";
    case SONDE_CALLS_CALLS:
      if (!sonde_number_get (body, &number) || !sonde_number_get (body, &calls)
          || get_path (program, number) == NULL)
        return "calls are of no path";
      get_path (program, number)->calls += calls;
      return NULL;
    case SONDE_CALLS_TIMES:
      return take_times (self, program, body) ? NULL : "times are wrong";
    case SONDE_CALLS_ACCOUNT:
      return take_account (program, body) ? NULL : "an account is too short";
    case SONDE_CALLS_UNCOUNTED:
      return take_uncounted (program, body) ? NULL : "a function that is left out is wrong";
    case SONDE_CALLS_WORDS:
      return take_words (program, body) ? NULL : "last words are of no path";
    case SONDE_CALLS_TOLD:
      return take_told (program, body) ? NULL : "what is told is too short";
    case SONDE_CALLS_REFUSED:
      g_free (program->refused);
      program->refused = g_strndup ((const char *) body->at, (gsize) (body->end - body->at));
      return NULL;
    default:
      return NULL;
    }
}

/* --- files --- */

/* What is in it stands in place of all before. */
static void
begin_anew (SondeCallsReader *self, SondeCallsProgram *program)
{
  for (guint i = 0; i < program->paths->len; i++)
    {
      SondeCallsPath *path = &g_array_index (program->paths, SondeCallsPath, i);

      if (path->buckets != NULL)
        self->n_buckets_left += path->buckets->len;
      clear_path (path);
      *path = (SondeCallsPath){ .parent = path->parent,
                                .depth = path->depth,
                                .address = path->address };
    }
  g_array_set_size (program->uncounted, 0);
  g_array_set_size (program->words, 0);
  program->is_partial = program->is_broken = FALSE;
}

/* Returns: NULL, or what is wrong. @is_read: (out): FALSE: it builds on what could not be read */
static const char *
take_header (SondeCallsReader *self,
             SondeCallsProgram *program,
             SondeNumberColumn *rest,
             gboolean *is_read)
{
  gboolean is_first = program->begin_ns < 0;
  guint64 version, per_s, mode, sample_every, begin_ns, end_ns;

  *is_read = TRUE;
  if (!sonde_number_get (rest, &version) || version != SONDE_CALLS_VERSION)
    return "it has another version";
  if (!sonde_number_get (rest, &per_s) || !sonde_number_get (rest, &mode)
      || !sonde_number_get (rest, &sample_every) || !sonde_number_get (rest, &begin_ns)
      || !sonde_number_get (rest, &end_ns) || begin_ns > end_ns || end_ns > G_MAXINT64 || mode < 1
      || mode > 3)
    return "its header is wrong";
  *is_read = !program->is_broken || (gint64) begin_ns < program->end_ns;
  if (!*is_read)
    return NULL;
  program->ticks_per_s = per_s;
  program->mode = mode;
  program->sample_every = MAX (sample_every, 1);
  if (is_first)
    program->begin_ns = (gint64) begin_ns;
  else if ((gint64) begin_ns < program->end_ns)
    begin_anew (self, program);
  else if ((gint64) begin_ns > program->end_ns)
    program->is_partial = TRUE;
  program->end_ns = (gint64) end_ns;
  return NULL;
}

/* Returns: NULL, or what is wrong */
static const char *
take_file (SondeCallsReader *self, guint index, const GByteArray *file)
{
  SondeCallsProgram *program = g_ptr_array_index (self->programs, index);
  SondeNumberColumn rest = { file->data, file->data + file->len };
  gboolean has_ended = FALSE;
  gboolean is_read;
  const char *fault;

  if (file->len < SONDE_CALLS_MAGIC_BYTES
      || memcmp (file->data, SONDE_CALLS_MAGIC, SONDE_CALLS_MAGIC_BYTES) != 0)
    return "it is no file of calls";
  rest.at += SONDE_CALLS_MAGIC_BYTES;
  fault = take_header (self, program, &rest, &is_read);
  if (!is_read)
    return NULL;
  while (fault == NULL && !sonde_number_column_is_over (&rest))
    {
      const guint8 *at = rest.at;
      SondeNumberColumn body;
      guint64 kind, n_bytes, length;

      if (!sonde_number_get (&rest, &kind) || !sonde_number_get (&rest, &n_bytes)
          || n_bytes > (guint64) (rest.end - rest.at))
        return "a record reaches past its end";
      if (has_ended)
        return "something is behind its end";
      body = (SondeNumberColumn){ rest.at, rest.at + n_bytes };
      rest.at += n_bytes;
      has_ended = kind == SONDE_CALLS_END;
      if (!has_ended)
        fault = take_record (self, index, kind, &body);
      else if (!sonde_number_get (&body, &length) || length != (guint64) (at - file->data))
        return "a part of it is missing";
    }
  return fault != NULL || has_ended ? fault : "its end is missing";
}

/* "PID-START" of "sonde/calls/PID-START/N"; NULL: it is none. @pid: (out) */
static char *
parse_path (const char *path, gint32 *pid)
{
  g_auto (GStrv) parts = NULL;
  g_auto (GStrv) numbers = NULL;
  guint64 value;

  if (!g_str_has_prefix (path, SONDE_CALLS_FOLDER))
    return NULL;
  parts = g_strsplit (path + strlen (SONDE_CALLS_FOLDER), "/", 3);
  if (g_strv_length (parts) != 2)
    return NULL;
  numbers = g_strsplit (parts[0], "-", 3);
  if (g_strv_length (numbers) != 2
      || !g_ascii_string_to_unsigned (numbers[0], 10, 0, G_MAXINT32, &value, NULL))
    return NULL;
  *pid = (gint32) value;
  return g_strdup (parts[0]);
}

/* 0: there is no room for one more. */
static guint
ensure_program (SondeCallsReader *self, const char *name, gint32 pid)
{
  guint number = GPOINTER_TO_UINT (g_hash_table_lookup (self->numbers, name));
  SondeCallsProgram *program;

  if (number != 0)
    return number;
  if (self->programs->len >= SONDE_CALLS_READER_MAX_PROGRAMS)
    {
      if (self->n_left_out < SONDE_CALLS_READER_MAX_PROGRAMS)
        self->n_left_out += g_hash_table_add (self->left_out, g_strdup (name));
      return 0;
    }
  program = program_new ();
  program->pid = pid;
  program->begin_ns = -1;
  g_ptr_array_add (self->programs, program);
  g_hash_table_insert (self->numbers, g_strdup (name), GUINT_TO_POINTER (self->programs->len));
  return self->programs->len;
}

const SondeCallsProgram *
sonde_calls_reader_program_of (const SondeCallsReader *self, const char *path)
{
  gint32 pid;
  g_autofree char *name = parse_path (path, &pid);
  guint number = name != NULL ? GPOINTER_TO_UINT (g_hash_table_lookup (self->numbers, name)) : 0;

  return number != 0 ? g_ptr_array_index (self->programs, number - 1) : NULL;
}

static void
tell_fault (SondeCallsReader *self, const char *path, const char *fault)
{
  g_autofree char *shown = sonde_text_escape (path, -1);

  if (self->fault == NULL)
    self->fault = g_strdup_printf ("%s: %s", shown, fault);
}

void
sonde_calls_reader_add (SondeCallsReader *self, const SondeFrame *frame)
{
  const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;
  g_autofree char *name = NULL;
  const char *fault = NULL;
  GByteArray *file;
  gint32 pid;
  guint number;

  if (frame->type != SONDE_FRAME_FILE_CHUNK)
    return;
  name = parse_path (chunk->path, &pid);
  if (name == NULL)
    return;
  number = ensure_program (self, name, pid);
  file = g_hash_table_lookup (self->files, chunk->path);
  if (number == 0)
    fault = "there are too many programs";
  else if (file == NULL && g_hash_table_size (self->files) >= SONDE_CALLS_READER_MAX_OPEN)
    fault = "too many files are not whole";
  else if (chunk->data_len + (gsize) (file != NULL ? file->len : 0) > SONDE_CALLS_MAX_BYTES)
    fault = "it is too large";
  if (fault == NULL && file == NULL)
    {
      file = g_byte_array_new ();
      g_hash_table_insert (self->files, g_strdup (chunk->path), file);
    }
  if (fault == NULL)
    {
      g_byte_array_append (file, chunk->data, chunk->data_len);
      if (!chunk->is_last)
        return;
      fault = take_file (self, number - 1, file);
    }
  g_hash_table_remove (self->files, chunk->path);
  if (fault == NULL)
    return;
  tell_fault (self, chunk->path, fault);
  if (number != 0)
    {
      SondeCallsProgram *program = g_ptr_array_index (self->programs, number - 1);

      program->is_partial = program->is_broken = TRUE;
    }
}

/* --- what came between two moments --- */

/* Sums of a hostile capture may wrap. */
static guint64
since (guint64 now, guint64 before)
{
  return now - MIN (before, now);
}

/* What @buckets have more than @before; NULL: nothing. Both are in ascending order. */
static GArray *
new_buckets_since (const GArray *buckets, const GArray *before)
{
  g_autoptr (GArray) left = g_array_new (FALSE, FALSE, sizeof (SondeCallsBucket));
  guint at = 0;

  for (guint i = 0; buckets != NULL && i < buckets->len; i++)
    {
      SondeCallsBucket bucket = g_array_index (buckets, SondeCallsBucket, i);

      while (before != NULL && at < before->len
             && g_array_index (before, SondeCallsBucket, at).bucket < bucket.bucket)
        at++;
      if (before != NULL && at < before->len
          && g_array_index (before, SondeCallsBucket, at).bucket == bucket.bucket)
        bucket.n = since (bucket.n, g_array_index (before, SondeCallsBucket, at).n);
      if (bucket.n > 0)
        g_array_append_val (left, bucket);
    }
  return left->len > 0 ? g_steal_pointer (&left) : NULL;
}

/* @before: (nullable) */
static SondeCallsProgram *
program_new_since (const SondeCallsProgram *self, const SondeCallsProgram *before)
{
  static const SondeCallsAccount sums[] = { SONDE_CALLS_ACCOUNT_CALLS,
                                            SONDE_CALLS_ACCOUNT_COUNTED,
                                            SONDE_CALLS_ACCOUNT_LOST_BUDGET,
                                            SONDE_CALLS_ACCOUNT_LOST_DEPTH,
                                            SONDE_CALLS_ACCOUNT_LOST_INTERRUPTED,
                                            SONDE_CALLS_ACCOUNT_LOST_THREADS,
                                            SONDE_CALLS_ACCOUNT_LOST_TIMINGS };
  SondeCallsProgram *out = program_new ();
  SondeCallsProgram parts = *out;

  *out = *self;
  out->paths = parts.paths;
  out->uncounted = parts.uncounted;
  out->words = parts.words;
  out->refused = g_strdup (self->refused);
  for (guint i = 0; i < self->paths->len; i++)
    {
      SondeCallsPath path = g_array_index (self->paths, SondeCallsPath, i);
      const SondeCallsPath *old = before != NULL && i < before->paths->len
                                      ? &g_array_index (before->paths, SondeCallsPath, i)
                                      : &(const SondeCallsPath){ 0 };

      path.calls = since (path.calls, old->calls);
      path.timed = since (path.timed, old->timed);
      path.total_ticks = since (path.total_ticks, old->total_ticks);
      path.self_ticks = since (path.self_ticks, old->self_ticks);
      path.nested = since (path.nested, old->nested);
      path.buckets = new_buckets_since (path.buckets, old->buckets);
      g_array_append_val (out->paths, path);
    }
  for (guint i = 0; i < G_N_ELEMENTS (sums) && before != NULL; i++)
    out->account[sums[i]] = since (self->account[sums[i]], before->account[sums[i]]);
  return out;
}

SondeCallsReader *
sonde_calls_reader_new_since (const SondeCallsReader *self, const SondeCallsReader *before)
{
  SondeCallsReader *out = sonde_calls_reader_new_small (self->n_paths_left);
  GHashTableIter iter;
  gpointer name, number;

  out->n_left_out = self->n_left_out;
  g_ptr_array_set_size (out->programs, (int) self->programs->len);
  g_hash_table_iter_init (&iter, self->numbers);
  while (g_hash_table_iter_next (&iter, &name, &number))
    {
      guint index = GPOINTER_TO_UINT (number) - 1;
      guint old
          = before != NULL ? GPOINTER_TO_UINT (g_hash_table_lookup (before->numbers, name)) : 0;

      out->programs->pdata[index]
          = program_new_since (g_ptr_array_index (self->programs, index),
                               old != 0 ? g_ptr_array_index (before->programs, old - 1) : NULL);
      g_hash_table_insert (out->numbers, g_strdup (name), number);
    }
  return out;
}
