/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Brings the records of all rings into the order of time. */
#pragma once

#include "daemon/capture/perf-ring.h"

/**
 * SECTION: ring-merge
 *
 * A heap over the front records of all rings; the rings themselves are the reorder queue, nothing
 * is copied. A record is handed on when it is older than SONDE_RING_MERGE_WINDOW_NS, when some ring
 * is more than half full, or when draining. Plain struct, main thread only.
 */
#define SONDE_RING_MERGE_WINDOW_NS 2000000

/* What the successor says of a record. */
typedef enum
{
  SONDE_RING_MERGE_TAKEN, /* its room goes back to the kernel */
  SONDE_RING_MERGE_WAIT,  /* not yet: it stays, and all behind it in time */
} SondeRingMergeAnswer;

typedef struct
{
  /* CLOCK_MONOTONIC; 0 unknown: goes at once. */
  int64_t (*time) (const struct perf_event_header *record, gpointer user_data);
  /* @kind: as given to sonde_ring_merge_add(). @pressed: waiting any longer would lose records. */
  SondeRingMergeAnswer (*record) (const struct perf_event_header *record,
                                  unsigned kind,
                                  gboolean pressed,
                                  gpointer user_data);
  /* A ring of @kind was damaged and skipped to its end. */
  void (*damaged) (unsigned kind, gpointer user_data);
  /* For sonde_ring_merge_foresee(), in no order; the record comes to @record in its time. */
  void (*foreseen) (const struct perf_event_header *record, gpointer user_data);
} SondeRingMergeHandler;

typedef enum
{
  SONDE_RING_MERGE_EMPTY,   /* nothing is left */
  SONDE_RING_MERGE_YOUNG,   /* what is left is within the window */
  SONDE_RING_MERGE_BUDGET,  /* there is more to do now */
  SONDE_RING_MERGE_WAITING, /* the successor waits for something */
} SondeRingMergeState;

typedef struct SondeRingMerge SondeRingMerge;

SondeRingMerge *sonde_ring_merge_new (const SondeRingMergeHandler *handler, gpointer user_data);
void sonde_ring_merge_free (SondeRingMerge *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeRingMerge, sonde_ring_merge_free)

/* @ring: (transfer full) */
void sonde_ring_merge_add (SondeRingMerge *self, SondePerfRing *ring, unsigned kind);

/* Looks at the records of rings of @kind that were not looked at before, at most @budget. */
void sonde_ring_merge_foresee (SondeRingMerge *self, unsigned kind, guint budget);

/**
 * sonde_ring_merge_run:
 * @now_ns: CLOCK_MONOTONIC, read before the call
 * @draining: hand everything on, whatever its age
 * @budget: records to hand on at most
 */
SondeRingMergeState
sonde_ring_merge_run (SondeRingMerge *self, int64_t now_ns, gboolean draining, guint budget);

/* Records that were older than one handed on before. */
guint64 sonde_ring_merge_n_late (const SondeRingMerge *self);
guint64 sonde_ring_merge_n_handed_on (const SondeRingMerge *self);
/* Size of all rings in bytes. */
guint64 sonde_ring_merge_size (const SondeRingMerge *self);
