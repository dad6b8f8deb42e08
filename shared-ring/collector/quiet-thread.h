/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starts threads of our own in other people's programs. */
#pragma once

#include <stdbool.h>

/**
 * sonde_quiet_thread_start:
 * @run: needs little stack
 *
 * The thread takes no signals, and nobody waits for it. Any thread, but not in signal handlers;
 * errno is left alone.
 *
 * Returns: false: there is none
 */
bool sonde_quiet_thread_start (void *(*run) (void *data), void *data);
