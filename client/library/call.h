/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sums that the calls of a call tree show, and lists of calls that follow them. */
#pragma once

#include "client/library/call-list.h"
#include "client/report/report.h"

/* It outlives the profile as long as somebody has a call of it. */
typedef struct
{
  guint n_references;
  SondeReport *report;
  gboolean is_finished;
} SondeCallSums;

SondeCallSums *sonde_call_sums_new (void);
SondeCallSums *sonde_call_sums_ref (SondeCallSums *self);
void sonde_call_sums_unref (SondeCallSums *self); /* accepts NULL */

/* (transfer full): @process: number in the model; once finished, in the profile. @node: of its
 * tree, 0: the process */
SondeClientCall *sonde_call_sums_new_call (SondeCallSums *self, guint process, guint32 node);

/* Has the rows of @processes, and all lists below them that somebody asked for, tell what is there
 * now; rows are added behind those that are there. */
void sonde_call_sums_update (SondeCallSums *self, SondeCallList *processes);

/* The same once the sums are finished: rows that are there no more go. */
void sonde_call_sums_settle (SondeCallSums *self, SondeCallList *processes);
