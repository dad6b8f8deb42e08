/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A recording of what the user asked for, and the command that it may be of, from start to end. */
#pragma once

#include "client/library/sonde-client.h"
#include "client/service/record-options.h"

/* Exit statuses, as of timeout(1), env(1). */
enum
{
  SONDE_EXIT_OUR_FAILURE = 125,
  SONDE_EXIT_CANNOT_RUN = 126,
  SONDE_EXIT_NOT_FOUND = 127,
  SONDE_EXIT_SIGNAL_BASE = 128,
};

typedef struct SondeRecordRun SondeRecordRun;

typedef struct
{
  /* It goes on embedded, and why; a sentence. */
  void (*noticed) (const char *text, gpointer user_data);
  /* Something failed, which ends the recording, too. @what: stands before the message */
  void (*failed) (const char *what, const GError *error, gpointer user_data);
  /* The session runs, with the command in it, and its capture waits to be read or saved. */
  void (*started) (SondeClientSession *session, gpointer user_data);
  /* The recording is over, its command may not have exited yet. @reason: as of the session;
   * (nullable). NULL: not wanted */
  void (*stopped) (const char *reason, gpointer user_data);
  /* Both are. Comes once, last. */
  void (*ended) (gpointer user_data);
} SondeRecordRunHandler;

/**
 * sonde_record_run_new:
 * @options: (transfer none): kept by the caller as long as the run
 *
 * Forks the command, if there is one: the caller must not have started a thread yet, GLib's own
 * included.
 *
 * Returns: (transfer full): NULL with @error if there is nothing to record
 */
SondeRecordRun *sonde_record_run_new (const SondeRecordOptions *options, GError **error);
/* Tells nothing any more. Accepts NULL. */
void sonde_record_run_free (SondeRecordRun *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeRecordRun, sonde_record_run_free)

/* Reaches the service, or an embedded one: as the options say, else where there is no other. If a
 * service refuses, the run goes on embedded by itself: no command has run by then. */
gboolean sonde_record_run_connect (SondeRecordRun *self, GError **error);

/* Whether the service is, or was to be, one of our own. */
gboolean sonde_record_run_is_embedded (const SondeRecordRun *self);

/* Once connected. */
void sonde_record_run_start (SondeRecordRun *self,
                             const SondeRecordRunHandler *handler,
                             gpointer user_data);

/**
 * sonde_record_run_end:
 * @signal_number: what told us to; the command gets it, too, unless it is 0
 *
 * Ends the recording on purpose and keeps it.
 *
 * Returns: FALSE if that had been asked before: then the caller need not wait any longer
 */
gboolean sonde_record_run_end (SondeRecordRun *self, int signal_number);

/* (transfer none): NULL before it has started */
SondeClientSession *sonde_record_run_session (const SondeRecordRun *self);

/* Whether the recording is over. */
gboolean sonde_record_run_has_stopped (const SondeRecordRun *self);

/* Whether the command runs with options by which it names the code that it makes. */
gboolean sonde_record_run_is_named (const SondeRecordRun *self);

/* errno of a command that could not be run, else 0. */
int sonde_record_run_exec_error (const SondeRecordRun *self);

/* What the program that recorded exits with: docs/sondectl.1.rst, "EXIT STATUS". */
int sonde_record_run_exit_status (const SondeRecordRun *self);
