/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A profile as text for a terminal or a file. */
#include "client/profile-text.h"

#include <string.h>

#include "client/text.h"

#define ASIDE_MIN_PERCENT 0.05 /* a line that would say 0.0% is left out */
#define IN_LINE_FACTOR    10   /* a callee that much heavier than its siblings goes on in line */

/* What a line tells of. */
typedef struct
{
  guint64 total;
  guint64 self;
  guint64 beside; /* the total in the other unit, of profiles that have one */
} Weight;

typedef struct
{
  GString *out;
  GString *prefix; /* the lines of the branches around the one at hand */
  const SondeProfile *profile;
  const SondeProfileStyle *style;
  const SondeProfileProcess *process;
  guint64 total;
} Printer;

static int
compare_functions (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfile *profile = user_data;
  const SondeFunction *left = sonde_profile_function (profile, *(const guint32 *) a);
  const SondeFunction *right = sonde_profile_function (profile, *(const guint32 *) b);
  int order = strcmp (left->name, right->name);

  return order != 0 ? order : strcmp (left->module, right->module);
}

/* Bytes and blocks, in this order, whichever of them the shares are of. */
static void
append_amounts (GString *out, SondeUnit unit, guint64 weight, guint64 beside)
{
  g_autofree char *bytes = NULL;
  g_autofree char *blocks = NULL;

  if (unit == SONDE_UNIT_SAMPLES)
    return;
  bytes = sonde_text_size (unit == SONDE_UNIT_BYTES ? weight : beside);
  blocks = sonde_text_count (unit == SONDE_UNIT_BYTES ? beside : weight);
  g_string_append_printf (out, "%10s %11s  ", bytes, blocks);
}

static void
append_numbers (const Printer *printer, const Weight *weight)
{
  g_string_append_printf (printer->out, "%6.1f%%",
                          sonde_text_percent (weight->total, printer->total));
  if (weight->self > 0)
    g_string_append_printf (printer->out, " %6.1f%%  ",
                            sonde_text_percent (weight->self, printer->total));
  else
    g_string_append_printf (printer->out, " %7s  ", "");
  append_amounts (printer->out, sonde_profile_unit (printer->profile), weight->total,
                  weight->beside);
}

static Weight
weigh (const SondeProfileProcess *process, guint32 node)
{
  const SondeCallNode *weighed = sonde_call_tree_node (process->tree, node);

  return (Weight){
    .total = weighed->total,
    .self = weighed->self,
    .beside = process->beside != NULL ? sonde_call_tree_node (process->beside, node)->total : 0,
  };
}

static void
append_line (const Printer *printer, guint32 node, const char *branch)
{
  Weight weight = weigh (printer->process, node);
  guint32 function = sonde_call_tree_node (printer->process->tree, node)->id;

  append_numbers (printer, &weight);
  g_string_append_printf (printer->out, "%s%s%s\n", printer->prefix->str, branch,
                          sonde_profile_function (printer->profile, function)->name);
}

static Weight
sum_rest (const Printer *printer, const GArray *children, guint n_shown)
{
  Weight sum = { 0 };

  for (guint i = n_shown; i < children->len; i++)
    {
      Weight weight = weigh (printer->process, g_array_index (children, guint32, i));

      sum.total += weight.total;
      sum.beside += weight.beside;
    }
  return sum;
}

/* Sums up what is below the limit in one line. */
static void
append_rest (const Printer *printer, const GArray *children, guint n_shown, const char *branch)
{
  Weight rest = sum_rest (printer, children, n_shown);
  double percent = sonde_text_percent (rest.total, printer->total);

  if (percent < ASIDE_MIN_PERCENT)
    return;
  append_numbers (printer, &rest);
  g_string_append_printf (printer->out, "%s%s[%u more, %.1f%%]\n", printer->prefix->str, branch,
                          children->len - n_shown, percent);
}

/* Whether the lines go on in their column: one callee is shown, and the others hardly weigh. */
static gboolean
goes_on_in_line (const Printer *printer, const GArray *children, guint n_shown)
{
  if (n_shown != 1)
    return n_shown == 0;
  return sum_rest (printer, children, 1).total
         <= weigh (printer->process, g_array_index (children, guint32, 0)).total / IN_LINE_FACTOR;
}

static guint
count_shown (const Printer *printer, const GArray *children)
{
  guint n = 0;

  while (n < children->len)
    {
      Weight weight = weigh (printer->process, g_array_index (children, guint32, n));

      if (sonde_text_percent (weight.total, printer->total) < printer->style->percent_limit)
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
  gboolean has_amounts = sonde_profile_unit (printer->profile) != SONDE_UNIT_SAMPLES;

  for (; depth < printer->style->max_depth; depth++)
    {
      g_autoptr (GArray) children = sonde_call_tree_dup_children (
          printer->process->tree, node, compare_functions, (gpointer) printer->profile);
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
      append_line (printer, node, "");
    }
  if (sonde_call_tree_node (printer->process->tree, node)->first_child != 0)
    g_string_append_printf (printer->out, "%*s%s[deeper than --max-depth %u]\n",
                            has_amounts ? 41 : 17, "", printer->prefix->str,
                            printer->style->max_depth);
}

/* Recursion is bounded by max_depth. */
static void
append_branches (Printer *printer, const GArray *children, guint n_shown, guint depth)
{
  gboolean utf8 = printer->style->utf8;
  gsize prefix_len = printer->prefix->len;
  gboolean has_rest
      = sonde_text_percent (sum_rest (printer, children, n_shown).total, printer->total)
        >= ASIDE_MIN_PERCENT;

  for (guint i = 0; i < n_shown; i++)
    {
      guint32 node = g_array_index (children, guint32, i);
      gboolean is_last = i + 1 == n_shown && !has_rest;
      const char *branch = is_last ? (utf8 ? "└─ " : "`- ") : (utf8 ? "├─ " : "|- ");

      append_line (printer, node, branch);
      g_string_append (printer->prefix, is_last ? "   " : (utf8 ? "│  " : "|  "));
      append_below (printer, node, depth + 1);
      g_string_truncate (printer->prefix, prefix_len);
    }
  append_rest (printer, children, n_shown, utf8 ? "└─ " : "`- ");
}

static void
append_process (Printer *printer, const SondeProfileProcess *process)
{
  Weight weight = weigh (process, 0);
  g_autofree char *comm = sonde_text_escape (process->process.comm, -1);

  weight.self = 0;
  printer->process = process;
  append_numbers (printer, &weight);
  if (process->process.pid >= 0)
    g_string_append_printf (printer->out, "%s (pid %d)\n", comm, process->process.pid);
  else
    g_string_append_printf (printer->out, "%s\n", comm);
  append_below (printer, 0, 0);
}

void
sonde_profile_append_tree (GString *out,
                           const SondeProfile *profile,
                           const SondeProfileStyle *style)
{
  g_autoptr (GString) prefix = g_string_new (NULL);
  Printer printer = { .out = out,
                      .prefix = prefix,
                      .profile = profile,
                      .style = style,
                      .total = sonde_profile_total (profile) };
  guint n_processes = sonde_profile_n_processes (profile);
  Weight rest = { 0 };
  guint i;

  g_string_append (out, "\n  Total    Self");
  if (sonde_profile_unit (profile) != SONDE_UNIT_SAMPLES)
    g_string_append_printf (out, "  %10s %11s", "Bytes", "Blocks");
  g_string_append_c (out, '\n');
  for (i = 0; i < n_processes; i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);

      if (sonde_text_percent (weigh (process, 0).total, printer.total) < style->percent_limit)
        break;
      append_process (&printer, process);
    }
  if (i == n_processes)
    return;
  for (guint j = i; j < n_processes; j++)
    {
      Weight weight = weigh (sonde_profile_process (profile, j), 0);

      rest.total += weight.total;
      rest.beside += weight.beside;
    }
  append_numbers (&printer, &rest);
  g_string_append_printf (out, "[%u more processes, %.1f%%]\n", n_processes - i,
                          sonde_text_percent (rest.total, printer.total));
}

typedef struct
{
  const SondeProfile *profile;
  guint64 *self;
  guint64 *total;
  guint64 *beside; /* as self, in the other unit */
} FlatSums;

static int
compare_flat (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const FlatSums *sums = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  if (sums->self[left] != sums->self[right])
    return sums->self[left] > sums->self[right] ? -1 : 1;
  if (sums->total[left] != sums->total[right])
    return sums->total[left] > sums->total[right] ? -1 : 1;
  return compare_functions (a, b, (gpointer) sums->profile);
}

static void
append_flat_rest (GString *out, const FlatSums *sums, const Weight *rest, guint n_rest)
{
  double percent = sonde_text_percent (rest->self, sonde_profile_total (sums->profile));

  g_string_append_printf (out, "%6.1f%%          ", percent);
  append_amounts (out, sonde_profile_unit (sums->profile), rest->self, rest->beside);
  g_string_append_printf (out, "[%u more, %.1f%%]\n", n_rest, percent);
}

static void
append_flat_rows (GString *out,
                  const FlatSums *sums,
                  const guint32 *order,
                  const SondeProfileStyle *style)
{
  guint32 n_functions = sonde_profile_n_functions (sums->profile);
  guint64 total = sonde_profile_total (sums->profile);
  Weight rest = { 0 };
  guint n_rest = 0;

  for (guint32 i = 0; i < n_functions; i++)
    {
      const SondeFunction *function = sonde_profile_function (sums->profile, order[i]);
      guint64 self = sums->self[order[i]];

      if (self == 0)
        continue;
      if (sonde_text_percent (self, total) < style->percent_limit)
        {
          rest.self += self;
          rest.beside += sums->beside[order[i]];
          n_rest++;
          continue;
        }
      g_string_append_printf (out, "%6.1f%% %6.1f%%  ", sonde_text_percent (self, total),
                              sonde_text_percent (sums->total[order[i]], total));
      append_amounts (out, sonde_profile_unit (sums->profile), self, sums->beside[order[i]]);
      g_string_append_printf (out, "%-40s  %s\n", function->name, function->module);
    }
  if (n_rest > 0)
    append_flat_rest (out, sums, &rest, n_rest);
}

void
sonde_profile_append_flat (GString *out,
                           const SondeProfile *profile,
                           const SondeProfileStyle *style)
{
  guint32 n_functions = sonde_profile_n_functions (profile);
  g_autofree guint64 *self = g_new0 (guint64, n_functions);
  g_autofree guint64 *total = g_new0 (guint64, n_functions);
  g_autofree guint64 *beside = g_new0 (guint64, n_functions);
  g_autofree guint64 *beside_total = g_new0 (guint64, n_functions);
  g_autofree guint32 *order = g_new (guint32, n_functions);
  FlatSums sums = { profile, self, total, beside };

  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);

      sonde_call_tree_sum_flat (process->tree, self, total, n_functions);
      if (process->beside != NULL)
        sonde_call_tree_sum_flat (process->beside, beside, beside_total, n_functions);
    }
  for (guint32 i = 0; i < n_functions; i++)
    order[i] = i;
  g_qsort_with_data (order, (int) n_functions, sizeof *order, compare_flat, &sums);

  g_string_append (out, "\n   Self   Total  ");
  if (sonde_profile_unit (profile) != SONDE_UNIT_SAMPLES)
    g_string_append_printf (out, "%10s %11s  ", "Bytes", "Blocks");
  g_string_append_printf (out, "%-40s  Module\n", "Function");
  append_flat_rows (out, &sums, order, style);
}
