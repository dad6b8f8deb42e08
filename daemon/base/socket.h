/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Socket pairs, and messages with descriptors. */
#pragma once

#include <glib.h>

/* A connected AF_UNIX pair, close-on-exec; @type is SOCK_STREAM or SOCK_SEQPACKET, may be or-ed
 * with SOCK_NONBLOCK. */
gboolean sonde_socketpair (int type, int fds[2], GError **error);

/* With one message. Source: SCM_MAX_FD in the kernel's include/net/scm.h */
#define SONDE_SEND_MAX_FDS 253

/**
 * sonde_send_with_fds:
 * @fds: stay the caller's
 * @n_fds: 0 ... SONDE_SEND_MAX_FDS
 *
 * Never waits, and raises no signal. Returns 0, or a negative errno; -EMSGSIZE if a stream took a
 * part.
 */
int sonde_send_with_fds (
    int socket, gconstpointer bytes, gsize size_bytes, const int *fds, unsigned n_fds);
