/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A connection of sd-bus in the main loop: calls of ours, messages of others, values as GVariant.
 */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>
#include <systemd/sd-bus.h>

/**
 * SECTION: bus-connection
 *
 * Messages are read in place. GDBus builds the whole tree of a message before anybody looks at it,
 * in a thread of its own: 31 MiB of a stranger's became 1 GiB that stayed. Here a message costs its
 * own bytes, once, and of its values only those are built that sonde_bus_connection_read() takes
 * within its bounds.
 *
 * Everything runs on the main loop. Nothing waits: what cannot be sent is queued.
 */
typedef struct SondeBusConnection SondeBusConnection;

/* @ready: once: the other side is there, and calls can be made. A call may arrive at once.
 * @closed: once, unless it is freed before: the connection is gone. Only
 * sonde_bus_connection_free() may follow.
 * @call: somebody calls a method. Returns: whether it is or will be answered; if not, sd-bus says
 *   that there is no such method */
typedef struct
{
  void (*ready) (gpointer user_data);
  void (*closed) (gpointer user_data);
  gboolean (*call) (sd_bus_message *message, gpointer user_data);
} SondeBusConnectionHandler;

/* @reply: (nullable): the arguments, a tuple; NULL: @error says why not. Foreign errors keep their
 * D-Bus name (g_dbus_error_get_remote_error()). */
typedef void (*SondeBusConnectionReply) (GVariant *reply, const GError *error, gpointer user_data);
/* @arguments: a tuple */
typedef void (*SondeBusConnectionSignal) (GVariant *arguments, gpointer user_data);

/* @handler: (nullable): for a connection that only calls
 * Errors: SONDE_ERROR_FAILED: there is no bus */
SondeBusConnection *sonde_bus_connection_new_system (const SondeBusConnectionHandler *handler,
                                                     gpointer user_data,
                                                     GError **error);
/* For one client, at the other end of a socket. It must be of our own uid.
 * @fd: (transfer full): a connected AF_UNIX stream socket
 * Errors: SONDE_ERROR_NOT_AUTHORIZED: of another uid; FAILED */
SondeBusConnection *sonde_bus_connection_new_peer (int fd,
                                                   const SondeBusConnectionHandler *handler,
                                                   gpointer user_data,
                                                   GError **error);
/* Drops what is not sent, and calls nobody back. */
void sonde_bus_connection_free (SondeBusConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeBusConnection, sonde_bus_connection_free)

/* The server's identity: on another bus nobody is who he was. "" for a private connection. */
const char *sonde_bus_connection_bus_id (const SondeBusConnection *self);
gboolean sonde_bus_connection_is_closed (const SondeBusConnection *self);
/* @done: when everything is sent, or cannot be any more; at once if nothing waits */
void sonde_bus_connection_flush (SondeBusConnection *self,
                                 void (*done) (gpointer user_data),
                                 gpointer user_data);

/**
 * sonde_bus_connection_call:
 * @arguments: (nullable) (transfer floating): a tuple
 * @type: (nullable): of the reply, a tuple: "(o)"; NULL: any
 * @timeout_ms: 0: as long as it takes
 * @reply: (nullable): who wants no answer. It is called from the main loop, never from within this
 *   call, and never once the connection is freed
 *
 * Calls a method of a service of the system: systemd, polkit, the bus itself. The service is not
 * started for it, but for polkit (@starts_service).
 */
typedef struct
{
  const char *destination;
  const char *path;
  const char *interface;
  const char *method;
  GVariant *arguments;
  const char *type;
  guint timeout_ms;
  gboolean starts_service;
} SondeBusConnectionCall;

void sonde_bus_connection_call (SondeBusConnection *self,
                                const SondeBusConnectionCall *call,
                                SondeBusConnectionReply reply,
                                gpointer user_data);

/* Asks the bus for signals. Returns: to be given back with sonde_bus_connection_unsubscribe() */
typedef struct SondeSubscription SondeSubscription;
SondeSubscription *sonde_bus_connection_subscribe (SondeBusConnection *self,
                                                   const char *match,
                                                   SondeBusConnectionSignal signal,
                                                   gpointer user_data);
void sonde_bus_connection_unsubscribe (SondeSubscription *self);

/* A signal to one receiver; @destination: NULL on a private connection.
 * @arguments: (transfer none): a tuple */
void sonde_bus_connection_emit (SondeBusConnection *self,
                                const char *destination,
                                const char *path,
                                const char *interface,
                                const char *name,
                                GVariant *arguments);

/* Gives a reference to a call back: with the last one a closer has its descriptors. */
void sonde_bus_connection_drop (sd_bus_message *call);

/* Calls of others that want an answer and have none yet. */
guint sonde_bus_connection_n_calls (const SondeBusConnection *self);
/* Those that ever came. */
guint64 sonde_bus_connection_n_ever (const SondeBusConnection *self);

/**
 * sonde_bus_connection_read:
 * @message: not read from yet
 * @max_entries: of all arrays and dictionaries together
 * @max_bytes: of all texts together
 * @fds: (out): the descriptors among the values, by their handles; NULL if there are none
 *
 * Builds the arguments of a message, and stops at the first value beyond a bound. A descriptor that
 * no value names stays in the message and goes with it.
 *
 * Returns: a tuple, or NULL
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: message-entries, message-text, closers; INVALID_OPTION: a
 * handle without a descriptor; FAILED: malformed
 */
GVariant *sonde_bus_connection_read (
    sd_bus_message *message, guint max_entries, gsize max_bytes, GUnixFDList **fds, GError **error);

/* The answer to a call. Each takes its place among the answered.
 * @value: (nullable) (transfer none): a tuple; @fds: (nullable): what its handles stand for */
void sonde_bus_connection_answer (SondeBusConnection *self,
                                  sd_bus_message *call,
                                  GVariant *value,
                                  GUnixFDList *fds);
/* @error: of a domain that has D-Bus names */
void sonde_bus_connection_answer_error (SondeBusConnection *self,
                                        sd_bus_message *call,
                                        const GError *error);
