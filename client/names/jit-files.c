/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where programs left the names of code that they made. */
#include "client/names/jit-files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/base/fd.h"

gboolean
sonde_jit_files_is_dump (const char *path, gint32 pid)
{
  g_autofree char *name = g_strdup_printf ("/jit-%d.dump", pid);

  return g_str_has_suffix (path, name);
}

/* Whose files tell of @pid, and what its number is where it runs. */
static uid_t
find_owner (gint32 pid, gint32 *inner_pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", pid);
  g_autofree char *status = NULL;
  const char *numbers;
  struct stat st;

  *inner_pid = pid;
  if (stat (path, &st) < 0 || !g_file_get_contents (path, &status, NULL, NULL))
    return geteuid ();
  numbers = strstr (status, "\nNSpid:");
  if (numbers != NULL)
    {
      g_autofree char *line = g_strndup (numbers + 7, strcspn (numbers + 7, "\n"));
      const char *last = strrchr (line, '\t');

      *inner_pid = (gint32) g_ascii_strtoll (last != NULL ? last + 1 : line, NULL, 10);
    }
  return st.st_uid;
}

/* Neither a link nor a file with two names can make us read somebody else's. */
static gboolean
is_trusted (int fd, uid_t owner)
{
  struct stat st;

  return fstat (fd, &st) == 0 && S_ISREG (st.st_mode) && st.st_uid == owner && st.st_nlink == 1;
}

static int
open_trusted (const char *root, const char *path, uid_t owner)
{
  sonde_autofd int folder = open (root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct open_how how = {
    .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW,
    .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
  };
  sonde_autofd int fd = -1;

  if (folder < 0)
    return -1;
  fd = (int) syscall (SYS_openat2, folder, path, &how, sizeof how);
  return fd >= 0 && is_trusted (fd, owner) ? sonde_steal_fd (&fd) : -1;
}

/* As the process sees it, or saw it if there is no such process any more. One with another number
 * inside lives in a container, whose files are not ours. */
static int
open_file (gint32 pid, gint32 inner_pid, const char *path, uid_t owner)
{
  g_autofree char *root = g_strdup_printf ("/proc/%d/root", pid);
  int fd = open_trusted (root, path, owner);

  return fd >= 0 || inner_pid != pid ? fd : open_trusted ("/", path, owner);
}

SondeJitMap *
sonde_jit_files_load (gint32 pid, const char *dump_path)
{
  gint32 inner_pid;
  uid_t owner = find_owner (pid, &inner_pid);
  g_autofree char *map_path = g_strdup_printf ("/tmp/perf-%d.map", inner_pid);
  sonde_autofd int map_fd = open_file (pid, inner_pid, map_path, owner);
  sonde_autofd int dump_fd = dump_path != NULL ? open_file (pid, inner_pid, dump_path, owner) : -1;
  SondeJitMap *map;

  if (map_fd < 0 && dump_fd < 0)
    return NULL;
  map = sonde_jit_map_new ();
  /* of a file that ends badly what came before counts */
  if (map != NULL && map_fd >= 0)
    sonde_jit_map_read_text (map, map_fd);
  if (map != NULL && dump_fd >= 0)
    sonde_jit_map_read_dump (map, dump_fd);
  if (map != NULL && sonde_jit_map_n_entries (map) == 0)
    g_clear_pointer (&map, sonde_jit_map_free);
  return map;
}
