/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-leavers.h"

#include <poll.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/audit.h"

struct SondePeerLeavers
{
  SondePeerLauncher *launcher;
  SondeFdStore *store; /* NULL: nothing outlives us */
  GQueue members;      /* Leaver */
};

typedef struct
{
  SondePeerLeavers *all;
  SondePeer *peer;
  SondePeerUnit *unit; /* instead: of the sonded before */
  uid_t uid;
  char *name; /* in the store; NULL: it is not there */
  guint timer;
  gboolean is_stuck;
} Leaver;

static void
leaver_free (gpointer data)
{
  Leaver *leaver = data;

  g_clear_handle_id (&leaver->timer, g_source_remove);
  sonde_peer_free (leaver->peer);
  sonde_peer_unit_free (leaver->unit);
  g_free (leaver->name);
  g_free (leaver);
}

static Leaver *
leaver_new (SondePeerLeavers *all, uid_t uid)
{
  Leaver *leaver = g_new0 (Leaver, 1);

  leaver->all = all;
  leaver->uid = uid;
  g_queue_push_tail (&all->members, leaver);
  return leaver;
}

static void
on_unit_ended (const char *how, gpointer user_data)
{
  Leaver *leaver = user_data;

  if (leaver->is_stuck)
    sonde_audit ("broker-ended", 0, leaver->uid, how);
  if (leaver->name != NULL)
    sonde_fd_store_remove (leaver->all->store, leaver->name);
  g_queue_remove (&leaver->all->members, leaver);
  leaver_free (leaver);
}

static void
on_gone (SondePeer *peer, const char *how, gpointer user_data)
{
  on_unit_ended (how, user_data);
}

static gboolean
on_stuck (gpointer user_data)
{
  Leaver *leaver = user_data;

  leaver->timer = 0;
  leaver->is_stuck = TRUE;
  sonde_audit ("broker-stuck", 0, leaver->uid,
               "A broker was killed and does not end: this user gets no new session until it does");
  return G_SOURCE_REMOVE;
}

SondePeerLeavers *
sonde_peer_leavers_new (SondePeerLauncher *launcher, SondeFdStore *store)
{
  SondePeerLeavers *self = g_new0 (SondePeerLeavers, 1);

  self->launcher = launcher;
  self->store = store != NULL && sonde_fd_store_is_there (store) ? store : NULL;
  g_queue_init (&self->members);
  return self;
}

void
sonde_peer_leavers_free (SondePeerLeavers *self)
{
  if (self == NULL)
    return;
  g_queue_clear_full (&self->members, leaver_free);
  g_free (self);
}

/* @pidfd: of the process that had the number then, and has it as long as that lives */
static gboolean
adopt_one (SondePeerLeavers *self, const char *name, int pidfd)
{
  g_auto (GStrv) words = g_strsplit (name, ".", 4);
  struct pollfd end = { .fd = pidfd, .events = POLLIN };
  guint64 uid;
  guint64 pid;
  Leaver *leaver;

  if (pidfd < 0 || g_strv_length (words) != 3 || !g_str_equal (words[0], "broker")
      || !g_ascii_string_to_unsigned (words[1], 10, 0, G_MAXUINT32 - 1, &uid, NULL)
      || !g_ascii_string_to_unsigned (words[2], 10, 1, G_MAXINT32, &pid, NULL))
    return FALSE;
  leaver = leaver_new (self, (uid_t) uid);
  leaver->unit = sonde_peer_unit_new (sonde_peer_launcher_bus (self->launcher), SONDE_PEER_BROKER,
                                      (pid_t) pid, on_unit_ended, leaver, NULL);
  if (leaver->unit == NULL || poll (&end, 1, 0) != 0)
    {
      leaver_free (g_queue_pop_tail (&self->members));
      return FALSE;
    }
  leaver->name = g_strdup (name);
  leaver->is_stuck = TRUE;
  sonde_peer_unit_kill (leaver->unit);
  return TRUE;
}

void
sonde_peer_leavers_adopt (SondePeerLeavers *self)
{
  const char *name;

  for (guint i = 0; self->store != NULL && (name = sonde_fd_store_left_name (self->store, i)); i++)
    if (!g_ascii_isdigit (name[0]))
      {
        sonde_autofd int pidfd = sonde_fd_store_take_left (self->store, i);

        if (!adopt_one (self, name, pidfd))
          sonde_fd_store_remove (self->store, name);
      }
}

void
sonde_peer_leavers_take (SondePeerLeavers *self, SondePeer *peer, uid_t uid)
{
  static const SondePeerHandler handler = { .message = NULL, .gone = on_gone };
  Leaver *leaver = leaver_new (self, uid);
  int pidfd = sonde_peer_pidfd (peer);

  leaver->peer = peer;
  leaver->timer
      = g_timeout_add (SONDE_LIMIT_PEER_EXIT_MS + SONDE_LIMIT_PEER_KILL_MS, on_stuck, leaver);
  if (pidfd >= 0 && self->store != NULL)
    {
      leaver->name = g_strdup_printf ("broker.%u.%d", (guint) uid, sonde_peer_pid (peer));
      sonde_fd_store_put (self->store, leaver->name, &pidfd, 1);
    }
  sonde_peer_dismiss (peer, &handler, leaver);
}

gboolean
sonde_peer_leavers_is_empty (const SondePeerLeavers *self)
{
  return g_queue_is_empty ((GQueue *) &self->members);
}

guint
sonde_peer_leavers_count (const SondePeerLeavers *self, uid_t uid, guint *n_stuck)
{
  guint n = 0;

  *n_stuck = 0;
  for (const GList *item = self->members.head; item != NULL; item = item->next)
    {
      const Leaver *leaver = item->data;

      n += leaver->uid == uid;
      *n_stuck += leaver->uid == uid && leaver->is_stuck;
    }
  return n;
}
