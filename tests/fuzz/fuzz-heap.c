/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads foreign bytes as a capture and shows its heap in every way that sondectl has. */
#include <stdlib.h>
#include <string.h>

#include "client/heap/heap-chart.h"
#include "client/heap/heap-report.h"
#include "client/report/profile-diff.h"
#include "client/report/profile-text.h"
#include "client/report/profile-view.h"
#include "protocol/reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/printed.h"

#define MAX_DEPTH 16
#define N_POINTS  50

static void
check_profile (const SondeHeap *heap, SondeProfile *owned)
{
  const SondeProfileStyle style
      = { .percent_limit = 1, .max_depth = MAX_DEPTH, .utf8 = TRUE, .width = 60 };
  g_autoptr (SondeProfile) profile = owned;
  g_autoptr (GString) text = g_string_new (NULL);

  if (profile == NULL)
    return;
  sonde_profile_append_tree (text, profile, &style);
  sonde_profile_append_flat (text, profile, &style);
  fuzz_check_text (text);
  fuzz_check_json (sonde_heap_dup_json (heap, profile, FALSE, 0, N_POINTS));
  fuzz_check_json (sonde_heap_dup_json (heap, profile, TRUE, 0, 0));
}

static void
check_metric (const SondeHeap *heap, SondeHeapMetric metric, SondeUnit unit)
{
  g_autoptr (SondeProfile) profile = sonde_heap_dup_profile (heap, metric, unit);
  g_autoptr (SondeProfile) all = sonde_heap_dup_profile (heap, SONDE_HEAP_ALLOCATED, unit);
  g_autoptr (SondeProfile) grown = sonde_profile_dup_growth (profile, all);
  g_autoptr (SondeProfile) shrunk = sonde_profile_dup_growth (all, profile);
  const SondeHeapAmount *amounts = heap->tracker->totals.amounts;
  SondeHeapDiff diff = { .before = &amounts[metric],
                         .after = &amounts[SONDE_HEAP_ALLOCATED],
                         .grown = grown,
                         .shrunk = shrunk,
                         .suppressed = { heap, heap } };

  check_profile (heap, sonde_profile_view_bottom_up (profile));
  check_profile (heap, sonde_profile_view_callers (profile, "*a*"));
  fuzz_check_json (sonde_heap_dup_diff_json (&diff, FALSE, 0));
  check_profile (heap, g_steal_pointer (&profile));
}

static void
check_heap (const SondeHeap *heap, const SondeHeapOptions *options)
{
  g_autoptr (GString) text = g_string_new (NULL);

  sonde_heap_append_header (text, heap, options);
  sonde_heap_append_chart (text, heap, 40, TRUE);
  sonde_heap_append_chart (text, heap, 100, FALSE);
  sonde_heap_append_svg (text, heap, "title");
  fuzz_check_text (text);
  for (SondeHeapMetric metric = 0; metric < SONDE_HEAP_N_METRICS; metric++)
    {
      check_metric (heap, metric, SONDE_UNIT_BYTES);
      check_metric (heap, metric, SONDE_UNIT_BLOCKS);
    }
}

typedef struct
{
  const uint8_t *data;
  size_t size;
} Input;

static int64_t
read_input (void *user_data, void *buffer, size_t size_bytes)
{
  Input *input = user_data;
  size_t n = MIN (size_bytes, input->size);

  if (n == 0) /* data may be no pointer then */
    return 0;
  memcpy (buffer, input->data, n);
  input->data += n;
  input->size -= n;
  return (int64_t) n;
}

static void
show (const uint8_t *data, size_t size, const SondeHeapOptions *options)
{
  Input input = { data, size };
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  if (sonde_reader_new (read_input, &input, &reader) == 0)
    {
      g_autoptr (SondeHeap) heap = sonde_heap_new (options, sonde_reader_header (reader)->time_ns);

      while (sonde_reader_next (reader, &frame) > 0)
        sonde_heap_add_frame (heap, frame);
      sonde_heap_finish (heap, NULL);
      check_heap (heap, options);
    }
  sonde_reader_free (reader);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  const SondeHeapOptions usual = SONDE_HEAP_OPTIONS_INIT;
  g_autoptr (SondeSuppressions) suppressions = sonde_suppressions_new ();
  const SondeHeapOptions special
      = { .filter = { .pid = 42, .tid = -1, .comm = (char[]){ "x" }, .to_s = INFINITY },
          .folding = { .folds_wrappers = TRUE },
          .temporary_ns = 1000,
          .moments_ns = { 1000, 3000 },
          .suppressions = suppressions };
  const SondeHeapOptions cut
      = { .filter = { .pid = -1, .tid = 42, .from_s = 1e-6, .to_s = 5e-6 }, .temporary_ns = -1 };

  sonde_suppressions_add_text (suppressions, "file", "leak:a*b\nleak:^m", 16, NULL);
  show (data, size, &usual);
  show (data, size, &special);
  show (data, size, &cut);
  return 0;
}
