/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A thread that looks after the capture files, so that nobody else waits for their disk. */
#pragma once

#include "daemon/control/session/capture-files.h"

/**
 * SECTION: capture-store
 *
 * A disk may be slow, or its server gone: whatever asks it is asked of a thread, which answers in
 * the main loop. What one uid asks is done in order; the uids have turns. What is not answered
 * within SONDE_LIMIT_STORE_MS has failed: it is not begun any more, and undone where it was begun.
 */
typedef struct SondeCaptureStore SondeCaptureStore;
/* Something asked for, until it is answered. */
typedef struct SondeStoreRequest SondeStoreRequest;

/* What of it is set says each function. */
typedef struct
{
  int fd; /* to be stolen, or closed by a closer; -1: none */
  gboolean is_so;
  uid_t owner_uid;
  guint64 max_bytes;
  char *path;
  GPtrArray *captures; /* SondeStoredCapture */
} SondeStoreAnswer;

/* @error: (nullable): why not; those of capture-files, and SONDE_ERROR_FAILED if the disk does not
 * answer */
typedef void (*SondeStoreReply) (SondeStoreAnswer *answer, const GError *error, gpointer user_data);

/**
 * sonde_capture_store_new:
 * @directory: the state directory; it exists
 * @settings: outliving it; may change
 *
 * Waits for the disk SONDE_LIMIT_STORE_OPEN_MS at most, so that a directory that is of no use is
 * known from the start.
 *
 * Errors: as sonde_capture_files_open()
 */
SondeCaptureStore *
sonde_capture_store_new (const char *directory, const SondeSettings *settings, GError **error);
/* What is not answered fails now. The thread has SONDE_LIMIT_STORE_OPEN_MS to do the rest. Accepts
 * NULL. */
void sonde_capture_store_free (SondeCaptureStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureStore, sonde_capture_store_free)

/* No answer is wanted any more; a file that was made goes again. */
void sonde_store_request_cancel (SondeStoreRequest *self);

/* At once: as of capture-files. The file of @owner_uid is looked at later. */
void sonde_capture_store_hold (SondeCaptureStore *self, const char *path, guint64 max_bytes);
void sonde_capture_store_complete (SondeCaptureStore *self, uid_t owner_uid, const char *path);
void sonde_capture_store_release (SondeCaptureStore *self, const char *path);

/* @uid: who asks, and has a turn. Sets fd, path and max_bytes. */
SondeStoreRequest *sonde_capture_store_create (SondeCaptureStore *self,
                                               uid_t uid,
                                               const char *label,
                                               guint64 session_id,
                                               SondeStoreReply reply,
                                               gpointer user_data);
/* Sets fd. */
void sonde_capture_store_reopen (SondeCaptureStore *self,
                                 uid_t uid,
                                 const char *path,
                                 SondeStoreReply reply,
                                 gpointer user_data);
void sonde_capture_store_open_stored (SondeCaptureStore *self,
                                      uid_t uid,
                                      const char *name,
                                      SondeStoreReply reply,
                                      gpointer user_data);
/* Sets owner_uid. */
void sonde_capture_store_remove (SondeCaptureStore *self,
                                 uid_t uid,
                                 const char *name,
                                 SondeStoreReply reply,
                                 gpointer user_data);
/* Sets captures. */
void sonde_capture_store_list (SondeCaptureStore *self,
                               uid_t uid,
                               gboolean is_of_all,
                               SondeStoreReply reply,
                               gpointer user_data);
/* Set is_so: whether it is @uid's, whether others may have some, whether more is to go. */
void sonde_capture_store_is_of (SondeCaptureStore *self,
                                uid_t uid,
                                const char *name,
                                SondeStoreReply reply,
                                gpointer user_data);
void sonde_capture_store_has_others (SondeCaptureStore *self,
                                     uid_t uid,
                                     SondeStoreReply reply,
                                     gpointer user_data);
void sonde_capture_store_tidy (SondeCaptureStore *self,
                               uid_t uid,
                               SondeStoreReply reply,
                               gpointer user_data);
