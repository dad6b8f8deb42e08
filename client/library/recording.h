/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One session seen by its owner: asks for it, keeps its capture, waits for its end. */
#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#include "client/library/connection.h"

typedef struct SondeRecording SondeRecording;

typedef struct
{
  /* The session runs. */
  void (*started) (gpointer user_data);
  /* Answer to sonde_recording_open_control(). @fd: (transfer full): for the programs; -1 with
   * @error */
  void (*control_opened) (int fd, const GError *error, gpointer user_data);
  /* Answer to sonde_recording_add_process(). @error NULL: it is being recorded. */
  void (*added) (const GError *error, gpointer user_data);
  /* Answer to sonde_recording_refresh(): newer figures, if there are any. */
  void (*refreshed) (gpointer user_data);
  /* Comes once, last. @error NULL: everything that the session recorded was read. */
  void (*ended) (const GError *error, gpointer user_data);
  /* Takes bytes of the capture after sonde_recording_read(); FALSE with @error ends the session. */
  gboolean (*data) (const guint8 *bytes, gsize size_bytes, GError **error, gpointer user_data);
} SondeRecordingHandler;

/**
 * sonde_recording_new:
 * @connection: (transfer none): kept by the caller as long as the recording
 */
SondeRecording *sonde_recording_new (SondeConnection *connection,
                                     const SondeRecordingHandler *handler,
                                     gpointer user_data);
void sonde_recording_free (SondeRecording *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeRecording, sonde_recording_free)

/**
 * sonde_recording_start:
 * @options: a{sv} of Manager.Profile; floating is fine
 * @fds: (nullable): what the handles in @options mean
 */
void sonde_recording_start (SondeRecording *self, GVariant *options, GUnixFDList *fds);

/* Begins to read the capture for the handler, once the session has started. */
void sonde_recording_read (SondeRecording *self);

/* The same for a file. @fd: (transfer none): written to in blocking mode */
void sonde_recording_save (SondeRecording *self, int fd);

/* Once it has started. */
void sonde_recording_open_control (SondeRecording *self);

/* @maps_fd: (transfer none): an open /proc/PID/maps */
void sonde_recording_add_process (SondeRecording *self, GPid pid, int maps_fd);

/* Ends the session, or takes the request for it back. May be called at any time, more than once. */
void sonde_recording_stop (SondeRecording *self);

/* Asks for the statistics. */
void sonde_recording_refresh (SondeRecording *self);

/* Whether the service has told any statistics yet. */
gboolean sonde_recording_has_statistics (const SondeRecording *self);

/* The newest known value of a key of Statistics, else 0. */
guint64 sonde_recording_statistic (const SondeRecording *self, const char *key);

/* "stopped", "duration", ..., or NULL if the service did not say. */
const char *sonde_recording_reason (const SondeRecording *self);

/* Bytes read so far; of a file: written. */
guint64 sonde_recording_bytes (const SondeRecording *self);

/* Since the session started, in ns; 0 before. */
gint64 sonde_recording_elapsed_ns (const SondeRecording *self);
