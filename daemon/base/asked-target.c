/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/asked-target.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/closer.h"

SondeAskedTarget *
sonde_asked_target_new (pid_t pid, int maps_fd)
{
  SondeAskedTarget *self = sonde_asked_target_new_unproven (pid);

  self->has_proof = TRUE;
  self->maps_fd = maps_fd;
  return self;
}

SondeAskedTarget *
sonde_asked_target_new_unproven (pid_t pid)
{
  SondeAskedTarget *self = g_new0 (SondeAskedTarget, 1);

  self->pid = pid;
  self->maps_fd = -1;
  self->pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
  return self;
}

void
sonde_asked_target_free (SondeAskedTarget *self)
{
  if (self == NULL)
    return;
  sonde_closer_clear (&self->maps_fd);
  sonde_clear_fd (&self->pidfd);
  g_free (self);
}
