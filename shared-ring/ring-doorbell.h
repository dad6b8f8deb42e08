/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a writer wakes a reader that sleeps: a message on the link of its process. */
#pragma once

#include "shared-ring/known-socket.h"

/**
 * SECTION: ring-doorbell
 *
 * A reader that serves many rings polls descriptors, so a futex is not for it. An eventfd would be
 * one, but both sides would share its file description: the program could clear O_NONBLOCK and
 * empty the counter between the reader's poll and its read, and so block the reader. The two ends
 * of a socket pair are descriptions of their own, MSG_DONTWAIT is each call's own, and a full
 * socket means that a wake-up is under way anyway. The pair exists already: the link of
 * control-message.h, one per process, whose hang-up also tells that the program is gone.
 *
 * The number of the link may stand for something else by the time it is wanted (known-socket.h).
 */

/**
 * sonde_ring_doorbell_ring:
 * @link: the program's end of the link; without one nothing is done
 *
 * Any thread, and signal handlers. Does not block, and leaves errno alone.
 *
 * Returns: 0: the reader will look, or there is no doorbell
 * Errors: -EBADF the program closed the socket: @link is none from now on;
 *   -EPIPE the reader is gone
 */
int sonde_ring_doorbell_ring (SondeKnownSocket *link);
