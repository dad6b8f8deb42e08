/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The Firefox Profiler's "processed profile", version 48, which later ones upgrade.
 * Source: github.com/firefox-devtools/profiler, src/types/profile.js and
 * docs-developer/CHANGELOG-formats.md */
#include "client/export/export.h"

#include <math.h>
#include <string.h>

#include "client/base/json.h"
#include "client/base/text.h"
#include "client/export/export-threads.h"
#include "config.h"

#define CATEGORY_USER   1
#define CATEGORY_KERNEL 2
#define NS_PER_MS       1e6

typedef struct
{
  SondeExportSource *source;
  SondeExportOutput *output;
  GHashTable *libraries; /* module → index + 1 */
  GPtrArray *modules;    /* in order; the functions' own */
} Document;

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
  append_ms (self, out, g_array_index ((GArray *) table, SondeExportMoment, row).time_ns);
}

static void
moment_stack (const Document *self, GString *out, gconstpointer table, guint row)
{
  guint32 stack = g_array_index ((GArray *) table, SondeExportMoment, row).stack;

  if (stack == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", stack - 1);
}

static void
moment_bytes (const Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%" G_GINT64_FORMAT,
                          g_array_index ((GArray *) table, SondeExportMoment, row).size_bytes);
}

static void
write_moments (const Document *self, const SondeExportThread *thread)
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
write_stacks (const Document *self, const SondeExportThread *thread, Locals *locals)
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

static const SondeExportMark *
mark_at (gconstpointer table, guint row)
{
  return &g_array_index (((const Marks *) table)->marks, SondeExportMark, row);
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
  const SondeExportMark *mark = mark_at (table, row);
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
  const SondeExportMark *mark = mark_at (table, row);
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
write_thread (const Document *self, const SondeExportThread *thread)
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
  sonde_json_append_escaped (out, thread->comm);
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
write_series (const Document *self,
              const SondeExportThreads *threads,
              const SondeExportSeries *series)
{
  const SondeModelCounter *counter
      = sonde_capture_model_counter (self->source->model, series->counter);
  GString *out = self->output->text;
  guint thread = sonde_export_threads_find (threads, series->pid);
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  double before = 0;

  g_string_append (out, "\n{\"name\":");
  sonde_json_append_escaped (out, counter->name);
  g_string_append (out, ",\"category\":");
  sonde_json_append_escaped (out, counter->category);
  g_string_append (out, ",\"description\":");
  sonde_json_append_escaped (out, counter->description);
  g_string_append_printf (out, ",\"pid\":\"%d\",\"mainThreadIndex\":%u,\"samples\":{\"time\":[",
                          ((SondeExportThread *) g_ptr_array_index (threads->threads, thread))->pid,
                          thread);
  for (guint i = 0; i < series->values->len; i++)
    {
      g_string_append (out, i > 0 ? "," : "");
      append_ms (self, out, g_array_index (series->values, SondeExportValue, i).time_ns);
      sonde_export_output_pass (self->output);
    }
  g_string_append (out, "],\"count\":[");
  for (guint i = 0; i < series->values->len; i++)
    {
      SondeCounterValue value = g_array_index (series->values, SondeExportValue, i).value;
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
  g_autoptr (SondeExportThreads) threads = sonde_export_threads_new (source, error);
  g_autoptr (GHashTable) libraries = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GPtrArray) modules = g_ptr_array_new ();
  Document document = { source, output, libraries, modules };
  GString *out = output->text;

  if (threads == NULL)
    return FALSE;
  write_meta (&document);
  write_libraries (&document);
  g_string_append (out, "\n\"threads\":[");
  for (guint i = 0; i < threads->threads->len; i++)
    {
      g_string_append (out, i > 0 ? "," : "");
      write_thread (&document, g_ptr_array_index (threads->threads, i));
    }
  g_string_append (out, "],\n\"counters\":[");
  for (guint i = 0; i < threads->series->len; i++)
    {
      g_string_append (out, i > 0 ? "," : "");
      write_series (&document, threads, g_ptr_array_index (threads->series, i));
    }
  g_string_append (out, "]}\n");
  return TRUE;
}
