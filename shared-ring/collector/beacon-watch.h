/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A thread that sleeps until the beacon's word changes, for programs that seldom make an event. */
#pragma once

#include <stdbool.h>

/**
 * sonde_beacon_watch_start:
 * @changed: called there once, and behind each change; with true, and then never again, if a filter
 *   lets nobody sleep there, so that no further change will be seen
 *
 * Once in a process, and again in a child of fork(); there has to be a beacon. The thread takes no
 * signals, is no point of cancellation, holds no lock while it sleeps, and calls only when the
 * profiler has changed the page, however often others wake it. Any thread, but not in signal
 * handlers; errno is left alone.
 */
void sonde_beacon_watch_start (void (*changed) (bool is_last));

/* Ends it, and waits until it has. Any thread but its own, and not in signal handlers; errno is
 * left alone. */
void sonde_beacon_watch_stop (void);
