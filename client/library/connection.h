/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The way to a sonded: the system bus, or one of our own. */
#pragma once

#include "client/library/sonde-client.h"
#include "sonde-profiler1-generated.h"

typedef struct
{
  GDBusConnection *bus;
  const char *name; /* NULL between peers */
  SondeDBusManager *manager;
  GSubprocess *daemon; /* NULL on the system bus */
  gboolean may_ask;    /* somebody can be asked for a password */
  GSubprocess *agent;  /* does so on this terminal; NULL if that is not for us */
  GCancellable *closed;
} SondeConnection;

/**
 * sonde_connection_open_bus:
 *
 * Reaches the system's service. Blocks: for start-up only.
 */
SondeConnection *sonde_connection_open_bus (SondeClientAsk ask, GError **error);

/**
 * sonde_connection_open_embedded:
 * @daemon_path: sonded, or NULL: what SONDE_DAEMON says, else the installed one
 * @worker_path: sonde-capture, or NULL: what SONDE_WORKER says, else the installed one
 *
 * Starts a sonded with the caller's own rights. It ignores ^C, which is ours to handle, and ends
 * when the connection does. Blocks: for start-up only.
 */
SondeConnection *
sonde_connection_open_embedded (const char *daemon_path, const char *worker_path, GError **error);

/* For methods that polkit may ask somebody about. */
GDBusCallFlags sonde_connection_call_flags (const SondeConnection *self);

/* Ends what goes on over it; a bus stays connected. Once is enough, more does not harm. */
void sonde_connection_close (SondeConnection *self);

/* Accepts NULL. */
void sonde_connection_free (SondeConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeConnection, sonde_connection_free)
