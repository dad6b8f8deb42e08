/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl events and limits: what the service can do here, and how much of it. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/base/json.h"
#include "client/base/text.h"
#include "client/service/service.h"

#define SCHEMA_VERSION 1

/* A property of the manager; NULL, having complained. */
static GVariant *
get_property (const char *name, const GVariantType *type)
{
  g_autoptr (SondeClientProfiler) profiler = sonde_service_connect (SONDE_CLIENT_ASK_NOBODY);
  g_autoptr (GVariant) properties = NULL;
  GVariant *value;

  if (profiler == NULL)
    return NULL;
  properties = sonde_service_dup_properties (profiler, 0);
  if (properties == NULL)
    return NULL;
  value = g_variant_lookup_value (properties, name, type);
  if (value == NULL)
    sonde_cli_complain ("The service does not tell its %s", name);
  return value;
}

static void
append_event (GString *out, const char *name)
{
  g_autofree char *shown = sonde_text_escape (name, -1);

  g_string_append_printf (out, "%s\n", shown);
}

static void
append_limit (GString *out, const char *name, GVariant *value)
{
  g_autofree char *shown = sonde_text_escape (name, -1);
  g_autofree char *number = g_variant_print (value, FALSE);

  g_string_append_printf (out, "%-22s %20s\n", shown, number);
}

/* One that is no number is left out: the service has none. */
static void
add_limit (SondeJson *json, const char *name, GVariant *value)
{
  g_autofree char *shown = sonde_text_escape (name, -1);

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    sonde_json_add_number (json, shown,
                           (gint64) MIN (g_variant_get_uint64 (value), (guint64) G_MAXINT64));
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32))
    sonde_json_add_number (json, shown, g_variant_get_uint32 (value));
}

int
sonde_cmd_events (int argc, char **argv)
{
  gboolean as_json = FALSE;
  const GOptionEntry entries[]
      = { { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, "For programs", NULL },
          G_OPTION_ENTRY_NULL };
  g_autoptr (GVariant) events = NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);
  gsize n_events;

  if (!sonde_cli_parse_nothing (
          argc, argv,
          "Shows what --event takes on this machine, by the service; tracepoints are for "
          "those who may record the whole machine.",
          "Example:\n  sondectl events", entries))
    return 1;
  events = get_property ("Events", G_VARIANT_TYPE_STRING_ARRAY);
  if (events == NULL)
    return 1;
  n_events = g_variant_n_children (events);
  if (as_json)
    {
      sonde_json_begin_object (&json, NULL);
      sonde_json_add_number (&json, "version", SCHEMA_VERSION);
      sonde_json_begin_array (&json, "events");
    }
  for (gsize i = 0; i < n_events; i++)
    {
      const char *name;

      g_variant_get_child (events, i, "&s", &name);
      if (as_json)
        sonde_json_add_escaped (&json, NULL, name);
      else
        append_event (out, name);
    }
  if (as_json)
    {
      sonde_json_end_array (&json);
      sonde_json_end_object (&json);
      g_string_append_c (out, '\n');
    }
  return sonde_cli_print (out) ? 0 : 1;
}

int
sonde_cmd_limits (int argc, char **argv)
{
  gboolean as_json = FALSE;
  const GOptionEntry entries[]
      = { { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, "For programs", NULL },
          G_OPTION_ENTRY_NULL };
  g_autoptr (GVariant) limits = NULL;
  g_autoptr (GString) out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);
  gsize n_limits;

  if (!sonde_cli_parse_nothing (
          argc, argv,
          "Shows how much the service lets one user have, by the names that refusals use: "
          "see LIMITS in org.sonde.Profiler1(5) for what each means, and its unit.",
          "Example:\n  sondectl limits", entries))
    return 1;
  limits = get_property ("Limits", G_VARIANT_TYPE_VARDICT);
  if (limits == NULL)
    return 1;
  n_limits = g_variant_n_children (limits);
  if (as_json)
    {
      sonde_json_begin_object (&json, NULL);
      sonde_json_add_number (&json, "version", SCHEMA_VERSION);
      sonde_json_begin_object (&json, "limits");
    }
  for (gsize i = 0; i < n_limits; i++)
    {
      const char *name;
      g_autoptr (GVariant) value = NULL;

      g_variant_get_child (limits, i, "{&sv}", &name, &value);
      if (as_json)
        add_limit (&json, name, value);
      else
        append_limit (out, name, value);
    }
  if (as_json)
    {
      sonde_json_end_object (&json);
      sonde_json_end_object (&json);
      g_string_append_c (out, '\n');
    }
  return sonde_cli_print (out) ? 0 : 1;
}
