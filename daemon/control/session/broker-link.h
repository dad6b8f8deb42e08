/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session's connection with its broker: what is asked, as messages. */
#pragma once

#include "daemon/base/asked-target.h"
#include "daemon/control/peer/peer.h"

/**
 * SECTION: broker-link
 *
 * Life: ask (the broker has said its first word; PROVED follows) → serve (what the worker has to
 * hear follows) → open (EVENTS and OPENED follow) → announce → add, as often as wanted → close.
 * What the broker says goes to the session (session-messages.c), and its answers to `add` come back
 * from there. A call that returns FALSE has found that the broker is no use any more.
 */
typedef struct SondeBrokerLink SondeBrokerLink;

/* @handler: outliving it. Errors: those of sonde_peer_start() */
SondeBrokerLink *sonde_broker_link_new (SondePeerLauncher *launcher,
                                        const SondePeerHandler *handler,
                                        gpointer user_data,
                                        GError **error);
/* @n_unanswered: what the sonded before us has asked to add, whose answers come first; others as of
 * sonde_peer_adopt() */
SondeBrokerLink *sonde_broker_link_adopt (SondePeerLauncher *launcher,
                                          int fd,
                                          pid_t pid,
                                          guint n_unanswered,
                                          const SondePeerHandler *handler,
                                          gpointer user_data);
/* Kills the broker. Accepts NULL. */
void sonde_broker_link_free (SondeBrokerLink *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeBrokerLink, sonde_broker_link_free)
/* As sonde_broker_link_free(), but the broker goes on. Accepts NULL. */
void sonde_broker_link_leave (SondeBrokerLink *self);
/* As sonde_broker_link_free(). Returns: (transfer full): the broker, who goes on */
SondePeer *sonde_broker_link_dissolve (SondeBrokerLink *self);

SondePeer *sonde_broker_link_peer (const SondeBrokerLink *self);

/* @targets: (transfer full) (element-type SondeAskedTarget) */
gboolean sonde_broker_link_ask (SondeBrokerLink *self,
                                const SondeAsked *asked,
                                uid_t owner_uid,
                                pid_t owner_pid,
                                GPtrArray *targets,
                                GError **error);
/* @fd: (transfer full): its end of the connection with the worker */
gboolean
sonde_broker_link_serve (SondeBrokerLink *self, guint64 session_id, int fd, GError **error);
/* @group: (nullable): the path of the unit's control group */
gboolean sonde_broker_link_open (SondeBrokerLink *self, const char *group, GError **error);
/* The worker has heard START. */
gboolean sonde_broker_link_announce (SondeBrokerLink *self, GError **error);
/* The worker has mapped, or not, rings of a processor that came while the session runs. */
gboolean sonde_broker_link_tell_mapped (SondeBrokerLink *self,
                                        const SondeMessageRingsMapped *message,
                                        GError **error);
/* Whether targets are left is told again. */
gboolean sonde_broker_link_report (SondeBrokerLink *self, GError **error);
/* Nothing is added any more; requests of the worker are still answered. */
gboolean sonde_broker_link_close (SondeBrokerLink *self, GError **error);

/**
 * sonde_broker_link_add_async:
 * @targets: (transfer full) (element-type SondeAskedTarget): all of them come in, or none
 *
 * Fails after SONDE_LIMIT_PROOF_MS; an answer that comes later is nobody's.
 *
 * Errors: what the broker says; SONDE_ERROR_FAILED, LIMIT_EXCEEDED; INVALID_STATE: the link has
 * gone
 */
void sonde_broker_link_add_async (SondeBrokerLink *self,
                                  GPtrArray *targets,
                                  GAsyncReadyCallback callback,
                                  gpointer user_data);
gboolean sonde_broker_link_add_finish (GAsyncResult *result, GError **error);
/* How many answers are still to come: SONDE_LIMIT_CALLS at most. */
guint sonde_broker_link_n_unanswered (const SondeBrokerLink *self);
/* ADDED has come. Errors: SONDE_ERROR_FAILED: it answers nothing */
gboolean sonde_broker_link_take_added (SondeBrokerLink *self,
                                       const SondeMessageResult *result,
                                       GError **error);

/* Whether @result is that it is done; else @error is what it says. */
gboolean sonde_broker_result_is_good (const SondeMessageResult *result, GError **error);
