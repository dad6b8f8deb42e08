/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The system's service as commands of sondectl meet it: reached, refused, and in words. */
#pragma once

#include "client/library/sonde-client.h"

/* Reaches the system's service; NULL, having complained. */
SondeClientProfiler *sonde_service_connect (SondeClientAsk ask);

/**
 * sonde_service_explain:
 * @session: the number of a session that was asked for something
 * @error: (transfer full): what the service answered
 *
 * A stranger is told that he may not, whether or not there is such a session; most often there is
 * none. Blocks.
 *
 * Returns: (transfer full): @error, or %SONDE_CLIENT_ERROR_NO_SUCH_SESSION in its place
 */
GError *sonde_service_explain (SondeClientProfiler *profiler, guint64 session, GError *error);

/* a{sv}: all properties of that session, or of the manager (0); NULL, having complained. Blocks. */
GVariant *sonde_service_dup_properties (SondeClientProfiler *profiler, guint64 session);

/* A number of Statistics (a{st}); 0: the service does not tell of it. */
guint64 sonde_service_count (GVariant *statistics, const char *key);

/* "daemon", or "2" if that user has no name */
char *sonde_service_dup_owner (guint32 uid);

/* "2026-05-01 12:00:00" of µs since 1970, in the caller's time zone */
char *sonde_service_dup_time (guint64 realtime_us);

/**
 * sonde_service_error_advice:
 * @error: of a call to the service, or of the way to it
 * @is_embedded: the service is one of our own
 *
 * Returns: (nullable): a sentence that says what to do next
 */
const char *sonde_service_error_advice (const GError *error, gboolean is_embedded);

/* The message with the service's options as those of sondectl, escaped. */
char *sonde_service_error_dup_message (const GError *error);

/**
 * sonde_service_fail:
 * @session: as of sonde_service_explain(), which is asked first; 0, and NULL as profiler: none
 * @error: (transfer none)
 *
 * Returns: 1, what a command that failed exits with, having complained. Blocks.
 */
int sonde_service_fail (SondeClientProfiler *profiler, guint64 session, const GError *error);

/* "sondectl: @what...", that message, and the advice on a line of its
 * own. */
void sonde_service_error_complain (const char *what, const GError *error, gboolean is_embedded);
