/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Knows who calls: a unique bus name, its uid, and whether it is still there. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/control/system/bus-connection.h"

/**
 * SECTION: caller
 *
 * The bus alone says who a caller is: its uid is asked for once per connection and forgotten when
 * the name goes. On a private connection there is one caller, "", with our own uid and rights, for
 * whom our own pid stands.
 */
typedef struct SondeCallers SondeCallers;

/* What the bus has said of who was begun with or adopted; for others to read. */
typedef struct
{
  char *name;
  const char *bus_id; /* of the bus that knows the name; "" for a private connection */
  uid_t uid;
  pid_t pid;          /* 0 if the bus does not know it. It says who called, and proves nothing */
  GCancellable *left; /* cancelled when it leaves */

  grefcount refs;
  SondeCallers *callers;
  gboolean is_identified;
  GPtrArray *waiting; /* GTask: until the bus has told the uid */
  SondeSubscription *watch;
} SondeCaller;

/* @name has left the bus; its calls are cancelled already. */
typedef void (*SondeCallerLeft) (const char *name, gpointer user_data);

/* @connection: (transfer none): must outlive it; @is_peer: no bus, one caller */
SondeCallers *sonde_callers_new (SondeBusConnection *connection,
                                 gboolean is_peer,
                                 SondeCallerLeft left,
                                 gpointer user_data);
/* After all of its callers. */
void sonde_callers_free (SondeCallers *self);

/**
 * sonde_callers_begin_async:
 * @name: (nullable): the sender of a message
 *
 * Identifies the sender of a call and counts the call until sonde_caller_end().
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, NOT_AUTHORIZED
 */
void sonde_callers_begin_async (SondeCallers *self,
                                const char *name,
                                GAsyncReadyCallback callback,
                                gpointer user_data);
/* Returns: (transfer full): give it back with sonde_caller_end() */
SondeCaller *sonde_callers_begin_finish (SondeCallers *self, GAsyncResult *result, GError **error);
void sonde_caller_end (SondeCaller *self);

/**
 * sonde_callers_adopt:
 * @bus_id: as a sonded before us has found it: on another bus nobody is who he was
 *
 * The owner of a session that is taken over. If it has left, SondeCallerLeft is called soon.
 *
 * Returns: (transfer full): give it back with sonde_caller_unref()
 */
SondeCaller *sonde_callers_adopt (
    SondeCallers *self, const char *name, const char *bus_id, uid_t uid, pid_t pid);

SondeCaller *sonde_caller_ref (SondeCaller *self);
void sonde_caller_unref (SondeCaller *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaller, sonde_caller_unref)
