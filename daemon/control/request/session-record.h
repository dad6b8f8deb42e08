/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session on one sheet, from one sonded to the next, and the table of its states. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/message.h"

/**
 * SECTION: session-record
 *
 * The sheet of a session's facts: what a client was told or the front alone knows; what broker and
 * worker know they tell themselves when asked. The session has it in memory, and written down it
 * lies in a sealed memfd in systemd's fd store while the session lives. Writing, reading and what
 * the bus shows of it are walks over one table. It is read like something foreign: the sonded that
 * wrote it may have been another version, or wrong.
 * Times are CLOCK_MONOTONIC, which a restart does not change.
 */

/* Records have these numbers. */
typedef enum
{
  SONDE_STATE_NONE = 0,     /* no state: the step is refused */
  SONDE_STATE_STARTING = 1, /* the worker has not said hello */
  SONDE_STATE_RUNNING = 2,
  SONDE_STATE_PAUSED = 3,
  SONDE_STATE_DRAINING = 4, /* the events are off, the worker empties its rings */
  SONDE_STATE_FINISHED = 5,
  SONDE_STATE_FAILED = 6,
  /* parts of starting and draining, which the bus and records do not tell apart */
  SONDE_STATE_MAPPING = 7,    /* the worker maps its rings */
  SONDE_STATE_PLACING = 8,    /* systemd tells where a unit is, the store makes the file */
  SONDE_STATE_DELIVERING = 9, /* the rings are empty, readers take the rest */
  SONDE_STATE_LEAVING = 10,   /* the worker has said its last word, its process ends */
  SONDE_STATE_PROVING = 11,   /* the broker proves the targets: there is no worker yet */
  SONDE_STATE_OPENING = 12,   /* the broker opens the events */
  SONDE_STATE_CALLING = 13,   /* the broker has not said its first word */
  SONDE_N_STATES,
} SondeSessionState;

typedef enum
{
  SONDE_STEP_CALL,  /* the broker is there */
  SONDE_STEP_PROVE, /* the targets are proven, a worker is on its way */
  SONDE_STEP_GREET, /* the worker has said hello */
  SONDE_STEP_MAP,   /* it has mapped its rings */
  SONDE_STEP_OPEN,  /* where the unit is is known, and the file made */
  SONDE_STEP_START, /* the events are on */
  SONDE_STEP_PAUSE,
  SONDE_STEP_RESUME,
  SONDE_STEP_STOP,
  SONDE_STEP_DELIVER, /* its rings are empty */
  SONDE_STEP_LEAVE,   /* it has said its last word */
  SONDE_STEP_FINISH,  /* it is gone */
  SONDE_STEP_FAIL,
  SONDE_N_STEPS,
} SondeSessionStep;

/* A set of states. */
#define SONDE_STATE_BIT(state) (1u << (state))
#define SONDE_STATES_STARTING                                                                      \
  (SONDE_STATE_BIT (SONDE_STATE_CALLING) | SONDE_STATE_BIT (SONDE_STATE_PROVING)                   \
   | SONDE_STATE_BIT (SONDE_STATE_STARTING) | SONDE_STATE_BIT (SONDE_STATE_MAPPING)                \
   | SONDE_STATE_BIT (SONDE_STATE_PLACING) | SONDE_STATE_BIT (SONDE_STATE_OPENING))
#define SONDE_STATES_LIVE                                                                          \
  (SONDE_STATE_BIT (SONDE_STATE_RUNNING) | SONDE_STATE_BIT (SONDE_STATE_PAUSED))
/* The worker has STOP and still has something to say. */
#define SONDE_STATES_DRAINING                                                                      \
  (SONDE_STATE_BIT (SONDE_STATE_DRAINING) | SONDE_STATE_BIT (SONDE_STATE_DELIVERING))
#define SONDE_STATES_OVER                                                                          \
  (SONDE_STATE_BIT (SONDE_STATE_FINISHED) | SONDE_STATE_BIT (SONDE_STATE_FAILED))
/* Nothing is heard of the worker any more. */
#define SONDE_STATES_DEAF (SONDE_STATES_OVER | SONDE_STATE_BIT (SONDE_STATE_LEAVING))

/* What a state says of itself. */
typedef struct
{
  const char *name;         /* "starting", "running", ...: the property State */
  SondeSessionState record; /* what the next sonded is told; SONDE_STATE_NONE: nothing yet */
  guint deadline_ms;        /* how long broker or worker may take, or be silent; 0 for ever */
  const char *overdue;      /* why a session fails in which that takes longer */
} SondeSessionStateRow;

const SondeSessionStateRow *sonde_session_state_row (SondeSessionState state);

/* SONDE_STATE_NONE when @step is not possible in @state. */
SondeSessionState sonde_session_state_next (SondeSessionState state, SondeSessionStep step);

static inline gboolean
sonde_session_state_is_in (SondeSessionState state, guint32 states)
{
  return (states & SONDE_STATE_BIT (state)) != 0;
}

typedef struct
{
  guint32 id;
  char *reader; /* unique bus name; NULL for a file */
} SondeRecordSink;

typedef struct
{
  guint32 protocol; /* SONDE_MESSAGE_VERSION of the sonded that started it, ours or an older one;
                       before 3 that was its own broker */
  guint64 id;
  char *bus_id; /* of the bus that all names are of */
  char *owner;  /* unique bus name */
  guint32 owner_uid;
  gint32 owner_pid;
  GVariant *options; /* a{sv}, the property Options */
  char *description;
  guint64 start_time_us; /* since 1970 */
  gint64 live_since_us;
  SondeSessionState state; /* not STARTING */
  char *reason;            /* NULL: none yet */
  guint64 statistics[SONDE_N_STATISTICS];
  gint32 worker_pid;   /* 0: it has none any more */
  gint32 broker_pid;   /* the same */
  guint32 n_additions; /* which the broker has not answered */
  gboolean is_broken;  /* it is stopped because it lost its broker */
  char *rendezvous;    /* what its programs are told of it; NULL: nowhere */
  gboolean is_lasting;
  char *capture_file; /* NULL: none */
  guint64 capture_max_bytes;
  guint32 last_sink_id;
  GArray *sinks; /* SondeRecordSink */
} SondeSessionRecord;

/* An empty one. */
SondeSessionRecord *sonde_session_record_new (void);
void sonde_session_record_free (SondeSessionRecord *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSessionRecord, sonde_session_record_free)

/* (transfer floating): one of its values, by its key in the record; a text is "" without one */
GVariant *sonde_session_record_show (const SondeSessionRecord *self, const char *key);

/* Returns: a sealed memfd, or -1 with @error */
int sonde_session_record_write (const SondeSessionRecord *self, GError **error);

/**
 * sonde_session_record_read:
 * @fd: a memfd of a sonded that ran before
 *
 * Errors: SONDE_ERROR_FAILED, naming what is wrong: not sealed, size, version, a value that cannot
 * be
 */
SondeSessionRecord *sonde_session_record_read (int fd, GError **error);
