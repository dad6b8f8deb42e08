/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives the frames of a live view: of a session that is there, or of one of our own. */
#pragma once

#include "client/service/record-options.h"
#include "protocol/frame.h"

typedef struct SondeTopSource SondeTopSource;

typedef struct
{
  /* @frame: (transfer none): checked, valid during the call */
  void (*frame) (const SondeFrame *frame, gpointer user_data);
  /* @what: stands before the message */
  void (*failed) (const char *what, const GError *error, gpointer user_data);
  /* No more frames come. @reason: "targets-exited", ...; NULL: it is not known */
  void (*stopped) (const char *reason, gpointer user_data);
  /* Neither do other events; last. */
  void (*ended) (gpointer user_data);
} SondeTopSourceHandler;

/* One more reader of the session of that number: its samples and the ledger. Blocks while somebody
 * is asked for a password. Both return NULL with @error. */
SondeTopSource *sonde_top_source_new_session (guint64 session, GError **error);

/* @options: (transfer none): kept by the caller as long as the source. Forks the command, if there
 * is one: no thread may have been started yet. */
SondeTopSource *sonde_top_source_new_recording (const SondeRecordOptions *options, GError **error);
void sonde_top_source_free (SondeTopSource *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopSource, sonde_top_source_free)

/* Reaches the service, if that is not done yet. */
gboolean sonde_top_source_connect (SondeTopSource *self, GError **error);

void sonde_top_source_start (SondeTopSource *self,
                             const SondeTopSourceHandler *handler,
                             gpointer user_data);

/* Ends a recording of our own, and its command; leaves a session of others as it is. FALSE if that
 * was asked before. */
gboolean sonde_top_source_stop (SondeTopSource *self);

gboolean sonde_top_source_is_embedded (const SondeTopSource *self);

/* 0, or what sondectl record would exit with if it had failed in the same way. */
int sonde_top_source_exit_status (const SondeTopSource *self);
