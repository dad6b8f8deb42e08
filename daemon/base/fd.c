/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* File descriptors that close themselves. */
#include "config.h"

#include "daemon/base/fd.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/base/error.h"

gboolean
sonde_socketpair (int type, int fds[2], GError **error)
{
  if (socketpair (AF_UNIX, type | SOCK_CLOEXEC, 0, fds) < 0)
    return sonde_error_set_errno (error, errno, "Cannot make a socket pair");
  return TRUE;
}
