/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The proof that the caller may read a process. */
#include "client/library/process-proof.h"

#include <errno.h>
#include <fcntl.h>

int
sonde_process_proof_open (gint pid, GError **error)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", pid);
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  if (fd < 0)
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "Cannot read process %d: %s",
                 pid, g_strerror (errno));
  return fd;
}
