/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Samples of threads as spans of time: what a viewer of traces draws. */
#pragma once

#include "client/export/export-source.h"

/**
 * SECTION: export-slices
 *
 * A function lasts from the first sample that has it at a depth, below the same callers, to the
 * first one that has not. A thread that was not sampled for several intervals was not running: then
 * its functions end one interval after the last sample. Memory grows with threads and their depth.
 */
typedef struct SondeExportSlices SondeExportSlices;

typedef struct
{
  gint32 pid;
  gint32 tid;
  guint32 function;
  guint depth; /* 0: outermost */
  gint64 time_ns;
} SondeExportSlice;

/* Beginnings and ends nest for each thread, and their times do not go back. An end is not told
 * before a sample, or the end of all, shows it. */
typedef void (*SondeExportSliceFunc) (const SondeExportSlice *slice,
                                      gboolean is_end,
                                      gpointer user_data);

/* @interval_ns: between samples of a thread that runs
 * @budget: (nullable): of which SONDE_LIMIT_THREADS is taken; what has no room is not told */
SondeExportSlices *sonde_export_slices_new (gint64 interval_ns,
                                            SondeBudget *budget,
                                            SondeExportSliceFunc func,
                                            gpointer user_data);
void sonde_export_slices_free (SondeExportSlices *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeExportSlices, sonde_export_slices_free)

/* One that is a little late counts as of the time of the one before. */
void sonde_export_slices_add (SondeExportSlices *self, const SondeExportStack *sample);
/* No sample follows. */
void sonde_export_slices_end (SondeExportSlices *self);
