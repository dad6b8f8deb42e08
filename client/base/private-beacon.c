/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/private-beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define VARIABLE   "SONDE_BEACON"
#define FOLDER     "sonde-embedded"
#define FILE_BYTES 4096 /* SONDE_BEACON_BYTES: who maps less ends by SIGBUS */

/* (nullable): where what the user runs has its files. */
static char *
dup_runtime_folder (void)
{
  const char *folder = g_getenv ("XDG_RUNTIME_DIR");
  g_autofree char *usual = g_strdup_printf ("/run/user/%u", (guint) geteuid ());

  if (folder != NULL && g_path_is_absolute (folder))
    return g_strdup (folder);
  if (access (usual, X_OK) == 0)
    return g_steal_pointer (&usual);
  return geteuid () == 0 ? g_strdup ("/run") : NULL;
}

/* Whoever else could write to it could have the user's programs meet whom he likes. */
static gboolean
is_own (const struct stat *st)
{
  return st->st_uid == geteuid () && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static char *
dup_path (void)
{
  const char *path = g_getenv (VARIABLE);
  g_autofree char *runtime = NULL;
  g_autofree char *folder = NULL;
  struct stat st;

  if (path != NULL && path[0] != '\0')
    return g_path_is_absolute (path) ? g_strdup (path) : NULL;
  runtime = dup_runtime_folder ();
  if (runtime == NULL)
    return NULL;
  folder = g_build_filename (runtime, FOLDER, NULL);
  if (mkdir (folder, 0700) < 0 && errno != EEXIST)
    return NULL;
  if (lstat (folder, &st) < 0 || !S_ISDIR (st.st_mode) || !is_own (&st))
    return NULL;
  return g_build_filename (folder, "beacon", NULL);
}

char *
sonde_private_beacon_make (void)
{
  g_autofree char *path = dup_path ();
  sonde_autofd int fd = -1;
  struct stat st;

  if (path != NULL)
    fd = open (path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
  if (fd < 0 || fstat (fd, &st) < 0 || !S_ISREG (st.st_mode) || !is_own (&st)
      || posix_fallocate (fd, 0, FILE_BYTES) != 0)
    return NULL;
  return g_steal_pointer (&path);
}
