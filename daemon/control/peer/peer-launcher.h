/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starts brokers and workers: by systemd, or by the spawner. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/message.h"
#include "daemon/control/peer/peer-process.h"
#include "daemon/control/system/bus-connection.h"

/* The programs at the other end of our connections; of the spawner's list the same numbers. */
typedef enum
{
  SONDE_PEER_BROKER,  /* sonde-broker */
  SONDE_PEER_CAPTURE, /* sonde-capture, the worker */
  SONDE_PEER_N_KINDS,
} SondePeerKind;

typedef struct
{
  const char *name;     /* in sentences: "broker" */
  const char *units;    /* of systemd, as a pattern */
  SondeMessageWay says; /* what it may say to us */
} SondePeerKindRow;

const SondePeerKindRow *sonde_peer_kind_row (SondePeerKind kind);

/**
 * SECTION: peer-launcher
 *
 * Below systemd each connection to a kind's socket is an instance of a unit. To become one takes
 * some ten milliseconds, so one connection of each kind is made beforehand. Elsewhere they are
 * spawned; of brokers one is made at the start, since a broker's first word is what this machine
 * has, which everybody may ask for. Each broker that starts later says it anew.
 */
typedef struct SondePeerLauncher SondePeerLauncher;

/**
 * sonde_peer_launcher_new:
 * @socket_paths: for each kind, where systemd listens; NULL: they are spawned
 * @processes: (transfer full) (nullable): what spawns them; NULL: nothing does
 *
 * Of brokers, and below systemd of workers, a spare one is on its way.
 */
SondePeerLauncher *sonde_peer_launcher_new (const char *const socket_paths[SONDE_PEER_N_KINDS],
                                            SondePeerProcesses *processes);
/* The system bus, where systemd answers for what it has started; outliving it. Before any is. */
void sonde_peer_launcher_set_bus (SondePeerLauncher *self, SondeBusConnection *bus);
SondePeerLauncher *sonde_peer_launcher_ref (SondePeerLauncher *self);
void sonde_peer_launcher_unref (SondePeerLauncher *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondePeerLauncher, sonde_peer_launcher_unref)

/* NULL, unless systemd starts them. */
SondeBusConnection *sonde_peer_launcher_bus (const SondePeerLauncher *self);

/**
 * sonde_peer_launcher_take:
 * @process: (out): one that is spawned; NULL: systemd's
 *
 * Returns: (transfer full): our end of the connection with one, on which it says its first word or
 *   which ends; systemd's connections have SO_PASSCRED; -1 with @error: SONDE_ERROR_LIMIT_EXCEEDED,
 * FAILED, ...
 */
int sonde_peer_launcher_take (SondePeerLauncher *self,
                              SondePeerKind kind,
                              SondePeerProcess **process,
                              GError **error);

/* --- what this machine has --- */

/* @sheet: (nullable): a broker's first word; NULL: the spare one will say none */
void sonde_peer_launcher_take_sheet (SondePeerLauncher *self, const SondeMessageSheet *sheet);
/* The last one that was said; before the first an empty one. */
const SondeMessageSheet *sonde_peer_launcher_sheet (const SondePeerLauncher *self);
/* @done: once, from the main loop: the spare broker has said its first word, or will not, or not
 * within SONDE_LIMIT_SHEET_MS; not after the launcher is freed */
void
sonde_peer_launcher_await_sheet (SondePeerLauncher *self, GSourceFunc done, gpointer user_data);
