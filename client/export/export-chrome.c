/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trace events of Chrome, which Perfetto, chrome://tracing and others read.
 * Source: "Trace Event Format",
 * docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
 */
#include "client/export/export.h"

#include <math.h>
#include <string.h>

#include "client/base/id-map.h"
#include "client/base/json.h"

#define MACHINE_PID    0   /* of counters that are of no process */
#define MAX_NAME_BYTES 256 /* of a function, which stands at each change of a stack */
#define MAX_INTERVALS  3   /* without a sample: it was not running */

/* A function, as JSON. */
typedef struct
{
  const char *name; /* NULL: not needed yet */
  const char *module;
} Named;

/* A function lasts from the first sample that has it at a depth, below the same callers, to the
 * first one that has not. A thread that was not sampled for several intervals was not running: then
 * its functions end one interval after the last sample. */
typedef struct
{
  gint32 pid;
  gint32 tid;
  gint64 last_ns;
  gint64 told_ns; /* no time that is told is earlier */
  GArray *open;   /* guint32: functions, outermost first */
} SliceThread;

typedef struct
{
  SondeExportSource *source;
  SondeExportOutput *output;
  gint64 interval_ns;     /* between samples of a thread that runs */
  GPtrArray *threads;     /* SliceThread: memory grows with them and their depth */
  SondeIdMap *thread_ids; /* pid << 32 | tid → index of threads */
  SondeCallTree *stacks;  /* its nodes are the "stackFrames" */
  Named *functions;       /* by function */
  GStringChunk *chunk;    /* where their texts are */
  gboolean has_any;
  guint64 n_marks;
} ChromeTrace;

static void
thread_free (gpointer data)
{
  SliceThread *thread = data;

  g_array_unref (thread->open);
  g_free (thread);
}

static GString *
begin_event (ChromeTrace *self, const char *phase, gint32 pid, gint32 tid, gint64 time_ns)
{
  GString *out = self->output->text;
  guint64 size;

  g_string_append_printf (out, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":",
                          self->has_any ? ",\n" : "\n", phase, pid, tid);
  self->has_any = TRUE;
  /* Microseconds, with all of the nanoseconds. */
  size = time_ns < 0 ? 0 - (guint64) time_ns : (guint64) time_ns;
  g_string_append_printf (out, "%s%" G_GUINT64_FORMAT ".%03u", time_ns < 0 ? "-" : "", size / 1000,
                          (unsigned) (size % 1000));

  return out;
}

static void
end_event (ChromeTrace *self)
{
  g_string_append_c (self->output->text, '}');
  sonde_export_output_pass (self->output);
}

static void
append_text (GString *out, const char *key, const char *text)
{
  g_string_append_printf (out, ",\"%s\":", key);
  sonde_json_append_escaped (out, text);
}

/* --- what is told --- */

static const char *
insert_json (ChromeTrace *self, const char *text)
{
  g_autoptr (GString) json = g_string_new (NULL);

  sonde_json_append_escaped (json, text);
  return g_string_chunk_insert (self->chunk, json->str);
}

static const Named *
ensure_function (ChromeTrace *self, guint32 number)
{
  const SondeFunction *function = sonde_export_source_function (self->source, number);
  Named *named = &self->functions[number];
  g_autofree char *name = NULL;

  if (named->name != NULL)
    return named;
  name = g_strdup (function->name);
  if (strlen (name) > MAX_NAME_BYTES)
    strcpy (g_utf8_find_prev_char (name, name + MAX_NAME_BYTES - strlen ("…")), "…");
  named->name = insert_json (self, name);
  named->module = insert_json (self, function->module);
  return named;
}

/* Not one event with a duration: where one function follows another, the sum of its start and
 * duration is not the other's start, to the last bit of a reader's floating-point numbers.
 * @phase: "B": the thread's function at a depth begins; "E": it ends */
static void
write_slice (ChromeTrace *self, const SliceThread *thread, guint depth, const char *phase)
{
  const Named *named = ensure_function (self, g_array_index (thread->open, guint32, depth));
  GString *out = begin_event (self, phase, thread->pid, thread->tid, thread->told_ns);

  g_string_append (out, ",\"name\":");
  g_string_append (out, named->name);
  g_string_append (out, ",\"cat\":");
  g_string_append (out, named->module[1] != '"' ? named->module : "\"code\"");
  end_event (self);
}

/* Ends all but the outermost @n_stay. */
static void
end_slices (ChromeTrace *self, SliceThread *thread, guint n_stay, gint64 time_ns)
{
  thread->told_ns = MAX (thread->told_ns, time_ns);
  for (guint i = thread->open->len; i > n_stay; i--)
    write_slice (self, thread, i - 1, "E");
  g_array_set_size (thread->open, n_stay);
}

/* Where the thread stopped after its last sample; times are foreign. */
static gint64
end_of (const ChromeTrace *self, const SliceThread *thread)
{
  gint64 end_ns;

  return __builtin_add_overflow (thread->last_ns, self->interval_ns, &end_ns) ? thread->last_ns
                                                                              : end_ns;
}

/* NULL if there is no room: what it does is not told. */
static SliceThread *
ensure_thread (ChromeTrace *self, const SondeExportStack *sample)
{
  guint64 key = (guint64) (guint32) sample->pid << 32 | (guint32) sample->tid;
  SliceThread *thread;
  guint32 index;

  if (sonde_id_map_lookup (self->thread_ids, key, &index))
    return g_ptr_array_index (self->threads, index);
  if (!sonde_budget_take (sonde_capture_model_budget (self->source->model), SONDE_LIMIT_THREADS, 1))
    return NULL;
  thread = g_new0 (SliceThread, 1);
  thread->pid = sample->pid;
  thread->tid = sample->tid;
  thread->last_ns = sample->time_ns;
  thread->told_ns = sample->time_ns;
  thread->open = g_array_new (FALSE, FALSE, sizeof (guint32));
  sonde_id_map_set (self->thread_ids, key, self->threads->len);
  g_ptr_array_add (self->threads, thread);
  return thread;
}

/* One that is a little late counts as of the time of the one before. */
static void
add_slices (ChromeTrace *self, const SondeExportStack *sample)
{
  SliceThread *thread = ensure_thread (self, sample);
  gint64 time_ns = sample->time_ns;
  gint64 gap_ns;
  guint n_same = 0;

  if (thread == NULL)
    return;
  time_ns = MAX (time_ns, thread->last_ns);
  if (__builtin_sub_overflow (time_ns, thread->last_ns, &gap_ns)
      || gap_ns / MAX_INTERVALS > self->interval_ns)
    end_slices (self, thread, 0, end_of (self, thread));
  while (n_same < thread->open->len && n_same < sample->n_frames
         && g_array_index (thread->open, guint32, n_same) == sample->functions[n_same])
    n_same++;
  end_slices (self, thread, n_same, time_ns);
  for (gsize i = n_same; i < sample->n_frames; i++)
    g_array_append_val (thread->open, sample->functions[i]);
  for (guint i = n_same; i < thread->open->len; i++)
    write_slice (self, thread, i, "B");
  thread->last_ns = time_ns;
}

/* The stack of an event. */
static void
append_stack (ChromeTrace *self, GString *out, const SondeExportStack *stack)
{
  guint32 node = sonde_call_tree_add (self->stacks, stack->functions, stack->n_frames, 1);

  if (node != 0)
    g_string_append_printf (out, ",\"sf\":%u", node);
}

static void
write_sample (const SondeExportStack *sample, gpointer user_data)
{
  ChromeTrace *self = user_data;
  GString *out = begin_event (self, "P", sample->pid, sample->tid, sample->time_ns);

  g_string_append (out, ",\"name\":\"sample\",\"cat\":\"samples\"");
  append_stack (self, out, sample);
  end_event (self);
  add_slices (self, sample);
}

static void
write_allocation (const SondeExportStack *allocation, gpointer user_data)
{
  ChromeTrace *self = user_data;
  GString *out = begin_event (self, "i", allocation->pid, allocation->tid, allocation->time_ns);

  g_string_append_printf (out,
                          ",\"s\":\"t\",\"name\":\"allocation\",\"cat\":\"memory\","
                          "\"args\":{\"bytes\":%" G_GINT64_FORMAT "}",
                          allocation->size_bytes);
  append_stack (self, out, allocation);
  end_event (self);
}

static void
append_mark (GString *out, const SondeModelMark *mark, guint64 id)
{
  append_text (out, "name", mark->name);
  append_text (out, "cat", mark->group[0] != '\0' ? mark->group : "marks");
  if (id > 0)
    g_string_append_printf (out, ",\"id\":%" G_GUINT64_FORMAT, id);
  if (mark->message[0] != '\0')
    {
      g_string_append (out, ",\"args\":{\"message\":");
      sonde_json_append_escaped (out, mark->message);
      g_string_append_c (out, '}');
    }
}

/* Marks of a process may overlap in any way: only asynchronous events may. */
static void
write_mark (const SondeModelMark *mark, gpointer user_data)
{
  ChromeTrace *self = user_data;
  gint32 pid = MAX (mark->pid, MACHINE_PID);
  gint64 end_ns;

  if (mark->duration_ns <= 0 || __builtin_add_overflow (mark->time_ns, mark->duration_ns, &end_ns))
    {
      append_mark (begin_event (self, "i", pid, pid, mark->time_ns), mark, 0);
      g_string_append (self->output->text, ",\"s\":\"p\"");
      end_event (self);
      return;
    }
  self->n_marks++;
  append_mark (begin_event (self, "b", pid, pid, mark->time_ns), mark, self->n_marks);
  end_event (self);
  append_mark (begin_event (self, "e", pid, pid, end_ns), mark, self->n_marks);
  end_event (self);
}

static void
write_value (const SondeModelValue *value, gpointer user_data)
{
  ChromeTrace *self = user_data;
  const SondeModelCounter *counter
      = sonde_capture_model_counter (self->source->model, value->counter);
  gint32 pid = MAX (value->pid, MACHINE_PID);
  g_autofree char *name = g_strdup_printf ("%s/%s", counter->category, counter->name);
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  GString *out;

  /* JSON has no such numbers. */
  if (counter->is_double && !isfinite (value->value.vdbl))
    return;
  out = begin_event (self, "C", pid, pid, value->time_ns);
  append_text (out, "name", name);
  if (counter->is_double)
    g_string_append_printf (out, ",\"args\":{\"value\":%s}",
                            g_ascii_dtostr (digits, sizeof digits, value->value.vdbl));
  else
    g_string_append_printf (out, ",\"args\":{\"value\":%" G_GINT64_FORMAT "}", value->value.v64);
  end_event (self);
}

/* --- the document --- */

static void
write_metadata (ChromeTrace *self, const char *name, gint32 pid, const char *key, const char *text)
{
  GString *out = begin_event (self, "M", pid, pid, 0);

  g_string_append_printf (out, ",\"name\":\"%s\",\"args\":{\"%s\":", name, key);
  sonde_json_append_escaped (out, text);
  g_string_append_c (out, '}');
  end_event (self);
}

static void
name_thread (ChromeTrace *self, const SliceThread *thread)
{
  const SondeCaptureModel *model = self->source->model;
  const char *name = sonde_capture_model_own_thread_name (model, thread->pid, thread->tid);
  GString *out;

  if (name == NULL)
    return;
  out = begin_event (self, "M", thread->pid, thread->tid, 0);
  g_string_append (out, ",\"name\":\"thread_name\",\"args\":{\"name\":");
  sonde_json_append_escaped (out, name);
  g_string_append_c (out, '}');
  end_event (self);
}

gboolean
sonde_export_chrome (SondeExportSource *source,
                     SondeUnit unit,
                     SondeExportOutput *output,
                     GError **error)
{
  static const SondeExportFuncs funcs = {
    .sample = write_sample, .allocation = write_allocation, .mark = write_mark, .value = write_value
  };
  ChromeTrace trace = { .source = source, .output = output };
  g_autoptr (SondeCallTree) stacks
      = sonde_call_tree_new (sonde_capture_model_budget (source->model));
  g_autofree Named *functions = g_new0 (Named, source->n_functions);
  g_autoptr (GPtrArray) threads = g_ptr_array_new_with_free_func (thread_free);
  g_autoptr (SondeIdMap) thread_ids = sonde_id_map_new ();
  gboolean is_read;
  const SondeCaptureModel *model;
  GString *out;

  trace.stacks = stacks;
  trace.functions = functions;
  trace.chunk = g_string_chunk_new (4096);
  trace.interval_ns = sonde_export_source_interval_ns (source);
  trace.threads = threads;
  trace.thread_ids = thread_ids;
  sonde_export_output_printf (output, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
  /* The last name that a process goes by stays. */
  model = trace.source->model;
  write_metadata (&trace, "process_name", MACHINE_PID, "name", "machine");
  for (guint i = 0; i < sonde_capture_model_n_processes (model); i++)
    {
      const SondeModelProcess *process = sonde_capture_model_process (model, i);

      write_metadata (&trace, "process_name", process->pid, "name", process->comm);
      write_metadata (&trace, "process_labels", process->pid, "labels", process->cmdline);
    }
  is_read = sonde_export_source_run (source, &funcs, &trace, error);
  if (!is_read)
    {
      g_string_chunk_free (trace.chunk);
      return FALSE;
    }
  for (guint i = 0; i < threads->len; i++)
    {
      SliceThread *thread = g_ptr_array_index (threads, i);

      name_thread (&trace, thread);
      end_slices (&trace, thread, 0, end_of (&trace, thread));
    }
  sonde_export_output_printf (output, "],\n\"stackFrames\":{");
  out = trace.output->text;
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (trace.stacks); i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (trace.stacks, i);
      const Named *named = ensure_function (&trace, node->id);

      g_string_append_printf (out, "%s\"%u\":{\"name\":", i > 1 ? ",\n" : "\n", i);
      g_string_append (out, named->name);
      g_string_append (out, ",\"category\":");
      g_string_append (out, named->module);
      if (node->parent != 0)
        g_string_append_printf (out, ",\"parent\":%u", node->parent);
      g_string_append_c (out, '}');
      sonde_export_output_pass (trace.output);
    }
  g_string_chunk_free (trace.chunk);
  sonde_export_output_printf (output, "}}\n");
  return TRUE;
}
