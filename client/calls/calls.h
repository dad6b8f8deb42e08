/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The calls of a capture by function and by path, with their names and times in ns. */
#pragma once

#include "client/model/calls-reader.h"
#include "client/names/symbol-resolver.h"

/**
 * SECTION: calls
 *
 * Calls are exact. Times are of those that were timed: a sum of a path is estimated as what a timed
 * call took on average, less what was its own hooks' and the two hooks of each call below it, times
 * its calls; the least, the most and percentiles are as they were clocked. Of a function
 * that calls itself the outermost call of a path counts, and its percentiles are those of all its
 * calls.
 */
typedef struct
{
  guint64 calls;
  guint64 timed;  /* weighted: a call that stands for 64 counts 64 times; 0: no times are known */
  double n_timed; /* how many calls these are, about */
  gboolean is_sampled; /* of some paths only one call in so many was timed */
  double total_ns;     /* callees included */
  double self_ns;
  double min_ns;
  double max_ns;
  double mean_ns;
} SondeCallsSum;

typedef struct
{
  guint32 function; /* of sonde_calls_function() */
  SondeCallsSum sum;
  guint64 *buckets; /* (nullable): SONDE_CALLS_N_BUCKETS, of ticks */
  double ns_a_tick; /* of those */
  double timed_ns;  /* of all paths that have times, recursive calls twice */
  guint64 timed_calls;
} SondeCallsRow;

typedef struct
{
  guint32 program;
  guint32 parent; /* index in paths + 1; 0: none */
  guint32 function;
  gboolean is_nested; /* one above it is of the same function */
  SondeCallsSum sum;
} SondeCallsNode;

/* A call that took longer than trace-slow. */
typedef struct
{
  gint32 pid;
  gint64 begin_ns; /* CLOCK_MONOTONIC */
  gint64 duration_ns;
  char *path; /* escaped; functions from the outermost on, with " > " between */
} SondeCallsSlow;

#define SONDE_CALLS_MAX_SLOW 1000

typedef struct
{
  SondeCaptureModel *model; /* NULL: its owner has it, and the resolver */
  SondeCallsReader *reader;
  GPtrArray *locations; /* GArray of guint32 for each program: of its paths */
  guint32 location;     /* of the path that is told */
  gint32 pid;           /* whose calls are wanted; -1: all processes' */
  gint64 start_ns;      /* of the capture; for who shows slow calls */

  SondeSymbolResolver *resolver;
  GArray *rows;   /* SondeCallsRow, of each function that was called */
  GArray *nodes;  /* SondeCallsNode, of each path; parents first */
  GArray *slow;   /* SondeCallsSlow: the SONDE_CALLS_MAX_SLOW slowest, from these on */
  guint64 n_slow; /* of how many */
  guint64 account[SONDE_CALLS_N_ACCOUNTS];
  double hooks_ns;         /* what hooks took, as far as it is known */
  guint n_programs;        /* that are wanted */
  guint n_partial;         /* of these, such that a part is missing of */
  guint n_left_out;        /* sonde_calls_reader_n_left_out() */
  guint64 n_refused;       /* places in them that could not be changed to call a hook ... */
  guint64 reason;          /* ... and why: SondeCallsReason of one of them */
  gboolean has_times;      /* of any function */
  gboolean is_unnamed_yet; /* some have no name for want of time */
} SondeCalls;

SondeCalls *sonde_calls_new (gint32 pid);
/**
 * sonde_calls_new_of:
 * @reader: (transfer full): all that came of it
 * @locations: of each program of @reader, as many as it has paths: of the resolver's model
 * @resolver: (transfer none): has looked up some, and is kept as long as what is returned
 *
 * The sums of those calls, at once: sonde_calls_finish() is not called. Slow calls are left out.
 */
SondeCalls *
sonde_calls_new_of (SondeCallsReader *reader, GPtrArray *locations, SondeSymbolResolver *resolver);
void sonde_calls_free (SondeCalls *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCalls, sonde_calls_free)

/* Has @model tell of where @path of @program begins, as of an allocation from one place. Of a path
 * without a parent it tells nothing. */
void sonde_calls_locate (SondeCaptureModel *model,
                         const SondeCallsProgram *program,
                         const SondeCallsPath *path);

/* Whether @frame, accepted by sonde_frame_check(), tells of calls. */
gboolean sonde_calls_is_chunk (const SondeFrame *frame);

/* @frame: accepted by sonde_frame_check() */
void sonde_calls_add_frame (SondeCalls *self, const SondeFrame *frame);
/* Behind the last: names and sums. */
void sonde_calls_finish (SondeCalls *self);

/* Of program @program of the reader; one that only its calls tell of has no name. */
SondeModelProcess sonde_calls_process (const SondeCalls *self, guint program);
/* What @self's rows and nodes call their function. */
const SondeFunction *sonde_calls_function (const SondeCalls *self, guint32 function);
/* The number of such a function in @self->resolver; it is none of a root. */
guint32 sonde_calls_resolved_function (const SondeCalls *self, guint32 function);
/* What a @part of the row's calls, 0 to 1, took at most, in ns; 0: it has no times. */
double sonde_calls_quantile (const SondeCallsRow *row, double part);
/* A part of the row's calls, and between what it is with a confidence of 99 %, as far as one can
 * tell from those that were timed: a binomial interval of their ranks. */
typedef struct
{
  double ns; /* sonde_calls_quantile() */
  double low_ns;
  double high_ns;
  gboolean has_low; /* FALSE: it may be less than any call that was timed */
  gboolean has_high;
} SondeCallsEstimate;

/* Percentiles with fewer timed calls beyond them say little. */
#define SONDE_CALLS_FEW 10.0

/* Whether few calls stand behind that percentile. */
gboolean sonde_calls_is_rough (const SondeCallsSum *sum, double part);

/* "812 ns", "3.10 us", "5.02 s" */
char *sonde_calls_dup_time (double ns);

/* FALSE: it has no times. @estimate: (out) */
gboolean sonde_calls_estimate (const SondeCallsRow *row, double part, SondeCallsEstimate *estimate);
/* Whether both, each of which may be NULL, have times. */
gboolean sonde_calls_is_comparable (const SondeCallsRow *before, const SondeCallsRow *after);
/* Whether two rows, of two captures, differ there by more than chance lets @n_together such
 * comparisons (Bonferroni, SONDE_CHANCE_CONFIDENCE), and by more than buckets can tell. Calls are
 * taken as independent of each other. */
gboolean sonde_calls_is_shifted (const SondeCallsRow *before,
                                 const SondeCallsRow *after,
                                 double part,
                                 guint n_together);
/* The name of the function at @address of program @program of the reader, if it was called there.
 */
const char *sonde_calls_name_of (const SondeCalls *self, guint program, guint64 address);
/* Of program @program of the reader, the functions from the outermost on, with " > " between. */
char *sonde_calls_dup_path (const SondeCalls *self, guint program, guint32 path);
