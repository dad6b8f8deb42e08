/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The newest samples of a capture that does not end. */
#pragma once

#include "client/model/capture-model.h"
#include "client/report/profile.h"

/**
 * SECTION: top-window
 *
 * Each sample is kept with the moment at which it was read, so that old ones can be left out again:
 * 16 bytes, their stacks being shared. Samples that find no room any more push out the oldest ones.
 * What stacks consist of is never forgotten; for that a window that has become large is followed by
 * another one (top-history.h). One thread at a time.
 */
typedef struct SondeTopWindow SondeTopWindow;

#define SONDE_TOP_MAX_SAMPLES (2u << 20) /* kept at a time: 32 MiB */

/**
 * sonde_top_window_new:
 * @before: (nullable) (transfer none): of the same capture: what it knows of processes that are
 *   alive is known here, too, but none of its samples
 * @now_ns: CLOCK_MONOTONIC, here and below
 */
SondeTopWindow *
sonde_top_window_new (const SondeTopWindow *before, SondeModelIsAlive is_alive, gint64 now_ns);
SondeTopWindow *sonde_top_window_ref (SondeTopWindow *self);
void sonde_top_window_unref (SondeTopWindow *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopWindow, sonde_top_window_unref)

/* @frame: accepted by sonde_frame_check(); @now_ns: never less than before */
void sonde_top_window_add_frame (SondeTopWindow *self, const SondeFrame *frame, gint64 now_ns);

/* Samples so far count neither as kept nor as seen. */
void sonde_top_window_reset (SondeTopWindow *self, gint64 now_ns);

/* When it was made, or reset. */
gint64 sonde_top_window_start_ns (const SondeTopWindow *self);

/* The memory that only a new window gives back, in bytes, as an estimate. */
gsize sonde_top_window_size_bytes (const SondeTopWindow *self);

const SondeCaptureModel *sonde_top_window_model (const SondeTopWindow *self);

/* Which samples, and what comes out. */
typedef struct
{
  gint64 from_ns;          /* read since then, */
  gboolean is_all;         /* or all since the last reset */
  gint64 budget_us;        /* how long names may be looked up; the rest is "[looking for names]" */
  gint64 covered_from_ns;  /* (out): from_ns, or the later moment from which on samples are there */
  SondeProfile *profile;   /* (out) (transfer full): its functions live as long as the window */
  SondeProfile *threads;   /* (out) (transfer full): the same whose functions are the threads */
  gboolean is_unnamed_yet; /* (out): names are missing for want of time */
} SondeTopSelection;

void sonde_top_window_select (SondeTopWindow *self, SondeTopSelection *selection);
