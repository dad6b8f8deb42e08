/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One more reader of a session that is there. */
#include "client/service/session-capture.h"

#define SESSION_INTERFACE "org.sonde.Profiler1.Session"

int
sonde_session_capture_open (SondeClientProfiler *profiler,
                            const char *path,
                            GVariant *request,
                            GError **error)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_with_unix_fd_list_sync (
      sonde_client_profiler_get_connection (profiler),
      sonde_client_profiler_get_bus_name (profiler), path, SESSION_INTERFACE, "OpenCapture",
      g_variant_new ("(@a{sv})", request), G_VARIANT_TYPE ("(h)"),
      sonde_client_profiler_get_call_flags (profiler), G_MAXINT, NULL, &fds, NULL, error);

  if (answer == NULL)
    return -1;
  if (fds != NULL && g_unix_fd_list_get_length (fds) > 0)
    return g_unix_fd_list_get (fds, 0, error);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "The service gave no capture");
  return -1;
}
