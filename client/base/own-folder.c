/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/own-folder.h"

#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

static gboolean
is_own (int fd, struct stat *st)
{
  if (fstat (fd, st) < 0)
    return FALSE;
  errno = EPERM;
  return st->st_uid == geteuid () && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int
sonde_own_folder_open (const char *place, const char *name)
{
  sonde_autofd int outer = open (place, O_PATH | O_DIRECTORY | O_CLOEXEC);
  sonde_autofd int fd = -1;
  struct stat st;

  if (outer < 0 || !is_own (outer, &st))
    return -1;
  if (mkdirat (outer, name, 0700) < 0 && errno != EEXIST)
    return -1;
  fd = openat (outer, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || !is_own (fd, &st) || ((st.st_mode & 077) != 0 && fchmod (fd, 0700) < 0))
    return -1;
  return sonde_steal_fd (&fd);
}
