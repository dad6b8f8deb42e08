/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/private-beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/own-folder.h"

#define VARIABLE   "SONDE_BEACON"
#define FOLDER     "sonde-embedded"
#define FILE_BYTES 4096 /* SONDE_BEACON_BYTES: who maps less ends by SIGBUS */

/* Whoever else could write to it could have the user's programs meet whom he likes. */
static gboolean
is_own (const struct stat *st)
{
  return st->st_uid == geteuid () && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* (nullable): where what the user runs has its files. That of the environment is another's where
 * rights were changed alone. */
static char *
dup_runtime_folder (void)
{
  const char *folder = g_getenv ("XDG_RUNTIME_DIR");
  g_autofree char *usual = g_strdup_printf ("/run/user/%u", (guint) geteuid ());
  const char *const places[] = { folder != NULL && g_path_is_absolute (folder) ? folder : usual,
                                 usual, geteuid () == 0 ? "/run" : usual };
  struct stat st;

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    if (stat (places[i], &st) == 0 && S_ISDIR (st.st_mode) && is_own (&st))
      return g_strdup (places[i]);
  return NULL;
}

static char *
dup_path (void)
{
  const char *path = g_getenv (VARIABLE);
  g_autofree char *runtime = NULL;
  sonde_autofd int folder = -1;

  if (path != NULL && path[0] != '\0')
    return g_path_is_absolute (path) ? g_strdup (path) : NULL;
  runtime = dup_runtime_folder ();
  if (runtime != NULL)
    folder = sonde_own_folder_open (runtime, FOLDER);
  return folder >= 0 ? g_build_filename (runtime, FOLDER, "beacon", NULL) : NULL;
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
