/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The D-Bus side: objects, the single gate, the name. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/bus/call.h"
#include "daemon/control/peer/peer-launcher.h"

/**
 * SECTION: bus
 *
 * Every call and every property read finds its row in the tables of service.c, passes that row's
 * gate and only then reaches its handler; what has no row cannot be called. All on the main loop,
 * nothing waits.
 */

/* @connection: outliving it; @is_peer: a private connection instead of a bus
 * @launcher: (transfer full)
 * @store: (nullable) (transfer full): where capture files go
 * @fd_store: (nullable): outliving it: where sessions outlive us, and those that did are found
 * @settings: outliving it; may change */
SondeBus *sonde_bus_new (SondeBusConnection *connection,
                         gboolean is_peer,
                         SondePeerLauncher *launcher,
                         SondeCaptureStore *store,
                         SondeFdStore *fd_store,
                         const SondeSettings *settings);
/* Whether sessions run or can be seen, or somebody is told of those that come. */
gboolean sonde_bus_is_busy (const SondeBus *self);
/* Kills what is left. */
void sonde_bus_free (SondeBus *self);

/* Answers @message, now or later; FALSE: it is for none of our objects. */
gboolean sonde_bus_call (SondeBus *self, sd_bus_message *message);
