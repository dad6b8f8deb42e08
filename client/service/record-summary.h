/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What sondectl record says while it records and when it is done. */
#pragma once

#include "client/library/sonde-client.h"

/* "12 s  11,934 samples  0 lost  3.1 MiB", without a newline */
char *sonde_record_summary_progress (SondeClientSession *session);

/* Several lines: how much is in the file, what was lost and which setting helps, what to type next.
 * @file: (nullable): its path, if it can be read; @name: as messages show it
 * @memory: mode of --memory; NULL: off */
char *sonde_record_summary_end (SondeClientSession *session,
                                const char *file,
                                const char *name,
                                const char *memory);
