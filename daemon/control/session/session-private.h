/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One profiling session from inside: for the files of this room alone. */
#pragma once

#include "daemon/control/peer/peer.h"
#include "daemon/control/session/session.h"
#include "daemon/control/system/unit.h"

/* What the fd store has of a session. */
typedef struct
{
  SondeFdStore *store; /* NULL: nothing outlives this sonded */
  guint64 id;
  guint32 generation; /* of the record in the store; 0: there is none */
  gboolean has_peer[SONDE_PEER_N_KINDS];
} SondeSessionKeeper;

typedef struct
{
  SondeSessionStopped stopped;
  gpointer user_data;
} SondeSessionStop;

struct SondeSession
{
  SondeSessionRecord *facts; /* its state and processes: as last written */
  SondeCaller *owner;        /* held, so that its leaving is noticed */
  SondeOptions *options;
  const SondeSessionHandler *handler;
  gpointer user_data;

  SondeSessionState state;
  SondeGroupQuestion *lookup; /* where the unit is, while that is open */
  GError *lookup_error;
  char *group;               /* its answer */
  gboolean has_started;      /* somebody knows of it */
  gboolean is_adopted;       /* from a sonded before us */
  gboolean is_slowed;        /* its worker records nothing, whatever its state */
  SondeProcCost worker_cost; /* when it said the last statistics; 0: not known */
  SondeProcCost broker_cost;

  SondePeerLauncher *launcher;
  SondeUnitShare share; /* of its budget; none while the weight is 0 */
  SondePeer *worker;
  SondePeer *broker;           /* NULL: it is not there yet, or not any more */
  GQueue additions;            /* calls of AddProcess that it has not answered, in their order */
  GQueue joins;                /* programs that it has not answered about */
  guint64 n_joins;             /* that it was asked about */
  guint64 n_refused;           /* programs that were told no */
  guint64 n_turned_away;       /* connections that were not taken */
  guint32 n_grown;             /* times that its scope got more processes */
  guint end;                   /* of one that failed without a worker */
  SondeCaptureStore *store;    /* NULL: it has no file */
  SondeStoreRequest *creating; /* of its file; NULL: not yet, or not any more */
  GError *no_file;             /* why it cannot be made; NULL: not known yet, or it can */
  int file_fd;                 /* until the worker has it; -1 */
  GPtrArray *last_readers;     /* char *: who read at its end, and is told of it; NULL: not yet */
  GQueue snapshots;            /* calls of Snapshot that the worker has not answered */
  guint64 n_snapshots;         /* that it was asked for */
  GArray *stops;               /* SondeSessionStop: unanswered Stop calls */
  guint32 n_controls;          /* control sockets that the worker was given */
  guint32 n_closed_controls;   /* of them, those that it has told are closed */

  SondeSessionKeeper keeper;

  guint deadline;          /* of the current state */
  guint n_unread;          /* deadlines of it at which something waited to be read */
  guint64 n_heard;         /* messages of the worker at the last deadline */
  guint64 n_heard_watched; /* at the last look of the watchdog */
  guint duration;
};

extern const SondePeerHandler sonde_session_worker_handler;
extern const SondePeerHandler sonde_session_broker_handler;

/* @facts: (transfer full): of one that begins, or was left; @options: (transfer full) */
SondeSession *sonde_session_new_with (SondeSessionRecord *facts,
                                      SondeCaller *owner,
                                      SondeOptions *options,
                                      SondeCaptureStore *store,
                                      const SondeSessionHandler *handler,
                                      gpointer user_data);
/* What a worker or a broker may say. */
typedef struct
{
  SondeMessageType type;
  guint32 taken_in; /* set of states */
  /* Of @fds those that are taken are set to -1. */
  gboolean (*take) (
      SondeSession *self, gconstpointer message, int *fds, unsigned n_fds, GError **error);
} SondeSessionWord;

/* Has the word of @message taken. @speaker: "worker". FALSE with @error: it is none, or wrong */
gboolean sonde_session_hear (SondeSession *self,
                             const SondeSessionWord *words,
                             gsize n_words,
                             const char *speaker,
                             const SondeMessageHeader *message,
                             int *fds,
                             unsigned n_fds,
                             GError **error);
#define SONDE_STATES_HEARD (SONDE_STATES_LIVE | SONDE_STATES_DRAINING)

/* Once its unit is found and its output is ready. */
void sonde_session_begin (SondeSession *self);
/* FALSE: not possible in its state. */
gboolean sonde_session_step (SondeSession *self, SondeSessionStep step);
/* Begins a state, or begins it again: its deadline runs anew. */
void sonde_session_enter (SondeSession *self, SondeSessionState state);
/* @states: SONDE_STATES_*, or SONDE_STATE_BIT() of some */
static inline gboolean
sonde_session_is_in (const SondeSession *self, guint32 states)
{
  return sonde_session_state_is_in (self->state, states);
}
void sonde_session_start_duration (SondeSession *self);
/* Tells systemd what the units of broker and worker may have. Nothing waits for it. */
void sonde_session_share_out (SondeSession *self);
/* A sentence for the capture, in any script; what is beyond a note's length is cut off. */
gboolean sonde_session_note (SondeSession *self, const char *text, GError **error);
/* Answers all calls of Stop. */
void sonde_session_answer_stops (SondeSession *self, const GError *error);
/* Keeps for the next sonded what the session is now; its connections. */
void sonde_session_save (SondeSession *self);
void sonde_session_save_peers (SondeSession *self);
void sonde_session_keeper_forget_peer (SondeSessionKeeper *self, SondePeerKind kind);
void sonde_session_keeper_forget_record (SondeSessionKeeper *self);
/* All; the record first: without it the rest is nobody's. */
void sonde_session_keeper_forget (SondeSessionKeeper *self);
/* FALSE: with INVALID_STATE */
gboolean sonde_session_refuse_state (const SondeSession *self, GError **error);
/* @fd: (transfer full): its connection; what the sonded before us has asked, it answers first */
void sonde_session_adopt_broker (SondeSession *self, int fd, const SondeSessionRecord *record);
/* Nothing is added any more. Returns: (nullable) (transfer full): it goes on */
SondePeer *sonde_session_steal_broker (SondeSession *self);
/* It ends. */
void sonde_session_dismiss_broker (SondeSession *self);
/* Its broker is no use any more. Live, it is stopped, and will have failed with what it has. */
void sonde_session_lose_broker (SondeSession *self, const char *how);
/* Of a failed start or a dead worker; `ended` follows when the worker is reaped. */
void sonde_session_fail (SondeSession *self, const GError *error);
/* The worker is reaped. */
void sonde_session_end (SondeSession *self);

/* Hands the new file to the worker, who ends it at capture_max_bytes, at a whole frame.
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED */
gboolean sonde_session_output_open_file (SondeSession *self, GError **error);
/* @reader: unique bus name of who gets it; "" on a private connection
 * @is_last: it gets what the recorder has when the session ends, no more
 * Returns: the reader's end, or -1. Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED */
int sonde_session_output_open_stream (SondeSession *self,
                                      const char *reader,
                                      const SondeStreamOptions *options,
                                      gboolean is_last,
                                      GError **error);
/* No snapshot comes any more. */
void sonde_session_output_give_up (SondeSession *self);
/* Who reads is not asked any more: those who do now are told of the end. */
void sonde_session_output_seal (SondeSession *self);
/* Nothing is written to the file any more. */
void sonde_session_output_close (SondeSession *self);
