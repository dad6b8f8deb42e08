/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks that a descriptor is still the socket it was, in a program that may have closed it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/**
 * SECTION: known-socket
 *
 * Programs close descriptors that they do not know, when they become daemons for example, and then
 * get the same numbers for files of their own. Whoever keeps a descriptor inside another's program
 * must look before each use, or writes into such a file some day. So the socket is remembered with
 * its number: every socket has an inode of its own.
 */
typedef struct
{
  int fd; /* -1: none */
  dev_t device;
  ino_t inode;
} SondeKnownSocket;

/**
 * sonde_known_socket_init:
 * @fd: stays the caller's; -1: no socket
 *
 * Errors: -ENOTSOCK it is something else; errno of fstat(2)
 */
int sonde_known_socket_init (SondeKnownSocket *self, int fd);

/* Whether the number still stands for that socket; if not, there is none from now on. Any thread,
 * and signal handlers; may set errno. */
bool sonde_known_socket_check (SondeKnownSocket *self);

/* Closes it if it is still that socket. */
void sonde_known_socket_close (SondeKnownSocket *self);
