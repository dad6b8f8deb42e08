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

/* What is asked, by which text and number, and what of the answer it sets. */
typedef enum
{
  SONDE_STORE_OPEN,        /* nothing: before anything else */
  SONDE_STORE_CREATE,      /* a label, a session: fd, path, max_bytes */
  SONDE_STORE_COMPLETE,    /* a path: nothing */
  SONDE_STORE_REOPEN,      /* a path: fd */
  SONDE_STORE_OPEN_STORED, /* a name: fd */
  SONDE_STORE_REMOVE,      /* a name: owner_uid */
  SONDE_STORE_LIST,        /* whether of all: captures */
  SONDE_STORE_IS_OF,       /* a name: is_so, it is @uid's */
  SONDE_STORE_HAS_OTHERS,  /* is_so, others may have some */
  SONDE_STORE_TIDY,        /* is_so, more is to go */
} SondeStoreTask;

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
/* What is not answered fails now. The thread has SONDE_LIMIT_STORE_OPEN_MS to do the rest. */
void sonde_capture_store_free (SondeCaptureStore *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureStore, sonde_capture_store_free)

/* No answer is wanted any more; a file that was made goes again. */
void sonde_store_request_cancel (SondeStoreRequest *self);

/* At once: as of capture-files. The file of @owner_uid is looked at later. */
void sonde_capture_store_hold (SondeCaptureStore *self, const char *path, guint64 max_bytes);
void sonde_capture_store_complete (SondeCaptureStore *self, uid_t owner_uid, const char *path);
void sonde_capture_store_release (SondeCaptureStore *self, const char *path);

/* @uid: who asks, and has a turn. */
SondeStoreRequest *sonde_capture_store_ask (SondeCaptureStore *self,
                                            SondeStoreTask task,
                                            uid_t uid,
                                            const char *text,
                                            guint64 number,
                                            SondeStoreReply reply,
                                            gpointer user_data);
