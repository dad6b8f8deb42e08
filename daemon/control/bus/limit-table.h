/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The quotas of daemon/base/limits.h by the names that clients know, and the maxima of options. */
#pragma once

#include <gio/gio.h>

#include "daemon/control/system/settings.h"

/* (transfer floating): a{sv}, the property Limits; values of type u or t, units in
 * docs/org.sonde.Profiler1.5.rst. Each LimitExceeded says "Limit NAME: ...". */
GVariant *sonde_limit_table_to_variant (const SondeSettings *settings);
