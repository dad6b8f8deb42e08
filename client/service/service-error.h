/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The service's errors, and what a user can do about each. */
#pragma once

#include <gio/gio.h>

/* org.sonde.Profiler1.Error.NAME on the bus. */
typedef enum
{
  SONDE_SERVICE_ERROR_INVALID_OPTION,
  SONDE_SERVICE_ERROR_NOT_AUTHORIZED,
  SONDE_SERVICE_ERROR_NO_SUCH_PROCESS,
  SONDE_SERVICE_ERROR_NO_SUCH_SESSION,
  SONDE_SERVICE_ERROR_LIMIT_EXCEEDED,
  SONDE_SERVICE_ERROR_NOT_SUPPORTED,
  SONDE_SERVICE_ERROR_INVALID_STATE,
  SONDE_SERVICE_ERROR_FAILED,
} SondeServiceError;

/* To be registered (once used) before the first call: GDBus then gives errors this domain. */
#define SONDE_SERVICE_ERROR sonde_service_error_quark ()
GQuark sonde_service_error_quark (void);

/**
 * sonde_service_error_advice:
 * @error: of a call to the service, or of the way to it
 * @is_embedded: the service is one of our own
 *
 * Returns: (nullable): a sentence that says what to do next
 */
const char *sonde_service_error_advice (const GError *error, gboolean is_embedded);

/* "sondectl: @what...", the message without the error's D-Bus name, and the advice on a line of its
 * own. */
void sonde_service_error_complain (const char *what, const GError *error, gboolean is_embedded);
