/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A report as text for a terminal or a file. */
#pragma once

#include "client/report.h"

typedef struct
{
  double percent_limit; /* of all samples: lighter subtrees are summed up in one line */
  guint max_depth;      /* frames below a process */
  gboolean utf8;        /* lines drawn with box characters instead of ASCII */
} SondeReportStyle;

void sonde_report_append_header (GString *out, const SondeReport *report);
void
sonde_report_append_tree (GString *out, const SondeReport *report, const SondeReportStyle *style);
void
sonde_report_append_flat (GString *out, const SondeReport *report, const SondeReportStyle *style);

/* "cpu-clock at 1000 Hz", or NULL if the capture does not say. */
char *sonde_report_describe_event (const SondeCaptureModel *model);

/* What was recorded: "whole machine", or the command line of @heaviest. */
char *sonde_report_describe_subject (const SondeCaptureModel *model,
                                     const SondeModelProcess *heaviest);

/* "nothing", "2 samples, 14.3% (lost-kernel 2)", or that it is unknown. */
char *sonde_report_describe_losses (const SondeCaptureModel *model);
