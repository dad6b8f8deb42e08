/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Datagrams to systemd and the journal that are sent without ever waiting. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: outbox
 *
 * sd_notify() and the journal's own functions wait while the receiver's queue is full: for as long
 * as systemd or journald is stuck, or stopped. Here what cannot be sent at once waits in a queue of
 * SONDE_LIMIT_OUTBOX datagrams, in order, and is sent by the main loop; what comes when that is
 * full is lost, and counted.
 *
 * Any thread may send. The lock is held across calls that do not wait, and no others.
 */
typedef struct SondeOutbox SondeOutbox;

/* @address: of an AF_UNIX datagram socket: a path, or a name that begins with "@"; NULL: nobody
 * wants to hear anything. Returns: NULL for NULL: the others take it, and do nothing */
SondeOutbox *sonde_outbox_new (const char *address);
/* What waits has SONDE_LIMIT_OUTBOX_MS to go. */
void sonde_outbox_free (SondeOutbox *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeOutbox, sonde_outbox_free)

/* @fds: copied. Returns: FALSE if it is lost; of NULL always TRUE */
gboolean sonde_outbox_send (
    SondeOutbox *self, gconstpointer bytes, gsize n_bytes, const int *fds, guint n_fds);
/* The same of a text: "READY=1". */
gboolean sonde_outbox_tell (SondeOutbox *self, const char *text);
/* Datagrams that were lost so far. */
guint sonde_outbox_n_lost (SondeOutbox *self);
