/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A broker and a worker that a test plays: all that a session uses of peer.h and peer-launcher.h,
 * or both are linked. */
#pragma once

#include <gio/gio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/control/session/session-private.h"
#include "tests/fuzz/packet.h"

struct SondePeer
{
  SondeMessageWay to; /* what is sent to it */
  const SondePeerHandler *handler;
  gpointer user_data;
  gboolean is_there;
  gboolean is_deaf; /* what is sent to it fails */
  gboolean is_behind;
  gboolean is_held;
  guint n_sent;
  SondeMessageType last_sent;
};

static struct SondePeer peers[SONDE_PEER_N_KINDS];

static SondePeer *
begin_peer (SondePeerKind kind, const SondePeerHandler *handler, gpointer user_data)
{
  if (peers[kind].is_there)
    abort ();
  peers[kind] = (struct SondePeer){ .to = kind == SONDE_PEER_BROKER ? SONDE_WAY_FRONT_TO_BROKER
                                                                    : SONDE_WAY_FRONT_TO_WORKER,
                                    .handler = handler,
                                    .user_data = user_data,
                                    .is_there = TRUE };
  return &peers[kind];
}

SondePeer *
sonde_peer_start (SondePeerLauncher *launcher,
                  SondePeerKind kind,
                  const SondePeerHandler *handler,
                  gpointer user_data,
                  GError **error)
{
  return begin_peer (kind, handler, user_data);
}

SondePeerLauncher *
sonde_peer_launcher_ref (SondePeerLauncher *self)
{
  return self;
}

void
sonde_peer_launcher_unref (SondePeerLauncher *self)
{
}

void
sonde_peer_launcher_take_sheet (SondePeerLauncher *self, const SondeMessageSheet *sheet)
{
}

void
sonde_peer_free (SondePeer *self)
{
  if (self != NULL)
    self->is_there = FALSE;
}

void
sonde_peer_leave (SondePeer *self)
{
  abort ();
}

SondePeer *
sonde_peer_adopt (SondePeerLauncher *launcher,
                  SondePeerKind kind,
                  int fd,
                  pid_t pid,
                  const SondePeerHandler *handler,
                  gpointer user_data)
{
  close (fd);
  return begin_peer (kind, handler, user_data);
}

pid_t
sonde_peer_pid (const SondePeer *self)
{
  return 0;
}

gboolean
sonde_peer_measure (const SondePeer *self, SondeProcCost *cost)
{
  return FALSE;
}

void
sonde_peer_set_share (SondePeer *self, const SondeUnitShare *share)
{
}

const SondeChannel *
sonde_peer_channel (const SondePeer *self)
{
  return NULL;
}

gboolean
sonde_peer_is_behind (const SondePeer *self)
{
  return self->is_behind;
}

void
sonde_peer_hold (SondePeer *self, gboolean is_held)
{
  self->is_held = is_held;
}

/* It may still be heard, until it is reaped. */
void
sonde_peer_kill (SondePeer *self)
{
}

gboolean
sonde_peer_send (SondePeer *self,
                 gpointer message,
                 gsize size_bytes,
                 const int *fds,
                 unsigned n_fds,
                 GError **error)
{
  ((SondeMessageHeader *) message)->size = (guint32) size_bytes;
  if (!self->is_there || !packet_is_good (message, size_bytes, n_fds, self->to))
    abort ();
  for (unsigned i = 0; i < n_fds; i++)
    if (fds[i] < 0 || close (fds[i]) < 0)
      abort ();
  self->n_sent++;
  self->last_sent = ((SondeMessageHeader *) message)->type;
  if (self->is_deaf)
    g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED, "It does not read");
  return !self->is_deaf;
}

gboolean
sonde_peer_send_simple (SondePeer *self, SondeMessageType type, GError **error)
{
  SondeMessageHeader header = { .type = type };

  return sonde_peer_send (self, &header, sizeof header, NULL, 0, error);
}
