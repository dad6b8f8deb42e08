/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes and reads all that a sonded must know of a session to take it over from another one. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/base/message.h"
#include "daemon/control/request/session-state.h"

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
  gboolean is_lasting;
  char *capture_file; /* NULL: none */
  guint64 capture_max_bytes;
  guint32 last_sink_id;
  GArray *sinks; /* SondeRecordSink */
} SondeSessionRecord;

/* An empty one. */
SondeSessionRecord *sonde_session_record_new (void);
/* Accepts NULL. */
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
