/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looks at the beacon: whether a profiler that inherited nothing of ours wants this process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "shared-ring/beacon-layout.h"

/**
 * SECTION: beacon
 *
 * The page is mapped once, when the process starts, from SONDE_BEACON_PATH or where SONDE_BEACON in
 * the environment says; a process that found none looks again when it executes something. Children
 * of fork() have their parent's mapping. Programs that got rights by being executed have none.
 */

/* Once before anything else here; again does nothing. */
void sonde_beacon_open (void);
bool sonde_beacon_is_there (void);

/* The word of the page that grows; of this process, 0, if there is no page. */
extern const uint32_t *sonde_beacon_word __attribute__ ((visibility ("hidden")));

/* As the page has it now. Any thread, and signal handlers; a few cycles. */
static inline uint32_t
sonde_beacon_generation (void)
{
  /* Pairs with the release of the profiler: the calls are seen. */
  return sonde_ring_load_acquire (sonde_beacon_word);
}

/* Of this process's effective uid, as sonde_beacon_find_call(); 0: it is not called. */
uint64_t sonde_beacon_call (SondeProducer producer);

/* Where to. Returns: bytes of @address; 0: it is none */
socklen_t sonde_beacon_read_address (struct sockaddr_un *address);

/* @text: of @size bytes, "/PATH" or "@NAME". Returns: bytes of @address; 0: it is none */
socklen_t sonde_beacon_parse_address (const char *text, size_t size, struct sockaddr_un *address);
