/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/flame/flame-svg.h"

#include <stdlib.h>
#include <string.h>

#include "client/base/text.h"

/* All in pixels. */
#define WIDTH        1200.0
#define MARGIN       10.0
#define ROW_HEIGHT   17.0
#define HEAD_HEIGHT  44.0
#define FOOT_HEIGHT  26.0
#define MIN_WIDTH    3.0 /* narrower ones say nothing, and make towers: they are summed up */
#define LETTER_WIDTH 6.6 /* of the font on average */

#define MAX_NODES    (1u << 17) /* more are no picture, but hundreds of megabytes */
#define N_SHADES     3
#define N_HUES       8
#define N_STEPS      7 /* of difference, the first being none */

/* The light colours of the page (colors.js), as sRGB. */
static const char *const module_fills[N_HUES][N_SHADES] = {
  { "#a4c6f2", "#adcffb", "#b6d8ff" }, { "#97d2b8", "#a0dcc1", "#a9e5ca" },
  { "#cab9ec", "#d3c2f5", "#dccbfe" }, { "#d9c08e", "#e2c996", "#ebd29f" },
  { "#8ad1d9", "#93dae2", "#9ce4ec" }, { "#e6b1ce", "#efbad7", "#f9c3e0" },
  { "#b8cc99", "#c1d5a2", "#cadeaa" }, { "#eeb3a4", "#f7bcad", "#ffc5b6" },
};
static const char *const kernel_fills[N_SHADES] = { "#e9b797", "#f2c0a0", "#fbc9a8" };
static const char *const more_fills[N_STEPS]
    = { "#eae7e6", "#ecd5d2", "#edc4be", "#ecb2aa", "#eba096", "#e98e82", "#e67b6e" };
static const char *const less_fills[N_STEPS]
    = { "#e6e8ea", "#d0dded", "#bad1ee", "#a5c5ef", "#8fb9f0", "#78adf1", "#61a1f0" };
#define GREY_FILL  "#d9dee5"
#define LIGHT_FILL "#eceff3"
#define OTHER_FILL "#ccd3dc"

typedef struct
{
  char *module;
  guint64 self;
} ModuleWeight;

typedef struct
{
  GString *out;
  const SondeFlameGraph *graph;
  SondeFlameUnit unit;
  GHashTable *hues; /* module → its index in module_fills + 1 */
  gboolean is_compared;
  double height;
} Picture;

static void
module_weight_free (gpointer data)
{
  ModuleWeight *weight = data;

  g_free (weight->module);
  g_free (weight);
}

static int
compare_module_weights (gconstpointer a, gconstpointer b)
{
  const ModuleWeight *left = *(const ModuleWeight *const *) a;
  const ModuleWeight *right = *(const ModuleWeight *const *) b;

  if (left->self != right->self)
    return left->self > right->self ? -1 : 1;
  return strcmp (left->module, right->module);
}

/* The heaviest modules have a hue each. */
static GHashTable *
dup_hues (const SondeFlameGraph *graph)
{
  g_autoptr (GHashTable) weights = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GPtrArray) ranked = g_ptr_array_new_with_free_func (module_weight_free);
  GHashTable *hues = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);

  for (guint32 i = 0; i < graph->nodes->len; i++)
    {
      const SondeFlameNode *node = sonde_flame_graph_node (graph, i);
      const SondeFlameFunction *function = sonde_flame_graph_function (graph, node->function);
      ModuleWeight *weight = g_hash_table_lookup (weights, function->module);

      if (function->kind != SONDE_FLAME_USER)
        continue;
      if (weight == NULL)
        {
          weight = g_new0 (ModuleWeight, 1);
          weight->module = g_strdup (function->module);
          g_hash_table_insert (weights, weight->module, weight);
          g_ptr_array_add (ranked, weight);
        }
      weight->self += node->self[0];
    }
  g_ptr_array_sort (ranked, compare_module_weights);
  for (guint i = 0; i < MIN (ranked->len, N_HUES); i++)
    {
      const ModuleWeight *weight = g_ptr_array_index (ranked, i);

      g_hash_table_insert (hues, g_strdup (weight->module), GUINT_TO_POINTER (i + 1));
    }
  return hues;
}

static double
share (const Picture *self, const SondeFlameNode *node, guint which)
{
  guint64 whole = self->graph->total[which];

  return whole > 0 ? (double) node->total[which] / (double) whole : 0;
}

static const char *
choose_fill (const Picture *self, const SondeFlameNode *node)
{
  const SondeFlameFunction *function = sonde_flame_graph_function (self->graph, node->function);
  guint shade = g_str_hash (function->name) % N_SHADES;
  guint hue;

  if (self->is_compared)
    {
      double now = share (self, node, 0);
      double before = share (self, node, 1);
      double change = (now - before) / MAX (MAX (now, before), 1e-12);
      guint step = (guint) (ABS (change) * (N_STEPS - 1) + 0.5);

      return change > 0 ? more_fills[step] : less_fills[step];
    }
  if (function->kind == SONDE_FLAME_PROCESS || function->kind == SONDE_FLAME_INCOMPLETE)
    return GREY_FILL;
  if (function->kind == SONDE_FLAME_LIGHT)
    return LIGHT_FILL;
  if (function->kind == SONDE_FLAME_KERNEL)
    return kernel_fills[shade];
  hue = GPOINTER_TO_UINT (g_hash_table_lookup (self->hues, function->module));
  return hue > 0 ? module_fills[hue - 1][shade] : OTHER_FILL;
}

/* As much of @name as fits, or NULL. */
static char *
dup_shortened (const char *name, double width)
{
  glong room = (glong) (width / LETTER_WIDTH);
  g_autofree char *start = NULL;

  if (g_utf8_strlen (name, -1) <= room)
    return g_strdup (name);
  if (room < 4)
    return NULL;
  start = g_utf8_substring (name, 0, room - 1);
  return g_strconcat (start, "…", NULL);
}

/* Callees of one frame that are too narrow, as one. */
typedef struct
{
  guint n;
  guint64 total;
} More;

typedef struct
{
  double left; /* where the next box of that depth begins */
  More more;   /* of those seen since the frame above it began */
} Level;

typedef void (*BoxFunc) (
    Picture *self, const SondeFlameNode *node, const More *more, double x, double width);

static void
append_node (Picture *self, const SondeFlameNode *node, const More *more, double x, double width)
{
  g_autofree char *more_name
      = more != NULL ? g_strdup_printf ("[%u more, %.1f%%]", more->n, 100 * share (self, node, 0))
                     : NULL;
  const SondeFlameFunction light
      = { more_name, more_name, (char *) "", (char *) "", SONDE_FLAME_LIGHT };
  const SondeFlameFunction *function
      = more != NULL ? &light : sonde_flame_graph_function (self->graph, node->function);
  double y = self->height - FOOT_HEIGHT - (node->depth + 1) * ROW_HEIGHT;
  g_autofree char *label = dup_shortened (function->shown, width - 6);
  g_autofree char *name = NULL;
  g_autofree char *module = NULL;
  g_autofree char *samples = NULL;

  g_string_append (self->out, "<g>");
  name = g_markup_escape_text (function->name, -1);
  module = g_markup_escape_text (function->module, -1);
  samples = sonde_flame_unit_dup_text (self->unit, node->total[0]);
  g_string_append_printf (self->out, "<title>%s%s%s%s, %s, %.2f%%", name,
                          *module != '\0' ? " (" : "", module, *module != '\0' ? ")" : "", samples,
                          100 * share (self, node, 0));
  if (self->is_compared && more == NULL)
    g_string_append_printf (self->out, ", before %.2f%%", 100 * share (self, node, 1));
  g_string_append (self->out, "</title>");
  g_string_append_printf (
      self->out, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\"/>", x, y,
      MAX (width - (width > 2 ? 0.5 : 0), 0.3), ROW_HEIGHT - 1,
      more != NULL ? LIGHT_FILL : choose_fill (self, node));
  if (label != NULL)
    {
      g_autofree char *escaped = g_markup_escape_text (label, -1);

      g_string_append_printf (self->out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", x + 3,
                              y + ROW_HEIGHT - 5, escaped);
    }
  g_string_append (self->out, "</g>\n");
}

static void
end_level (Picture *self, GArray *levels, guint32 depth, double per_sample, BoxFunc func)
{
  Level *level = &g_array_index (levels, Level, depth);
  const SondeFlameNode node = { .depth = depth, .total = { level->more.total } };

  if (level->more.total > 0)
    func (self, &node, &level->more, level->left, (double) level->more.total * per_sample);
  level->more = (More){ 0 };
}

/* Calls @func for each node that is wide enough, and for the others of each frame together. Nodes
 * stand depth first; below one that is too narrow all are. */
static void
foreach_node (Picture *self, BoxFunc func)
{
  double per_sample = (WIDTH - 2 * MARGIN) / (double) self->graph->total[0];
  g_autoptr (GArray) levels = g_array_new (FALSE, TRUE, sizeof (Level));
  guint32 hidden_depth = G_MAXUINT32;
  guint32 n_open = 1; /* levels that are not ended */

  g_array_set_size (levels, 1);
  g_array_index (levels, Level, 0).left = MARGIN;
  for (guint32 i = 0; i < self->graph->nodes->len; i++)
    {
      const SondeFlameNode *node = sonde_flame_graph_node (self->graph, i);
      double width = (double) node->total[0] * per_sample;
      Level *level;
      double x;

      if (node->depth > hidden_depth)
        continue;
      for (; n_open > node->depth + 1; n_open--)
        end_level (self, levels, n_open - 1, per_sample, func);
      hidden_depth = width < MIN_WIDTH ? node->depth : G_MAXUINT32;
      level = &g_array_index (levels, Level, node->depth);
      if (width < MIN_WIDTH)
        {
          level->more.n++;
          level->more.total += node->total[0];
          continue;
        }
      x = level->left;
      level->left += width;
      if (levels->len <= node->depth + 1)
        g_array_set_size (levels, node->depth + 2);
      g_array_index (levels, Level, node->depth + 1) = (Level){ .left = x };
      n_open = node->depth + 2;
      func (self, node, NULL, x, width);
    }
  for (; n_open > 0; n_open--)
    end_level (self, levels, n_open - 1, per_sample, func);
}

static void
make_room (Picture *self, const SondeFlameNode *node, const More *more, double x, double width)
{
  double height = HEAD_HEIGHT + FOOT_HEIGHT + (node->depth + 1) * ROW_HEIGHT;

  self->height = MAX (self->height, height);
}

/* The meaning of the colours, in a line below. */
static void
append_legend (Picture *self)
{
  double x = MARGIN;
  double y = self->height - 10;
  GHashTableIter modules;
  gpointer module, hue;
  const char *names[N_HUES] = { NULL };

  if (self->is_compared)
    {
      g_string_append_printf (
          self->out,
          "<text x=\"%.0f\" y=\"%.0f\" fill=\"#5b6675\">red takes more than before, "
          "blue less</text>\n",
          x, y);
      return;
    }
  g_hash_table_iter_init (&modules, self->hues);
  while (g_hash_table_iter_next (&modules, &module, &hue))
    names[GPOINTER_TO_UINT (hue) - 1] = module;
  for (guint i = 0; i < N_HUES && names[i] != NULL; i++)
    {
      const char *name = *names[i] != '\0' ? names[i] : "no module";
      g_autofree char *escaped = g_markup_escape_text (name, -1);

      g_string_append_printf (
          self->out,
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" rx=\"2\" fill=\"%s\"/>"
          "<text x=\"%.1f\" y=\"%.0f\" fill=\"#5b6675\">%s</text>\n",
          x, y - 8.5, module_fills[i][1], x + 13, y, escaped);
      x += 30 + (double) g_utf8_strlen (name, -1) * LETTER_WIDTH;
    }
}

GString *
sonde_flame_svg_new (const SondeFlameSource *source)
{
  g_autoptr (SondeFlameGraph) graph = sonde_flame_graph_new (source, MAX_NODES);
  g_autoptr (GHashTable) hues = dup_hues (graph);
  Picture self = { .out = g_string_new (NULL),
                   .graph = graph,
                   .hues = hues,
                   .unit = source->unit,
                   .is_compared = source->other != NULL };
  g_autofree char *escaped = g_markup_escape_text (source->title, -1);
  g_autofree char *samples = sonde_flame_unit_dup_text (source->unit, graph->total[0]);

  foreach_node (&self, make_room);
  g_string_append_printf (
      self.out,
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
      "font-family=\"system-ui, 'Noto Sans', 'DejaVu Sans', sans-serif\" font-size=\"11\" "
      "fill=\"#18202b\">\n"
      "<title>Flame graph of %s</title>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
      "<text x=\"%.0f\" y=\"24\" font-size=\"15\" font-weight=\"600\">%s</text>\n"
      "<text x=\"%.0f\" y=\"24\" text-anchor=\"end\" fill=\"#5b6675\">%s</text>\n",
      WIDTH, self.height, WIDTH, self.height, escaped, MARGIN, escaped, WIDTH - MARGIN, samples);
  foreach_node (&self, append_node);
  append_legend (&self);
  g_string_append (self.out, "</svg>\n");
  return self.out;
}
