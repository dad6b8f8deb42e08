/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The quotas of daemon/base/limits.h by the names that clients know. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/settings.h"

/* The name at @index, NULL behind the last one. Each LimitExceeded says "Limit NAME: ...". */
const char *sonde_limit_table_name (gsize index);

/* (transfer floating): a{sv}, the property Limits; values of type u or t, units in
 * docs/org.sonde.Profiler1.5.rst */
GVariant *sonde_limit_table_to_variant (const SondeSettings *settings);
