/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The profiles of V8's inspector, which Chrome's developer tools and Visual Studio Code open: of
 * time, and of a heap. Where several groups of processes are in one, they are its outermost frames.
 * Source: chromedevtools.github.io/devtools-protocol, Profiler.Profile and
 * HeapProfiler.SamplingHeapProfile */
#include "client/export/export.h"

#include "client/base/id-map.h"
#include "client/base/json.h"

#define NS_PER_US G_GINT64_CONSTANT (1000)

/* Of several groups each has a frame of its own, numbered behind the functions. */
typedef struct
{
  SondeExportSource *source;
  const SondeExportFrames *frames;
  SondeExportOutput *output;
  GPtrArray *labels; /* by group; owned */
} Document;

static gboolean
is_group (const Document *self, guint32 id)
{
  return id >= sonde_export_frames_n_wholes (self->frames);
}

/* @id: of a whole function, or of a group */
static void
append_call_frame (const Document *self, guint32 id)
{
  GString *out = self->output->text;
  const SondeFunction *function = NULL;

  g_string_append (out, "\"callFrame\":{\"functionName\":");
  if (is_group (self, id))
    sonde_json_append_escaped (
        out, g_ptr_array_index (self->labels, id - sonde_export_frames_n_wholes (self->frames)));
  else
    {
      function = sonde_export_source_function (self->source,
                                               sonde_export_frames_whole (self->frames, id));
      sonde_json_append_escaped (out, function->name);
    }
  g_string_append (out, ",\"scriptId\":\"0\",\"url\":");
  sonde_json_append_escaped (out, function == NULL            ? ""
                                  : function->file[0] != '\0' ? function->file
                                                              : function->module);
  /* counted from 0; -1: unknown */
  g_string_append_printf (out, ",\"lineNumber\":%d,\"columnNumber\":-1}",
                          function != NULL && function->begin > 0 ? (int) function->begin - 1 : -1);
}

static void
append_special_frame (GString *out, const char *name)
{
  g_string_append_printf (out,
                          "\"callFrame\":{\"functionName\":\"%s\",\"scriptId\":\"0\",\"url\":\"\","
                          "\"lineNumber\":-1,\"columnNumber\":-1}",
                          name);
}

/* The first node below the root; that of the only group is left out. */
static guint32
find_top (const SondeCallTree *tree, guint n_groups)
{
  return n_groups == 1 ? sonde_call_tree_node (tree, 0)->first_child : 0;
}

/* --- time --- */

typedef struct
{
  gint64 time_ns;
  guint32 node;
  guint32 thread;
} Sample;

/* Samples at a line of the node's function. */
typedef struct
{
  guint32 next; /* of the same node, + 1; 0: none */
  guint32 line;
  guint64 n;
} Ticks;

typedef struct
{
  Document document;
  SondeGrouping *grouping;
  SondeBudget *budget;
  SondeCallTree *tree; /* ids of whole functions and groups */
  GArray *samples;     /* Sample */
  GArray *path;        /* guint32 */
  SondeIdMap *threads; /* process << 32 | tid → number */
  GArray *groups;      /* guint32: of each thread */
  SondeIdMap *by_line; /* node << 32 | line → ticks */
  GArray *ticks;       /* Ticks */
  GArray *first_ticks; /* guint32: by node: ticks + 1 */
} TimeProfile;

static guint32
ensure_thread (TimeProfile *self, const SondeExportStack *stack)
{
  guint64 key = (guint64) stack->process << 32 | (guint32) stack->tid;
  const SondeModelProcess *process
      = sonde_capture_model_process (self->document.source->model, stack->process);
  guint32 number = self->groups->len;
  guint32 group;

  if (sonde_id_map_lookup (self->threads, key, &number))
    return number;
  sonde_id_map_add (self->threads, key, number);
  group = sonde_grouping_find (self->grouping, process, stack->tid);
  g_array_append_val (self->groups, group);
  return number;
}

static void
count_line (TimeProfile *self, guint32 node, guint32 line)
{
  guint64 key = (guint64) node << 32 | line;
  guint32 index;
  guint32 *first;

  if (line == 0)
    return;
  if (!sonde_id_map_lookup (self->by_line, key, &index))
    {
      if (self->first_ticks->len <= node)
        g_array_set_size (self->first_ticks, node + 1);
      first = &g_array_index (self->first_ticks, guint32, node);
      index = self->ticks->len;
      g_array_append_vals (self->ticks, &(Ticks){ *first, line, 0 }, 1);
      *first = index + 1;
      sonde_id_map_add (self->by_line, key, index);
    }
  g_array_index (self->ticks, Ticks, index).n++;
}

static void
take_sample (const SondeExportStack *stack, gpointer user_data)
{
  TimeProfile *self = user_data;
  const SondeExportFrames *frames = self->document.frames;
  Sample sample = { .time_ns = stack->time_ns, .thread = ensure_thread (self, stack) };
  guint32 id = sonde_export_frames_n_wholes (frames)
               + g_array_index (self->groups, guint32, sample.thread);

  g_array_set_size (self->path, 0);
  g_array_append_val (self->path, id);
  for (gsize i = 0; i < stack->n_frames; i++)
    {
      id = sonde_export_frames_frame (frames, stack->functions[i])->whole;
      g_array_append_val (self->path, id);
    }
  sample.node = sonde_call_tree_add (self->tree, (const guint32 *) (void *) self->path->data,
                                     self->path->len, 1);
  if (stack->n_frames > 0)
    count_line (
        self, sample.node,
        sonde_export_source_function (self->document.source, stack->functions[stack->n_frames - 1])
            ->line);
  if (sonde_budget_take (self->budget, SONDE_LIMIT_SAMPLES, 1))
    g_array_append_val (self->samples, sample);
}

static int
compare_samples (gconstpointer a, gconstpointer b)
{
  const Sample *left = a;
  const Sample *right = b;

  return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

static int
compare_threads (gconstpointer a, gconstpointer b)
{
  const Sample *left = a;
  const Sample *right = b;

  return left->thread != right->thread ? (left->thread > right->thread ? 1 : -1)
                                       : compare_samples (a, b);
}

/* Ids are nodes + 1; (program), of samples without a stack, and (idle) come behind. */
static void
write_nodes (TimeProfile *self)
{
  Document *document = &self->document;
  GString *out = document->output->text;
  guint32 n_nodes = sonde_call_tree_n_nodes (self->tree);
  guint32 top = find_top (self->tree, document->labels->len);

  g_string_append (out, "{\"nodes\":[");
  for (guint32 i = 0; i < n_nodes; i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (self->tree, i);
      guint32 child = node->first_child;
      guint32 tick = i < self->first_ticks->len ? g_array_index (self->first_ticks, guint32, i) : 0;

      if (i == top && i > 0)
        continue;
      g_string_append_printf (out, "%s{\"id\":%u,", i > 0 ? ",\n" : "\n", i + 1);
      if (i == 0)
        append_special_frame (out, "(root)");
      else
        append_call_frame (document, node->id);
      g_string_append_printf (out, ",\"hitCount\":%" G_GUINT64_FORMAT ",\"children\":[",
                              i == 0 ? 0 : node->self);
      if (i == 0)
        {
          g_string_append_printf (out, "%u,%u", n_nodes + 1, n_nodes + 2);
          if (top > 0)
            child = sonde_call_tree_node (self->tree, top)->first_child;
        }
      for (gboolean is_first = i > 0; child != 0; is_first = FALSE)
        {
          g_string_append_printf (out, is_first ? "%u" : ",%u", child + 1);
          child = sonde_call_tree_node (self->tree, child)->next_sibling;
        }
      g_string_append (out, "],\"positionTicks\":[");
      for (gboolean is_first = TRUE; tick != 0; is_first = FALSE)
        {
          const Ticks *ticks = &g_array_index (self->ticks, Ticks, tick - 1);

          g_string_append_printf (out, "%s{\"line\":%u,\"ticks\":%" G_GUINT64_FORMAT "}",
                                  is_first ? "" : ",", ticks->line, ticks->n);
          tick = ticks->next;
        }
      g_string_append (out, "]}");
      sonde_export_output_pass (document->output);
    }
  g_string_append_printf (out, ",\n{\"id\":%u,", n_nodes + 1);
  append_special_frame (out, "(program)");
  g_string_append_printf (out,
                          ",\"hitCount\":%" G_GUINT64_FORMAT
                          ",\"children\":[],\"positionTicks\":[]},\n{\"id\":%u,",
                          sonde_call_tree_node (self->tree, 0)->self
                              + (top > 0 ? sonde_call_tree_node (self->tree, top)->self : 0),
                          n_nodes + 2);
  append_special_frame (out, "(idle)");
  g_string_append (out, ",\"hitCount\":0,\"children\":[],\"positionTicks\":[]}]");
}

/* A moment of the time line: from there on @id runs. */
typedef struct
{
  guint32 id;
  gint64 time_us;
} Moment;

/* One thread has its own times, and is idle where no sample is for more than two intervals. Those
 * of several threads would hide each other: one follows the other, for as long as it ran. */
static GArray *
dup_moments (const TimeProfile *self, gint64 *end_us)
{
  gint64 interval_us = MAX (sonde_export_source_interval_ns (self->document.source) / NS_PER_US, 1);
  GArray *moments = g_array_new (FALSE, FALSE, sizeof (Moment));
  guint32 n_nodes = sonde_call_tree_n_nodes (self->tree);
  guint32 top = find_top (self->tree, self->document.labels->len);
  gint64 start_us = self->document.source->start_ns / NS_PER_US;
  gint64 now_us = start_us;

  for (guint i = 0; i < self->samples->len; i++)
    {
      const Sample *sample = &g_array_index (self->samples, Sample, i);
      gint64 at_us = sample->time_ns / NS_PER_US;
      Moment idle = { n_nodes + 2, now_us };
      Moment moment
          = { sample->node == 0 || sample->node == top ? n_nodes + 1 : sample->node + 1, now_us };

      if (self->groups->len == 1)
        {
          if (i > 0 && (at_us < now_us - interval_us || at_us > now_us + interval_us))
            g_array_append_val (moments, idle);
          moment.time_us = i > 0 ? MAX (at_us, now_us - interval_us) : at_us;
        }
      g_array_append_val (moments, moment);
      if (__builtin_add_overflow (moment.time_us, interval_us, &now_us))
        now_us = G_MAXINT64;
    }
  *end_us = now_us;
  return moments;
}

static void
write_moments (TimeProfile *self)
{
  SondeExportOutput *output = self->document.output;
  gint64 end_us;
  g_autoptr (GArray) moments = NULL;
  gint64 before_us;

  g_array_sort (self->samples, self->groups->len == 1 ? compare_samples : compare_threads);
  moments = dup_moments (self, &end_us);
  before_us = moments->len > 0 ? g_array_index (moments, Moment, 0).time_us : end_us;
  g_string_append_printf (output->text,
                          ",\n\"startTime\":%" G_GINT64_FORMAT ",\"endTime\":%" G_GINT64_FORMAT
                          ",\n\"samples\":[",
                          before_us, end_us);
  for (guint i = 0; i < moments->len; i++)
    sonde_export_output_printf (output, i > 0 ? ",%u" : "%u",
                                g_array_index (moments, Moment, i).id);
  g_string_append (output->text, "],\n\"timeDeltas\":[");
  for (guint i = 0; i < moments->len; i++)
    {
      gint64 time_us = g_array_index (moments, Moment, i).time_us;
      gint64 delta_us;

      if (__builtin_sub_overflow (time_us, before_us, &delta_us))
        delta_us = G_MAXINT64;
      sonde_export_output_printf (output, i > 0 ? ",%" G_GINT64_FORMAT : "%" G_GINT64_FORMAT,
                                  delta_us);
      before_us = time_us;
    }
  g_string_append (output->text, "]}\n");
}

static SondeExportFrames *
make_frames (const SondeExportSource *source)
{
  return source->frames == NULL ? sonde_export_frames_new_of_functions (source->resolver) : NULL;
}

gboolean
sonde_export_cpuprofile (SondeExportSource *source,
                         SondeUnit unit,
                         SondeExportOutput *output,
                         GError **error)
{
  static const SondeExportFuncs funcs = { .sample = take_sample };
  g_autoptr (SondeExportFrames) of_functions = make_frames (source);
  g_autoptr (SondeGrouping) grouping = sonde_grouping_new (source->options.by, source->model);
  SondeBudget *budget = sonde_capture_model_budget (source->model);
  g_autoptr (SondeCallTree) tree = sonde_call_tree_new (budget);
  g_autoptr (GPtrArray) labels = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (Sample));
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (GArray) groups = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr (SondeIdMap) threads = sonde_id_map_new ();
  g_autoptr (SondeIdMap) by_line = sonde_id_map_new ();
  g_autoptr (GArray) ticks = g_array_new (FALSE, FALSE, sizeof (Ticks));
  g_autoptr (GArray) first_ticks = g_array_new (FALSE, TRUE, sizeof (guint32));
  TimeProfile profile
      = { .document
          = { source, source->frames != NULL ? source->frames : of_functions, output, labels },
          .grouping = grouping,
          .budget = budget,
          .tree = tree,
          .samples = samples,
          .path = path,
          .threads = threads,
          .groups = groups,
          .by_line = by_line,
          .ticks = ticks,
          .first_ticks = first_ticks };

  if (!sonde_export_source_run (source, &funcs, &profile, error))
    return FALSE;
  for (guint i = 0; i < groups->len; i++)
    {
      guint32 group = g_array_index (groups, guint32, i);

      if (group == labels->len)
        g_ptr_array_add (labels, g_strdup (sonde_grouping_name (grouping, group)));
    }
  write_nodes (&profile);
  write_moments (&profile);
  return TRUE;
}

/* --- a heap --- */

/* The nodes below @node, deep ones too, without recursion. */
static void
write_heads (const Document *self, const SondeCallTree *tree)
{
  SondeExportOutput *output = self->output;
  guint32 top = find_top (tree, self->labels->len);
  guint32 node = top > 0 ? sonde_call_tree_node (tree, top)->first_child
                         : sonde_call_tree_node (tree, 0)->first_child;

  g_string_append (output->text, "{\"head\":{");
  append_special_frame (output->text, "(root)");
  g_string_append_printf (output->text,
                          ",\"selfSize\":%" G_GUINT64_FORMAT ",\"id\":1,\"children\":[",
                          sonde_call_tree_node (tree, 0)->self
                              + (top > 0 ? sonde_call_tree_node (tree, top)->self : 0));
  while (node != 0)
    {
      const SondeCallNode *at = sonde_call_tree_node (tree, node);

      g_string_append (output->text, "\n{");
      append_call_frame (self, at->id);
      sonde_export_output_printf (output,
                                  ",\"selfSize\":%" G_GUINT64_FORMAT ",\"id\":%u,\"children\":[",
                                  at->self, node + 1);
      if (at->first_child != 0)
        {
          node = at->first_child;
          continue;
        }
      for (;;)
        {
          g_string_append (output->text, "]}");
          if (at->next_sibling != 0)
            {
              g_string_append_c (output->text, ',');
              node = at->next_sibling;
              break;
            }
          node = at->parent;
          if (node == 0 || node == top)
            {
              node = 0;
              break;
            }
          at = sonde_call_tree_node (tree, node);
        }
    }
  g_string_append (output->text, "]},\n\"samples\":[");
}

gboolean
sonde_export_heapprofile (SondeExportSource *source,
                          SondeUnit unit,
                          SondeExportOutput *output,
                          GError **error)
{
  g_autoptr (SondeExportFrames) frames = make_frames (source);
  guint32 n_wholes = sonde_export_frames_n_wholes (frames);
  guint32 n_functions = sonde_export_frames_n_frames (frames);
  g_autofree guint32 *wholes = g_new (guint32, n_functions);
  g_autoptr (SondeProfile) profile
      = sonde_heap_dup_profile (source->heap, SONDE_HEAP_PEAK, SONDE_UNIT_BYTES);
  g_autoptr (GPtrArray) labels = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (SondeCallTree) all = sonde_call_tree_new (NULL);
  Document document = { source, frames, output, labels };
  guint n_samples = 0;

  for (guint32 i = 0; i < n_functions; i++)
    wholes[i] = sonde_export_frames_frame (frames, i)->whole;
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);
      guint32 group = n_wholes + i;
      g_autoptr (SondeCallTree) tree = sonde_call_tree_remap (process->tree, wholes);

      g_ptr_array_add (labels, sonde_profile_process_dup_label (process));
      sonde_call_tree_add_below (all, sonde_call_tree_ensure_child (all, 0, group), tree);
    }
  write_heads (&document, all);
  for (guint32 i = 0; i < sonde_call_tree_n_nodes (all); i++)
    {
      const SondeCallNode *node = sonde_call_tree_node (all, i);
      gboolean is_top = i == find_top (all, labels->len);

      if (node->self > 0)
        sonde_export_output_printf (
            output, "%s\n{\"size\":%" G_GUINT64_FORMAT ",\"nodeId\":%u,\"ordinal\":%u}",
            n_samples > 0 ? "," : "", node->self, is_top ? 1 : i + 1, n_samples + 1);
      n_samples += node->self > 0;
    }
  g_string_append (output->text, "]}\n");
  return TRUE;
}
