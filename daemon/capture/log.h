/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker has to complain about, on standard error. */
#pragma once

/* GLib's own writers look for a terminal, a time zone, a character set and the journal's socket:
 * all of these are out of a worker's reach. */
void sonde_log_to_stderr (void);
