/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture summed up: one call tree of functions for each process. */
#pragma once

#include "client/model/samples.h"
#include "client/report/profile.h"

/* Which samples count. */
typedef struct
{
  gint64 pid;       /* -1: all */
  gint64 tid;       /* -1: all */
  const char *comm; /* NULL: all */
  gint64 from_ns;   /* CLOCK_MONOTONIC */
  gint64 to_ns;     /* the first moment that does not count any more */
} SondeReportFilter;

/* Whether the process is wanted. */
gboolean sonde_report_filter_matches (const SondeReportFilter *self,
                                      const SondeModelProcess *process);

/* Open to be read. */
typedef struct
{
  SondeReportFilter filter; /* its comm is ours */
  SondeCaptureModel *model;
  SondeSamples samples;          /* of locations */
  SondeSymbolResolver *resolver; /* NULL before the end, as is what follows */
  SondeProfile *profile;         /* processes with samples, heaviest first */
} SondeReport;

/* Takes every sample. */
#define SONDE_REPORT_FILTER_INIT                                                                   \
  {                                                                                                \
    .pid = -1, .tid = -1, .from_ns = G_MININT64, .to_ns = G_MAXINT64                               \
  }

/* @filter: its comm, too, is copied; NULL takes every sample */
SondeReport *sonde_report_new (const SondeReportFilter *filter);
void sonde_report_free (SondeReport *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeReport, sonde_report_free)

void sonde_report_add_frame (SondeReport *self, const SondeFrame *frame);

/* Looks up the names. No frame may follow; what is below may be asked only afterwards.
 * @options: (nullable) */
void sonde_report_finish (SondeReport *self, const SondeSymbolOptions *options);

/* (transfer full): a profile whose functions are the threads. */
SondeProfile *sonde_report_by_thread (const SondeReport *self);

#define SONDE_REPORT_JSON_VERSION 1 /* raised when a member changes its meaning or goes */

/**
 * sonde_report_dup_json:
 * @shown: the report's profile, or a view of it
 * @as_rows: functions summed up instead of trees
 * @percent_limit: of @shown: what is lighter is left out
 *
 * JSON for programs: docs/sondectl.1.rst has its members.
 *
 * Returns: (transfer full): one JSON object and a newline
 */
GString *sonde_report_dup_json (const SondeReport *report,
                                const SondeProfile *shown,
                                gboolean as_rows,
                                double percent_limit);
