/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The capture files that sonded keeps for its callers. */
#include "daemon/control/capture-store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/base/limits.h"

/* Less room than this is none: the state alone of a busy machine takes as much. */
#define MIN_CAPTURE_BYTES (G_GUINT64_CONSTANT (1) << 20)

struct SondeCaptureStore
{
  const SondeSettings *settings;
  char *captures; /* path */
  int captures_fd;
  int owners_fd;
  GHashTable *reserved; /* name → guint64 bytes, of files that are written */
};

static gboolean
check_directory (int fd, const char *path, GError **error)
{
  struct stat st;

  if (fstat (fd, &st) < 0)
    return sonde_error_set_errno (error, errno, "Cannot inspect %s", path);
  if (st.st_uid == geteuid () && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Others can write to %s", path);
  return FALSE;
}

/* @at: -1 for an absolute @name; @mode 0: it must exist */
static int
open_directory (int at, const char *name, mode_t mode, GError **error)
{
  sonde_autofd int fd = -1;

  if (mode != 0 && mkdirat (at, name, mode) < 0 && errno != EEXIST)
    {
      sonde_error_set_errno (error, errno, "Cannot make the directory %s", name);
      return -1;
    }
  fd = openat (at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot open the directory %s", name);
      return -1;
    }
  return check_directory (fd, name, error) ? sonde_steal_fd (&fd) : -1;
}

SondeCaptureStore *
sonde_capture_store_new (const char *directory, const SondeSettings *settings, GError **error)
{
  g_autoptr (SondeCaptureStore) self = g_new0 (SondeCaptureStore, 1);
  sonde_autofd int state_fd = -1;

  self->settings = settings;
  self->captures_fd = self->owners_fd = -1;
  self->captures = g_build_filename (directory, "captures", NULL);
  self->reserved = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  state_fd = open_directory (AT_FDCWD, directory, 0, error);
  if (state_fd < 0)
    return NULL;
  self->captures_fd = open_directory (state_fd, "captures", 0750, error);
  if (self->captures_fd < 0)
    return NULL;
  self->owners_fd = open_directory (state_fd, "owners", 0700, error);
  return self->owners_fd >= 0 ? g_steal_pointer (&self) : NULL;
}

void
sonde_capture_store_free (SondeCaptureStore *self)
{
  if (self == NULL)
    return;
  sonde_clear_fd (&self->captures_fd);
  sonde_clear_fd (&self->owners_fd);
  g_hash_table_unref (self->reserved);
  g_free (self->captures);
  g_free (self);
}

/* --- quotas --- */

/* What @name takes, or may take while it is written. FALSE: it is gone. */
static gboolean
measure (const SondeCaptureStore *self, const char *name, guint64 *taken, guint64 *to_come)
{
  const guint64 *reserved = g_hash_table_lookup (self->reserved, name);
  struct stat st;
  guint64 size_bytes;

  if (fstatat (self->captures_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return FALSE;
  size_bytes = (guint64) st.st_size;
  *to_come = reserved != NULL && *reserved > size_bytes ? *reserved - size_bytes : 0;
  *taken = size_bytes + *to_come;
  return TRUE;
}

/* @owner_fd: the directory of one uid's links; links of files that were removed go as well. */
static gboolean
count_captures (
    const SondeCaptureStore *self, int owner_fd, guint *n_files, guint64 *taken, GError **error)
{
  int fd = openat (owner_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = fd >= 0 ? fdopendir (fd) : NULL;
  const struct dirent *entry;

  if (directory == NULL)
    {
      sonde_error_set_errno (error, errno, "Cannot list the captures of a user");
      sonde_clear_fd (&fd);
      return FALSE;
    }
  *n_files = 0;
  *taken = 0;
  while (*n_files <= SONDE_LIMIT_CAPTURE_FILES && (entry = readdir (directory)) != NULL)
    {
      guint64 of_file, to_come;

      if (g_str_equal (entry->d_name, ".") || g_str_equal (entry->d_name, ".."))
        continue;
      if (measure (self, entry->d_name, &of_file, &to_come))
        {
          (*n_files)++;
          *taken += of_file;
        }
      else
        unlinkat (owner_fd, entry->d_name, 0);
    }
  closedir (directory);
  return TRUE;
}

/* What one more file may take of the disk. */
static gboolean
measure_disk (const SondeCaptureStore *self, uid_t uid, guint64 *room, GError **error)
{
  struct statvfs disk;
  GHashTableIter iter;
  gpointer name;
  guint64 keep, left;

  if (fstatvfs (self->captures_fd, &disk) < 0)
    return sonde_error_set_errno (error, errno, "Cannot tell how full the disk is");
  keep = (guint64) disk.f_blocks * disk.f_frsize / 100 * self->settings->capture_free_percent;
  g_hash_table_iter_init (&iter, self->reserved);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    {
      guint64 taken, to_come;

      if (measure (self, name, &taken, &to_come))
        keep += to_come;
    }
  left = (guint64) disk.f_bavail * disk.f_frsize;
  *room = left > keep ? left - keep : 0;
  if (uid != 0)
    *room /= 2;
  return TRUE;
}

static gboolean
refuse_limit (GError **error, const char *limit, const char *why)
{
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED, "Limit %s: %s", limit, why);
  return FALSE;
}

static gboolean
check_quotas (
    const SondeCaptureStore *self, int owner_fd, uid_t uid, guint64 *max_bytes, GError **error)
{
  guint64 taken = 0;
  guint64 room = 0;
  guint n_files;

  if (!count_captures (self, owner_fd, &n_files, &taken, error)
      || !measure_disk (self, uid, &room, error))
    return FALSE;
  if (n_files >= SONDE_LIMIT_CAPTURE_FILES)
    return refuse_limit (error, "capture-files", "this user has too many capture files");
  if (taken + MIN_CAPTURE_BYTES > self->settings->capture_uid_bytes)
    return refuse_limit (error, "capture-uid-bytes", "the capture files of this user are too big");
  if (room < MIN_CAPTURE_BYTES)
    return refuse_limit (error, "capture-free-percent", "the disk is too full for a capture file");
  *max_bytes
      = MIN (MIN (self->settings->capture_bytes, room), self->settings->capture_uid_bytes - taken);
  return TRUE;
}

/* --- files --- */

static int
create_file (SondeCaptureStore *self, int owner_fd, const char *name, GError **error)
{
  g_autofree char *target = g_strconcat ("../../captures/", name, NULL);
  sonde_autofd int fd = -1;

  /* The link first: what is on the disk always counts. */
  if (symlinkat (target, owner_fd, name) < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot note the owner of a capture file");
      return -1;
    }
  fd = openat (self->captures_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
  if (fd < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot create a capture file");
      unlinkat (owner_fd, name, 0);
      return -1;
    }
  fchmod (fd, 0640); /* whatever the umask is */
  return sonde_steal_fd (&fd);
}

int
sonde_capture_store_open (SondeCaptureStore *self,
                          uid_t owner_uid,
                          const char *label,
                          guint64 session_id,
                          char **path,
                          guint64 *max_bytes,
                          GError **error)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  g_autofree char *time = g_date_time_format (now, "%Y%m%dT%H%M%SZ");
  g_autofree char *name
      = g_strdup_printf ("%s-%s-%" G_GUINT64_FORMAT ".syscap", label, time, session_id);
  g_autofree char *owner = g_strdup_printf ("%u", owner_uid);
  sonde_autofd int owner_fd = open_directory (self->owners_fd, owner, 0700, error);
  guint64 allowed_bytes;
  int fd;

  if (owner_fd < 0 || !check_quotas (self, owner_fd, owner_uid, &allowed_bytes, error))
    return -1;
  fd = create_file (self, owner_fd, name, error);
  if (fd < 0)
    return -1;
  *path = g_build_filename (self->captures, name, NULL);
  *max_bytes = allowed_bytes;
  g_hash_table_insert (self->reserved, g_steal_pointer (&name),
                       g_memdup2 (&allowed_bytes, sizeof allowed_bytes));
  return fd;
}

/* The file's name, if @path is of this store; else NULL. */
static const char *
name_of (const SondeCaptureStore *self, const char *path)
{
  gsize length = strlen (self->captures);

  if (strncmp (path, self->captures, length) != 0 || path[length] != '/'
      || strchr (path + length + 1, '/') != NULL)
    return NULL;
  return path + length + 1;
}

void
sonde_capture_store_reserve (SondeCaptureStore *self, const char *path, guint64 max_bytes)
{
  const char *name = name_of (self, path);

  if (name != NULL)
    g_hash_table_insert (self->reserved, g_strdup (name), g_memdup2 (&max_bytes, sizeof max_bytes));
}

void
sonde_capture_store_release (SondeCaptureStore *self, const char *path)
{
  const char *name = name_of (self, path);
  struct stat st;

  if (name == NULL)
    return;
  g_hash_table_remove (self->reserved, name);
  if (fstatat (self->captures_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size == 0)
    unlinkat (self->captures_fd, name, 0);
}

int
sonde_capture_store_reopen (SondeCaptureStore *self, const char *path, GError **error)
{
  const char *name = name_of (self, path);
  int fd;

  if (name == NULL)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Not a capture file of ours: %s", path);
      return -1;
    }
  fd = openat (self->captures_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    sonde_error_set_errno (error, errno, "Cannot open the capture file %s", path);
  return fd;
}
