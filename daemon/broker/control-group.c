/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/control-group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <glib-unix.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/broker/rights.h"
#include "daemon/base/proc-text.h"

/* In the order of preference; the key is what stands before the path in /proc/PID/cgroup. */
static const struct
{
  const char *root;
  const char *key;
  long magic;
} hierarchies[] = {
  { "/sys/fs/cgroup", "0::", CGROUP2_SUPER_MAGIC },
  { "/sys/fs/cgroup/unified", "0::", CGROUP2_SUPER_MAGIC },
  { "/sys/fs/cgroup/systemd", ":name=systemd:", CGROUP_SUPER_MAGIC },
};

struct SondeControlGroup
{
  char *path;
  char *name; /* of what it is, for messages */
  const char *key;
  gboolean is_unified;
  int fd;
};

/* Returns: a descriptor or a negative errno; -ENOTDIR if nothing of that kind is mounted there */
static int
open_root (gsize index)
{
  sonde_autofd int fd = open (hierarchies[index].root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct statfs fs;

  if (fd < 0 || fstatfs (fd, &fs) < 0)
    return -ENOTDIR;
  return fs.f_type == hierarchies[index].magic ? sonde_steal_fd (&fd) : -ENOTDIR;
}

/* Returns: a descriptor or a negative errno */
static int
open_group (int root_fd, const char *path)
{
  int result = sonde_proc_open_below (root_fd, path, O_RDONLY | O_DIRECTORY);
  sonde_autofd int fd = result;
  struct stat root;
  struct stat st;

  if (result < 0)
    return result;
  if (fstat (root_fd, &root) < 0 || fstat (fd, &st) < 0)
    return -errno;
  /* "/a/.." would be the whole machine, for which another right is asked. */
  return st.st_dev == root.st_dev && st.st_ino != root.st_ino ? sonde_steal_fd (&fd) : -EXDEV;
}

SondeControlGroup *
sonde_control_group_open (const char *path, const char *unit, GError **error)
{
  const char *option = unit[0] != '\0' ? "unit" : "cgroup";
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  gsize size_bytes = strlen (path);
  int result = -ENOTDIR;

  if (path[0] != '/' || size_bytes <= 1 || size_bytes >= PATH_MAX || path[size_bytes - 1] == '/')
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                   "Option %s: that is no path of a control group", option);
      return NULL;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (hierarchies); i++)
    {
      sonde_autofd int root_fd = open_root (i);
      sonde_autofd int fd = root_fd >= 0 ? open_group (root_fd, path) : -ENOTDIR;
      SondeControlGroup *self;

      if (fd < 0)
        {
          /* A group that is nowhere is another thing than no hierarchy. */
          result = fd != -ENOTDIR ? fd : result;
          continue;
        }
      self = g_new0 (SondeControlGroup, 1);
      self->path = g_strdup (path);
      self->name = unit[0] != '\0' ? g_strdup_printf ("Unit %s", unit)
                                   : g_strdup_printf ("Control group %s", path);
      self->key = hierarchies[i].key;
      self->is_unified = hierarchies[i].magic == CGROUP2_SUPER_MAGIC;
      self->fd = sonde_steal_fd (&fd);
      return self;
    }
  if (result == -ENOENT)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS,
                 "Option %s: there is no control group %s", option, path);
  else if (result == -ENOTDIR)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                 "Option %s: /sys/fs/cgroup holds no control groups of systemd's", option);
  else
    sonde_error_set_errno (error, -result, "Option %s: cannot open control group %s", option, path);
  return NULL;
}

void
sonde_control_group_free (SondeControlGroup *self)
{
  if (self == NULL)
    return;
  sonde_clear_fd (&self->fd);
  g_free (self->path);
  g_free (self->name);
  g_free (self);
}

const char *
sonde_control_group_name (const SondeControlGroup *self)
{
  return self->name;
}

int
sonde_control_group_fd (const SondeControlGroup *self)
{
  return self->is_unified ? self->fd : -1;
}

typedef struct
{
  GArray *pids;
  guint n_groups;
} Search;

static gboolean
refuse_size (GError **error)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
               "Limit unit-groups: more than %d processes, %d control groups or %d levels of them",
               SONDE_LIMIT_EVENTS, SONDE_LIMIT_UNIT_GROUPS, SONDE_LIMIT_UNIT_DEPTH);
  return FALSE;
}

/* A group that goes while we look had nobody in it. */
static gboolean
add_members (Search *search, int group_fd, GError **error)
{
  g_autofree char *text
      = sonde_proc_text_read (group_fd, "cgroup.procs", SONDE_LIMIT_PROC_TEXT_BYTES);
  const char *at = text;

  while (at != NULL && g_ascii_isdigit (*at))
    {
      char *end;
      gint64 number = g_ascii_strtoll (at, &end, 10);
      pid_t pid = (pid_t) number;

      /* 0: in another pid namespace than ours. */
      if (number > 0 && number <= G_MAXINT)
        g_array_append_val (search->pids, pid);
      at = *end == '\n' ? end + 1 : NULL;
      if (search->pids->len > SONDE_LIMIT_EVENTS)
        return refuse_size (error);
    }
  return TRUE;
}

static gboolean search_group (Search *search, int group_fd, guint depth, GError **error);

static gboolean
search_below (Search *search, DIR *directory, guint depth, GError **error)
{
  const struct dirent *entry;

  while ((entry = readdir (directory)) != NULL)
    {
      sonde_autofd int fd = -1;

      if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
        continue;
      fd = openat (dirfd (directory), entry->d_name,
                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd >= 0 && !search_group (search, fd, depth + 1, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
search_group (Search *search, int group_fd, guint depth, GError **error)
{
  sonde_autofd int fd = openat (group_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory;
  gboolean is_within;

  if (depth > SONDE_LIMIT_UNIT_DEPTH || ++search->n_groups > SONDE_LIMIT_UNIT_GROUPS)
    return refuse_size (error);
  if (!add_members (search, group_fd, error))
    return FALSE;
  directory = fd >= 0 ? fdopendir (fd) : NULL;
  if (directory == NULL)
    return TRUE;
  (void) sonde_steal_fd (&fd);
  is_within = search_below (search, directory, depth, error);
  closedir (directory);
  return is_within;
}

GArray *
sonde_control_group_list (const SondeControlGroup *self, GError **error)
{
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_PROCESSES);
  Search search = { .pids = g_array_new (FALSE, FALSE, sizeof (pid_t)) };
  g_autoptr (GArray) pids = search.pids;

  return search_group (&search, self->fd, 0, error) ? g_steal_pointer (&pids) : NULL;
}

gboolean
sonde_control_group_is_empty (const SondeControlGroup *self)
{
  g_autofree char *text = NULL;
  g_autoptr (GArray) pids = NULL;
  g_autoptr (GError) error = NULL;

  if (self->is_unified)
    {
      text = sonde_proc_text_read (self->fd, "cgroup.events", 4096);
      return text == NULL || strstr (text, "populated 1") == NULL;
    }
  pids = sonde_control_group_list (self, &error);
  return pids != NULL && pids->len == 0;
}

gboolean
sonde_control_group_contains (const SondeControlGroup *self, const char *text)
{
  return sonde_cgroup_is_below (text, self->key, self->path);
}

/* --- its end --- */

struct SondeGroupWatch
{
  const SondeControlGroup *group;
  int events_fd; /* -1: the hierarchy is of version 1, where one must look again and again */
  guint source;
  void (*emptied) (gpointer user_data);
  gpointer user_data;
};

static gboolean
look (gpointer user_data)
{
  SondeGroupWatch *self = user_data;

  if (!sonde_control_group_is_empty (self->group))
    return G_SOURCE_CONTINUE;
  self->source = 0;
  self->emptied (self->user_data);
  return G_SOURCE_REMOVE;
}

static gboolean
on_changed (int fd, GIOCondition condition, gpointer user_data)
{
  SondeGroupWatch *self = user_data;
  char text[256];

  /* A read, of however little, arms the kernel's poll again; of a group that is gone it fails. */
  if (pread (fd, text, sizeof text, 0) >= 0)
    return look (self);
  self->source = 0;
  self->emptied (self->user_data);
  return G_SOURCE_REMOVE;
}

SondeGroupWatch *
sonde_group_watch_new (const SondeControlGroup *group,
                       void (*emptied) (gpointer user_data),
                       gpointer user_data)
{
  SondeGroupWatch *self = g_new0 (SondeGroupWatch, 1);

  self->group = group;
  self->emptied = emptied;
  self->user_data = user_data;
  self->events_fd
      = group->is_unified ? openat (group->fd, "cgroup.events", O_RDONLY | O_CLOEXEC) : -1;
  /* An open file that was never read polls as changed: so what happened before is not missed.
   * Source: cgroups(7), cgroup.events */
  self->source = self->events_fd >= 0 ? g_unix_fd_add (self->events_fd, G_IO_PRI, on_changed, self)
                                      : g_timeout_add (SONDE_LIMIT_GROUP_LOOK_MS, look, self);
  return self;
}

void
sonde_group_watch_free (SondeGroupWatch *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->source, g_source_remove);
  sonde_clear_fd (&self->events_fd);
  g_free (self);
}
