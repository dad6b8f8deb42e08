/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The formats of other viewers that a capture can be written in. */
#pragma once

#include <gio/gio.h>

#include "client/base/output.h"
#include "client/base/progress.h"
#include "client/calls/calls.h"
#include "client/export/export-frames.h"
#include "client/heap/heap.h"
#include "client/model/capture-model.h"
#include "client/names/symbol-resolver.h"
#include "client/report/report.h"

/**
 * SECTION: export
 *
 * A capture has most names at its end, so it is read twice: the first time for what there is, the
 * second time for the events, which are handed on as they come. Both times the model numbers
 * locations in the same order, so those of the second are named by the first. Memory grows with
 * processes and distinct addresses, not with samples. Function 0 is SONDE_TRUNCATED.
 *
 * Exports are as long as their captures, so they are written as they are made, JSON too: json-glib
 * would hold the whole document in memory. A failure is remembered, and told at the end.
 */

/* A sample, or something that was allocated. */
typedef struct
{
  guint process; /* number of the process in the model */
  gint32 pid;
  gint32 tid;
  gint64 time_ns;           /* CLOCK_MONOTONIC; a later event may have an earlier time */
  const guint32 *functions; /* numbers of sonde_export_source_function(), outermost first */
  gsize n_frames;
  const guint32 *locations; /* as many, but of a source with frames */
  gint64 size_bytes;        /* allocated; 0 of a sample, and of what is freed */
  guint64 address;          /* of what was allocated or freed */
} SondeExportStack;

/* What is told as it comes; NULL: not wanted. The arguments are valid during the call. Of the
 * ledger's counters nothing is told: they are about the stream. */
typedef struct
{
  void (*sample) (const SondeExportStack *sample, gpointer user_data);
  void (*allocation) (const SondeExportStack *allocation, gpointer user_data);
  void (*freed) (const SondeExportStack *freed, gpointer user_data); /* without a stack */
  void (*mark) (const SondeModelMark *mark, gpointer user_data);
  void (*value) (const SondeModelValue *value, gpointer user_data);
} SondeExportFuncs;

/* Open to be read. */
typedef struct
{
  SondeProgress *progress; /* NULL: none */
  char *path;
  gint64 start_ns;            /* when the capture was begun: CLOCK_MONOTONIC */
  SondeReportOptions options; /* texts are the caller's */
  gint64 from_ns;             /* CLOCK_MONOTONIC: samples before and from then on are not told */
  gint64 to_ns;
  GError *fault;            /* why the capture ends early, or NULL: what came before is there */
  SondeHeap *heap;          /* whose model and resolver these are; NULL: they are our own */
  SondeCalls *calls;        /* the same, of whoever shows the calls of functions */
  SondeCaptureModel *model; /* of the whole capture; who keeps things of the events takes of its
                               budget */
  SondeSymbolResolver *resolver;
  SondeExportFrames *frames; /* whose numbers those of functions are; NULL: the resolver's */
  guint32 n_functions;
  guint64 n_allocated;
  gboolean has_calls; /* files of them, in which something may be */
  gboolean has_sums;  /* of heap events, which are in none of the times */
  guint64 n_frames;   /* that the first reading of a heap came to */

  SondeExportFuncs funcs; /* of the reading at hand */
  gpointer user_data;
  const SondeCaptureModel *reading;
  GArray *stack;         /* guint32: functions */
  guint64 n_may_be_told; /* frames of allocations */
  gboolean has_more;     /* than these */
} SondeExportSource;

/**
 * sonde_export_source_new:
 * @options: (nullable): copied, but for texts; NULL: all there is, each process by itself
 * @progress: (nullable) (transfer none): outlives all readings
 *
 * Reads the whole capture @path once, which must be a file. NULL with @error if it is none.
 */
SondeExportSource *sonde_export_source_new (const char *path,
                                            const SondeReportOptions *options,
                                            SondeProgress *progress,
                                            GError **error);
/* The same, for what shows places: functions are its frames, of which inlined ones and those of
 * other lines are others. */
SondeExportSource *sonde_export_source_new_frames (const char *path,
                                                   const SondeReportOptions *options,
                                                   SondeProgress *progress,
                                                   GError **error);
/* The same, for what shows the heap over time: read in order of time, with inlined functions and
 * lines. */
SondeExportSource *sonde_export_source_new_heap (const char *path,
                                                 const SondeReportOptions *options,
                                                 SondeProgress *progress,
                                                 GError **error);
/* The same of sums, for what shows a call tree of them. */
SondeExportSource *sonde_export_source_new_sums (const char *path,
                                                 const SondeReportOptions *options,
                                                 SondeProgress *progress,
                                                 GError **error);
/* Of calls of functions, of which there is nothing but their sums: read once, by nobody else. */
SondeExportSource *sonde_export_source_new_calls (const char *path,
                                                  const SondeReportOptions *options,
                                                  SondeProgress *progress,
                                                  GError **error);
void sonde_export_source_free (SondeExportSource *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeExportSource, sonde_export_source_free)

const SondeFunction *sonde_export_source_function (const SondeExportSource *self, guint32 function);
/* The value @key of the group "sonde" of the capture's description, or @fallback; (transfer full)
 */
char *
sonde_export_source_describe (const SondeExportSource *self, const char *key, const char *fallback);
/* Between samples of a thread that runs; a guess if their event does not count time. */
gint64 sonde_export_source_interval_ns (const SondeExportSource *self);
/* CPU time that a sample stands for; 0: not known, its event counts something else. */
guint64 sonde_export_source_sample_ns (const SondeExportSource *self);
/* Samples, or allocations with UNIT_BYTES and UNIT_BLOCKS, or calls, with UNIT_SELF if some of them
 * were timed. */
guint64 sonde_export_source_count (const SondeExportSource *self, SondeUnit unit);

/* Reads it again and tells what comes. */
gboolean sonde_export_source_run (SondeExportSource *self,
                                  const SondeExportFuncs *funcs,
                                  gpointer user_data,
                                  GError **error);

/* The same of a heap: tells what becomes of each block, with stacks as @self->heap numbers them. */
gboolean sonde_export_source_run_heap (SondeExportSource *self,
                                       SondeHeapBlockFunc block,
                                       gpointer user_data,
                                       GError **error);

/* (transfer full): call trees of what was sampled or allocated, from one more reading; of bytes
 * blocks stand beside them. It lives no longer than @self. NULL with @error */
SondeProfile *
sonde_export_source_dup_profile (SondeExportSource *self, SondeUnit unit, GError **error);

/* @ids: outermost first, valid during the call; @weight: of the stacks that end there,
 * at @node, above 0 */
typedef void (*SondeExportStackFunc) (
    const guint32 *ids, gsize n_ids, guint32 node, guint64 weight, gpointer user_data);

/* The stacks of a call tree, one after the other; those that begin alike stand together. Deep trees
 * need no deep recursion. */
void sonde_export_foreach_stack (const SondeCallTree *tree,
                                 SondeExportStackFunc func,
                                 gpointer user_data);

/* Where it goes. */
typedef struct
{
  SondeOutput *output;
  GConverter *gzip; /* NULL: as it is */
  GString *text;    /* to append to; what is there is on its way once sonde_export_output_pass() was
                       called */
  GError *error;    /* the first one */
} SondeExportOutput;

/* @path: NULL is standard output, too; a file is there when it is closed: see output.h */
SondeExportOutput *
sonde_export_output_new (const char *path, gboolean is_compressed, GError **error);
/* Leaves a file as it was before if it is not closed. Accepts NULL. */
void sonde_export_output_free (SondeExportOutput *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeExportOutput, sonde_export_output_free)

/* About once a record: writes when there is enough. */
void sonde_export_output_pass (SondeExportOutput *self);
void sonde_export_output_printf (SondeExportOutput *self, const char *format, ...)
    G_GNUC_PRINTF (2, 3);
void sonde_export_output_bytes (SondeExportOutput *self, const void *bytes, gsize size_bytes);

gboolean sonde_export_output_close (SondeExportOutput *self, GError **error);

/* @text with @with in the place of each of @chars. */
void sonde_export_append_replaced (GString *out, const char *text, const char *chars, char with);

/* Writes what @source holds, in @unit if the format has one. FALSE with @error if the capture has
 * nothing that the format could show. What cannot be written shows when @output is closed. */
typedef gboolean SondeExportFunc (SondeExportSource *source,
                                  SondeUnit unit,
                                  SondeExportOutput *output,
                                  GError **error);

SondeExportFunc sonde_export_folded;
SondeExportFunc sonde_export_dot;
SondeExportFunc sonde_export_speedscope;
SondeExportFunc sonde_export_firefox;
SondeExportFunc sonde_export_perfetto;
SondeExportFunc sonde_export_pprof;
SondeExportFunc sonde_export_perf_script;
SondeExportFunc sonde_export_chrome;
SondeExportFunc sonde_export_cpuprofile;
SondeExportFunc sonde_export_heaptrack;   /* of a source with a heap, as is */
SondeExportFunc sonde_export_heapprofile; /* what lived at its peak */
