/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Brokers that were told to end, and whom they were for. */
#pragma once

#include "daemon/control/peer/peer.h"

/**
 * SECTION: peer-leavers
 *
 * A broker whose session is over has SONDE_LIMIT_PEER_EXIT_MS to exit, and is killed then. One that
 * asks the kernel something that the kernel does not answer outlives even that: it is stuck
 * SONDE_LIMIT_PEER_KILL_MS later, and counts for the uid of its session until it ends, so that
 * nobody fills the machine with them. Main loop only.
 */
typedef struct SondePeerLeavers SondePeerLeavers;

SondePeerLeavers *sonde_peer_leavers_new (void);
/* Kills those that are left. Accepts NULL. */
void sonde_peer_leavers_free (SondePeerLeavers *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondePeerLeavers, sonde_peer_leavers_free)

/* @peer: (transfer full): not gone yet; @uid: its session's owner */
void sonde_peer_leavers_take (SondePeerLeavers *self, SondePeer *peer, uid_t uid);
/* Those of @uid that are stuck. */
guint sonde_peer_leavers_n_stuck (const SondePeerLeavers *self, uid_t uid);
