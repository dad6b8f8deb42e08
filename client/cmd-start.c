/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl start: a session that outlives us, into a file of the service's. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/service/record-options.h"
#include "client/service/service.h"

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeRecordOptions, sonde_record_options_clear)

static int
start (const SondeRecordOptions *options)
{
  g_autoptr (SondeClientProfiler) profiler = NULL;
  g_autoptr (GVariant) request = NULL;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  guint64 session;

  request = sonde_record_options_build (options, &fds, &error);
  if (request == NULL)
    return sonde_cli_fail (error);
  g_variant_ref_sink (request);
  profiler = sonde_service_connect (SONDE_CLIENT_ASK_TERMINAL);
  if (profiler == NULL)
    return 1;
  session = sonde_client_profiler_start_session_sync (profiler, request, fds, NULL, &error);
  if (session != 0)
    {
      /* NULL if it is not ours to ask, or gone already */
      g_autoptr (GVariant) properties
          = sonde_client_profiler_dup_properties_sync (profiler, session, NULL, NULL);
      g_autofree char *number = g_strdup_printf ("%" G_GUINT64_FORMAT, session);
      g_autoptr (GString) out = g_string_new (NULL);
      const char *file;

      g_string_append_printf (out, "Started session %s", number);
      if (properties != NULL && g_variant_lookup (properties, "CaptureFile", "&s", &file))
        {
          g_autofree char *shown = sonde_text_escape (file, -1);

          g_string_append_printf (out, ": %s", shown);
        }
      g_string_append_c (out, '\n');
      if (!sonde_cli_print (out))
        return 1;
      g_printerr ("Now: sondectl status %s, sondectl stop %s\n", number, number);
      return 0;
    }
  return sonde_service_fail (NULL, 0, error);
}

int
sonde_cmd_start (int argc, char **argv)
{
  g_auto (SondeRecordOptions) options = { 0 };

  return sonde_record_options_parse_start (&options, &argc, &argv) ? start (&options) : 1;
}
