/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Takes from a worker, before it reads its first message, all that it does not need. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#define SONDE_SANDBOX_SAME_UID ((uid_t) -1)

/**
 * sonde_sandbox_enter:
 * @keep_fd: the connection with the front; with stdio the only descriptor left open
 * @uid: for root: what to become, with the gid of the same number
 *
 * As root: becomes @uid. Sets the limits that rings and events need. In any case: no new
 * privileges, no capabilities, not dumpable, umask 077, working directory /, at most
 * SONDE_LIMIT_WORKER_BYTES of memory (but in sanitized builds), no files but those it is handed,
 * and the system calls of the table in sandbox.c alone: of another one the worker says which it
 * was, in a FAILED message to the front and on standard error, and exits (in sanitized builds,
 * whose runtime has needs of its own, it is carried out and the kernel logs it). Call it before
 * there are threads, and before GLib opens descriptors of its own.
 *
 * Source: capabilities(7), prctl(2), landlock(7), seccomp(2), seccomp_rule_add(3)
 */
gboolean sonde_sandbox_enter (int keep_fd, uid_t uid, GError **error);

/**
 * sonde_sandbox_restrict_files:
 *
 * From here on this process opens no file, makes none, removes none, connects to nobody and signals
 * nobody outside. Descriptors that it has, and those that it is handed, stay what they are. Needs
 * no_new_privs.
 *
 * Returns: FALSE with @error if the kernel has Landlock and refuses; without Landlock nothing is
 *   done and that is no error
 * Source: landlock(7), linux/landlock.h
 */
gboolean sonde_sandbox_restrict_files (GError **error);
