/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/known-socket.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

int
sonde_known_socket_init (SondeKnownSocket *self, int fd)
{
  struct stat status;

  if (fd < 0)
    {
      *self = (SondeKnownSocket){ .fd = -1 };
      return 0;
    }
  if (fstat (fd, &status) < 0)
    return -errno;
  if (!S_ISSOCK (status.st_mode))
    return -ENOTSOCK;

  *self = (SondeKnownSocket){ .fd = fd, .device = status.st_dev, .inode = status.st_ino };
  return 0;
}

bool
sonde_known_socket_check (SondeKnownSocket *self)
{
  struct stat status;

  if (self->fd < 0)
    return false;
  if (fstat (self->fd, &status) < 0 || status.st_dev != self->device
      || status.st_ino != self->inode)
    self->fd = -1;

  return self->fd >= 0;
}

void
sonde_known_socket_close (SondeKnownSocket *self)
{
  if (sonde_known_socket_check (self))
    close (self->fd);
  self->fd = -1;
}
