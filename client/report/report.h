/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture summed up: a call tree of functions for each group of processes. */
#pragma once

#include "client/model/sample-filter.h"
#include "client/model/samples.h"
#include "client/report/folding.h"
#include "client/report/live-profile.h"
#include "client/report/profile.h"

/* What a report is to show; zeros but for the filter: the default. */
typedef struct
{
  SondeSampleFilter filter;
  SondeBy by; /* which processes are one; of functions: SONDE_BY_COMMAND */
  SondeFolding folding;
  gboolean keeps_times; /* of samples, and their functions */
} SondeReportOptions;

/* Open to be read. */
typedef struct
{
  SondeReportOptions options; /* texts are the caller's */
  gboolean is_raw;            /* nothing is left out or merged */
  gint64 start_ns;            /* CLOCK_MONOTONIC: of the capture, */
  gint64 from_ns;             /* and of what is wanted of it */
  gint64 to_ns;
  SondeCaptureModel *model;
  SondeSamples samples;          /* of locations */
  SondeLiveProfile *live;        /* NULL: nobody asked for it, or it is over */
  SondeSymbolResolver *resolver; /* NULL before the end, as is what follows */
  SondeProfile *profile;         /* groups with samples, heaviest first */
} SondeReport;

/* What a place of samples whose times were kept has as its node: the profile's function that it was
 * in, or that. */
#define SONDE_REPORT_NOWHERE G_MAXUINT32

/**
 * sonde_report_new:
 * @options: (nullable): copied, but for texts, which the caller keeps; NULL: all samples as they
 *   are, each process by itself
 * @start_ns: of the capture, CLOCK_MONOTONIC: its file header's; from there --from is counted
 */
SondeReport *sonde_report_new (const SondeReportOptions *options, gint64 start_ns);
void sonde_report_free (SondeReport *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeReport, sonde_report_free)

void sonde_report_add_frame (SondeReport *self, const SondeFrame *frame);

/* Has the trees be followed from now on, until the names are looked up. Not by thread. */
void sonde_report_follow (SondeReport *self);

/* Looks up the names. No frame may follow; what is below may be asked only afterwards.
 * @options: (nullable) */
void sonde_report_finish (SondeReport *self, const SondeSymbolOptions *options);

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
