/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/peer/peer-launcher.h"

#include "daemon/base/limits.h"
#include "daemon/control/peer/peer-spare.h"

struct SondePeerLauncher
{
  grefcount refs; /* brokers that do not end outlive their session's manager */
  SondePeerProcesses *processes;
  SondePeerSpare *spares[SONDE_PEER_N_KINDS];
  SondeBusConnection *bus;
  SondeMessageSheet sheet;
  GSourceFunc sheet_done; /* NULL: nobody waits for it */
  gpointer sheet_data;
  guint sheet_timer;
};

const SondePeerKindRow *
sonde_peer_kind_row (SondePeerKind kind)
{
  static const SondePeerKindRow rows[SONDE_PEER_N_KINDS] = {
    [SONDE_PEER_BROKER] = { "broker", "sonde-broker@*", SONDE_WAY_BROKER_TO_FRONT },
    [SONDE_PEER_CAPTURE] = { "worker", "sonde-worker@*", SONDE_WAY_WORKER_TO_FRONT },
  };

  return &rows[kind];
}

SondePeerLauncher *
sonde_peer_launcher_new (const char *const socket_paths[SONDE_PEER_N_KINDS],
                         SondePeerProcesses *processes)
{
  SondePeerLauncher *self = g_new0 (SondePeerLauncher, 1);

  g_ref_count_init (&self->refs);
  self->processes = processes;
  for (SondePeerKind kind = 0; kind < SONDE_PEER_N_KINDS; kind++)
    self->spares[kind] = sonde_peer_spare_new (self, kind, socket_paths[kind]);
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
    g_clear_pointer (&self->spares[kind], sonde_peer_spare_free);
  sonde_peer_processes_free (self->processes);
  g_free (self);
}

SondePeerProcesses *
sonde_peer_launcher_processes (const SondePeerLauncher *self)
{
  return self->processes;
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
