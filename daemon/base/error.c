/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/base/error.h"

#include <errno.h>
#include <stdarg.h>

static const GDBusErrorEntry entries[] = {
  { SONDE_ERROR_INVALID_OPTION, "org.sonde.Profiler1.Error.InvalidOption" },
  { SONDE_ERROR_NOT_AUTHORIZED, "org.sonde.Profiler1.Error.NotAuthorized" },
  { SONDE_ERROR_NO_SUCH_PROCESS, "org.sonde.Profiler1.Error.NoSuchProcess" },
  { SONDE_ERROR_NO_SUCH_SESSION, "org.sonde.Profiler1.Error.NoSuchSession" },
  { SONDE_ERROR_LIMIT_EXCEEDED, "org.sonde.Profiler1.Error.LimitExceeded" },
  { SONDE_ERROR_NOT_SUPPORTED, "org.sonde.Profiler1.Error.NotSupported" },
  { SONDE_ERROR_INVALID_STATE, "org.sonde.Profiler1.Error.InvalidState" },
  { SONDE_ERROR_FAILED, "org.sonde.Profiler1.Error.Failed" },
};
G_STATIC_ASSERT (G_N_ELEMENTS (entries) == SONDE_N_ERRORS);

GQuark
sonde_error_quark (void)
{
  static gsize quark = 0;

  g_dbus_error_register_error_domain ("sonde-error-quark", &quark, entries, G_N_ELEMENTS (entries));
  return (GQuark) quark;
}

static SondeError
code_for_errno (int error_number)
{
  switch (error_number)
    {
    case EACCES:
    case EPERM:
      return SONDE_ERROR_NOT_AUTHORIZED;
    case ESRCH:
      return SONDE_ERROR_NO_SUCH_PROCESS;
    case EMFILE:
    case ENFILE:
      return SONDE_ERROR_LIMIT_EXCEEDED;
    default:
      return SONDE_ERROR_FAILED;
    }
}

gboolean
sonde_error_set_errno (GError **error, int error_number, const char *format, ...)
{
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, SONDE_ERROR, code_for_errno (error_number), "%s: %s", text,
               g_strerror (error_number));
  return FALSE;
}
