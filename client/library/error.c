/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The service's refusals as errors of GLib. */
#include "client/library/sonde-client.h"

static const GDBusErrorEntry entries[] = {
  { SONDE_CLIENT_ERROR_INVALID_OPTION, "org.sonde.Profiler1.Error.InvalidOption" },
  { SONDE_CLIENT_ERROR_NOT_AUTHORIZED, "org.sonde.Profiler1.Error.NotAuthorized" },
  { SONDE_CLIENT_ERROR_NO_SUCH_PROCESS, "org.sonde.Profiler1.Error.NoSuchProcess" },
  { SONDE_CLIENT_ERROR_NO_SUCH_SESSION, "org.sonde.Profiler1.Error.NoSuchSession" },
  { SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, "org.sonde.Profiler1.Error.LimitExceeded" },
  { SONDE_CLIENT_ERROR_NOT_SUPPORTED, "org.sonde.Profiler1.Error.NotSupported" },
  { SONDE_CLIENT_ERROR_INVALID_STATE, "org.sonde.Profiler1.Error.InvalidState" },
  { SONDE_CLIENT_ERROR_FAILED, "org.sonde.Profiler1.Error.Failed" },
};

GQuark
sonde_client_error_quark (void)
{
  static gsize quark = 0;

  g_dbus_error_register_error_domain ("sonde-client-error-quark", &quark, entries,
                                      G_N_ELEMENTS (entries));
  return (GQuark) quark;
}
