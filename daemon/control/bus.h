/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The D-Bus side: objects, the single gate, the name. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#include "daemon/control/caller.h"
#include "daemon/control/session-manager.h"

#define SONDE_BUS_NAME          "org.sonde.Profiler1"
#define SONDE_MANAGER_PATH      "/org/sonde/Profiler1"
#define SONDE_SESSION_PATH      "/org/sonde/Profiler1/session"
#define SONDE_MANAGER_INTERFACE "org.sonde.Profiler1.Manager"
#define SONDE_SESSION_INTERFACE "org.sonde.Profiler1.Session"

/**
 * SECTION: bus
 *
 * Every call and every property read finds its row in the tables of service.c, passes that row's
 * gate and only then reaches its handler; what has no row cannot be called. All on the main loop,
 * nothing waits.
 */
typedef struct SondeBus SondeBus;

typedef enum
{
  SONDE_GATE_ANYONE,
  SONDE_GATE_PROFILE, /* the authority, asked about the options that the first argument becomes */
  SONDE_GATE_OWNER,   /* the session's owner by unique name, or root */
} SondeGate;

/* One call that has passed its gate. A handler gives it back with sonde_call_return() or
 * sonde_call_fail(), now or later. */
typedef struct
{
  SondeBus *bus;
  GDBusMethodInvocation *invocation;
  const struct SondeMethod *method;     /* NULL: a property read */
  const struct SondeProperty *property; /* of its interface; the first one for GetAll */
  SondeCaller *caller;
  SondeSessionManager *manager;
  SondeOptions *options; /* SONDE_GATE_PROFILE */
  guint64 session_id;    /* SONDE_GATE_OWNER */
  SondeSession *session; /* the same; valid until the handler returns */
} SondeCall;

typedef struct SondeMethod
{
  const char *interface;
  const char *name;
  SondeGate gate;
  void (*handler) (SondeCall *call);
} SondeMethod;

typedef struct SondeProperty
{
  const char *interface;
  const char *name;
  SondeGate gate;
  GVariant *(*get) (SondeCall *call); /* (transfer floating) */
} SondeProperty;

/* @value: (nullable): a tuple; @fds: (nullable): */
void sonde_call_return (SondeCall *call, GVariant *value, GUnixFDList *fds);
/* Errors of foreign domains become SONDE_ERROR_FAILED. */
void sonde_call_fail (SondeCall *call, const GError *error);

/* @connection: (transfer none); @is_peer: a private connection instead of a bus */
SondeBus *sonde_bus_new (GDBusConnection *connection, gboolean is_peer, const char *worker_path);
/* Kills what is left. Accepts NULL. */
void sonde_bus_free (SondeBus *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeBus, sonde_bus_free)

gboolean sonde_bus_register (SondeBus *self, GError **error);

/* Stops all sessions; @done when their workers are gone. */
void sonde_bus_shut_down (SondeBus *self,
                          const char *reason,
                          void (*done) (gpointer user_data),
                          gpointer user_data);
