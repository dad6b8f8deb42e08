/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl rm: removes captures that the service keeps. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/service/service.h"

/* The service knows them by name; the path that start and stop print is as good. */
static gboolean
remove_capture (SondeClientProfiler *profiler, const char *path)
{
  g_autofree char *name = g_path_get_basename (path);
  g_autoptr (GError) error = NULL;

  if (sonde_client_profiler_remove_capture_sync (profiler, name, NULL, &error))
    return TRUE;
  sonde_service_error_complain ("", error, FALSE);
  return FALSE;
}

int
sonde_cmd_rm (int argc, char **argv)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autoptr (SondeClientProfiler) profiler = NULL;
  gboolean is_good = TRUE;

  if (!sonde_cli_parse (
          &argc, &argv, "CAPTURE...",
          "Removes capture files that the service keeps. CAPTURE is the name that "
          "sondectl list --captures shows, or its path.",
          "Example:\n  sondectl rm $(sondectl list --captures | awk 'NR == 2 { print $NF }')",
          entries, FALSE, NULL))
    return 1;
  if (argc < 2)
    {
      sonde_cli_complain ("rm needs the name of a CAPTURE; sondectl list --captures shows them");
      return 1;
    }
  for (int i = 1; i < argc; i++)
    if (!g_utf8_validate (argv[i], -1, NULL))
      {
        sonde_cli_complain ("no capture of the service has such a name; sondectl list --captures "
                            "shows them");
        return 1;
      }
  profiler = sonde_service_connect (SONDE_CLIENT_ASK_TERMINAL);
  if (profiler == NULL)
    return 1;
  for (int i = 1; i < argc; i++)
    is_good = remove_capture (profiler, argv[i]) && is_good;
  return is_good ? 0 : 1;
}
