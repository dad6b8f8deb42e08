/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts how many sessions one uid may have of those of the machine. */
#pragma once

#include <sys/types.h>

#include "daemon/control/system/settings.h"

/**
 * sonde_session_quota_check:
 * @n_own: sessions that @uid has
 * @n_of_others: of all other uids but root
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: sessions, sessions-root, sessions-machine
 */
gboolean sonde_session_quota_check (
    const SondeSettings *settings, uid_t uid, guint n_own, guint n_of_others, GError **error);
