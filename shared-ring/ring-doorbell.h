/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a writer wakes a reader that sleeps: a message on the link of its process. */
#pragma once

#include <sys/types.h>

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
 * Programs close descriptors that they do not know, and then get the same number for a file of
 * their own. So the writer remembers which socket the number stood for, and looks before it rings.
 */
typedef struct
{
  int fd; /* -1: none */
  dev_t device;
  ino_t inode;
} SondeRingDoorbell;

/**
 * sonde_ring_doorbell_init:
 * @fd: the program's end of the link; stays the caller's; -1: this ring has no doorbell
 *
 * Errors: -ENOTSOCK it is something else; errno of fstat(2)
 */
int sonde_ring_doorbell_init (SondeRingDoorbell *self, int fd);

/**
 * sonde_ring_doorbell_ring:
 *
 * Any thread, and signal handlers. Does not block, and leaves errno alone.
 *
 * Returns: 0: the reader will look, or there is no doorbell
 * Errors: -EBADF the program closed the socket: from now on there is no doorbell;
 *   -EPIPE the reader is gone
 */
int sonde_ring_doorbell_ring (SondeRingDoorbell *self);
