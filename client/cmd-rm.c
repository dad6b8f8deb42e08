/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl rm: removes captures that the service keeps. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/service/service.h"

int
sonde_cmd_rm (int argc, char **argv)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autoptr (SondeClientProfiler) profiler = NULL;
  int status = 0;

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
  /* The service knows them by name; the path that start and stop print is as good. */
  for (int i = 1; i < argc; i++)
    {
      g_autofree char *name = g_path_get_basename (argv[i]);
      g_autoptr (GError) error = NULL;

      if (!sonde_client_profiler_remove_capture_sync (profiler, name, NULL, &error))
        status = sonde_service_fail (NULL, 0, error);
    }
  return status;
}
