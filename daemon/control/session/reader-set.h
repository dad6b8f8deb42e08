/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The streams of one session as sonded knows them: who reads which. */
#pragma once

#include "daemon/control/request/session-record.h"
#include "daemon/control/request/options.h"
#include "daemon/control/peer/peer.h"

/**
 * SECTION: reader-set
 *
 * A stream is an AF_UNIX stream socketpair that we make: the worker gets the writing end, the
 * reader the other one, which nothing can be written to. A capture file is one more. None of these
 * descriptors stays with us. Main loop only.
 */
typedef struct SondeReaderSet SondeReaderSet;

SondeReaderSet *sonde_reader_set_new (void);
/* Accepts NULL. */
void sonde_reader_set_free (SondeReaderSet *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeReaderSet, sonde_reader_set_free)

/**
 * sonde_reader_set_open:
 * @reader: unique bus name of who gets it; "" on a private connection
 *
 * Returns: the reader's end, or -1. Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED
 */
int sonde_reader_set_open (SondeReaderSet *self,
                           const char *reader,
                           const SondeStreamOptions *options,
                           SondePeer *worker,
                           GError **error);

/**
 * sonde_reader_set_open_file:
 * @fd: (transfer full): a new and empty regular file, O_WRONLY
 * @max_bytes: what the worker may write; it ends the file there at a whole frame
 *
 * Returns: the sink's number, or 0. Errors: SONDE_ERROR_LIMIT_EXCEEDED, FAILED
 */
guint32 sonde_reader_set_open_file (
    SondeReaderSet *self, int fd, guint64 max_bytes, SondePeer *worker, GError **error);

/* The worker has closed a stream. FALSE: it never had one of that number. */
gboolean sonde_reader_set_closed (SondeReaderSet *self, guint32 sink_id);

/* Those that are not among @sink_ids are closed; of others nobody knows. */
void sonde_reader_set_reconcile (SondeReaderSet *self, const guint32 *sink_ids, guint n_sinks);
void sonde_reader_set_record (const SondeReaderSet *self, SondeSessionRecord *record);
/* Of a new one. */
void sonde_reader_set_restore (SondeReaderSet *self, const SondeSessionRecord *record);

/* Streams and files that are open. */
guint sonde_reader_set_n_open (const SondeReaderSet *self);
/* (transfer container) (element-type utf8): their readers, each once, files
 * have none; the names are borrowed */
GPtrArray *sonde_reader_set_names (const SondeReaderSet *self);
