/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What sondectl record says while it records and when it is done. */
#pragma once

#include "client/service/recording.h"

/* "12 s  11,934 samples  0 lost  3.1 MiB", without a newline */
char *sonde_record_summary_progress (const SondeRecording *recording);

/* Several lines: how much was recorded, what was lost and which setting helps, what to type next.
 */
char *sonde_record_summary_end (const SondeRecording *recording, const char *file);
