/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table of the requests that the broker has not answered yet. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/message.h"
#include "unwind/module.h"

#define SONDE_REQUESTS_MAX                                                                         \
  1024 /* unanswered at a time; more are asked for when they are needed again */
#define SONDE_REQUEST_WAIT_NS (250 * 1000 * 1000) /* samples wait this long for an answer */

typedef struct
{
  guint64 id;
  gint64 sent_ns; /* CLOCK_MONOTONIC */
  int32_t pid;
  guint n_tries;
  gboolean is_file;
  SondeMessageFileRequest file; /* if so */
} SondeRequest;

/* Sends a request; FALSE: the peer is gone. */
typedef gboolean (*SondeRequestSend) (const SondeRequest *request, gpointer user_data);

typedef struct SondeRequests SondeRequests;

SondeRequests *sonde_requests_new (SondeRequestSend send, gpointer user_data);
void sonde_requests_free (SondeRequests *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeRequests, sonde_requests_free)

/* FALSE: too many wait, or the peer is gone. Asking for what is asked for already does nothing. */
gboolean sonde_requests_ask_process (SondeRequests *self, int32_t pid, gint64 now_ns);
/* @file: pid, start_ticks, start, offset and the file's identity */
gboolean sonde_requests_ask_file (SondeRequests *self,
                                  const SondeMessageFileRequest *file,
                                  guint n_tries,
                                  gint64 now_ns);

/* Whether an answer is young enough to be waited for. */
gboolean sonde_requests_wait_for_process (const SondeRequests *self, int32_t pid, gint64 now_ns);
gboolean
sonde_requests_wait_for_file (const SondeRequests *self, const SondeFileId *file, gint64 now_ns);

/* Removes the request that was answered; FALSE: there is none of this kind. */
gboolean
sonde_requests_remove (SondeRequests *self, guint64 id, gboolean is_file, SondeRequest *request);
/* The peer is gone: nothing is waited for. */
void sonde_requests_give_up (SondeRequests *self);
