/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Notices processors that go off and come back while a session runs. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: cpu-follower
 *
 * The kernel ends the events of a whole processor when it goes off, and does not begin them again
 * when it is back. So the list of those that are online is looked at once a second, and so is
 * whether events still count, for one that was off for less than that. On the main loop.
 */
#define SONDE_CPUS_ONLINE_PATH "/sys/devices/system/cpu/online"

typedef struct SondeCpuFollower SondeCpuFollower;

typedef struct
{
  /* Whether the events of a processor that seems to have been on all the time still count. */
  gboolean (*is_counting) (int cpu, gpointer user_data);
  /* It is on again, or for the first time. @from_ns: CLOCK_MONOTONIC of the last look at which it
   * was on; 0 if there was none. FALSE: nothing can be done about it now; said again next time */
  gboolean (*came) (int cpu, gint64 from_ns, gpointer user_data);
} SondeCpuFollowerHandler;

/* @path: SONDE_CPUS_ONLINE_PATH; @cpus: (element-type gint): on at this moment */
SondeCpuFollower *sonde_cpu_follower_new (const char *path,
                                          const GArray *cpus,
                                          const SondeCpuFollowerHandler *handler,
                                          gpointer user_data);
void sonde_cpu_follower_free (SondeCpuFollower *self);

/* What happens once a second. A list that cannot be read changes nothing. */
void sonde_cpu_follower_look (SondeCpuFollower *self);
