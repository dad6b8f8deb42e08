/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A token bucket for each uid: how often it does something. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/* Times are monotonic µs and given by the caller; a uid that has used nothing takes no memory. */
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
