/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The Firefox Profiler's "processed profile", version 61, which later ones upgrade.
 * Source: github.com/firefox-devtools/profiler, src/types/profile.ts and
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
#define HEAP            G_MAXUINT /* in the place of a counter's number: bytes that live */

/* Of a sample. */
typedef struct
{
  gint64 time_ns;
  guint32 stack; /* node of the thread's stacks; 0: none */
} FirefoxMoment;

/* Of a block that was allocated or freed. */
typedef struct
{
  gint64 time_ns;
  gint64 size_bytes; /* below 0: freed; 0: the same, of nobody knows how much yet */
  guint64 address;   /* at last a number of the block: JSON's readers have no such large ones */
  guint32 stack;     /* as above */
  gint32 tid;        /* that did it */
} FirefoxBlock;

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
  SondeCallTree *stacks; /* ids are numbers of frames */
  GArray *samples;       /* FirefoxMoment, by time */
  GArray *blocks;        /* FirefoxBlock, by time */
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

/* The format wants all of a thread in one place: 16 bytes for each sample are held, and 40 or more
 * for each block. Threads that have no room are one, whose pid and tid are -1. */
typedef struct
{
  SondeExportSource *source;
  const SondeExportFrames *frames;
  guint64 sample_ns; /* of CPU time between two samples of a thread; 0: not known */
  SondeExportOutput *output;
  SondeBudget *budget;
  GPtrArray *threads;    /* FirefoxThread; those of a process stand together, its first one first */
  GPtrArray *series;     /* FirefoxSeries */
  SondeTextPool *texts;  /* of marks */
  SondeIdMap *by_thread; /* pid << 32 | tid → index; while they are read */
  SondeIdMap *by_counter; /* pid << 32 | counter → index; as well */
  GHashTable *strings;    /* text → index + 1 */
  GPtrArray *all_strings; /* in order; texts are of others */
} Document;

/* --- what is told of threads --- */

static void
thread_free (gpointer data)
{
  FirefoxThread *self = data;

  sonde_call_tree_free (self->stacks);
  g_array_unref (self->samples);
  g_array_unref (self->blocks);
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
  thread->blocks = g_array_new (FALSE, FALSE, sizeof (FirefoxBlock));
  thread->marks = g_array_new (FALSE, FALSE, sizeof (FirefoxMark));
  sonde_id_map_set (self->by_thread, key_of (pid, (guint32) tid), self->threads->len);
  g_ptr_array_add (self->threads, thread);
  return thread;
}

static void
take_sample (const SondeExportStack *sample, gpointer user_data)
{
  Document *self = user_data;
  FirefoxThread *thread = ensure_thread (self, sample->pid, sample->tid);
  FirefoxMoment moment = { sample->time_ns, 0 };

  thread->process = sample->process;
  moment.stack = sonde_call_tree_add (thread->stacks, sample->functions, sample->n_frames, 1);
  if (sonde_budget_take (self->budget, SONDE_LIMIT_SAMPLES, 1))
    g_array_append_val (thread->samples, moment);
}

static void
take_block (const SondeExportStack *given, gpointer user_data)
{
  Document *self = user_data;
  FirefoxThread *thread = ensure_thread (self, given->pid, given->tid);
  FirefoxBlock block = { given->time_ns, given->size_bytes, given->address, 0, given->tid };

  thread->process = given->process;
  if (given->size_bytes > 0)
    block.stack = sonde_call_tree_add (thread->stacks, given->functions, given->n_frames, 1);
  /* as large as two samples */
  if (sonde_budget_take (self->budget, SONDE_LIMIT_SAMPLES, 2))
    g_array_append_val (thread->blocks, block);
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

/* NULL: there is no room. */
static FirefoxSeries *
add_series (Document *self, guint counter, gint32 pid)
{
  FirefoxSeries *series;

  if (!sonde_budget_take (self->budget, SONDE_LIMIT_COUNTERS, 1))
    return NULL;
  series = g_new0 (FirefoxSeries, 1);
  series->counter = counter;
  series->pid = pid;
  series->values = g_array_new (FALSE, FALSE, sizeof (FirefoxValue));
  g_ptr_array_add (self->series, series);
  return series;
}

static void
add_value (Document *self, FirefoxSeries *series, gint64 time_ns, SondeCounterValue value)
{
  FirefoxValue copy = { time_ns, value };

  if (sonde_budget_take (self->budget, SONDE_LIMIT_VALUES, 1))
    g_array_append_val (series->values, copy);
}

static void
take_value (const SondeModelValue *value, gpointer user_data)
{
  Document *self = user_data;
  guint64 key = key_of (value->pid, value->counter);
  guint32 index;

  if (!sonde_id_map_lookup (self->by_counter, key, &index))
    {
      index = self->series->len;
      if (add_series (self, value->counter, value->pid) == NULL)
        return;
      sonde_id_map_set (self->by_counter, key, index);
    }
  add_value (self, g_ptr_array_index (self->series, index), value->time_ns, value->value);
}

/* --- order --- */

/* All begin with their time. */
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
  guint left = x->samples->len + x->blocks->len;
  guint right = y->samples->len + y->blocks->len;

  return left != right ? (left > right ? -1 : 1) : compare_threads (a, b);
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
  for (guint i = 0; i < thread->samples->len; i++)
    {
      FirefoxMoment moment = g_array_index (thread->samples, FirefoxMoment, i);

      moment.stack = nodes[moment.stack];
      g_array_append_val (sum->samples, moment);
    }
  for (guint i = 0; i < thread->blocks->len; i++)
    {
      FirefoxBlock block = g_array_index (thread->blocks, FirefoxBlock, i);

      block.stack = nodes[block.stack];
      g_array_append_val (sum->blocks, block);
    }
  g_array_append_vals (sum->marks, thread->marks->data, thread->marks->len);
}

/* Lanes have the number of their process, by which the viewer groups them: one of several has one
 * of its own, and so have what the counters of these are of. */
static void
merge_groups (Document *self)
{
  SondeBy by = self->source->options.by;
  g_autoptr (SondeGrouping) grouping = sonde_grouping_new (by, self->source->model);
  g_autoptr (GPtrArray) threads = g_steal_pointer (&self->threads);
  g_autoptr (GHashTable) groups = g_hash_table_new (NULL, NULL); /* number + 1 → FirefoxThread */
  g_autoptr (GHashTable) pids = g_hash_table_new (NULL, NULL);   /* pid → that of its group */
  gpointer pid;

  self->threads = g_ptr_array_new_with_free_func (thread_free);
  for (guint i = 0; i < threads->len; i++)
    {
      FirefoxThread *thread = g_ptr_array_index (threads, i);
      FirefoxThread *group;
      guint number;

      if (thread->process == G_MAXUINT || thread->tid == SONDE_TID_TRUNCATED)
        {
          g_ptr_array_add (self->threads, thread);
          continue;
        }
      number = sonde_grouping_find (
          grouping, sonde_capture_model_process (self->source->model, thread->process),
          thread->tid);
      group = g_hash_table_lookup (groups, GUINT_TO_POINTER (number + 1));
      if (group != NULL)
        {
          merge_thread (group, thread);
          if (group->pid != thread->pid && group->pid >= 0)
            {
              g_hash_table_insert (pids, GINT_TO_POINTER (group->pid),
                                   GINT_TO_POINTER (-2 - (gint) number));
              group->pid = group->tid = -2 - (gint) number;
            }
          if (group->pid < 0)
            g_hash_table_insert (pids, GINT_TO_POINTER (thread->pid), GINT_TO_POINTER (group->pid));
          else
            group->tid = group->pid;
          thread_free (thread);
          continue;
        }
      thread->comm = thread->name
          = sonde_text_pool_add (self->texts, sonde_grouping_name (grouping, number), G_MAXUINT16);
      g_hash_table_insert (groups, GUINT_TO_POINTER (number + 1), thread);
      g_ptr_array_add (self->threads, thread);
    }
  g_ptr_array_set_free_func (threads, NULL);
  for (guint i = 0; i < self->series->len; i++)
    {
      FirefoxSeries *series = g_ptr_array_index (self->series, i);

      if (g_hash_table_lookup_extended (pids, GINT_TO_POINTER (series->pid), NULL, &pid))
        series->pid = GPOINTER_TO_INT (pid);
    }
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
  name = g_strdup_printf ("[%s more %s]", count,
                          self->source->options.by == SONDE_BY_THREAD ? "threads" : "groups");
  rest->pid = rest->tid = -1;
  rest->comm = rest->name = sonde_text_pool_add (self->texts, name, G_MAXUINT16);
}

static int
compare_block_times (gconstpointer a, gconstpointer b)
{
  return compare_times (*(const FirefoxBlock *const *) a, *(const FirefoxBlock *const *) b);
}

/* A free that another thread did goes to who allocated, as what that has left is asked for. */
typedef struct
{
  GArray *blocks; /* of that */
  FirefoxBlock block;
} FirefoxMove;

/* Tells frees of the process at @first, whose threads are @n, how much they are of, and makes a
 * counter of what lives. A free of what nobody has seen allocated goes. */
static void
balance_process (Document *self, guint first, guint n)
{
  const FirefoxThread *main = g_ptr_array_index (self->threads, first);
  g_autoptr (GPtrArray) all = g_ptr_array_new ();
  g_autoptr (GHashTable) live = g_hash_table_new (NULL, NULL);   /* address → FirefoxBlock */
  g_autoptr (GHashTable) by_tid = g_hash_table_new (NULL, NULL); /* tid → blocks */
  g_autoptr (GArray) moves = g_array_new (FALSE, FALSE, sizeof (FirefoxMove));
  FirefoxSeries *series = NULL;
  gint64 sum = 0;
  guint64 n_blocks = 0;

  for (guint i = first; i < first + n; i++)
    {
      const FirefoxThread *thread = g_ptr_array_index (self->threads, i);
      GArray *blocks = thread->blocks;

      g_hash_table_insert (by_tid, GINT_TO_POINTER (thread->tid), blocks);
      for (guint k = 0; k < blocks->len; k++)
        g_ptr_array_add (all, &g_array_index (blocks, FirefoxBlock, k));
    }
  g_ptr_array_sort (all, compare_block_times);
  if (all->len > 0)
    series = add_series (self, HEAP, main->pid);
  for (guint i = 0; i < all->len; i++)
    {
      FirefoxBlock *block = g_ptr_array_index (all, i);
      gpointer address = GSIZE_TO_POINTER ((gsize) block->address);
      const FirefoxBlock *allocated = g_hash_table_lookup (live, address);

      if (block->size_bytes > 0)
        {
          g_hash_table_insert (live, address, block);
          block->address = ++n_blocks;
        }
      else if (allocated != NULL)
        {
          block->size_bytes = -allocated->size_bytes;
          block->address = allocated->address;
          g_hash_table_remove (live, address);
        }
      if (block->size_bytes == 0)
        continue;
      if (!__builtin_add_overflow (sum, block->size_bytes, &sum) && series != NULL)
        add_value (self, series, block->time_ns, (SondeCounterValue){ .v64 = sum });
      if (block->size_bytes < 0 && allocated->tid != block->tid)
        {
          FirefoxMove move
              = { g_hash_table_lookup (by_tid, GINT_TO_POINTER (allocated->tid)), *block };

          if (move.blocks == NULL) /* it had no room of its own */
            continue;
          g_array_append_val (moves, move);
          block->size_bytes = 0;
        }
    }
  for (guint i = first; i < first + n; i++)
    {
      GArray *blocks = ((FirefoxThread *) g_ptr_array_index (self->threads, i))->blocks;
      guint n_kept = 0;

      for (guint k = 0; k < blocks->len; k++)
        {
          FirefoxBlock block = g_array_index (blocks, FirefoxBlock, k);

          if (block.size_bytes != 0)
            g_array_index (blocks, FirefoxBlock, n_kept++) = block;
        }
      g_array_set_size (blocks, n_kept);
    }
  for (guint i = 0; i < moves->len; i++)
    {
      const FirefoxMove *move = &g_array_index (moves, FirefoxMove, i);

      g_array_append_val (move->blocks, move->block);
    }
}

static void
name_threads (Document *self)
{
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
}

/* Walks what the capture tells of each thread, in the order of time. */
static gboolean
read_threads (Document *self, GError **error)
{
  static const SondeExportFuncs funcs = { .sample = take_sample,
                                          .allocation = take_block,
                                          .freed = take_block,
                                          .mark = take_mark,
                                          .value = take_value };
  gboolean is_read;
  guint n;

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
  name_threads (self);
  g_ptr_array_sort (self->threads, compare_threads);
  for (guint first = 0; first < self->threads->len; first += n)
    {
      gint32 pid = ((FirefoxThread *) g_ptr_array_index (self->threads, first))->pid;

      for (n = 1; first + n < self->threads->len
                  && ((FirefoxThread *) g_ptr_array_index (self->threads, first + n))->pid == pid;)
        n++;
      balance_process (self, first, n);
    }
  if (self->source->options.by != SONDE_BY_THREAD)
    merge_groups (self);
  merge_lightest (self);
  g_ptr_array_sort (self->threads, compare_threads);
  for (guint i = 0; i < self->threads->len; i++)
    {
      const FirefoxThread *thread = g_ptr_array_index (self->threads, i);

      g_array_sort (thread->samples, compare_times);
      g_array_sort (thread->blocks, compare_times);
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

/* One value of a table's column. */
typedef void (*Column) (Document *self, GString *out, gconstpointer table, guint row);

/* What stands in the tables that all threads share. */
typedef struct
{
  GArray *frames;             /* guint32: numbers of frames */
  guint32 *frame_rows;        /* by number: row + 1 */
  GArray *functions;          /* guint32: a frame of each */
  guint32 *function_rows;     /* by number of a whole function: row + 1 */
  GArray *frame_functions;    /* guint: by row of a frame */
  GArray *function_sources;   /* guint: by row of a function: row + 1 */
  GHashTable *source_rows;    /* file → row + 1 */
  GPtrArray *sources;         /* files; the functions' own */
  GHashTable *resource_rows;  /* "LIBRARY MODULE" → row + 1 */
  GPtrArray *resources;       /* modules; the functions' own */
  GArray *resource_libraries; /* guint: row + 1 of libraries; 0: none */
  GHashTable *library_rows;   /* "BUILD-ID PATH" → row + 1 */
  guint *mapping_libraries;   /* by number of a mapping: row + 1, or 0: not looked for */
  GArray *libraries;          /* guint32: mappings */
  GHashTable *symbol_rows;    /* "LIBRARY BEGIN" → row + 1 */
  GArray *symbols;            /* guint32: a place of each */
  GArray *frame_symbols;      /* guint: by row of a frame: row + 1 */
} Tables;

static void
tables_init (Tables *self, const SondeExportFrames *frames)
{
  self->frames = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->frame_rows = g_new0 (guint32, sonde_export_frames_n_frames (frames));
  self->functions = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->function_rows = g_new0 (guint32, sonde_export_frames_n_wholes (frames));
  self->frame_functions = g_array_new (FALSE, FALSE, sizeof (guint));
  self->function_sources = g_array_new (FALSE, FALSE, sizeof (guint));
  self->source_rows = g_hash_table_new (sonde_text_hash, g_str_equal);
  self->sources = g_ptr_array_new ();
  self->resource_rows = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->resources = g_ptr_array_new ();
  self->resource_libraries = g_array_new (FALSE, FALSE, sizeof (guint));
  self->library_rows = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->mapping_libraries = g_new0 (guint, sonde_export_frames_n_mappings (frames));
  self->libraries = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->symbol_rows = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->symbols = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->frame_symbols = g_array_new (FALSE, FALSE, sizeof (guint));
}

static void
tables_clear (Tables *self)
{
  g_array_unref (self->frames);
  g_free (self->frame_rows);
  g_array_unref (self->functions);
  g_free (self->function_rows);
  g_array_unref (self->frame_functions);
  g_array_unref (self->function_sources);
  g_hash_table_unref (self->source_rows);
  g_ptr_array_unref (self->sources);
  g_hash_table_unref (self->resource_rows);
  g_ptr_array_unref (self->resources);
  g_array_unref (self->resource_libraries);
  g_hash_table_unref (self->library_rows);
  g_free (self->mapping_libraries);
  g_array_unref (self->libraries);
  g_hash_table_unref (self->symbol_rows);
  g_array_unref (self->symbols);
  g_array_unref (self->frame_symbols);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Tables, tables_clear)

/* @text: kept by others */
static guint
string_row (Document *self, const char *text)
{
  guint row = GPOINTER_TO_UINT (g_hash_table_lookup (self->strings, text));

  if (row > 0)
    return row - 1;
  g_ptr_array_add (self->all_strings, (gpointer) text);
  g_hash_table_insert (self->strings, (gpointer) text, GUINT_TO_POINTER (self->all_strings->len));
  return self->all_strings->len - 1;
}

/* Row + 1 of @key, which is taken; the next one, with @is_new, if it is not there yet. */
static guint
ensure_row (GHashTable *rows, char *key, gboolean *is_new)
{
  guint row = GPOINTER_TO_UINT (g_hash_table_lookup (rows, key));

  *is_new = row == 0;
  if (row > 0)
    {
      g_free (key);
      return row;
    }
  row = g_hash_table_size (rows) + 1;
  g_hash_table_insert (rows, key, GUINT_TO_POINTER (row));
  return row;
}

/* Row + 1; 0: it is none. */
static guint
library_row (const Document *self, Tables *tables, guint32 number)
{
  const SondeExportMapping *mapping;
  gboolean is_new;
  guint row;

  if (number == SONDE_EXPORT_NO_MAPPING)
    return 0;
  if (tables->mapping_libraries[number] > 0)
    return tables->mapping_libraries[number];
  mapping = sonde_export_frames_mapping (self->frames, number);
  if (mapping->end == 0)
    return 0;
  row = ensure_row (
      tables->library_rows,
      g_strdup_printf ("%s %s", mapping->build_id != NULL ? mapping->build_id : "", mapping->path),
      &is_new);
  if (is_new)
    g_array_append_val (tables->libraries, number);
  tables->mapping_libraries[number] = row;
  return row;
}

static guint
function_row (const Document *self, Tables *tables, guint32 frame)
{
  const SondeFunction *function = sonde_export_source_function (self->source, frame);
  guint32 *row = &tables->function_rows[sonde_export_frames_frame (self->frames, frame)->whole];
  guint source;

  if (*row > 0)
    return *row - 1;
  g_array_append_val (tables->functions, frame);
  *row = tables->functions->len;
  source = GPOINTER_TO_UINT (g_hash_table_lookup (tables->source_rows, function->file));
  if (source == 0 && function->file[0] != '\0')
    {
      g_ptr_array_add (tables->sources, (gpointer) function->file);
      source = tables->sources->len;
      g_hash_table_insert (tables->source_rows, (gpointer) function->file,
                           GUINT_TO_POINTER (source));
    }
  g_array_append_val (tables->function_sources, source);
  return *row - 1;
}

/* Row + 1 of the symbol that @number is in; 0: it is in none. */
static guint
symbol_row (const Document *self, Tables *tables, guint32 number)
{
  const SondeExportPlace *place = sonde_export_frames_place (self->frames, number);
  guint library = library_row (self, tables, place->mapping);
  gboolean is_new;
  guint row;

  if (library == 0 || place->file.end == 0)
    return 0;
  row = ensure_row (tables->symbol_rows,
                    g_strdup_printf ("%u %" G_GUINT64_FORMAT, library, place->file.begin), &is_new);
  if (is_new)
    g_array_append_val (tables->symbols, number);
  return row;
}

static void
add_frame (const Document *self, Tables *tables, guint32 frame)
{
  guint32 place = sonde_export_frames_frame (self->frames, frame)->place;
  guint function;
  guint symbol;

  if (tables->frame_rows[frame] != 0)
    return;
  g_array_append_val (tables->frames, frame);
  tables->frame_rows[frame] = tables->frames->len;
  function = function_row (self, tables, frame);
  g_array_append_val (tables->frame_functions, function);
  symbol = symbol_row (self, tables, place);
  g_array_append_val (tables->frame_symbols, symbol);
}

static void
write_column (Document *self, const char *name, Column column, gconstpointer table, guint n_rows)
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
write_constant (Document *self, const char *name, const char *value, guint n_rows)
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
begin_table (Document *self, const char *name)
{
  sonde_export_output_printf (self->output, "\n\"%s\":{", name);
}

static void
end_table (Document *self, guint n_rows)
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

static void
append_or_null (GString *out, guint number)
{
  if (number == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", number);
}

/* --- stacks, frames, functions --- */

typedef enum
{
  STACK_FRAME,
  STACK_PREFIX,
} StackColumn;

/* Those of a thread follow those of the one before: row n of it is node n + 1, its root is none. */
static guint
write_stack_column (Document *self, const Tables *tables, StackColumn column)
{
  GString *out = self->output->text;
  guint n_before = 0;

  g_string_append_printf (out, "\"%s\":[", column == STACK_FRAME ? "frame" : "prefix");
  for (guint i = 0; i < self->threads->len; i++)
    {
      const SondeCallTree *stacks
          = ((FirefoxThread *) g_ptr_array_index (self->threads, i))->stacks;
      guint32 n_nodes = sonde_call_tree_n_nodes (stacks);

      for (guint32 k = 1; k < n_nodes; k++)
        {
          const SondeCallNode *node = sonde_call_tree_node (stacks, k);

          if (n_before + k > 1)
            g_string_append_c (out, ',');
          if (column == STACK_FRAME)
            g_string_append_printf (out, "%u", tables->frame_rows[node->id] - 1);
          else if (node->parent == 0)
            g_string_append (out, "null");
          else
            g_string_append_printf (out, "%u", n_before + node->parent - 1);
          sonde_export_output_pass (self->output);
        }
      n_before += n_nodes - 1;
    }
  g_string_append (out, "],");
  return n_before;
}

static guint32
frame_at (gconstpointer table, guint row)
{
  return g_array_index (((const Tables *) table)->frames, guint32, row);
}

static const SondeExportPlace *
place_of (const Document *self, guint32 frame)
{
  return sonde_export_frames_place (self->frames,
                                    sonde_export_frames_frame (self->frames, frame)->place);
}

static void
frame_address (Document *self, GString *out, gconstpointer table, guint row)
{
  const SondeExportPlace *place = place_of (self, frame_at (table, row));
  gboolean is_in_file = place->mapping != SONDE_EXPORT_NO_MAPPING
                        && sonde_export_frames_mapping (self->frames, place->mapping)->end > 0;

  /* Numbers of JSON's readers are exact up to there. */
  if (is_in_file && place->file.address < G_GUINT64_CONSTANT (1) << 53)
    g_string_append_printf (out, "%" G_GUINT64_FORMAT, place->file.address);
  else
    g_string_append (out, "-1");
}

static void
frame_depth (Document *self, GString *out, gconstpointer table, guint row)
{
  guint32 frame = frame_at (table, row);

  g_string_append_printf (out, "%u", frame - place_of (self, frame)->first);
}

static void
frame_category (Document *self, GString *out, gconstpointer table, guint row)
{
  const char *module = sonde_export_source_function (self->source, frame_at (table, row))->module;

  g_string_append_printf (out, "%d",
                          g_str_equal (module, "[kernel]") ? CATEGORY_KERNEL : CATEGORY_USER);
}

static void
frame_func (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u",
                          g_array_index (((const Tables *) table)->frame_functions, guint, row));
}

static void
frame_symbol (Document *self, GString *out, gconstpointer table, guint row)
{
  guint symbol = g_array_index (((const Tables *) table)->frame_symbols, guint, row);

  if (symbol == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", symbol - 1);
}

static void
frame_line (Document *self, GString *out, gconstpointer table, guint row)
{
  append_or_null (out, sonde_export_source_function (self->source, frame_at (table, row))->line);
}

static const SondeFunction *
function_at (const Document *self, gconstpointer table, guint row)
{
  return sonde_export_source_function (
      self->source, g_array_index (((const Tables *) table)->functions, guint32, row));
}

static void
func_name (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u", string_row (self, function_at (self, table, row)->name));
}

static void
func_resource (Document *self, GString *out, gconstpointer table, guint row)
{
  const Tables *tables = table;
  guint32 frame = g_array_index (tables->functions, guint32, row);
  const char *module = sonde_export_source_function (self->source, frame)->module;
  guint library = library_row (self, (Tables *) tables, place_of (self, frame)->mapping);
  g_autofree char *key = g_strdup_printf ("%u %s", library, module);
  gboolean is_new;
  guint resource;

  if (library == 0 && module[0] == '\0')
    {
      g_string_append (out, "-1");
      return;
    }
  resource = ensure_row (tables->resource_rows, g_steal_pointer (&key), &is_new);
  if (is_new)
    {
      g_ptr_array_add (tables->resources, (gpointer) module);
      g_array_append_val (tables->resource_libraries, library);
    }
  g_string_append_printf (out, "%u", resource - 1);
}

static void
func_source (Document *self, GString *out, gconstpointer table, guint row)
{
  guint source = g_array_index (((const Tables *) table)->function_sources, guint, row);

  if (source == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", source - 1);
}

static void
func_line (Document *self, GString *out, gconstpointer table, guint row)
{
  append_or_null (out, function_at (self, table, row)->begin);
}

static void
resource_library (Document *self, GString *out, gconstpointer table, guint row)
{
  guint library = g_array_index (((const Tables *) table)->resource_libraries, guint, row);

  if (library == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", library - 1);
}

static void
resource_name (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (
      out, "%u", string_row (self, g_ptr_array_index (((const Tables *) table)->resources, row)));
}

/* 0: unknown; 1: a library */
static void
resource_type (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_c (
      out,
      g_array_index (((const Tables *) table)->resource_libraries, guint, row) > 0 ? '1' : '0');
}

static void
source_name (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (
      out, "%u", string_row (self, g_ptr_array_index (((const Tables *) table)->sources, row)));
}

static const SondeExportPlace *
symbol_at (const Document *self, gconstpointer table, guint row)
{
  return sonde_export_frames_place (
      self->frames, g_array_index (((const Tables *) table)->symbols, guint32, row));
}

static void
symbol_library (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (
      out, "%u", library_row (self, (Tables *) table, symbol_at (self, table, row)->mapping) - 1);
}

static void
symbol_address (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%" G_GUINT64_FORMAT, symbol_at (self, table, row)->file.begin);
}

static void
symbol_name (Document *self, GString *out, gconstpointer table, guint row)
{
  guint32 frame = symbol_at (self, table, row)->first;

  g_string_append_printf (
      out, "%u", string_row (self, sonde_export_source_function (self->source, frame)->name));
}

static void
symbol_size (Document *self, GString *out, gconstpointer table, guint row)
{
  const SondeExportPlace *place = symbol_at (self, table, row);

  g_string_append_printf (out, "%" G_GUINT64_FORMAT, place->file.end - place->file.begin);
}

static void
write_strings (Document *self)
{
  GString *out = self->output->text;

  g_string_append (out, "\n\"stringArray\":[");
  for (guint i = 0; i < self->all_strings->len; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      sonde_json_append_escaped (out, g_ptr_array_index (self->all_strings, i));
      sonde_export_output_pass (self->output);
    }
  g_string_append (out, "]");
}

/* Behind all threads, whose marks have strings, too. */
static void
write_shared (Document *self, Tables *tables)
{
  GString *out = self->output->text;
  guint n;

  g_string_append (out, "\n\"shared\":{");
  begin_table (self, "stackTable");
  write_stack_column (self, tables, STACK_FRAME);
  n = write_stack_column (self, tables, STACK_PREFIX);
  end_table (self, n);

  n = tables->frames->len;
  begin_table (self, "frameTable");
  write_column (self, "address", frame_address, tables, n);
  write_column (self, "inlineDepth", frame_depth, tables, n);
  write_column (self, "category", frame_category, tables, n);
  write_constant (self, "subcategory", "0", n);
  write_column (self, "func", frame_func, tables, n);
  write_column (self, "nativeSymbol", frame_symbol, tables, n);
  write_constant (self, "innerWindowID", "0", n);
  write_column (self, "line", frame_line, tables, n);
  write_constant (self, "column", "null", n);
  end_table (self, n);

  n = tables->functions->len;
  begin_table (self, "funcTable");
  write_column (self, "name", func_name, tables, n);
  write_constant (self, "isJS", "false", n);
  write_constant (self, "relevantForJS", "false", n);
  write_column (self, "resource", func_resource, tables, n);
  write_column (self, "source", func_source, tables, n);
  write_column (self, "lineNumber", func_line, tables, n);
  write_constant (self, "columnNumber", "null", n);
  end_table (self, n);

  n = tables->resources->len;
  begin_table (self, "resourceTable");
  write_column (self, "lib", resource_library, tables, n);
  write_column (self, "name", resource_name, tables, n);
  write_constant (self, "host", "null", n);
  write_column (self, "type", resource_type, tables, n);
  end_table (self, n);

  n = tables->sources->len;
  begin_table (self, "sources");
  write_constant (self, "id", "null", n);
  write_column (self, "filename", source_name, tables, n);
  write_constant (self, "startLine", "1", n);
  write_constant (self, "startColumn", "1", n);
  write_constant (self, "sourceMapURL", "null", n);
  end_table (self, n);

  n = tables->symbols->len;
  begin_table (self, "nativeSymbols");
  write_column (self, "libIndex", symbol_library, tables, n);
  write_column (self, "address", symbol_address, tables, n);
  write_column (self, "name", symbol_name, tables, n);
  write_column (self, "functionSize", symbol_size, tables, n);
  end_table (self, n);
  write_strings (self);
  g_string_append (out, "}");
}

/* --- samples and allocations --- */

/* Of one thread. */
typedef struct
{
  const FirefoxThread *thread;
  guint first_stack; /* row of its first one */
} Lane;

static const FirefoxMoment *
moment_at (gconstpointer table, guint row)
{
  return &g_array_index (((const Lane *) table)->thread->samples, FirefoxMoment, row);
}

static const FirefoxBlock *
block_at (gconstpointer table, guint row)
{
  return &g_array_index (((const Lane *) table)->thread->blocks, FirefoxBlock, row);
}

static void
append_stack (GString *out, const Lane *lane, guint32 node)
{
  if (node == 0)
    g_string_append (out, "null");
  else
    g_string_append_printf (out, "%u", lane->first_stack + node - 1);
}

static void
moment_time (Document *self, GString *out, gconstpointer table, guint row)
{
  append_ms (self, out, moment_at (table, row)->time_ns);
}

static void
moment_stack (Document *self, GString *out, gconstpointer table, guint row)
{
  append_stack (out, table, moment_at (table, row)->stack);
}

static void
block_time (Document *self, GString *out, gconstpointer table, guint row)
{
  append_ms (self, out, block_at (table, row)->time_ns);
}

static void
block_stack (Document *self, GString *out, gconstpointer table, guint row)
{
  append_stack (out, table, block_at (table, row)->stack);
}

static void
block_bytes (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%" G_GINT64_FORMAT, block_at (table, row)->size_bytes);
}

static void
block_address (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%" G_GUINT64_FORMAT, block_at (table, row)->address);
}

static void
block_tid (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%d", block_at (table, row)->tid);
}

static void
write_moments (Document *self, const Lane *lane)
{
  const FirefoxThread *thread = lane->thread;
  g_autofree char *delta = g_strdup_printf ("%" G_GUINT64_FORMAT, self->sample_ns);
  guint n = thread->samples->len;

  begin_table (self, "samples");
  write_column (self, "time", moment_time, lane, n);
  write_column (self, "stack", moment_stack, lane, n);
  /* A sample is taken each time that its thread has run for so long. */
  if (self->sample_ns > 0)
    write_constant (self, "threadCPUDelta", delta, n);
  sonde_export_output_printf (self->output, "\"weight\":null,\"weightType\":\"samples\",");
  end_table (self, n);
  n = thread->blocks->len;
  if (n == 0)
    return;
  begin_table (self, "nativeAllocations");
  write_column (self, "time", block_time, lane, n);
  write_column (self, "stack", block_stack, lane, n);
  write_column (self, "weight", block_bytes, lane, n);
  write_column (self, "memoryAddress", block_address, lane, n);
  write_column (self, "threadId", block_tid, lane, n);
  sonde_export_output_printf (self->output, "\"weightType\":\"bytes\",");
  end_table (self, n);
}

/* --- marks --- */

static const FirefoxMark *
mark_at (gconstpointer table, guint row)
{
  return &g_array_index ((const GArray *) table, FirefoxMark, row);
}

static void
mark_name (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append_printf (out, "%u", string_row (self, mark_at (table, row)->name));
}

static void
mark_start (Document *self, GString *out, gconstpointer table, guint row)
{
  append_ms (self, out, mark_at (table, row)->time_ns);
}

static void
mark_end (Document *self, GString *out, gconstpointer table, guint row)
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
mark_phase (Document *self, GString *out, gconstpointer table, guint row)
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
mark_data (Document *self, GString *out, gconstpointer table, guint row)
{
  g_string_append (out, "{\"type\":\"Mark\",\"group\":");
  sonde_json_append_escaped (out, mark_at (table, row)->group);
  g_string_append (out, ",\"message\":");
  sonde_json_append_escaped (out, mark_at (table, row)->message);
  g_string_append_c (out, '}');
}

/* --- threads --- */

static void
write_thread (Document *self, const Lane *lane)
{
  const FirefoxThread *thread = lane->thread;
  GString *out = self->output->text;
  guint n = thread->marks->len;

  g_string_append (out, "\n{\"processType\":\"default\",\"processName\":");
  sonde_json_append_escaped (out, thread->comm);
  g_string_append (out, ",\"name\":");
  sonde_json_append_escaped (out, thread->name);
  g_string_append_printf (out,
                          ",\"pid\":\"%d\",\"tid\":%d,\"isMainThread\":%s,"
                          "\"processStartupTime\":0,\"processShutdownTime\":null,"
                          "\"registerTime\":0,\"unregisterTime\":null,\"pausedRanges\":[],",
                          thread->pid, thread->tid, thread->pid == thread->tid ? "true" : "false");
  write_moments (self, lane);
  begin_table (self, "markers");
  write_column (self, "name", mark_name, thread->marks, n);
  write_column (self, "startTime", mark_start, thread->marks, n);
  write_column (self, "endTime", mark_end, thread->marks, n);
  write_column (self, "phase", mark_phase, thread->marks, n);
  write_constant (self, "category", "0", n);
  write_column (self, "data", mark_data, thread->marks, n);
  sonde_export_output_printf (self->output, "\"length\":%u}}", n);
}

/* --- counters: what each value adds to the one before --- */

static void
write_series (Document *self, const FirefoxSeries *series)
{
  static const SondeModelCounter heap
      = { (char *) "Memory", (char *) "malloc", (char *) "Bytes of blocks that live", FALSE };
  const SondeModelCounter *counter
      = series->counter == HEAP
            ? &heap
            : sonde_capture_model_counter (self->source->model, series->counter);
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

/* Of which most was sampled; NULL: of none. */
static const SondeModelProcess *
find_heaviest (const Document *self)
{
  const FirefoxThread *heaviest = NULL;

  for (guint i = 0; i < self->threads->len; i++)
    {
      const FirefoxThread *thread = g_ptr_array_index (self->threads, i);

      if (thread->process != G_MAXUINT
          && (heaviest == NULL || compare_weights (&thread, &heaviest) < 0))
        heaviest = thread;
    }
  return heaviest != NULL ? sonde_capture_model_process (self->source->model, heaviest->process)
                          : NULL;
}

static void
append_member (GString *out, const char *name, const char *text)
{
  if (text == NULL || text[0] == '\0')
    return;
  g_string_append_printf (out, ",\"%s\":", name);
  sonde_json_append_escaped (out, text);
}

/* What the capture says of itself, for whoever looks closer. */
static void
append_extra (const Document *self, GString *out)
{
  static const char *const keys[]
      = { "host", "kernel-release", "scope", "event", "frequency", "period", "unwind", "version" };
  gboolean is_first = TRUE;

  g_string_append (out, ",\"extra\":[{\"label\":\"Sonde\",\"entries\":[");
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autofree char *value = sonde_export_source_describe (self->source, keys[i], "");

      if (value[0] == '\0')
        continue;
      g_string_append_printf (out, "%s{\"label\":\"%s\",\"format\":\"string\",\"value\":",
                              is_first ? "" : ",", keys[i]);
      sonde_json_append_escaped (out, value);
      g_string_append_c (out, '}');
      is_first = FALSE;
    }
  g_string_append (out, "]}]");
}

static void
write_meta (const Document *self)
{
  g_autofree char *start = sonde_export_source_describe (self->source, "start-realtime", "0");
  g_autofree char *event = sonde_export_source_describe (self->source, "event", "samples");
  g_autofree char *machine = sonde_export_source_describe (self->source, "machine", "");
  g_autofree char *processors = sonde_export_source_describe (self->source, "processors", "0");
  g_autofree char *system = machine[0] != '\0' ? g_strconcat ("Linux ", machine, NULL) : NULL;
  const SondeModelProcess *heaviest = find_heaviest (self);
  guint64 n_processors = g_ascii_strtoull (processors, NULL, 10);
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  double interval_ms = (double) sonde_export_source_interval_ns (self->source) / NS_PER_MS;
  GString *out = self->output->text;

  g_string_append_printf (out,
                          "{\"meta\":{\"version\":24,\"preprocessedProfileVersion\":61,"
                          "\"interval\":%s,",
                          g_ascii_dtostr (digits, sizeof digits, interval_ms));
  g_string_append_printf (out, "\"startTime\":%s,\"product\":",
                          g_ascii_formatd (digits, sizeof digits, "%.3f",
                                           (double) g_ascii_strtoll (start, NULL, 10) / NS_PER_MS));
  sonde_json_append_escaped (out, heaviest != NULL && heaviest->comm[0] != '\0' ? heaviest->comm
                                                                                : event);
  append_member (out, "arguments", heaviest != NULL ? heaviest->cmdline : NULL);
  g_string_append_printf (out,
                          ",\"startTimeAsClockMonotonicNanosecondsSinceBoot\":%" G_GINT64_FORMAT,
                          self->source->start_ns);
  if (system != NULL)
    g_string_append (out, ",\"platform\":\"Linux\"");
  append_member (out, "oscpu", system);
  append_member (out, "abi", machine);
  append_member (out, "CPUName",
                 sonde_embedded_files_cpu_model (sonde_capture_model_files (self->source->model)));
  if (n_processors > 0 && n_processors <= G_MAXUINT16)
    g_string_append_printf (out, ",\"logicalCPUs\":%u", (guint) n_processors);
  append_extra (self, out);
  g_string_append (
      out, ",\"processType\":0,\"stackwalk\":1,\"debug\":false,\"symbolicated\":true,"
           "\"importedFrom\":\"sondectl " SONDE_VERSION "\",\"usesOnlyOneStackType\":true,"
           "\"sourceCodeIsNotOnSearchfox\":true,"
           "\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"ns\"},"
           "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
           "{\"name\":\"User\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},"
           "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}],"
           "\"markerSchema\":[{\"name\":\"Mark\",\"tooltipLabel\":\"{marker.name}\","
           "\"tableLabel\":\"{marker.data.message}\",\"chartLabel\":\"{marker.name}\","
           "\"display\":[\"marker-chart\",\"marker-table\",\"timeline-overview\"],\"fields\":["
           "{\"key\":\"group\",\"label\":\"Group\",\"format\":\"string\"},"
           "{\"key\":\"message\",\"label\":\"Message\",\"format\":\"string\"}]}]},");
}

/* Of a build id of at least that length Breakpad takes 16 bytes, as a GUID, and an age of 0.
 * Source: chromium.googlesource.com/breakpad, src/common/linux/file_id.cc */
static char *
dup_breakpad_id (const char *build_id)
{
  static const guint8 order[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
  gsize n = build_id != NULL ? strspn (build_id, "0123456789abcdefABCDEF") / 2 : 0;
  GString *id = g_string_new (NULL);

  for (gsize i = 0; n > 0 && i < G_N_ELEMENTS (order); i++)
    if (order[i] < n)
      g_string_append_printf (id, "%c%c", g_ascii_toupper (build_id[2 * order[i]]),
                              g_ascii_toupper (build_id[2 * order[i] + 1]));
    else
      g_string_append (id, "00");
  if (n > 0)
    g_string_append_c (id, '0');
  return g_string_free (id, FALSE);
}

static void
write_libraries (Document *self, const Tables *tables)
{
  g_autofree char *machine = sonde_export_source_describe (self->source, "machine", "");
  GString *out = self->output->text;

  g_string_append (out, "\n\"libs\":[");
  for (guint i = 0; i < tables->libraries->len; i++)
    {
      const SondeExportMapping *mapping = sonde_export_frames_mapping (
          self->frames, g_array_index (tables->libraries, guint32, i));
      const char *slash = strrchr (mapping->path, '/');
      const char *name = slash != NULL ? slash + 1 : mapping->path;
      g_autofree char *breakpad_id = dup_breakpad_id (mapping->build_id);
      const struct
      {
        const char *key;
        const char *value;
      } members[] = { { "name", name },
                      { "path", mapping->path },
                      { "debugName", name },
                      { "debugPath", mapping->path },
                      { "arch", machine },
                      { "breakpadId", breakpad_id },
                      { "codeId", mapping->build_id } };

      g_string_append (out, i > 0 ? ",\n{" : "\n{");
      for (gsize k = 0; k < G_N_ELEMENTS (members); k++)
        {
          g_string_append_printf (out, "%s\"%s\":", k > 0 ? "," : "", members[k].key);
          if (members[k].value != NULL)
            sonde_json_append_escaped (out, members[k].value);
          else
            g_string_append (out, "null");
        }
      g_string_append_c (out, '}');
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
  g_autoptr (GPtrArray) series = g_ptr_array_new_with_free_func (series_free);
  g_autoptr (SondeTextPool) texts = sonde_text_pool_new (budget);
  g_autoptr (GHashTable) strings = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GPtrArray) all_strings = g_ptr_array_new ();
  g_autoptr (SondeExportFrames) of_functions
      = source->frames == NULL ? sonde_export_frames_new_of_functions (source->resolver) : NULL;
  Document document = { .source = source,
                        .sample_ns = sonde_export_source_sample_ns (source),
                        .frames = source->frames != NULL ? source->frames : of_functions,
                        .output = output,
                        .budget = budget,
                        .threads = g_ptr_array_new_with_free_func (thread_free),
                        .series = series,
                        .texts = texts,
                        .strings = strings,
                        .all_strings = all_strings };
  g_autoptr (GPtrArray) threads = NULL;
  g_auto (Tables) tables = { 0 };
  GString *out = output->text;
  Lane lane = { 0 };
  gboolean is_read = read_threads (&document, error);

  threads = document.threads;
  tables_init (&tables, document.frames);
  if (!is_read)
    return FALSE;
  for (guint i = 0; i < threads->len; i++)
    {
      const SondeCallTree *stacks = ((FirefoxThread *) g_ptr_array_index (threads, i))->stacks;

      for (guint32 k = 1; k < sonde_call_tree_n_nodes (stacks); k++)
        add_frame (&document, &tables, sonde_call_tree_node (stacks, k)->id);
    }
  write_meta (&document);
  write_libraries (&document, &tables);
  g_string_append (out, "\n\"threads\":[");
  for (guint i = 0; i < threads->len; i++)
    {
      lane.thread = g_ptr_array_index (threads, i);
      g_string_append (out, i > 0 ? "," : "");
      write_thread (&document, &lane);
      lane.first_stack += sonde_call_tree_n_nodes (lane.thread->stacks) - 1;
    }
  g_string_append (out, "],\n\"counters\":[");
  for (guint i = 0; i < series->len; i++)
    {
      g_string_append (out, i > 0 ? "," : "");
      write_series (&document, g_ptr_array_index (series, i));
    }
  g_string_append (out, "],");
  write_shared (&document, &tables);
  g_string_append (out, "}\n");
  return TRUE;
}
