/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile-diff.h"

#include <math.h>

#include "client/base/chance.h"
#include "client/report/profile-sums.h"
#include "client/base/text.h"
#include "client/names/short-name.h"
#include "client/report/profile.h"

#define SHARES_WIDTH    25 /* columns of a row before its text */
#define INTERVAL_WIDTH  20 /* and those more of an interval */
#define MIN_PER_SLICE   4  /* samples, on average */

#define NOTHING_CHANGED "Nothing changed by more than chance lets it.\n"

/* The functions of both profiles, equal ones once: name, module and source line are the same. */
typedef struct
{
  GPtrArray *functions; /* const SondeFunction */
  GHashTable *by_name;  /* "NAME\nMODULE\nSOURCE", without other newlines → number */
} FunctionSet;

static FunctionSet
function_set_make (void)
{
  return (FunctionSet){ .functions = g_ptr_array_new (),
                        .by_name
                        = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL) };
}

static void
function_set_clear (FunctionSet *self)
{
  g_ptr_array_unref (self->functions);
  g_hash_table_unref (self->by_name);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FunctionSet, function_set_clear)

/**
 * function_set_add:
 * @profile: (transfer none): kept by the caller as long as the set
 *
 * Returns: (transfer full): by function of @profile its number in the set
 */
static guint32 *
function_set_add (FunctionSet *self, const SondeProfile *profile)
{
  guint32 n = sonde_profile_n_functions (profile);
  guint32 *numbers = g_new (guint32, n);

  for (guint32 i = 0; i < n; i++)
    {
      const SondeFunction *function = sonde_profile_function (profile, i);
      g_autofree char *key
          = g_strdup_printf ("%s\n%s\n%s", function->name, function->module, function->source);
      gpointer found;

      if (!g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
        {
          found = GUINT_TO_POINTER (self->functions->len);
          g_hash_table_insert (self->by_name, g_steal_pointer (&key), found);
          g_ptr_array_add (self->functions, (gpointer) function);
        }
      numbers[i] = GPOINTER_TO_UINT (found);
    }
  return numbers;
}

/* The processes of one name, in both profiles. */
typedef struct
{
  SondeCallTree *before;
  SondeCallTree *both; /* its first nodes are those of before */
} Group;

static void
group_free (gpointer data)
{
  Group *group = data;

  sonde_call_tree_free (group->before);
  sonde_call_tree_free (group->both);
  g_free (group);
}

static void
add_profile (GHashTable *groups,
             const SondeProfile *profile,
             const guint32 *numbers,
             gboolean is_before)
{
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      Group *group = g_hash_table_lookup (groups, process->process.comm);

      if (group == NULL)
        {
          group = g_new0 (Group, 1);
          group->before = sonde_call_tree_new (NULL);
          group->both = sonde_call_tree_new (NULL);
          g_hash_table_insert (groups, g_strdup (process->process.comm), group);
        }
      if (is_before)
        sonde_call_tree_add_tree (group->before, process->tree, numbers);
      sonde_call_tree_add_tree (group->both, process->tree, numbers);
    }
}

/* (transfer full): NULL if nothing grew */
static SondeCallTree *
dup_grown (const Group *group)
{
  g_autoptr (SondeCallTree) grown = sonde_call_tree_new (NULL);
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 n_before = sonde_call_tree_n_nodes (group->before);

  for (guint32 i = 0; i < sonde_call_tree_n_nodes (group->both); i++)
    {
      guint64 before = i < n_before ? sonde_call_tree_node (group->before, i)->self : 0;
      guint64 after = sonde_call_tree_node (group->both, i)->self - before;
      guint n = 0;

      if (after <= before)
        continue;
      /* The path has the ids from the root to the node. */
      for (guint32 at = i; at != 0; at = sonde_call_tree_node (group->both, at)->parent)
        n++;
      g_array_set_size (path, n);
      for (guint32 at = i; at != 0; at = sonde_call_tree_node (group->both, at)->parent)
        g_array_index (path, guint32, --n) = sonde_call_tree_node (group->both, at)->id;
      sonde_call_tree_add (grown, (const guint32 *) (void *) path->data, path->len, after - before);
    }
  return sonde_call_tree_node (grown, 0)->total > 0 ? g_steal_pointer (&grown) : NULL;
}

SondeProfile *
sonde_profile_dup_growth (const SondeProfile *before, const SondeProfile *after)
{
  SondeProfile *growth = sonde_profile_new (sonde_profile_unit (after), NULL);
  g_auto (FunctionSet) set = function_set_make ();
  g_autofree guint32 *old_numbers = function_set_add (&set, before);
  g_autofree guint32 *new_numbers = function_set_add (&set, after);
  g_autoptr (GHashTable) groups
      = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, group_free);
  GHashTableIter iter;
  gpointer comm;
  gpointer group;

  for (guint32 i = 0; i < set.functions->len; i++)
    sonde_profile_add_function (growth, g_ptr_array_index (set.functions, i));
  add_profile (groups, before, old_numbers, TRUE);
  add_profile (groups, after, new_numbers, FALSE);

  g_hash_table_iter_init (&iter, groups);
  while (g_hash_table_iter_next (&iter, &comm, &group))
    {
      SondeModelProcess process = { .pid = -1, .comm = comm, .cmdline = comm };
      SondeCallTree *grown = dup_grown (group);

      if (grown != NULL)
        sonde_profile_add_process (growth, &process, SONDE_TID_ALL, grown, NULL);
    }
  sonde_profile_sort (growth);
  return growth;
}

enum
{
  BEFORE,
  AFTER,
  N_SIDES
};

typedef struct
{
  double share[N_SIDES]; /* percent */
} Shares;

struct SondeProfileDiff
{
  FunctionSet set;              /* of both profiles */
  guint32 *numbers[N_SIDES];    /* in the set, by function of the profile */
  guint32 n_functions[N_SIDES]; /* of the profiles */
  double wholes[N_SIDES];
  Shares *functions_self;
  guint32 *rows; /* by function, number of its change + 1; 0: it was not judged. NULL: none was */
  SondeChange *changes;
  guint n_changes;
  guint n_left_out;     /* functions that should have been judged, but are beyond what can be */
  double percent_limit; /* of those that are judged */
  guint n_slices[N_SIDES];
  gint64 slice_ns[N_SIDES];
  SondeDiffVerdict verdict;
  SondeCallTree *tree; /* of both */
  Shares *nodes;       /* by node: share of its total */
};

typedef struct
{
  GString *out;
  GString *prefix;
  const SondeProfileDiff *diff;
  const SondeProfileStyle *style;
  const gboolean *is_shown; /* by node */
  SondeShortNames *names;
  guint n_lines;
} DiffPrinter;

static double
change_of (const Shares *shares)
{
  return shares->share[AFTER] - shares->share[BEFORE];
}

static double
percent_of (const SondeProfileDiff *self, guint side, guint64 weight)
{
  return 100 * (double) weight / self->wholes[side];
}

static void
share_functions (SondeProfileDiff *self,
                 guint side,
                 const SondeProfile *profile,
                 const guint32 *numbers)
{
  g_auto (SondeProfileSums) sums = { 0 };

  sonde_profile_sums_init (&sums, profile);
  for (guint32 i = 0; i < sums.n_functions; i++)
    self->functions_self[numbers[i]].share[side] += percent_of (self, side, sums.self[i]);
}

static void
add_trees (SondeProfileDiff *self, const SondeProfile *profile, const guint32 *numbers)
{
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    sonde_call_tree_add_tree (self->tree, sonde_profile_process (profile, i)->tree, numbers);
}

SondeProfileDiff *
sonde_profile_diff_new (const SondeProfileSide *before, const SondeProfileSide *after)
{
  SondeProfileDiff *self = g_new0 (SondeProfileDiff, 1);
  const SondeProfileSide *const sides[N_SIDES] = { before, after };
  g_autofree guint64 *old_totals = NULL;
  guint32 n_old;
  guint32 n_nodes;

  self->set = function_set_make ();
  self->tree = sonde_call_tree_new (NULL);
  for (guint side = 0; side < N_SIDES; side++)
    {
      self->numbers[side] = function_set_add (&self->set, sides[side]->profile);
      self->n_functions[side] = sonde_profile_n_functions (sides[side]->profile);
      self->wholes[side] = sides[side]->whole > 0
                               ? sides[side]->whole
                               : (double) sonde_profile_total (sides[side]->profile);
    }
  self->functions_self = g_new0 (Shares, self->set.functions->len);
  for (guint side = 0; side < N_SIDES; side++)
    share_functions (self, side, sides[side]->profile, self->numbers[side]);

  add_trees (self, before->profile, self->numbers[BEFORE]);
  n_old = sonde_call_tree_n_nodes (self->tree);
  old_totals = g_new (guint64, n_old);
  for (guint32 i = 0; i < n_old; i++)
    old_totals[i] = sonde_call_tree_node (self->tree, i)->total;
  add_trees (self, after->profile, self->numbers[AFTER]);
  /* A node of the tree weighs what both profiles added; n_old of them had weight before. */
  n_nodes = sonde_call_tree_n_nodes (self->tree);
  self->nodes = g_new0 (Shares, n_nodes);
  for (guint32 i = 0; i < n_nodes; i++)
    {
      guint64 total = sonde_call_tree_node (self->tree, i)->total;
      guint64 old = i < n_old ? old_totals[i] : 0;

      self->nodes[i].share[BEFORE] = percent_of (self, BEFORE, old);
      self->nodes[i].share[AFTER] = percent_of (self, AFTER, total - old);
    }
  return self;
}

void
sonde_profile_diff_free (SondeProfileDiff *self)
{
  if (self == NULL)
    return;
  function_set_clear (&self->set);
  g_free (self->functions_self);
  for (guint side = 0; side < N_SIDES; side++)
    g_free (self->numbers[side]);
  g_free (self->rows);
  g_free (self->changes);
  sonde_call_tree_free (self->tree);
  g_free (self->nodes);
  g_free (self);
}

/* --- chance --- */

static double
mean_of (const Shares *shares)
{
  return (shares->share[BEFORE] + shares->share[AFTER]) / 2;
}

static int
compare_means (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileDiff *self = user_data;
  double left = mean_of (&self->functions_self[*(const guint32 *) a]);
  double right = mean_of (&self->functions_self[*(const guint32 *) b]);

  return left > right ? -1 : left < right;
}

static gboolean
is_known (const SondeProfileDiff *self)
{
  return self->verdict == SONDE_DIFF_KNOWN;
}

/* Gives rows to the functions that may change by so much, the heaviest first. */
static void
choose_rows (SondeProfileDiff *self, double percent_limit)
{
  guint n = self->set.functions->len;
  g_autofree guint32 *order = g_new (guint32, n);

  self->rows = g_new0 (guint32, n);
  for (guint32 i = 0; i < n; i++)
    order[i] = i;
  g_qsort_with_data (order, (int) n, sizeof *order, compare_means, self);
  self->percent_limit = percent_limit;
  for (guint i = 0; i < n; i++)
    {
      double mean = mean_of (&self->functions_self[order[i]]);

      if (!(mean > 0) || mean < percent_limit / 2)
        break;
      if (self->n_changes < SONDE_CHANCE_MAX_ROWS)
        self->rows[order[i]] = ++self->n_changes;
      else
        self->n_left_out++;
    }
}

static void
cut (SondeProfileDiff *self, guint side, const SondeProfileTimes *times, SondeSlices *slices)
{
  gsize n_slices = MIN (times->n / MIN_PER_SLICE, SONDE_CHANCE_MAX_SLICES);
  double length_ns = (double) times->to_ns - (double) times->from_ns;

  if (!(length_ns > 0))
    n_slices = 0;
  sonde_slices_init (slices, (guint) n_slices, self->n_changes);
  self->n_slices[side] = slices->n_slices;
  if (n_slices == 0)
    return;
  self->slice_ns[side] = (gint64) (length_ns / (double) n_slices);
  for (gsize i = 0; i < times->n; i++)
    {
      double part = ((double) times->times_ns[i] - (double) times->from_ns) / length_ns;
      gsize slice = (gsize) CLAMP (part * (double) n_slices, 0, (double) n_slices - 1);
      guint32 row = times->functions[i] < self->n_functions[side]
                        ? self->rows[self->numbers[side][times->functions[i]]]
                        : 0;

      if (row > 0)
        slices->counts[slice * self->n_changes + row - 1]++;
      slices->whole[slice]++;
    }
  for (gsize i = 0; i < n_slices && times->is_of_time; i++)
    slices->whole[i] = self->wholes[side] / (double) n_slices;
}

SondeDiffVerdict
sonde_profile_diff_judge (SondeProfileDiff *self,
                          const SondeProfileTimes *before,
                          const SondeProfileTimes *after,
                          double percent_limit)
{
  g_auto (SondeSlices) old = { 0 };
  g_auto (SondeSlices) new = { 0 };

  g_assert (self->rows == NULL);
  choose_rows (self, percent_limit);
  cut (self, BEFORE, before, &old);
  cut (self, AFTER, after, &new);
  self->changes = g_new0 (SondeChange, self->n_changes);
  self->verdict = SONDE_DIFF_UNKNOWN;
  if (MIN (old.n_slices, new.n_slices) < SONDE_CHANCE_MIN_SLICES)
    return self->verdict;
  if (self->n_changes == 0)
    self->verdict = SONDE_DIFF_EMPTY;
  else if (sonde_chance_compare (&old, &new, self->n_changes, SONDE_CHANCE_CONFIDENCE,
                                 SONDE_CHANCE_SEED, self->changes))
    self->verdict = SONDE_DIFF_KNOWN;
  return self->verdict;
}

/* NULL: not known */
static const SondeChange *
judged (const SondeProfileDiff *self, guint32 function)
{
  return is_known (self) && self->rows[function] > 0 ? &self->changes[self->rows[function] - 1]
                                                     : NULL;
}

static gboolean
is_marked (const SondeProfileDiff *self, guint32 function)
{
  const SondeChange *change = judged (self, function);

  return change != NULL && change->is_changed;
}

double
sonde_profile_diff_seen (const SondeProfileDiff *self, const SondeFunction **heaviest)
{
  for (guint32 i = 0; is_known (self) && i < self->set.functions->len; i++)
    if (self->rows[i] == 1)
      {
        *heaviest = g_ptr_array_index (self->set.functions, i);
        return 100 * self->changes[0].seen;
      }
  return 0;
}

const SondeFunction *
sonde_profile_diff_find_slower (const SondeProfileDiff *self, double percent, double *change)
{
  const SondeFunction *found = NULL;

  for (guint32 i = 0; is_known (self) && i < self->set.functions->len; i++)
    {
      const SondeChange *at = judged (self, i);
      double points = change_of (&self->functions_self[i]);

      if (at == NULL || !(at->low > 0) || points < percent || (found != NULL && points <= *change))
        continue;
      found = g_ptr_array_index (self->set.functions, i);
      *change = points;
    }
  return found;
}

guint
sonde_profile_diff_count_unjudged (const SondeProfileDiff *self, double percent)
{
  guint n = 0;

  for (guint32 i = 0; self->n_left_out > 0 && i < self->set.functions->len; i++)
    {
      double points = change_of (&self->functions_self[i]);

      n += self->rows[i] == 0 && points > 0 && points >= percent;
    }
  return n;
}

static void
append_labelled (GString *out, const char *label, const char *text, gboolean is_markdown)
{
  if (is_markdown)
    g_string_append_printf (out, "- %s: %s\n", label, text);
  else
    sonde_text_append_labelled (out, label, text);
}

/* "Chance    intervals of 43 functions hold together in 995 of 1,000 such pairs; ..." */
void
sonde_profile_diff_append_chance (GString *out,
                                  const SondeProfileDiff *self,
                                  const SondeProfileStyle *style,
                                  gboolean is_markdown)
{
  const SondeFunction *heaviest;
  double seen = sonde_profile_diff_seen (self, &heaviest);
  double least = seen;
  g_autoptr (SondeShortNames) names = sonde_short_names_new (style->full_names);
  g_autofree char *line = NULL;
  g_autofree char *slice = NULL;
  g_autoptr (GString) name = g_string_new (NULL);

  if (self->rows == NULL)
    return;
  if (self->verdict == SONDE_DIFF_UNKNOWN)
    {
      append_labelled (out, "Chance", "too few samples to tell it from changes", is_markdown);
      return;
    }
  if (self->verdict == SONDE_DIFF_EMPTY)
    {
      line = g_strdup_printf ("nothing is so large that it could have changed by %g points",
                              self->percent_limit);
      append_labelled (out, "Chance", line, is_markdown);
      return;
    }
  for (guint i = 0; i < self->n_changes; i++)
    least = MIN (least, 100 * self->changes[i].seen);
  slice = g_strdup_printf ("%.3g s", (double) self->slice_ns[BEFORE] / 1e9);
  line = g_strdup_printf ("all %u intervals hold in 995 of 1,000 such pairs; %u slices of %s",
                          self->n_changes, self->n_slices[BEFORE], slice);
  append_labelled (out, "Chance", line, is_markdown);
  g_free (line);
  sonde_short_names_add (names, heaviest->name);
  if (is_markdown)
    sonde_text_append_code (name, sonde_short_names_get (names, heaviest->name), FALSE);
  else
    g_string_append (name, sonde_short_names_get (names, heaviest->name));
  line = g_strdup_printf ("in 95 of 100 such pairs: changes of %.2f points; of %s of %.2f", least,
                          name->str, seen);
  append_labelled (out, "Seen", line, is_markdown);
  if (self->n_left_out == 0)
    return;
  g_free (line);
  line = g_strdup_printf ("%u that are smaller than these %u are not judged", self->n_left_out,
                          self->n_changes);
  append_labelled (out, "Beyond", line, is_markdown);
}

static int
compare_names (const SondeProfileDiff *self, guint32 a, guint32 b)
{
  return sonde_function_compare (g_ptr_array_index (self->set.functions, a),
                                 g_ptr_array_index (self->set.functions, b));
}

static int
compare_functions (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileDiff *self = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  double difference
      = change_of (&self->functions_self[right]) - change_of (&self->functions_self[left]);

  return difference > 0 ? 1 : difference < 0 ? -1 : compare_names (self, left, right);
}

static void
append_shares (GString *out, const Shares *shares, const SondeProfileStyle *style)
{
  double change = change_of (shares);
  const char *colour = change > 0 ? "\033[31m" : "\033[32m";
  gboolean is_coloured = style->colours && fabs (change) >= style->percent_limit;

  g_string_append_printf (out, "%6.1f%% %6.1f%% %s%+7.1f%s  ", shares->share[BEFORE],
                          shares->share[AFTER], is_coloured ? colour : "", change,
                          is_coloured ? "\033[m" : "");
}

static gboolean
has_changed (const Shares *shares, const SondeProfileStyle *style)
{
  double change = fabs (change_of (shares));

  return change > 0 && change >= style->percent_limit;
}

/* " * +0.94 to +2.58", "  -0.20 to +0.31", or as much room. */
static void
append_interval (GString *out, const SondeChange *change)
{
  g_autofree char *interval
      = change != NULL ? g_strdup_printf ("%+.2f to %+.2f", 100 * change->low, 100 * change->high)
                       : g_strdup ("");

  g_string_append_printf (out, "%c %-*s", change != NULL && change->is_changed ? '*' : ' ',
                          INTERVAL_WIDTH - 2, interval);
}

/* What stands behind the shares: no wider than the terminal.
 * @n_before: columns of the row that are taken */
static void
append_row (GString *out,
            const SondeProfileStyle *style,
            guint n_before,
            const char *text,
            const char *module)
{
  g_autofree char *whole
      = module[0] != '\0' ? g_strdup_printf ("%-40s  %s", text, module) : g_strdup (text);
  g_autofree char *fit
      = style->width > 0
            ? sonde_short_name_fit (whole, MAX (style->width, n_before + 1) - n_before, style->utf8)
            : g_strdup (whole);

  g_string_append_printf (out, "%s\n", fit);
}

/* (transfer full): those that are shown, with all that are marked, slower ones first; their names
 * are added to @names */
static GArray *
dup_changed (const SondeProfileDiff *self, const SondeProfileStyle *style, SondeShortNames *names)
{
  GArray *changed = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint32 i = 0; i < self->set.functions->len; i++)
    if (has_changed (&self->functions_self[i], style) || is_marked (self, i))
      {
        const SondeFunction *function = g_ptr_array_index (self->set.functions, i);

        g_array_append_val (changed, i);
        sonde_short_names_add (names, function->name);
      }
  g_array_sort_with_data (changed, compare_functions, (gpointer) self);
  return changed;
}

void
sonde_profile_diff_append_functions (GString *out,
                                     const SondeProfileDiff *self,
                                     const SondeProfileStyle *style)
{
  g_autoptr (SondeShortNames) names = sonde_short_names_new (style->full_names);
  g_autoptr (GArray) changed = dup_changed (self, style, names);
  gboolean is_any = FALSE;

  g_string_append_printf (out, "\n Before   After  Change  %s%-40s  Module\n",
                          is_known (self) ? "  Between           " : "", "Function (self)");
  for (guint i = 0; i < changed->len; i++)
    {
      guint32 at = g_array_index (changed, guint32, i);
      const SondeFunction *function = g_ptr_array_index (self->set.functions, at);
      const SondeChange *change = judged (self, at);

      append_shares (out, &self->functions_self[at], style);
      if (is_known (self))
        append_interval (out, change);
      append_row (out, style, SHARES_WIDTH + (is_known (self) ? INTERVAL_WIDTH : 0),
                  sonde_short_names_get (names, function->name), function->module);
      is_any = is_any || is_marked (self, at);
    }
  if (changed->len == 0)
    g_string_append_printf (out, "No function changed by %.1f%% or more.\n", style->percent_limit);
  else if (is_any)
    g_string_append (out, "\n" SONDE_CHANCE_MARK "\n");
  else if (is_known (self))
    g_string_append (out, "\n" NOTHING_CHANGED);
}

void
sonde_profile_diff_append_markdown (GString *out,
                                    const SondeProfileDiff *self,
                                    const SondeProfileStyle *style)
{
  g_autoptr (SondeShortNames) names = sonde_short_names_new (style->full_names);
  g_autoptr (GArray) changed = dup_changed (self, style, names);
  gboolean is_any = FALSE;

  if (changed->len == 0)
    {
      g_string_append_printf (out, "\nNo function changed by %.1f%% or more.\n",
                              style->percent_limit);
      return;
    }
  g_string_append (out, "\n| Function | Module | Before | After | Change | Between | |\n"
                        "|---|---|--:|--:|--:|---|---|\n");
  for (guint i = 0; i < changed->len; i++)
    {
      guint32 at = g_array_index (changed, guint32, i);
      const SondeFunction *function = g_ptr_array_index (self->set.functions, at);
      const Shares *shares = &self->functions_self[at];
      const SondeChange *change = judged (self, at);

      g_string_append (out, "| ");
      sonde_text_append_code (out, sonde_short_names_get (names, function->name), TRUE);
      g_string_append (out, " | ");
      if (function->module[0] != '\0')
        sonde_text_append_code (out, function->module, TRUE);
      g_string_append_printf (out, " | %.1f%% | %.1f%% | %+.2f | ", shares->share[BEFORE],
                              shares->share[AFTER], change_of (shares));
      if (change != NULL)
        g_string_append_printf (out, "%+.2f to %+.2f | %s", 100 * change->low, 100 * change->high,
                                !change->is_changed ? ""
                                : change->low > 0   ? "**slower**"
                                                    : "faster");
      else
        g_string_append (out, "| ");
      g_string_append (out, " |\n");
      is_any = is_any || is_marked (self, at);
    }
  if (!is_any && is_known (self))
    g_string_append (out, "\n" NOTHING_CHANGED);
}

static void
add_chance (SondeJson *json, const SondeProfileDiff *self)
{
  static const char *const words[] = { [SONDE_DIFF_UNKNOWN] = "unknown",
                                       [SONDE_DIFF_EMPTY] = "nothing-to-judge",
                                       [SONDE_DIFF_KNOWN] = "known" };
  const SondeFunction *heaviest = NULL;
  double seen = sonde_profile_diff_seen (self, &heaviest);

  sonde_json_begin_object (json, "chance");
  sonde_json_add_text (json, "verdict", words[self->verdict]);
  sonde_json_add_real (json, "confidence", SONDE_CHANCE_CONFIDENCE);
  sonde_json_add_number (json, "judged", is_known (self) ? self->n_changes : 0);
  sonde_json_add_number (json, "not-judged", is_known (self) ? self->n_left_out : 0);
  if (heaviest != NULL && isfinite (seen))
    {
      sonde_json_add_text (json, "heaviest", heaviest->name);
      sonde_json_add_real (json, "seen", seen);
    }
  sonde_json_end_object (json);
}

void
sonde_profile_diff_add_json (SondeJson *json,
                             const SondeProfileDiff *self,
                             const SondeProfileStyle *style)
{
  g_autoptr (SondeShortNames) names = sonde_short_names_new (TRUE);
  g_autoptr (GArray) changed = dup_changed (self, style, names);

  add_chance (json, self);
  sonde_json_begin_array (json, "rows");
  for (guint i = 0; i < changed->len; i++)
    {
      guint32 at = g_array_index (changed, guint32, i);
      const SondeFunction *function = g_ptr_array_index (self->set.functions, at);
      const Shares *shares = &self->functions_self[at];
      const SondeChange *change = judged (self, at);

      sonde_json_begin_object (json, NULL);
      sonde_json_add_text (json, "name", function->name);
      sonde_json_add_text (json, "module", function->module);
      sonde_json_add_text (json, "source", function->source);
      sonde_json_add_real (json, "before", shares->share[BEFORE]);
      sonde_json_add_real (json, "after", shares->share[AFTER]);
      sonde_json_add_real (json, "change", change_of (shares));
      if (change != NULL && isfinite (change->low) && isfinite (change->high))
        {
          sonde_json_add_real (json, "low", 100 * change->low);
          sonde_json_add_real (json, "high", 100 * change->high);
          sonde_json_add_bool (json, "more-than-chance", change->is_changed);
        }
      sonde_json_end_object (json);
    }
  sonde_json_end_array (json);
}

static int
compare_nodes (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileDiff *self = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;
  double difference = change_of (&self->nodes[right]) - change_of (&self->nodes[left]);

  if (difference > 0 || difference < 0)
    return difference > 0 ? 1 : -1;
  return compare_names (self, sonde_call_tree_node (self->tree, left)->id,
                        sonde_call_tree_node (self->tree, right)->id);
}

/* (transfer full): guint32 nodes: the callees of @node that are shown, those that became slower
 * first. */
static GArray *
dup_shown (const DiffPrinter *printer, guint32 node)
{
  const SondeCallTree *tree = printer->diff->tree;
  GArray *shown = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint32 child = sonde_call_tree_node (tree, node)->first_child;

  for (; child != 0; child = sonde_call_tree_node (tree, child)->next_sibling)
    if (printer->is_shown[child])
      g_array_append_val (shown, child);
  g_array_sort_with_data (shown, compare_nodes, (gpointer) printer->diff);
  return shown;
}

static void
append_node (DiffPrinter *printer, guint32 node, const char *branch)
{
  const SondeFunction *function = g_ptr_array_index (
      printer->diff->set.functions, sonde_call_tree_node (printer->diff->tree, node)->id);
  g_autofree char *text = NULL;

  printer->n_lines++;
  append_shares (printer->out, &printer->diff->nodes[node], printer->style);
  text = g_strconcat (printer->prefix->str, branch,
                      sonde_short_names_get (printer->names, function->name), NULL);
  append_row (printer->out, printer->style, SHARES_WIDTH, text, "");
}

/* Recursion is bounded by max_depth; a path without branches stays in one column. */
static void
append_below (DiffPrinter *printer, guint32 node, guint depth)
{
  gboolean utf8 = printer->style->utf8;

  for (; depth < printer->style->max_depth; depth++)
    {
      g_autoptr (GArray) shown = dup_shown (printer, node);
      gsize prefix_len = printer->prefix->len;

      if (printer->n_lines >= SONDE_MAX_LINES)
        return;
      if (shown->len == 1)
        {
          node = g_array_index (shown, guint32, 0);
          append_node (printer, node, "");
          continue;
        }
      for (guint i = 0; i < shown->len; i++)
        {
          gboolean is_last = i + 1 == shown->len;
          guint32 child = g_array_index (shown, guint32, i);

          append_node (printer, child, is_last ? (utf8 ? "└─ " : "`- ") : (utf8 ? "├─ " : "|- "));
          g_string_append (printer->prefix, is_last ? "   " : (utf8 ? "│  " : "|  "));
          append_below (printer, child, depth + 1);
          g_string_truncate (printer->prefix, prefix_len);
        }
      return;
    }
}

void
sonde_profile_diff_append_paths (GString *out,
                                 const SondeProfileDiff *self,
                                 const SondeProfileStyle *style)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (self->tree);
  g_autofree gboolean *is_shown = g_new0 (gboolean, n_nodes);
  g_autoptr (GString) prefix = g_string_new (NULL);
  g_autoptr (SondeShortNames) names = sonde_short_names_new (style->full_names);
  DiffPrinter printer = { out, prefix, self, style, is_shown, names, 0 };

  /* children have larger numbers than their parents */
  for (guint32 i = n_nodes - 1; i > 0; i--)
    {
      is_shown[i] = is_shown[i] || has_changed (&self->nodes[i], style);
      if (is_shown[i])
        is_shown[sonde_call_tree_node (self->tree, i)->parent] = TRUE;
    }

  for (guint32 i = 1; i < n_nodes; i++)
    if (is_shown[i])
      {
        const SondeFunction *function
            = self->set.functions->pdata[sonde_call_tree_node (self->tree, i)->id];

        sonde_short_names_add (names, function->name);
      }

  g_string_append (out, "\n Before   After  Change  Path (with callees)\n");
  if (is_shown[0])
    append_below (&printer, 0, 0);
  if (printer.n_lines >= SONDE_MAX_LINES)
    g_string_append_printf (out, "[more than %u lines: --percent-limit has fewer]\n",
                            SONDE_MAX_LINES);
  if (!is_shown[0])
    g_string_append_printf (out, "No path changed by %.1f%% or more.\n", style->percent_limit);
}
