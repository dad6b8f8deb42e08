/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Embeds names into a capture, so that it needs nothing else. */
#include "client/names/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/model/capture-file.h"
#include "client/base/fd.h"
#include "client/names/jit-files.h"
#include "client/model/ledger-counters.h"
#include "client/names/symbol-resolver.h"
#include "client/names/symbols-builder.h"
#include "protocol/writer.h"
#include "symbols/demangle.h"

#define BUFFER_SIZE (1u << 20)

typedef struct
{
  SondeCaptureModel *model;
  SondeSymbolResolver *resolver;
  SondeSymbolsBuilder *builder;
  GHashTable *dumps;    /* pid → path of its jitdump */
  GHashTable *jit_maps; /* pid → SondeJitMap, or NULL */
  gboolean only_jit;
  guint n_old;
} Names;

typedef struct
{
  int fd;
  int error_number; /* of the first write that failed, else 0 */
  SondeWriter *writer;
  SondeLedgerCounters ledger;
  guint n_dropped; /* frames of the old "__symbols__" */
  guint n_written; /* frames of the new one */
  guint8 *closing; /* copy of a frame that may be the last one; NULL: none */
} Copy;

static void
free_jit_map (gpointer data)
{
  sonde_jit_map_free (data);
}

static void
names_clear (Names *self)
{
  sonde_symbol_resolver_free (self->resolver);
  sonde_capture_model_free (self->model);
  sonde_symbols_builder_free (self->builder);
  g_clear_pointer (&self->dumps, g_hash_table_unref);
  g_clear_pointer (&self->jit_maps, g_hash_table_unref);
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

static void
note_dump (GHashTable *dumps, const SondeFrame *frame)
{
  const SondeFrameMap *map = (const SondeFrameMap *) frame;

  if (frame->type == SONDE_FRAME_MAP && sonde_jit_files_is_dump (map->path, frame->pid))
    g_hash_table_insert (dumps, GINT_TO_POINTER (frame->pid), g_strdup (map->path));
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
  self->builder = sonde_symbols_builder_new ();
  self->dumps = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->jit_maps = g_hash_table_new_full (NULL, NULL, NULL, free_jit_map);
  while (sonde_capture_file_next (file, &frame, &broken))
    {
      sonde_capture_model_add_frame (self->model, frame);
      note_dump (self->dumps, frame);
    }
  if (broken != NULL)
    {
      g_propagate_error (error, broken);
      return FALSE;
    }
  self->resolver = sonde_symbol_resolver_new (self->model, &symbols);
  self->only_jit = options->only_jit;
  return TRUE;
}

/* What a capture brings stays, but for what was made up: that comes back if nothing is found. */
static void
add_old (Names *self)
{
  const SondeEmbeddedSymbols *old = sonde_capture_model_symbols (self->model);
  gsize n = old != NULL ? sonde_embedded_symbols_size (old) : 0;

  for (gsize i = 0; i < n; i++)
    {
      const SondeSymbolRecord *record = sonde_embedded_symbols_get (old, i);
      const char *name;
      const char *tag;

      sonde_embedded_symbols_texts (old, record, &name, &tag);
      if (sonde_embedded_symbols_is_made_up (name, tag))
        continue;
      sonde_symbols_builder_add (self->builder, (gint32) record->pid, record->begin, record->end,
                                 name, tag);
    }
  self->n_old = sonde_symbols_builder_size (self->builder);
}

static SondeJitMap *
ensure_jit_map (Names *self, gint32 pid)
{
  gpointer found;

  if (!g_hash_table_lookup_extended (self->jit_maps, GINT_TO_POINTER (pid), NULL, &found))
    {
      found = sonde_jit_files_load (pid, g_hash_table_lookup (self->dumps, GINT_TO_POINTER (pid)));
      g_hash_table_insert (self->jit_maps, GINT_TO_POINTER (pid), found);
    }
  return found;
}

/* The place is in no file: a program made the code there. */
static gboolean
add_jit_name (Names *self, const SondeLocation *where)
{
  SondeJitMap *map = ensure_jit_map (self, where->pid);
  SondeSymbol symbol;

  if (map == NULL || !sonde_jit_map_lookup (map, where->address, &symbol))
    return FALSE;
  sonde_symbols_builder_add (self->builder, where->pid, symbol.begin, symbol.end - 1, symbol.name,
                             "[jit]");
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
  sonde_symbols_builder_add (self->builder, where->pid, range.begin, range.end - 1,
                             demangled != NULL ? demangled : name, tag);
  free (demangled);
  return TRUE;
}

static void
add_location (Names *self, guint32 location)
{
  const SondeLocation *where = sonde_capture_model_location (self->model, location);
  const SondeEmbeddedSymbols *old = sonde_capture_model_symbols (self->model);
  const char *name = NULL;
  const char *tag = NULL;
  gboolean is_embedded
      = old != NULL && sonde_embedded_symbols_lookup (old, where->pid, where->address, &name, &tag);

  if (where->pid < 0 || where->in_kernel
      || (is_embedded && !sonde_embedded_symbols_is_made_up (name, tag))
      || (!self->only_jit && add_symbol (self, location, where)) || add_jit_name (self, where))
    return;
  if (is_embedded)
    sonde_symbols_builder_add (self->builder, where->pid, where->address, where->address, name,
                               tag);
}

static void *
write_buffer (void *user_data, void *buffer, size_t used_bytes)
{
  Copy *self = user_data;
  const guint8 *at = buffer;

  while (used_bytes > 0)
    {
      gssize n = write (self->fd, at, used_bytes);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          self->error_number = n < 0 ? errno : EIO;
          return NULL;
        }
      at += n;
      used_bytes -= (gsize) n;
    }
  return buffer;
}

static gboolean
is_symbols (const SondeFrame *frame)
{
  const SondeFrameFileChunk *chunk = (const SondeFrameFileChunk *) frame;

  return frame->type == SONDE_FRAME_FILE_CHUNK
         && strncmp (chunk->path, SONDE_EMBEDDED_SYMBOLS_PATH, sizeof chunk->path) == 0;
}

static int
write_closing (Copy *self)
{
  int r = 0;

  if (self->closing != NULL)
    r = sonde_writer_add_frame (self->writer, (const SondeFrame *) (const void *) self->closing);
  g_clear_pointer (&self->closing, g_free);
  return r;
}

/* Counters that close the ledger are held back: the names go before them. */
static int
copy_frame (Copy *self, const SondeFrame *frame)
{
  int r = write_closing (self);

  if (r < 0)
    return r;
  if (is_symbols (frame))
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
write_symbols (Copy *self, const GByteArray *symbols, gint64 time_ns)
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

/* The frames that we added were, as it were, delivered with those of the recorder. */
static void
adjust_closing (Copy *self)
{
  SondeFrameCounterSet *closing = (SondeFrameCounterSet *) (void *) self->closing;
  gint64 difference = (gint64) self->n_written - (gint64) self->n_dropped;

  if (closing == NULL)
    return;
  sonde_ledger_counters_adjust (&self->ledger, closing, SONDE_LEDGER_STREAM_RESENT, difference);
  sonde_ledger_counters_adjust (&self->ledger, closing, SONDE_LEDGER_STREAM_DELIVERED, difference);
}

static gboolean
copy_capture (Copy *self, const char *path, const GByteArray *symbols, GError **error)
{
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, error);
  GError *broken = NULL;
  const SondeFrame *frame;
  gint64 last_ns = 0;
  int r = 0;

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
  adjust_closing (self);
  if (r == 0)
    r = write_closing (self);
  if (r == 0)
    r = sonde_writer_flush (self->writer);
  if (r < 0)
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (self->error_number),
                 "Cannot write the capture: %s",
                 g_strerror (self->error_number != 0 ? self->error_number : -r));
  return r == 0;
}

/* Writes beside @output and puts it in its place when it is whole, with the mode of @path. */
static gboolean
replace (const char *path, const char *output, const GByteArray *symbols, GError **error)
{
  g_autofree char *temporary = g_strconcat (output, ".XXXXXX", NULL);
  g_autofree void *buffer = NULL;
  Copy copy = { .fd = g_mkstemp_full (temporary, O_WRONLY | O_CLOEXEC, 0600) };
  gboolean good = FALSE;
  struct stat st;

  if (copy.fd < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot write %s: %s", output,
                   g_strerror (errno));
      return FALSE;
    }
  buffer = g_malloc (BUFFER_SIZE);
  copy.writer = sonde_writer_new (buffer, BUFFER_SIZE, write_buffer, &copy);
  sonde_ledger_counters_init (&copy.ledger);
  if (stat (path, &st) == 0)
    fchmod (copy.fd, st.st_mode & 0777);
  good = copy_capture (&copy, path, symbols, error);
  if (good && rename (temporary, output) < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot replace %s: %s",
                   output, g_strerror (errno));
      good = FALSE;
    }
  if (!good)
    unlink (temporary);
  g_free (copy.closing);
  sonde_writer_free (copy.writer);
  sonde_ledger_counters_clear (&copy.ledger);
  sonde_clear_fd (&copy.fd);
  return good;
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

  if (!read_names (&names, path, options, error))
    return FALSE;
  add_old (&names);
  for (guint32 i = 0; i < sonde_capture_model_n_locations (names.model); i++)
    add_location (&names, i);
  symbols = sonde_symbols_builder_build (names.builder);
  result->n_names = sonde_symbols_builder_size (names.builder);
  result->n_added = result->n_names - names.n_old;
  return replace (path, output, symbols, error);
}

gboolean
sonde_archive_has_jit (const char *path)
{
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, NULL);
  g_autoptr (GHashTable) dumps = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_autoptr (GHashTable) pids = g_hash_table_new (NULL, NULL);
  GHashTableIter iter;
  const SondeFrame *frame;
  gpointer pid;
  gboolean is_found = FALSE;

  while (file != NULL && sonde_capture_file_next (file, &frame, NULL))
    {
      note_dump (dumps, frame);
      if (frame->type == SONDE_FRAME_SAMPLE)
        g_hash_table_add (pids, GINT_TO_POINTER (frame->pid));
    }
  g_hash_table_iter_init (&iter, pids);
  while (!is_found && g_hash_table_iter_next (&iter, &pid, NULL))
    {
      SondeJitMap *map
          = sonde_jit_files_load (GPOINTER_TO_INT (pid), g_hash_table_lookup (dumps, pid));

      is_found = map != NULL;
      sonde_jit_map_free (map);
    }
  return is_found;
}
