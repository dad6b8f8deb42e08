/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The start of the service that we are about to call. */
#pragma once

#include <gio/gio.h>

/**
 * sonde_service_start:
 * @bus: the system bus
 * @name: what is to have an owner
 *
 * Has the bus start the service, unless it runs. Blocks: for start-up only. The bus does not hear from
 * systemd that a unit cannot start, and lets its callers wait for 25 s: we ask systemd ourselves.
 *
 * Returns: whether it runs
 * Errors: %G_DBUS_ERROR_SERVICE_UNKNOWN if it is not installed, %G_DBUS_ERROR_SPAWN_FAILED with what
 * systemd knows if it cannot start; whatever else the bus says
 */
gboolean sonde_service_start (GDBusConnection *bus, const char *name, GError **error);
