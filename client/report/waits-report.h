/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sums up what threads did with their time, as a table: sondectl report --waits. */
#pragma once

#include "client/model/grouping.h"
#include "client/model/sample-filter.h"
#include "client/model/waits-reader.h"

/* The threads of a group together. */
typedef struct
{
  char *name; /* of foreign origin */
  gint32 pid; /* of SONDE_BY_PROCESS and _THREAD; else -1 */
  gint32 tid; /* of SONDE_BY_THREAD; else -1 */
  guint n_threads;
  guint64 times[SONDE_N_TIMES]; /* ns */
  guint64 counts[SONDE_N_WAITS_COUNTS];
} SondeWaitsGroup;

/* Open to be read. */
typedef struct
{
  SondeCaptureModel *model;
  SondeWaitsReader *reader;
  GArray *groups; /* SondeWaitsGroup: longest life first; NULL before the end */
  guint n_threads;
  guint n_processes;
  guint64 times[SONDE_N_TIMES]; /* of all groups, and of the others where all are wanted */
  gboolean has_others;
} SondeWaitsReport;

SondeWaitsReport *sonde_waits_report_new (void);
void sonde_waits_report_free (SondeWaitsReport *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWaitsReport, sonde_waits_report_free)

void sonde_waits_report_add_frame (SondeWaitsReport *self, const SondeFrame *frame);
/* No frame may follow. @filter: by times it chooses nothing */
void
sonde_waits_report_finish (SondeWaitsReport *self, SondeBy by, const SondeSampleFilter *filter);

/* The head, with the sum, and a row for each group. @width: 0: any */
void sonde_waits_report_append (GString *out, const SondeWaitsReport *self);

#define SONDE_WAITS_JSON_VERSION 1 /* raised when a member changes its meaning or goes */

/* One JSON object and a newline: docs/sondectl.1.rst has its members. */
void sonde_waits_report_append_json (GString *out, const SondeWaitsReport *self);
