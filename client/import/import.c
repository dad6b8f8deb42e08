/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/import/import.h"

#include <stdlib.h>
#include <string.h>

#include "client/base/id-map.h"
#include "client/base/limits.h"
#include "client/base/text.h"
#include "client/model/embedded-files.h"
#include "client/model/task-list.h"
#include "config.h"
#include "protocol/writer.h"

#define USER_BASE      G_GUINT64_CONSTANT (0x10000)
#define KERNEL_BASE    G_GUINT64_CONSTANT (0xffff800000000000)
#define FUNCTION_BYTES 16 /* of made-up addresses that a function has */
#define INSIDE         8  /* in the middle, so that the byte before is in it, too */
#define BLOCK_BASE     G_GUINT64_CONSTANT (0x100000)
#define MAX_TEXT_BYTES (64u << 20) /* of names, and as much of modules */
#define MAX_RECORDS    (1u << 20)

typedef struct
{
  char *name;
  const char *module; /* in the table of modules */
  gboolean in_kernel;
  guint32 name_offset; /* in the text of __symbols__; 0: it is not there yet */
} ImportedFunction;

struct SondeImport
{
  SondeOutput *output;
  SondeWriter *writer;
  void *buffer;
  GError *error;
  gint64 start_ns;
  gint64 realtime_ns;
  GPtrArray *functions; /* ImportedFunction */
  GHashTable *known;    /* "K NAME\nMODULE" → number + 1 */
  GStringChunk *modules;
  gsize n_text_bytes;
  GArray *records;       /* SondeSymbolRecord; name_offset is the function's number */
  SondeIdMap *is_told;   /* pid << 32 | function → 1: that it has a record */
  GHashTable *processes; /* pid → its name */
  GHashTable *threads;   /* tid → its name */
  GString *tasks;        /* lines of sonde/tasks */
  gboolean has_kernel;   /* functions of it */
  guint64 n_samples;
  guint64 n_blocks;
  guint64 n_truncated;
};

static void
function_free (gpointer data)
{
  ImportedFunction *self = data;

  g_free (self->name);
  g_free (self);
}

static void *
take_buffer (void *user_data, void *buffer, size_t used_bytes)
{
  SondeImport *self = user_data;

  return self->error == NULL && sonde_output_write (self->output, buffer, used_bytes, &self->error)
             ? buffer
             : NULL;
}

SondeImport *
sonde_import_new (SondeOutput *output, gint64 start_ns, gint64 realtime_ns)
{
  SondeImport *self = g_new0 (SondeImport, 1);

  self->output = output;
  self->start_ns = start_ns;
  self->realtime_ns = realtime_ns;
  self->buffer = aligned_alloc (8, SONDE_WRITER_MIN_BUFFER_SIZE);
  self->writer = sonde_writer_new (self->buffer, SONDE_WRITER_MIN_BUFFER_SIZE, take_buffer, self);
  g_assert (self->writer != NULL);
  self->functions = g_ptr_array_new_with_free_func (function_free);
  self->known = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->modules = g_string_chunk_new (1024);
  self->records = g_array_new (FALSE, FALSE, sizeof (SondeSymbolRecord));
  self->is_told = sonde_id_map_new ();
  self->processes = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->threads = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->tasks = g_string_new (NULL);
  sonde_writer_add_file_header (self->writer, realtime_ns, start_ns);
  sonde_import_ensure_function (self, SONDE_TRUNCATED, "", FALSE);
  return self;
}

void
sonde_import_free (SondeImport *self)
{
  if (self == NULL)
    return;
  sonde_writer_free (self->writer);
  free (self->buffer);
  g_clear_error (&self->error);
  g_ptr_array_unref (self->functions);
  g_hash_table_unref (self->known);
  g_string_chunk_free (self->modules);
  g_array_unref (self->records);
  sonde_id_map_free (self->is_told);
  g_hash_table_unref (self->processes);
  g_hash_table_unref (self->threads);
  g_string_free (self->tasks, TRUE);
  g_free (self);
}

guint32
sonde_import_ensure_function (SondeImport *self,
                              const char *name,
                              const char *module,
                              gboolean in_kernel)
{
  g_autofree char *cut = g_strndup (name, SONDE_MAX_NAME_BYTES);
  g_autofree char *cut_module = g_strndup (module, SONDE_MAX_MODULE_BYTES);
  g_autofree char *key = g_strdup_printf ("%d %s\n%s", in_kernel, cut, cut_module);
  guint32 number = GPOINTER_TO_UINT (g_hash_table_lookup (self->known, key));
  ImportedFunction *function;

  if (number > 0)
    return number - 1;
  if (self->functions->len >= SONDE_IMPORT_MAX_FUNCTIONS
      || self->n_text_bytes + strlen (key) > MAX_TEXT_BYTES)
    {
      self->n_truncated++;
      return SONDE_IMPORT_TRUNCATED;
    }
  self->n_text_bytes += strlen (key);
  function = g_new0 (ImportedFunction, 1);
  function->name = g_steal_pointer (&cut);
  function->module = g_string_chunk_insert_const (self->modules, cut_module);
  function->in_kernel = in_kernel;
  self->has_kernel |= in_kernel;
  g_ptr_array_add (self->functions, function);
  g_hash_table_insert (self->known, g_steal_pointer (&key),
                       GUINT_TO_POINTER (self->functions->len));
  return self->functions->len - 1;
}

static SondeFrameOrigin
origin_of (gint32 pid, gint64 time_ns)
{
  return (SondeFrameOrigin){ .time_ns = time_ns, .cpu = -1, .pid = pid };
}

void
sonde_import_name (SondeImport *self, gint32 pid, gint32 tid, gint64 time_ns, const char *name)
{
  SondeFrameOrigin origin = origin_of (pid, time_ns);
  const char *process = g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));
  const char *thread = g_hash_table_lookup (self->threads, GINT_TO_POINTER (tid));
  g_autofree char *escaped = NULL;

  /* Of one whose first thread was never met the first one that was. */
  if (process == NULL || (pid == tid && !g_str_equal (process, name)))
    {
      g_hash_table_insert (self->processes, GINT_TO_POINTER (pid), g_strdup (name));
      sonde_writer_add_process (self->writer, &origin, name);
    }
  if (pid == tid || g_strcmp0 (thread, name) == 0)
    return;
  g_hash_table_insert (self->threads, GINT_TO_POINTER (tid), g_strdup (name));
  escaped = g_strescape (name, NULL);
  g_string_append_printf (self->tasks, "thread %d %d %" G_GINT64_FORMAT " %s\n", pid, tid, time_ns,
                          escaped);
}

/* The address of @function in @pid, with a record that names it. */
static guint64
tell_function (SondeImport *self, gint32 pid, guint32 number)
{
  const ImportedFunction *function = g_ptr_array_index (self->functions, number);
  guint64 begin
      = (function->in_kernel ? KERNEL_BASE : USER_BASE) + (guint64) number * FUNCTION_BYTES;
  SondeSymbolRecord record = { .begin = begin,
                               .end = begin + FUNCTION_BYTES - 1,
                               .pid = (guint32) (function->in_kernel ? -1 : pid),
                               .name_offset = number };
  guint32 is_told;

  if (sonde_id_map_lookup (self->is_told, (guint64) record.pid << 32 | number, &is_told))
    return begin + INSIDE;
  if (self->records->len >= MAX_RECORDS)
    {
      self->n_truncated++;
      return begin + INSIDE;
    }
  sonde_id_map_add (self->is_told, (guint64) record.pid << 32 | number, 1);
  g_array_append_val (self->records, record);
  return begin + INSIDE;
}

/* Returns how many addresses that are. @with_markers: as a sample has them */
static gsize
tell_stack (SondeImport *self,
            gint32 pid,
            gboolean with_markers,
            const guint32 *functions,
            gsize n_functions,
            guint64 *addresses)
{
  gboolean was_in_kernel = FALSE;
  gsize n = 0;

  for (gsize i = 0; i < MIN (n_functions, SONDE_IMPORT_MAX_DEPTH); i++)
    {
      const ImportedFunction *function = g_ptr_array_index (self->functions, functions[i]);

      if (with_markers && (i == 0 || was_in_kernel != function->in_kernel))
        addresses[n++] = function->in_kernel ? SONDE_CONTEXT_KERNEL : SONDE_CONTEXT_USER;
      was_in_kernel = function->in_kernel;
      addresses[n++] = tell_function (self, pid, functions[i]);
    }
  self->n_truncated += n_functions > SONDE_IMPORT_MAX_DEPTH;
  if (n == 0 && with_markers)
    addresses[n++] = SONDE_CONTEXT_USER;
  return n;
}

void
sonde_import_add_sample (SondeImport *self,
                         gint32 pid,
                         gint32 tid,
                         gint64 time_ns,
                         const guint32 *functions,
                         gsize n_functions)
{
  SondeFrameOrigin origin = origin_of (pid, time_ns);
  guint64 addresses[2 * SONDE_IMPORT_MAX_DEPTH];
  gsize n = tell_stack (self, pid, TRUE, functions, n_functions, addresses);

  sonde_writer_add_sample (self->writer, &origin, tid, addresses, n);
  self->n_samples++;
}

void
sonde_import_add_block (SondeImport *self,
                        gint32 pid,
                        gint32 tid,
                        gint64 time_ns,
                        gint64 size_bytes,
                        gboolean is_freed,
                        const guint32 *functions,
                        gsize n_functions)
{
  SondeFrameOrigin origin = origin_of (pid, time_ns);
  guint64 addresses[SONDE_IMPORT_MAX_DEPTH];
  gsize n = tell_stack (self, pid, FALSE, functions, n_functions, addresses);
  guint64 address = BLOCK_BASE + FUNCTION_BYTES * self->n_blocks++;

  sonde_writer_add_allocation (self->writer, &origin, tid, address, size_bytes, addresses, n);
  if (is_freed)
    sonde_writer_add_allocation (self->writer, &origin, tid, address, 0, NULL, 0);
}

guint64
sonde_import_n_samples (const SondeImport *self)
{
  return self->n_samples;
}

guint64
sonde_import_n_blocks (const SondeImport *self)
{
  return self->n_blocks;
}

guint64
sonde_import_n_truncated (const SondeImport *self)
{
  return self->n_truncated;
}

static void
add_file (SondeImport *self, const char *path, const void *bytes, gsize size_bytes)
{
  SondeFrameOrigin origin = origin_of (-1, self->start_ns);
  const char *at = bytes;

  while (size_bytes > SONDE_WRITER_MAX_CHUNK)
    {
      sonde_writer_add_file_chunk (self->writer, &origin, path, at, SONDE_WRITER_MAX_CHUNK, false);
      at += SONDE_WRITER_MAX_CHUNK;
      size_bytes -= SONDE_WRITER_MAX_CHUNK;
    }
  sonde_writer_add_file_chunk (self->writer, &origin, path, at, size_bytes, true);
}

/* Each frame of sonde/tasks has whole lines. */
static void
add_tasks (SondeImport *self)
{
  SondeFrameOrigin origin = origin_of (-1, self->start_ns);
  const char *at = self->tasks->str;
  gsize left = self->tasks->len;

  while (left > 0)
    {
      gsize n = MIN (left, SONDE_WRITER_MAX_CHUNK);

      while (n < left && n > 0 && at[n - 1] != '\n')
        n--;
      if (n == 0) /* a line is never that long */
        return;
      sonde_writer_add_file_chunk (self->writer, &origin, SONDE_TASK_LIST_PATH, at, n, false);
      at += n;
      left -= n;
    }
}

static int
compare_records (gconstpointer a, gconstpointer b)
{
  const SondeSymbolRecord *left = a;
  const SondeSymbolRecord *right = b;

  if (left->pid != right->pid)
    return left->pid < right->pid ? -1 : 1;
  return (left->begin > right->begin) - (left->begin < right->begin);
}

static void
add_symbols (SondeImport *self)
{
  const SondeSymbolRecord end = { 0 };
  g_autoptr (GString) texts = g_string_new (NULL);
  g_autoptr (GHashTable) modules = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GByteArray) file = NULL;
  guint32 offset;

  g_array_sort (self->records, compare_records);
  offset = (guint32) ((self->records->len + 1) * sizeof (SondeSymbolRecord));
  for (guint i = 0; i < self->records->len; i++)
    {
      SondeSymbolRecord *record = &g_array_index (self->records, SondeSymbolRecord, i);
      ImportedFunction *function = g_ptr_array_index (self->functions, record->name_offset);
      guint32 module = GPOINTER_TO_UINT (g_hash_table_lookup (modules, function->module));

      if (function->name_offset == 0)
        {
          function->name_offset = offset + (guint32) texts->len;
          g_string_append_len (texts, function->name, (gssize) strlen (function->name) + 1);
        }
      if (module == 0 && function->module[0] != '\0')
        {
          module = offset + (guint32) texts->len;
          g_hash_table_insert (modules, (gpointer) function->module, GUINT_TO_POINTER (module));
          g_string_append_len (texts, function->module, (gssize) strlen (function->module) + 1);
        }
      record->name_offset = function->name_offset;
      record->tag_offset = module;
    }
  g_array_append_val (self->records, end);
  file = g_byte_array_new ();
  g_byte_array_append (file, (const guint8 *) self->records->data,
                       self->records->len * (guint) sizeof (SondeSymbolRecord));
  g_byte_array_append (file, (const guint8 *) texts->str, (guint) texts->len);
  add_file (self, SONDE_EMBEDDED_SYMBOLS_PATH, file->data, file->len);
}

gboolean
sonde_import_close (SondeImport *self, const char *event, guint64 period, GError **error)
{
  SondeFrameOrigin origin = origin_of (-1, self->start_ns);
  g_autoptr (GKeyFile) settings = g_key_file_new ();
  g_autofree char *text = NULL;
  gsize size_bytes;

  g_key_file_set_string (settings, "sonde", "version", SONDE_VERSION);
  if (event != NULL)
    g_key_file_set_string (settings, "sonde", "event", event);
  if (period > 0)
    g_key_file_set_uint64 (settings, "sonde", "period", period);
  if (self->has_kernel)
    g_key_file_set_string (settings, "sonde", "kernel-time", "yes");
  g_key_file_set_string (settings, "sonde", "clock", "CLOCK_MONOTONIC");
  g_key_file_set_int64 (settings, "sonde", "start", self->start_ns);
  if (self->realtime_ns > 0)
    g_key_file_set_int64 (settings, "sonde", "start-realtime", self->realtime_ns);
  text = g_key_file_to_data (settings, &size_bytes, NULL);
  sonde_writer_add_metadata (self->writer, &origin, "sonde", text, size_bytes);
  add_tasks (self);
  add_symbols (self);
  if (sonde_writer_flush (self->writer) == 0 && self->error == NULL)
    return sonde_output_close (self->output, error);
  if (self->error != NULL)
    g_propagate_error (error, g_steal_pointer (&self->error));
  else
    g_set_error_literal (error, G_FILE_ERROR, G_FILE_ERROR_PIPE, "Cannot write the capture");
  return FALSE;
}
