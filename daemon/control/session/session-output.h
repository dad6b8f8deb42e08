/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Leads one session's frames to its streams and its capture file. */
#pragma once

#include "daemon/control/session/capture-store.h"
#include "daemon/control/request/options.h"
#include "daemon/control/request/session-record.h"
#include "daemon/control/peer/peer.h"

/**
 * SECTION: session-output
 *
 * A session of Profile begins with a stream to its owner, one of StartSession with a capture file;
 * readers come and go. A stream is an AF_UNIX stream socketpair that we make: the worker gets the
 * writing end, the reader the other one, which nothing can be written to. None of these descriptors
 * stays with us. Once sealed, who reads is not asked any more: those who did at that moment are
 * told of the end. Main loop only.
 */
typedef struct
{
  SondeCaptureStore *store; /* NULL: without a file */
  uid_t owner_uid;
  SondeStoreRequest *creating; /* NULL: not yet, or not any more */
  void (*created) (const GError *error, gpointer user_data);
  gpointer user_data;
  int file_fd; /* until the worker has it; -1 */
  char *path;  /* absolute; NULL without a file, or before it is made */
  guint64 max_bytes;
  GHashTable *readers; /* sink number → unique bus name; NULL for a file */
  guint32 last_sink_id;
  GPtrArray *last_readers; /* char *: once sealed */
} SondeSessionOutput;

/* @store: (nullable): outliving it */
SondeSessionOutput *sonde_session_output_new (SondeCaptureStore *store, uid_t owner_uid);
/* Accepts NULL. */
void sonde_session_output_free (SondeSessionOutput *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSessionOutput, sonde_session_output_free)

/* Of an output with a store: has the capture file made. @created: once, unless @self is freed
 * before;
 * @error: as of SONDE_STORE_CREATE */
void sonde_session_output_create_file (SondeSessionOutput *self,
                                       const char *label,
                                       guint64 session_id,
                                       void (*created) (const GError *error, gpointer user_data),
                                       gpointer user_data);
/* Hands the new file to the worker, who ends it at max_bytes, at a whole frame.
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED */
gboolean
sonde_session_output_open_file (SondeSessionOutput *self, SondePeer *worker, GError **error);

/**
 * sonde_session_output_open_stream:
 * @reader: unique bus name of who gets it; "" on a private connection
 *
 * Returns: the reader's end, or -1. Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED
 */
int sonde_session_output_open_stream (SondeSessionOutput *self,
                                      const char *reader,
                                      const SondeStreamOptions *options,
                                      SondePeer *worker,
                                      GError **error);

/* The worker has closed a sink. Errors: SONDE_ERROR_FAILED if it never had one of that number */
gboolean sonde_session_output_closed (SondeSessionOutput *self, guint32 sink_id, GError **error);

/* Why a session ends of which nobody takes frames any more: "reader-left", "capture-full"; NULL
 * while somebody does. */
const char *sonde_session_output_deserted (const SondeSessionOutput *self);

/* Of an adopted session: the streams that are open are at most these; of others nobody knows. */
void
sonde_session_output_reconcile (SondeSessionOutput *self, const guint32 *sink_ids, guint n_sinks);
void sonde_session_output_record (const SondeSessionOutput *self, SondeSessionRecord *record);
/* Of a new one. */
void sonde_session_output_restore (SondeSessionOutput *self, const SondeSessionRecord *record);

void sonde_session_output_seal (SondeSessionOutput *self);
/* Nothing is written to the file any more. */
void sonde_session_output_close (SondeSessionOutput *self);

/* (transfer container) (element-type utf8): unique bus names of readers, each once; borrowed */
GPtrArray *sonde_session_output_readers (const SondeSessionOutput *self);
