/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One call of a client: who, what, and what it is allowed to reach. */
#pragma once

#include "daemon/control/audit.h"
#include "daemon/control/authority.h"
#include "daemon/control/caller.h"
#include "daemon/control/session-manager.h"

#define SONDE_BUS_NAME          "org.sonde.Profiler1"
#define SONDE_MANAGER_PATH      "/org/sonde/Profiler1"
#define SONDE_SESSION_PATH      "/org/sonde/Profiler1/session"
#define SONDE_MANAGER_INTERFACE "org.sonde.Profiler1.Manager"
#define SONDE_SESSION_INTERFACE "org.sonde.Profiler1.Session"

/* The right that a member needs. Root needs none, nor does the one caller of a private connection.
 */
typedef enum
{
  SONDE_GATE_ANYONE,
  SONDE_GATE_LIST,   /* anyone; manage-sessions decides whether other uids' sessions are shown */
  SONDE_GATE_START,  /* the action for the options that the first argument becomes */
  SONDE_GATE_USE,    /* a session's own uid; others: the action to start such a session */
  SONDE_GATE_MANAGE, /* a session's own uid; others: manage-sessions */
} SondeGate;

/* What all calls share. */
typedef struct
{
  gboolean is_peer;
  const SondeSettings *settings;
  SondeCallers *callers;
  SondeAuthority *authority;
  SondeSessionManager *manager;
  SondeRefusals *refusals;
} SondeContext;

typedef struct
{
  const SondeContext *context;
  GDBusMethodInvocation *invocation;
  const struct SondeMethod *method;     /* NULL: a property read */
  const struct SondeProperty *property; /* of its interface; the first one for GetAll */
  SondeCaller *caller;                  /* NULL before the bus has said who calls */
  SondeOptions *options;                /* SONDE_GATE_START */
  guint64 session_id;                   /* SONDE_GATE_USE and SONDE_GATE_MANAGE */
  SondeSession *session;                /* the same; valid until the handler returns */
  gboolean sees_all;                    /* SONDE_GATE_LIST */
} SondeCall;

/* A handler gives its call back with sonde_call_return() or sonde_call_fail(), now or later. */
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

SondeCall *sonde_call_new (const SondeContext *context, GDBusMethodInvocation *invocation);

SondeGate sonde_call_gate (const SondeCall *self);
/* Whether the message allows a password dialog. */
gboolean sonde_call_is_interactive (const SondeCall *self);
/* (nullable): the descriptors that came with it */
GUnixFDList *sonde_call_fds (const SondeCall *self);
/* Whether all descriptors that were sent with it are here.
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED */
gboolean sonde_call_check_fds (const SondeCall *self, GError **error);
/* (transfer full) */
GVariant *sonde_call_argument (const SondeCall *self, gsize index);

/* All of these free the call. @value: (nullable): a tuple; @fds: (nullable): */
void sonde_call_return (SondeCall *self, GVariant *value, GUnixFDList *fds);
/* @fd: (transfer full): is value number 0 of type h in @value */
void sonde_call_return_fd (SondeCall *self, GVariant *value, int fd);
/* Errors of foreign domains become SONDE_ERROR_FAILED. Refusals are recorded. */
void sonde_call_fail (SondeCall *self, const GError *error);
void sonde_call_fail_with (SondeCall *self, gint code, const char *message);
