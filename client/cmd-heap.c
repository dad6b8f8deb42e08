/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl heap: who allocated, held and leaked memory in a capture. */
#include "client/commands.h"

#include "client/capture-file.h"
#include "client/cli.h"
#include "client/heap-text.h"
#include "client/profile-text.h"
#include "client/text.h"

typedef struct
{
  gboolean peak;
  gboolean leaks;
  gboolean temporary;
  gboolean cross_thread;
  gboolean flat;
  double percent_limit;
  int max_depth;
  char *by;
  char *comm;
  SondeHeapOptions heap;
} HeapOptions;

static gboolean
parse_temporary (const char *name, const char *value, gpointer user_data, GError **error)
{
  HeapOptions *options = user_data;

  options->temporary = TRUE;
  if (value == NULL || sonde_text_parse_duration (value, &options->heap.temporary_ns))
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "%s takes a duration such as 10us or 1.5ms, not \"%s\"", name, value);
  return FALSE;
}

static gboolean
parse_words (int *argc, char ***argv, HeapOptions *options)
{
  const GOptionEntry entries[] = {
    { "peak", 0, 0, G_OPTION_ARG_NONE, &options->peak, "What was live when that was most", NULL },
    { "leaks", 0, 0, G_OPTION_ARG_NONE, &options->leaks, "What was never freed", NULL },
    { "temporary", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, (gpointer) parse_temporary,
      "What its thread freed before it allocated again; or what lived shorter than that",
      "DURATION" },
    { "cross-thread", 0, 0, G_OPTION_ARG_NONE, &options->cross_thread, "What another thread freed",
      NULL },
    { "by", 0, 0, G_OPTION_ARG_STRING, &options->by, "Weigh by bytes (the default) or count",
      "UNIT" },
    { "flat", 'f', 0, G_OPTION_ARG_NONE, &options->flat, "Functions by their own share", NULL },
    { "percent-limit", 'l', 0, G_OPTION_ARG_DOUBLE, &options->percent_limit,
      "Sum up what is lighter (0.5)", "PERCENT" },
    { "pid", 'p', 0, G_OPTION_ARG_INT64, &options->heap.filter.pid, "Only this process", "PID" },
    { "comm", 'c', 0, G_OPTION_ARG_STRING, &options->comm, "Only processes of this name", "NAME" },
    { "max-depth", 0, 0, G_OPTION_ARG_INT, &options->max_depth, "Show at most N frames (512)",
      "N" },
    G_OPTION_ENTRY_NULL
  };

  return sonde_cli_parse (
      argc, argv, "FILE",
      "Shows the sums of a capture's heap, and who allocated what. FILE may be -\n"
      "(standard input).",
      NULL, entries, FALSE, options);
}

static gboolean
check (int argc, const HeapOptions *options)
{
  if (argc != 2)
    sonde_cli_complain ("heap needs one FILE; see sondectl heap --help");
  else if (options->peak + options->leaks + options->temporary + options->cross_thread > 1)
    sonde_cli_complain ("--peak, --leaks, --temporary and --cross-thread exclude each other");
  else if (options->by != NULL && !g_str_equal (options->by, "bytes")
           && !g_str_equal (options->by, "count"))
    sonde_cli_complain ("--by is bytes or count");
  else if (options->percent_limit < 0 || options->percent_limit > 100)
    sonde_cli_complain ("--percent-limit goes from 0 to 100");
  else if (options->max_depth < 1 || options->max_depth > 1024)
    sonde_cli_complain ("--max-depth goes from 1 to 1024");
  else
    return TRUE;
  return FALSE;
}

/* What comes before a break in the capture is shown all the same. @is_whole: (out) */
static SondeHeap *
read_heap (const char *path, const SondeHeapOptions *options, gboolean *is_whole)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  const SondeFrame *frame;
  SondeHeap *heap;

  *is_whole = FALSE;
  if (file == NULL)
    {
      sonde_cli_complain ("%s", error->message);
      return NULL;
    }
  heap = sonde_heap_new (options, sonde_capture_file_header (file)->time_ns);
  while (sonde_capture_file_next (file, &frame, &error))
    sonde_heap_add_frame (heap, frame);
  sonde_heap_finish (heap);
  *is_whole = error == NULL;
  if (error != NULL)
    sonde_cli_complain ("%s; showing what came before", error->message);
  return heap;
}

static SondeHeapMetric
chosen_metric (const HeapOptions *options, const char **title)
{
  static const struct
  {
    SondeHeapMetric metric;
    const char *title;
  } all[] = { { SONDE_HEAP_ALLOCATED, "Allocated" },
              { SONDE_HEAP_PEAK, "Live at the peak" },
              { SONDE_HEAP_LEFT, "Never freed" },
              { SONDE_HEAP_TEMPORARY, "Temporary" },
              { SONDE_HEAP_CROSS_THREAD, "Freed by another thread" } };
  guint chosen = options->peak           ? 1
                 : options->leaks        ? 2
                 : options->temporary    ? 3
                 : options->cross_thread ? 4
                                         : 0;

  *title = all[chosen].title;
  return all[chosen].metric;
}

static void
append_profile (GString *out, const SondeHeap *heap, const HeapOptions *options)
{
  SondeProfileStyle style = {
    .percent_limit = options->percent_limit,
    .max_depth = (guint) options->max_depth,
    .utf8 = g_get_charset (NULL),
  };
  SondeUnit unit = g_strcmp0 (options->by, "count") == 0 ? SONDE_UNIT_BLOCKS : SONDE_UNIT_BYTES;
  const char *title;
  SondeHeapMetric metric = chosen_metric (options, &title);
  g_autoptr (SondeProfile) profile = sonde_heap_dup_profile (heap, metric, unit);

  if (sonde_profile_total (profile) == 0)
    {
      g_string_append_printf (out, "\n%s: nothing.\n", title);
      return;
    }
  g_string_append_printf (out, "\n%s", title);
  if (options->flat)
    sonde_profile_append_flat (out, profile, &style);
  else
    sonde_profile_append_tree (out, profile, &style);
}

static gboolean
print_heap (const SondeHeap *heap, const HeapOptions *options)
{
  g_autoptr (GString) out = g_string_new (NULL);

  if (sonde_capture_model_n_allocations (sonde_heap_model (heap)) == 0)
    {
      sonde_cli_complain ("the capture tells nothing of the heap: record --memory does");
      return FALSE;
    }
  if (options->temporary && options->heap.temporary_ns < 0 && sonde_heap_interval_bytes (heap) > 0)
    {
      sonde_cli_complain ("of a sampled capture only --temporary=DURATION can be told");
      return FALSE;
    }
  sonde_heap_append_header (out, heap, &options->heap);
  append_profile (out, heap, options);
  return sonde_cli_print (out);
}

int
sonde_cmd_heap (int argc, char **argv)
{
  HeapOptions options = { .percent_limit = SONDE_PROFILE_PERCENT_LIMIT,
                          .max_depth = SONDE_PROFILE_MAX_DEPTH,
                          .heap = SONDE_HEAP_OPTIONS_INIT };
  g_autoptr (SondeHeap) heap = NULL;
  g_autofree char *comm = NULL;
  g_autofree char *by = NULL;
  gboolean is_whole;

  if (!parse_words (&argc, &argv, &options))
    return 1;
  comm = options.comm;
  by = options.by;
  options.heap.filter.comm = comm;
  if (!check (argc, &options))
    return 1;
  heap = read_heap (argv[1], &options.heap, &is_whole);
  return heap != NULL && print_heap (heap, &options) && is_whole ? 0 : 1;
}
