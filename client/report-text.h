/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What stands above a report: what was sampled, how, and what is missing. */
#pragma once

#include "client/report.h"

void sonde_report_append_header (GString *out, const SondeReport *report);
