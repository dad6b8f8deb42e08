/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker tells control, until control has heard its last word. */
#pragma once

#include "daemon/base/channel.h"
#include "daemon/capture/requests.h"
#include "daemon/capture/stages.h"

/**
 * SECTION: control-link
 *
 * Owns the worker's end of the connection. Sending never fails: that control is gone is told by the
 * channel's end. The last word, FINISHED or FAILED, can be told again to a sonded that has taken
 * the place of the one which read it.
 */
typedef struct SondeControlLink SondeControlLink;

/* Control has heard the last word, is gone, or does not listen any more. The link may not be freed
 * in it. */
typedef void (*SondeControlLinkParted) (gpointer user_data);

/* @fd: (transfer full): a connected SOCK_SEQPACKET socket */
SondeControlLink *sonde_control_link_new (int fd,
                                          const SondeChannelHandler *handler,
                                          SondeControlLinkParted parted,
                                          gpointer user_data);
/* Accepts NULL. */
void sonde_control_link_free (SondeControlLink *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeControlLink, sonde_control_link_free)

void sonde_control_link_hello (SondeControlLink *self);
void sonde_control_link_rings_mapped (SondeControlLink *self, SondeMessageRingsMapped *message);
/* @type: STATISTICS or DRAINED */
void
sonde_control_link_statistics (SondeControlLink *self, SondeMessageType type, SondeStages *stages);
void sonde_control_link_sinks (SondeControlLink *self, SondeStages *stages);
void sonde_control_link_controls (SondeControlLink *self, SondeStages *stages);
void sonde_control_link_sink_closed (SondeControlLink *self, guint32 sink_id, int reason);
/* Returns: FALSE if control is gone */
gboolean sonde_control_link_request (SondeControlLink *self, const SondeRequest *request);

/* For the text of a process that is counted. Returns: as before */
gboolean sonde_control_link_ask_counters (SondeControlLink *self, gint32 pid);

/* The last word: one of the two, once. @text: printable ASCII */
void sonde_control_link_finished (SondeControlLink *self, SondeStages *stages);
void sonde_control_link_failed (SondeControlLink *self, int error_number, const char *text);
/* Waits until control has heard the last word if there is one, and what else was sent is on its
 * way; then @parted. */
void sonde_control_link_part (SondeControlLink *self);
/* After sonde_control_link_part(): somebody else listens now, or nobody has to any more. */
void sonde_control_link_repeat (SondeControlLink *self);
void sonde_control_link_leave (SondeControlLink *self);

/* The channel has reported its end. */
void sonde_control_link_close (SondeControlLink *self);
