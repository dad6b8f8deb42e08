/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-leavers.h"

#include "daemon/base/limits.h"
#include "daemon/control/system/audit.h"

struct SondePeerLeavers
{
  GQueue members; /* Leaver */
};

typedef struct
{
  SondePeerLeavers *all;
  SondePeer *peer;
  uid_t uid;
  guint timer;
  gboolean is_stuck;
} Leaver;

static void
leaver_free (gpointer data)
{
  Leaver *leaver = data;

  g_clear_handle_id (&leaver->timer, g_source_remove);
  sonde_peer_free (leaver->peer);
  g_free (leaver);
}

static void
on_gone (SondePeer *peer, const char *how, gpointer user_data)
{
  Leaver *leaver = user_data;

  if (leaver->is_stuck)
    sonde_audit ("broker-ended", 0, leaver->uid, how);
  g_queue_remove (&leaver->all->members, leaver);
  leaver_free (leaver);
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
sonde_peer_leavers_new (void)
{
  SondePeerLeavers *self = g_new0 (SondePeerLeavers, 1);

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

void
sonde_peer_leavers_take (SondePeerLeavers *self, SondePeer *peer, uid_t uid)
{
  static const SondePeerHandler handler = { .message = NULL, .gone = on_gone };
  Leaver *leaver = g_new0 (Leaver, 1);

  leaver->all = self;
  leaver->peer = peer;
  leaver->uid = uid;
  leaver->timer
      = g_timeout_add (SONDE_LIMIT_PEER_EXIT_MS + SONDE_LIMIT_PEER_KILL_MS, on_stuck, leaver);
  g_queue_push_tail (&self->members, leaver);
  sonde_peer_dismiss (peer, &handler, leaver);
}

guint
sonde_peer_leavers_n_stuck (const SondePeerLeavers *self, uid_t uid)
{
  guint n = 0;

  for (const GList *item = self->members.head; item != NULL; item = item->next)
    {
      const Leaver *leaver = item->data;

      n += leaver->is_stuck && leaver->uid == uid;
    }
  return n;
}
