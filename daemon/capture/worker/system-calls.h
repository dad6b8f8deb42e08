/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The system calls that a worker makes, and why it needs each. */
#pragma once

#include <gio/gio.h>

/**
 * sonde_system_calls_restrict:
 * @control_fd: the connection to control
 *
 * From here on every other call is not carried out. Instead the worker says which one it was, in a
 * FAILED message and on standard error, and exits. In sanitized builds, whose runtime has needs of
 * its own, such calls are carried out and the kernel logs them.
 *
 * To be the last step: what it takes to get there is not on the list. Needs no_new_privs.
 *
 * Source: seccomp(2), seccomp_rule_add(3)
 */
gboolean sonde_system_calls_restrict (int control_fd, GError **error);
