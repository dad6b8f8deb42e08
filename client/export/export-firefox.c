/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The Firefox Profiler's "processed profile", version 48, which later ones upgrade.
 * Source: github.com/firefox-devtools/profiler, src/types/profile.js and
 * docs-developer/CHANGELOG-formats.md */
#include "client/export/export.h"

#include <math.h>
#include <string.h>

#include "client/base/id-map.h"
#include "client/base/json.h"
#include "client/base/text-pool.h"
#include "client/base/text.h"
#include "config.h"

#define CATEGORY_USER   1
#define CATEGORY_KERNEL 2
#define NS_PER_MS       1e6
#define MAX_THREADS     200

/* Of a sample, or of an allocation. */
typedef struct
{
  gint64 time_ns;
  gint64 size_bytes; /* allocated; 0 of a sample */
  guint32 stack;     /* node of the thread's stacks; 0: none */
} FirefoxMoment;

typedef struct
{
  gint64 time_ns;
  gint64 duration_ns; /* 0: an instant */
  const char *group;  /* this and what follows may be invalid UTF-8 */
  const char *name;
  const char *message;
} FirefoxMark;

typedef struct
{
  gint32 pid;
  gint32 tid;
  guint process;    /* number of its process when it was seen last, G_MAXUINT if there is none */
  const char *comm; /* of that process; may be invalid UTF-8, as */
  const char *name; /* its own */
  SondeCallTree *stacks; /* ids are numbers of functions */
  GArray *samples;       /* FirefoxMoment, by time */
  GArray *allocations;   /* FirefoxMoment, by time */
  GArray *marks;         /* FirefoxMark; of the process, in its first thread */
} FirefoxThread;

typedef struct
{
  gint64 time_ns;
  SondeCounterValue value;
} FirefoxValue;

typedef struct
{
  guint counter;  /* number of the counter */
  gint32 pid;     /* -1: the machine */
  GArray *values; /* FirefoxValue, by time */
} FirefoxSeries;

/* The format wants all of a thread in one place: 24 bytes for each sample are held. Threads that
 * have no room are one, whose pid and tid are -1. */
typedef struct
{
  SondeExportSource *source;
  SondeExportOutput *output;
  SondeBudget *budget;
  GPtrArray *threads;    /* FirefoxThread; those of a process stand together, its first one first */
  GPtrArray *series;     /* FirefoxSeries */
  SondeTextPool *texts;  /* of marks */
  SondeIdMap *by_thread; /* pid << 32 | tid → index; while they are read */
  SondeIdMap *by_counter; /* pid << 32 | counter → index; as well */
  GHashTable *libraries;  /* module → index + 1 */
  GPtrArray *modules;     /* in order; the functions' own */
} Document;

/* --- what is told of threads --- */

static void
thread_free (gpointer data)
{
  FirefoxThread *self = data;

  sonde_call_tree_free (self->stacks);
  g_array_unref (self->samples);
  g_array_unref (self->allocations);
  g_array_unref (self->marks);
  g_free (self);
}

static void
series_free (gpointer data)
{
  FirefoxSeries *self = data;

  g_array_unref (self->values);
  g_free (self);
}

static guint64
key_of (gint32 pid, guint32 number)
{
  return (guint64) (guint32) pid << 32 | number;
}

static FirefoxThread *
ensure_thread (Document *self, gint32 pid, gint32 tid)
{
  FirefoxThread *thread;
  guint32 index;

  if (sonde_id_map_lookup (self->by_thread, key_of (pid, (guint32) tid), &index))
    return g_ptr_array_index (self->threads, index);
  if (tid != SONDE_TID_TRUNCATED && !sonde_budget_take (self->budget, SONDE_LIMIT_THREADS, 1))
    return ensure_thread (self, -1, SONDE_TID_TRUNCATED);
  thread = g_new0 (FirefoxThread, 1);
  thread->pid = pid;
  thread->tid = tid;
  thread->process = G_MAXUINT;
  thread->stacks = sonde_call_tree_new (self->budget);
  thread->samples = g_array_new (FALSE, FALSE, sizeof (FirefoxMoment));
  thread->allocations = g_array_new (FALSE, FALSE, sizeof (FirefoxMoment));
  thread->marks = g_array_new (FALSE, FALSE, sizeof (FirefoxMark));
  sonde_id_map_set (self->by_thread, key_of (pid, (guint32) tid), self->threads->len);
  g_ptr_array_add (self->threads, thread);
  return thread;
}

static void
add_moment (Document *self, const SondeExportStack *stack, gboolean is_sample)
{
  FirefoxThread *thread = ensure_thread (self, stack->pid, stack->tid);
  FirefoxMoment moment = { stack->time_ns, stack->size_bytes, 0 };

  thread->process = stack->process;
  moment.stack = sonde_call_tree_add (thread->stacks, stack->functions, stack->n_frames, 1);
  if (sonde_budget_take (self->budget, SONDE_LIMIT_SAMPLES, 1))
    g_array_append_val (is_sample ? thread->samples : thread->allocations, moment);
}

static void
take_sample (const SondeExportStack *sample, gpointer user_data)
{
  add_moment (user_data, sample, TRUE);
}

static void
take_allocation (const SondeExportStack *allocation, gpointer user_data)
{
  add_moment (user_data, allocation, FALSE);
}

static void
take_mark (const SondeModelMark *mark, gpointer user_data)
{
  Document *self = user_data;
  gint32 pid = MAX (mark->pid, 0);
  FirefoxMark copy = { .time_ns = mark->time_ns, .duration_ns = MAX (mark->duration_ns, 0) };

  if (!sonde_budget_take (self->budget, SONDE_LIMIT_MARKS, 1))
    return;
  copy.group = sonde_text_pool_add (self->texts, mark->group, G_MAXUINT16);
  copy.name = sonde_text_pool_add (self->texts, mark->name, G_MAXUINT16);
  copy.message = sonde_text_pool_add (self->texts, mark->message, G_MAXUINT16);
  g_array_append_val (ensure_thread (self, pid, pid)->marks, copy);
}

static void
take_value (const SondeModelValue *value, gpointer user_data)
{
  Document *self = user_data;
  guint64 key = key_of (value->pid, value->counter);
  FirefoxValue copy = { value->time_ns, value->value };
  FirefoxSeries *series;
  guint32 index;

  if (!sonde_budget_take (self->budget, SONDE_LIMIT_VALUES, 1))
    return;
  if (!sonde_id_map_lookup (self->by_counter, key, &index))
    {
      if (!sonde_budget_take (self->budget, SONDE_LIMIT_COUNTERS, 1))
        return;
      series = g_new0 (FirefoxSeries, 1);
      series->counter = value->counter;
      series->pid = value->pid;
      series->values = g_array_new (FALSE, FALSE, sizeof (FirefoxValue));
      index = self->series->len;
      sonde_id_map_set (self->by_counter, key, index);
      g_ptr_array_add (self->series, series);
    }
  series = g_ptr_array_index (self->series, index);
  g_array_append_val (series->values, copy);
}

/* --- order --- */

/* All three begin with their time. */
static int
compare_times (gconstpointer a, gconstpointer b)
{
  gint64 x = *(const gint64 *) a;
  gint64 y = *(const gint64 *) b;

  return (x > y) - (x < y);
}

/* The first thread of a process has its number. */
static int
compare_threads (gconstpointer a, gconstpointer b)
{
  const FirefoxThread *x = *(const FirefoxThread *const *) a;
  const FirefoxThread *y = *(const FirefoxThread *const *) b;

  if (x->pid != y->pid)
    return x->pid < y->pid ? -1 : 1;
  if ((x->tid == x->pid) != (y->tid == y->pid))
    return x->tid == x->pid ? -1 : 1;
  return (x->tid > y->tid) - (x->tid < y->tid);
}

static int
compare_weights (gconstpointer a, gconstpointer b)
{
  const FirefoxThread *x = *(const FirefoxThread *const *) a;
  const FirefoxThread *y = *(const FirefoxThread *const *) b;
  guint left = x->samples->len + x->allocations->len;
  guint right = y->samples->len + y->allocations->len;

  return left != right ? (left > right ? -1 : 1) : compare_threads (a, b);
}

static void
append_moments (GArray *sum, const GArray *moments, const guint32 *nodes)
{
  for (guint i = 0; i < moments->len; i++)
    {
      FirefoxMoment moment = g_array_index (moments, FirefoxMoment, i);

      moment.stack = nodes[moment.stack];
      g_array_append_val (sum, moment);
    }
}

/* Adds to @sum all that @thread has. */
static void
merge_thread (FirefoxThread *sum, const FirefoxThread *thread)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (thread->stacks);
  g_autofree guint32 *nodes = g_new0 (guint32, n_nodes);

  for (guint32 i = 1; i < n_nodes; i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (thread->stacks, i);

      nodes[i] = sonde_call_tree_ensure_child (sum->stacks, nodes[node->parent], node->id);
    }
  append_moments (sum->samples, thread->samples, nodes);
  append_moments (sum->allocations, thread->allocations, nodes);
  g_array_append_vals (sum->marks, thread->marks->data, thread->marks->len);
}

/* The viewer draws a lane for each thread: of more than it can show the lightest are one. */
static void
merge_lightest (Document *self)
{
  guint n = self->threads->len;
  g_autofree char *count = NULL;
  g_autofree char *name = NULL;
  FirefoxThread *rest;

  if (n <= MAX_THREADS)
    return;
  g_ptr_array_sort (self->threads, compare_weights);
  rest = g_ptr_array_index (self->threads, MAX_THREADS - 1);
  for (guint i = MAX_THREADS; i < n; i++)
    merge_thread (rest, g_ptr_array_index (self->threads, i));
  g_ptr_array_set_size (self->threads, MAX_THREADS);
  count = sonde_text_count (n - MAX_THREADS + 1);
  name = g_strdup_printf ("[%s more threads]", count);
  rest->pid = rest->tid = -1;
  rest->comm = rest->name = sonde_text_pool_add (self->texts, name, G_MAXUINT16);
}

/* Walks what the capture tells of each thread, in the order of time. */
static gboolean
read_threads (Document *self, GError **error)
{
  static const SondeExportFuncs funcs = {
    .sample = take_sample, .allocation = take_allocation, .mark = take_mark, .value = take_value
  };
  gboolean is_read;

  self->by_thread = sonde_id_map_new ();
  self->by_counter = sonde_id_map_new ();
  is_read = sonde_export_source_run (self->source, &funcs, self, error);
  /* Counters want a thread to stand at. */
  if (self->series->len > 0 && self->threads->len == 0)
    ensure_thread (self, 0, 0);
  sonde_id_map_free (self->by_thread);
  sonde_id_map_free (self->by_counter);
  if (!is_read)
    return FALSE;
  for (guint i = 0; i < self->threads->len; i++)
    {
      FirefoxThread *thread = g_ptr_array_index (self->threads, i);

      if (thread->tid == SONDE_TID_TRUNCATED)
        thread->comm = SONDE_TRUNCATED;
      else if (thread->process == G_MAXUINT)
        thread->comm = "?";
      else
        {
          const SondeModelProcess *process
              = sonde_capture_model_process (self->source->model, thread->process);

          thread->comm = process->comm;
          thread->name
              = sonde_capture_model_thread_name (self->source->model, process, thread->tid);
        }
      if (thread->name == NULL)
        thread->name = thread->comm;
    }
  merge_lightest (self);
  g_ptr_array_sort (self->threads, compare_threads);
  for (guint i = 0; i < self->threads->len; i++)
    {
      const FirefoxThread *thread = g_ptr_array_index (self->threads, i);

      g_array_sort (thread->samples, compare_times);
      g_array_sort (thread->allocations, compare_times);
      g_array_sort (thread->marks, compare_times);
    }
  for (guint i = 0; i < self->series->len; i++)
    g_array_sort (((FirefoxSeries *) g_ptr_array_index (self->series, i))->values, compare_times);
  return TRUE;
}

/* Index of the first thread of @pid, or of any; 0 if there is none of it. */
static guint
find_thread (const Document *self, gint32 pid)
{
  guint low = 0;
  guint high = self->threads->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (((FirefoxThread *) g_ptr_array_index (self->threads, middle))->pid < pid)
        low = middle + 1;
      else
        high = middle;
    }
  if (low < self->threads->len
      && ((FirefoxThread *) g_ptr_array_index (self->threads, low))->pid == pid)
    return low;
  return 0;
}

/* --- tables --- */

/* The functions of one thread: each is one frame, too. */
typedef struct
{
  GArray *functions;     /* guint32: numbers of the source, by local index */
  GHashTable *index;     /* number + 1 → local index + 1 */
  GArray *libraries;     /* guint: numbers of the document's, by the thread's resource */
  GHashTable *resources; /* number of a library + 1 → resource + 1 */
} Locals;

/* One value of a table's column. */
typedef void (*Column) (const Document *self, GString *out, gconstpointer table, guint row);

static void
write_column (
    const Document *self, const char *name, Column column, gconstpointer table, guint n_rows)
{
  GString *out = self->output->text;

  g_string_append_printf (out, "\"%s\":[", name);
  for (guint i = 0; i < n_rows; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      column (self, out, table, i);
      sonde_export_output_pass (self->output);
    }
  g_string_append (out, "],");
}

/* The same value in each row. */
static void
write_constant (const Document *self, const char *name, const char *value, guint n_rows)
{
  GString *out = self->output->text;

  g_string_append_printf (out, "\"%s\":[", name);
  for (guint i = 0; i < n_rows; i++)
    {
      g_string_append_printf (out, i > 0 ? ",%s" : "%s", value);
      sonde_export_output_pass (self->output);
    }
  g_string_append (out, "],");
}

static void
begin_table (const Document *self, const char *name)
{
  sonde_export_output_printf (self->output, "\n\"%s\":{", name);
}

static void
end_table (const Document *self, guint n_rows)
{
  sonde_export_output_printf (self->output, "\"length\":%u},", n_rows);
}

static void
append_ms (const Document *self, GString *out, gint64 time_ns)
{
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  double ms = ((double) time_ns - (double) self->source->start_ns) / NS_PER_MS;

  g_string_append (out, g_ascii_formatd (digits, sizeof digits, "%.6f", ms));
}

/* --- samples and allocations --- */

static void
moment_time (const Document *self, GString *out, gconstpointer table, guint row)
{
  append_ms (self, out, g_array_index ((GArray *) table, FirefoxMoment, row).time_ns);
}

static void
moment_stack (const Document *self, GString *out, gconstpointer table, guint row)
{
  guint32 stack = g_array_index ((GArray *) table, FirefoxMoment, row).stack;

  if (stack == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", stack - 1);
}

static void
moment_bytes (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%" G_GINT64_FORMAT,
                          g_array_index ((GArray *) table, FirefoxMoment, row).size_bytes);
}

static void
write_moments (const Document *self, const FirefoxThread *thread)
{
  begin_table (self, "samples");
  write_column (self, "time", moment_time, thread->samples, thread->samples->len);
  write_column (self, "stack", moment_stack, thread->samples, thread->samples->len);
  sonde_export_output_printf (self->output, "\"weight\":null,\"weightType\":\"samples\",");
  end_table (self, thread->samples->len);
  if (thread->allocations->len == 0)
    return;
  begin_table (self, "nativeAllocations");
  write_column (self, "time", moment_time, thread->allocations, thread->allocations->len);
  write_column (self, "stack", moment_stack, thread->allocations, thread->allocations->len);
  write_column (self, "weight", moment_bytes, thread->allocations, thread->allocations->len);
  sonde_export_output_printf (self->output, "\"weightType\":\"bytes\",");
  end_table (self, thread->allocations->len);
}

/* --- stacks, frames, functions --- */

static guint
local_index (Locals *locals, guint32 function)
{
  gpointer key = GSIZE_TO_POINTER ((gsize) function + 1);
  guint known = GPOINTER_TO_UINT (g_hash_table_lookup (locals->index, key));

  if (known > 0)
    return known - 1;
  g_array_append_val (locals->functions, function);
  g_hash_table_insert (locals->index, key, GUINT_TO_POINTER (locals->functions->len));
  return locals->functions->len - 1;
}

static const SondeFunction *
local_function (const Document *self, const Locals *locals, guint row)
{
  return sonde_export_source_function (self->source,
                                       g_array_index (locals->functions, guint32, row));
}

static guint
category_of (const SondeFunction *function)
{
  return g_str_equal (function->module, "[kernel]") ? CATEGORY_KERNEL : CATEGORY_USER;
}

typedef struct
{
  const SondeCallTree *stacks;
  Locals *locals;
} Stacks;

/* Row n is node n + 1: the root is no stack. */
static const SondeCallNode *
stack_node (gconstpointer table, guint row)
{
  return sonde_call_tree_node (((const Stacks *) table)->stacks, row + 1);
}

static void
stack_prefix (const Document *self, GString *out, gconstpointer table, guint row)
{
  guint32 parent = stack_node (table, row)->parent;

  if (parent == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", parent - 1);
}

static void
stack_frame (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (
      out, "%u", local_index (((const Stacks *) table)->locals, stack_node (table, row)->id));
}

static void
stack_category (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (
      out, "%u",
      category_of (sonde_export_source_function (self->source, stack_node (table, row)->id)));
}

static void
frame_row (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u", row);
}

static void
frame_category (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u", category_of (local_function (self, table, row)));
}

/* A thread has resources for the libraries of its functions, -1: of none. */
static gint
resource_of (const Document *self, const Locals *locals, const char *module)
{
  gpointer library = g_hash_table_lookup (self->libraries, module);
  guint number = GPOINTER_TO_UINT (library) - 1;
  guint known = GPOINTER_TO_UINT (g_hash_table_lookup (locals->resources, library));

  if (library == NULL || known > 0)
    return (gint) known - 1;
  g_array_append_val (locals->libraries, number);
  g_hash_table_insert (locals->resources, library, GUINT_TO_POINTER (locals->libraries->len));
  return (gint) locals->libraries->len - 1;
}

static void
func_resource (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%d",
                          resource_of (self, table, local_function (self, table, row)->module));
}

static void
resource_library (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u",
                          g_array_index (((const Locals *) table)->libraries, guint, row));
}

/* Strings: functions, then the modules of resources, then marks. */
static void
resource_name (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u", ((const Locals *) table)->functions->len + row);
}

static void
write_stacks (const Document *self, const FirefoxThread *thread, Locals *locals)
{
  Stacks stacks = { thread->stacks, locals };
  guint n_stacks = sonde_call_tree_n_nodes (thread->stacks) - 1;
  guint n;

  begin_table (self, "stackTable");
  write_column (self, "prefix", stack_prefix, &stacks, n_stacks);
  write_column (self, "frame", stack_frame, &stacks, n_stacks);
  write_column (self, "category", stack_category, &stacks, n_stacks);
  write_constant (self, "subcategory", "0", n_stacks);
  end_table (self, n_stacks);

  n = locals->functions->len;
  begin_table (self, "frameTable");
  write_constant (self, "address", "-1", n);
  write_constant (self, "inlineDepth", "0", n);
  write_column (self, "category", frame_category, locals, n);
  write_constant (self, "subcategory", "0", n);
  write_column (self, "func", frame_row, locals, n);
  write_constant (self, "nativeSymbol", "null", n);
  write_constant (self, "innerWindowID", "0", n);
  write_constant (self, "implementation", "null", n);
  write_constant (self, "line", "null", n);
  write_constant (self, "column", "null", n);
  end_table (self, n);

  begin_table (self, "funcTable");
  write_column (self, "name", frame_row, locals, n);
  write_constant (self, "isJS", "false", n);
  write_constant (self, "relevantForJS", "false", n);
  write_column (self, "resource", func_resource, locals, n);
  write_constant (self, "fileName", "null", n);
  write_constant (self, "lineNumber", "null", n);
  write_constant (self, "columnNumber", "null", n);
  end_table (self, n);
}

static void
write_resources (const Document *self, const Locals *locals)
{
  guint n = locals->libraries->len;

  begin_table (self, "resourceTable");
  write_column (self, "lib", resource_library, locals, n);
  write_column (self, "name", resource_name, locals, n);
  write_constant (self, "host", "null", n);
  write_constant (self, "type", "1", n);
  end_table (self, n);
  sonde_export_output_printf (
      self->output,
      "\n\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[],"
      "\"length\":0},");
}

/* --- marks --- */

typedef struct
{
  const GArray *marks;
  guint first_string; /* of their names */
} Marks;

static const FirefoxMark *
mark_at (gconstpointer table, guint row)
{
  return &g_array_index (((const Marks *) table)->marks, FirefoxMark, row);
}

static void
mark_name (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u", ((const Marks *) table)->first_string + row);
}

static void
mark_start (const Document *self, GString *out, gconstpointer table, guint row)
{
  append_ms (self, out, mark_at (table, row)->time_ns);
}

static void
mark_end (const Document *self, GString *out, gconstpointer table, guint row)
{
  const FirefoxMark *mark = mark_at (table, row);
  gint64 end_ns;

  if (mark->duration_ns == 0 || __builtin_add_overflow (mark->time_ns, mark->duration_ns, &end_ns))
    g_string_append (out, "null");
  else
    append_ms (self, out, end_ns);
}

/* 0: an instant; 1: an interval */
static void
mark_phase (const Document *self, GString *out, gconstpointer table, guint row)
{
  const FirefoxMark *mark = mark_at (table, row);
  gint64 end_ns;

  g_string_append_c (out,
                     mark->duration_ns == 0
                             || __builtin_add_overflow (mark->time_ns, mark->duration_ns, &end_ns)
                         ? '0'
                         : '1');
}

static void
mark_data (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append (out, "{\"type\":\"Mark\",\"group\":");
  sonde_json_append_escaped (out, mark_at (table, row)->group);
  g_string_append (out, ",\"message\":");
  sonde_json_append_escaped (out, mark_at (table, row)->message);
  g_string_append_c (out, '}');
}

/* --- threads --- */

static void
write_strings (const Document *self, const Locals *locals, const Marks *marks)
{
  GString *out = self->output->text;
  guint n_functions = locals->functions->len;
  guint n = n_functions + locals->libraries->len + marks->marks->len;

  g_string_append (out, "\n\"stringArray\":[");
  for (guint i = 0; i < n; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      if (i < n_functions)
        sonde_json_append_escaped (out, local_function (self, locals, i)->name);
      else if (i < marks->first_string)
        sonde_json_append_escaped (
            out, g_ptr_array_index (self->modules,
                                    g_array_index (locals->libraries, guint, i - n_functions)));
      else
        sonde_json_append_escaped (out, mark_at (marks, i - marks->first_string)->name);
      sonde_export_output_pass (self->output);
    }
  g_string_append (out, "]}");
}

static void
write_thread (const Document *self, const FirefoxThread *thread)
{
  g_autoptr (GArray) functions = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (GHashTable) index = g_hash_table_new (NULL, NULL);
  g_autoptr (GArray) thread_libraries = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr (GHashTable) resources = g_hash_table_new (NULL, NULL);
  Locals locals = { functions, index, thread_libraries, resources };
  Marks marks = { thread->marks, 0 };
  GString *out = self->output->text;
  guint n;

  g_string_append (out, "\n{\"processType\":\"default\",\"processName\":");
  sonde_json_append_escaped (out, thread->comm);
  g_string_append (out, ",\"name\":");
  sonde_json_append_escaped (out, thread->name);
  g_string_append_printf (out,
                          ",\"pid\":\"%d\",\"tid\":%d,\"isMainThread\":%s,"
                          "\"processStartupTime\":0,\"processShutdownTime\":null,"
                          "\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],",
                          thread->pid, thread->tid, thread->pid == thread->tid ? "true" : "false");
  write_moments (self, thread);
  write_stacks (self, thread, &locals);
  write_resources (self, &locals);
  marks.first_string = functions->len + thread_libraries->len;
  n = marks.marks->len;
  begin_table (self, "markers");
  write_column (self, "name", mark_name, &marks, n);
  write_column (self, "startTime", mark_start, &marks, n);
  write_column (self, "endTime", mark_end, &marks, n);
  write_column (self, "phase", mark_phase, &marks, n);
  write_constant (self, "category", "0", n);
  write_column (self, "data", mark_data, &marks, n);
  end_table (self, n);
  write_strings (self, &locals, &marks);
}

/* --- counters: what each value adds to the one before --- */

static void
write_series (const Document *self, const FirefoxSeries *series)
{
  const SondeModelCounter *counter
      = sonde_capture_model_counter (self->source->model, series->counter);
  GString *out = self->output->text;
  guint thread = find_thread (self, series->pid);
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  double before = 0;

  g_string_append (out, "\n{\"name\":");
  sonde_json_append_escaped (out, counter->name);
  g_string_append (out, ",\"category\":");
  sonde_json_append_escaped (out, counter->category);
  g_string_append (out, ",\"description\":");
  sonde_json_append_escaped (out, counter->description);
  g_string_append_printf (out, ",\"pid\":\"%d\",\"mainThreadIndex\":%u,\"samples\":{\"time\":[",
                          ((FirefoxThread *) g_ptr_array_index (self->threads, thread))->pid,
                          thread);
  for (guint i = 0; i < series->values->len; i++)
    {
      g_string_append (out, i > 0 ? "," : "");
      append_ms (self, out, g_array_index (series->values, FirefoxValue, i).time_ns);
      sonde_export_output_pass (self->output);
    }
  g_string_append (out, "],\"count\":[");
  for (guint i = 0; i < series->values->len; i++)
    {
      SondeCounterValue value = g_array_index (series->values, FirefoxValue, i).value;
      double given = counter->is_double ? value.vdbl : (double) value.v64;
      double number = isfinite (given) ? given : 0;
      double step = number - before;

      g_string_append_printf (out, "%s%s", i > 0 ? "," : "",
                              isfinite (step) ? g_ascii_dtostr (digits, sizeof digits, step) : "0");
      before = number;
      sonde_export_output_pass (self->output);
    }
  g_string_append_printf (out, "],\"length\":%u}}", series->values->len);
}

/* --- the document --- */

static void
write_meta (const Document *self)
{
  g_autofree char *start = sonde_export_source_describe (self->source, "start-realtime", "0");
  g_autofree char *event = sonde_export_source_describe (self->source, "event", "samples");
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  double interval_ms = (double) sonde_export_source_interval_ns (self->source) / NS_PER_MS;
  GString *out = self->output->text;

  g_string_append_printf (out,
                          "{\"meta\":{\"version\":24,\"preprocessedProfileVersion\":48,"
                          "\"interval\":%s,",
                          g_ascii_dtostr (digits, sizeof digits, interval_ms));
  g_string_append_printf (out, "\"startTime\":%s,\"product\":",
                          g_ascii_formatd (digits, sizeof digits, "%.3f",
                                           (double) g_ascii_strtoll (start, NULL, 10) / NS_PER_MS));
  sonde_json_append_escaped (out, event);
  g_string_append (
      out,
      ",\"processType\":0,\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,"
      "\"importedFrom\":\"sondectl " SONDE_VERSION "\",\"usesOnlyOneStackType\":true,"
      "\"doesNotUseFrameImplementation\":true,\"sourceCodeIsNotOnSearchfox\":true,"
      "\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},"
      "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
      "{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
      "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}],"
      "\"markerSchema\":[{\"name\":\"Mark\",\"tooltipLabel\":\"{marker.name}\","
      "\"tableLabel\":\"{marker.data.message}\",\"chartLabel\":\"{marker.name}\","
      "\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],\"data\":["
      "{\"key\":\"group\",\"label\":\"Group\",\"format\":\"string\",\"searchable\":true},"
      "{\"key\":\"message\",\"label\":\"Message\",\"format\":\"string\",\"searchable\":true}]}]},");
}

static void
write_libraries (Document *self)
{
  GString *out = self->output->text;

  for (guint32 i = 0; i < self->source->n_functions; i++)
    {
      const char *module = sonde_export_source_function (self->source, i)->module;

      if (module[0] != '\0' && !g_hash_table_contains (self->libraries, module))
        {
          g_ptr_array_add (self->modules, (gpointer) module);
          g_hash_table_insert (self->libraries, (gpointer) module,
                               GUINT_TO_POINTER (self->modules->len));
        }
    }
  g_string_append (out, "\n\"libs\":[");
  for (guint i = 0; i < self->modules->len; i++)
    {
      static const char *const keys[] = { "name", "path", "debugName", "debugPath" };

      g_string_append (out, i > 0 ? ",\n{" : "\n{");
      for (gsize k = 0; k < G_N_ELEMENTS (keys); k++)
        {
          g_string_append_printf (out, "\"%s\":", keys[k]);
          sonde_json_append_escaped (out, g_ptr_array_index (self->modules, i));
          g_string_append_c (out, ',');
        }
      g_string_append (out, "\"arch\":\"\",\"breakpadId\":\"\",\"codeId\":null}");
      sonde_export_output_pass (self->output);
    }
  g_string_append (out, "],");
}

gboolean
sonde_export_firefox (SondeExportSource *source,
                      SondeUnit unit,
                      SondeExportOutput *output,
                      GError **error)
{
  SondeBudget *budget = sonde_capture_model_budget (source->model);
  g_autoptr (GPtrArray) threads = g_ptr_array_new_with_free_func (thread_free);
  g_autoptr (GPtrArray) series = g_ptr_array_new_with_free_func (series_free);
  g_autoptr (SondeTextPool) texts = sonde_text_pool_new (budget);
  g_autoptr (GHashTable) libraries = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GPtrArray) modules = g_ptr_array_new ();
  Document document = { .source = source,
                        .output = output,
                        .budget = budget,
                        .threads = threads,
                        .series = series,
                        .texts = texts,
                        .libraries = libraries,
                        .modules = modules };
  GString *out = output->text;

  if (!read_threads (&document, error))
    return FALSE;
  write_meta (&document);
  write_libraries (&document);
  g_string_append (out, "\n\"threads\":[");
  for (guint i = 0; i < threads->len; i++)
    {
      g_string_append (out, i > 0 ? "," : "");
      write_thread (&document, g_ptr_array_index (threads, i));
    }
  g_string_append (out, "],\n\"counters\":[");
  for (guint i = 0; i < series->len; i++)
    {
      g_string_append (out, i > 0 ? "," : "");
      write_series (&document, g_ptr_array_index (series, i));
    }
  g_string_append (out, "]}\n");
  return TRUE;
}
