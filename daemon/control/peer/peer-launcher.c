/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-launcher.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/peer/peer-spare.h"

struct SondePeerLauncher
{
  grefcount refs; /* workers that are being reaped outlive their session's manager */
  char *paths[SONDE_PEER_N_KINDS];
  SondePeerSpare *spares[SONDE_PEER_N_KINDS];
  SondeBusConnection *bus;
  SondeMessageSheet sheet;
  GSourceFunc sheet_done; /* NULL: nobody waits for it */
  gpointer sheet_data;
  guint sheet_timer;
  gboolean is_taken[SONDE_WORKER_N_UIDS];
};

const SondePeerKindRow *
sonde_peer_kind_row (SondePeerKind kind)
{
  static const SondePeerKindRow rows[SONDE_PEER_N_KINDS] = {
    [SONDE_PEER_BROKER] = { "broker", "sonde-broker@*", SONDE_WAY_BROKER_TO_FRONT, FALSE },
    [SONDE_PEER_CAPTURE] = { "worker", "sonde-worker@*", SONDE_WAY_WORKER_TO_FRONT, TRUE },
  };

  return &rows[kind];
}

SondePeerLauncher *
sonde_peer_launcher_new (const SondePeerPlace places[SONDE_PEER_N_KINDS])
{
  SondePeerLauncher *self = g_new0 (SondePeerLauncher, 1);

  g_ref_count_init (&self->refs);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    {
      self->paths[kind] = g_strdup (places[kind].path);
      self->spares[kind] = sonde_peer_spare_new (self, kind, places[kind].socket_path);
    }
  return self;
}

void
sonde_peer_launcher_set_bus (SondePeerLauncher *self, SondeBusConnection *bus)
{
  self->bus = bus;
}

SondePeerLauncher *
sonde_peer_launcher_ref (SondePeerLauncher *self)
{
  g_ref_count_inc (&self->refs);
  return self;
}

void
sonde_peer_launcher_unref (SondePeerLauncher *self)
{
  if (self == NULL || !g_ref_count_dec (&self->refs))
    return;
  g_clear_handle_id (&self->sheet_timer, g_source_remove);
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    {
      g_clear_pointer (&self->spares[kind], sonde_peer_spare_free);
      g_free (self->paths[kind]);
    }
  g_free (self);
}

const char *
sonde_peer_launcher_path (const SondePeerLauncher *self, SondePeerKind kind)
{
  return self->paths[kind];
}

SondeBusConnection *
sonde_peer_launcher_bus (const SondePeerLauncher *self)
{
  return self->bus;
}

int
sonde_peer_launcher_take (SondePeerLauncher *self,
                          SondePeerKind kind,
                          SondePeerProcess **process,
                          GError **error)
{
  return sonde_peer_spare_take (self->spares[kind], process, error);
}

/* --- what this machine has --- */

static gboolean
on_sheet_settled (gpointer user_data)
{
  SondePeerLauncher *self = user_data;
  GSourceFunc done = self->sheet_done;

  self->sheet_timer = 0;
  self->sheet_done = NULL;
  done (self->sheet_data);
  return G_SOURCE_REMOVE;
}

void
sonde_peer_launcher_take_sheet (SondePeerLauncher *self, const SondeMessageSheet *sheet)
{
  if (sheet != NULL && sheet->version == SONDE_MESSAGE_VERSION)
    self->sheet = *sheet;
  if (self->sheet_done == NULL)
    return;
  g_clear_handle_id (&self->sheet_timer, g_source_remove);
  self->sheet_timer = g_idle_add (on_sheet_settled, self);
}

const SondeMessageSheet *
sonde_peer_launcher_sheet (const SondePeerLauncher *self)
{
  return &self->sheet;
}

void
sonde_peer_launcher_await_sheet (SondePeerLauncher *self, GSourceFunc done, gpointer user_data)
{
  self->sheet_done = done;
  self->sheet_data = user_data;
  self->sheet_timer = sonde_peer_spare_is_there (self->spares[SONDE_PEER_BROKER])
                          ? g_timeout_add (SONDE_LIMIT_SHEET_MS, on_sheet_settled, self)
                          : g_idle_add (on_sheet_settled, self);
}

/* --- uids --- */

/* One system call instead of a look at all of /proc. */
static gboolean
has_process (uid_t uid)
{
  errno = 0;
  getpriority (PRIO_USER, uid);
  return errno != ESRCH;
}

gboolean
sonde_peer_launcher_take_uid (SondePeerLauncher *self, uid_t *uid, GError **error)
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
sonde_peer_launcher_give_uid_back (SondePeerLauncher *self, uid_t uid)
{
  if (uid != SONDE_WORKER_UID_NONE)
    self->is_taken[uid - SONDE_WORKER_UID_FIRST] = FALSE;
}
