/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Our unwinder beside libdwfl's on stacks recorded a moment ago: speed, allocations, equality. */
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/differences.h"
#include "tests/bench/replay.h"
#include "tests/bench/workloads.h"

enum
{
  DUMP_SIZE_BYTES = 16 << 10,
  N_WARM = 7,
  SKIPPED = 77, /* what meson takes for "skipped" */
};

enum
{
  OURS,
  THEIRS,
  N_UNWINDERS,
};

static const char *const unwinder_names[N_UNWINDERS] = { "sonde", "libdwfl" };
static const ReplayUnwinderNew unwinder_new[N_UNWINDERS]
    = { sonde_unwinder_new_cfi, sonde_unwinder_new_libdwfl };

static gboolean show_differences;
static char *only;
static char *programs;
static int max_samples = 4000;

static const GOptionEntry entries[] = {
  { "differences", 0, 0, G_OPTION_ARG_NONE, &show_differences,
    "Print each kind of differing stack once", NULL },
  { "only", 0, 0, G_OPTION_ARG_STRING, &only, "Run one workload", "NAME" },
  { "samples", 0, 0, G_OPTION_ARG_INT, &max_samples, "At most so many of each workload", "N" },
  { "programs", 0, 0, G_OPTION_ARG_FILENAME, &programs, "Where bench-deep and bench-signals are",
    "FOLDER" },
  G_OPTION_ENTRY_NULL,
};

/* One unwinder on one workload. */
typedef struct
{
  Replay *replay;
  guint64 ends[SONDE_N_UNWIND_ENDS];
  guint64 n_frames;
  gint64 cold_ns;
  gint64 warm_ns;
  guint64 n_warm_frames;
  guint64 n_allocations; /* while warm */
} Side;

typedef struct
{
  const char *name;
  Side sides[N_UNWINDERS];
  guint64 n_samples;
  guint64 n_untruncated;     /* as the reference says */
  guint64 n_equal;           /* of these */
  guint64 n_truncated_alike; /* of the others: equal as far as both go */
  Differences *differences;
} Trial;

static gboolean
is_truncated (SondeUnwindEnd end)
{
  return end == SONDE_UNWIND_END_TRUNCATED_DUMP || end == SONDE_UNWIND_END_TRUNCATED_PAGE;
}

static void
compare (Trial *self, size_t event, const ReplayStack stacks[N_UNWINDERS])
{
  const ReplayStack *ours = &stacks[OURS];
  const ReplayStack *theirs = &stacks[THEIRS];
  gboolean equal = ours->n_addrs == theirs->n_addrs
                   && memcmp (ours->addrs, theirs->addrs, ours->n_addrs * sizeof *ours->addrs) == 0;

  if (is_truncated (theirs->end))
    self->n_truncated_alike += equal;
  else
    {
      self->n_untruncated++;
      self->n_equal += equal;
    }
  if (!equal)
    differences_add (self->differences, self->sides[OURS].replay, event, ours, theirs);
}

/* Feeds everything to both in time order; each sample's first unwinding is compared. */
static void
run_cold (Trial *self, const GArray *events)
{
  static ReplayStack stacks[N_UNWINDERS];

  for (guint i = 0; i < events->len; i++)
    {
      gboolean is_sample = FALSE;

      for (int k = 0; k < N_UNWINDERS; k++)
        {
          Side *side = &self->sides[k];

          is_sample = replay_feed (side->replay, i, &stacks[k]);
          if (!is_sample)
            continue;
          side->ends[stacks[k].end]++;
          side->n_frames += stacks[k].n_addrs;
          side->cold_ns += stacks[k].duration_ns;
        }
      if (is_sample)
        {
          self->n_samples++;
          compare (self, i, stacks);
        }
    }
}

static int
compare_durations (const void *a, const void *b)
{
  const gint64 *left = a;
  const gint64 *right = b;

  return (*left > *right) - (*left < *right);
}

/* The sum of each batch's median: some batches of every pass are interrupted by other programs. */
static gint64
typical_duration (const ReplayPass passes[N_WARM])
{
  gint64 sum_ns = 0;

  for (guint batch = 0; batch < passes[0].durations_ns->len; batch++)
    {
      gint64 durations_ns[N_WARM];

      for (int i = 0; i < N_WARM; i++)
        durations_ns[i] = g_array_index (passes[i].durations_ns, gint64, batch);
      qsort (durations_ns, N_WARM, sizeof *durations_ns, compare_durations);
      sum_ns += durations_ns[N_WARM / 2];
    }
  return sum_ns;
}

static void
finish_warm (Side *self, ReplayPass passes[N_WARM])
{
  const ReplayPass *last = &passes[N_WARM - 1];

  self->warm_ns = typical_duration (passes);
  self->n_warm_frames = last->n_frames;
  self->n_allocations = last->n_allocations;
  for (int i = 0; i < N_WARM; i++)
    replay_pass_clear (&passes[i]);
}

/* They take turns, so that what else the machine does meets both; the first pass of a turn brings
 * back what the other one pushed out of the processor's caches. */
static void
run_warm (Trial *self)
{
  ReplayPass passes[N_UNWINDERS][N_WARM];

  for (int i = 0; i < N_WARM; i++)
    for (int k = 0; k < N_UNWINDERS; k++)
      {
        ReplayPass first = replay_run (self->sides[k].replay);

        replay_pass_clear (&first);
        passes[k][i] = replay_run (self->sides[k].replay);
      }
  for (int k = 0; k < N_UNWINDERS; k++)
    finish_warm (&self->sides[k], passes[k]);
}

static double
per (double total, guint64 n)
{
  return n > 0 ? total / (double) n : 0;
}

static double
frame_us (const Side *side)
{
  return per ((double) side->warm_ns / 1000, side->n_warm_frames);
}

static double
ratio (const Trial *self)
{
  return frame_us (&self->sides[THEIRS]) / frame_us (&self->sides[OURS]);
}

static double
equal_percent (const Trial *self)
{
  return self->n_untruncated > 0 ? 100.0 * (double) self->n_equal / (double) self->n_untruncated
                                 : 100.0;
}

static void
print_side (const Trial *self, int k)
{
  const Side *side = &self->sides[k];

  printf ("  %-8s %7.4f us/frame %8.3f us/sample  cold %8.3f us/sample  %6.2f allocations/sample"
          "  %5.1f frames/sample ",
          unwinder_names[k], frame_us (side), per ((double) side->warm_ns / 1000, self->n_samples),
          per ((double) side->cold_ns / 1000, self->n_samples),
          per ((double) side->n_allocations, self->n_samples),
          per ((double) side->n_frames, self->n_samples));
  for (int end = 0; end < SONDE_N_UNWIND_ENDS; end++)
    if (side->ends[end] > 0)
      printf (" %s %" G_GUINT64_FORMAT, sonde_unwind_end_name ((SondeUnwindEnd) end),
              side->ends[end]);
  printf ("\n");
}

static void
print_trial (const Trial *self, const Recording *recording)
{
  printf ("%s: %" G_GUINT64_FORMAT " samples, %" G_GUINT64_FORMAT " untruncated, %.2f%% of them "
          "equal, %" G_GUINT64_FORMAT " lost, %.1f times faster\n",
          self->name, self->n_samples, self->n_untruncated, equal_percent (self), recording->n_lost,
          ratio (self));
  for (int k = 0; k < N_UNWINDERS; k++)
    print_side (self, k);
  if (show_differences)
    differences_print (self->differences);
  fflush (stdout);
}

static void
run_trial (Trial *self, const Recording *recording)
{
  g_autoptr (GArray) events = replay_events_new (recording);

  self->differences = differences_new ();
  for (int k = 0; k < N_UNWINDERS; k++)
    self->sides[k].replay = replay_new (recording, events, unwinder_new[k]);
  run_cold (self, events);
  run_warm (self);
  print_trial (self, recording);
  for (int k = 0; k < N_UNWINDERS; k++)
    replay_free (self->sides[k].replay);
  differences_free (self->differences);
}

/* Over all workloads. */
typedef struct
{
  unsigned n;
  double log_sum;
  double worst_ratio;
  double worst_equal;
  double allocations;
} Summary;

static void
summary_add (Summary *self, const Trial *trial)
{
  double allocations = per ((double) trial->sides[OURS].n_allocations, trial->n_samples);

  self->worst_ratio = self->n == 0 ? ratio (trial) : fmin (self->worst_ratio, ratio (trial));
  self->worst_equal
      = self->n == 0 ? equal_percent (trial) : fmin (self->worst_equal, equal_percent (trial));
  self->allocations = fmax (self->allocations, allocations);
  self->log_sum += log (ratio (trial));
  self->n++;
}

/* FALSE: this kernel does not let us record. */
static gboolean
run_workload (const Workload *workload, Summary *summary)
{
  g_autofree char *reason = NULL;
  g_autoptr (Recording) recording = NULL;
  Trial trial = { .name = workload->name };

  if (workload->argv == NULL)
    {
      printf ("%s: skipped, %s\n", workload->name, workload->why_not);
      return TRUE;
    }
  recording = recording_new ((const char *const *) workload->argv, (size_t) max_samples,
                             DUMP_SIZE_BYTES, &reason);
  if (recording == NULL)
    {
      printf ("bench unwind skipped: %s\n", reason);
      return FALSE;
    }
  if (recording->n_samples == 0)
    {
      printf ("%s: skipped, it gave no samples\n", workload->name);
      return TRUE;
    }
  run_trial (&trial, recording);
  summary_add (summary, &trial);

  return TRUE;
}

static int
run_workloads (const char *scratch)
{
  g_autoptr (GArray) workloads = workloads_new (programs, scratch);
  Summary summary = { .n = 0 };

  for (guint i = 0; i < workloads->len; i++)
    {
      const Workload *workload = &g_array_index (workloads, Workload, i);

      if ((only == NULL || strcmp (only, workload->name) == 0)
          && !run_workload (workload, &summary))
        return SKIPPED;
    }
  if (summary.n == 0)
    return EXIT_FAILURE;
  printf ("bench unwind geomean_x=%.1f worst_x=%.1f allocs_per_sample=%.3f equal_pct=%.3f\n",
          exp (summary.log_sum / summary.n), summary.worst_ratio, summary.allocations,
          summary.worst_equal);

  return EXIT_SUCCESS;
}

static void
remove_folder (const char *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *file = g_build_filename (path, name, NULL);

      g_remove (file);
    }
  g_rmdir (path);
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autofree char *scratch = NULL;
  int status;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    g_error ("%s", error->message);
  if (programs == NULL)
    programs = g_path_get_dirname (argv[0]);
  scratch = g_dir_make_tmp ("sonde-bench-XXXXXX", &error);
  if (scratch == NULL)
    g_error ("%s", error->message);
  status = run_workloads (scratch);
  remove_folder (scratch);
  g_free (programs);
  g_free (only);

  return status;
}
