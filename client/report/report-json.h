/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A report as JSON for programs: docs/sondectl.1.rst has its members. */
#pragma once

#include "client/report/report.h"

#define SONDE_REPORT_JSON_VERSION 1 /* raised when a member changes its meaning or goes */

/**
 * sonde_report_dup_json:
 * @shown: the report's profile, or a view of it
 * @as_rows: functions summed up instead of trees
 * @percent_limit: of @shown: what is lighter is left out
 *
 * Returns: (transfer full): one JSON object and a newline
 */
GString *sonde_report_dup_json (const SondeReport *report,
                                const SondeProfile *shown,
                                gboolean as_rows,
                                double percent_limit);
