/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps what a live view shows: the last seconds of a capture, in memory that has a bound. */
#pragma once

#include "client/calls/calls.h"
#include "client/model/capture-model.h"
#include "client/report/profile.h"

/**
 * SECTION: top-history
 *
 * A window grows with the processes and stacks that it has ever seen. When it has become large a
 * new one is filled beside it, and takes its place as soon as it has seen as much time as is shown,
 * or the old one has become larger still. One thread at a time.
 */
typedef struct SondeTopHistory SondeTopHistory;

#define SONDE_TOP_MAX_SAMPLES (2u << 20) /* kept at a time: 32 MiB */

/* Of both windows, about, if not more is alive at once. */
#define SONDE_TOP_MAX_BYTES (128u << 20)

typedef struct
{
  gint64 span_ns;             /* what is shown: so much time up to now */
  gsize max_bytes;            /* SONDE_TOP_MAX_BYTES */
  SondeModelIsAlive is_alive; /* NULL: asks the kernel of this machine */
} SondeTopHistoryOptions;

/* The samples of some time, and the names of what they are of. */
typedef struct SondeTopWindow SondeTopWindow;

/* What there was to see at one moment; it stays as it is. */
typedef struct
{
  SondeTopWindow *window; /* whose functions the profiles have */
  SondeProfile *profile;
  SondeProfile *threads; /* functions are threads */
  SondeCalls *calls;     /* of functions of traced programs; NULL: none is traced */
  gint64 covered_ns;     /* the time that the samples are of */
  gint64 calls_ns;       /* the same of the calls */
  gboolean is_all;       /* since the last reset, not the last seconds */
  gboolean is_unnamed_yet;
  guint64 n_seen;       /* samples since the capture began, shown or not */
  guint64 frequency_hz; /* samples that a busy CPU gives a second; 0: that cannot be said */
  char *subject;        /* "python3 work.py", "whole machine"; safe to print, as what follows */
  char *event;          /* "cpu-clock at 1000 Hz" */
  char *losses;         /* "nothing", ... */
} SondeTopSnapshot;

void sonde_top_snapshot_free (SondeTopSnapshot *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopSnapshot, sonde_top_snapshot_free)

/* @now_ns: CLOCK_MONOTONIC, here and below */
SondeTopHistory *sonde_top_history_new (const SondeTopHistoryOptions *options, gint64 now_ns);
void sonde_top_history_free (SondeTopHistory *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopHistory, sonde_top_history_free)

/* @frame: accepted by sonde_frame_check(); @now_ns: never less than before */
void sonde_top_history_add_frame (SondeTopHistory *self, const SondeFrame *frame, gint64 now_ns);

/* Forgets the samples so far. */
void sonde_top_history_reset (SondeTopHistory *self, gint64 now_ns);

/* Samples since the capture began. */
guint64 sonde_top_history_n_seen (const SondeTopHistory *self);

/* The memory that only a new window gives back, in bytes, as an estimate, of both windows. */
gsize sonde_top_history_size_bytes (const SondeTopHistory *self);

/**
 * sonde_top_history_snapshot:
 * @is_all: since the last reset, or since memory that was full had to be given back
 * @budget_us: for names
 *
 * Returns: (transfer full)
 */
SondeTopSnapshot *sonde_top_history_snapshot (SondeTopHistory *self,
                                              gint64 now_ns,
                                              gboolean is_all,
                                              gint64 budget_us);
