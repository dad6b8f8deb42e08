/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A report as text for a terminal or a file. */
#include "client/report-text.h"

#include <string.h>

#include "client/text.h"

#define ASIDE_MIN_PERCENT 0.05 /* a line that would say 0.0% is left out */
#define IN_LINE_FACTOR                                                                             \
  10 /* a callee this many times heavier than its siblings goes on in line                         \
      */

/* How a stack may end before its outermost function, and the option that would help. */
static const struct
{
  const char *name;
  const char *text;
} ends[] = {
  { "[stack truncated]", "end at the copied part of the stack (record --stack-size)" },
  { "[depth limit]", "end at the depth limit (record --max-depth)" },
  { "[no unwind data]", "end in code without unwind data" },
  { "[unwind error]", "end in an unwind error" },
};

typedef struct
{
  GString *out;
  GString *prefix; /* the lines of the branches around the one at hand */
  const SondeReport *report;
  const SondeReportStyle *style;
  const SondeCallTree *tree;
  guint64 n_samples;
} Printer;

static void
append_labelled (GString *out, const char *label, const char *text)
{
  g_string_append_printf (out, "%-10s%s\n", label, text);
}

/* Group and keys of the METADATA frame "sonde": docs/protocol.md. */
#define SETTINGS "sonde"

/* NULL if the capture does not say how it was made. */
static GKeyFile *
dup_settings (const SondeCaptureModel *model)
{
  const char *metadata = sonde_capture_model_metadata (model, SETTINGS);
  g_autoptr (GKeyFile) settings = g_key_file_new ();

  if (metadata == NULL
      || !g_key_file_load_from_data (settings, metadata, strlen (metadata), 0, NULL))
    return NULL;
  return g_steal_pointer (&settings);
}

static char *
describe_event (GKeyFile *settings)
{
  g_autofree char *event = g_key_file_get_string (settings, SETTINGS, "event", NULL);
  g_autofree char *shown = sonde_text_escape (event != NULL ? event : "unknown", -1);
  guint64 frequency = g_key_file_get_uint64 (settings, SETTINGS, "frequency", NULL);
  guint64 period = g_key_file_get_uint64 (settings, SETTINGS, "period", NULL);

  if (frequency > 0)
    return g_strdup_printf ("%s at %" G_GUINT64_FORMAT " Hz", shown, frequency);
  if (period > 0)
    return g_strdup_printf ("%s, one sample every %" G_GUINT64_FORMAT, shown, period);
  return g_steal_pointer (&shown);
}

char *
sonde_report_describe_event (const SondeCaptureModel *model)
{
  g_autoptr (GKeyFile) settings = dup_settings (model);

  return settings != NULL ? describe_event (settings) : NULL;
}

static void
append_event (GString *out, GKeyFile *settings)
{
  g_autofree char *event = describe_event (settings);
  g_autofree char *kernel_time = g_key_file_get_string (settings, SETTINGS, "kernel-time", NULL);
  g_autofree char *line = g_strdup_printf (
      "%s, %s", event,
      g_strcmp0 (kernel_time, "yes") == 0 ? "user and kernel time" : "user time only");

  append_labelled (out, "Event", line);
}

/* Whether everything was recorded; else the heaviest process is what a reader knows it by. */
static gboolean
is_whole_machine (GKeyFile *settings)
{
  g_autofree char *scope
      = settings != NULL ? g_key_file_get_string (settings, SETTINGS, "scope", NULL) : NULL;

  return g_strcmp0 (scope, "system") == 0;
}

char *
sonde_report_describe_subject (const SondeCaptureModel *model, const SondeModelProcess *heaviest)
{
  g_autoptr (GKeyFile) settings = dup_settings (model);

  if (is_whole_machine (settings))
    return g_strdup ("whole machine");
  return sonde_text_escape (heaviest->cmdline, -1);
}

static void
append_subject (GString *out, const SondeReport *report, GKeyFile *settings)
{
  g_autofree char *scope
      = settings != NULL ? g_key_file_get_string (settings, SETTINGS, "scope", NULL) : NULL;
  g_autofree char *subject = NULL;

  if (sonde_report_n_processes (report) == 0 && !is_whole_machine (settings))
    return;
  subject = sonde_report_describe_subject (
      sonde_report_model (report),
      sonde_report_n_processes (report) > 0 ? sonde_report_process (report, 0)->process : NULL);
  if (is_whole_machine (settings))
    append_labelled (out, "Scope", subject);
  else
    append_labelled (out, g_strcmp0 (scope, "launch") == 0 ? "Command" : "Process", subject);
}

char *
sonde_report_describe_losses (const SondeCaptureModel *model)
{
  static const SondeLedger stages[] = { SONDE_LEDGER_LOST_KERNEL, SONDE_LEDGER_LOST_RING,
                                        SONDE_LEDGER_LOST_QUEUE, SONDE_LEDGER_STREAM_SAMPLES_LOST };
  g_autoptr (GString) detail = g_string_new (NULL);
  g_autofree char *lost_text = NULL;
  guint64 produced = 0;
  guint64 lost = 0;

  if (!sonde_capture_model_ledger (model, SONDE_LEDGER_PRODUCED, &produced))
    return g_strdup ("unknown: the capture has no ledger");
  for (guint i = 0; i < G_N_ELEMENTS (stages); i++)
    {
      guint64 n = 0;

      if (!sonde_capture_model_ledger (model, stages[i], &n) || n == 0)
        continue;
      lost += n;
      g_string_append_printf (detail, "%s%s %" G_GUINT64_FORMAT, detail->len > 0 ? ", " : "",
                              sonde_ledger_name (stages[i]), n);
    }
  if (lost == 0)
    return g_strdup ("nothing");
  lost_text = sonde_text_plural (lost, "sample", "samples");
  return g_strdup_printf ("%s, %.1f%% (%s)", lost_text, sonde_text_percent (lost, produced),
                          detail->str);
}

static void
append_losses (GString *out, const SondeCaptureModel *model)
{
  g_autofree char *losses = sonde_report_describe_losses (model);

  append_labelled (out, "Lost", losses);
}

/* What a reader who came late, or asked for less, knowingly did without. */
static void
append_left_out (GString *out, const SondeCaptureModel *model)
{
  guint64 before = 0;
  guint64 filtered = 0;
  g_autofree char *line = NULL;

  sonde_capture_model_ledger (model, SONDE_LEDGER_STREAM_SAMPLES_BEFORE, &before);
  sonde_capture_model_ledger (model, SONDE_LEDGER_STREAM_SAMPLES_FILTERED, &filtered);
  if (before == 0 && filtered == 0)
    return;
  line = g_strdup_printf ("%" G_GUINT64_FORMAT
                          " samples before this capture began, %" G_GUINT64_FORMAT
                          " that it did not ask for",
                          before, filtered);
  append_labelled (out, "Left out", line);
}

static void
append_stacks (GString *out, const SondeReport *report)
{
  guint64 n_samples = sonde_report_n_samples (report);
  guint64 n_complete = n_samples;
  g_autoptr (GString) detail = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      guint64 n = sonde_report_n_outermost (report, ends[i].name);

      if (n == 0)
        continue;
      n_complete -= n;
      g_string_append_printf (detail, "; %" G_GUINT64_FORMAT " (%.1f%%) %s", n,
                              sonde_text_percent (n, n_samples), ends[i].text);
    }
  g_string_append_printf (out, "%-10s%.1f%% complete%s\n", "Stacks",
                          sonde_text_percent (n_complete, n_samples), detail->str);
}

void
sonde_report_append_header (GString *out, const SondeReport *report)
{
  const SondeCaptureModel *model = sonde_report_model (report);
  g_autoptr (GKeyFile) settings = dup_settings (model);
  g_autofree char *duration = sonde_text_duration (sonde_capture_model_duration_ns (model));
  g_autofree char *samples = sonde_text_count (sonde_capture_model_n_samples (model));
  guint64 n_shown = sonde_report_n_samples (report);

  append_subject (out, report, settings);
  if (settings != NULL)
    append_event (out, settings);
  g_string_append_printf (out, "%-10s%s in %s\n", "Samples", samples, duration);
  if (n_shown < sonde_capture_model_n_samples (model))
    g_string_append_printf (out, "%-10s%" G_GUINT64_FORMAT " of them match\n", "Filter", n_shown);
  append_losses (out, model);
  append_left_out (out, model);
  if (n_shown > 0)
    append_stacks (out, report);
}

static int
compare_functions (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeReport *report = user_data;
  const SondeFunction *left = sonde_report_function (report, *(const guint32 *) a);
  const SondeFunction *right = sonde_report_function (report, *(const guint32 *) b);
  int order = strcmp (left->name, right->name);

  return order != 0 ? order : strcmp (left->module, right->module);
}

static void
append_numbers (const Printer *printer, guint64 total, guint64 self)
{
  g_string_append_printf (printer->out, "%6.1f%%", sonde_text_percent (total, printer->n_samples));
  if (self > 0)
    g_string_append_printf (printer->out, " %6.1f%%  ",
                            sonde_text_percent (self, printer->n_samples));
  else
    g_string_append_printf (printer->out, " %7s  ", "");
}

static void
append_line (const Printer *printer, const SondeCallNode *node, const char *branch)
{
  append_numbers (printer, node->total, node->self);
  g_string_append_printf (printer->out, "%s%s%s\n", printer->prefix->str, branch,
                          sonde_report_function (printer->report, node->id)->name);
}

static guint64
sum_rest (const Printer *printer, const GArray *children, guint n_shown)
{
  guint64 total = 0;

  for (guint i = n_shown; i < children->len; i++)
    total += sonde_call_tree_node (printer->tree, g_array_index (children, guint32, i))->total;
  return total;
}

/* Sums up what is below the limit in one line. */
static void
append_rest (const Printer *printer, const GArray *children, guint n_shown, const char *branch)
{
  guint64 total = sum_rest (printer, children, n_shown);
  double percent = sonde_text_percent (total, printer->n_samples);

  if (percent < ASIDE_MIN_PERCENT)
    return;
  append_numbers (printer, total, 0);
  g_string_append_printf (printer->out, "%s%s[%u more, %.1f%%]\n", printer->prefix->str, branch,
                          children->len - n_shown, percent);
}

/* Whether the lines go on in their column: one callee is shown, and the others hardly weigh. */
static gboolean
goes_on_in_line (const Printer *printer, const GArray *children, guint n_shown)
{
  if (n_shown != 1)
    return n_shown == 0;
  return sum_rest (printer, children, 1)
         <= sonde_call_tree_node (printer->tree, g_array_index (children, guint32, 0))->total
                / IN_LINE_FACTOR;
}

static guint
count_shown (const Printer *printer, const GArray *children)
{
  guint n = 0;

  while (n < children->len)
    {
      guint32 child = g_array_index (children, guint32, n);
      guint64 total = sonde_call_tree_node (printer->tree, child)->total;

      if (sonde_text_percent (total, printer->n_samples) < printer->style->percent_limit)
        break;
      n++;
    }
  return n;
}

static void append_branches (Printer *printer, const GArray *children, guint n_shown, guint depth);

/* Everything below @node. A deep stack reads as a list in one column; a real branch indents. */
static void
append_below (Printer *printer, guint32 node, guint depth)
{
  const char *aside = printer->style->utf8 ? "╶ " : "+ ";

  for (; depth < printer->style->max_depth; depth++)
    {
      g_autoptr (GArray) children = sonde_call_tree_dup_children (
          printer->tree, node, compare_functions, (gpointer) printer->report);
      guint n_shown = count_shown (printer, children);

      if (!goes_on_in_line (printer, children, n_shown))
        {
          append_branches (printer, children, n_shown, depth);
          return;
        }
      append_rest (printer, children, n_shown, aside);
      if (n_shown == 0)
        return;
      node = g_array_index (children, guint32, 0);
      append_line (printer, sonde_call_tree_node (printer->tree, node), "");
    }
  if (sonde_call_tree_node (printer->tree, node)->first_child != 0)
    g_string_append_printf (printer->out, "%17s%s[deeper than --max-depth %u]\n", "",
                            printer->prefix->str, printer->style->max_depth);
}

/* Recursion is bounded by max_depth. */
static void
append_branches (Printer *printer, const GArray *children, guint n_shown, guint depth)
{
  gboolean utf8 = printer->style->utf8;
  gsize prefix_len = printer->prefix->len;
  gboolean has_rest = sonde_text_percent (sum_rest (printer, children, n_shown), printer->n_samples)
                      >= ASIDE_MIN_PERCENT;

  for (guint i = 0; i < n_shown; i++)
    {
      guint32 node = g_array_index (children, guint32, i);
      gboolean is_last = i + 1 == n_shown && !has_rest;
      const char *branch = is_last ? (utf8 ? "└─ " : "`- ") : (utf8 ? "├─ " : "|- ");

      append_line (printer, sonde_call_tree_node (printer->tree, node), branch);
      g_string_append (printer->prefix, is_last ? "   " : (utf8 ? "│  " : "|  "));
      append_below (printer, node, depth + 1);
      g_string_truncate (printer->prefix, prefix_len);
    }
  append_rest (printer, children, n_shown, utf8 ? "└─ " : "`- ");
}

static void
append_process (Printer *printer, const SondeReportProcess *process)
{
  const SondeCallNode *root = sonde_call_tree_node (process->tree, 0);
  g_autofree char *comm = sonde_text_escape (process->process->comm, -1);

  printer->tree = process->tree;
  append_numbers (printer, root->total, 0);
  g_string_append_printf (printer->out, "%s (pid %d)\n", comm, process->process->pid);
  append_below (printer, 0, 0);
}

void
sonde_report_append_tree (GString *out, const SondeReport *report, const SondeReportStyle *style)
{
  g_autoptr (GString) prefix = g_string_new (NULL);
  Printer printer = { .out = out,
                      .prefix = prefix,
                      .report = report,
                      .style = style,
                      .n_samples = sonde_report_n_samples (report) };
  guint n_processes = sonde_report_n_processes (report);
  guint64 rest = 0;
  guint i;

  g_string_append (out, "\n  Total    Self\n");
  for (i = 0; i < n_processes; i++)
    {
      const SondeReportProcess *process = sonde_report_process (report, i);

      if (sonde_text_percent (sonde_call_tree_node (process->tree, 0)->total, printer.n_samples)
          < style->percent_limit)
        break;
      append_process (&printer, process);
    }
  if (i == n_processes)
    return;
  for (guint j = i; j < n_processes; j++)
    rest += sonde_call_tree_node (sonde_report_process (report, j)->tree, 0)->total;
  append_numbers (&printer, rest, 0);
  g_string_append_printf (out, "[%u more processes, %.1f%%]\n", n_processes - i,
                          sonde_text_percent (rest, printer.n_samples));
}

typedef struct
{
  const SondeReport *report;
  guint64 *self_sums;
  guint64 *total_sums;
} FlatSums;

static int
compare_flat (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const FlatSums *sums = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  if (sums->self_sums[left] != sums->self_sums[right])
    return sums->self_sums[left] > sums->self_sums[right] ? -1 : 1;
  if (sums->total_sums[left] != sums->total_sums[right])
    return sums->total_sums[left] > sums->total_sums[right] ? -1 : 1;
  return compare_functions (a, b, (gpointer) sums->report);
}

static void
append_flat_rows (GString *out,
                  const FlatSums *sums,
                  const guint32 *order,
                  const SondeReportStyle *style)
{
  guint32 n_functions = sonde_report_n_functions (sums->report);
  guint64 n_samples = sonde_report_n_samples (sums->report);
  guint64 rest = 0;
  guint n_rest = 0;

  for (guint32 i = 0; i < n_functions; i++)
    {
      const SondeFunction *function = sonde_report_function (sums->report, order[i]);
      guint64 self = sums->self_sums[order[i]];

      if (self == 0)
        continue;
      if (sonde_text_percent (self, n_samples) < style->percent_limit)
        {
          rest += self;
          n_rest++;
          continue;
        }
      g_string_append_printf (out, "%6.1f%% %6.1f%%  %-40s  %s\n",
                              sonde_text_percent (self, n_samples),
                              sonde_text_percent (sums->total_sums[order[i]], n_samples),
                              function->name, function->module);
    }
  if (n_rest > 0)
    g_string_append_printf (out, "%6.1f%%          [%u more, %.1f%%]\n",
                            sonde_text_percent (rest, n_samples), n_rest,
                            sonde_text_percent (rest, n_samples));
}

void
sonde_report_append_flat (GString *out, const SondeReport *report, const SondeReportStyle *style)
{
  guint32 n_functions = sonde_report_n_functions (report);
  g_autofree guint64 *self_sums = g_new0 (guint64, n_functions);
  g_autofree guint64 *total_sums = g_new0 (guint64, n_functions);
  g_autofree guint32 *order = g_new (guint32, n_functions);
  FlatSums sums = { report, self_sums, total_sums };

  for (guint i = 0; i < sonde_report_n_processes (report); i++)
    sonde_call_tree_sum_flat (sonde_report_process (report, i)->tree, self_sums, total_sums,
                              n_functions);
  for (guint32 i = 0; i < n_functions; i++)
    order[i] = i;
  g_qsort_with_data (order, (int) n_functions, sizeof *order, compare_flat, &sums);

  g_string_append_printf (out, "\n   Self   Total  %-40s  Module\n", "Function");
  append_flat_rows (out, &sums, order, style);
}
