/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starts a program of sonded: takes its one connection, and leads its log to standard error. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/* @name: static. GLib's own writers look for a terminal, a time zone, a character set and the
 * journal's socket, all of which are out of such a program's reach. */
void sonde_program_log_plainly (const char *name);

/**
 * sonde_program_connection:
 * @uid: (out) (nullable): what `--uid=N` says, or (uid_t) -1; NULL: there is no such
 *   option
 *
 * `--fd=N [--uid=N]` from the sonded that spawned us, or the one descriptor of socket activation.
 *
 * Returns: a SOCK_SEQPACKET socket, from now on with close-on-exec; -1: there is none
 *
 * Source: sd_listen_fds(3)
 */
int sonde_program_connection (int argc, char **argv, uid_t *uid);
