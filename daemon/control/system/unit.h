/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* systemd's units: their names, and which control group is theirs. */
#pragma once

#include <gio/gio.h>

/* A whole name of the characters [A-Za-z0-9:_.\@-], at most 255, that ends with ".service",
 * ".scope" or ".slice". Source: systemd.unit(5) */
gboolean sonde_unit_is_name (const char *text);
/* The root of all slices. */
gboolean sonde_unit_is_everything (const char *name);

/**
 * sonde_unit_find_group_async:
 * @name: sonde_unit_is_name()
 * @cancellable: (nullable):
 *
 * Asks the system's systemd for the control group of a running unit, over the system bus and for at
 * most SONDE_LIMIT_UNIT_MS.
 *
 * Errors: SONDE_ERROR_NO_SUCH_PROCESS if the unit is not known or runs nothing, NOT_SUPPORTED if
 * systemd does not answer, FAILED
 * Source: org.freedesktop.systemd1(5)
 */
void sonde_unit_find_group_async (const char *name,
                                  GCancellable *cancellable,
                                  GAsyncReadyCallback callback,
                                  gpointer user_data);
/* Returns: (transfer full): a path such as "/system.slice/cron.service" */
char *sonde_unit_find_group_finish (GAsyncResult *result, GError **error);
