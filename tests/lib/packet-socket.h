/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bytes with descriptors, as any peer can send them. */
#pragma once

#include <string.h>
#include <sys/socket.h>

#include "daemon/base/message.h"

/* @fds stay the caller's. Returns what sendmsg() does. */
static inline ssize_t
packet_socket_send (
    int fd, const void *bytes, size_t size_bytes, const int *fds, unsigned n_fds, int flags)
{
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))];
  } control = { 0 };
  struct iovec vector = { (void *) bytes, size_bytes };
  struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };

  if (n_fds > 0)
    {
      struct cmsghdr *rights;

      header.msg_control = control.bytes;
      header.msg_controllen = CMSG_SPACE (n_fds * sizeof (int));
      rights = CMSG_FIRSTHDR (&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN (n_fds * sizeof (int));
      memcpy (CMSG_DATA (rights), fds, n_fds * sizeof (int));
    }
  return sendmsg (fd, &header, flags | MSG_NOSIGNAL);
}
