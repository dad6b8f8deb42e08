/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "client/service/service.h"

#include <pwd.h>
#include <string.h>

#include "client/base/cli.h"
#include "client/base/text.h"

/* Options of D-Bus that are not "--" and their name here. */
static const struct
{
  const char *key;
  const char *option;
} switches[] = {
  { "targets", "-p" },
  { "pids", "-p" },
  { "launch", "COMMAND" },
  { "start-on-exec", "COMMAND" },
  { "unit", "-u" },
  { "system", "-a" },
  { "children", "--no-children" },
  { "symbols", "--no-symbols" },
};

/* The first row that fits is the advice. */
static const struct
{
  SondeClientError code;
  gboolean is_embedded;
  const char *start; /* of the message; NULL: any */
  const char *advice;
} advices[] = {
  { SONDE_CLIENT_ERROR_NOT_AUTHORIZED, TRUE, NULL,
    "Embedded, it has your own rights only: let the service do it, or become root." },
  { SONDE_CLIENT_ERROR_NOT_AUTHORIZED, FALSE, NULL,
    "Run it on a terminal, where polkit can ask for a password, or as root; an administrator can "
    "also allow it with a polkit rule. See RIGHTS in sonded(8)." },
  { SONDE_CLIENT_ERROR_NO_SUCH_SESSION, FALSE, NULL,
    "sondectl list shows the sessions that there are, sondectl list --captures the captures." },
  { SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, FALSE, "Limit sessions",
    "sondectl list shows your sessions, sondectl stop SESSION ends one." },
  { SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, FALSE, "Limit capture-",
    "sondectl list --captures shows your captures, sondectl rm CAPTURE removes one." },
  { SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, FALSE, NULL,
    "sondectl limits shows all of them. See LIMITS in org.sonde.Profiler1(5)." },
  { SONDE_CLIENT_ERROR_NOT_SUPPORTED, FALSE,
    "Option event:", "sondectl events shows those of this machine." },
};

#define BUS_ADVICE                                                                                 \
  "The bus refuses the call: is " SONDE_DBUSPOLICYDIR "/org.sonde.Profiler1.conf installed?"
#define NO_SERVICE_ADVICE                                                                          \
  "Is it installed? systemctl status sonded says more. sondectl record --embedded needs no "       \
  "service."

#define NO_START_ADVICE                                                                            \
  "journalctl -u sonded says why. sondectl record --embedded needs no service."

static const char *
switch_of (const char *key)
{
  for (guint i = 0; i < G_N_ELEMENTS (switches); i++)
    if (g_str_equal (key, switches[i].key))
      return switches[i].option;
  return NULL;
}

/* "option period" → "--period"; "options targets, launch or pids" → "-p or COMMAND" */
static gboolean
replace_keys (const GMatchInfo *match, GString *out, gpointer user_data)
{
  g_autofree char *list = g_match_info_fetch (match, 1);
  g_auto (GStrv) keys = g_regex_split_simple (", | or | and ", list, 0, 0);
  g_autoptr (GPtrArray) options = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; keys[i] != NULL; i++)
    {
      const char *option = switch_of (keys[i]);
      char *name = option != NULL ? g_strdup (option) : g_strdup_printf ("--%s", keys[i]);

      if (g_ptr_array_find_with_equal_func (options, name, g_str_equal, NULL))
        g_free (name);
      else
        g_ptr_array_add (options, name);
    }
  for (guint i = 0; i < options->len; i++)
    g_string_append_printf (out, "%s%s",
                            i == 0                 ? ""
                            : i + 1 < options->len ? ", "
                                                   : " or ",
                            (const char *) g_ptr_array_index (options, i));
  return FALSE;
}

char *
sonde_service_error_dup_message (const GError *error)
{
  g_autoptr (GRegex) keys = g_regex_new (
      "\\b(?:the )?[Oo]ptions? ([a-z-]+(?:(?:, | or | and )[a-z-]+)*)\\b", 0, 0, NULL);
  g_autofree char *words = NULL;
  g_autoptr (GString) message = NULL;

  if (error->domain == SONDE_CLIENT_ERROR)
    words = g_regex_replace_eval (keys, error->message, -1, 0, 0, replace_keys, NULL, NULL);
  message = g_string_new (words != NULL ? words : error->message);
  g_string_replace (message, "the property Events", "sondectl events", 0);
  return sonde_text_escape (message->str, -1);
}

const char *
sonde_service_error_advice (const GError *error, gboolean is_embedded)
{
  if (error->domain == SONDE_CLIENT_ERROR)
    {
      for (guint i = 0; i < G_N_ELEMENTS (advices); i++)
        if (advices[i].code == (SondeClientError) error->code
            && (advices[i].is_embedded == is_embedded || !advices[i].is_embedded)
            && (advices[i].start == NULL || g_str_has_prefix (error->message, advices[i].start)))
          return advices[i].advice;
      return NULL;
    }
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_ACCESS_DENIED))
    return BUS_ADVICE;
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN)
      || g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER))
    return NO_SERVICE_ADVICE;
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED)
      || g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_TIMED_OUT))
    return NO_START_ADVICE;
  return NULL;
}

void
sonde_service_error_complain (const char *what, const GError *error, gboolean is_embedded)
{
  g_autofree char *message = sonde_service_error_dup_message (error);
  const char *advice = sonde_service_error_advice (error, is_embedded);

  sonde_cli_complain ("%s%s%s%s", what, message, advice != NULL ? "\n" : "",
                      advice != NULL ? advice : "");
}

SondeClientProfiler *
sonde_service_connect (SondeClientAsk ask)
{
  g_autoptr (GError) error = NULL;
  SondeClientProfiler *profiler = sonde_client_profiler_new_bus (ask, &error);

  if (profiler == NULL)
    sonde_service_error_complain ("", error, FALSE);
  return profiler;
}

static gboolean
is_listed (SondeClientProfiler *profiler, guint64 session)
{
  g_autoptr (GVariant) sessions
      = sonde_client_profiler_list_sessions_sync (profiler, FALSE, NULL, NULL);
  gsize n_sessions = sessions != NULL ? g_variant_n_children (sessions) : 0;

  for (gsize i = 0; i < n_sessions; i++)
    {
      const char *path;

      g_variant_get_child (sessions, i, "(&ousts)", &path, NULL, NULL, NULL, NULL);
      if (sonde_client_session_number (path) == session)
        return TRUE;
    }
  return FALSE;
}

GError *
sonde_service_explain (SondeClientProfiler *profiler, guint64 session, GError *error)
{
  gboolean is_refusal
      = g_error_matches (error, SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_AUTHORIZED);

  if (!g_error_matches (error, SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NO_SUCH_SESSION)
      && (!is_refusal || is_listed (profiler, session)))
    return error;
  g_error_free (error);
  return g_error_new (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NO_SUCH_SESSION,
                      "There is no session %" G_GUINT64_FORMAT "%s", session,
                      is_refusal ? " of yours" : "");
}

int
sonde_service_fail (SondeClientProfiler *profiler, guint64 session, const GError *error)
{
  g_autoptr (GError) explained = g_error_copy (error);

  if (session != 0)
    explained = sonde_service_explain (profiler, session, g_steal_pointer (&explained));
  sonde_service_error_complain ("", explained, FALSE);
  return 1;
}

GVariant *
sonde_service_dup_properties (SondeClientProfiler *profiler, guint64 session)
{
  g_autoptr (GError) error = NULL;
  GVariant *properties
      = sonde_client_profiler_dup_properties_sync (profiler, session, NULL, &error);

  if (properties == NULL)
    sonde_service_fail (profiler, session, error);
  return properties;
}

guint64
sonde_service_count (GVariant *statistics, const char *key)
{
  guint64 value = 0;

  g_variant_lookup (statistics, key, "t", &value);
  return value;
}

char *
sonde_service_dup_owner (guint32 uid)
{
  const struct passwd *user = getpwuid (uid);

  return user != NULL ? g_strdup (user->pw_name) : g_strdup_printf ("%u", uid);
}

char *
sonde_service_dup_time (guint64 realtime_us)
{
  g_autoptr (GDateTime) time
      = g_date_time_new_from_unix_local ((gint64) (realtime_us / G_USEC_PER_SEC));

  return time != NULL ? g_date_time_format (time, "%Y-%m-%d %H:%M:%S") : g_strdup ("-");
}
