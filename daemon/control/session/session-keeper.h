/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps each session in the fd store, and finds those that a sonded before us has left there. */
#pragma once

#include "daemon/control/peer/peer-launcher.h"
#include "daemon/control/request/session-record.h"
#include "daemon/control/system/fd-store.h"

/**
 * SECTION: session-keeper
 *
 * A session with number N has in the store its connections with broker and worker ("N.broker",
 * "N.worker") and its record ("N.record.G"). A new record is put there before the old one, of a
 * lower G, is removed: there is always one. What has no valid record is nobody's.
 */
typedef struct SondeSessionKeeper SondeSessionKeeper;

/* @store: outliving it */
SondeSessionKeeper *sonde_session_keeper_new (SondeFdStore *store, guint64 id);
/* Leaves in the store what is there. Accepts NULL. */
void sonde_session_keeper_free (SondeSessionKeeper *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSessionKeeper, sonde_session_keeper_free)

/* The connection with one of that kind. */
void sonde_session_keeper_keep_peer (SondeSessionKeeper *self, SondePeerKind kind, int fd);
void sonde_session_keeper_keep_record (SondeSessionKeeper *self, const SondeSessionRecord *record);
void sonde_session_keeper_forget_peer (SondeSessionKeeper *self, SondePeerKind kind);
void sonde_session_keeper_forget_record (SondeSessionKeeper *self);
/* All; the record first: without it the rest is nobody's. */
void sonde_session_keeper_forget (SondeSessionKeeper *self);

/* A session as it was left. */
typedef struct
{
  SondeSessionRecord *record;
  guint32 generation;
  int peer_fds[SONDE_PEER_N_KINDS]; /* -1: none */
} SondeLeftSession;

/**
 * sonde_session_keeper_find_left:
 *
 * Removes from the store parts of what is no session any more, and what cannot be read. Other names
 * are of leavers (peer-leavers.h).
 *
 * Returns: (transfer full) (element-type SondeLeftSession): their descriptors are theirs until
 * stolen
 */
GPtrArray *sonde_session_keeper_find_left (SondeFdStore *store);
/* Removes what cannot be taken over after all. */
void sonde_session_keeper_forget_left (SondeFdStore *store, const SondeLeftSession *left);
/* For a session that is taken over. */
SondeSessionKeeper *sonde_session_keeper_new_left (SondeFdStore *store,
                                                   const SondeLeftSession *left);
