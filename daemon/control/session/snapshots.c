/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/quota.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct SondeSnapshot
{
  SondeSnapshots *owner;
  uid_t uid;
  int fd;           /* open for writing, which it is for nobody else */
  gsize size_bytes; /* 0: it is being written */
};

struct SondeSnapshots
{
  GPtrArray *all; /* SondeSnapshot */
  SondeUidRate *calls;
  guint timer;
};

static void
snapshot_free (gpointer data)
{
  SondeSnapshot *snapshot = data;

  sonde_clear_fd (&snapshot->fd);
  g_free (snapshot);
}

SondeSnapshots *
sonde_snapshots_new (void)
{
  SondeSnapshots *self = g_new0 (SondeSnapshots, 1);

  self->all = g_ptr_array_new_with_free_func (snapshot_free);
  self->calls = sonde_uid_rate_new (SONDE_LIMIT_SNAPSHOT_BURST, SONDE_LIMIT_SNAPSHOT_INTERVAL_US);
  return self;
}

void
sonde_snapshots_free (SondeSnapshots *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  g_ptr_array_unref (self->all);
  sonde_uid_rate_free (self->calls);
  g_free (self);
}

/* Where the kernel has no leases it is taken to be. */
static gboolean
is_in_use (const SondeSnapshot *snapshot)
{
  if (snapshot->size_bytes == 0)
    return TRUE;
  if (fcntl (snapshot->fd, F_SETLEASE, F_WRLCK) < 0)
    return TRUE;
  fcntl (snapshot->fd, F_SETLEASE, F_UNLCK);
  return FALSE;
}

static void
let_go (SondeSnapshots *self)
{
  for (guint i = self->all->len; i > 0; i--)
    if (!is_in_use (g_ptr_array_index (self->all, i - 1)))
      g_ptr_array_remove_index_fast (self->all, i - 1);
}

static gboolean
on_look (gpointer user_data)
{
  SondeSnapshots *self = user_data;

  let_go (self);
  if (self->all->len > 0)
    return G_SOURCE_CONTINUE;
  self->timer = 0;
  return G_SOURCE_REMOVE;
}

guint64
sonde_snapshots_measure (SondeSnapshots *self, uid_t uid, guint *n_snapshots)
{
  guint64 size_bytes = 0;

  let_go (self);
  *n_snapshots = 0;
  for (guint i = 0; i < self->all->len; i++)
    {
      const SondeSnapshot *snapshot = g_ptr_array_index (self->all, i);

      if (snapshot->uid != uid)
        continue;
      size_bytes += snapshot->size_bytes;
      ++*n_snapshots;
    }
  return size_bytes;
}

static gboolean
check (SondeSnapshots *self, uid_t uid, GError **error)
{
  gint64 now_us = g_get_monotonic_time ();
  guint n_snapshots;
  guint64 size_bytes = sonde_snapshots_measure (self, uid, &n_snapshots);
  guint n_being_written = 0;

  for (guint i = 0; i < self->all->len; i++)
    {
      const SondeSnapshot *snapshot = g_ptr_array_index (self->all, i);

      n_being_written += snapshot->uid == uid && snapshot->size_bytes == 0;
    }
  if (uid != 0 && !sonde_uid_rate_has_room (self->calls, uid, now_us))
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                 "Limit snapshot-calls: at most %d at once, then one a second",
                 SONDE_LIMIT_SNAPSHOT_BURST);
  else if (n_snapshots >= SONDE_LIMIT_SNAPSHOTS)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                 "Limit snapshots: %d of this user's are still open", SONDE_LIMIT_SNAPSHOTS);
  else if (n_being_written >= SONDE_LIMIT_SNAPSHOTS_AT_ONCE)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                 "Limit snapshots-at-once: %d of this user's are being written",
                 SONDE_LIMIT_SNAPSHOTS_AT_ONCE);
  else if (size_bytes >= SONDE_LIMIT_SNAPSHOT_BYTES)
    g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                 "Limit snapshot-bytes: those of this user that are still open have %d MiB",
                 SONDE_LIMIT_SNAPSHOT_BYTES >> 20);
  else
    {
      sonde_uid_rate_count (self->calls, uid, now_us);
      return TRUE;
    }
  return FALSE;
}

/* The file anew: with a position of its own, and the kernel knows who may write it, which it does
 * not of what memfd_create() gave. */
static int
reopen (int fd, int flags)
{
  char path[64];

  g_snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
  return open (path, flags | O_CLOEXEC);
}

SondeSnapshot *
sonde_snapshots_begin (SondeSnapshots *self, uid_t uid, GError **error)
{
  sonde_autofd int made = -1;
  sonde_autofd int fd = -1;
  SondeSnapshot *snapshot;

  if (!check (self, uid, error) || !sonde_quota_check_fds (uid, SONDE_LIMIT_SNAPSHOT_FDS, error))
    return NULL;
  made = memfd_create ("sonde-snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made >= 0)
    fd = reopen (made, O_RDWR);
  if (fd < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot make a place for the snapshot");
      return NULL;
    }
  snapshot = g_new0 (SondeSnapshot, 1);
  snapshot->owner = self;
  snapshot->uid = uid;
  snapshot->fd = sonde_steal_fd (&fd);
  g_ptr_array_add (self->all, snapshot);
  return snapshot;
}

int
sonde_snapshot_dup_fd (const SondeSnapshot *self, GError **error)
{
  int fd = fcntl (self->fd, F_DUPFD_CLOEXEC, 0);

  if (fd < 0)
    sonde_error_set_errno (error, errno, "Cannot hand on the place for the snapshot");
  return fd;
}

int
sonde_snapshot_seal (SondeSnapshot *self, GError **error)
{
  SondeSnapshots *owner = self->owner;
  sonde_autofd int fd = -1;
  struct stat st;

  /* EBUSY: the worker has it mapped for writing, which none of ours does. */
  if (fcntl (self->fd, F_ADD_SEALS, SEALS) < 0)
    sonde_error_set_errno (error, errno, "Cannot seal the snapshot");
  else if (fstat (self->fd, &st) < 0)
    sonde_error_set_errno (error, errno, "Cannot look at the snapshot");
  else if (st.st_size <= 0 || st.st_size > SONDE_LIMIT_SNAPSHOT_BYTES)
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                         "The worker wrote a snapshot of an impossible size");
  else if ((fd = reopen (self->fd, O_RDONLY)) < 0)
    sonde_error_set_errno (error, errno, "Cannot open the snapshot");
  if (fd < 0)
    {
      sonde_snapshot_drop (self);
      return -1;
    }
  self->size_bytes = (gsize) st.st_size;
  if (owner->timer == 0)
    owner->timer = g_timeout_add (SONDE_LIMIT_SNAPSHOT_LOOK_MS, on_look, owner);
  return sonde_steal_fd (&fd);
}

void
sonde_snapshot_drop (SondeSnapshot *self)
{
  if (self != NULL)
    g_ptr_array_remove_fast (self->owner->all, self);
}
