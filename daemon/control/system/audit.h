/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One structured journal record for each start, end, refusal and death. */
#pragma once

#include "daemon/control/system/outbox.h"
#include <sys/types.h>

/**
 * sonde_audit:
 * @event: "session-started", "session-ended", "capture-removed", "refused", "worker-died",
 *   "broker-died", "broker-stuck", "broker-ended", "targets-stuck", "targets-answer", ...
 * @session: 0 none
 * @detail: may hold foreign words: made one printable line and cut at 512 bytes
 *
 * Fields: SONDE_EVENT, SONDE_SESSION, SONDE_UID, SONDE_DETAIL; the message has all four.
 */
void sonde_audit (const char *event, guint64 session, uid_t uid, const char *detail);

/**
 * sonde_audit_write:
 * @journal: /run/systemd/journal/socket
 *
 * Sends a record of g_log_structured() to the journal, without waiting for it. One that comes after
 * others were lost says how many.
 *
 * Source: systemd, docs/JOURNAL_NATIVE_PROTOCOL.md
 */
GLogWriterOutput sonde_audit_write (SondeOutbox *journal, const GLogField *fields, gsize n_fields);

/**
 * SondeRefusals:
 *
 * Starts, ends and deaths are as rare as the start rate makes them; refusals cost their caller
 * nothing. So each uid gets SONDE_LIMIT_AUDIT_BURST records of them in SONDE_LIMIT_AUDIT_WINDOW_US,
 * and then one that says how many more there were. Main loop only.
 */
typedef struct SondeRefusals SondeRefusals;

SondeRefusals *sonde_refusals_new (void);
/* Records what is only counted so far. */
void sonde_refusals_free (SondeRefusals *self);

/* Parameters as of sonde_audit(). */
void sonde_refusals_record (SondeRefusals *self, guint64 session, uid_t uid, const char *detail);
