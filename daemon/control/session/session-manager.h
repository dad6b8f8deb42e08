/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All sessions, by number, and what one uid may have of them. */
#pragma once

#include "daemon/control/session/session.h"
#include "daemon/control/system/settings.h"

typedef struct SondeSessionManager SondeSessionManager;

typedef struct
{
  /* It runs; its owner does not know yet. */
  void (*started) (SondeSession *session, gpointer user_data);
  void (*state_changed) (SondeSession *session, gpointer user_data);
  /* Its last sign of life. A session of Profile cannot be looked up any more; one of StartSession
   * stays for SONDE_LIMIT_KEPT_MS. */
  void (*ended) (SondeSession *session, gpointer user_data);
  /* One that had started cannot be looked up any more. */
  void (*removed) (SondeSession *session, gpointer user_data);
} SondeSessionManagerHandler;

/* @launcher: (transfer full)
 * @store: (nullable) (transfer full): where capture files go
 * @fd_store: (nullable): outliving it: where sessions outlive us
 * @settings: outliving it; may change */
SondeSessionManager *sonde_session_manager_new (SondePeerLauncher *launcher,
                                                SondeCaptureStore *store,
                                                SondeFdStore *fd_store,
                                                const SondeSettings *settings,
                                                const SondeSessionManagerHandler *handler,
                                                gpointer user_data);
/* Kills what is left. */
void sonde_session_manager_free (SondeSessionManager *self);

/* @fd: (transfer full): where programs of sessions that begin from now on, and of those that were
 * taken over, find them: see rendezvous.h
 * @beacon: (nullable): path of the page by which programs that run already are called to come
 *   there, for sessions that want them
 * @is_private: that page is for the first session of ours that wants it, and for nobody meanwhile
 *
 * Errors: those of sonde_rendezvous_new(); of sonde_beacon_page_open(): programs that run are not
 * called then, others come
 */
gboolean sonde_session_manager_listen (
    SondeSessionManager *self, int fd, const char *beacon, gboolean is_private, GError **error);

/* Takes over the sessions that a sonded before us has left in the fd store. Before any other. */
void sonde_session_manager_adopt (SondeSessionManager *self, SondeCallers *callers);
/* Leaves them to the next one: their workers go on, and nobody is told of an end. */
void sonde_session_manager_leave (SondeSessionManager *self);

/* Sessions run or can be seen, or brokers of others have not ended. */
gboolean sonde_session_manager_is_busy (const SondeSessionManager *self);
/* Whether what workers have said since the last call was heard. */
gboolean sonde_session_manager_has_progress (SondeSessionManager *self);

/* (nullable): the files of sessions; NULL: there is no place for them */
SondeCaptureStore *sonde_session_manager_store (SondeSessionManager *self);

/* Once. @id: the session's number, or 0 with @error. @capture_fd: (transfer full): the reader's
 * end; -1 of a lasting session */
typedef void (*SondeSessionStarted) (guint64 id,
                                     int capture_fd,
                                     const GError *error,
                                     gpointer user_data);

/**
 * sonde_session_manager_start:
 * @options: (transfer full):
 * @is_lasting: it outlives its owner and writes a capture file
 * @started: also from inside of this call
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, naming the limit; NOT_SUPPORTED without a store; and those of
 * sonde_session_start()
 */
void sonde_session_manager_start (SondeSessionManager *self,
                                  SondeCaller *owner,
                                  SondeOptions *options,
                                  gboolean is_lasting,
                                  SondeSessionStarted started,
                                  gpointer user_data);

/* Counts a call of AddProcess of @uid. Errors: SONDE_ERROR_LIMIT_EXCEEDED, naming the limit */
gboolean
sonde_session_manager_check_addition (SondeSessionManager *self, uid_t uid, GError **error);

SondeSnapshots *sonde_session_manager_snapshots (SondeSessionManager *self);

/* NULL if there is none. */
SondeSession *sonde_session_manager_lookup (SondeSessionManager *self, guint64 id);
/* Whether @id is, or was, a session of @uid: of the newest SONDE_LIMIT_REMEMBERED. */
gboolean sonde_session_manager_was_of (const SondeSessionManager *self, guint64 id, uid_t uid);
/* Whether there is one of another uid. */
gboolean sonde_session_manager_has_others (SondeSessionManager *self, uid_t uid);
/* (transfer container) (element-type SondeSession): by number */
GPtrArray *sonde_session_manager_list (SondeSessionManager *self);
/* Ends the sessions of @owner that do not last; of NULL: all. */
void sonde_session_manager_stop (SondeSessionManager *self, const char *owner, const char *reason);

/* Stops all; refuses new ones from now on; calls @done when the last is gone, at most
 * SONDE_LIMIT_SHUTDOWN_MS later. */
void sonde_session_manager_shut_down (SondeSessionManager *self,
                                      const char *reason,
                                      void (*done) (gpointer user_data),
                                      gpointer user_data);

/* Sessions that are over stay to be seen: each item for SONDE_LIMIT_KEPT_US, or until its uid has
 * SONDE_LIMIT_KEPT_PER_UID or all uids together SONDE_LIMIT_KEPT newer ones. Times are monotonic
 * and given by the caller, who asks for what is due when it is due. */
typedef struct SondeKeptList SondeKeptList;

SondeKeptList *sonde_kept_list_new (GDestroyNotify free_item);
void sonde_kept_list_free (SondeKeptList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeKeptList, sonde_kept_list_free)

/* @item: (transfer full): the newest one */
void sonde_kept_list_add (SondeKeptList *self, guint64 id, uid_t uid, gpointer item, gint64 now_us);

/* NULL if there is none. */
gpointer sonde_kept_list_lookup (const SondeKeptList *self, guint64 id);
/* Oldest first; NULL behind the last one. */
gpointer sonde_kept_list_get (const SondeKeptList *self, guint index);

/* Drops what is due. Returns: µs until the next one is, -1 if the list is empty */
gint64 sonde_kept_list_expire (SondeKeptList *self, gint64 now_us);
