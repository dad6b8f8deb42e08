/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-view.h"

#include <string.h>

#include "client/base/text.h"
#include "client/report/profile-sums.h"
#include "client/report/profile-text.h"
#include "client/report/profile-view.h"

#define MAX_EXPANDED     4096u /* rows that can be open at a time */
#define MAX_FILTER_CHARS 200   /* longer ones would not be seen any more */
#define ONLY_CALLEE      0.9 /* from this part of a function on a callee is opened along with it */
#define MAX_OPENED       64  /* rows that one key opens */
#define FIRST_KEY        0xcbf29ce484222325u /* FNV-1a */
#define KEY_PRIME        0x100000001b3u

/* One tree of the profile, as it is walked. */
typedef struct
{
  SondeTopView *view;
  const SondeCallTree *tree;
  gboolean *has_match; /* by node: it, or something below it, is wanted */
  guint64 total;       /* of the whole profile */
} Walk;

SondeTopView *
sonde_top_view_new (SondeTopMode mode)
{
  SondeTopView *self = g_new0 (SondeTopView, 1);

  self->mode = mode;
  self->filter = g_string_new (NULL);
  self->expanded = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  return self;
}

static void
clear_rows (SondeTopView *self)
{
  SondeTopRows *rows = g_steal_pointer (&self->rows);

  if (rows == NULL)
    return;
  g_array_unref (rows->list);
  g_string_chunk_free (rows->texts);
  g_free (rows->is_match);
  g_free (rows);
}

static void
clear_shown (SondeTopView *self)
{
  clear_rows (self);
  g_clear_pointer (&self->derived, sonde_profile_free);
}

void
sonde_top_view_free (SondeTopView *self)
{
  if (self == NULL)
    return;
  clear_shown (self);
  sonde_top_snapshot_free (self->snapshot);
  g_string_free (self->filter, TRUE);
  g_hash_table_unref (self->expanded);
  g_free (self);
}

gboolean
sonde_top_view_is_tree (const SondeTopView *self)
{
  return self->mode == SONDE_TOP_TREE || self->mode == SONDE_TOP_BOTTOM_UP;
}

const SondeProfile *
sonde_top_view_profile (const SondeTopView *self)
{
  if (self->snapshot == NULL)
    return NULL;
  if (self->mode == SONDE_TOP_THREADS)
    return self->snapshot->threads;
  return self->derived != NULL ? self->derived : self->snapshot->profile;
}

guint64
sonde_top_view_total (const SondeTopView *self)
{
  const SondeCalls *calls = self->snapshot != NULL ? self->snapshot->calls : NULL;
  guint64 total = 0;

  if (self->mode != SONDE_TOP_CALLS)
    return sonde_profile_total (sonde_top_view_profile (self));
  for (guint i = 0; calls != NULL && i < calls->rows->len; i++)
    total += g_array_index (calls->rows, SondeCallsRow, i).sum.calls;
  return total;
}

static SondeProfile *
derive (SondeTopMode mode, const SondeProfile *profile)
{
  switch (mode)
    {
    case SONDE_TOP_BOTTOM_UP:
      return sonde_profile_view_bottom_up (profile);
    case SONDE_TOP_PROCESSES:
      return sonde_profile_view_by_process (profile);
    case SONDE_TOP_MODULES:
      return sonde_profile_view_by_module (profile);
    case SONDE_TOP_FLAT:
    case SONDE_TOP_TREE:
    case SONDE_TOP_THREADS:
    case SONDE_TOP_CALLS:
    default:
      return NULL;
    }
}

/* --- rows --- */

const SondeTopRow *
sonde_top_rows_get (const SondeTopRows *self, guint row)
{
  return &g_array_index (self->list, SondeTopRow, row);
}

/* Of a text below what has the key @key. Two with one key would only expand together. */
static guint64
hash_text (guint64 key, const char *text)
{
  for (; *text != '\0'; text++)
    key = (key ^ (guchar) *text) * KEY_PRIME;
  return (key ^ '\n') * KEY_PRIME;
}

static guint64
hash_function (guint64 key, const SondeFunction *function)
{
  return hash_text (hash_text (key, function->name), function->module);
}

/* Children come after their parents: downwards for what is below, upwards for what is above. */
static gboolean *
find_matches (SondeTopView *self, const SondeCallTree *tree)
{
  guint32 n_nodes = sonde_call_tree_n_nodes (tree);
  gboolean *has_match = g_new0 (gboolean, n_nodes);
  g_autofree gboolean *is_counted = g_new0 (gboolean, n_nodes);

  for (guint32 i = 1; i < n_nodes; i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (tree, i);

      has_match[i] = self->rows->is_match[node->id];
      is_counted[i] = is_counted[node->parent] || has_match[i];
      if (has_match[i] && !is_counted[node->parent])
        self->rows->matched += node->total;
    }
  for (guint32 i = n_nodes - 1; i > 0; i--)
    if (has_match[i])
      has_match[sonde_call_tree_node (tree, i)->parent] = TRUE;
  return has_match;
}

static int
compare_totals (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileSums *sums = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  if (sums->total[left] != sums->total[right])
    return sums->total[left] > sums->total[right] ? -1 : 1;
  if (sums->self[left] != sums->self[right])
    return sums->self[left] > sums->self[right] ? -1 : 1;
  return sonde_profile_compare_functions (a, b, (gpointer) sums->profile);
}

/* Functions by weight. */
static void
make_list (SondeTopView *self, const SondeProfile *profile)
{
  g_auto (SondeProfileSums) sums = { 0 };

  sonde_profile_sums_init (&sums, profile);
  if (self->by_total)
    g_qsort_with_data (sums.order, (int) sums.n_functions, sizeof *sums.order, compare_totals,
                       &sums);
  for (guint32 i = 0; i < sums.n_functions; i++)
    {
      guint32 number = sums.order[i];
      const SondeFunction *function = sonde_profile_function (profile, number);
      SondeTopRow row = { .key = hash_function (FIRST_KEY, function),
                          .name = function->name,
                          .module = function->module,
                          .self = sums.self[number],
                          .total = sums.total[number] };

      if (row.total > 0 && self->rows->is_match[number])
        g_array_append_val (self->rows->list, row);
    }
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    g_free (find_matches (self, sonde_profile_process (profile, i)->tree));
}

/* What was timed by that, what was only counted behind it by its calls. */
static int
compare_calls (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeTopView *self = user_data;
  const SondeCallsSum *left = &((const SondeTopRow *) a)->calls->sum;
  const SondeCallsSum *right = &((const SondeTopRow *) b)->calls->sum;
  double left_ns = self->by_total ? left->total_ns : left->self_ns;
  double right_ns = self->by_total ? right->total_ns : right->self_ns;

  if (left_ns > right_ns || left_ns < right_ns)
    return left_ns > right_ns ? -1 : 1;
  if (left->calls != right->calls)
    return left->calls > right->calls ? -1 : 1;
  return g_strcmp0 (((const SondeTopRow *) a)->name, ((const SondeTopRow *) b)->name);
}

static gboolean
has_filter_text (const SondeTopView *self, const SondeFunction *function)
{
  return strcasestr (function->name, self->filter->str) != NULL
         || strcasestr (function->module, self->filter->str) != NULL;
}

/* Functions that were called. */
static void
make_calls (SondeTopView *self)
{
  const SondeCalls *calls = self->snapshot->calls;

  for (guint i = 0; calls != NULL && i < calls->rows->len; i++)
    {
      const SondeCallsRow *row = &g_array_index (calls->rows, SondeCallsRow, i);
      const SondeFunction *function = sonde_calls_function (calls, row->function);
      SondeTopRow shown = { .key = hash_function (FIRST_KEY, function),
                            .name = function->name,
                            .module = function->module,
                            .self = row->sum.calls,
                            .total = row->sum.calls,
                            .calls = row };

      if (row->sum.calls == 0 || !has_filter_text (self, function))
        continue;
      self->rows->matched += row->sum.calls;
      g_array_append_val (self->rows->list, shown);
    }
  g_array_sort_with_data (self->rows->list, compare_calls, self);
}

/* One row for all children from @first on. */
static void
append_rest (Walk *walk, const GArray *children, guint first, guint64 parent_key, guint indent)
{
  SondeTopView *self = walk->view;
  SondeTopRow row = { .key = hash_text (parent_key, ""), .module = "", .indent = indent };
  g_autofree char *text = g_strdup_printf ("[%u more]", children->len - first);

  for (guint i = first; i < children->len; i++)
    row.total += sonde_call_tree_node (walk->tree, g_array_index (children, guint32, i))->total;
  if (sonde_text_percent (row.total, walk->total) < SONDE_PROFILE_ASIDE_PERCENT)
    return;
  row.is_rest = TRUE;
  row.name = g_string_chunk_insert (self->rows->texts, text);
  g_array_append_val (self->rows->list, row);
}

/* Everything below @node, itself indented by @indent, that is to be seen; @is_wanted: because what
 * is above is what the filter looks for. Recursion is bounded by what reports show of a stack. */
static void
append_children (
    Walk *walk, guint32 node, guint64 parent_key, guint indent, guint depth, gboolean is_wanted)
{
  SondeTopView *self = walk->view;
  const SondeProfile *profile = sonde_top_view_profile (self);
  g_autoptr (GArray) children = sonde_call_tree_dup_children (
      walk->tree, node, sonde_profile_compare_functions, (gpointer) profile);
  guint n_heavy = 0;

  while (n_heavy < children->len
         && (self->filter->len > 0
             || sonde_text_percent (
                    sonde_call_tree_node (walk->tree, g_array_index (children, guint32, n_heavy))
                        ->total,
                    walk->total)
                    >= SONDE_PROFILE_PERCENT_LIMIT))
    n_heavy++;
  /* what is the only one of weight goes on in the column of its caller, as in reports */
  if (depth > 0 && n_heavy > 1)
    indent++;
  if (n_heavy == 1 && children->len > 1)
    append_rest (walk, children, n_heavy, parent_key, indent);
  for (guint i = 0; i < n_heavy; i++)
    {
      guint32 child = g_array_index (children, guint32, i);
      const SondeCallNode *at = sonde_call_tree_node (walk->tree, child);
      const SondeFunction *function = sonde_profile_function (profile, at->id);
      gboolean is_match = self->rows->is_match[at->id];
      SondeTopRow row = { .key = hash_function (parent_key, function),
                          .name = function->name,
                          .module = function->module,
                          .self = at->self,
                          .total = at->total,
                          .indent = indent,
                          .has_children = at->first_child != 0 };

      if (!is_wanted && !walk->has_match[child])
        continue;
      row.is_expanded = row.has_children && depth < SONDE_PROFILE_MAX_DEPTH
                        && (g_hash_table_contains (self->expanded, &row.key)
                            || (self->filter->len > 0 && !is_match && !is_wanted));
      g_array_append_val (self->rows->list, row);
      if (row.is_expanded)
        append_children (walk, child, row.key, indent, depth + 1, is_wanted || is_match);
    }
  if (n_heavy != 1 && n_heavy < children->len)
    append_rest (walk, children, n_heavy, parent_key, indent);
}

static void
append_process (SondeTopView *self, const SondeProfileProcess *process, guint64 total)
{
  Walk walk = { .view = self, .tree = process->tree, .total = total };
  g_autofree gboolean *has_match = walk.has_match = find_matches (self, process->tree);
  g_autofree char *comm = sonde_text_escape (process->process.comm, -1);
  g_autofree char *name = g_strdup_printf ("%s (pid %d)", comm, process->process.pid);
  SondeTopRow row = { .key = hash_text (FIRST_KEY, name), .module = "", .has_children = TRUE };

  if (!has_match[0])
    return;
  if (process->process.pid < 0) /* of a view */
    {
      append_children (&walk, 0, FIRST_KEY, 0, 0, self->filter->len == 0);
      return;
    }
  row.name = g_string_chunk_insert (self->rows->texts, name);
  row.total = sonde_call_tree_node (process->tree, 0)->total;
  row.is_expanded = self->filter->len > 0 || !g_hash_table_contains (self->expanded, &row.key);
  g_array_append_val (self->rows->list, row);
  if (row.is_expanded)
    append_children (&walk, 0, row.key, 1, 0, self->filter->len == 0);
}

/* Call trees; what is lighter than %SONDE_PROFILE_PERCENT_LIMIT is summed up, unless filtered. With
 * one process of no pid, as views have it, functions are the first level. */
static void
make_tree (SondeTopView *self, const SondeProfile *profile)
{
  guint64 total = sonde_profile_total (profile);
  guint n_processes = sonde_profile_n_processes (profile);
  guint n = 0;

  /* the heaviest process comes first */
  for (; n < n_processes; n++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, n);

      if (self->filter->len == 0
          && sonde_text_percent (sonde_call_tree_node (process->tree, 0)->total, total)
                 < SONDE_PROFILE_PERCENT_LIMIT)
        break;
      append_process (self, process, total);
    }
  if (n < n_processes)
    {
      g_autofree char *text = g_strdup_printf ("[%u more]", n_processes - n);
      SondeTopRow rest = { .key = hash_text (FIRST_KEY, ""), .module = "", .is_rest = TRUE };

      for (; n < n_processes; n++)
        rest.total += sonde_call_tree_node (sonde_profile_process (profile, n)->tree, 0)->total;
      rest.name = g_string_chunk_insert (self->rows->texts, text);
      g_array_append_val (self->rows->list, rest);
    }
  if (self->filter->len == 0)
    self->rows->matched = total;
}

static void
make_rows (SondeTopView *self)
{
  const SondeProfile *profile = sonde_top_view_profile (self);
  SondeTopRows *rows;
  guint32 n_functions;
  guint n_rows;

  clear_rows (self);
  if (profile == NULL)
    return;
  n_functions = sonde_profile_n_functions (profile);
  rows = self->rows = g_new0 (SondeTopRows, 1);
  rows->list = g_array_new (FALSE, FALSE, sizeof (SondeTopRow));
  rows->texts = g_string_chunk_new (256);
  rows->is_match = g_new (gboolean, n_functions);
  for (guint32 i = 0; i < n_functions; i++)
    rows->is_match[i] = has_filter_text (self, sonde_profile_function (profile, i));
  if (self->mode == SONDE_TOP_CALLS)
    make_calls (self);
  else if (sonde_top_view_is_tree (self))
    make_tree (self, profile);
  else
    make_list (self, profile);
  /* The cursor stays with its row; if that is gone, with its place. */
  n_rows = rows->list->len;
  if (n_rows == 0)
    {
      self->cursor = 0;
      return;
    }
  self->cursor = MIN (self->cursor, n_rows - 1);
  if (self->cursor_key == 0
      || sonde_top_rows_get (self->rows, self->cursor)->key == self->cursor_key)
    return;
  for (guint i = 0; i < n_rows; i++)
    if (sonde_top_rows_get (self->rows, i)->key == self->cursor_key)
      {
        self->cursor = i;
        return;
      }
}

void
sonde_top_view_take (SondeTopView *self, SondeTopSnapshot *snapshot)
{
  if (self->is_paused && self->snapshot != NULL)
    {
      sonde_top_snapshot_free (snapshot);
      return;
    }
  clear_shown (self);
  sonde_top_snapshot_free (self->snapshot);
  self->snapshot = snapshot;
  self->derived = derive (self->mode, snapshot->profile);
  make_rows (self);
}

/* --- keys --- */

/* The row of the cursor, or NULL. */
static const SondeTopRow *
current_row (const SondeTopView *self)
{
  if (self->rows == NULL || self->cursor >= self->rows->list->len)
    return NULL;
  return sonde_top_rows_get (self->rows, self->cursor);
}

static void
move_cursor (SondeTopView *self, gint64 to)
{
  gint64 n_rows = self->rows != NULL ? self->rows->list->len : 0;

  self->cursor = (guint) CLAMP (to, 0, MAX (n_rows - 1, 0));
  /* at the top it stays there: whatever is heaviest is what is wanted */
  self->cursor_key = self->cursor == 0 || n_rows == 0 ? 0 : current_row (self)->key;
}

static void
toggle (SondeTopView *self, guint64 key)
{
  if (g_hash_table_contains (self->expanded, &key))
    g_hash_table_remove (self->expanded, &key);
  else if (g_hash_table_size (self->expanded) < MAX_EXPANDED)
    g_hash_table_add (self->expanded, g_memdup2 (&key, sizeof key));
}

/* Opens the row, and what is below it as long as one callee has nearly all of it. */
static void
expand (SondeTopView *self)
{
  const SondeTopRow *row = current_row (self);

  for (guint at = self->cursor, n = 0; n < MAX_OPENED && row->has_children && !row->is_expanded;
       n++)
    {
      guint64 total = row->total;
      guint64 key = row->key;

      toggle (self, row->key);
      make_rows (self);
      if (at >= self->rows->list->len || sonde_top_rows_get (self->rows, at)->key != key)
        return;
      /* the heaviest one follows at once, or behind what sums up the others */
      do
        at++;
      while (at < self->rows->list->len && sonde_top_rows_get (self->rows, at)->is_rest);
      if (at >= self->rows->list->len)
        return;
      row = sonde_top_rows_get (self->rows, at);
      if ((double) row->total < ONLY_CALLEE * (double) total)
        return;
    }
}

/* Closes the row, or goes to the one that it is below. */
static void
collapse (SondeTopView *self)
{
  const SondeTopRow *row = current_row (self);

  if (row->is_expanded)
    {
      toggle (self, row->key);
      make_rows (self);
      return;
    }
  for (guint i = self->cursor; i > 0; i--)
    {
      const SondeTopRow *above = sonde_top_rows_get (self->rows, i - 1);

      if (above->is_expanded && (above->indent < row->indent || above->total > row->total))
        {
          move_cursor (self, i - 1);
          return;
        }
    }
}

static void
set_filter_changed (SondeTopView *self)
{
  self->cursor = 0;
  self->cursor_key = 0;
  make_rows (self);
}

/* FALSE if the key does not move the cursor. */
static gboolean
move (SondeTopView *self, guint key, guint page_rows)
{
  gint64 n_rows = self->rows != NULL ? self->rows->list->len : 0;

  switch (key)
    {
    case SONDE_TOP_KEY_UP:
    case 'k':
      move_cursor (self, (gint64) self->cursor - 1);
      return TRUE;
    case SONDE_TOP_KEY_DOWN:
    case 'j':
      move_cursor (self, (gint64) self->cursor + 1);
      return TRUE;
    case SONDE_TOP_KEY_PAGE_UP:
      move_cursor (self, (gint64) self->cursor - page_rows);
      return TRUE;
    case SONDE_TOP_KEY_PAGE_DOWN:
      move_cursor (self, (gint64) self->cursor + page_rows);
      return TRUE;
    case SONDE_TOP_KEY_HOME:
    case 'g':
      move_cursor (self, 0);
      return TRUE;
    case SONDE_TOP_KEY_END:
    case 'G':
      move_cursor (self, n_rows - 1);
      return TRUE;
    default:
      return FALSE;
    }
}

/* FALSE if the key does not choose what is listed. */
static gboolean
choose (SondeTopView *self, guint key)
{
  static const struct
  {
    guint key;
    SondeTopMode mode;
  } modes[] = {
    { 'f', SONDE_TOP_FLAT },      { 't', SONDE_TOP_TREE },    { 'b', SONDE_TOP_BOTTOM_UP },
    { 'P', SONDE_TOP_PROCESSES }, { 'T', SONDE_TOP_THREADS }, { 'M', SONDE_TOP_MODULES },
    { 'C', SONDE_TOP_CALLS },
  };

  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    if (modes[i].key == key)
      {
        clear_shown (self);
        self->mode = modes[i].mode;
        self->cursor = 0;
        self->cursor_key = 0;
        if (self->snapshot != NULL)
          self->derived = derive (modes[i].mode, self->snapshot->profile);
        make_rows (self);
        return TRUE;
      }
  return FALSE;
}

static SondeTopAction
command (SondeTopView *self, guint key)
{
  switch (key)
    {
    case 'q':
    case 'Q':
      return SONDE_TOP_QUIT;
    case 'p':
      self->is_paused = !self->is_paused;
      return self->is_paused ? SONDE_TOP_SHOW : SONDE_TOP_SNAPSHOT;
    case 'a':
      self->is_all = !self->is_all;
      return SONDE_TOP_SNAPSHOT;
    case 'r':
      return SONDE_TOP_RESET;
    case 's':
      self->by_total = !self->by_total;
      make_rows (self);
      return SONDE_TOP_SHOW;
    case '/':
      self->is_typing = TRUE;
      return SONDE_TOP_SHOW;
    case SONDE_TOP_KEY_ESCAPE:
      g_string_truncate (self->filter, 0);
      make_rows (self);
      return SONDE_TOP_SHOW;
    case 'c':
      g_hash_table_remove_all (self->expanded);
      make_rows (self);
      return SONDE_TOP_SHOW;
    case '?':
    case 'h':
      self->is_help = TRUE;
      return SONDE_TOP_SHOW;
    case ' ':
    case SONDE_TOP_KEY_ENTER:
    case SONDE_TOP_KEY_LEFT:
    case SONDE_TOP_KEY_RIGHT:
      {
        const SondeTopRow *row = current_row (self);

        if (row != NULL && sonde_top_view_is_tree (self))
          {
            if (key == SONDE_TOP_KEY_LEFT)
              collapse (self);
            else if (!row->is_expanded)
              expand (self);
            else if (key == SONDE_TOP_KEY_RIGHT)
              move_cursor (self, (gint64) self->cursor + 1);
            else
              collapse (self);
          }
      }
      return SONDE_TOP_SHOW;
    default:
      return SONDE_TOP_SHOW;
    }
}

SondeTopAction
sonde_top_view_press (SondeTopView *self, guint key, guint page_rows)
{
  if (self->is_help)
    {
      self->is_help = FALSE;
      return key == 'q' ? SONDE_TOP_QUIT : SONDE_TOP_SHOW;
    }
  if (move (self, self->is_typing && key < SONDE_TOP_KEY_UP ? 0 : key, page_rows))
    return SONDE_TOP_SHOW;
  if (self->is_typing)
    {
      if (key == SONDE_TOP_KEY_ENTER)
        self->is_typing = FALSE;
      else if (key == SONDE_TOP_KEY_ESCAPE)
        {
          self->is_typing = FALSE;
          g_string_truncate (self->filter, 0);
          set_filter_changed (self);
        }
      else if (key == SONDE_TOP_KEY_BACKSPACE && self->filter->len > 0)
        {
          const char *last
              = g_utf8_find_prev_char (self->filter->str, self->filter->str + self->filter->len);

          g_string_truncate (self->filter, (gsize) (last - self->filter->str));
          set_filter_changed (self);
        }
      else if (key < SONDE_TOP_KEY_UP && g_unichar_isprint (key)
               && g_utf8_strlen (self->filter->str, -1) < MAX_FILTER_CHARS)
        {
          g_string_append_unichar (self->filter, key);
          set_filter_changed (self);
        }
      return SONDE_TOP_SHOW;
    }
  return choose (self, key) ? SONDE_TOP_SHOW : command (self, key);
}

guint
sonde_top_view_scroll (SondeTopView *self, guint page_rows)
{
  guint n_rows = self->rows != NULL ? self->rows->list->len : 0;

  if (self->cursor < self->scroll)
    self->scroll = self->cursor;
  if (self->cursor >= self->scroll + page_rows)
    self->scroll = self->cursor - page_rows + 1;
  self->scroll = MIN (self->scroll, n_rows > page_rows ? n_rows - page_rows : 0);
  return self->scroll;
}
