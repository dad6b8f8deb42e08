/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Adds up the calls of traced programs from the embedded files of a capture. */
#pragma once

#include <glib.h>

#include "protocol/calls.h"
#include "protocol/frame.h"

/**
 * SECTION: calls-reader
 *
 * FILE_CHUNK frames go in; what comes out is, of each process that was traced, its call paths and
 * what is known of each. It is of foreign origin, but adds up as docs/protocol.md says: a file that
 * does not is read up to there, those of its process that follow are left out, up to one that has
 * the sum so far, and the first such file is told.
 *
 * Whatever comes, it takes memory for %SONDE_CALLS_READER_MAX_PATHS and as many buckets at most.
 */
typedef struct SondeCallsReader SondeCallsReader;

#define SONDE_CALLS_READER_MAX_PROGRAMS 4096u
#define SONDE_CALLS_READER_MAX_PATHS    (1u << 21)
#define SONDE_CALLS_READER_MAX_DEPTH    8192u /* of paths */
#define SONDE_CALLS_READER_MAX_OPEN     256u  /* files that are not whole yet */

typedef struct
{
  guint32 bucket;
  guint64 n; /* calls, weighted */
} SondeCallsBucket;

/* A function below the path of its caller. Times are in ticks, and weighted. */
typedef struct
{
  guint32 parent;  /* number of the path, from 1, and less than its own; 0: none */
  guint32 depth;   /* how many paths are above it */
  guint64 address; /* without a parent 0, where a thread begins, or 1, of signals */
  guint64 calls;
  guint64 timed; /* calls; 0: what follows is 0, too */
  guint64 total_ticks;
  guint64 self_ticks; /* of the mode "exact" */
  guint64 nested;
  guint64 min_ticks;
  guint64 max_ticks;
  GArray *buckets; /* (element-type SondeCallsBucket) (nullable): in ascending order */
} SondeCallsPath;

typedef struct
{
  guint64 address;
  gint64 since_ns;
} SondeCallsUncounted;

typedef struct
{
  gint32 tid;
  guint32 path;
} SondeCallsWords;

typedef struct
{
  gint32 pid;
  guint64 mode; /* 1: calls are counted, 2: and some timed, 3: and all timed */
  guint64 sample_every;
  guint64 ticks_per_s; /* 0: not known */
  gint64 begin_ns;
  gint64 end_ns;
  GArray *paths; /* SondeCallsPath, number 1 first */
  gboolean has_account;
  guint64 account[SONDE_CALLS_N_ACCOUNTS];
  GArray *uncounted;   /* SondeCallsUncounted: left out by trace-budget */
  GArray *words;       /* SondeCallsWords: where threads were at the end */
  guint64 n_functions; /* that have a hook, as it says; 0: it did not */
  guint64 n_patched;   /* of these, that call it */
  guint64 n_refused;   /* places that could not be changed so that they do */
  guint64 reason;      /* SondeCallsReason, or another one */
  char *refused;       /* NULL, or why it is not read any more; may be invalid UTF-8 */
  gboolean is_partial; /* a file of it is missing, or could not be read */
  gboolean is_broken;  /* such that what builds on it cannot be, either */
} SondeCallsProgram;

/* A path that is new: the last one of the program. */
typedef void (*SondeCallsPathFunc) (guint program, const SondeCallsPath *path, gpointer user_data);

/* @func: (nullable) */
SondeCallsReader *sonde_calls_reader_new (SondeCallsPathFunc func, gpointer user_data);
/* @max_paths: and buckets, in place of SONDE_CALLS_READER_MAX_PATHS */
SondeCallsReader *sonde_calls_reader_new_small (guint max_paths);
/**
 * sonde_calls_reader_new_since:
 * @before: (nullable): what was in @self once; NULL: nothing
 *
 * Returns: (transfer full): what came into @self since then: of each program of its, by the same
 *   numbers, all paths, and the calls, times and losses in between. Least and most, what is known
 *   of hooks, threads and places, and how many programs are left out, are @self's; last words and what was left out are not
 *   there
 */
SondeCallsReader *sonde_calls_reader_new_since (const SondeCallsReader *self,
                                                const SondeCallsReader *before);
void sonde_calls_reader_free (SondeCallsReader *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCallsReader, sonde_calls_reader_free)

/* @frame: accepted by sonde_frame_check(); any but those of calls is left alone. */
void sonde_calls_reader_add (SondeCallsReader *self, const SondeFrame *frame);

guint sonde_calls_reader_n_programs (const SondeCallsReader *self);
const SondeCallsProgram *sonde_calls_reader_program (const SondeCallsReader *self, guint program);
/* How many more than SONDE_CALLS_READER_MAX_PROGRAMS there were, up to as many again: of these
 * nothing is known. */
guint sonde_calls_reader_n_left_out (const SondeCallsReader *self);
/* That which the file @path is of; NULL: of none that is known. */
const SondeCallsProgram *sonde_calls_reader_program_of (const SondeCallsReader *self,
                                                        const char *path);
/* NULL, or what could not be: "sonde/calls/1-2/3: a path is wrong"; its name is escaped. */
const char *sonde_calls_reader_fault (const SondeCallsReader *self);
/* NULL, or in what a program's calls do not add up: a clause. Of whole captures alone. */
const char *sonde_calls_program_check (const SondeCallsProgram *self);
