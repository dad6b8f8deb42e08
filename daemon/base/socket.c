/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/base/socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/error.h"

gboolean
sonde_socketpair (int type, int fds[2], GError **error)
{
  if (socketpair (AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
    return sonde_error_set_errno (error, errno, "Cannot make a socket pair");
  return TRUE;
}

int
sonde_send_with_fds (
    int socket, gconstpointer bytes, gsize size_bytes, const int *fds, unsigned n_fds)
{
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (SONDE_SEND_MAX_FDS * sizeof (int))];
  } control = { 0 };
  struct iovec vector = { .iov_base = (void *) bytes, .iov_len = size_bytes };
  struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };
  gssize n;

  g_assert (n_fds <= SONDE_SEND_MAX_FDS);
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
  n = sendmsg (socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0)
    return -errno;
  return n == (gssize) size_bytes ? 0 : -EMSGSIZE;
}
