/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells systemd that the service does its work, while it does. */
#pragma once

#include "daemon/control/system/outbox.h"

/**
 * SECTION: watchdog
 *
 * That the main loop turns is not enough: what workers have said must be heard as well. A service
 * that does not is killed and started anew, and its sessions go on.
 *
 * Source: sd_watchdog_enabled(3)
 */
typedef struct SondeWatchdog SondeWatchdog;

/* @systemd: outliving it; @has_progress: asked three times in each WatchdogSec=
 * Returns: (nullable): NULL if systemd watches nothing */
SondeWatchdog *sonde_watchdog_new (SondeOutbox *systemd,
                                   gboolean (*has_progress) (gpointer user_data),
                                   gpointer user_data);
/* Accepts NULL. */
void sonde_watchdog_free (SondeWatchdog *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWatchdog, sonde_watchdog_free)
