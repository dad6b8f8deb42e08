/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes what stands above a report: what was sampled, how, and what is missing. */
#pragma once

#include "client/report/report.h"

void sonde_report_append_header (GString *out, const SondeReport *report);

/* "cpu-clock at 1000 Hz", or NULL if the capture does not say. */
char *sonde_report_describe_event (const SondeCaptureModel *model);

/* A line of that: what was recorded, by the heaviest process of @profile if not everything. */
void sonde_report_append_subject (GString *out,
                                  const SondeCaptureModel *model,
                                  const SondeProfile *profile);

/* What was recorded: "whole machine", or the command line of @heaviest. */
char *sonde_report_describe_subject (const SondeCaptureModel *model,
                                     const SondeModelProcess *heaviest);

/* A line that tells what the limits cut off; none if nothing. */
void sonde_report_append_truncated (GString *out, const SondeCaptureModel *model);

/* "nothing", "2 samples, 14.3% (lost-kernel 2)", or that it is unknown. */
char *sonde_report_describe_losses (const SondeCaptureModel *model);
