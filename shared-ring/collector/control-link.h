/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the control socket of the program, or where to ask for one, and gets rings over it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared-ring/control-message.h"

/**
 * SECTION: control-link
 *
 * One per process, made when the first ring is wanted, and again by a child of fork() or when the
 * program has closed it: over the control socket that it inherited, or, where somebody has closed
 * that, too, at the rendezvous that the environment names. Where nobody was inherited, or who was
 * has gone, the beacon may call (beacon.h): then it is made where that says, without a key, and who
 * is refused there is so until he is called anew. A session that ends so leaves nothing but the
 * mapping of the beacon. All calls may come from any thread, but not from signal handlers; errno is
 * left alone.
 */

/* What a ring is asked for. */
typedef struct
{
  SondeProducer producer;
  size_t size_bytes; /* 0: as the profiler likes */
  bool is_common;    /* for all threads of the process, not for the calling one */
} SondeRingWish;

typedef struct
{
  int ring_fd;                   /* to be closed */
  int link_fd;                   /* stays the link's; -1: no doorbell */
  SondeControlRingAnswer answer; /* all zero of a Sysprof profiler; its number is the ring's */
} SondeRingGrant;

/**
 * sonde_control_link_is_there:
 * @producer: always the same one
 *
 * Returns: whether the environment names a control socket or a rendezvous, which is looked up once,
 *   and it has answered so far; or whether the beacon calls this process, and it was not refused
 */
bool sonde_control_link_is_there (SondeProducer producer);

/* Whether it may be there at another time: when the beacon's word is another one. */
bool sonde_control_link_may_come (void);

/* What else is to be done when the beacon's word has changed, where no event does it: a link whose
 * session is over is closed, and one is made if we are called. */
void sonde_control_link_follow (SondeProducer producer);

/* The program has closed itself by seccomp, or is about to: no socket is made any more, as that
 * might end it. What it has, it keeps. Also before main(); any thread. */
void sonde_control_link_confine (void);

/**
 * sonde_control_link_get_ring:
 *
 * Errors: -ENODEV there is no control socket, and nobody calls; -EBUSY this thread is in the middle
 * of a fork(); -ETIMEDOUT, -EPIPE, -EBADMSG it does not answer, or not what it should: it is not
 * asked again; what the profiler's answer says, such as -EDQUOT
 */
int sonde_control_link_get_ring (const SondeRingWish *wish, SondeRingGrant *grant);

/**
 * sonde_control_link_grow_ring:
 *
 * A SondeRingGrow of ring-writer.h, over the link that there is. Nobody is waited for who asks at
 * the same time, and the profiler for a second at most; if it does not answer it is not asked so
 * again.
 *
 * Errors: -ENODEV there is no link, or it may not be used for this; -EBUSY; -ETIMEDOUT; what the
 *   profiler's answer says, such as -EDQUOT
 */
int sonde_control_link_grow_ring (uint32_t number,
                                  size_t size_bytes,
                                  int *ring_fd,
                                  uint32_t *new_number);
