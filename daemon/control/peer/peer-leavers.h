/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Brokers that were told to end, and whom they were for. */
#pragma once

#include "daemon/control/peer/peer.h"
#include "daemon/control/system/fd-store.h"

/**
 * SECTION: peer-leavers
 *
 * A broker whose session is over has SONDE_LIMIT_PEER_EXIT_MS to exit, and is killed then. One that
 * asks the kernel something that the kernel does not answer outlives even that: it is stuck
 * SONDE_LIMIT_PEER_KILL_MS later. Each counts for the uid of its session until it ends, so that
 * nobody fills the machine with them, and so it does for the next sonded: a unit's pidfd is kept in
 * the fd store, as "broker.UID.PID". Main loop only.
 */
typedef struct SondePeerLeavers SondePeerLeavers;

/* @launcher, and @store (nullable): outliving it */
SondePeerLeavers *sonde_peer_leavers_new (SondePeerLauncher *launcher, SondeFdStore *store);
/* Kills those that are left. */
void sonde_peer_leavers_free (SondePeerLeavers *self);

/* Takes over those that a sonded before us has left, as stuck ones, and removes from the store what
 * is none and no part of a session (session-keeper.c). */
void sonde_peer_leavers_adopt (SondePeerLeavers *self);
/* @peer: (transfer full): not gone yet; @uid: its session's owner */
void sonde_peer_leavers_take (SondePeerLeavers *self, SondePeer *peer, uid_t uid);
/* Whether there are none. */
gboolean sonde_peer_leavers_is_empty (const SondePeerLeavers *self);
/* Those of @uid. @n_stuck: (out): how many of these are stuck */
guint sonde_peer_leavers_count (const SondePeerLeavers *self, uid_t uid, guint *n_stuck);
