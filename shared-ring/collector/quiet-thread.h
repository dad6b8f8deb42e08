/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starts threads of our own in other people's programs, and waits for their end. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

/* All zero: none. */
typedef struct
{
  pthread_t thread;
  pid_t pid; /* of the process that it is in: a child of fork() has none of its parent's; 0: none */
} SondeQuietThread;

/**
 * sonde_quiet_thread_start:
 * @run: needs little stack
 *
 * The thread takes no signals. One that was started before has been told to end, and is waited for.
 * Any thread, but not in signal handlers; errno is left alone.
 *
 * Returns: false: there is none
 */
bool sonde_quiet_thread_start (SondeQuietThread *self, void *(*run) (void *data), void *data);

/* It has been told to end. Of another process it is none. */
void sonde_quiet_thread_join (SondeQuietThread *self);
