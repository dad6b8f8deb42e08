/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens the file of a mapping, if it is still the one that was recorded. */
#include "client/names/mapped-file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "client/base/fd.h"
#include "client/base/text.h"
#include "symbols/debug-reference.h"

#define NS_PER_S G_GINT64_CONSTANT (1000000000)

/* Opening a device or a FIFO would have effects: its type is looked at first. */
static int
open_regular (const char *path, struct stat *st, char **problem)
{
  sonde_autofd int handle = open (path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  g_autofree char *by_handle = g_strdup_printf ("/proc/self/fd/%d", handle);
  int fd;

  if (handle < 0 || fstat (handle, st) < 0)
    {
      *problem = g_strdup_printf ("cannot be opened: %s", g_strerror (errno));
      return -1;
    }
  if (!S_ISREG (st->st_mode))
    {
      *problem = g_strdup ("is no regular file");
      return -1;
    }
  fd = open (by_handle, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    *problem = g_strdup_printf ("cannot be read: %s", g_strerror (errno));
  return fd;
}

static char *
judge_build_id (int fd, const char *wanted)
{
  SondeDebugReference reference = { 0 };
  char hex[2 * SONDE_BUILD_ID_MAX + 1];
  g_autofree char *shown = sonde_text_escape (wanted, -1);

  (void) sonde_debug_reference_read (fd, &reference); /* no ELF file has none */
  sonde_debug_reference_hex (&reference, hex);
  if (hex[0] == '\0')
    return g_strdup_printf ("is not the file that was recorded: it has no build id, that had %s",
                            shown);
  return g_ascii_strcasecmp (hex, wanted) == 0
             ? NULL
             : g_strdup_printf ("is another build than was recorded: build id %s, not %s", hex,
                                shown);
}

/* ctime, which nobody can set back: neither in-place writing nor cp -p escapes it. */
static char *
judge_inode (const struct stat *st, const SondeMapping *mapping, gint64 changed_ns)
{
  if (mapping->inode == 0 || st->st_ino != mapping->inode)
    return g_strdup ("is not the file that was recorded");
  if (st->st_ctim.tv_sec >= G_MAXINT64 / NS_PER_S || st->st_ctim.tv_sec < 0)
    return g_strdup ("has an impossible time of its last change");
  return st->st_ctim.tv_sec * NS_PER_S + st->st_ctim.tv_nsec > changed_ns
             ? g_strdup ("was changed after it was recorded, and the capture has no build id of it")
             : NULL;
}

int
sonde_mapped_file_open (const char *path,
                        const SondeMapping *mapping,
                        gint64 changed_ns,
                        char **problem)
{
  g_autofree char *why = NULL;
  struct stat st;
  sonde_autofd int fd = open_regular (path, &st, &why);

  if (fd >= 0)
    why = mapping->build_id != NULL ? judge_build_id (fd, mapping->build_id)
                                    : judge_inode (&st, mapping, changed_ns);
  if (why == NULL)
    return sonde_steal_fd (&fd);
  if (problem != NULL)
    *problem = g_steal_pointer (&why);
  return -1;
}
