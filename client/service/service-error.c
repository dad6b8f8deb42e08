/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a user can do about errors of the service. */
#include "client/service/service-error.h"

#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/library/sonde-client.h"

#define NO_SERVICE_ADVICE                                                                          \
  "Is it installed? systemctl status sonded says more. sondectl record --embedded needs no "       \
  "service."

static const char *
advise_on_service (int code, gboolean is_embedded)
{
  switch ((SondeClientError) code)
    {
    case SONDE_CLIENT_ERROR_NOT_AUTHORIZED:
      if (is_embedded)
        return "With --embedded you have your own rights only: do without it, or become root.";
      return "Run it on a terminal, where polkit can ask for a password, or as root; an "
             "administrator can also allow it with a polkit rule. See RIGHTS in sonded(8).";
    case SONDE_CLIENT_ERROR_NO_SUCH_SESSION:
      return "sondectl list shows the sessions that there are.";
    case SONDE_CLIENT_ERROR_LIMIT_EXCEEDED:
      return "sondectl list shows your sessions, sondectl stop SESSION ends one. See LIMITS in "
             "sonded(8).";
    case SONDE_CLIENT_ERROR_NOT_SUPPORTED:
    case SONDE_CLIENT_ERROR_INVALID_OPTION:
    case SONDE_CLIENT_ERROR_NO_SUCH_PROCESS:
    case SONDE_CLIENT_ERROR_INVALID_STATE:
    case SONDE_CLIENT_ERROR_FAILED:
    default:
      return NULL;
    }
}

const char *
sonde_service_error_advice (const GError *error, gboolean is_embedded)
{
  if (error->domain == SONDE_CLIENT_ERROR)
    return advise_on_service (error->code, is_embedded);
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_ACCESS_DENIED))
    return "The bus refuses the call: is /usr/share/dbus-1/system.d/org.sonde.Profiler1.conf "
           "installed?";
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN)
      || g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER))
    return NO_SERVICE_ADVICE;
  return NULL;
}

/* The message may repeat foreign words, such as the name of an option. */
void
sonde_service_error_complain (const char *what, const GError *error, gboolean is_embedded)
{
  g_autoptr (GError) copy = g_error_copy (error);
  g_autofree char *shown = NULL;
  const char *advice = sonde_service_error_advice (error, is_embedded);

  g_dbus_error_strip_remote_error (copy);
  shown = sonde_text_escape (copy->message, -1);
  sonde_cli_complain ("%s%s%s%s", what, shown, advice != NULL ? "\n" : "",
                      advice != NULL ? advice : "");
}
