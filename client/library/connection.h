/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The way to a sonded: the system bus, or one of our own. */
#pragma once

#include "client/library/sonde-client.h"

#define SONDE_MANAGER_INTERFACE "org.sonde.Profiler1.Manager"
#define SONDE_SESSION_INTERFACE "org.sonde.Profiler1.Session"
#define SONDE_SESSION_PATH      "/org/sonde/Profiler1/session/" /* then its number */

typedef struct
{
  GDBusConnection *bus;
  const char *name;    /* NULL between peers */
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
 * @daemon_path: sonded, or NULL: what SONDE_DAEMON says, else the one that was built beside the
 *   running program, else the installed one
 * @worker_path: sonde-capture, or NULL: the same with SONDE_WORKER
 *
 * Starts a sonded with the caller's own rights. It ignores ^C, which is ours to handle, and ends
 * when the connection does. Blocks: for start-up only.
 */
SondeConnection *
sonde_connection_open_embedded (const char *daemon_path, const char *worker_path, GError **error);

/* Whether somebody may be asked for a password. */
GDBusCallFlags sonde_connection_call_flags (const SondeConnection *self);

/* One method of the service. */
typedef struct
{
  const char *path;      /* of a session; NULL: the manager */
  const char *interface; /* NULL: that object's own */
  const char *method;
  GVariant *arguments; /* a tuple, floating is fine; NULL: none */
  GUnixFDList *fds;    /* what handles in it mean; NULL: none */
  const char *type;    /* of the answer, a tuple */
  gboolean is_quiet;   /* nobody is asked for a password, whoever may be */
  gboolean is_look;    /* it changes nothing, and is made again if the service goes meanwhile */
} SondeServiceCall;

/* How often something is asked for that was on its way when the service went. */
#define SONDE_MAX_ASKS 5

/* @callback: gets the answer by sonde_connection_call_finish() */
void sonde_connection_call (SondeConnection *self,
                            const SondeServiceCall *call,
                            GCancellable *cancellable,
                            GAsyncReadyCallback callback,
                            gpointer user_data);

/* @fds: (out) (optional) (transfer full): what handles in the answer mean. Errors: in the service's
 * own words */
GVariant *sonde_connection_call_finish (GObject *source,
                                        GAsyncResult *result,
                                        GUnixFDList **fds,
                                        GError **error);

/* The same at once. Blocks, for as long as somebody is asked for a password. */
GVariant *sonde_connection_call_sync (SondeConnection *self,
                                      const SondeServiceCall *call,
                                      GUnixFDList **fds,
                                      GCancellable *cancellable,
                                      GError **error);

/* The descriptor of @handle, which came with @fds. Errors: %G_IO_ERROR_INVALID_DATA */
int sonde_connection_take_handle (GUnixFDList *fds, GVariant *handle, GError **error);

/* Ends what goes on over it; a bus stays connected. Once is enough, more does not harm. */
void sonde_connection_close (SondeConnection *self);

/* Accepts NULL. */
void sonde_connection_free (SondeConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeConnection, sonde_connection_free)
