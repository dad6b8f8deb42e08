/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The error domain of daemon and client, and its names on D-Bus. */
#pragma once

#include <gio/gio.h>

/* On the bus: org.sonde.Profiler1.Error.NAME, registered by sonde_error_quark(). */
typedef enum
{
  SONDE_ERROR_INVALID_OPTION,
  SONDE_ERROR_NOT_AUTHORIZED,
  SONDE_ERROR_NO_SUCH_PROCESS,
  SONDE_ERROR_NO_SUCH_SESSION,
  SONDE_ERROR_LIMIT_EXCEEDED,
  SONDE_ERROR_NOT_SUPPORTED,
  SONDE_ERROR_INVALID_STATE,
  SONDE_ERROR_FAILED,
  SONDE_N_ERRORS,
} SondeError;

#define SONDE_ERROR sonde_error_quark ()
GQuark sonde_error_quark (void);

/* Sets "@format...: strerror" with the code that fits @error_number (EACCES and EPERM:
 * NOT_AUTHORIZED, ESRCH: NO_SUCH_PROCESS, EMFILE and ENFILE: LIMIT_EXCEEDED, else FAILED). Always
 * returns FALSE. */
gboolean sonde_error_set_errno (GError **error, int error_number, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
