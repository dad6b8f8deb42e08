/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The system calls that a broker makes. */
#pragma once

#include <gio/gio.h>

/**
 * sonde_broker_calls_enforce:
 * @front_fd: the connection with the front
 *
 * No new privileges, and from here on the calls of the table in calls.c alone: nothing is executed,
 * nothing is opened to be written to, no socket is made. Of another call the front hears which it
 * was, as BROKEN, and standard error, and the program ends (see daemon/base/call-list.h). Before
 * there are threads.
 *
 * Source: seccomp(2), prctl(2)
 */
gboolean sonde_broker_calls_enforce (int front_fd, GError **error);
