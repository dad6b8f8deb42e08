/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Asks tracefs for the numbers of tracepoints. */
#pragma once

#include <glib.h>

/* The kernel's number of @name, which is one of sonde_tracepoint_name(); a negative errno if this
 * machine lacks it or tracefs is not mounted where it belongs.
 * Source: tracefs, Documentation/trace/events.rst */
gint64 sonde_tracepoint_id (const char *name);
