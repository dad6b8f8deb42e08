/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call trees of functions, one for each process: what reports show. */
#pragma once

#include "client/model/call-tree.h"
#include "client/model/grouping.h"
#include "client/names/symbol-resolver.h"

typedef enum
{
  SONDE_UNIT_SAMPLES,
  SONDE_UNIT_BYTES,
  SONDE_UNIT_BLOCKS, /* of the heap */
  SONDE_UNIT_CALLS,
  SONDE_UNIT_SELF, /* ns of calls, without those below */
} SondeUnit;

/* A process, a thread of one, or several processes that are shown as one. */
typedef struct
{
  SondeModelProcess process; /* pid -1: several, of which the heaviest has that command line */
  const char *command;       /* short name of these; NULL: they have several */
  gint32 tid;                /* SONDE_TID_ALL: no single thread */
  guint n_processes;
  GHashTable *pids;    /* of these; NULL: of one */
  guint64 heaviest;    /* total of that one */
  SondeCallTree *tree; /* ids are numbers of functions; the root's total is the process's */
  GArray *depths;      /* guint32: by node of it how often a recursion was folded there, or 0; NULL:
                          none was */
  SondeCallTree *beside; /* NULL, or the same nodes: blocks where @tree has bytes, or the reverse;
                            a stack has weight in both */
} SondeProfileProcess;

typedef struct SondeProfile SondeProfile;

/* @unit: of the trees' weights
 * @resolver: (nullable) (transfer none): whose functions are the profile's, by the same numbers;
 * kept by the caller as long as the profile */
SondeProfile *sonde_profile_new (SondeUnit unit, const SondeSymbolResolver *resolver);
void sonde_profile_free (SondeProfile *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProfile, sonde_profile_free)

SondeUnit sonde_profile_unit (const SondeProfile *self);

/* Whether its processes have a second tree; all or none do. */
gboolean sonde_profile_has_beside (const SondeProfile *self);

/**
 * sonde_profile_add_function:
 * @function: (transfer none): kept by the caller as long as the profile
 *
 * Functions are numbered in the order in which they are added, from 0.
 */
void sonde_profile_add_function (SondeProfile *self, const SondeFunction *function);

/* The same with a function of the profile's own: both texts are copied. Returns its number. */
guint32 sonde_profile_name_function (SondeProfile *self, const char *name, const char *module);
guint32 sonde_profile_n_functions (const SondeProfile *self);
const SondeFunction *sonde_profile_function (const SondeProfile *self, guint32 function);

/* Has processes that are added become the groups of @grouping (transfer full). Before the first. */
void sonde_profile_group (SondeProfile *self, SondeGrouping *grouping);

/**
 * sonde_profile_add_process:
 * @tid: SONDE_TID_ALL, or the thread that @tree is of
 * @process: copied
 * @tree: (transfer full)
 * @beside: (transfer full) (nullable)
 */
void sonde_profile_add_process (SondeProfile *self,
                                const SondeModelProcess *process,
                                gint32 tid,
                                SondeCallTree *tree,
                                SondeCallTree *beside);

/* "cc1 (pid 12)", "cc1 (1,204 processes)", "worker (pid 12, tid 15)"; (transfer full): escaped */
char *sonde_profile_process_dup_label (const SondeProfileProcess *process);

/* From @max processes on the lightest become one, "[n more processes]". They have to be sorted. */
void sonde_profile_limit (SondeProfile *self, guint max);

/* Puts the heaviest process first; without it they stay as they were added. */
void sonde_profile_sort (SondeProfile *self);

guint sonde_profile_n_processes (const SondeProfile *self);
const SondeProfileProcess *sonde_profile_process (const SondeProfile *self, guint process);

/* Of all processes. */
guint64 sonde_profile_total (const SondeProfile *self);

/* The weight of the stacks whose outermost frame has the name @name, such as "[stack truncated]".
 */
guint64 sonde_profile_outermost (const SondeProfile *self, const char *name);
