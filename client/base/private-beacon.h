/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes the page by which a user's embedded sessions call programs of his that run already. */
#pragma once

#include <glib.h>

/**
 * sonde_private_beacon_make:
 *
 * The file that SONDE_BEACON names, else "sonde-embedded/beacon" in the user's folder of what runs
 * ($XDG_RUNTIME_DIR, /run/user/UID; /run of root), with a folder that nobody else may enter. It is
 * made if it is not there, and is never removed: who was started with it has it mapped. Programs
 * are told by SONDE_BEACON.
 *
 * Returns: (transfer full) (nullable): an absolute path; NULL: there is no such folder, or the file
 *   is not the user's own
 */
char *sonde_private_beacon_make (void);
