/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures what one uid has of what all share, and how often it does something. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/* One uid takes at most half of what the others leave of @total, but one if anything is left. */
guint64 sonde_quota_share (guint64 total, guint64 n_of_others);

/**
 * sonde_quota_check_fds:
 * @n_fds: that sonded has to open at once for @uid
 *
 * Root takes what there is, nobody the SONDE_LIMIT_RESERVED_FDS.
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: descriptors
 */
gboolean sonde_quota_check_fds (uid_t uid, guint64 n_fds, GError **error);

/**
 * sonde_quota_check_message:
 *
 * Whether a message that brought descriptors leaves room for those of the next one: the kernel
 * drops what does not fit any more, and sd-bus gives up the bus over such a message. It may take
 * half of the SONDE_LIMIT_RESERVED_FDS.
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: descriptors
 */
gboolean sonde_quota_check_message (GError **error);

/**
 * sonde_quota_check_flight:
 *
 * Whether descriptors can be sent. The kernel lets a user have as many between sendmsg() and
 * recvmsg() as one of its processes may open, and counts those of all its processes together.
 * sd-bus gives up a message that cannot be sent: what brings a descriptor is to be asked for here
 * before. SONDE_LIMIT_FLIGHT_MARGIN are left to others who send at this moment.
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: descriptors
 * Source: unix(7), ETOOMANYREFS
 */
gboolean sonde_quota_check_flight (GError **error);

/* The same for memory that a session of @uid locks for its perf rings on @n_cpus processors.
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: perf-rings */
gboolean sonde_quota_check_rings (uid_t uid, guint n_cpus, GError **error);

/**
 * sonde_quota_check_sessions:
 * @n_own: sessions that @uid has
 * @n_of_others: of all other uids but root
 * @max: that @uid may have
 * @max_of_machine: of all uids but root
 *
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED: sessions, sessions-root, sessions-machine
 */
gboolean sonde_quota_check_sessions (
    uid_t uid, guint n_own, guint n_of_others, guint max, guint max_of_machine, GError **error);

/* A token bucket for each uid. Times are monotonic µs and given by the caller; a uid that has used
 * nothing takes no memory. */
typedef struct SondeUidRate SondeUidRate;

/* @burst: at once; then one each @interval_us */
SondeUidRate *sonde_uid_rate_new (guint burst, gint64 interval_us);
/* Accepts NULL. */
void sonde_uid_rate_free (SondeUidRate *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeUidRate, sonde_uid_rate_free)

/* Whether @uid may do it once more; counts nothing. */
gboolean sonde_uid_rate_has_room (SondeUidRate *self, uid_t uid, gint64 now_us);
/* @uid has done it. */
void sonde_uid_rate_count (SondeUidRate *self, uid_t uid, gint64 now_us);
