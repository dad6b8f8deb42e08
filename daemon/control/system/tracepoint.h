/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tracepoints that the option `event` takes: a closed list, and their numbers here. */
#pragma once

#include <glib.h>

/**
 * SECTION: tracepoint
 *
 * Only the place and the stack of an event are recorded, never its payload, which tells of other
 * users' processes and files. So the list holds events whose stack alone answers a question: who
 * sleeps, who wakes, who faults, who waits for a disk, who asks the kernel for what.
 *
 * Source: tracefs, Documentation/trace/events.rst
 */

/* Whether @name is on the list, be it on this machine or not: the list's own, or NULL. */
const char *sonde_tracepoint_find (const char *name);

/* The kernel's number of @name; a negative errno if this machine lacks it or tracefs is not mounted
 * where it belongs. */
gint64 sonde_tracepoint_id (const char *name);

/* The @index-th of the list, NULL behind the last. */
const char *sonde_tracepoint_get (guint index);
