/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile-text.h"

#include <string.h>

#include "client/base/cli.h"
#include "client/base/pager.h"
#include "client/names/short-name.h"
#include "client/report/profile-sums.h"
#include "client/base/text.h"

#define MIN_TEXT       24 /* columns of a row that indentation leaves to its text */
#define NAME_COLUMN    40 /* columns of names where modules stand behind them, if there is room */
#define MAX_MODULE     24
#define IN_LINE_FACTOR 10 /* a callee that much heavier than its siblings goes on in line */

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
  SondeShortNames *names;
  guint64 total;
  guint n_lines;
} TreePrinter;

void
sonde_profile_style_init (SondeProfileStyle *self)
{
  *self = (SondeProfileStyle){ .percent_limit = SONDE_PROFILE_PERCENT_LIMIT,
                               .max_depth = SONDE_PROFILE_MAX_DEPTH,
                               .utf8 = g_get_charset (NULL),
                               .colours = sonde_pager_wants_colours (),
                               .width = sonde_pager_n_columns () };
}

gboolean
sonde_profile_style_check (const SondeProfileStyle *self)
{
  if (self->percent_limit < 0 || self->percent_limit > 100)
    sonde_cli_complain ("--percent-limit goes from 0 to 100");
  else if (self->max_depth < 1 || self->max_depth > 1024)
    sonde_cli_complain ("--max-depth goes from 1 to 1024");
  else
    return TRUE;
  return FALSE;
}

/* As wide with colours as without. */
static void
append_percent (GString *out, const SondeProfileStyle *style, double percent)
{
  const char *colour = percent >= SONDE_PROFILE_HOT_PERCENT ? "\033[31m" : "\033[32m";

  if (style->colours && percent >= SONDE_PROFILE_WARM_PERCENT)
    g_string_append_printf (out, "%s%6.1f%%\033[m", colour, percent);
  else
    g_string_append_printf (out, "%6.1f%%", percent);
}

static void
append_amount (GString *out, SondeUnit unit, guint64 amount)
{
  g_autofree char *text = NULL;

  if (unit == SONDE_UNIT_BYTES)
    {
      text = sonde_text_size (amount);
      g_string_append_printf (out, "%10s  ", text);
    }
  else
    {
      text = sonde_text_count (amount);
      g_string_append_printf (out, "%10s  ", text);
    }
}

static SondeUnit
other_unit (SondeUnit unit)
{
  return unit == SONDE_UNIT_BYTES ? SONDE_UNIT_BLOCKS : SONDE_UNIT_BYTES;
}

/* Shares say enough of samples. */
static void
append_amounts (GString *out, const SondeProfile *profile, guint64 weight, guint64 beside)
{
  SondeUnit unit = sonde_profile_unit (profile);

  if (unit == SONDE_UNIT_SAMPLES)
    return;
  append_amount (out, unit, weight);
  if (sonde_profile_has_beside (profile))
    append_amount (out, other_unit (unit), beside);
}

static void
append_amount_titles (GString *out, const SondeProfile *profile)
{
  static const char *const titles[]
      = { [SONDE_UNIT_BYTES] = "Bytes", [SONDE_UNIT_BLOCKS] = "Count" };
  SondeUnit unit = sonde_profile_unit (profile);

  if (unit == SONDE_UNIT_SAMPLES)
    return;
  g_string_append_printf (out, "%10s  ", titles[unit]);
  if (sonde_profile_has_beside (profile))
    g_string_append_printf (out, "%10s  ", titles[other_unit (unit)]);
}

/* Columns that the functions stand behind. */
static int
count_indent (const SondeProfile *profile)
{
  if (sonde_profile_unit (profile) == SONDE_UNIT_SAMPLES)
    return 17;
  return sonde_profile_has_beside (profile) ? 41 : 29;
}

static void
append_numbers (const TreePrinter *printer, const Weight *weight)
{
  append_percent (printer->out, printer->style, sonde_text_percent (weight->total, printer->total));
  if (weight->self > 0)
    {
      g_string_append_c (printer->out, ' ');
      append_percent (printer->out, printer->style,
                      sonde_text_percent (weight->self, printer->total));
      g_string_append (printer->out, "  ");
    }
  else
    g_string_append_printf (printer->out, " %7s  ", "");
  append_amounts (printer->out, printer->profile, weight->total, weight->beside);
}

/* Of text without control characters. */
static guint
count_columns (const char *text)
{
  guint n = 0;

  for (; *text != '\0'; text = g_utf8_next_char (text))
    n += g_unichar_iszerowidth (g_utf8_get_char (text)) ? 0
         : g_unichar_iswide (g_utf8_get_char (text))    ? 2
                                                        : 1;
  return n;
}

/* What follows the numbers of a row: of lines and text as much as there is room for. */
static void
append_text (const TreePrinter *printer, const char *branch, const char *name, const char *behind)
{
  const char *prefix = printer->prefix->str;
  guint room = printer->style->width;
  g_autofree char *fit = NULL;
  g_autofree char *end = NULL;
  guint used;

  if (room == 0)
    {
      g_string_append_printf (printer->out, "%s%s%s%s\n", prefix, branch, name, behind);
      return;
    }
  room -= MIN ((guint) count_indent (printer->profile), room);
  /* of deep ones the innermost lines */
  while (*prefix != '\0' && count_columns (prefix) + count_columns (branch) + MIN_TEXT > room)
    prefix = g_utf8_next_char (prefix);
  used = MIN (count_columns (prefix) + count_columns (branch), room);
  end = sonde_short_name_fit (behind, MAX (room - used, 2) / 2, printer->style->utf8);
  fit = sonde_short_name_fit (
      name, MAX (room - used, 1 + count_columns (end)) - count_columns (end), printer->style->utf8);
  g_string_append_printf (printer->out, "%s%s%s%s\n", prefix, branch, fit, end);
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
append_line (TreePrinter *printer, guint32 node, const char *branch)
{
  Weight weight = weigh (printer->process, node);
  const SondeFunction *shown = sonde_profile_function (
      printer->profile, sonde_call_tree_node (printer->process->tree, node)->id);
  const GArray *depths = printer->process->depths;
  guint32 depth = depths != NULL ? g_array_index (depths, guint32, node) : 0;
  g_autofree char *recursion = depth > 0 ? g_strdup_printf ("  [%u deep]", depth) : g_strdup ("");
  g_autofree char *behind
      = g_strconcat (recursion, shown->source[0] != '\0' ? "  " : "", shown->source, NULL);

  printer->n_lines++;
  append_numbers (printer, &weight);
  append_text (printer, branch, sonde_short_names_get (printer->names, shown->name), behind);
}

static Weight
sum_rest (const TreePrinter *printer, const GArray *children, guint n_shown)
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
append_rest (const TreePrinter *printer, const GArray *children, guint n_shown, const char *branch)
{
  Weight rest = sum_rest (printer, children, n_shown);
  double percent = sonde_text_percent (rest.total, printer->total);
  g_autofree char *text = NULL;

  if (percent < SONDE_PROFILE_ASIDE_PERCENT)
    return;
  append_numbers (printer, &rest);
  text = g_strdup_printf ("[%u more, %.1f%%]", children->len - n_shown, percent);
  append_text (printer, branch, text, "");
}

/* Whether the lines go on in their column: one callee is shown, and the others hardly weigh. */
static gboolean
goes_on_in_line (const TreePrinter *printer, const GArray *children, guint n_shown)
{
  if (n_shown != 1)
    return n_shown == 0;
  return sum_rest (printer, children, 1).total
         <= weigh (printer->process, g_array_index (children, guint32, 0)).total / IN_LINE_FACTOR;
}

static void
append_branches (TreePrinter *printer, const GArray *children, guint n_shown, guint depth);

/* Everything below @node. A deep stack reads as a list in one column; a real branch indents. */
static void
append_below (TreePrinter *printer, guint32 node, guint depth)
{
  const char *aside = printer->style->utf8 ? "╶ " : "+ ";

  for (; depth < printer->style->max_depth; depth++)
    {
      g_autoptr (GArray) children = sonde_call_tree_dup_children (printer->process->tree, node,
                                                                  sonde_profile_compare_functions,
                                                                  (gpointer) printer->profile);
      guint n_shown = 0;

      while (n_shown < children->len && printer->n_lines + n_shown < SONDE_MAX_LINES)
        {
          Weight weight = weigh (printer->process, g_array_index (children, guint32, n_shown));

          if (weight.total == 0
              || sonde_text_percent (weight.total, printer->total) < printer->style->percent_limit)
            break;
          n_shown++;
        }
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
                            count_indent (printer->profile), "", printer->prefix->str,
                            printer->style->max_depth);
}

/* Recursion is bounded by max_depth. */
static void
append_branches (TreePrinter *printer, const GArray *children, guint n_shown, guint depth)
{
  gboolean utf8 = printer->style->utf8;
  gsize prefix_len = printer->prefix->len;
  gboolean has_rest
      = sonde_text_percent (sum_rest (printer, children, n_shown).total, printer->total)
        >= SONDE_PROFILE_ASIDE_PERCENT;

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
append_process (TreePrinter *printer, const SondeProfileProcess *process)
{
  Weight weight = weigh (process, 0);
  g_autofree char *label = sonde_profile_process_dup_label (process);

  weight.self = 0;
  printer->process = process;
  append_numbers (printer, &weight);
  append_text (printer, "", label, "");
  append_below (printer, 0, 0);
}

/* Of the functions that a tree shows: those of nodes that are not too light. */
static SondeShortNames *
new_tree_names (const SondeProfile *profile, const SondeProfileStyle *style)
{
  SondeShortNames *names = sonde_short_names_new (style->full_names);
  guint64 total = sonde_profile_total (profile);
  g_autofree gboolean *is_added = g_new0 (gboolean, sonde_profile_n_functions (profile));

  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeCallTree *tree = sonde_profile_process (profile, i)->tree;

      for (guint32 k = 1; k < sonde_call_tree_n_nodes (tree); k++)
        {
          const SondeCallNode *node = sonde_call_tree_node (tree, k);

          if (is_added[node->id] || node->total == 0
              || sonde_text_percent (node->total, total) < style->percent_limit)
            continue;
          is_added[node->id] = TRUE;
          sonde_short_names_add (names, sonde_profile_function (profile, node->id)->name);
        }
    }
  return names;
}

void
sonde_profile_append_tree (GString *out,
                           const SondeProfile *profile,
                           const SondeProfileStyle *style)
{
  g_autoptr (GString) prefix = g_string_new (NULL);
  g_autoptr (SondeShortNames) names = new_tree_names (profile, style);
  TreePrinter printer = { .out = out,
                          .prefix = prefix,
                          .profile = profile,
                          .style = style,
                          .names = names,
                          .total = sonde_profile_total (profile) };
  guint n_processes = sonde_profile_n_processes (profile);
  Weight rest = { 0 };
  g_autofree char *text = NULL;
  guint i;

  g_string_append (out, "\n  Total    Self");
  g_string_append (out, "  ");
  append_amount_titles (out, profile);
  g_string_truncate (out, out->len - 2);
  g_string_append_c (out, '\n');
  for (i = 0; i < n_processes; i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);

      if (sonde_text_percent (weigh (process, 0).total, printer.total) < style->percent_limit
          || printer.n_lines++ >= SONDE_MAX_LINES)
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
  text = g_strdup_printf ("[%u more, %.1f%%]", n_processes - i,
                          sonde_text_percent (rest.total, printer.total));
  append_text (&printer, "", text, "");
}

/* @text, and blanks up to @width columns. */
static void
append_padded (GString *out, const char *text, guint width)
{
  guint n = count_columns (text);

  g_string_append_printf (out, "%s%*s", text, n < width ? (int) (width - n) : 0, "");
}

/* Columns behind the numbers of a flat row; 0: any. */
static guint
count_room (const SondeProfile *profile, const SondeProfileStyle *style)
{
  guint indent = (guint) count_indent (profile);

  return style->width == 0 ? 0 : style->width > indent ? style->width - indent : 1;
}

/* Of these, those that names have where modules stand behind them. */
static guint
name_width (const SondeProfile *profile, const SondeProfileStyle *style)
{
  guint room = count_room (profile, style);

  if (room == 0)
    return NAME_COLUMN;
  return room > MIN_TEXT + 2 + MAX_MODULE ? room - 2 - MAX_MODULE : MIN (room, MIN_TEXT);
}

static void
append_function (GString *out,
                 const SondeProfile *profile,
                 const SondeProfileStyle *style,
                 const SondeFunction *function,
                 const char *name)
{
  guint room = count_room (profile, style);
  guint width = function->module[0] != '\0' ? name_width (profile, style) : room;
  g_autofree char *fit
      = room > 0 ? sonde_short_name_fit (name, width, style->utf8) : g_strdup (name);
  g_autofree char *behind = g_strconcat (function->module, function->source[0] != '\0' ? "  " : "",
                                         function->source, NULL);

  if (function->module[0] == '\0' || (room > 0 && room < width + 3))
    {
      g_string_append_printf (out, "%s\n", fit);
      return;
    }
  append_padded (out, fit, width);
  if (room > 0)
    {
      g_autofree char *rest = g_steal_pointer (&behind);

      behind = sonde_short_name_fit (rest, room - width - 2, style->utf8);
    }
  g_string_append_printf (out, "  %s\n", behind);
}

static void
append_flat_rows (GString *out, const SondeProfileSums *sums, const SondeProfileStyle *style)
{
  g_autoptr (SondeShortNames) names = sonde_short_names_new (style->full_names);
  guint64 total = sonde_profile_total (sums->profile);
  Weight rest = { 0 };
  guint n_lines = 0;
  guint n_rest = 0;

  for (guint32 i = 0; i < sums->n_functions; i++)
    if (sums->self[i] > 0 && sonde_text_percent (sums->self[i], total) >= style->percent_limit)
      sonde_short_names_add (names, sonde_profile_function (sums->profile, i)->name);
  for (guint32 i = 0; i < sums->n_functions; i++)
    {
      guint32 id = sums->order[i];
      const SondeFunction *function = sonde_profile_function (sums->profile, id);
      guint64 self = sums->self[id];

      if (self == 0)
        continue;
      if (sonde_text_percent (self, total) < style->percent_limit || n_lines >= SONDE_MAX_LINES)
        {
          rest.self += self;
          rest.beside += sums->beside[id];
          n_rest++;
          continue;
        }
      n_lines++;
      append_percent (out, style, sonde_text_percent (self, total));
      g_string_append_printf (out, " %6.1f%%  ", sonde_text_percent (sums->total[id], total));
      append_amounts (out, sums->profile, self, sums->beside[id]);
      append_function (out, sums->profile, style, function,
                       sonde_short_names_get (names, function->name));
    }
  if (n_rest > 0)
    {
      double percent = sonde_text_percent (rest.self, sonde_profile_total (sums->profile));

      g_string_append_printf (out, "%6.1f%%          ", percent);
      append_amounts (out, sums->profile, rest.self, rest.beside);
      g_string_append_printf (out, "[%u more, %.1f%%]\n", n_rest, percent);
    }
}

/* Groups of functions have none. */
static gboolean
has_modules (const SondeProfile *profile)
{
  for (guint32 i = 0; i < sonde_profile_n_functions (profile); i++)
    if (sonde_profile_function (profile, i)->module[0] != '\0')
      return TRUE;
  return FALSE;
}

void
sonde_profile_append_flat (GString *out,
                           const SondeProfile *profile,
                           const SondeProfileStyle *style)
{
  g_auto (SondeProfileSums) sums = { 0 };

  sonde_profile_sums_init (&sums, profile);
  g_string_append (out, "\n   Self   Total  ");
  append_amount_titles (out, profile);
  if (has_modules (profile))
    {
      append_padded (out, "Function", name_width (profile, style));
      g_string_append (out, "  Module\n");
    }
  else
    g_string_append (out, "Name\n");
  append_flat_rows (out, &sums, style);
}
