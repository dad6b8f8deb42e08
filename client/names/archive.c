/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/archive.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/base/output.h"
#include "client/base/text.h"
#include "client/model/capture-file.h"
#include "client/model/capture-model.h"
#include "client/model/embedded-files.h"
#include "client/model/ledger.h"
#include "client/names/symbol-resolver.h"
#include "protocol/writer.h"
#include "symbols/demangle.h"

/* --- a table of symbols as captures carry it --- */

typedef struct
{
  SondeSymbolRecord record; /* its offsets are into the strings */
  guint order;
} Added;

typedef struct
{
  GArray *added; /* Added; after symbols_builder_build() those that the file has */
  GByteArray *strings;
  GHashTable *offsets; /* text → its offset in the strings */
} SymbolsBuilder;

static guint32
ensure_string (SymbolsBuilder *self, const char *text)
{
  gpointer found;

  if (!g_hash_table_lookup_extended (self->offsets, text, NULL, &found))
    {
      found = GUINT_TO_POINTER (self->strings->len);
      g_hash_table_insert (self->offsets, g_strdup (text), found);
      g_byte_array_append (self->strings, (const guint8 *) text, (guint) strlen (text) + 1);
    }
  return GPOINTER_TO_UINT (found);
}

/* @begin, @end: bytes, both inclusive
 * @tag: (nullable): base name of the module. Does nothing once the file would be too large. */
static void
symbols_builder_add (
    SymbolsBuilder *self, gint32 pid, guint64 begin, guint64 end, const char *name, const char *tag)
{
  Added added = { .order = self->added->len };
  guint64 size = (guint64) (added.order + 2) * sizeof (SondeSymbolRecord) + self->strings->len
                 + strlen (name) + 1 + (tag != NULL ? strlen (tag) + 1 : 0);

  if (size > SONDE_EMBEDDED_SYMBOLS_MAX_BYTES)
    return;
  added.record = (SondeSymbolRecord){
    .begin = begin,
    .end = end,
    .pid = (guint32) pid,
    .name_offset = ensure_string (self, name),
    .tag_offset = tag != NULL ? ensure_string (self, tag) : 0,
  };
  g_array_append_val (self->added, added);
}

static int
compare_added (gconstpointer a, gconstpointer b)
{
  const Added *left = a;
  const Added *right = b;

  if (left->record.pid != right->record.pid)
    return left->record.pid < right->record.pid ? -1 : 1;
  if (left->record.begin != right->record.begin)
    return left->record.begin < right->record.begin ? -1 : 1;
  return left->order < right->order ? -1 : left->order > right->order;
}

/* (transfer full): the file. Of records that overlap the one that begins later cuts the other, of
 * those that begin together the one added first holds. */
static GByteArray *
symbols_builder_build (SymbolsBuilder *self)
{
  static const SondeSymbolRecord end = { 0 };
  GByteArray *file = g_byte_array_new ();
  guint32 strings_at;
  Added *all = (Added *) (void *) self->added->data;
  guint n = 0;

  /* Sorts, and leaves records that do not overlap at the front. */
  g_array_sort (self->added, compare_added);
  for (guint i = 0; i < self->added->len; i++)
    {
      SondeSymbolRecord *last = n > 0 ? &all[n - 1].record : NULL;

      if (last != NULL && last->pid == all[i].record.pid)
        {
          if (last->begin == all[i].record.begin)
            continue;
          if (last->end >= all[i].record.begin)
            last->end = all[i].record.begin - 1;
        }
      all[n++] = all[i];
    }
  g_array_set_size (self->added, n);
  strings_at = (guint32) ((self->added->len + 1) * sizeof end);
  for (guint i = 0; i < self->added->len; i++)
    {
      SondeSymbolRecord record = g_array_index (self->added, Added, i).record;

      record.name_offset += strings_at;
      if (record.tag_offset != 0)
        record.tag_offset += strings_at;
      g_byte_array_append (file, (const guint8 *) &record, sizeof record);
    }
  g_byte_array_append (file, (const guint8 *) &end, sizeof end);
  g_byte_array_append (file, self->strings->data, self->strings->len);
  return file;
}

/* --- the archive --- */

#define BUFFER_SIZE (1u << 20)

typedef struct
{
  SondeCaptureModel *model;
  SondeSymbolResolver *resolver;
  SymbolsBuilder builder;
} Names;

typedef struct
{
  SondeOutput *output;
  GError *error; /* of the first write that failed */
  SondeWriter *writer;
  SondeLedgerCounters ledger;
  guint n_dropped; /* frames of the old "__symbols__" */
  guint n_written; /* frames of the new one */
  guint8 *closing; /* copy of a frame that may be the last one; NULL: none */
} Rewrite;

static void
names_clear (Names *self)
{
  sonde_symbol_resolver_free (self->resolver);
  sonde_capture_model_free (self->model);
  g_clear_pointer (&self->builder.added, g_array_unref);
  g_clear_pointer (&self->builder.strings, g_byte_array_unref);
  g_clear_pointer (&self->builder.offsets, g_hash_table_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Names, names_clear)

static void
ignore_sample (const SondeModelSample *sample, gpointer user_data)
{
}

static void
ignore_allocation (const SondeModelAllocation *allocation, gpointer user_data)
{
}

static gboolean
read_names (Names *self, const char *path, const SondeArchiveOptions *options, GError **error)
{
  /* locations are made only for those who ask for stacks */
  static const SondeModelFuncs funcs = { .sample = ignore_sample, .allocation = ignore_allocation };
  SondeSymbolOptions symbols = { .debug_directory = options->debug_directory };
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, error);
  GError *broken = NULL;
  const SondeFrame *frame;

  if (file == NULL)
    return FALSE;
  self->model = sonde_capture_model_new (&funcs, NULL);
  self->builder.added = g_array_new (FALSE, FALSE, sizeof (Added));
  self->builder.strings = g_byte_array_new ();
  self->builder.offsets = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  g_byte_array_append (self->builder.strings, (const guint8 *) "", 1); /* offset 0: none */
  sonde_capture_file_show (file, options->progress);
  while (sonde_capture_file_next (file, &frame, &broken))
    sonde_capture_model_add_frame (self->model, frame);
  if (broken != NULL)
    {
      g_propagate_error (error, broken);
      return FALSE;
    }
  self->resolver = sonde_symbol_resolver_new (self->model, &symbols);
  return TRUE;
}

static gboolean
add_symbol (Names *self, guint32 location, const SondeLocation *where)
{
  SondeSymbolRange range;
  g_autofree char *name = sonde_symbol_resolver_find_range (self->resolver, location, &range);
  g_autofree char *tag = NULL;
  char *demangled;

  if (name == NULL)
    return FALSE;
  tag = g_path_get_basename (where->mapping->path);
  demangled = sonde_demangle (name);
  symbols_builder_add (&self->builder, where->pid, range.begin, range.end - 1,
                       demangled != NULL ? demangled : name, tag);
  free (demangled);
  return TRUE;
}

static void *
write_buffer (void *user_data, void *buffer, size_t used_bytes)
{
  Rewrite *self = user_data;

  return sonde_output_write (self->output, buffer, used_bytes, &self->error) ? buffer : NULL;
}

static int
write_closing (Rewrite *self)
{
  int r = 0;

  if (self->closing != NULL)
    r = sonde_writer_add_frame (self->writer, (const SondeFrame *) (const void *) self->closing);
  g_clear_pointer (&self->closing, g_free);
  return r;
}

/* Counters that close the ledger are held back: the names go before them. */
static int
copy_frame (Rewrite *self, const SondeFrame *frame)
{
  int r = write_closing (self);

  if (r < 0)
    return r;
  if (frame->type == SONDE_FRAME_FILE_CHUNK
      && strncmp (((const SondeFrameFileChunk *) frame)->path, SONDE_EMBEDDED_SYMBOLS_PATH,
                  sizeof ((const SondeFrameFileChunk *) frame)->path)
             == 0)
    {
      self->n_dropped++;
      return 0;
    }
  if (frame->type == SONDE_FRAME_CTRDEF)
    sonde_ledger_counters_define (&self->ledger, (const SondeFrameCounterDefine *) frame);
  if (frame->type == SONDE_FRAME_CTRSET
      && sonde_ledger_counters_set (&self->ledger, (const SondeFrameCounterSet *) frame)
             == SONDE_LEDGER_ALL)
    {
      self->closing = g_memdup2 (frame, frame->len);
      return 0;
    }
  return sonde_writer_add_frame (self->writer, frame);
}

static int
write_symbols (Rewrite *self, const GByteArray *symbols, gint64 time_ns)
{
  SondeFrameOrigin origin = { time_ns, -1, -1 };
  int r = 0;

  for (gsize done = 0; done < symbols->len && r == 0; self->n_written++)
    {
      gsize n = MIN (symbols->len - done, SONDE_WRITER_MAX_CHUNK);

      r = sonde_writer_add_file_chunk (self->writer, &origin, SONDE_EMBEDDED_SYMBOLS_PATH,
                                       symbols->data + done, n, done + n == symbols->len);
      done += n;
    }
  return r;
}

static gboolean
copy_capture (Rewrite *self, const char *path, const GByteArray *symbols, GError **error)
{
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, error);
  GError *broken = NULL;
  const SondeFrame *frame;
  gint64 last_ns = 0;
  int r = 0;
  SondeFrameCounterSet *closing;
  gint64 difference;

  if (file == NULL)
    return FALSE;
  if (write_buffer (self, (gpointer) sonde_capture_file_header (file), sizeof (SondeFileHeader))
      == NULL)
    r = -EPIPE;
  while (r == 0 && sonde_capture_file_next (file, &frame, &broken))
    {
      last_ns = frame->time_ns;
      r = copy_frame (self, frame);
    }
  if (broken != NULL)
    {
      g_propagate_error (error, broken);
      return FALSE;
    }
  if (r == 0)
    r = write_symbols (self, symbols, last_ns);
  /* The frames that we added were, as it were, delivered with those of the recorder. */
  closing = (SondeFrameCounterSet *) (void *) self->closing;
  difference = (gint64) self->n_written - (gint64) self->n_dropped;
  if (closing != NULL)
    {
      sonde_ledger_counters_adjust (&self->ledger, closing, SONDE_LEDGER_STREAM_RESENT, difference);
      sonde_ledger_counters_adjust (&self->ledger, closing, SONDE_LEDGER_STREAM_DELIVERED,
                                    difference);
    }
  if (r == 0)
    r = write_closing (self);
  if (r == 0)
    r = sonde_writer_flush (self->writer);
  if (r < 0 && self->error != NULL)
    g_propagate_error (error, g_steal_pointer (&self->error));
  else if (r < 0)
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (-r), "Cannot make the capture: %s",
                 g_strerror (-r));
  return r == 0;
}

static gboolean
write_copy (const char *path, const char *output, const GByteArray *symbols, GError **error)
{
  g_autoptr (SondeOutput) opened = sonde_output_open (output, SONDE_OUTPUT_WHOLE, error);
  g_autofree void *buffer = NULL;
  Rewrite copy = { .output = opened };
  gboolean good;

  if (opened == NULL)
    return FALSE;
  buffer = g_malloc (BUFFER_SIZE);
  copy.writer = sonde_writer_new (buffer, BUFFER_SIZE, write_buffer, &copy);
  sonde_ledger_counters_init (&copy.ledger);
  good = copy_capture (&copy, path, symbols, error) && sonde_output_close (opened, error);
  g_free (copy.closing);
  g_clear_error (&copy.error);
  sonde_writer_free (copy.writer);
  sonde_ledger_counters_clear (&copy.ledger);
  return good;
}

/* It is read twice. */
static gboolean
check_input (const char *path, GError **error)
{
  g_autofree char *shown = sonde_text_escape (path, -1);
  gboolean is_stdin = g_str_equal (path, "-");
  struct stat st;

  if (!is_stdin && (stat (path, &st) < 0 || S_ISREG (st.st_mode)))
    return TRUE; /* who opens it says what is wrong */
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "%s is no regular file",
               is_stdin ? "standard input" : shown);
  return FALSE;
}

gboolean
sonde_archive_embed (const char *path,
                     const char *output,
                     const SondeArchiveOptions *options,
                     SondeArchiveResult *result,
                     GError **error)
{
  g_auto (Names) names = { 0 };
  g_autoptr (GByteArray) symbols = NULL;
  const SondeEmbeddedSymbols *old;
  guint n_old;
  gsize n;

  if (!check_input (path, error) || !read_names (&names, path, options, error))
    return FALSE;
  sonde_progress_begin (options->progress, "Looking up names", 0);
  /* What a capture brings stays, but for what was made up: that comes back if nothing is found. */
  old = sonde_embedded_files_symbols (sonde_capture_model_files (names.model));
  n = old != NULL ? sonde_embedded_symbols_size (old) : 0;
  for (gsize i = 0; i < n; i++)
    {
      const SondeSymbolRecord *record = sonde_embedded_symbols_get (old, i);
      const char *name;
      const char *tag;

      sonde_embedded_symbols_texts (old, record, &name, &tag);
      if (sonde_embedded_symbols_is_made_up (name, tag))
        continue;
      symbols_builder_add (&names.builder, (gint32) record->pid, record->begin, record->end, name,
                           tag);
    }
  n_old = names.builder.added->len;
  for (guint32 i = 0; i < sonde_capture_model_n_locations (names.model); i++)
    {
      const SondeLocation *where = sonde_capture_model_location (names.model, i);
      const char *name = NULL;
      const char *tag = NULL;
      gboolean is_embedded
          = old != NULL
            && sonde_embedded_symbols_lookup (old, where->pid, where->address, &name, &tag);

      if (where->pid < 0 || where->in_kernel
          || (is_embedded && !sonde_embedded_symbols_is_made_up (name, tag))
          || add_symbol (&names, i, where))
        continue;
      if (is_embedded)
        symbols_builder_add (&names.builder, where->pid, where->address, where->address, name, tag);
    }
  symbols = symbols_builder_build (&names.builder);
  result->n_names = names.builder.added->len;
  result->n_added = result->n_names - n_old;
  result->budget = *sonde_capture_model_budget (names.model);
  return write_copy (path, output, symbols, error);
}
