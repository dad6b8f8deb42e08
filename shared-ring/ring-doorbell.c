/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How a writer wakes a reader that sleeps: a message on the link of its process. */
#include "shared-ring/ring-doorbell.h"

#include <errno.h>
#include <sys/socket.h>

#include "shared-ring/control-message.h"

int
sonde_ring_doorbell_ring (SondeKnownSocket *link)
{
  static const SondeControlHeader bell
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_BELL };
  int saved_errno = errno;
  int r = 0;

  if (link->fd < 0)
    return 0;

  if (!sonde_known_socket_check (link))
    r = -EBADF;
  else if (send (link->fd, &bell, sizeof bell, MSG_DONTWAIT | MSG_NOSIGNAL) < 0
           && (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN))
    r = -EPIPE;

  errno = saved_errno;
  return r;
}
