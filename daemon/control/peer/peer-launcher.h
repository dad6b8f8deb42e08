/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Starts brokers and workers: by systemd, or as our children. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/message.h"
#include "daemon/control/system/bus-connection.h"

/* The programs at the other end of our connections. */
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
  gboolean has_own_uid; /* if root spawns it */
} SondePeerKindRow;

const SondePeerKindRow *sonde_peer_kind_row (SondePeerKind kind);

/**
 * SECTION: peer-launcher
 *
 * Below systemd each connection to a kind's socket is an instance of a unit. To become one takes
 * some ten milliseconds, so one connection of each kind is made beforehand. Elsewhere we spawn
 * them; of brokers one is made at the start, since a broker's first word is what this machine has,
 * which everybody may ask for. Each broker that starts later says it anew.
 *
 * A worker that root spawns gets a uid, and the gid of the same number, that no other process has:
 * locked memory is counted for each uid, and workers must not be able to signal each other. A
 * broker, and anybody else's worker, is the caller.
 *
 * The range lies below that of DynamicUser= (61184 to 65519) among those that systemd leaves to
 * nobody, clear of what Debian gives to packages, and within the 65,536 ids that a container
 * usually has. Of these the kernel tells which ones live processes have, so that two daemons get
 * along; ours are remembered from their start until they are reaped.
 *
 * Source: https://systemd.io/UIDS-GIDS; Debian Policy 9.2.2; getpriority(2)
 */
#define SONDE_WORKER_UID_FIRST 60928u
#define SONDE_WORKER_N_UIDS    256u

#define SONDE_WORKER_UID_NONE  ((uid_t) -1) /* the caller's */

typedef struct SondePeerLauncher SondePeerLauncher;

/* Where a kind comes from. */
typedef struct
{
  const char *path;        /* the executable, to be spawned; never a caller's word */
  const char *socket_path; /* instead: where systemd listens; NULL: nowhere */
} SondePeerPlace;

/* Of brokers, and below systemd of workers, a spare one is on its way. */
SondePeerLauncher *sonde_peer_launcher_new (const SondePeerPlace places[SONDE_PEER_N_KINDS]);
/* The system bus, where systemd answers for what it has started; outliving it. Before any is. */
void sonde_peer_launcher_set_bus (SondePeerLauncher *self, SondeBusConnection *bus);
SondePeerLauncher *sonde_peer_launcher_ref (SondePeerLauncher *self);
void sonde_peer_launcher_unref (SondePeerLauncher *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondePeerLauncher, sonde_peer_launcher_unref)

const char *sonde_peer_launcher_path (const SondePeerLauncher *self, SondePeerKind kind);
/* NULL, unless systemd starts them. */
SondeBusConnection *sonde_peer_launcher_bus (const SondePeerLauncher *self);

struct SondePeerProcess;

/**
 * sonde_peer_launcher_take:
 * @process: (out): one that we have spawned; NULL: systemd's
 *
 * Returns: (transfer full): our end of the connection with one, on which it says its first word or
 *   which ends; systemd's connections have SO_PASSCRED; -1 with @error: SONDE_ERROR_LIMIT_EXCEEDED,
 * FAILED, ...
 */
int sonde_peer_launcher_take (SondePeerLauncher *self,
                              SondePeerKind kind,
                              struct SondePeerProcess **process,
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

/* --- uids --- */

/**
 * sonde_peer_launcher_take_uid:
 * @uid: (out): SONDE_WORKER_UID_NONE unless we are root
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: all are in use
 */
gboolean sonde_peer_launcher_take_uid (SondePeerLauncher *self, uid_t *uid, GError **error);

/* When its process is reaped. SONDE_WORKER_UID_NONE is nothing to give back. */
void sonde_peer_launcher_give_uid_back (SondePeerLauncher *self, uid_t uid);
