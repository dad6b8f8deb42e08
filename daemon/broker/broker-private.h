/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of a broker, which its parts share: broker.c has the order and the connections,
 * broker-events.c the events. */
#pragma once

#include "daemon/broker/broker.h"
#include "daemon/broker/cpu-follower.h"
#include "daemon/broker/lanes.h"

typedef enum
{
  STATE_SPARE = 1 << 0,  /* waits for ASK */
  STATE_ASKED = 1 << 1,  /* for PROVE */
  STATE_PROVED = 1 << 2, /* for SERVE */
  STATE_SERVED = 1 << 3, /* for OPEN */
  STATE_OPEN = 1 << 4,   /* for ANNOUNCE */
  STATE_RUNNING = 1 << 5,
  STATE_CLOSED = 1 << 6,
  STATE_OVER = 1 << 7, /* was refused, or is broken: waits for the end of the connection */
} State;

#define STATES_ALL   0xffu
#define STATES_HEARD (STATE_OPEN | STATE_RUNNING | STATE_CLOSED) /* of the worker */

/* A process of the session without its events on a processor: that was off, or the kernel did not
 * answer. */
typedef struct
{
  int cpu;
  pid_t pid;
} SondeGap;

/* Probes of a process that are followed. */
typedef struct
{
  pid_t pid;
  int link_fd;
} SondeProbeLink;

struct SondeBroker
{
  State state;
  SondeChannel *front;
  SondeChannel *worker; /* NULL: none yet, or it is gone */
  SondeBrokerDone done;
  gpointer user_data;
  guint end; /* source that tells it is done */
  int status;

  SondeAsked asked;
  SondeTracer owner;
  gboolean has_told_walks;  /* why there are none */
  gboolean has_told_probes; /* the same */
  GArray *probes;           /* SondeProbeLink */
  guint n_probes_asked;     /* that a lane looks into */
  gint64 probes_free_us;    /* monotonic: SONDE_LIMIT_PROBES_INTERVAL_US for each that was asked */
  SondeEventSet *events;    /* NULL before it is prepared and once it is closed */
  SondeProcBroker *broker;
  SondeLanes *lanes; /* in which that is asked */
  SondeTargetSet *targets;
  GPtrArray *proven;  /* SondeTarget: until they are announced */
  GQueue operations;  /* Operation: that are not done, in their order */
  guint n_untold;     /* targets that are, together */
  gboolean has_ended; /* none of them is left, which is told behind that */

  SondeCpuFollower *cpus; /* while it runs */
  int awaited_cpu;        /* whose rings the worker was asked to map; -1: none */
  gint64 awaited_from_ns; /* since when it had been off; 0: never was on */
  GArray *gaps;           /* SondeGap: whose events are still to be opened */
  guint again;            /* source, while there are any */

  SondeControlGroup *group; /* of the scope `unit`, once it is open: the proc-broker's */
  SondeGroupWatch *watch;   /* of it, while it runs */
  char *note;               /* for the capture */
};

/* --- broker.c --- */

void sonde_broker_say_note (SondeBroker *self, const char *text);
/* @why: (nullable): none: it is done */
void sonde_broker_say_result (SondeBroker *self, SondeMessageType type, const GError *why);
/* @type: PROVED, OPENED or BROKEN: it is over */
void sonde_broker_refuse (SondeBroker *self, SondeMessageType type, const GError *why);
/* If that is so, and all was said that comes before it. */
void sonde_broker_say_targets_ended (SondeBroker *self);
/* @question: without its uid. It may be answered from inside. */
void sonde_broker_look_into (SondeBroker *self, SondeQuestion *question);

/* --- broker-events.c --- */

/**
 * sonde_broker_prove:
 *
 * This and sonde_broker_open() may be kept waiting by the targets. Nobody else is: a session that
 * has not begun ends by the front's clock. What is opened later is opened in lanes.
 *
 * Errors: those of sonde_target_prove() and sonde_event_set_new()
 */
gboolean sonde_broker_prove (SondeBroker *self, GError **error);
/* Events on. @group: of a unit */
gboolean sonde_broker_open (SondeBroker *self, const char *group, GError **error);
void sonde_broker_follow_cpus (SondeBroker *self);
/* The worker has mapped the rings of a processor that came, or not. @status: 0 or why, an errno */
void sonde_broker_take_rings (SondeBroker *self, int status);

/**
 * sonde_broker_take_targets:
 * @targets: empty afterwards
 * @operation: (nullable): whose they are
 *
 * The worker hears of targets once their events are on; with `start-on-exec` their records alone
 * will tell of what they execute. A session of one's own processes sees the mounts that they see.
 */
void sonde_broker_take_targets (SondeBroker *self, GPtrArray *targets, gpointer operation);
/* @targets: (transfer full): not proven yet. ADDED follows, perhaps from inside. */
void sonde_broker_add (SondeBroker *self, GPtrArray *targets);
/* Whether an ADD is not answered yet. */
gboolean sonde_broker_is_adding (const SondeBroker *self);
/* The answer to a question of ours: @opening: (transfer full) (nullable) */
void
sonde_broker_take_opening (SondeBroker *self, const SondeQuestion *question, SondeOpening *opening);
/* A target was told of. */
void sonde_broker_take_told (SondeBroker *self, const SondeQuestion *question);
void sonde_broker_clear_operations (SondeBroker *self);
