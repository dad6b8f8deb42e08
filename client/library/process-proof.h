/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The proof that the caller may read a process. */
#pragma once

#include <gio/gio.h>

/* An open /proc/PID/maps, close-on-exec; or -1 with @error. */
int sonde_process_proof_open (gint pid, GError **error);
