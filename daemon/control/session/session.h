/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One profiling session: its states, its broker and worker, its end. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/control/session/beacon.h"
#include "daemon/control/session/rendezvous.h"
#include "daemon/control/system/caller.h"
#include "daemon/control/session/capture-store.h"
#include "daemon/control/session/snapshots.h"
#include "daemon/control/system/fd-store.h"
#include "daemon/control/request/options.h"
#include "daemon/control/peer/peer.h"
#include "daemon/control/request/session-record.h"

typedef struct SondeSession SondeSession;

/* All on the main loop. The session may not be freed inside a callback. */
typedef struct
{
  /* Once, unless sonde_session_start() failed. @capture_fd: the reader's end, ours to keep; -1 with
   * @error, and of a session with a file. A session that did not start ends all the same. */
  void (*started) (SondeSession *session, int capture_fd, const GError *error, gpointer user_data);
  void (*state_changed) (SondeSession *session, gpointer user_data);
  /* Finished or failed, and its worker is reaped. @has_started: somebody knows of it */
  void (*ended) (SondeSession *session, gboolean has_started, gpointer user_data);
  /* It has processes that it had not when sonde_session_wants_programs() was asked. */
  void (*grew) (SondeSession *session, gpointer user_data);
  /* @guest: (transfer full): who was called, and is none of its programs. @error: an errno */
  void (*passed_on) (SondeSession *session, SondeGuest *guest, int error, gpointer user_data);
  /* It needs its broker no more. @broker: (transfer full): not gone yet */
  void (*dismissed) (SondeSession *session, SondePeer *broker, gpointer user_data);
} SondeSessionHandler;

/**
 * sonde_session_new:
 * @owner: watched for as long as the session lives
 * @options: (transfer full):
 * @store: (nullable): outliving it: for a session that writes a capture file and outlives its owner
 * @fd_store: (nullable): outliving it: for a session that outlives this sonded
 */
SondeSession *sonde_session_new (guint64 id,
                                 SondeCaller *owner,
                                 SondeOptions *options,
                                 SondeCaptureStore *store,
                                 SondeFdStore *fd_store,
                                 const SondeSessionHandler *handler,
                                 gpointer user_data);

/* A session as a sonded before us has left it. */
typedef struct
{
  SondeSessionRecord *record;
  guint32 generation;
  int peer_fds[SONDE_PEER_N_KINDS]; /* -1: none */
} SondeLeftSession;

/**
 * sonde_session_find_left:
 *
 * Removes from the store parts of what is no session any more, and what cannot be read. Other names
 * are of leavers (peer-leavers.h).
 *
 * Returns: (transfer full) (element-type SondeLeftSession): their descriptors are theirs until
 * stolen
 */
GPtrArray *sonde_session_find_left (SondeFdStore *store);
/* Removes what cannot be taken over after all. */
void sonde_session_forget_left (SondeFdStore *store, const SondeLeftSession *left);

/**
 * sonde_session_adopt:
 * @left: its descriptors and its record are taken
 * @owner: of the record's name, left or not
 *
 * What a client is told is written down before it is told, and what it wants (to pause, to stop)
 * before the worker is. Whoever takes over says the latter again, and lets the worker tell the
 * rest: it is harmless to hear something twice, and nothing depends on a message that was read and
 * not acted upon.
 *
 * Its worker has never stopped. Of a session that is over, and has no worker any more, only what
 * its properties say is left (see sonde_session_retire()); one that has one ends again, since it
 * may not have been told. The handler is not called in here.
 *
 * Errors: SONDE_ERROR_FAILED, and those of sonde_options_restore()
 */
SondeSession *sonde_session_adopt (SondeLeftSession *left,
                                   SondeFdStore *fd_store,
                                   SondeCaller *owner,
                                   SondeCaptureStore *store,
                                   SondePeerLauncher *launcher,
                                   const SondeSessionHandler *handler,
                                   gpointer user_data,
                                   GError **error);
/* Kills what is left. */
void sonde_session_free (SondeSession *self);

/* As sonde_session_free(), but what the next sonded needs stays, and broker and worker go on. */
void sonde_session_leave (SondeSession *self);

/* Starts a broker, which proves the targets, then a worker; `started` follows. */
void sonde_session_start (SondeSession *self, SondePeerLauncher *launcher);

/**
 * sonde_session_stop:
 * @reason: for Finished: "stopped", "owner-left", ...
 *
 * Does nothing if it is stopping already. Before `started` it fails the session.
 */
void sonde_session_stop (SondeSession *self, const char *reason);

/* Once, also from inside of the call. @statistics: a{st}, NULL with @error */
typedef void (*SondeSessionStopped) (GVariant *statistics, const GError *error, gpointer user_data);
/* As sonde_session_stop() with "stopped"; answers when the rings are drained or the session failed,
 * within SONDE_LIMIT_DRAIN_MS. Errors: SONDE_ERROR_INVALID_STATE, FAILED */
void sonde_session_stop_for (SondeSession *self, SondeSessionStopped stopped, gpointer user_data);

/* @step: to SONDE_STEP_PAUSE, or to _RESUME; nothing is sampled in between.
 * Errors: SONDE_ERROR_INVALID_STATE, FAILED */
gboolean sonde_session_switch (SondeSession *self, SondeSessionStep step, GError **error);

/* One more stream of a live session, for @reader (unique bus name). Returns: the reader's end, or
 * -1. Errors: SONDE_ERROR_INVALID_STATE, LIMIT_EXCEEDED, FAILED */
int sonde_session_open_stream (SondeSession *self,
                               const char *reader,
                               const SondeStreamOptions *options,
                               GError **error);
/* Once, also from inside of the call. @fd: (transfer full): sealed, for reading; -1 with @error */
typedef void (*SondeSessionSnapped) (int fd, const GError *error, gpointer user_data);
/* Has what the recorder has at this moment written. @place: (transfer full)
 * Errors: SONDE_ERROR_INVALID_STATE, LIMIT_EXCEEDED, FAILED */
void sonde_session_snapshot (SondeSession *self,
                             SondeSnapshot *place,
                             SondeSessionSnapped snapped,
                             gpointer user_data);
/* FALSE: it has no recorder, or does not run */
gboolean sonde_session_check_snapshot (const SondeSession *self, GError **error);
/* Answers with the capture file of a session that is over, read-only.
 * Errors, without an answer: SONDE_ERROR_INVALID_STATE */
gboolean sonde_session_open_file (const SondeSession *self,
                                  SondeStoreReply reply,
                                  gpointer user_data,
                                  GError **error);

/* One more control socket for programs. Returns: the programs' end, or -1.
 * Errors: SONDE_ERROR_INVALID_STATE, LIMIT_EXCEEDED, FAILED */
int sonde_session_open_control (SondeSession *self, GError **error);

/* Whether programs that run already are called for it, which it wants if they are of its scope.
 * @wish: (out) */
gboolean sonde_session_wants_programs (const SondeSession *self, SondeBeaconWish *wish);
/* @guest: (transfer full): who knows its key, or was called. If its broker says that he may be one
 * of its programs he is the worker's; else he is told that he is not, and the capture says so, or
 * he is passed on. */
void sonde_session_meet (SondeSession *self, SondeGuest *guest);
/* A connection of its owner's was not taken, and may have been one of its programs: told, less and
 * less often. */
void sonde_session_turn_away (SondeSession *self);

/* CPU time that both have taken so far, in µs. */
guint64 sonde_session_measure (SondeSession *self);
/* Has nothing recorded for a while, or again if that is its state. @text: told in the capture.
 * FALSE: it is not live */
gboolean sonde_session_set_slowed (SondeSession *self, gboolean is_slowed, const char *text);
/* Stops it; fails it at once if it is stopping already. @reason: told in the capture, too */
void sonde_session_end_over_budget (SondeSession *self, const char *reason);

/* Fails it now, without waiting for its worker to drain. */
void sonde_session_abort (SondeSession *self, const char *reason);

/* Once, also from inside of the call. @error: why not; NULL: they are in */
typedef void (*SondeTargetsAdded) (const GError *error, gpointer user_data);
/* @targets: (transfer full) (element-type SondeAskedTarget): all of them come in, or none.
 * They have SONDE_LIMIT_PROOF_MS; an answer that comes later is nobody's.
 * Errors: SONDE_ERROR_INVALID_STATE, LIMIT_EXCEEDED, FAILED; what the broker says */
void sonde_session_add_targets (SondeSession *self,
                                GPtrArray *targets,
                                SondeTargetsAdded added,
                                gpointer user_data);

/* After `ended`: lets go of all but what its properties say and the path of its file. */
void sonde_session_retire (SondeSession *self);

/* The sheet that says the most of it; state and processes in there are those of the moment when it
 * was last written down. */
const SondeSessionRecord *sonde_session_facts (const SondeSession *self);
/* Its targets are taken away once it runs. */
const SondeOptions *sonde_session_options (const SondeSession *self);
/* Whether what its worker has said since the last call was heard, if it has said anything. */
gboolean sonde_session_has_progress (SondeSession *self);
/* Finished or failed. */
gboolean sonde_session_is_over (const SondeSession *self);
/* (transfer container) (element-type utf8): who is told of changes, the owner first if he is there
 */
GPtrArray *sonde_session_listeners (const SondeSession *self);
/* The property State. */
const char *sonde_session_state_name (const SondeSession *self);
/* (transfer floating): a{st} */
GVariant *sonde_session_statistics (const SondeSession *self);
