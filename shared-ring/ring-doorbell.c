/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a writer wakes a reader that sleeps: a message on the link of its process. */
#include "shared-ring/ring-doorbell.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "shared-ring/control-message.h"

int
sonde_ring_doorbell_init (SondeRingDoorbell *self, int fd)
{
  struct stat status;

  if (fd < 0)
    {
      *self = (SondeRingDoorbell){ .fd = -1 };
      return 0;
    }
  if (fstat (fd, &status) < 0)
    return -errno;
  if (!S_ISSOCK (status.st_mode))
    return -ENOTSOCK;

  *self = (SondeRingDoorbell){ .fd = fd, .device = status.st_dev, .inode = status.st_ino };
  return 0;
}

static bool
is_still_ours (const SondeRingDoorbell *self)
{
  struct stat status;

  return fstat (self->fd, &status) == 0 && status.st_dev == self->device
         && status.st_ino == self->inode;
}

int
sonde_ring_doorbell_ring (SondeRingDoorbell *self)
{
  static const SondeControlHeader bell
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_BELL };
  int saved_errno = errno;
  int r = 0;

  if (self->fd < 0)
    return 0;

  if (!is_still_ours (self))
    {
      self->fd = -1;
      r = -EBADF;
    }
  else if (send (self->fd, &bell, sizeof bell, MSG_DONTWAIT | MSG_NOSIGNAL) < 0
           && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
    r = -EPIPE;

  errno = saved_errno;
  return r;
}
