/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/mcp/mcp-captures.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "client/base/own-folder.h"
#include "client/base/text.h"

#define FOLDER      "sonde-mcp"
#define MAX_TRIES   100u
#define MAX_SERVERS 1024u /* folders that are looked at */
#define MAX_FILES   256u  /* that are removed of one; a recording may leave more than its capture */

struct SondeMcpCaptures
{
  int outer_fd;     /* FOLDER; -1: nothing was made yet */
  int fd;           /* our own folder in it, which we hold the lock of */
  char *path;       /* its own */
  char *name;       /* in the outer one */
  GPtrArray *names; /* char*: captures, the oldest first */
  guint n_made;
};

static char *
file_of (const char *name)
{
  return g_strconcat (name, ".syscap", NULL);
}

SondeMcpCaptures *
sonde_mcp_captures_new (void)
{
  SondeMcpCaptures *self = g_new0 (SondeMcpCaptures, 1);

  self->outer_fd = self->fd = -1;
  self->names = g_ptr_array_new_with_free_func (g_free);
  return self;
}

/* The files in a folder, and it; folders are not looked into, as there are none. */
static void
remove_folder (int outer_fd, const char *name, int fd)
{
  int copy_fd = fcntl (fd, F_DUPFD_CLOEXEC, 0);
  DIR *dir = copy_fd >= 0 ? fdopendir (copy_fd) : NULL;
  const struct dirent *entry;

  for (guint i = 0; dir != NULL && i < MAX_FILES && (entry = readdir (dir)) != NULL; i++)
    if (entry->d_name[0] != '.')
      unlinkat (fd, entry->d_name, 0);
  if (dir != NULL)
    closedir (dir);
  else
    sonde_clear_fd (&copy_fd);
  unlinkat (outer_fd, name, AT_REMOVEDIR);
}

/* Of servers that are no more. */
static void
remove_old (int outer_fd)
{
  int copy_fd = fcntl (outer_fd, F_DUPFD_CLOEXEC, 0);
  DIR *dir = copy_fd >= 0 ? fdopendir (copy_fd) : NULL;
  const struct dirent *entry;

  for (guint i = 0; dir != NULL && i < MAX_SERVERS && (entry = readdir (dir)) != NULL; i++)
    {
      sonde_autofd int fd = -1;

      if (entry->d_name[0] == '.')
        continue;
      fd = openat (outer_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd >= 0 && flock (fd, LOCK_EX | LOCK_NB) == 0)
        remove_folder (outer_fd, entry->d_name, fd);
    }
  if (dir != NULL)
    closedir (dir);
  else
    sonde_clear_fd (&copy_fd);
}

/* FALSE with errno. */
static gboolean
make_folder (SondeMcpCaptures *self, const char *place)
{
  for (guint i = 0; i < MAX_TRIES; i++)
    {
      g_autofree char *name = g_strdup_printf ("%08x", g_random_int ());
      sonde_autofd int fd = -1;

      if (mkdirat (self->outer_fd, name, 0700) < 0)
        {
          if (errno == EEXIST)
            continue;
          return FALSE;
        }
      fd = openat (self->outer_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      /* a server that begins now may have taken it for an old one */
      if (fd < 0 || flock (fd, LOCK_EX | LOCK_NB) < 0
          || faccessat (self->outer_fd, name, F_OK, 0) < 0)
        continue;
      self->fd = sonde_steal_fd (&fd);
      self->path = g_build_filename (place, FOLDER, name, NULL);
      self->name = g_steal_pointer (&name);
      return TRUE;
    }
  errno = EEXIST;
  return FALSE;
}

static gboolean
open_folder (SondeMcpCaptures *self, GError **error)
{
  const char *const places[] = { g_get_user_runtime_dir (), g_get_user_cache_dir () };
  int saved_errno = 0;

  for (guint i = 0; i < G_N_ELEMENTS (places) && self->fd < 0; i++)
    {
      if (g_mkdir_with_parents (places[i], 0700) == 0)
        self->outer_fd = sonde_own_folder_open (places[i], FOLDER);
      if (self->outer_fd >= 0)
        {
          remove_old (self->outer_fd);
          if (make_folder (self, places[i]))
            return TRUE;
        }
      saved_errno = errno;
      sonde_clear_fd (&self->outer_fd);
    }
  if (self->fd >= 0)
    return TRUE;
  g_set_error (error, G_IO_ERROR, (gint) g_io_error_from_errno (saved_errno),
               "Captures find no place in the run-time folder, nor among the caches: %s",
               g_strerror (saved_errno));
  return FALSE;
}

void
sonde_mcp_captures_remove (SondeMcpCaptures *self, const char *name)
{
  g_autofree char *file = file_of (name);
  guint index;

  if (!g_ptr_array_find_with_equal_func (self->names, name, g_str_equal, &index))
    return;
  unlinkat (self->fd, file, 0);
  g_ptr_array_remove_index (self->names, index);
}

char *
sonde_mcp_captures_dup_path (const SondeMcpCaptures *self, const char *name)
{
  g_autofree char *file = file_of (name);

  return g_build_filename (self->path, file, NULL);
}

gint64
sonde_mcp_captures_size (const SondeMcpCaptures *self, const char *name)
{
  g_autofree char *file = file_of (name);
  struct stat st;

  return self->fd >= 0 && fstatat (self->fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : 0;
}

char *
sonde_mcp_captures_add (SondeMcpCaptures *self, GError **error)
{
  gint64 n_bytes = 0;
  char *name;

  if (!open_folder (self, error))
    return NULL;
  for (guint i = 0; i < self->names->len; i++)
    n_bytes += sonde_mcp_captures_size (self, g_ptr_array_index (self->names, i));
  while (self->names->len >= SONDE_MCP_CAPTURES_MOST
         || (self->names->len > 0 && n_bytes > SONDE_MCP_CAPTURES_BYTES - SONDE_MCP_CAPTURE_BYTES))
    {
      const char *oldest = g_ptr_array_index (self->names, 0);

      n_bytes -= sonde_mcp_captures_size (self, oldest);
      sonde_mcp_captures_remove (self, oldest);
    }
  name = g_strdup_printf ("c%u", ++self->n_made);
  g_ptr_array_add (self->names, g_strdup (name));
  return name;
}

char *
sonde_mcp_captures_find (const SondeMcpCaptures *self, const char *word, GError **error)
{
  g_autofree char *shown = sonde_text_escape (word, -1);

  if (g_ptr_array_find_with_equal_func (self->names, word, g_str_equal, NULL))
    return sonde_mcp_captures_dup_path (self, word);
  if (word[0] == '/' && strlen (word) < PATH_MAX)
    {
      struct stat st;

      /* what has no end is not waited for */
      if (stat (word, &st) == 0 && S_ISREG (st.st_mode))
        return g_strdup (word);
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "%s is no file", shown);
    }
  else
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                 "there is no capture %s: record made %u, of which %u are kept; a file is named by "
                 "its absolute path",
                 shown, self->n_made, self->names->len);
  return NULL;
}

void
sonde_mcp_captures_free (SondeMcpCaptures *self)
{
  if (self == NULL)
    return;
  if (self->fd >= 0)
    remove_folder (self->outer_fd, self->name, self->fd);
  sonde_clear_fd (&self->fd);
  sonde_clear_fd (&self->outer_fd);
  g_ptr_array_unref (self->names);
  g_free (self->path);
  g_free (self->name);
  g_free (self);
}
