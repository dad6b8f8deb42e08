/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/service/scope-names.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/text.h"
#include "client/base/unit-name.h"

#define MAX_NAME_BYTES 15u     /* TASK_COMM_LEN of the kernel, without the NUL */
#define MAX_DEPTH      16u     /* of control groups; systemd's own are five deep */
#define MAX_FOLDERS    100000u /* of these; of containers an honest machine has some hundreds */

/* --- processes --- */

static gboolean
is_called (const char *folder, const char *pid, const char *name)
{
  g_autofree char *path = g_build_filename (folder, pid, "comm", NULL);
  g_autofree char *comm = NULL;

  if (!g_file_get_contents (path, &comm, NULL, NULL))
    return FALSE;
  comm[strcspn (comm, "\n")] = '\0';
  return strncmp (comm, name, MAX_NAME_BYTES) == 0;
}

/* What proves to the service that we may. */
static gboolean
is_readable (const char *folder, const char *pid)
{
  g_autofree char *path = g_build_filename (folder, pid, "maps", NULL);
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);

  return fd >= 0;
}

gboolean
sonde_scope_names_add_processes (const char *folder, const char *name, GArray *pids, GError **error)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, error);
  g_autoptr (GArray) others = g_array_new (FALSE, FALSE, sizeof (GPid));
  guint n_before = pids->len;
  const char *entry;

  if (dir == NULL)
    return FALSE;
  while ((entry = g_dir_read_name (dir)) != NULL)
    {
      guint64 number;
      GPid pid;

      if (!g_ascii_string_to_unsigned (entry, 10, 1, G_MAXINT32, &number, NULL)
          || (pid_t) number == getpid () || !is_called (folder, entry, name))
        continue;
      pid = (GPid) number;
      if (is_readable (folder, entry))
        g_array_append_val (pids, pid);
      else
        g_array_append_val (others, pid);
    }
  if (pids->len == n_before)
    g_array_append_vals (pids, others->data, others->len);
  if (pids->len == n_before)
    {
      g_autofree char *shown = sonde_text_escape (name, -1);

      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "No process is called %s", shown);
    }
  return pids->len > n_before;
}

/* --- control groups --- */

char *
sonde_scope_names_dup_cgroup (const char *folder, const char *path)
{
  static const char *const own[] = { "/unified/", "/systemd/" };
  g_autofree char *mark = g_build_filename (folder, "cgroup.controllers", NULL);
  const char *below = path + strlen (folder);

  if (!g_str_has_prefix (path, folder))
    return NULL;
  if (g_file_test (mark, G_FILE_TEST_EXISTS)) /* version 2 alone */
    return g_strdup (below);
  for (gsize i = 0; i < G_N_ELEMENTS (own); i++)
    if (g_str_has_prefix (below, own[i]))
      return g_strdup (below + strlen (own[i]) - 1);
  return NULL;
}

/* --- containers --- */

typedef struct
{
  const char *container;
  const char *folder; /* where the search began */
  char *id;           /* all of it, of the first that was met */
  char *unit;         /* NULL: it is none, as far as is known */
  char *cgroup;       /* NULL: in no hierarchy of systemd's, as far as is known */
  gboolean is_ambiguous;
  guint n_folders;
} Search;

static void
search_clear (Search *self)
{
  g_free (self->id);
  g_free (self->unit);
  g_free (self->cgroup);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Search, search_clear)

/* @path: of a group that is meant, whose name is @group */
static void
add_found (Search *self, const char *path, const char *group)
{
  g_autofree char *id = sonde_cgroup_dup_container_id (group);

  if (self->id == NULL)
    self->id = g_strdup (id);
  if (!g_str_equal (self->id, id))
    self->is_ambiguous = TRUE;
  else
    {
      if (self->unit == NULL)
        self->unit = sonde_cgroup_dup_unit (group);
      if (self->cgroup == NULL)
        self->cgroup = sonde_scope_names_dup_cgroup (self->folder, path);
    }
}

/* A container may have several groups, in hierarchies of their own, of other names too, and others
 * below them. */
static void
search (Search *self, const char *path, guint depth)
{
  g_autoptr (GDir) dir = depth < MAX_DEPTH ? g_dir_open (path, 0, NULL) : NULL;
  const char *entry;

  while (dir != NULL && self->n_folders < MAX_FOLDERS && (entry = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *below = g_build_filename (path, entry, NULL);

      if (!g_file_test (below, G_FILE_TEST_IS_DIR) || g_file_test (below, G_FILE_TEST_IS_SYMLINK))
        continue;
      self->n_folders++;
      if (sonde_cgroup_is_container (entry, self->container))
        add_found (self, below, entry);
      else
        search (self, below, depth + 1);
    }
}

gboolean
sonde_scope_names_find_container (
    const char *folder, const char *container, char **unit, char **cgroup, GError **error)
{
  g_auto (Search) self = { .container = container, .folder = folder };
  g_autofree char *shown = sonde_text_escape (container, -1);

  search (&self, folder, 0);
  if (self.is_ambiguous)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                 "%s is the beginning of several containers", shown);
  else if (self.id == NULL)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "No container %s runs here", shown);
  else if (self.unit == NULL && self.cgroup == NULL)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                 "Container %s is in no control group of systemd's; -p records its processes",
                 shown);
  else
    {
      *cgroup = self.unit == NULL ? g_steal_pointer (&self.cgroup) : NULL;
      *unit = g_steal_pointer (&self.unit);
      return TRUE;
    }
  return FALSE;
}
