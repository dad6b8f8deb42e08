/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A live view from its first frame to its end, on a terminal or as text. */
#pragma once

#include "client/service/record-options.h"
#include "client/top/top-view.h"

/* Where the frames of a live view come from: a session that is there, or one of our own. */
typedef struct SondeTopSource SondeTopSource;

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

typedef struct
{
  SondeTopMode mode;
  double window_s;
  double interval_s;
  int count;        /* blocks of text until the end; 0: any number */
  gboolean is_text; /* not on the terminal */
} SondeTopOptions;

/* Runs until the user has enough, or the capture is over and there is no terminal on which it could
 * still be looked at. Returns: what the program exits with: if it failed, as sondectl record would
 */
int sonde_top_run (SondeTopSource *source, const SondeTopOptions *options);
