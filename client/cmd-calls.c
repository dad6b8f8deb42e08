/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl calls: how often functions of a capture were called, and how long calls took. */
#include "client/commands.h"

#include <string.h>

#include "client/base/chance.h"
#include "client/base/choice.h"
#include "client/base/cli.h"
#include "client/base/json.h"
#include "client/base/pager.h"
#include "client/base/text.h"
#include "client/calls/calls.h"
#include "client/model/capture-file.h"

#define SCHEMA_VERSION 1

#define DEFAULT_ROWS   40
#define BAR_WIDTH      50u
#define MAX_WORDS      8u
#define MAX_LEFT_OUT   8u
#define MAX_SLOW       10u

typedef enum
{
  SORT_SELF,
  SORT_TOTAL,
  SORT_CALLS,
  SORT_MEAN,
  SORT_P99,
  SORT_MAX,
} CallsSort;

static const struct
{
  const char *name;
  double part;
} percentiles[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 } };

static const char *const sorts[] = { "self", "total", "calls", "mean", "p99", "max", NULL };

typedef struct
{
  CallsSort sort;
  gboolean has_sort;
  int n_rows; /* 0: all */
  gboolean paths;
  char *function;
  char *other; /* what is compared with it */
  gboolean json;
  gboolean no_pager;
  gint64 pid;
} CallsCommand;

static void
calls_command_clear (CallsCommand *self)
{
  g_free (self->function);
  g_free (self->other);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (CallsCommand, calls_command_clear)

static gboolean
parse_sort (const char *name, const char *value, gpointer user_data, GError **error)
{
  CallsCommand *self = user_data;
  int index = sonde_choice_find (name, value, sorts, error);

  self->sort = (CallsSort) MAX (index, 0);
  self->has_sort = TRUE;
  return index >= 0;
}

static gboolean
parse_options (CallsCommand *self, int *argc, char ***argv)
{
  const GOptionEntry entries[]
      = { { "sort", 's', 0, G_OPTION_ARG_CALLBACK, (gpointer) parse_sort,
            "self (the default), total, calls, mean, p99 or max", "COLUMN" },
          { "paths", 0, 0, G_OPTION_ARG_NONE, &self->paths, "Call paths, not functions", NULL },
          { "function", 0, 0, G_OPTION_ARG_STRING, &self->function,
            "How long calls of FUNCTION took, and its callers", "FUNCTION" },
          { "diff", 0, 0, G_OPTION_ARG_FILENAME, &self->other,
            "What is otherwise in that later capture", "OTHER" },
          { "limit", 'n', 0, G_OPTION_ARG_INT, &self->n_rows, "Show at most N rows (40; 0: all)",
            "N" },
          { "pid", 'p', 0, G_OPTION_ARG_INT64, &self->pid, "Only this process", "PID" },
          { "json", 0, 0, G_OPTION_ARG_NONE, &self->json, "For programs", NULL },
          { "no-pager", 0, 0, G_OPTION_ARG_NONE, &self->no_pager, "Do not start $PAGER", NULL },
          G_OPTION_ENTRY_NULL };

  return sonde_cli_parse (
      argc, argv, "FILE",
      "Shows how often functions were called, and how long calls took. FILE may "
      "be -\n(standard input). sondectl record --trace makes one.",
      "Example:\n  sondectl calls traced.syscap", entries, FALSE, self);
}

/* NULL, having complained, if there is nothing to show. */
static SondeCalls *
read_calls (const char *path, const CallsCommand *command)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  g_autoptr (SondeCalls) calls = NULL;
  g_autofree char *shown = sonde_text_escape (path, -1);
  const SondeFrame *frame;

  if (file == NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return NULL;
    }
  calls = sonde_calls_new ((gint32) CLAMP (command->pid, -1, G_MAXINT32));
  calls->start_ns = sonde_capture_file_header (file)->time_ns;
  while (sonde_capture_file_next (file, &frame, &error))
    sonde_calls_add_frame (calls, frame);
  if (error != NULL)
    sonde_cli_complain ("%s; showing what came before", error->message);
  sonde_calls_finish (calls);
  if (sonde_calls_reader_fault (calls->reader) != NULL)
    sonde_cli_complain ("%s; what follows of its process is not shown",
                        sonde_calls_reader_fault (calls->reader));
  if (calls->rows->len > 0)
    return g_steal_pointer (&calls);
  if (sonde_calls_reader_n_programs (calls->reader) == 0)
    sonde_cli_complain ("%s tells nothing of calls: sondectl record --trace does", shown);
  else if (calls->n_programs == 0)
    sonde_cli_complain ("%s has no calls of process %" G_GINT64_FORMAT, shown, command->pid);
  else if (calls->n_refused > 0)
    sonde_cli_complain ("No function of %s was counted: %" G_GUINT64_FORMAT
                        " places in its programs could not be changed: %s",
                        shown, calls->n_refused, sonde_calls_reason_to_string (calls->reason));
  else
    sonde_cli_complain ("No function of %s was called that tells of it: its programs have to be "
                        "built with -finstrument-functions, or clang's -fxray-instrument",
                        shown);
  return NULL;
}

/* --- columns --- */

static double
sort_key (const SondeCallsSum *sum, double p99_ns, CallsSort sort)
{
  switch (sort)
    {
    case SORT_SELF:
      return sum->self_ns;
    case SORT_TOTAL:
      return sum->total_ns;
    case SORT_MEAN:
      return sum->mean_ns;
    case SORT_P99:
      return p99_ns;
    case SORT_MAX:
      return sum->max_ns;
    case SORT_CALLS:
    default:
      return (double) sum->calls;
    }
}

typedef struct
{
  double key;
  guint64 calls;
  guint index;
} Ranked;

static int
compare_ranked (gconstpointer a, gconstpointer b)
{
  const Ranked *one = a;
  const Ranked *other = b;

  if (one->key > other->key || one->key < other->key)
    return one->key > other->key ? -1 : 1;
  if (one->calls != other->calls)
    return one->calls > other->calls ? -1 : 1;
  return one->index < other->index ? -1 : one->index > other->index;
}

static void
append_time (GString *out, double ns, gboolean is_known, gboolean is_rough)
{
  g_autofree char *time = is_known ? sonde_calls_dup_time (ns) : g_strdup ("-");

  g_string_append_printf (out, " %s%8s", is_rough ? "~" : " ", time);
}

static const char *
timed_word (const SondeCallsSum *sum)
{
  if (sum->timed == 0)
    return "none";
  return sum->is_sampled ? "some" : "all";
}

/* --- texts --- */

static void
append_head (GString *out, const SondeCalls *calls)
{
  const guint64 *account = calls->account;
  g_autofree char *counted = sonde_text_count (account[SONDE_CALLS_ACCOUNT_COUNTED]);
  g_autofree char *programs = sonde_text_plural (calls->n_programs, "process", "processes");
  g_autofree char *threads
      = sonde_text_plural (account[SONDE_CALLS_ACCOUNT_N_THREADS], "thread", "threads");
  static const struct
  {
    SondeCallsAccount account;
    const char *why;
  } losses[] = {
    { SONDE_CALLS_ACCOUNT_LOST_BUDGET, "had no room: more --trace-memory" },
    { SONDE_CALLS_ACCOUNT_LOST_DEPTH, "were deeper than --trace-depth" },
    { SONDE_CALLS_ACCOUNT_LOST_THREADS, "were of threads without room" },
    { SONDE_CALLS_ACCOUNT_LOST_INTERRUPTED, "were of signal handlers that interrupted two hooks" },
    { SONDE_CALLS_ACCOUNT_LOST_TIMINGS, "had no room for their times" },
  };
  gboolean is_lost = FALSE;

  g_string_append_printf (out, "%-10s%s by %s of %s\n", "Calls", counted, threads, programs);
  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    if (account[losses[i].account] > 0)
      {
        g_autofree char *n = sonde_text_plural (account[losses[i].account], "call", "calls");

        g_string_append_printf (out, "%-10s%s %s\n", is_lost ? "" : "Lost", n, losses[i].why);
        is_lost = TRUE;
      }
  if (calls->n_partial > 0)
    {
      g_autofree char *partial = sonde_text_plural (calls->n_partial, "process", "processes");

      g_string_append_printf (out, "%-10sa part of what %s called, which could not be read\n",
                              is_lost ? "" : "Lost", partial);
      is_lost = TRUE;
    }
  if (calls->n_left_out > 0)
    {
      g_autofree char *later
          = sonde_text_plural (calls->n_left_out, "later process", "later processes");

      g_string_append_printf (out, "%-10sall that %s%s called\n", is_lost ? "" : "Lost", later,
                              calls->n_left_out < SONDE_CALLS_READER_MAX_PROGRAMS ? ""
                                                                                  : " or more");
      is_lost = TRUE;
    }
  if (calls->n_refused > 0)
    {
      g_autofree char *places = sonde_text_plural (calls->n_refused, "place", "places");

      g_string_append_printf (out, "%-10sthe calls of functions in %s (see below)\n",
                              is_lost ? "" : "Lost", places);
      is_lost = TRUE;
    }
  if (!is_lost)
    g_string_append_printf (out, "%-10snothing\n", "Lost");
  if (calls->hooks_ns > 0)
    {
      g_autofree char *hooks = sonde_calls_dup_time (calls->hooks_ns);

      g_string_append_printf (out,
                              "%-10sabout %s of processor time, some of which is in what "
                              "calls took\n",
                              "Hooks", hooks);
    }
}

/* The slowest first. */
static void
append_slow (GString *out, const SondeCalls *calls)
{
  guint n = MIN (calls->slow->len, MAX_SLOW);
  g_autofree char *all = sonde_text_plural (calls->n_slow, "slow call", "slow calls");

  if (n == 0)
    return;
  g_string_append_printf (out, "\n%s%s\n        at       took  path\n", all,
                          n < calls->n_slow ? ", of which the slowest" : "");
  for (guint i = 0; i < n; i++)
    {
      const SondeCallsSlow *slow = &g_array_index (calls->slow, SondeCallsSlow, i);
      g_autofree char *took = sonde_calls_dup_time ((double) slow->duration_ns);

      g_string_append_printf (out, "%8.3f s   %8s  %s\n",
                              (double) (slow->begin_ns - calls->start_ns) / 1e9, took, slow->path);
    }
}

static void
append_foot (GString *out, const SondeCalls *calls)
{
  guint n_words = 0;

  append_slow (out, calls);

  for (guint i = 0; i < sonde_calls_reader_n_programs (calls->reader); i++)
    {
      const SondeCallsProgram *program = sonde_calls_reader_program (calls->reader, i);

      if (calls->pid >= 0 && program->pid != calls->pid)
        continue;
      if (program->refused != NULL)
        {
          g_autofree char *why = sonde_text_escape (program->refused, -1);

          g_string_append_printf (out, "\nProcess %d was not read to its end: %s\n", program->pid,
                                  why);
        }
      if (program->n_refused > 0)
        g_string_append_printf (out,
                                "\nProcess %d: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                                " functions were counted; %" G_GUINT64_FORMAT
                                " places could not be changed: %s\n",
                                program->pid, program->n_patched, program->n_functions,
                                program->n_refused, sonde_calls_reason_to_string (program->reason));
      for (guint j = 0; j < program->uncounted->len; j++)
        {
          const SondeCallsUncounted *left
              = &g_array_index (program->uncounted, SondeCallsUncounted, j);
          g_autofree char *since = sonde_text_duration (left->since_ns - program->begin_ns);
          const char *name = sonde_calls_name_of (calls, i, left->address);

          if (j == MAX_LEFT_OUT)
            {
              g_string_append_printf (out, "and %u more\n", program->uncounted->len - j);
              break;
            }
          g_string_append_printf (out, "%sProcess %d: %s was left out by --trace-budget after %s\n",
                                  j == 0 ? "\n" : "", program->pid, name, since);
        }
      for (guint j = 0; j < program->words->len && n_words < MAX_WORDS; j++, n_words++)
        {
          const SondeCallsWords *words = &g_array_index (program->words, SondeCallsWords, j);
          g_autofree char *path = sonde_calls_dup_path (calls, i, words->path);

          if (path[0] != '\0')
            g_string_append_printf (out, "%sThread %d of process %d ended in: %s\n",
                                    n_words == 0 ? "\n" : "", words->tid, program->pid, path);
        }
    }
}

static void
append_row (GString *out, const SondeCalls *calls, const SondeCallsRow *row)
{
  const SondeCallsSum *sum = &row->sum;
  const SondeFunction *function = sonde_calls_function (calls, row->function);
  gboolean is_timed = sum->timed > 0;
  g_autofree char *n = sonde_text_count (sum->calls);

  g_string_append_printf (out, "%14s", n);
  append_time (out, sum->total_ns, is_timed, FALSE);
  append_time (out, sum->self_ns, is_timed, FALSE);
  append_time (out, sum->min_ns, is_timed, FALSE);
  append_time (out, sum->mean_ns, is_timed, FALSE);
  for (guint i = 0; i < G_N_ELEMENTS (percentiles); i++)
    append_time (out, sonde_calls_quantile (row, percentiles[i].part), is_timed,
                 is_timed && sonde_calls_is_rough (sum, percentiles[i].part));
  append_time (out, sum->max_ns, is_timed, FALSE);
  g_string_append_printf (out, "  %-5s  %s", timed_word (sum), function->name);
  if (function->module[0] != '\0')
    g_string_append_printf (out, "  %s", function->module);
  g_string_append_c (out, '\n');
}

#define TITLES                                                                                     \
  "         calls      total       self        min       mean        p50        p90        p99"    \
  "        max  timed  function\n"

static void
append_rest (GString *out, guint n_shown, guint n)
{
  if (n_shown < n)
    g_string_append_printf (out, "%14s [%u more: --limit 0 shows all]\n", "", n - n_shown);
}

static GArray *
rank_rows (const SondeCalls *calls, CallsSort sort)
{
  GArray *ranked = g_array_new (FALSE, FALSE, sizeof (Ranked));

  for (guint i = 0; i < calls->rows->len; i++)
    {
      const SondeCallsRow *row = &g_array_index (calls->rows, SondeCallsRow, i);
      const Ranked entry
          = { sort_key (&row->sum, sonde_calls_quantile (row, 0.99), sort), row->sum.calls, i };

      g_array_append_val (ranked, entry);
    }
  g_array_sort (ranked, compare_ranked);
  return ranked;
}

static guint
count_shown (const CallsCommand *command, guint n)
{
  return command->n_rows > 0 ? MIN (n, (guint) command->n_rows) : n;
}

static void
append_functions (GString *out, const SondeCalls *calls, const CallsCommand *command)
{
  g_autoptr (GArray) ranked = rank_rows (calls, command->sort);
  guint n = count_shown (command, ranked->len);
  gboolean is_any_rough = FALSE;

  g_string_append (out, "\n" TITLES);
  for (guint i = 0; i < n; i++)
    {
      const SondeCallsRow *row
          = &g_array_index (calls->rows, SondeCallsRow, g_array_index (ranked, Ranked, i).index);

      append_row (out, calls, row);
      is_any_rough = is_any_rough || (row->sum.timed > 0 && sonde_calls_is_rough (&row->sum, 0.99));
    }
  append_rest (out, n, ranked->len);
  if (is_any_rough)
    g_string_append (out, "\n~ rests on fewer than ten calls that were timed beyond it\n");
}

/* --- paths --- */

typedef struct
{
  const SondeCalls *calls;
  const CallsCommand *command;
  GString *out;
  GArray **children; /* (nullable) of guint, by node */
  guint n_shown;
} PathsView;

static void
append_paths (PathsView *self, guint node, guint depth)
{
  g_autoptr (GArray) ranked = g_array_new (FALSE, FALSE, sizeof (Ranked));

  for (guint i = 0; self->children[node] != NULL && i < self->children[node]->len; i++)
    {
      guint child = g_array_index (self->children[node], guint, i);
      const SondeCallsSum *sum = &g_array_index (self->calls->nodes, SondeCallsNode, child - 1).sum;
      const Ranked entry = { sort_key (sum, 0, self->command->sort), sum->calls, child };

      g_array_append_val (ranked, entry);
    }
  g_array_sort (ranked, compare_ranked);
  for (guint i = 0; i < ranked->len; i++)
    {
      guint child = g_array_index (ranked, Ranked, i).index;
      const SondeCallsNode *at = &g_array_index (self->calls->nodes, SondeCallsNode, child - 1);
      gboolean is_timed = at->sum.timed > 0;

      if (at->parent != 0)
        {
          g_autofree char *n = sonde_text_count (at->sum.calls);

          if (self->command->n_rows > 0 && self->n_shown >= (guint) self->command->n_rows)
            return;
          self->n_shown++;
          g_string_append_printf (self->out, "%14s", n);
          append_time (self->out, at->sum.total_ns, is_timed, FALSE);
          append_time (self->out, at->sum.self_ns, is_timed, FALSE);
          append_time (self->out, at->sum.mean_ns, is_timed, FALSE);
          append_time (self->out, at->sum.max_ns, is_timed, FALSE);
          g_string_append_printf (self->out, "  %*s%s\n", (int) MIN (2 * depth, 120), "",
                                  sonde_calls_function (self->calls, at->function)->name);
        }
      append_paths (self, child, depth + (at->parent != 0 ? 1 : 0));
    }
}

static void
append_tree (GString *out, const SondeCalls *calls, const CallsCommand *command)
{
  guint n = calls->nodes->len;
  guint n_roots = 0;
  PathsView view
      = { .calls = calls, .command = command, .out = out, .children = g_new0 (GArray *, n + 1) };

  for (guint i = 0; i < n; i++)
    {
      guint parent = g_array_index (calls->nodes, SondeCallsNode, i).parent;
      guint child = i + 1;

      n_roots += parent == 0;
      if (view.children[parent] == NULL)
        view.children[parent] = g_array_new (FALSE, FALSE, sizeof (guint));
      g_array_append_val (view.children[parent], child);
    }
  g_string_append (out, "\n         calls      total       self       mean        max  path\n");
  append_paths (&view, 0, 0);
  append_rest (out, view.n_shown, n - n_roots);
  for (guint i = 0; i <= n; i++)
    g_clear_pointer (&view.children[i], g_array_unref);
  g_free (view.children);
}

/* --- one function --- */

static const SondeCallsRow *
find_row (const SondeCalls *calls, const char *name)
{
  for (guint i = 0; i < calls->rows->len; i++)
    {
      const SondeCallsRow *row = &g_array_index (calls->rows, SondeCallsRow, i);

      if (g_str_equal (sonde_calls_function (calls, row->function)->name, name))
        return row;
    }
  return NULL;
}

/* A bar for each octave, or for each quarter of one where there are few. */
static void
append_histogram (GString *out, const SondeCallsRow *row)
{
  guint64 most = 0;
  guint first = SONDE_CALLS_N_BUCKETS, last = 0;
  guint step;

  for (guint i = 0; row->buckets != NULL && i < SONDE_CALLS_N_BUCKETS; i++)
    if (row->buckets[i] > 0)
      {
        first = MIN (first, i);
        last = i;
      }
  if (first > last)
    return;
  step = last - first <= 96 ? 4 : 16;
  first -= first % step;
  for (guint pass = 0; pass < 2; pass++)
    for (guint i = first; i <= last; i += step)
      {
        guint64 n = 0;
        g_autofree char *from = NULL;
        g_autofree char *count = NULL;

        for (guint j = i; j < i + step; j++)
          n += row->buckets[j];
        most = MAX (most, n);
        if (pass == 0)
          continue;
        from = sonde_calls_dup_time ((double) sonde_calls_bucket_begin (i) * row->ns_a_tick);
        count = sonde_text_count (n);
        g_string_append_printf (out, "%10s %14s  ", from, count);
        for (guint j = 0; j < (guint) ((double) n / (double) most * BAR_WIDTH + 0.5); j++)
          g_string_append_c (out, '#');
        g_string_append_c (out, '\n');
      }
}

/* Between what percentiles are, where only some calls were timed, or few. */
static void
append_estimates (GString *out, const SondeCallsRow *row)
{
  g_string_append_c (out, '\n');
  for (guint i = 0; i < G_N_ELEMENTS (percentiles); i++)
    {
      SondeCallsEstimate estimate;
      g_autofree char *low = NULL;
      g_autofree char *high = NULL;

      if (!sonde_calls_estimate (row, percentiles[i].part, &estimate))
        return;
      low = sonde_calls_dup_time (estimate.low_ns);
      high = sonde_calls_dup_time (estimate.high_ns);
      g_string_append_printf (out, "%s is between %s and %s, in 99 of 100 such recordings\n",
                              percentiles[i].name, low, high);
    }
}

static gboolean
append_function (GString *out, const SondeCalls *calls, const CallsCommand *command)
{
  const SondeCallsRow *row = find_row (calls, command->function);
  g_autoptr (GHashTable) callers = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_autoptr (GArray) ranked = g_array_new (FALSE, FALSE, sizeof (Ranked));
  GHashTableIter iter;
  gpointer key, value;

  if (row == NULL)
    {
      g_autofree char *shown = sonde_text_escape (command->function, -1);

      sonde_cli_complain ("no function %s was called", shown);
      return FALSE;
    }
  g_string_append (out, "\n" TITLES);
  append_row (out, calls, row);
  append_estimates (out, row);
  if (row->buckets != NULL)
    g_string_append (out, "\n      from          calls\n");
  append_histogram (out, row);
  for (guint i = 0; i < calls->nodes->len; i++)
    {
      const SondeCallsNode *node = &g_array_index (calls->nodes, SondeCallsNode, i);
      guint32 caller;
      guint64 *n;

      if (node->function != row->function || node->parent == 0)
        continue;
      caller = g_array_index (calls->nodes, SondeCallsNode, node->parent - 1).function;
      n = g_hash_table_lookup (callers, GUINT_TO_POINTER (caller));
      if (n == NULL)
        {
          n = g_new0 (guint64, 1);
          g_hash_table_insert (callers, GUINT_TO_POINTER (caller), n);
        }
      *n += node->sum.calls;
    }
  g_hash_table_iter_init (&iter, callers);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      const guint64 *n = value;
      const Ranked entry = { (double) *n, *n, GPOINTER_TO_UINT (key) };

      g_array_append_val (ranked, entry);
    }
  g_array_sort (ranked, compare_ranked);
  g_string_append (out, "\n         calls  from\n");
  for (guint i = 0; i < count_shown (command, ranked->len); i++)
    {
      const Ranked *entry = &g_array_index (ranked, Ranked, i);
      g_autofree char *n = sonde_text_count (entry->calls);

      g_string_append_printf (out, "%14s  %s\n", n,
                              sonde_calls_function (calls, entry->index)->name);
    }
  return TRUE;
}

/* --- two captures --- */

typedef struct
{
  const SondeCallsRow *before; /* NULL: it was not called */
  const SondeCallsRow *after;
  double change_ns; /* of what they took, or, if neither was timed, of how often */
} Pair;

static int
compare_pairs (gconstpointer a, gconstpointer b)
{
  double one = ABS (((const Pair *) a)->change_ns);
  double other = ABS (((const Pair *) b)->change_ns);

  return one > other ? -1 : one < other;
}

/* "1,000 -> 2,000", of a quantity that both have. */
static void
append_change (GString *out, const char *before, const char *after, int width)
{
  g_autofree char *change = g_strdup_printf ("%s -> %s", before, after);

  g_string_append_printf (out, "%*s", width, change);
}

/* Returns: whether it is more than chance */
static gboolean
append_time_change (GString *out,
                    const SondeCallsRow *before,
                    const SondeCallsRow *after,
                    double part,
                    guint n_together)
{
  const SondeCallsRow *rows[] = { before, after };
  gboolean is_shifted = part > 0 && sonde_calls_is_shifted (before, after, part, n_together);
  char *texts[2];

  for (guint i = 0; i < 2; i++)
    texts[i] = rows[i] == NULL || rows[i]->sum.timed == 0 ? g_strdup ("-")
               : part > 0 ? sonde_calls_dup_time (sonde_calls_quantile (rows[i], part))
                          : sonde_calls_dup_time (rows[i]->sum.self_ns);
  append_change (out, texts[0], texts[1], 22);
  g_string_append (out, is_shifted ? " *" : "  ");
  for (guint i = 0; i < 2; i++)
    g_free (texts[i]);
  return is_shifted;
}

static double
weigh (const SondeCallsRow *row, gboolean is_timed)
{
  if (row == NULL)
    return 0;
  return is_timed ? row->sum.self_ns : (double) row->sum.calls;
}

/* What changed most first. Functions go by name and module: the captures may be of different
 * builds. */
static GArray *
new_pairs (const SondeCalls *before, const SondeCalls *after)
{
  g_autoptr (GHashTable) numbers
      = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  GArray *pairs = g_array_new (FALSE, TRUE, sizeof (Pair));
  const SondeCalls *sides[] = { before, after };
  gboolean is_timed = FALSE;

  for (guint side = 0; side < G_N_ELEMENTS (sides); side++)
    for (guint i = 0; i < sides[side]->rows->len; i++)
      {
        const SondeCallsRow *row = &g_array_index (sides[side]->rows, SondeCallsRow, i);
        const SondeFunction *function = sonde_calls_function (sides[side], row->function);
        g_autofree char *key = g_strconcat (function->name, "\n", function->module, NULL);
        guint number = GPOINTER_TO_UINT (g_hash_table_lookup (numbers, key));
        Pair *pair;

        if (number == 0)
          {
            g_array_set_size (pairs, pairs->len + 1);
            number = pairs->len;
            g_hash_table_insert (numbers, g_steal_pointer (&key), GUINT_TO_POINTER (number));
          }
        pair = &g_array_index (pairs, Pair, number - 1);
        *(side == 0 ? &pair->before : &pair->after) = row;
        is_timed = is_timed || row->sum.timed > 0;
      }
  for (guint i = 0; i < pairs->len; i++)
    {
      Pair *pair = &g_array_index (pairs, Pair, i);

      pair->change_ns = weigh (pair->after, is_timed) - weigh (pair->before, is_timed);
    }
  g_array_sort (pairs, compare_pairs);
  return pairs;
}

/* Percentiles that are compared: all that are, so that the same are marked whatever is shown. */
static guint
count_compared (const GArray *pairs)
{
  guint n = 0;

  for (guint i = 0; i < pairs->len; i++)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i);

      if (sonde_calls_is_comparable (pair->before, pair->after))
        n += G_N_ELEMENTS (percentiles);
    }
  return n;
}

static const SondeFunction *
function_of_pair (const Pair *pair, const SondeCalls *before, const SondeCalls *after)
{
  return pair->after != NULL ? sonde_calls_function (after, pair->after->function)
                             : sonde_calls_function (before, pair->before->function);
}

static void
append_diff (GString *out,
             const SondeCalls *before,
             const SondeCalls *after,
             const CallsCommand *command)
{
  g_autoptr (GArray) pairs = new_pairs (before, after);
  gboolean is_any_shifted = FALSE;
  guint n_together = count_compared (pairs);
  guint n = count_shown (command, pairs->len);

  g_string_append (out, "\n                     calls                  self                     p50"
                        "                     p99    function\n");
  for (guint i = 0; i < n; i++)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i);
      const SondeFunction *function = function_of_pair (pair, before, after);
      g_autofree char *old = sonde_text_count (pair->before != NULL ? pair->before->sum.calls : 0);
      g_autofree char *new = sonde_text_count (pair->after != NULL ? pair->after->sum.calls : 0);

      append_change (out, old, new, 26);
      append_time_change (out, pair->before, pair->after, 0, n_together);
      is_any_shifted |= append_time_change (out, pair->before, pair->after, 0.5, n_together);
      is_any_shifted |= append_time_change (out, pair->before, pair->after, 0.99, n_together);
      g_string_append_printf (out, "  %s\n", function->name);
    }
  append_rest (out, n, pairs->len);
  if (is_any_shifted)
    g_string_append (out, "\n" SONDE_CHANCE_MARK ", as independent calls\n");
}

/* --- JSON --- */

static void
add_sum (SondeJson *json, const SondeCallsSum *sum)
{
  sonde_json_add_number (json, "calls", (gint64) sum->calls);
  sonde_json_add_text (json, "timed", timed_word (sum));
  if (sum->timed == 0)
    return;
  sonde_json_add_number (json, "total_ns", (gint64) sum->total_ns);
  sonde_json_add_number (json, "self_ns", (gint64) sum->self_ns);
  sonde_json_add_number (json, "min_ns", (gint64) sum->min_ns);
  sonde_json_add_number (json, "mean_ns", (gint64) sum->mean_ns);
  sonde_json_add_number (json, "max_ns", (gint64) sum->max_ns);
}

/* "p99_ns", and between what it is. */
static void
add_percentile (SondeJson *json, const SondeCallsRow *row, guint index)
{
  SondeCallsEstimate estimate;
  const struct
  {
    const char *suffix;
    const double *ns;
  } parts[] = { { "ns", &estimate.ns },
                { "low_ns", &estimate.low_ns },
                { "high_ns", &estimate.high_ns } };

  if (!sonde_calls_estimate (row, percentiles[index].part, &estimate))
    return;
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autofree char *name = g_strdup_printf ("%s_%s", percentiles[index].name, parts[i].suffix);

      sonde_json_add_number (json, name, (gint64) *parts[i].ns);
    }
}

static void
add_row (SondeJson *json, const SondeCallsRow *row)
{
  add_sum (json, &row->sum);
  if (row->sum.timed > 0)
    sonde_json_add_number (json, "timed_calls", (gint64) row->sum.n_timed);
  for (guint i = 0; i < G_N_ELEMENTS (percentiles); i++)
    add_percentile (json, row, i);
}

static void
add_function (SondeJson *json, const SondeFunction *function)
{
  sonde_json_add_text (json, "name", function->name);
  sonde_json_add_text (json, "module", function->module);
}

/* What a capture has as a whole. */
static void
add_account (SondeJson *json, const SondeCalls *calls)
{
  static const struct
  {
    const char *name;
    SondeCallsAccount account;
  } sums[] = {
    { "calls", SONDE_CALLS_ACCOUNT_COUNTED },
    { "lost_budget", SONDE_CALLS_ACCOUNT_LOST_BUDGET },
    { "lost_depth", SONDE_CALLS_ACCOUNT_LOST_DEPTH },
    { "lost_threads", SONDE_CALLS_ACCOUNT_LOST_THREADS },
    { "lost_interrupted", SONDE_CALLS_ACCOUNT_LOST_INTERRUPTED },
    { "lost_timings", SONDE_CALLS_ACCOUNT_LOST_TIMINGS },
  };

  for (guint i = 0; i < G_N_ELEMENTS (sums); i++)
    sonde_json_add_number (json, sums[i].name, (gint64) calls->account[sums[i].account]);
  sonde_json_add_number (json, "partial_processes", calls->n_partial);
  sonde_json_add_number (json, "refused_places", (gint64) calls->n_refused);
  sonde_json_add_number (json, "hooks_ns", (gint64) calls->hooks_ns);
}

/* Of each function what it was and what it is: the one that is not there was not called. */
static void
append_diff_json (GString *out, const SondeCalls *before, const SondeCalls *after)
{
  g_autoptr (GArray) pairs = new_pairs (before, after);
  guint n_together = count_compared (pairs);
  SondeJson json = SONDE_JSON_INIT (out);

  sonde_json_begin_object (&json, NULL);
  sonde_json_add_number (&json, "version", SCHEMA_VERSION);
  sonde_json_begin_object (&json, "before");
  add_account (&json, before);
  sonde_json_end_object (&json);
  sonde_json_begin_object (&json, "after");
  add_account (&json, after);
  sonde_json_end_object (&json);
  sonde_json_begin_array (&json, "functions");
  for (guint i = 0; i < pairs->len; i++)
    {
      const Pair *pair = &g_array_index (pairs, Pair, i);
      const struct
      {
        const char *name;
        const SondeCallsRow *row;
      } sides[] = { { "before", pair->before }, { "after", pair->after } };

      sonde_json_begin_object (&json, NULL);
      add_function (&json, function_of_pair (pair, before, after));
      for (guint j = 0; j < G_N_ELEMENTS (sides); j++)
        if (sides[j].row != NULL)
          {
            sonde_json_begin_object (&json, sides[j].name);
            add_row (&json, sides[j].row);
            sonde_json_end_object (&json);
          }
      sonde_json_begin_array (&json, "changed");
      for (guint j = 0; j < G_N_ELEMENTS (percentiles); j++)
        if (sonde_calls_is_shifted (pair->before, pair->after, percentiles[j].part, n_together))
          sonde_json_add_text (&json, NULL, percentiles[j].name);
      sonde_json_end_array (&json);
      sonde_json_end_object (&json);
    }
  sonde_json_end_array (&json);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
}

static void
append_json (GString *out, const SondeCalls *calls, const CallsCommand *command)
{
  g_autoptr (GArray) ranked = rank_rows (calls, command->sort);
  SondeJson json = SONDE_JSON_INIT (out);

  sonde_json_begin_object (&json, NULL);
  sonde_json_add_number (&json, "version", SCHEMA_VERSION);
  add_account (&json, calls);
  sonde_json_begin_array (&json, "functions");
  for (guint i = 0; i < ranked->len; i++)
    {
      const SondeCallsRow *row
          = &g_array_index (calls->rows, SondeCallsRow, g_array_index (ranked, Ranked, i).index);

      sonde_json_begin_object (&json, NULL);
      add_function (&json, sonde_calls_function (calls, row->function));
      add_row (&json, row);
      sonde_json_end_object (&json);
    }
  sonde_json_end_array (&json);
  sonde_json_begin_array (&json, "paths");
  for (guint i = 0; i < calls->nodes->len && command->paths; i++)
    {
      const SondeCallsNode *node = &g_array_index (calls->nodes, SondeCallsNode, i);

      sonde_json_begin_object (&json, NULL);
      sonde_json_add_number (&json, "parent", (gint64) node->parent - 1);
      sonde_json_add_number (&json, "pid",
                             sonde_calls_reader_program (calls->reader, node->program)->pid);
      sonde_json_add_text (&json, "name", sonde_calls_function (calls, node->function)->name);
      add_sum (&json, &node->sum);
      sonde_json_end_object (&json);
    }
  sonde_json_end_array (&json);
  sonde_json_add_number (&json, "slow_calls", (gint64) calls->n_slow);
  sonde_json_begin_array (&json, "slowest");
  for (guint i = 0; i < calls->slow->len; i++)
    {
      const SondeCallsSlow *slow = &g_array_index (calls->slow, SondeCallsSlow, i);

      sonde_json_begin_object (&json, NULL);
      sonde_json_add_number (&json, "pid", slow->pid);
      sonde_json_add_number (&json, "begin_ns", slow->begin_ns - calls->start_ns);
      sonde_json_add_number (&json, "duration_ns", slow->duration_ns);
      sonde_json_add_text (&json, "path", slow->path);
      sonde_json_end_object (&json);
    }
  sonde_json_end_array (&json);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
}

int
sonde_cmd_calls (int argc, char **argv)
{
  g_auto (CallsCommand) command = { .n_rows = DEFAULT_ROWS, .pid = -1 };
  g_autoptr (SondeCalls) calls = NULL;
  g_autoptr (SondeCalls) other = NULL;
  guint n_views;
  g_autoptr (GString) out = g_string_new (NULL);
  gboolean is_right = TRUE;

  if (!parse_options (&command, &argc, &argv))
    return 1;
  n_views = command.paths + (command.function != NULL) + (command.other != NULL);
  if (argc != 2)
    sonde_cli_complain ("calls needs one FILE; see sondectl calls --help");
  else if (command.n_rows < 0)
    sonde_cli_complain ("--limit takes a number of rows, not %d", command.n_rows);
  else if (n_views > 1)
    sonde_cli_complain ("only one of --paths, --function and --diff at a time");
  else if (command.json && command.function != NULL)
    sonde_cli_complain ("--json is of all functions, and with --paths of all paths");
  else
    {
      calls = read_calls (argv[1], &command);
      if (calls != NULL && command.other != NULL)
        other = read_calls (command.other, &command);
      is_right = calls != NULL && (command.other == NULL || other != NULL);
      if (!is_right)
        return 1;
    }
  if (calls == NULL)
    return 1;
  /* Of calls that were only counted nothing else is known. */
  if (!command.has_sort && !calls->has_times)
    command.sort = SORT_CALLS;
  if (command.json && other != NULL)
    append_diff_json (out, calls, other);
  else if (command.json)
    append_json (out, calls, &command);
  else
    {
      append_head (out, calls);
      if (other != NULL)
        append_diff (out, calls, other, &command);
      else if (command.function != NULL)
        is_right = append_function (out, calls, &command);
      else if (command.paths)
        append_tree (out, calls, &command);
      else
        append_functions (out, calls, &command);
      append_foot (out, calls);
    }
  if (!is_right)
    return 1;
  return (command.json || command.no_pager ? sonde_cli_print (out) : sonde_pager_print (out)) ? 0
                                                                                              : 1;
}
