/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One call of a client: who, what, and what it is allowed to reach. */
#pragma once

#include "daemon/control/system/audit.h"
#include "daemon/control/bus/authority.h"
#include "daemon/control/system/caller.h"
#include "daemon/control/session/session-manager.h"

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
  SONDE_GATE_LIST, /* anyone; manage-sessions decides whether other uids' sessions are shown */
  SONDE_GATE_LIST_CAPTURES, /* the same of stored captures */
  SONDE_GATE_SUBSCRIBE,     /* the same of sessions that are to come */
  SONDE_GATE_START,         /* the action for the options that the first argument becomes */
  SONDE_GATE_USE,           /* a session's own uid; others: the action to start such a session */
  SONDE_GATE_MANAGE,        /* a session's own uid; others: manage-sessions */
  SONDE_GATE_CAPTURE,       /* the same of the stored capture that the first argument names */
} SondeGate;

/* Who is told of sessions that come and go. */
typedef struct
{
  SondeCaller *caller; /* on the bus */
  gboolean sees_all;   /* those of other uids, too */
} SondeSubscriber;

/* What all calls share. */
typedef struct
{
  SondeBusConnection *connection;
  gboolean is_peer;
  gint64 start_us; /* monotonic: since when this sonded is there */
  const SondeSettings *settings;
  SondeCallers *callers;
  SondeAuthority *authority;
  const SondePeerLauncher *launcher; /* which knows what this machine has */
  SondeSessionManager *manager;
  SondeRefusals *refusals;
  GPtrArray *subscribers; /* SondeSubscriber */
} SondeBus;

typedef struct SondeCall SondeCall;

struct SondeCall
{
  const SondeBus *bus;
  sd_bus_message *message;
  GVariant *arguments;              /* a tuple of the types that the XML says */
  GUnixFDList *fds;                 /* (nullable): the descriptors among them */
  const struct SondeMember *member; /* of GetAll the first property of its interface */
  void (*run) (SondeCall *call);    /* once it is through its gate */
  SondeCaller *caller;              /* NULL before the bus has said who calls */
  SondeOptions *options;            /* SONDE_GATE_START */
  char *object;                     /* what it is about, for the journal; or NULL */
  char *why_not;         /* for the journal: a reason that the caller is not told; or NULL */
  guint64 session_id;    /* SONDE_GATE_USE and SONDE_GATE_MANAGE */
  gboolean is_of_none;   /* there was no such session when it came */
  SondeSession *session; /* the same; valid until the handler returns */
  gboolean sees_all;     /* SONDE_GATE_LIST, _LIST_CAPTURES and _SUBSCRIBE */
};

/* A handler gives its call back with sonde_call_return() or sonde_call_fail(), now or later. */
typedef struct SondeMember
{
  const char *interface;
  const char *name;
  SondeGate gate;
  void (*handler) (SondeCall *call);  /* of a method; NULL: a property */
  GVariant *(*get) (SondeCall *call); /* (transfer floating): what a property shows, or */
  const char *fact;                   /* of the session's sheet, by its key there */
  gboolean is_lasting; /* SONDE_GATE_START: the session outlives its owner, and writes a file */
} SondeMember;

/* @message: a call of a member that has these arguments; they are read within
 * SONDE_LIMIT_MESSAGE_ENTRIES and _MESSAGE_TEXT. What is wrong with them is answered.
 * Returns: NULL if it is answered */
SondeCall *sonde_call_new (const SondeBus *bus, sd_bus_message *message);

/**
 * sonde_call_pass:
 * @call: (transfer full): whose caller is known
 * @run: gets @call once it is through
 *
 * The single gate between a caller and a handler.
 *
 * Asks at most one question about the call, as its row says, and fails the call if the answer is
 * not yes. The request is frozen before the question. A session is looked up again after it: it may
 * have ended meanwhile.
 *
 * Who may not use a session gets the same error whether or not there is one of that number.
 */
void sonde_call_pass (SondeCall *call, void (*run) (SondeCall *call));

/* (transfer full) */
GVariant *sonde_call_argument (const SondeCall *self, gsize index);

/* All of these free the call. @value: (nullable): a tuple; @fds: (nullable): */
void sonde_call_return (SondeCall *self, GVariant *value, GUnixFDList *fds);
/* @fd: (transfer full): is value number 0 of type h in @value */
void sonde_call_return_fd (SondeCall *self, GVariant *value, int fd);
/* Errors of foreign domains become SONDE_ERROR_FAILED. Refusals are recorded: who wanted what, and
 * why not. */
void sonde_call_fail (SondeCall *self, const GError *error);
void sonde_call_fail_with (SondeCall *self, gint code, const char *message);
