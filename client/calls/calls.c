/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/calls/calls.h"

#include <math.h>
#include <string.h>

#include "client/base/chance.h"
#include "client/base/text.h"
#include "client/model/heap-log-reader.h"
#include "protocol/calls.h"

#define MAX_SHOWN_DEPTH 64u  /* functions of a path in a line */
#define CONFIDENCE      0.99 /* of an estimate by itself */

/* The functions that no location has, behind those of the resolver. */
enum
{
  THREAD_ROOT,
  SIGNAL_ROOT,
  UNNAMED, /* no root, but a function whose name was not looked up */
  N_ROOTS,
};

static const SondeFunction roots[N_ROOTS] = {
  [THREAD_ROOT] = { .name = "[thread]", .module = "", .source = "" },
  [SIGNAL_ROOT] = { .name = "[signal]", .module = "", .source = "" },
  [UNNAMED] = { .name = "[looking for names]", .module = "", .source = "" },
};

/* --- names --- */

static void
take_location (const SondeModelAllocation *allocation, gpointer user_data)
{
  SondeCalls *self = user_data;

  self->location = allocation->n_locations > 0 ? allocation->locations[allocation->n_locations - 1]
                                               : SONDE_LOCATION_TRUNCATED;
}

/* To the model each function is a stack of one frame, a return address: the byte before it is
 * looked up. */
void
sonde_calls_locate (SondeCaptureModel *model,
                    const SondeCallsProgram *program,
                    const SondeCallsPath *path)
{
  guint64 address = path->address + 1;
  union
  {
    SondeFrameAllocation frame;
    guint64 words[sizeof (SondeFrameAllocation) / 8 + 1];
  } made = { .words = { 0 } };

  if (path->parent == 0)
    return;
  made.frame.frame.len = sizeof made;
  made.frame.frame.cpu = -1;
  made.frame.frame.pid = program->pid;
  made.frame.frame.time_ns = program->end_ns;
  made.frame.frame.type = SONDE_FRAME_ALLOCATION;
  made.frame.address = 1;
  made.frame.size_bytes = 1;
  made.frame.tid = program->pid;
  made.frame.n_addrs = 1;
  memcpy (made.frame.addrs, &address, sizeof address);
  sonde_capture_model_add_frame (model, &made.frame.frame);
}

static void
take_path (guint program, const SondeCallsPath *path, gpointer user_data)
{
  SondeCalls *self = user_data;

  while (self->locations->len <= program)
    g_ptr_array_add (self->locations, g_array_new (FALSE, FALSE, sizeof (guint32)));
  self->location = SONDE_LOCATION_TRUNCATED;
  sonde_calls_locate (self->model, sonde_calls_reader_program (self->reader, program), path);
  g_array_append_val (g_ptr_array_index (self->locations, program), self->location);
}

/* --- slow calls --- */

static void
clear_slow (gpointer data)
{
  g_free (((SondeCallsSlow *) data)->path);
}

static gint
compare_slow (gconstpointer first, gconstpointer second)
{
  const SondeCallsSlow *a = first;
  const SondeCallsSlow *b = second;

  if (a->duration_ns != b->duration_ns)
    return a->duration_ns > b->duration_ns ? -1 : 1;
  return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

static void
keep_slowest (SondeCalls *self)
{
  g_array_sort (self->slow, compare_slow);
  g_array_set_size (self->slow, MIN (self->slow->len, SONDE_CALLS_MAX_SLOW));
}

static void
take_mark (const SondeModelMark *mark, gpointer user_data)
{
  SondeCalls *self = user_data;
  SondeCallsSlow slow
      = { .pid = mark->pid, .begin_ns = mark->time_ns, .duration_ns = mark->duration_ns };

  if (strncmp (mark->group, SONDE_CALLS_SLOW_GROUP, sizeof SONDE_CALLS_SLOW_GROUP) != 0
      || (self->pid >= 0 && mark->pid != self->pid))
    return;
  slow.path = sonde_text_escape (mark->message, -1);
  g_array_append_val (self->slow, slow);
  self->n_slow++;
  if (self->slow->len >= 2 * SONDE_CALLS_MAX_SLOW)
    keep_slowest (self);
}

/* --- life --- */

static void
init_sums (SondeCalls *self, gint32 pid)
{
  self->pid = pid;
  self->rows = g_array_new (FALSE, TRUE, sizeof (SondeCallsRow));
  self->nodes = g_array_new (FALSE, TRUE, sizeof (SondeCallsNode));
  self->slow = g_array_new (FALSE, FALSE, sizeof (SondeCallsSlow));
  g_array_set_clear_func (self->slow, clear_slow);
}

SondeCalls *
sonde_calls_new (gint32 pid)
{
  const SondeModelFuncs funcs = { .allocation = take_location, .mark = take_mark };
  SondeCalls *self = g_new0 (SondeCalls, 1);

  init_sums (self, pid);
  self->model = sonde_capture_model_new (&funcs, self);
  self->reader = sonde_calls_reader_new (take_path, self);
  self->locations = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  return self;
}

void
sonde_calls_free (SondeCalls *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->rows->len; i++)
    g_free (g_array_index (self->rows, SondeCallsRow, i).buckets);
  g_array_unref (self->rows);
  g_array_unref (self->nodes);
  g_array_unref (self->slow);
  g_ptr_array_unref (self->locations);
  if (self->model != NULL)
    sonde_symbol_resolver_free (self->resolver);
  sonde_calls_reader_free (self->reader);
  sonde_capture_model_free (self->model);
  g_free (self);
}

gboolean
sonde_calls_is_chunk (const SondeFrame *frame)
{
  return frame->type == SONDE_FRAME_FILE_CHUNK
         && g_str_has_prefix (((const SondeFrameFileChunk *) frame)->path, SONDE_CALLS_FOLDER);
}

/* What else tells of allocations would be taken for a path. */
void
sonde_calls_add_frame (SondeCalls *self, const SondeFrame *frame)
{
  switch (frame->type)
    {
    case SONDE_FRAME_ALLOCATION:
    case SONDE_FRAME_SAMPLE:
      return;
    case SONDE_FRAME_FILE_CHUNK:
      sonde_calls_reader_add (self->reader, frame);
      if (sonde_heap_log_is_chunk (frame))
        return;
      break;
    default:
      break;
    }
  sonde_capture_model_add_frame (self->model, frame);
}

SondeModelProcess
sonde_calls_process (const SondeCalls *self, guint program)
{
  SondeModelProcess process = { .pid = sonde_calls_reader_program (self->reader, program)->pid,
                                .comm = "",
                                .cmdline = "" };

  for (guint i = 0; i < sonde_capture_model_n_processes (self->model); i++)
    if (sonde_capture_model_process (self->model, i)->pid == process.pid)
      process = *sonde_capture_model_process (self->model, i);
  return process;
}

const SondeFunction *
sonde_calls_function (const SondeCalls *self, guint32 function)
{
  return function < N_ROOTS ? &roots[function]
                            : sonde_symbol_resolver_function (self->resolver, function - N_ROOTS);
}

guint32
sonde_calls_resolved_function (const SondeCalls *self, guint32 function)
{
  return function - N_ROOTS;
}

static guint32
function_of (const SondeCalls *self, guint program, guint path)
{
  const SondeCallsProgram *of = sonde_calls_reader_program (self->reader, program);
  const GArray *locations = g_ptr_array_index (self->locations, program);
  const SondeCallsPath *at = &g_array_index (of->paths, SondeCallsPath, path);
  const guint32 *functions;
  guint32 n;

  if (at->parent == 0)
    return at->address == 0 ? THREAD_ROOT : SIGNAL_ROOT;
  functions
      = sonde_symbol_resolver_get (self->resolver, g_array_index (locations, guint32, path), &n);
  return n > 0 ? functions[0] + N_ROOTS : UNNAMED;
}

/* --- names of slow calls --- */

/* Of a process that was over before its mappings were known the mark has addresses. */
static char *
dup_named_path (GHashTable *names, const char *path)
{
  g_auto (GStrv) functions = g_strsplit (path, " > ", -1);
  guint64 address;

  for (guint i = 0; functions[i] != NULL; i++)
    if (g_str_has_prefix (functions[i], "0x")
        && g_ascii_string_to_unsigned (functions[i] + 2, 16, 0, G_MAXUINT64, &address, NULL))
      {
        const char *name = g_hash_table_lookup (names, GSIZE_TO_POINTER (address));

        if (name == NULL)
          continue;
        g_free (functions[i]);
        functions[i] = g_strdup (name);
      }
  return g_strjoinv (" > ", functions);
}

/* The functions of a program, by address. */
static GHashTable *
index_names (const SondeCalls *self, guint program)
{
  const SondeCallsProgram *of = sonde_calls_reader_program (self->reader, program);
  GHashTable *names = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < of->paths->len; i++)
    {
      const SondeCallsPath *path = &g_array_index (of->paths, SondeCallsPath, i);

      if (path->parent != 0)
        g_hash_table_insert (
            names, GSIZE_TO_POINTER (path->address),
            (gpointer) sonde_calls_function (self, function_of (self, program, i))->name);
    }
  return names;
}

static void
name_slow (SondeCalls *self)
{
  guint n_programs = sonde_calls_reader_n_programs (self->reader);
  g_autofree GHashTable **names = g_new0 (GHashTable *, n_programs + 1);

  for (guint i = 0; i < self->slow->len; i++)
    {
      SondeCallsSlow *slow = &g_array_index (self->slow, SondeCallsSlow, i);
      guint program = n_programs;
      char *path;

      for (guint j = 0; j < n_programs; j++)
        {
          const SondeCallsProgram *of = sonde_calls_reader_program (self->reader, j);

          if (of->pid == slow->pid && of->begin_ns <= slow->begin_ns)
            program = j;
        }
      if (program == n_programs || strstr (slow->path, "0x") == NULL)
        continue;
      if (names[program] == NULL)
        names[program] = index_names (self, program);
      path = dup_named_path (names[program], slow->path);
      g_free (slow->path);
      slow->path = path;
    }
  for (guint i = 0; i < n_programs; i++)
    g_clear_pointer (&names[i], g_hash_table_unref);
}

/* --- sums --- */

/* What the two hooks of a call take, and what of that a timed call of nothing seems to take, the
 * ends of its hooks: the least that any call took, where that is no more than these can be. What is
 * known of a hook has a reading of the clock in it, which takes about as long as the rest: so it
 * stands for two that do not read it. Where all do it has two, of which one is not in a hook that
 * nobody times, but the hook's call and return are not in it: of two hooks that is about half a
 * call of nothing too much.
 */
static double
find_pair_ticks (const SondeCallsProgram *of, double *empty_ticks)
{
  const guint64 *account = of->account;
  double ticks = (double) account[SONDE_CALLS_ACCOUNT_HOOK_TICKS]
                 / (double) MAX (account[SONDE_CALLS_ACCOUNT_N_HOOKS], 1);
  double least = ticks;

  for (guint i = 0; i < of->paths->len; i++)
    {
      const SondeCallsPath *path = &g_array_index (of->paths, SondeCallsPath, i);

      if (path->timed > 0)
        least = MIN (least, (double) path->min_ticks);
    }
  *empty_ticks = least;
  return of->mode == 3 ? 2 * ticks - least / 2 : ticks;
}

/* What is inside a path's own time, of one program: children come behind their parents. */
static void
sum_paths (SondeCalls *self, guint program)
{
  const SondeCallsProgram *of = sonde_calls_reader_program (self->reader, program);
  const guint64 *account = of->account;
  double ns_a_tick = of->ticks_per_s > 0 ? 1e9 / (double) of->ticks_per_s : 0;
  double empty_ticks;
  double pair_ticks = find_pair_ticks (of, &empty_ticks);
  guint64 n_underway = MAX (account[SONDE_CALLS_ACCOUNT_N_THREADS], 1);
  guint first = self->nodes->len;
  guint n = of->paths->len;

  g_array_set_size (self->nodes, first + n);
  for (guint i = 0; i < n; i++)
    {
      const SondeCallsPath *path = &g_array_index (of->paths, SondeCallsPath, i);
      SondeCallsNode *node = &g_array_index (self->nodes, SondeCallsNode, first + i);
      double timed = (double) path->timed;
      double own_ticks;

      node->program = program;
      node->parent = path->parent != 0 ? first + path->parent : 0;
      node->function = function_of (self, program, i);
      self->is_unnamed_yet = self->is_unnamed_yet || node->function == UNNAMED;
      node->sum.calls = path->calls;
      node->sum.timed = path->timed;
      if (path->timed == 0)
        continue;
      own_ticks = MAX (0, (double) path->total_ticks - (double) path->nested * pair_ticks
                              - timed * empty_ticks);
      node->sum.mean_ns = own_ticks / timed * ns_a_tick;
      node->sum.total_ns = node->sum.mean_ns * (double) path->calls;
      node->sum.self_ns = of->mode == 3 ? MAX (0, (double) path->self_ticks - timed * empty_ticks)
                                              * ns_a_tick * (double) path->calls / timed
                                        : node->sum.total_ns;
      node->sum.min_ns = (double) path->min_ticks * ns_a_tick;
      node->sum.max_ns = (double) path->max_ticks * ns_a_tick;
      /* Where each call was timed these are all, but for those that are under way. */
      node->sum.is_sampled
          = of->mode == 2 && (path->timed > path->calls || path->calls - path->timed > n_underway);
      node->sum.n_timed = node->sum.is_sampled ? timed / (double) of->sample_every : timed;
      self->has_times = TRUE;
    }
  /* What is in a path's own time and is not: callees, or where these are out already their hooks.
   * Where one call in so many was timed those few may be missing in which callees took long: then
   * all took as long as their callees at least. */
  for (guint i = n; i-- > 0;)
    {
      SondeCallsSum *sum = &g_array_index (self->nodes, SondeCallsNode, first + i).sum;
      guint32 parent = g_array_index (self->nodes, SondeCallsNode, first + i).parent;

      if (sum->is_sampled && sum->self_ns < 0)
        {
          sum->total_ns -= sum->self_ns;
          sum->mean_ns = sum->total_ns / (double) MAX (sum->calls, 1);
        }
      sum->self_ns = sum->timed > 0 ? MAX (sum->self_ns, 0) : 0;
      if (parent != 0)
        g_array_index (self->nodes, SondeCallsNode, parent - 1).sum.self_ns
            -= of->mode == 3 ? (double) sum->calls * (pair_ticks - empty_ticks) * ns_a_tick
                             : sum->total_ns;
    }
  for (guint i = 0; i < SONDE_CALLS_N_ACCOUNTS; i++)
    self->account[i] += account[i];
  self->hooks_ns += pair_ticks * ns_a_tick * (double) account[SONDE_CALLS_ACCOUNT_COUNTED];
  self->n_programs++;
  self->n_partial += of->is_partial || of->refused != NULL;
  self->n_refused += of->n_refused;
  if (of->n_refused > 0)
    self->reason = of->reason;
}

/* One walk over all paths, whatever they look like: it counts of each function how often it is in
 * the path at hand. */
static void
find_nested (SondeCalls *self)
{
  guint n = self->nodes->len;
  g_autofree guint32 *first = g_new0 (guint32, n + 1); /* children, + 1, of each, + 1 */
  g_autofree guint32 *next = g_new0 (guint32, n + 1);
  g_autofree guint32 *n_within
      = g_new0 (guint32, N_ROOTS + sonde_symbol_resolver_n_functions (self->resolver) + 1);
  SondeCallsNode *nodes = (SondeCallsNode *) (void *) self->nodes->data;
  guint32 at;

  for (guint i = n; i > 0; i--)
    {
      next[i] = first[nodes[i - 1].parent];
      first[nodes[i - 1].parent] = i;
    }
  at = first[0];
  while (at != 0)
    {
      nodes[at - 1].is_nested = n_within[nodes[at - 1].function]++ > 0;
      if (first[at] != 0)
        {
          at = first[at];
          continue;
        }
      while (at != 0 && next[at] == 0)
        {
          n_within[nodes[at - 1].function]--;
          at = nodes[at - 1].parent;
        }
      if (at != 0)
        {
          n_within[nodes[at - 1].function]--;
          at = next[at];
        }
    }
}

/* Buckets are of one clock; another's go where their middle is. */
static void
add_buckets (SondeCallsRow *row, const GArray *buckets, double ns_a_tick)
{
  if (row->buckets == NULL)
    {
      row->buckets = g_new0 (guint64, SONDE_CALLS_N_BUCKETS);
      row->ns_a_tick = ns_a_tick;
    }
  for (guint i = 0; i < buckets->len; i++)
    {
      const SondeCallsBucket *from = &g_array_index (buckets, SondeCallsBucket, i);
      guint to = from->bucket;

      if (row->ns_a_tick > ns_a_tick || row->ns_a_tick < ns_a_tick)
        {
          double middle
              = (double) (sonde_calls_bucket_begin (to) + sonde_calls_bucket_begin (to + 1)) / 2
                * ns_a_tick / row->ns_a_tick;

          for (to = 0; to < SONDE_CALLS_N_BUCKETS - 1
                       && (double) sonde_calls_bucket_begin (to + 1) <= middle;)
            to++;
        }
      row->buckets[to] += from->n;
    }
}

static void
sum_functions (SondeCalls *self)
{
  g_autoptr (GHashTable) numbers = g_hash_table_new (NULL, NULL);
  guint first_of = 0;

  for (guint i = 0; i < self->nodes->len; i++)
    {
      const SondeCallsNode *node = &g_array_index (self->nodes, SondeCallsNode, i);
      const SondeCallsProgram *of = sonde_calls_reader_program (self->reader, node->program);
      guint number
          = GPOINTER_TO_UINT (g_hash_table_lookup (numbers, GUINT_TO_POINTER (node->function)));
      const SondeCallsPath *path;
      SondeCallsRow *row;
      SondeCallsSum *sum;

      if (i > 0 && g_array_index (self->nodes, SondeCallsNode, i - 1).program != node->program)
        first_of = i;
      path = &g_array_index (of->paths, SondeCallsPath, i - first_of);
      if (node->parent == 0)
        continue;
      if (number == 0)
        {
          g_array_set_size (self->rows, self->rows->len + 1);
          number = self->rows->len;
          g_array_index (self->rows, SondeCallsRow, number - 1).function = node->function;
          g_hash_table_insert (numbers, GUINT_TO_POINTER (node->function),
                               GUINT_TO_POINTER (number));
        }
      row = &g_array_index (self->rows, SondeCallsRow, number - 1);
      sum = &row->sum;
      sum->calls += node->sum.calls;
      if (node->sum.timed == 0)
        continue;
      sum->min_ns = sum->timed > 0 ? MIN (sum->min_ns, node->sum.min_ns) : node->sum.min_ns;
      sum->max_ns = MAX (sum->max_ns, node->sum.max_ns);
      row->timed_ns += node->sum.total_ns;
      row->timed_calls += node->sum.calls;
      sum->mean_ns = row->timed_ns / MAX ((double) row->timed_calls, 1);
      sum->n_timed += node->sum.n_timed;
      sum->timed += node->sum.timed;
      sum->is_sampled = sum->is_sampled || node->sum.is_sampled;
      sum->self_ns += node->sum.self_ns;
      if (!node->is_nested)
        sum->total_ns += node->sum.total_ns;
      if (path->buckets != NULL && of->ticks_per_s > 0)
        add_buckets (row, path->buckets, 1e9 / (double) of->ticks_per_s);
    }
}

static void
sum_all (SondeCalls *self)
{
  self->n_left_out = sonde_calls_reader_n_left_out (self->reader);
  for (guint i = 0; i < sonde_calls_reader_n_programs (self->reader); i++)
    if (self->pid < 0 || sonde_calls_reader_program (self->reader, i)->pid == self->pid)
      sum_paths (self, i);
  find_nested (self);
  sum_functions (self);
}

void
sonde_calls_finish (SondeCalls *self)
{
  sonde_capture_model_settle (self->model);
  keep_slowest (self);
  self->resolver = sonde_symbol_resolver_new (self->model, NULL);
  sonde_symbol_resolver_find_all (self->resolver);
  name_slow (self);
  sum_all (self);
}

SondeCalls *
sonde_calls_new_of (SondeCallsReader *reader, GPtrArray *locations, SondeSymbolResolver *resolver)
{
  SondeCalls *self = g_new0 (SondeCalls, 1);

  init_sums (self, -1);
  self->reader = reader;
  self->locations = g_ptr_array_ref (locations);
  self->resolver = resolver;
  sum_all (self);
  return self;
}

double
sonde_calls_quantile (const SondeCallsRow *row, double part)
{
  guint64 n = 0, before = 0;
  double wanted;

  for (guint i = 0; row->buckets != NULL && i < SONDE_CALLS_N_BUCKETS; i++)
    n += row->buckets[i];
  wanted = part * (double) n;
  for (guint i = 0; n > 0 && i < SONDE_CALLS_N_BUCKETS; i++)
    {
      guint64 here = row->buckets[i];

      if (here > 0 && (double) (before + here) >= wanted)
        {
          double begin = (double) sonde_calls_bucket_begin (i);
          double width = (double) sonde_calls_bucket_begin (i + 1) - begin;
          double inside = MAX (wanted - (double) before, 0) / (double) here;

          return CLAMP ((begin + width * inside) * row->ns_a_tick, row->sum.min_ns,
                        row->sum.max_ns);
        }
      before += here;
    }
  return 0;
}

gboolean
sonde_calls_is_rough (const SondeCallsSum *sum, double part)
{
  return sum->n_timed * MIN (part, 1 - part) < SONDE_CALLS_FEW;
}

char *
sonde_calls_dup_time (double ns)
{
  static const struct
  {
    const char *unit;
    double ns;
  } units[] = { { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (units); i++)
    if (ns >= units[i].ns || i + 1 == G_N_ELEMENTS (units))
      {
        double value = ns / units[i].ns;

        return g_strdup_printf (value < 10 && i + 1 < G_N_ELEMENTS (units)    ? "%.2f %s"
                                : value < 100 && i + 1 < G_N_ELEMENTS (units) ? "%.1f %s"
                                                                              : "%.0f %s",
                                value, units[i].unit);
      }
  g_assert_not_reached ();
}

/* @row: has times. @estimate: (out) */
static void
estimate_with (const SondeCallsRow *row,
               double part,
               double confidence,
               SondeCallsEstimate *estimate)
{
  double distance = sonde_chance_normal (1 - (1 - confidence) / 2)
                    * sqrt (part * (1 - part) / row->sum.n_timed);

  estimate->ns = sonde_calls_quantile (row, part);
  estimate->has_low = part > distance;
  estimate->has_high = part + distance < 1;
  estimate->low_ns
      = estimate->has_low ? sonde_calls_quantile (row, part - distance) : row->sum.min_ns;
  estimate->high_ns
      = estimate->has_high ? sonde_calls_quantile (row, part + distance) : row->sum.max_ns;
  /* What a program says of its least and its most may be anything. */
  estimate->low_ns = MIN (estimate->low_ns, estimate->ns);
  estimate->high_ns = MAX (estimate->high_ns, estimate->ns);
}

gboolean
sonde_calls_estimate (const SondeCallsRow *row, double part, SondeCallsEstimate *estimate)
{
  if (row->buckets == NULL || row->sum.n_timed <= 0)
    return FALSE;
  estimate_with (row, part, CONFIDENCE, estimate);
  return TRUE;
}

gboolean
sonde_calls_is_comparable (const SondeCallsRow *before, const SondeCallsRow *after)
{
  return before != NULL && after != NULL && before->buckets != NULL && after->buckets != NULL
         && before->sum.n_timed > 0 && after->sum.n_timed > 0;
}

gboolean
sonde_calls_is_shifted (const SondeCallsRow *before,
                        const SondeCallsRow *after,
                        double part,
                        guint n_together)
{
  double confidence = 1 - (1 - SONDE_CHANCE_CONFIDENCE) / MAX (n_together, 1);
  SondeCallsEstimate old, new;

  if (!sonde_calls_is_comparable (before, after)
      /* Of the tail of a few nothing is known but the last one. */
      || MIN (before->sum.n_timed, after->sum.n_timed) * MIN (part, 1 - part) < 1)
    return FALSE;
  estimate_with (before, part, confidence, &old);
  estimate_with (after, part, confidence, &new);
  /* What has no bound among the calls that were timed may be anywhere beyond. */
  if ((old.high_ns >= new.low_ns || !old.has_high || !new.has_low)
      && (new.high_ns >= old.low_ns || !new.has_high || !old.has_low))
    return FALSE;
  return ABS (new.ns - old.ns) > MAX (new.ns, old.ns) / SONDE_CALLS_OCTAVE_BUCKETS;
}

const char *
sonde_calls_name_of (const SondeCalls *self, guint program, guint64 address)
{
  const SondeCallsProgram *of = sonde_calls_reader_program (self->reader, program);

  for (guint i = 0; i < of->paths->len; i++)
    {
      const SondeCallsPath *path = &g_array_index (of->paths, SondeCallsPath, i);

      if (path->parent != 0 && path->address == address)
        return sonde_calls_function (self, function_of (self, program, i))->name;
    }
  return "a function";
}

char *
sonde_calls_dup_path (const SondeCalls *self, guint program, guint32 path)
{
  const SondeCallsProgram *of = sonde_calls_reader_program (self->reader, program);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  GString *out = g_string_new (NULL);
  gboolean is_cut = FALSE;

  for (guint32 at = path; at != 0;)
    {
      const SondeCallsPath *here = &g_array_index (of->paths, SondeCallsPath, at - 1);

      is_cut = here->parent != 0 && names->len == MAX_SHOWN_DEPTH;
      if (is_cut)
        break;
      if (here->parent != 0)
        g_ptr_array_add (
            names,
            (gpointer) sonde_calls_function (self, function_of (self, program, at - 1))->name);
      at = here->parent;
    }
  if (is_cut)
    g_string_append (out, "... > ");
  for (guint i = names->len; i > 0; i--)
    g_string_append_printf (out, "%s%s", (const char *) g_ptr_array_index (names, i - 1),
                            i > 1 ? " > " : "");
  return g_string_free (out, FALSE);
}
