/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes that go on until everything is written. */
#pragma once

#include <sys/types.h>

/**
 * sonde_write_all:
 * @offset: where in a regular file; -1: where @fd stands
 * @n_written: (out) (nullable): bytes, fewer than @size_bytes after a failure
 *
 * Blocks until all is written, even if somebody else made @fd non-blocking.
 *
 * Returns: 0, or a positive errno
 */
int sonde_write_all (int fd, const void *bytes, size_t size_bytes, off_t offset, size_t *n_written);
