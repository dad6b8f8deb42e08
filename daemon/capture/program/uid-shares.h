/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts by uid what programs have of a session, and divides that where there may be several. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/**
 * SECTION: uid-shares
 *
 * In a session whose programs may be of several users one of them takes at most half of the things
 * that the others leave (SONDE_LIMIT_SHARE_PERCENT), and three quarters of the memory
 * (SONDE_LIMIT_RING_SHARE_PERCENT), so that whoever comes later still gets something; root takes
 * what there is. Who has subordinate uids is as many users as these: against him a session of the
 * machine has no more than its counts of who was turned away. In others it is all the same user's.
 * Main thread only.
 */
typedef struct
{
  guint n;
  gsize bytes;
} SondeUidAmount;

typedef struct
{
  gboolean is_divided;
  SondeUidAmount all;
  GHashTable *amounts; /* uid → SondeUidAmount, of those who have something */
} SondeUidShares;

void sonde_uid_shares_init (SondeUidShares *self, gboolean is_divided);
void sonde_uid_shares_clear (SondeUidShares *self);

/* Whether @uid may take one thing more, of so many bytes. @max: what all may have */
gboolean sonde_uid_shares_has_room (const SondeUidShares *self,
                                    uid_t uid,
                                    const SondeUidAmount *max,
                                    gsize size_bytes);
/* Bytes that @uid may still take of @max_bytes. */
gsize sonde_uid_shares_room (const SondeUidShares *self, uid_t uid, gsize max_bytes);
void sonde_uid_shares_take (SondeUidShares *self, uid_t uid, gsize size_bytes);
void sonde_uid_shares_give_back (SondeUidShares *self, uid_t uid, gsize size_bytes);

/* Users that have something. */
guint sonde_uid_shares_n_uids (const SondeUidShares *self);
