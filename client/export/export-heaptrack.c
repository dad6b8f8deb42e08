/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* heaptrack's log of blocks, of its file format 3: "+" and "-" name pairs of stack and size, which
 * stand before them, as do strings, instructions with what is inlined there, and stacks as nodes of
 * a tree. Each kind of line is numbered from 1, pairs from 0; numbers are hexadecimal.
 * Source: src/track/libheaptrack.cpp, src/interpret/heaptrack_interpret.cpp and
 * src/analyze/accumulatedtracedata.cpp of heaptrack 1.4 */
#include "client/export/export.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/table.h"
#include "client/base/text.h"

#define NS_PER_MS 1000000
#define TICK_MS   10         /* as often heaptrack writes the time */
#define MAX_PAIRS (1u << 18) /* that are remembered: 8 MiB */

/* A stack and a size. */
typedef struct
{
  guint64 bytes; /* above 0 */
  guint32 stack; /* of the heap */
  guint32 number;
} Pair;

typedef struct
{
  const SondeExportSource *source;
  SondeExportOutput *output;
  gboolean names_processes; /* stacks begin with their process: there are several */
  GHashTable *strings;      /* text, one of @texts → number */
  GStringChunk *texts;
  guint32 *instructions; /* by location: number; 0: not told yet, as of nodes */
  guint32 n_instructions;
  guint32 *nodes; /* by node of the heap's paths: number */
  guint32 n_nodes;
  GArray *untold;   /* guint32: nodes of a path, leaf first */
  GString *line;    /* at hand, while strings for it are told */
  SondeTable pairs; /* of Pair */
  guint32 n_pairs;
  gint64 told_ms; /* since the start */
  gint64 newest_ms;
} HeaptrackWriter;

static guint64
hash_pair (const void *slot, guint64 seed)
{
  const Pair *self = slot;

  return sonde_hash (sonde_hash (seed, self->bytes), self->stack);
}

static bool
is_same_pair (const void *slot, guint64 hash, const void *key)
{
  const Pair *self = slot;
  const Pair *other = key;

  return self->bytes == other->bytes && self->stack == other->stack;
}

static const SondeTableKind pairs = { .slot_bytes = sizeof (Pair),
                                      .used_at = offsetof (Pair, bytes),
                                      .n_first_slots = 1024,
                                      .max_eighths = 4,
                                      .allocate = g_malloc0_n,
                                      .hash = hash_pair,
                                      .has_key = is_same_pair };

/* --- what events refer to --- */

/* 0: no text. @text has no line break. */
static guint32
number_string (HeaptrackWriter *self, const char *text)
{
  gpointer number = g_hash_table_lookup (self->strings, text);

  if (number == NULL && *text != '\0')
    {
      number = GUINT_TO_POINTER (g_hash_table_size (self->strings) + 1);
      g_hash_table_insert (self->strings, g_string_chunk_insert (self->texts, text), number);
      sonde_export_output_printf (self->output, "s %zx %s\n", strlen (text), text);
    }
  return GPOINTER_TO_UINT (number);
}

/* "adler32.c:82" is a file and a line. */
static void
append_function (HeaptrackWriter *self, const SondeFunction *function)
{
  const char *colon = strrchr (function->source, ':');
  guint64 line = colon != NULL ? g_ascii_strtoull (colon + 1, NULL, 10) : 0;
  g_autofree char *file = g_strndup (function->source, line > 0 ? (gsize) (colon - function->source)
                                                                : strlen (function->source));

  g_string_append_printf (self->line, " %x %x %x", number_string (self, function->name),
                          number_string (self, file), (guint32) MIN (line, G_MAXINT32));
}

/* Innermost first: what is inlined stands before the function that it is in. */
static guint32
number_instruction (HeaptrackWriter *self, guint32 location)
{
  const SondeExportSource *source = self->source;
  guint32 n;
  const guint32 *functions = sonde_symbol_resolver_get (source->resolver, location, &n);
  const char *module = sonde_export_source_function (source, functions[n - 1])->module;

  if (self->instructions[location] != 0)
    return self->instructions[location];
  g_string_printf (self->line, "i %" G_GINT64_MODIFIER "x %x",
                   sonde_capture_model_location (source->model, location)->address,
                   number_string (self, module));
  for (; n > 0; n--)
    append_function (self, sonde_export_source_function (source, functions[n - 1]));
  sonde_export_output_printf (self->output, "%s\n", self->line->str);
  return self->instructions[location] = ++self->n_instructions;
}

static guint32
number_process (HeaptrackWriter *self, guint number)
{
  const SondeModelProcess *process = sonde_capture_model_process (self->source->model, number);
  g_autofree char *comm = sonde_text_escape (process->comm, -1);
  g_autofree char *name = g_strdup_printf ("%s-%d", comm, process->pid);

  sonde_export_output_printf (self->output, "i 0 0 %x 0 0\n", number_string (self, name));
  return ++self->n_instructions;
}

/* The number of a node of the heap's paths, and of those above it. 0 if nothing stands there. */
static guint32
number_node (HeaptrackWriter *self, guint32 node)
{
  const SondeCallTree *paths = self->source->heap->paths;
  guint32 caller;

  g_array_set_size (self->untold, 0);
  for (; node != 0 && self->nodes[node] == 0; node = sonde_call_tree_node (paths, node)->parent)
    g_array_append_val (self->untold, node);
  caller = self->nodes[node];
  for (guint i = self->untold->len; i > 0; i--)
    {
      guint32 untold = g_array_index (self->untold, guint32, i - 1);
      const SondeCallNode *at = sonde_call_tree_node (paths, untold);
      guint32 instruction;

      if (at->parent == 0 && !self->names_processes)
        continue;
      instruction
          = at->parent == 0 ? number_process (self, at->id) : number_instruction (self, at->id);
      sonde_export_output_printf (self->output, "t %x %x\n", instruction, caller);
      caller = self->nodes[untold] = ++self->n_nodes;
    }
  return caller;
}

/* heaptrack takes 0 for none where it remembers the newest block, so that pair has no blocks. Too
 * many are forgotten, and told again under other numbers. */
static guint32
number_pair (HeaptrackWriter *self, guint32 stack, guint64 bytes)
{
  Pair pair = { .bytes = bytes, .stack = stack };
  const Pair *known
      = sonde_table_find (&pairs, &self->pairs, hash_pair (&pair, self->pairs.seed), &pair);
  guint32 node;

  if (known != NULL)
    return known->number;
  node = number_node (self, g_array_index (self->source->heap->ends, guint32, stack));
  if (self->n_pairs == 0)
    {
      sonde_export_output_printf (self->output, "a 0 %x\n", node);
      self->n_pairs++;
    }
  sonde_export_output_printf (self->output, "a %" G_GINT64_MODIFIER "x %x\n", bytes, node);
  pair.number = self->n_pairs++;
  if (self->pairs.n_used >= MAX_PAIRS)
    sonde_table_clear (&self->pairs);
  sonde_table_add (&pairs, &self->pairs, &pair);
  return pair.number;
}

/* --- events --- */

static void
write_time (HeaptrackWriter *self)
{
  if (self->newest_ms == self->told_ms)
    return;
  sonde_export_output_printf (self->output, "c %" G_GINT64_MODIFIER "x\n", self->newest_ms);
  self->told_ms = self->newest_ms;
}

static void
write_block (SondeHeapBlockTurn turn,
             guint32 stack,
             const SondeHeapAmount *amount,
             gint64 time_ns,
             gpointer user_data)
{
  HeaptrackWriter *self = user_data;
  guint32 pair;

  if (stack >= self->source->heap->ends->len) /* the file is another one by now */
    return;
  pair = number_pair (self, stack, MAX (sonde_heap_round (amount->bytes), 1));
  self->newest_ms
      = MAX (self->newest_ms, sonde_heap_since_start (self->source->heap, time_ns) / NS_PER_MS);
  if (self->newest_ms - self->told_ms >= TICK_MS)
    write_time (self);
  switch (turn)
    {
    case SONDE_HEAP_BLOCK_BEGUN:
      sonde_export_output_printf (self->output, "+ %x\n", pair);
      break;
    case SONDE_HEAP_BLOCK_FREED:
      sonde_export_output_printf (self->output, "- %x\n", pair);
      break;
    case SONDE_HEAP_BLOCK_UNSEEN:
      /* with something of no size in between, so that it does not count as temporary */
      sonde_export_output_printf (self->output, "+ %x\n- 0\n- %x\n", pair, pair);
      break;
    default:
      g_assert_not_reached ();
    }
}

/* The node of paths that is the process of the first stack that counts, and whether others have
 * another one; 0: there is none. A node stands behind the one above it. */
static guint32
find_process (HeaptrackWriter *self)
{
  const SondeHeap *heap = self->source->heap;
  guint32 n_nodes = sonde_call_tree_n_nodes (heap->paths);
  g_autofree guint32 *processes = g_new0 (guint32, n_nodes);
  guint32 found = 0;

  for (guint32 node = 1; node < n_nodes; node++)
    {
      guint32 parent = sonde_call_tree_node (heap->paths, node)->parent;

      processes[node] = parent == 0 ? node : processes[parent];
    }
  for (guint32 i = 0; i < heap->ends->len; i++)
    if (sonde_heap_tracker_amount (heap->tracker, i, SONDE_HEAP_ALLOCATED)->blocks > 0)
      {
        guint32 process = processes[g_array_index (heap->ends, guint32, i)];

        self->names_processes |= found != 0 && process != found;
        found = found != 0 ? found : process;
      }
  return found;
}

static void
write_head (HeaptrackWriter *self)
{
  const SondeHeap *heap = self->source->heap;
  const SondeModelProcess *process;
  g_autofree char *cmdline = NULL;
  guint32 node = find_process (self);

  sonde_export_output_printf (self->output, "v 10400 3\n");
  if (node == 0)
    return;
  process = sonde_capture_model_process (self->source->model,
                                         sonde_call_tree_node (heap->paths, node)->id);
  cmdline = sonde_text_escape (*process->cmdline != '\0' ? process->cmdline : process->comm, -1);
  sonde_export_output_printf (self->output, "X %s\n", cmdline);
  if (heap->interval_bytes > 0)
    sonde_export_output_printf (self->output,
                                "# sampled: a block has the bytes of all that it stands for, once "
                                "in %" G_GUINT64_FORMAT "\n",
                                heap->interval_bytes);
}

gboolean
sonde_export_heaptrack (SondeExportSource *source,
                        SondeUnit unit,
                        SondeExportOutput *output,
                        GError **error)
{
  g_autoptr (GHashTable) strings = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GArray) untold = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autofree guint32 *instructions
      = g_new0 (guint32, sonde_capture_model_n_locations (source->model));
  g_autofree guint32 *nodes = g_new0 (guint32, sonde_call_tree_n_nodes (source->heap->paths));
  HeaptrackWriter writer = { .source = source,
                             .output = output,
                             .strings = strings,
                             .texts = g_string_chunk_new (4096),
                             .instructions = instructions,
                             .nodes = nodes,
                             .untold = untold,
                             .line = g_string_new (NULL),
                             .pairs = { .seed = sonde_hash_seed () } };
  gboolean is_good;

  write_head (&writer);
  is_good = sonde_export_source_run_heap (source, write_block, &writer, error);
  write_time (&writer);
  g_string_chunk_free (writer.texts);
  g_string_free (writer.line, TRUE);
  sonde_table_clear (&writer.pairs);
  return is_good;
}
