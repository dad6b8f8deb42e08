/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors that close themselves, and what is written to them as a whole. */
#pragma once

#include <sys/types.h>
#include <unistd.h>

/* GLib has g_autofd from 2.76 on. */
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

/**
 * sonde_fd_write_all:
 * @offset: where in a regular file; -1: where @fd stands
 * @n_written: (out) (nullable): bytes, fewer than @size_bytes after a failure
 *
 * Blocks until all is written, even if somebody else made @fd non-blocking.
 *
 * Returns: 0, or a positive errno
 */
int
sonde_fd_write_all (int fd, const void *bytes, size_t size_bytes, off_t offset, size_t *n_written);
