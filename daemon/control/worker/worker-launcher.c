/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How workers are started: by systemd, or as our children with a uid for each. */
#include "daemon/control/worker/worker-launcher.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/error.h"

struct SondeWorkerLauncher
{
  grefcount refs;            /* workers that are being reaped outlive their session's manager */
  char *path;                /* or: */
  SondeWorkerSocket *socket; /* and: */
  SondeBusConnection *bus;
  gboolean is_taken[SONDE_WORKER_N_UIDS];
};

SondeWorkerLauncher *
sonde_worker_launcher_new (const char *path)
{
  SondeWorkerLauncher *self = g_new0 (SondeWorkerLauncher, 1);

  g_ref_count_init (&self->refs);
  self->path = g_strdup (path);
  return self;
}

SondeWorkerLauncher *
sonde_worker_launcher_new_systemd (const char *socket_path, SondeBusConnection *bus)
{
  SondeWorkerLauncher *self = sonde_worker_launcher_new (NULL);

  self->socket = sonde_worker_socket_new (socket_path);
  self->bus = bus;
  return self;
}

SondeWorkerLauncher *
sonde_worker_launcher_ref (SondeWorkerLauncher *self)
{
  g_ref_count_inc (&self->refs);
  return self;
}

void
sonde_worker_launcher_unref (SondeWorkerLauncher *self)
{
  if (self == NULL || !g_ref_count_dec (&self->refs))
    return;
  g_clear_pointer (&self->socket, sonde_worker_socket_free);
  g_free (self->path);
  g_free (self);
}

const char *
sonde_worker_launcher_path (const SondeWorkerLauncher *self)
{
  return self->path;
}

SondeWorkerSocket *
sonde_worker_launcher_socket (const SondeWorkerLauncher *self)
{
  return self->socket;
}

SondeBusConnection *
sonde_worker_launcher_bus (const SondeWorkerLauncher *self)
{
  return self->bus;
}

/* One system call instead of a look at all of /proc. */
static gboolean
has_process (uid_t uid)
{
  errno = 0;
  getpriority (PRIO_USER, uid);
  return errno != ESRCH;
}

gboolean
sonde_worker_launcher_take_uid (SondeWorkerLauncher *self, uid_t *uid, GError **error)
{
  /* Anywhere, so that two daemons which look at the same time hardly find the same. */
  guint first = g_random_int_range (0, SONDE_WORKER_N_UIDS);

  if (geteuid () != 0)
    {
      *uid = SONDE_WORKER_UID_NONE;
      return TRUE;
    }
  for (guint i = 0; i < SONDE_WORKER_N_UIDS; i++)
    {
      guint index = (first + i) % SONDE_WORKER_N_UIDS;

      if (self->is_taken[index] || has_process (SONDE_WORKER_UID_FIRST + index))
        continue;
      self->is_taken[index] = TRUE;
      *uid = SONDE_WORKER_UID_FIRST + index;
      return TRUE;
    }
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
               "All %u user ids of workers, %u and up, are in use", SONDE_WORKER_N_UIDS,
               SONDE_WORKER_UID_FIRST);
  return FALSE;
}

void
sonde_worker_launcher_give_uid_back (SondeWorkerLauncher *self, uid_t uid)
{
  if (uid != SONDE_WORKER_UID_NONE)
    self->is_taken[uid - SONDE_WORKER_UID_FIRST] = FALSE;
}
