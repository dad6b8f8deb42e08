/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that close descriptors, so that the main loop does not wait for it. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

/**
 * SECTION: closer
 *
 * close() asks the server of a file's file system to flush it, in state D until that answers: on
 * FUSE this is any user's program, and not even SIGKILL ends the wait. Descriptors come from
 * strangers with every D-Bus message, asked for or not. So no such descriptor is closed by the main
 * loop, and neither is one of a file of the capture store, whose disk may not answer.
 *
 * sd-bus closes the descriptors of a message itself, at the last reference to it, and has no call
 * that hands them over, nor one that names those which the message's body does not. This program
 * therefore has a close() of its own in front of libc's, which libsystemd gets, too: between
 * sonde_closer_defer() and its end it is sonde_closer_take(), and the system call elsewhere.
 *
 * At most SONDE_LIMIT_CLOSERS threads are there, each only while there is something to close. Those
 * that are stuck stay for as long as the file system's server likes. While all of them are, the
 * recvmsg() of this program takes no descriptors for sd-bus: a message that brings some becomes one
 * that brings none (bus-header.h), and is answered as such; one that needs them is refused. (To
 * negotiate a connection without descriptors would take those of our answers away, too.) So does a
 * message of which the kernel keeps one from us, as AppArmor may have it.
 */

/* @fd: (transfer full): closed at once if it is one of ours of which nobody can delay that, a perf
 * event or an end of a stream; else soon, by a thread */
void sonde_closer_take (int fd);
/* The same of all of @fds, which may be NULL and is so afterwards. */
void sonde_closer_take_list (GUnixFDList **fds);
/* How many wait for a thread, for who could bring more than these can close. */
guint sonde_closer_n_waiting (void);
/* @fd: set to -1; for sonde_deferred_fd */
void sonde_closer_clear (int *fd);
#define sonde_deferred_fd __attribute__ ((cleanup (sonde_closer_clear)))

/* Whether this thread's calls of close() are sonde_closer_take() from now on.
 * Returns: whether they were */
gboolean sonde_closer_defer (gboolean is_deferred);
/* For sonde_deferring. */
void sonde_closer_restore (gboolean *was_deferred);
/* Around a call of sd-bus: sonde_deferring gboolean before = sonde_closer_defer (TRUE); */
#define sonde_deferring __attribute__ ((cleanup (sonde_closer_restore), unused))

/* Whether a message came just now whose descriptors were not taken. For the thread of sd-bus. */
gboolean sonde_closer_has_refused (void);
