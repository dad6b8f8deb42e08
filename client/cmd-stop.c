/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl stop: ends a session and says what it recorded. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/library/sonde-client.h"
#include "client/service/service-error.h"
#include "client/service/session-name.h"
#include "client/base/text.h"

#define SESSION_INTERFACE "org.sonde.Profiler1.Session"
#define POLL_US           (50 * 1000)

/* NULL: the object is gone, or is not ours to read. */
static char *
dup_property (SondeClientProfiler *profiler, const char *path, const char *name)
{
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      sonde_client_profiler_get_connection (profiler),
      sonde_client_profiler_get_bus_name (profiler), path, "org.freedesktop.DBus.Properties", "Get",
      g_variant_new ("(ss)", SESSION_INTERFACE, name), G_VARIANT_TYPE ("(v)"),
      G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
  g_autoptr (GVariant) value = NULL;

  if (answer == NULL)
    return NULL;
  g_variant_get (answer, "(v)", &value);
  return g_variant_is_of_type (value, G_VARIANT_TYPE_STRING) ? g_variant_dup_string (value, NULL)
                                                             : NULL;
}

/* Stop has answered; the rest of the capture, names above all, is still being written. The service
 * bounds how long that takes. */
static void
wait_for_end (SondeClientProfiler *profiler, const char *path)
{
  for (;;)
    {
      g_autofree char *state = dup_property (profiler, path, "State");

      if (g_strcmp0 (state, "draining") != 0)
        return;
      g_usleep (POLL_US);
    }
}

static guint64
get_count (GVariant *statistics, const char *key)
{
  guint64 value = 0;

  g_variant_lookup (statistics, key, "t", &value);
  return value;
}

static int
print_result (const char *path, GVariant *statistics, const char *file)
{
  guint64 n_lost = get_count (statistics, "lost-kernel") + get_count (statistics, "lost-ring")
                   + get_count (statistics, "lost-queue");
  g_autofree char *samples
      = sonde_text_plural (get_count (statistics, "recorded"), "sample", "samples");
  g_autofree char *lost = n_lost > 0 ? sonde_text_count (n_lost) : g_strdup ("none");
  g_autoptr (GString) out = g_string_new (NULL);

  g_string_append_printf (out, "Stopped session %s: %s, %s lost\n", sonde_session_name_short (path),
                          samples, lost);
  if (file != NULL && *file != '\0')
    g_string_append_printf (out, "%s\n", file);
  return sonde_cli_print (out) ? 0 : 1;
}

static int
stop (SondeClientProfiler *profiler, const char *path)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      sonde_client_profiler_get_connection (profiler),
      sonde_client_profiler_get_bus_name (profiler), path, SESSION_INTERFACE, "Stop", NULL,
      G_VARIANT_TYPE ("(a{st})"), sonde_client_profiler_get_call_flags (profiler), G_MAXINT, NULL,
      &error);
  g_autoptr (GVariant) statistics = NULL;
  g_autofree char *file = NULL;

  if (answer == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return 1;
    }
  wait_for_end (profiler, path);
  file = dup_property (profiler, path, "CaptureFile");
  statistics = g_variant_get_child_value (answer, 0);
  return print_result (path, statistics, file);
}

int
sonde_cmd_stop (int argc, char **argv)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autoptr (SondeClientProfiler) profiler = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;

  if (!sonde_cli_parse (&argc, &argv, "SESSION",
                        "Ends a session of the system's service. SESSION is its number, as "
                        "sondectl list shows it.",
                        "Example:\n  sondectl stop 1", entries, FALSE, NULL))
    return 1;
  if (argc == 2)
    path = sonde_session_name_dup_path (argv[1]);
  if (path == NULL)
    {
      sonde_cli_complain ("stop needs the number of one SESSION; sondectl list shows them");
      return 1;
    }
  profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_TERMINAL, &error);
  if (profiler == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return 1;
    }
  return stop (profiler, path);
}
