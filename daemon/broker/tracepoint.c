/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/tracepoint.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "daemon/broker/capabilities.h"
#include "daemon/base/proc-text.h"

/* The second is where it was before Linux 4.1, and where some still mount it alone. */
static const char *const mount_points[] = { "/sys/kernel/tracing", "/sys/kernel/debug/tracing" };

/* Without tracefs its mount point is an empty directory that somebody may have put files into. */
static int
open_tracefs (const char *path)
{
  sonde_autofd int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct statfs fs;

  if (fd < 0 || fstatfs (fd, &fs) < 0)
    return -errno;
  return fs.f_type == TRACEFS_MAGIC ? sonde_steal_fd (&fd) : -ENOENT;
}

gint64
sonde_tracepoint_id (const char *name)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_TRACEPOINTS);
  g_autofree char *path = g_strdup_printf ("events/%s/id", name);
  int result = -ENOENT;

  g_strdelimit (path, ":", '/');
  for (guint i = 0; i < G_N_ELEMENTS (mount_points); i++)
    {
      sonde_autofd int fd = open_tracefs (mount_points[i]);
      g_autofree char *text = fd >= 0 ? sonde_proc_text_read (fd, path, 64) : NULL;
      guint64 id;

      if (text != NULL
          && g_ascii_string_to_unsigned (g_strchomp (text), 10, 1, G_MAXUINT, &id, NULL))
        return (gint64) id;
      if (fd < 0)
        result = fd;
    }
  return result;
}
