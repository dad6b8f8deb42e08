/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/capture-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/audit.h"

#define SUFFIX ".syscap"
/* Captures of one label and number in a second. */
#define MAX_SAME_NAMES 16
/* Less room than this is none: the state alone of a busy machine takes as much. */
#define MIN_BYTES (G_GUINT64_CONSTANT (1) << 20)

struct SondeCaptureFiles
{
  char *directory;
  char *captures; /* path */
  int captures_fd;
  int owners_fd;
  GMutex lock;      /* of what follows; never held across a look at the disk */
  GHashTable *held; /* name → guint64 bytes it may grow to, 0 once it is complete: of sessions */
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

SondeCaptureFiles *
sonde_capture_files_new (const char *directory)
{
  SondeCaptureFiles *self = g_new0 (SondeCaptureFiles, 1);

  self->captures_fd = self->owners_fd = -1;
  self->directory = g_strdup (directory);
  self->captures = g_build_filename (directory, "captures", NULL);
  g_mutex_init (&self->lock);
  self->held = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  return self;
}

gboolean
sonde_capture_files_open (SondeCaptureFiles *self, GError **error)
{
  sonde_autofd int state_fd = -1;

  if (self->owners_fd >= 0)
    return TRUE;
  state_fd = open_directory (AT_FDCWD, self->directory, 0, error);
  if (state_fd < 0)
    return FALSE;
  sonde_clear_fd (&self->captures_fd);
  self->captures_fd = open_directory (state_fd, "captures", 0750, error);
  if (self->captures_fd < 0)
    return FALSE;
  self->owners_fd = open_directory (state_fd, "owners", 0700, error);
  return self->owners_fd >= 0;
}

void
sonde_capture_files_free (SondeCaptureFiles *self)
{
  if (self == NULL)
    return;
  sonde_clear_fd (&self->captures_fd);
  sonde_clear_fd (&self->owners_fd);
  g_hash_table_unref (self->held);
  g_mutex_clear (&self->lock);
  g_free (self->directory);
  g_free (self->captures);
  g_free (self);
}

/* --- names --- */

void
sonde_stored_capture_free (SondeStoredCapture *self)
{
  if (self == NULL)
    return;
  g_free (self->name);
  g_free (self->label);
  g_free (self);
}

/* "YYYYMMDDTHHMMSSZ" as µs since 1970. */
static gboolean
parse_time (const char *text, guint64 *time_us)
{
  g_autoptr (GDateTime) time = NULL;
  int year, month, day, hour, minute, second;

  for (guint i = 0; i < strlen ("YYYYMMDDTHHMMSSZ"); i++)
    if (!(i == 8 ? text[i] == 'T' : i == 15 ? text[i] == 'Z' : g_ascii_isdigit (text[i])))
      return FALSE;
  if (sscanf (text, "%4d%2d%2dT%2d%2d%2d", &year, &month, &day, &hour, &minute, &second) != 6)
    return FALSE;
  time = g_date_time_new_utc (year, month, day, hour, minute, second);
  if (time == NULL || g_date_time_to_unix (time) < 0)
    return FALSE;
  *time_us = (guint64) g_date_time_to_unix (time) * G_USEC_PER_SEC;
  return TRUE;
}

/* @label: (out) (optional): NULL if @name is not one that we give */
static gboolean
parse_name (const char *name, char **label, guint64 *start_us)
{
  const char *end = name
                    + strspn (name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789_.-");
  const char *number;
  const char *time;

  if (*end != '\0' || end - name > NAME_MAX || !g_str_has_suffix (name, SUFFIX))
    return FALSE;
  end -= strlen (SUFFIX);
  for (number = end; number > name && g_ascii_isdigit (number[-1]); number--)
    continue;
  if (number == end || number - name < (gssize) strlen ("L-YYYYMMDDTHHMMSSZ-") || number[-1] != '-')
    return FALSE;
  time = number - strlen ("YYYYMMDDTHHMMSSZ-");
  if (time[-1] != '-' || time - 1 - name > SONDE_LIMIT_LABEL || !parse_time (time, start_us))
    return FALSE;
  *label = g_strndup (name, (gsize) (time - 1 - name));
  return TRUE;
}

gboolean
sonde_capture_files_is_name (const char *name)
{
  g_autofree char *label = NULL;
  guint64 start_us;

  return parse_name (name, &label, &start_us);
}

/* --- what sessions have --- */

/* @max_bytes: (out) (optional): what it may grow to */
static gboolean
is_held (SondeCaptureFiles *self, const char *name, guint64 *max_bytes)
{
  const guint64 *held;

  g_mutex_lock (&self->lock);
  held = g_hash_table_lookup (self->held, name);
  if (held != NULL && max_bytes != NULL)
    *max_bytes = *held;
  g_mutex_unlock (&self->lock);
  return held != NULL;
}

static void
hold (SondeCaptureFiles *self, const char *name, guint64 max_bytes)
{
  g_mutex_lock (&self->lock);
  g_hash_table_insert (self->held, g_strdup (name), g_memdup2 (&max_bytes, sizeof max_bytes));
  g_mutex_unlock (&self->lock);
}

/* The file's name, if @path is of this store; else NULL. */
static const char *
name_of (SondeCaptureFiles *self, const char *path)
{
  gsize length = strlen (self->captures);

  if (strncmp (path, self->captures, length) != 0 || path[length] != '/'
      || strchr (path + length + 1, '/') != NULL)
    return NULL;
  return path + length + 1;
}

void
sonde_capture_files_hold (SondeCaptureFiles *self, const char *path, guint64 max_bytes)
{
  const char *name = name_of (self, path);

  if (name != NULL)
    hold (self, name, max_bytes);
}

void
sonde_capture_files_release (SondeCaptureFiles *self, const char *path)
{
  const char *name = name_of (self, path);

  if (name == NULL)
    return;
  g_mutex_lock (&self->lock);
  g_hash_table_remove (self->held, name);
  g_mutex_unlock (&self->lock);
}

/* --- what there is --- */

/* (transfer full): of @name as it is now; NULL: the file is gone */
static SondeStoredCapture *
stored_capture_new (SondeCaptureFiles *self, uid_t owner_uid, const char *name)
{
  guint64 max_bytes = 0;
  SondeStoredCapture *capture;
  struct stat st;

  if (fstatat (self->captures_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return NULL;
  is_held (self, name, &max_bytes);
  capture = g_new0 (SondeStoredCapture, 1);
  capture->name = g_strdup (name);
  parse_name (name, &capture->label, &capture->start_us);
  capture->owner_uid = owner_uid;
  capture->size_bytes = (guint64) st.st_size;
  capture->disk_bytes = (guint64) st.st_blocks * 512;
  capture->changed_us = (gint64) st.st_mtim.tv_sec * G_USEC_PER_SEC + st.st_mtim.tv_nsec / 1000;
  if (max_bytes > capture->size_bytes)
    capture->to_come_bytes = max_bytes - capture->size_bytes;
  return capture;
}

/* To @captures. */
static gboolean
add_captures_of (SondeCaptureFiles *self, uid_t owner_uid, GPtrArray *captures, GError **error)
{
  g_autofree char *owner = g_strdup_printf ("%u", owner_uid);
  int fd = openat (self->owners_fd, owner, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *directory = fd >= 0 ? fdopendir (fd) : NULL;
  const struct dirent *entry;

  if (fd < 0 && errno == ENOENT)
    return TRUE;
  if (directory == NULL)
    {
      sonde_error_set_errno (error, errno, "Cannot list the captures of a user");
      sonde_clear_fd (&fd);
      return FALSE;
    }
  for (guint n = 0; n <= SONDE_LIMIT_CAPTURE_FILES && (entry = readdir (directory)) != NULL;)
    {
      SondeStoredCapture *capture;

      if (g_str_equal (entry->d_name, ".") || g_str_equal (entry->d_name, ".."))
        continue;
      capture = stored_capture_new (self, owner_uid, entry->d_name);
      if (capture == NULL)
        unlinkat (fd, entry->d_name, 0);
      else
        {
          g_ptr_array_add (captures, capture);
          n++;
        }
    }
  closedir (directory);
  return TRUE;
}

/* (element-type uid_t): who has captures */
static GArray *
list_owners (SondeCaptureFiles *self)
{
  GArray *owners = g_array_new (FALSE, FALSE, sizeof (uid_t));
  int fd = openat (self->owners_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = fd >= 0 ? fdopendir (fd) : NULL;
  const struct dirent *entry;

  if (directory == NULL)
    {
      sonde_clear_fd (&fd);
      return owners;
    }
  while ((entry = readdir (directory)) != NULL)
    {
      guint64 number;

      if (g_ascii_string_to_unsigned (entry->d_name, 10, 0, G_MAXUINT32, &number, NULL))
        {
          uid_t uid = (uid_t) number;

          g_array_append_val (owners, uid);
        }
    }
  closedir (directory);
  return owners;
}

/* Those of @owner_uid, or NULL: of all; named as they should be or not. Links of files that were
 * removed go. */
static GPtrArray *
scan (SondeCaptureFiles *self, const uid_t *owner_uid, GError **error)
{
  g_autoptr (GPtrArray) captures
      = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_stored_capture_free);
  g_autoptr (GArray) owners = NULL;

  if (owner_uid != NULL)
    return add_captures_of (self, *owner_uid, captures, error) ? g_steal_pointer (&captures) : NULL;
  owners = list_owners (self);
  for (guint i = 0; i < owners->len; i++)
    if (!add_captures_of (self, g_array_index (owners, uid_t, i), captures, error))
      return NULL;
  return g_steal_pointer (&captures);
}

static int
compare_starts (gconstpointer a, gconstpointer b)
{
  const SondeStoredCapture *left = *(SondeStoredCapture *const *) a;
  const SondeStoredCapture *right = *(SondeStoredCapture *const *) b;

  return left->start_us != right->start_us ? (left->start_us > right->start_us ? 1 : -1)
                                           : strcmp (left->name, right->name);
}

GPtrArray *
sonde_capture_files_list (SondeCaptureFiles *self,
                          gboolean is_of_all,
                          uid_t owner_uid,
                          GError **error)
{
  g_autoptr (GPtrArray) captures = scan (self, is_of_all ? NULL : &owner_uid, error);

  if (captures == NULL)
    return NULL;
  /* What an administrator put there by hand counts, but has no name that could be asked for. */
  for (guint i = captures->len; i > 0; i--)
    if (((SondeStoredCapture *) g_ptr_array_index (captures, i - 1))->label == NULL)
      g_ptr_array_remove_index_fast (captures, i - 1);
  g_ptr_array_sort (captures, compare_starts);
  return g_steal_pointer (&captures);
}

gboolean
sonde_capture_files_is_of (SondeCaptureFiles *self, const char *name, uid_t uid)
{
  g_autofree char *link = g_strdup_printf ("%u/%s", uid, name);
  struct stat st;

  return sonde_capture_files_is_name (name)
         && fstatat (self->owners_fd, link, &st, AT_SYMLINK_NOFOLLOW) == 0
         && fstatat (self->captures_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

gboolean
sonde_capture_files_has_others (SondeCaptureFiles *self, uid_t uid)
{
  g_autoptr (GArray) owners = list_owners (self);

  for (guint i = 0; i < owners->len; i++)
    if (g_array_index (owners, uid_t, i) != uid)
      return TRUE;
  return FALSE;
}

/* --- quotas --- */

/* Bytes of the disk that all captures may take. */
static guint64
machine_bytes (SondeCaptureFiles *self, const SondeSettings *settings)
{
  guint64 wanted = settings->capture_machine_bytes;
  struct statvfs disk;

  if (wanted != 0)
    return MAX (wanted, MIN_BYTES);
  /* Nothing is removed by a guess. */
  if (fstatvfs (self->captures_fd, &disk) < 0)
    return G_MAXUINT64;
  return CLAMP ((guint64) disk.f_blocks * disk.f_frsize / 10, SONDE_LIMIT_CAPTURE_MACHINE_BYTES_MIN,
                SONDE_LIMIT_CAPTURE_MACHINE_BYTES_MAX);
}

/* What one more file may take of the disk. */
static gboolean
measure_disk (SondeCaptureFiles *self,
              const SondeSettings *settings,
              uid_t uid,
              guint64 *room,
              GError **error)
{
  g_autoptr (GPtrArray) held = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer name;
  struct statvfs disk;
  guint64 keep, left;

  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->held);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_ptr_array_add (held, g_strdup (name));
  g_mutex_unlock (&self->lock);
  if (fstatvfs (self->captures_fd, &disk) < 0)
    return sonde_error_set_errno (error, errno, "Cannot tell how full the disk is");
  keep = (guint64) disk.f_blocks * disk.f_frsize / 100 * settings->capture_free_percent;
  for (guint i = 0; i < held->len; i++)
    {
      g_autoptr (SondeStoredCapture) capture
          = stored_capture_new (self, 0, g_ptr_array_index (held, i));

      if (capture != NULL)
        keep += capture->to_come_bytes;
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
check_quotas (SondeCaptureFiles *self,
              const SondeSettings *settings,
              uid_t uid,
              guint64 *max_bytes,
              GError **error)
{
  g_autoptr (GPtrArray) captures = scan (self, &uid, error);
  guint64 taken = 0;
  guint64 room = 0;

  if (captures == NULL || !measure_disk (self, settings, uid, &room, error))
    return FALSE;
  for (guint i = 0; i < captures->len; i++)
    {
      const SondeStoredCapture *capture = g_ptr_array_index (captures, i);

      taken += capture->size_bytes + capture->to_come_bytes;
    }
  if (captures->len >= SONDE_LIMIT_CAPTURE_FILES)
    return refuse_limit (error, "capture-files",
                         "this user has too many capture files; RemoveCapture removes them");
  if (taken + MIN_BYTES > settings->capture_uid_bytes)
    return refuse_limit (
        error, "capture-uid-bytes",
        "the capture files of this user are too big together; RemoveCapture removes them");
  if (room < MIN_BYTES)
    return refuse_limit (error, "capture-free-percent", "the disk is too full for a capture file");
  *max_bytes = MIN (MIN (settings->capture_bytes, machine_bytes (self, settings)),
                    MIN (room, settings->capture_uid_bytes - taken));
  return TRUE;
}

/* --- files --- */

static int
open_file (SondeCaptureFiles *self, const char *name, GError **error)
{
  sonde_autofd int fd
      = openat (self->captures_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat st;

  if (fd < 0 && errno == ENOENT)
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_SESSION,
                         "There is no such capture");
  else if (fd < 0 || fstat (fd, &st) < 0)
    sonde_error_set_errno (error, errno, "Cannot open the capture file");
  else if (!S_ISREG (st.st_mode))
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The capture is not a file");
  else
    return sonde_steal_fd (&fd);
  return -1;
}

static int
create_file (SondeCaptureFiles *self, int owner_fd, const char *name, GError **error)
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

/* A sonded that knows nothing of the one before begins to count its sessions anew: one of the same
 * label and number is some seconds younger. */
static char *
find_name (const SondeCaptureFiles *self, int owner_fd, const char *label, guint64 session_id)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_utc ();
  struct stat st;

  for (guint i = 0;; i++)
    {
      g_autoptr (GDateTime) then = g_date_time_add_seconds (now, i);
      g_autofree char *time = g_date_time_format (then, "%Y%m%dT%H%M%SZ");
      g_autofree char *name
          = g_strdup_printf ("%s-%s-%" G_GUINT64_FORMAT SUFFIX, label, time, session_id);

      if (i == MAX_SAME_NAMES
          || (fstatat (self->captures_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0
              && fstatat (owner_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0))
        return g_steal_pointer (&name);
    }
}

int
sonde_capture_files_create (SondeCaptureFiles *self,
                            const SondeSettings *settings,
                            uid_t owner_uid,
                            const char *label,
                            guint64 session_id,
                            char **path,
                            guint64 *max_bytes,
                            GError **error)
{
  g_autofree char *name = NULL;
  g_autofree char *owner = g_strdup_printf ("%u", owner_uid);
  sonde_autofd int owner_fd = open_directory (self->owners_fd, owner, 0700, error);
  guint64 allowed_bytes;
  int fd;

  if (owner_fd < 0 || !check_quotas (self, settings, owner_uid, &allowed_bytes, error))
    return -1;
  name = find_name (self, owner_fd, label, session_id);
  fd = create_file (self, owner_fd, name, error);
  if (fd < 0)
    return -1;
  *path = g_build_filename (self->captures, name, NULL);
  *max_bytes = allowed_bytes;
  hold (self, name, allowed_bytes);
  return fd;
}

void
sonde_capture_files_complete (SondeCaptureFiles *self, const char *path)
{
  const char *name = name_of (self, path);
  guint64 *held;
  struct stat st;

  if (name == NULL)
    return;
  g_mutex_lock (&self->lock);
  held = g_hash_table_lookup (self->held, name);
  if (held != NULL)
    *held = 0;
  g_mutex_unlock (&self->lock);
  if (fstatat (self->captures_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size == 0)
    unlinkat (self->captures_fd, name, 0);
}

int
sonde_capture_files_reopen (SondeCaptureFiles *self, const char *path, GError **error)
{
  const char *name = name_of (self, path);

  if (name != NULL)
    return open_file (self, name, error);
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_FAILED, "Not a capture file of ours: %s", path);
  return -1;
}

/* --- by name --- */

static gboolean
check_complete (SondeCaptureFiles *self, const char *name, GError **error)
{
  guint64 max_bytes = 0;

  if (!is_held (self, name, &max_bytes) || max_bytes == 0)
    return TRUE;
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_INVALID_STATE,
                       "The capture is being written: its session goes on");
  return FALSE;
}

int
sonde_capture_files_open_stored (SondeCaptureFiles *self, const char *name, GError **error)
{
  g_assert (sonde_capture_files_is_name (name));

  return check_complete (self, name, error) ? open_file (self, name, error) : -1;
}

/* The file first: a link without a file goes when it is counted next, a file without a link never
 * would. */
static gboolean
remove_file (SondeCaptureFiles *self, const char *name, uid_t owner_uid, GError **error)
{
  g_autofree char *owner = g_strdup_printf ("%u", owner_uid);
  g_autofree char *link = g_build_filename (owner, name, NULL);

  if (unlinkat (self->captures_fd, name, 0) < 0 && errno != ENOENT)
    return sonde_error_set_errno (error, errno, "Cannot remove the capture %s", name);
  unlinkat (self->owners_fd, link, 0);
  unlinkat (self->owners_fd, owner, AT_REMOVEDIR); /* of who has no other */
  return TRUE;
}

gboolean
sonde_capture_files_remove (SondeCaptureFiles *self,
                            const char *name,
                            uid_t *owner_uid,
                            GError **error)
{
  g_autoptr (GArray) owners = NULL;

  g_assert (sonde_capture_files_is_name (name));

  if (!check_complete (self, name, error))
    return FALSE;
  owners = list_owners (self);
  for (guint i = 0; i < owners->len; i++)
    {
      uid_t uid = g_array_index (owners, uid_t, i);

      if (!sonde_capture_files_is_of (self, name, uid))
        continue;
      *owner_uid = uid;
      return remove_file (self, name, uid, error);
    }
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_SESSION, "There is no such capture");
  return FALSE;
}

/* --- what has to go --- */

static int
compare_ages (gconstpointer a, gconstpointer b)
{
  const SondeStoredCapture *left = *(SondeStoredCapture *const *) a;
  const SondeStoredCapture *right = *(SondeStoredCapture *const *) b;

  return (left->changed_us > right->changed_us) - (left->changed_us < right->changed_us);
}

/* The oldest one of whoever has most: nobody can have those of others removed by having many.
 * @by_files: most files, else most bytes. Returns: an index, @captures->len if none can go */
static guint
choose (SondeCaptureFiles *self, GPtrArray *captures, gboolean by_files)
{
  g_autoptr (GHashTable) taken = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  guint chosen = captures->len;
  guint64 most = 0;

  for (guint i = 0; i < captures->len; i++)
    {
      const SondeStoredCapture *capture = g_ptr_array_index (captures, i);
      gpointer uid = GUINT_TO_POINTER (capture->owner_uid);
      guint64 *of_uid = g_hash_table_lookup (taken, uid);

      if (of_uid == NULL)
        {
          of_uid = g_new0 (guint64, 1);
          g_hash_table_insert (taken, uid, of_uid);
        }
      *of_uid += by_files ? 1 : capture->disk_bytes;
    }
  for (guint i = 0; i < captures->len; i++)
    {
      const SondeStoredCapture *capture = g_ptr_array_index (captures, i);
      const guint64 *of_uid = g_hash_table_lookup (taken, GUINT_TO_POINTER (capture->owner_uid));

      if (*of_uid > most && !is_held (self, capture->name, NULL))
        {
          most = *of_uid;
          chosen = i;
        }
    }
  return chosen;
}

/* The next one to go, and why; @captures->len: none. */
static guint
find_surplus (SondeCaptureFiles *self,
              const SondeSettings *settings,
              GPtrArray *captures,
              char **why)
{
  guint64 days = settings->capture_days;
  gint64 oldest_us = g_get_real_time () - (gint64) days * 24 * 3600 * G_USEC_PER_SEC;
  guint64 max_bytes = machine_bytes (self, settings);
  guint64 taken = 0;

  for (guint i = 0; i < captures->len; i++)
    {
      const SondeStoredCapture *capture = g_ptr_array_index (captures, i);

      taken += capture->disk_bytes;
      if (days == 0 || capture->changed_us >= oldest_us || is_held (self, capture->name, NULL))
        continue;
      *why = g_strdup_printf ("older than %" G_GUINT64_FORMAT " days (capture-days)", days);
      return i;
    }
  if (taken > max_bytes)
    {
      *why = g_strdup_printf (
          "all take more than %" G_GUINT64_FORMAT " bytes (capture-machine-bytes)", max_bytes);
      return choose (self, captures, FALSE);
    }
  if (captures->len > SONDE_LIMIT_CAPTURE_MACHINE_FILES)
    {
      *why = g_strdup_printf ("there are more than %u (capture-machine-files)",
                              SONDE_LIMIT_CAPTURE_MACHINE_FILES);
      return choose (self, captures, TRUE);
    }
  return captures->len;
}

gboolean
sonde_capture_files_tidy (SondeCaptureFiles *self, const SondeSettings *settings)
{
  g_autoptr (GError) unlisted = NULL;
  g_autoptr (GPtrArray) captures = scan (self, NULL, &unlisted);
  gboolean has_failed = FALSE;

  if (captures == NULL)
    {
      g_warning ("Old captures are not removed: %s", unlisted->message);
      return FALSE;
    }
  g_ptr_array_sort (captures, compare_ages);
  for (guint n = 0; n < SONDE_LIMIT_CAPTURE_REMOVALS; n++)
    {
      g_autofree char *why = NULL;
      g_autofree char *detail = NULL;
      g_autoptr (GError) error = NULL;
      guint index = find_surplus (self, settings, captures, &why);
      const SondeStoredCapture *capture;

      if (index == captures->len)
        return FALSE;
      capture = g_ptr_array_index (captures, index);
      detail = g_strdup_printf ("%s: %s", capture->name, why);
      if (remove_file (self, capture->name, capture->owner_uid, &error))
        sonde_audit ("capture-removed", 0, capture->owner_uid, detail);
      else
        {
          g_warning ("%s", error->message);
          has_failed = TRUE;
        }
      g_ptr_array_remove_index (captures, index);
    }
  return !has_failed;
}
