/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/stream-state.h"

#include <string.h>

#include "daemon/capture/stream/tally.h"
#include "unwind/mapping-list.h"

#define MAX_CMDLINE      4096 /* bytes kept of a command line */
#define TASKS_PATH       "sonde/tasks"
#define MAX_TASK_LINE    4096  /* bytes: a control group's path, escaped, may be that long */
#define TASKS_A_PIECE    24576 /* bytes of these lines */
#define MAPS_A_PIECE     16    /* mappings, of at most SONDE_PROCESS_MAX_PATH each */
#define NAMES_A_PIECE    256   /* made-up names */
#define COUNTERS_A_FRAME 64
#define TOO_MANY_NAMES   "[too many names]"
/* Of a mapping in its list: itself and its epoch. */
#define LISTED_BYTES (sizeof (SondeProcessMapping) + sizeof (uint32_t))

typedef struct
{
  char *path;
  GBytes *content;
} StreamDocument;

typedef struct
{
  gint32 pid;
  SondeCounterDefinition definition;
} StreamCounter;

typedef enum
{
  PART_HEADER,
  PART_METADATA,
  PART_DOCUMENTS,
  PART_LEDGER,
  PART_COUNTERS,
  PART_NAMES,
  PART_TASKS,
  PART_PROCESSES,
  PART_END,
} Part;

/* A process at the moment of a snapshot. */
typedef struct
{
  gint32 pid;
  gboolean has_exited;
  char *text; /* GRefString */
  SondeMappingList *mappings;
} Held;

/* What is said of a thread, or a process: a line of TASKS_PATH. */
typedef struct
{
  char *line; /* GRefString */
  gboolean is_untold;
} StreamTask;

struct SondeStateBase
{
  guint n_refs;
  SondeStreamState *state;
  gint64 realtime_ns; /* both: what the file header says */
  gint64 start_ns;
  guint n_documents; /* later ones come in the stream itself */
  guint n_counters;
  guint n_names;
  GPtrArray *tasks;  /* GRefString: lines of TASKS_PATH */
  GArray *processes; /* Held */
};

struct SondeStateCursor
{
  SondeStateBase *base;
  char *more; /* behind the METADATA's own lines; NULL: none */
  Part part;
  guint index;  /* of the document, counter, name or process */
  gsize offset; /* into the document, or the process's mappings */
};

static void
document_clear (gpointer data)
{
  StreamDocument *document = data;

  g_free (document->path);
  g_bytes_unref (document->content);
}

static void
name_clear (gpointer data)
{
  g_free ((char *) ((SondeJitName *) data)->name);
}

static void
task_free (gpointer data)
{
  StreamTask *task = data;

  g_ref_string_release (task->line);
  g_free (task);
}

SondeStreamState *
sonde_stream_state_new (SondeProcessTable *processes)
{
  SondeStreamState *self = g_new0 (SondeStreamState, 1);

  self->processes = processes;
  self->counters = g_array_new (FALSE, FALSE, sizeof (StreamCounter));
  self->documents = g_array_new (FALSE, FALSE, sizeof (StreamDocument));
  g_array_set_clear_func (self->documents, document_clear);
  self->cmdlines = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_ref_string_release);
  self->tasks = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, task_free);
  self->untold_tasks = g_array_new (FALSE, FALSE, sizeof (gint64));
  self->names = g_array_new (FALSE, FALSE, sizeof (SondeJitName));
  g_array_set_clear_func (self->names, name_clear);
  self->made_up = g_hash_table_new (g_str_hash, g_str_equal);
  self->made_code = g_hash_table_new (g_str_hash, g_str_equal);
  self->given = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);

  return self;
}

void
sonde_stream_state_free (SondeStreamState *self)
{
  if (self == NULL)
    return;

  g_free (self->metadata);
  g_array_unref (self->counters);
  g_array_unref (self->documents);
  g_hash_table_unref (self->cmdlines);
  g_hash_table_unref (self->tasks);
  g_array_unref (self->untold_tasks);
  g_hash_table_unref (self->made_up);
  g_hash_table_unref (self->made_code);
  g_hash_table_unref (self->given);
  g_array_unref (self->names);
  g_free (self);
}

void
sonde_stream_state_describe (SondeStreamState *self,
                             gint64 realtime_ns,
                             gint64 start_ns,
                             char *metadata)
{
  g_free (self->metadata);
  self->metadata = metadata;
  self->realtime_ns = realtime_ns;
  self->start_ns = start_ns;
}

void
sonde_stream_state_add_document (SondeStreamState *self, const char *path, GBytes *content)
{
  StreamDocument document = { g_strdup (path), g_bytes_ref (content) };

  g_array_append_val (self->documents, document);
}

/* Writes one CTRDEF frame: of the counter at @first and those behind it, up to @end, that are of
 * the same process. Returns the index behind the last one written. */
static guint
write_definitions (
    const SondeStreamState *self, guint first, guint end, gint64 time_ns, SondeSpanWriter *out)
{
  SondeFrameOrigin origin = { time_ns, -1, -1 };
  SondeCounter counters[COUNTERS_A_FRAME];
  guint n = 0;

  for (; first < end && n < COUNTERS_A_FRAME; first++, n++)
    {
      const StreamCounter *counter = &g_array_index (self->counters, StreamCounter, first);
      const SondeCounterDefinition *definition = &counter->definition;

      if (n == 0)
        origin.pid = counter->pid;
      else if (origin.pid != counter->pid)
        break;
      counters[n] = (SondeCounter){ .category = definition->category,
                                    .name = definition->name,
                                    .description = definition->description,
                                    .id = sonde_counter_id (definition->id_type),
                                    .type = sonde_counter_type (definition->id_type),
                                    .value = definition->value };
    }
  sonde_writer_add_counter_define (sonde_span_writer_state (out), &origin, counters, n);

  return first;
}

gboolean
sonde_stream_state_add_counters (SondeStreamState *self,
                                 gint32 pid,
                                 SondeCounter *counters,
                                 guint n_counters,
                                 gint64 time_ns,
                                 SondeSpanWriter *out)
{
  guint first = self->counters->len;

  if (n_counters > SONDE_STREAM_STATE_MAX_COUNTERS - first)
    return FALSE;

  for (guint i = 0; i < n_counters; i++)
    {
      StreamCounter counter = { .pid = pid };
      SondeCounterDefinition *definition = &counter.definition;

      counters[i].id = SONDE_N_LEDGER + 1 + self->counters->len;
      g_strlcpy (definition->category, counters[i].category, sizeof definition->category);
      g_strlcpy (definition->name, counters[i].name, sizeof definition->name);
      g_strlcpy (definition->description, counters[i].description, sizeof definition->description);
      definition->id_type = counters[i].id << SONDE_COUNTER_ID_SHIFT
                            | (guint32) counters[i].type << SONDE_COUNTER_TYPE_SHIFT;
      definition->value = counters[i].value;
      g_array_append_val (self->counters, counter);
    }
  while (first < self->counters->len)
    first = write_definitions (self, first, self->counters->len, time_ns, out);

  return TRUE;
}

void
sonde_stream_state_set_cmdline (SondeStreamState *self, int32_t pid, const char *cmdline)
{
  if (cmdline == NULL || cmdline[0] == '\0')
    g_hash_table_remove (self->cmdlines, GINT_TO_POINTER (pid));
  else if (g_hash_table_size (self->cmdlines) < SONDE_PROCESS_TABLE_MAX_PROCESSES
           || g_hash_table_contains (self->cmdlines, GINT_TO_POINTER (pid)))
    g_hash_table_replace (self->cmdlines, GINT_TO_POINTER (pid),
                          g_ref_string_new_len (cmdline, (gssize) strnlen (cmdline, MAX_CMDLINE)));
}

static void
write_tasks (const char *lines, gsize size_bytes, gint64 time_ns, SondeSpanWriter *out)
{
  SondeFrameOrigin origin = { time_ns, -1, -1 };

  sonde_writer_add_file_chunk (sonde_span_writer_state (out), &origin, TASKS_PATH,
                               (const guint8 *) lines, size_bytes, true);
}

static gint64
task_key (int32_t pid, int32_t tid)
{
  return (gint64) pid << 32 | (guint32) tid;
}

static void
forget_task (SondeStreamState *self, gint64 key)
{
  const StreamTask *task = g_hash_table_lookup (self->tasks, &key);

  if (task == NULL)
    return;
  self->n_task_bytes -= g_ref_string_length (task->line);
  g_hash_table_remove (self->tasks, &key);
}

gboolean
sonde_stream_state_set_task (SondeStreamState *self, int32_t pid, int32_t tid, char *line)
{
  g_autofree char *taken = line;
  gint64 key = task_key (pid, tid);
  gsize size_bytes = strlen (taken);
  StreamTask *task = g_hash_table_lookup (self->tasks, &key);
  gsize before_bytes = task != NULL ? g_ref_string_length (task->line) : 0;

  if (size_bytes > MAX_TASK_LINE
      || self->n_task_bytes - before_bytes + size_bytes > SONDE_STREAM_STATE_MAX_TASK_BYTES
      || (task == NULL && g_hash_table_size (self->tasks) >= SONDE_STREAM_STATE_MAX_TASKS))
    return FALSE;
  if (task == NULL)
    {
      task = g_new0 (StreamTask, 1);
      g_hash_table_insert (self->tasks, g_memdup2 (&key, sizeof key), task);
    }
  else
    g_ref_string_release (task->line);
  task->line = g_ref_string_new_len (taken, (gssize) size_bytes);
  self->n_task_bytes += size_bytes - before_bytes;
  if (!task->is_untold)
    g_array_append_val (self->untold_tasks, key);
  task->is_untold = TRUE;
  return TRUE;
}

/* Those that have gone meanwhile count for nothing: there may be more of them each time. */
void
sonde_stream_state_write_tasks (SondeStreamState *self,
                                guint max_tasks,
                                gint64 time_ns,
                                SondeSpanWriter *out)
{
  g_autoptr (GString) lines = NULL;
  guint n_written = 0;
  guint n = 0;

  if (self->untold_tasks->len == 0)
    return;
  lines = g_string_new (NULL);
  for (; n < self->untold_tasks->len && n_written < max_tasks; n++)
    {
      gint64 key = g_array_index (self->untold_tasks, gint64, n);
      StreamTask *task = g_hash_table_lookup (self->tasks, &key);

      if (task == NULL || !task->is_untold)
        continue;
      task->is_untold = FALSE;
      n_written++;
      if (lines->len + g_ref_string_length (task->line) > TASKS_A_PIECE)
        {
          write_tasks (lines->str, lines->len, time_ns, out);
          g_string_truncate (lines, 0);
        }
      g_string_append (lines, task->line);
    }
  if (lines->len > 0)
    write_tasks (lines->str, lines->len, time_ns, out);
  g_array_remove_range (self->untold_tasks, 0, n);
}

void
sonde_stream_state_write_task (
    SondeStreamState *self, int32_t pid, int32_t tid, gint64 time_ns, SondeSpanWriter *out)
{
  gint64 key = task_key (pid, tid);
  StreamTask *task = g_hash_table_lookup (self->tasks, &key);

  if (task == NULL || !task->is_untold)
    return;
  task->is_untold = FALSE;
  write_tasks (task->line, g_ref_string_length (task->line), time_ns, out);
}

void
sonde_stream_state_forget_task (SondeStreamState *self, int32_t pid, int32_t tid)
{
  forget_task (self, task_key (pid, tid));
  if (pid == tid)
    forget_task (self, task_key (pid, 0));
}

/* As many lines as one chunk takes. Returns whether there were any. */
static gboolean
write_held_tasks (SondeStateCursor *self, SondeSpanWriter *out)
{
  g_autoptr (GString) lines = g_string_new (NULL);

  const GPtrArray *tasks = self->base->tasks;

  for (; self->index < tasks->len && lines->len + MAX_TASK_LINE <= TASKS_A_PIECE; self->index++)
    g_string_append (lines, g_ptr_array_index (tasks, self->index));
  if (lines->len > 0)
    write_tasks (lines->str, lines->len, self->base->state->start_ns, out);
  return lines->len > 0;
}

void
sonde_stream_state_write_process (const SondeStreamState *self,
                                  const SondeProcess *process,
                                  gint64 time_ns,
                                  SondeSpanWriter *out)
{
  SondeFrameOrigin origin = { time_ns, -1, sonde_process_pid (process) };
  const char *text = g_hash_table_lookup (self->cmdlines, GINT_TO_POINTER (origin.pid));

  sonde_writer_add_process (sonde_span_writer_state (out), &origin,
                            text != NULL ? text : sonde_process_comm (process));
}

void
sonde_stream_state_write_map (int32_t pid,
                              const SondeProcessMapping *mapping,
                              gint64 time_ns,
                              SondeSpanWriter *out)
{
  SondeFrameOrigin origin = { time_ns, -1, pid };
  g_autofree char *whole = NULL;
  const char *path = mapping->path;
  const char *build_id = mapping->module != NULL ? sonde_module_build_id (mapping->module) : "";

  if (mapping->vdso)
    path = "[vdso]";
  else if (path[0] == '\0')
    path = "//anon";
  else if (g_str_has_suffix (path, " (deleted)"))
    path = whole = g_strndup (path, strlen (path) - strlen (" (deleted)"));

  sonde_writer_add_map (sonde_span_writer_state (out), &origin, mapping->start, mapping->end,
                        mapping->vdso ? 0 : mapping->offset, mapping->file.inode, path,
                        build_id[0] != '\0' ? build_id : NULL);
}

/* One place is left for the made-up name that says that there are too many. */
static gboolean
has_room_for_name (const SondeStreamState *self, const char *name)
{
  return self->names->len < SONDE_STREAM_STATE_MAX_NAMES - 1
         && self->n_name_bytes + strlen (name) < SONDE_STREAM_STATE_MAX_NAME_BYTES;
}

/* Returns our copy of @name. */
static const char *
append_name (SondeStreamState *self,
             uint64_t address,
             const char *name,
             gint64 time_ns,
             SondeSpanWriter *out)
{
  SondeFrameOrigin origin = { time_ns, -1, -1 };
  SondeJitName entry = { address, g_strdup (name) };

  self->n_name_bytes += strlen (name) + 1;
  g_array_append_val (self->names, entry);
  sonde_writer_add_jitmap (sonde_span_writer_state (out), &origin, &entry, 1);

  return entry.name;
}

uint64_t
sonde_stream_state_name (SondeStreamState *self,
                         const char *name,
                         gint64 time_ns,
                         SondeSpanWriter *out)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->made_up, name));
  const char *kept;

  if (index == 0 && !has_room_for_name (self, name))
    {
      name = TOO_MANY_NAMES;
      index = GPOINTER_TO_UINT (g_hash_table_lookup (self->made_up, name));
    }
  if (index == 0)
    {
      kept = append_name (self, SONDE_JIT_ADDRESS_BASE + self->names->len, name, time_ns, out);
      index = self->names->len;
      g_hash_table_insert (self->made_up, (gpointer) kept, GUINT_TO_POINTER (index));
    }

  return SONDE_JIT_ADDRESS_BASE + index - 1;
}

uint64_t
sonde_stream_state_name_code (SondeStreamState *self,
                              const char *name,
                              gint64 time_ns,
                              SondeSpanWriter *out)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->made_code, name));
  const char *kept;

  if (index == 0 && !has_room_for_name (self, name))
    return sonde_stream_state_name (self, TOO_MANY_NAMES, time_ns, out);
  if (index == 0)
    {
      kept = append_name (self, SONDE_JIT_CODE_BASE + self->names->len, name, time_ns, out);
      index = self->names->len;
      g_hash_table_insert (self->made_code, (gpointer) kept, GUINT_TO_POINTER (index));
    }

  return SONDE_JIT_CODE_BASE + index - 1;
}

gboolean
sonde_stream_state_name_address (SondeStreamState *self,
                                 uint64_t address,
                                 const char *name,
                                 gint64 time_ns,
                                 SondeSpanWriter *out)
{
  if (!has_room_for_name (self, name)
      || !g_hash_table_add (self->given, g_memdup2 (&address, sizeof address)))
    return FALSE;
  append_name (self, address, name, time_ns, out);

  return TRUE;
}

static void
held_clear (gpointer data)
{
  Held *held = data;

  g_ref_string_release (held->text);
  sonde_mapping_list_unref (held->mappings);
}

static void
hold_process (SondeProcess *process, void *user_data)
{
  SondeStateBase *self = user_data;
  gboolean is_written = sonde_process_flag (process, SONDE_PROCESS_FLAG_WRITTEN);
  SondeMappingList *mappings = is_written ? sonde_process_mapping_list (process) : NULL;
  Held held = { .pid = sonde_process_pid (process), .has_exited = sonde_process_exited (process) };
  char *text = g_hash_table_lookup (self->state->cmdlines, GINT_TO_POINTER (held.pid));

  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN))
    return;
  if (!is_written && (held.has_exited || !sonde_process_flag (process, SONDE_PROCESS_FLAG_FORKED)))
    return;

  held.text = text != NULL ? g_ref_string_acquire (text)
                           : g_ref_string_new (sonde_process_comm (process));
  if (mappings != NULL)
    sonde_process_resolve_modules (self->state->processes, process);
  held.mappings = mappings != NULL ? sonde_mapping_list_ref (mappings) : NULL;
  g_array_append_val (self->processes, held);
}

SondeStateBase *
sonde_state_base_new (SondeStreamState *state, gint64 realtime_ns, gint64 start_ns)
{
  SondeStateBase *self = g_new0 (SondeStateBase, 1);
  GHashTableIter iter;
  gpointer task;

  self->n_refs = 1;
  self->state = state;
  self->realtime_ns = realtime_ns;
  self->start_ns = start_ns;
  self->n_documents = state->documents->len;
  self->n_counters = state->counters->len;
  self->n_names = state->names->len;
  self->tasks = g_ptr_array_new_full (g_hash_table_size (state->tasks),
                                      (GDestroyNotify) g_ref_string_release);
  g_hash_table_iter_init (&iter, state->tasks);
  while (g_hash_table_iter_next (&iter, NULL, &task))
    g_ptr_array_add (self->tasks, g_ref_string_acquire (((StreamTask *) task)->line));
  self->processes = g_array_new (FALSE, FALSE, sizeof (Held));
  g_array_set_clear_func (self->processes, held_clear);
  sonde_process_table_foreach (state->processes, hold_process, self);

  return self;
}

SondeStateBase *
sonde_state_base_ref (SondeStateBase *self)
{
  self->n_refs++;
  return self;
}

void
sonde_state_base_unref (SondeStateBase *self)
{
  if (self == NULL || --self->n_refs > 0)
    return;

  g_ptr_array_unref (self->tasks);
  g_array_unref (self->processes);
  g_free (self);
}

gint64
sonde_state_base_start_ns (const SondeStateBase *self)
{
  return self->start_ns;
}

gsize
sonde_state_base_bytes (const SondeStateBase *self)
{
  gsize size_bytes
      = sizeof *self + self->tasks->len * sizeof (gpointer) + self->processes->len * sizeof (Held);

  for (guint i = 0; i < self->processes->len; i++)
    {
      const SondeMappingList *list = g_array_index (self->processes, Held, i).mappings;

      if (list != NULL)
        size_bytes += (sizeof *list + list->n_allocated * LISTED_BYTES) / list->n_refs;
    }
  return size_bytes;
}

SondeStateCursor *
sonde_state_cursor_new (SondeStreamState *state, gboolean with_header)
{
  SondeStateBase *base = sonde_state_base_new (state, state->realtime_ns, state->start_ns);
  SondeStateCursor *self = sonde_state_cursor_over (base, NULL);

  self->part = with_header ? PART_HEADER : PART_METADATA;
  sonde_state_base_unref (base);
  return self;
}

SondeStateCursor *
sonde_state_cursor_over (SondeStateBase *base, const char *more)
{
  SondeStateCursor *self = g_new0 (SondeStateCursor, 1);

  self->base = sonde_state_base_ref (base);
  self->more = g_strdup (more);
  self->part = PART_HEADER;
  return self;
}

void
sonde_state_cursor_free (SondeStateCursor *self)
{
  if (self == NULL)
    return;

  sonde_state_base_unref (self->base);
  g_free (self->more);
  g_free (self);
}

/* Returns how many bytes of it were written. */
static gsize
write_chunk (const SondeStreamState *self,
             const char *path,
             GBytes *content,
             gsize offset,
             SondeSpanWriter *out)
{
  SondeFrameOrigin origin = { self->start_ns, -1, -1 };
  gsize size_bytes;
  const guint8 *bytes = g_bytes_get_data (content, &size_bytes);
  gsize piece = MIN (size_bytes - offset, SONDE_WRITER_MAX_CHUNK);

  sonde_writer_add_file_chunk (sonde_span_writer_state (out), &origin, path,
                               piece > 0 ? bytes + offset : (const guint8 *) "", piece,
                               offset + piece == size_bytes);

  return piece;
}

void
sonde_stream_state_write_document (const SondeStreamState *self,
                                   const char *path,
                                   GBytes *content,
                                   SondeSpanWriter *out)
{
  gsize offset = 0;

  do
    offset += write_chunk (self, path, content, offset, out);
  while (offset < g_bytes_get_size (content));
}

static gboolean
write_process (SondeStateCursor *self, SondeSpanWriter *out)
{
  SondeFrameOrigin origin = { self->base->state->start_ns, -1, -1 };
  const GArray *processes = self->base->processes;
  const Held *held;
  gsize n_mappings, end;

  if (self->index >= processes->len)
    return FALSE;

  held = &g_array_index (processes, Held, self->index);
  origin.pid = held->pid;
  n_mappings = held->mappings != NULL ? held->mappings->n_mappings : 0;
  if (self->offset == 0)
    sonde_writer_add_process (sonde_span_writer_state (out), &origin, held->text);

  end = MIN (n_mappings, self->offset + MAPS_A_PIECE);
  for (; self->offset < end; self->offset++)
    sonde_stream_state_write_map (held->pid, &held->mappings->mappings[self->offset],
                                  origin.time_ns, out);
  if (self->offset < n_mappings)
    return TRUE;

  /* Late samples may still be of it. */
  if (held->has_exited)
    sonde_writer_add_exit (sonde_span_writer_plain (out), &origin);
  self->index++;
  self->offset = 0;

  return TRUE;
}

/* Returns whether the part has more. */
static gboolean
write_piece (SondeStateCursor *self, SondeSpanWriter *out)
{
  const SondeStateBase *base = self->base;
  SondeStreamState *state = base->state;
  SondeFrameOrigin origin = { state->start_ns, -1, -1 };
  const StreamDocument *document;
  g_autofree char *metadata = NULL;
  guint n_names;

  switch (self->part)
    {
    case PART_HEADER:
      sonde_writer_add_file_header (sonde_span_writer_state (out), base->realtime_ns,
                                    base->start_ns);
      return FALSE;
    case PART_METADATA:
      if (state->metadata == NULL)
        return FALSE;
      metadata = g_strconcat (state->metadata, self->more, NULL);
      sonde_writer_add_metadata (sonde_span_writer_state (out), &origin, "sonde", metadata,
                                 strlen (metadata));
      return FALSE;
    case PART_DOCUMENTS:
      if (self->index >= base->n_documents)
        return FALSE;
      document = &g_array_index (state->documents, StreamDocument, self->index);
      self->offset += write_chunk (state, document->path, document->content, self->offset, out);
      if (self->offset == g_bytes_get_size (document->content))
        {
          self->index++;
          self->offset = 0;
        }
      return TRUE;
    case PART_LEDGER:
      sonde_tally_write_definitions (sonde_span_writer_state (out), &origin);
      return FALSE;
    case PART_COUNTERS:
      if (self->index < base->n_counters)
        self->index
            = write_definitions (state, self->index, base->n_counters, state->start_ns, out);
      return self->index < base->n_counters;
    case PART_NAMES:
      n_names = MIN (base->n_names - self->index, NAMES_A_PIECE);
      if (n_names > 0)
        sonde_writer_add_jitmap (sonde_span_writer_state (out), &origin,
                                 &g_array_index (state->names, SondeJitName, self->index), n_names);
      self->index += n_names;
      return n_names > 0;
    case PART_TASKS:
      return write_held_tasks (self, out);
    case PART_PROCESSES:
      return write_process (self, out);
    case PART_END:
    default:
      return FALSE;
    }
}

gboolean
sonde_state_cursor_write (SondeStateCursor *self, SondeSpanWriter *out)
{
  if (!write_piece (self, out) && self->part != PART_END)
    {
      self->part++;
      self->index = 0;
      self->offset = 0;
    }

  return self->part != PART_END;
}
