/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/write-all.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

int
sonde_write_all (int fd, const void *bytes, size_t size_bytes, off_t offset, size_t *n_written)
{
  const char *at = bytes;
  size_t done = 0;
  int error_number = 0;

  while (done < size_bytes && error_number == 0)
    {
      ssize_t n = offset >= 0 ? pwrite (fd, at + done, size_bytes - done, offset + (off_t) done)
                              : write (fd, at + done, size_bytes - done);

      if (n > 0)
        done += (size_t) n;
      else if (n == 0)
        error_number = ENOSPC; /* of a device that is full */
      else if (errno == EAGAIN)
        {
          struct pollfd room = { .fd = fd, .events = POLLOUT };

          poll (&room, 1, -1);
        }
      else if (errno != EINTR)
        error_number = errno;
    }
  if (n_written != NULL)
    *n_written = done;
  return error_number;
}
