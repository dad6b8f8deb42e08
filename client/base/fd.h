/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors that close themselves. */
#pragma once

#include <unistd.h>

/* g_autofd begins with GLib 2.76. */
static inline void
sonde_clear_fd (int *fd)
{
  if (*fd >= 0)
    close (*fd);
  *fd = -1;
}

static inline int
sonde_steal_fd (int *fd)
{
  int taken = *fd;

  *fd = -1;
  return taken;
}

#define sonde_autofd __attribute__ ((cleanup (sonde_clear_fd)))
