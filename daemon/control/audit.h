/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One structured journal record for each start, end, refusal and worker death. */
#pragma once

#include <glib.h>
#include <sys/types.h>

/**
 * sonde_audit:
 * @event: "session-started", "session-ended", "refused", "worker-died"
 * @session: 0 none
 * @detail: may hold foreign words: it goes into a field of its own, made valid and cut at 256 bytes
 *
 * Fields: SONDE_EVENT, SONDE_SESSION, SONDE_UID, SONDE_DETAIL.
 */
void sonde_audit (const char *event, guint64 session, uid_t uid, const char *detail);
