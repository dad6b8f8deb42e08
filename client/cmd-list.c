/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl list: the sessions, or the stored captures, that the caller may see. */
#include "client/commands.h"

#include <json-glib/json-glib.h>

#include "client/base/cli.h"
#include "client/base/text.h"
#include "client/service/service.h"

#define SCHEMA_VERSION 1

typedef struct
{
  gboolean all;
  gboolean captures;
  gboolean json;
} ListOptions;

/* One kind of what can be listed. */
typedef struct
{
  const char *none;
  const char *member; /* of the JSON object */
  const char *heading;
  void (*append_row) (GString *out, gpointer row);
  void (*build_row) (JsonBuilder *builder, gpointer row);
} ListKind;

static void
add_string (JsonBuilder *builder, const char *member, const char *bytes)
{
  g_autofree char *text = g_utf8_make_valid (bytes, -1);

  json_builder_set_member_name (builder, member);
  json_builder_add_string_value (builder, text);
}

static void
add_number (JsonBuilder *builder, const char *member, guint64 number)
{
  json_builder_set_member_name (builder, member);
  json_builder_add_int_value (builder, (gint64) number);
}

/* Description holds another user's label: escaped, as all that comes from elsewhere. */
static void
append_session (GString *out, gpointer row)
{
  const char *path, *state, *description;
  guint32 uid;
  guint64 start_us;
  g_autofree char *owner = NULL;
  g_autofree char *time = NULL;
  g_autofree char *shown_state = NULL;
  g_autofree char *shown = NULL;

  g_variant_get (row, "(&ou&st&s)", &path, &uid, &state, &start_us, &description);
  owner = sonde_service_dup_owner (uid);
  time = sonde_service_dup_time (start_us);
  shown_state = sonde_text_escape (state, -1);
  shown = sonde_text_escape (description, -1);
  g_string_append_printf (out, "%7" G_GUINT64_FORMAT "  %-12s %-9s %-19s  %s\n",
                          sonde_client_session_number (path), owner, shown_state, time, shown);
}

static void
build_session (JsonBuilder *builder, gpointer row)
{
  const char *path, *state, *description;
  guint32 uid;
  guint64 start_us;
  g_autofree char *owner = NULL;

  g_variant_get (row, "(&ou&st&s)", &path, &uid, &state, &start_us, &description);
  owner = sonde_service_dup_owner (uid);
  add_number (builder, "session", sonde_client_session_number (path));
  add_number (builder, "uid", uid);
  add_string (builder, "owner", owner);
  add_string (builder, "state", state);
  add_number (builder, "start-us", start_us);
  add_string (builder, "description", description);
}

static void
append_capture (GString *out, gpointer row)
{
  g_autofree char *owner
      = sonde_service_dup_owner (sonde_client_stored_capture_get_owner_uid (row));
  g_autofree char *time = sonde_service_dup_time (sonde_client_stored_capture_get_start_us (row));
  g_autofree char *size = sonde_text_size (sonde_client_stored_capture_get_n_bytes (row));

  g_string_append_printf (out, "%-12s %-19s  %10s  %s\n", owner, time, size,
                          sonde_client_stored_capture_get_name (row));
}

static void
build_capture (JsonBuilder *builder, gpointer row)
{
  guint32 uid = sonde_client_stored_capture_get_owner_uid (row);
  g_autofree char *owner = sonde_service_dup_owner (uid);

  add_string (builder, "name", sonde_client_stored_capture_get_name (row));
  add_string (builder, "label", sonde_client_stored_capture_get_label (row));
  add_number (builder, "start-us", sonde_client_stored_capture_get_start_us (row));
  add_number (builder, "bytes", sonde_client_stored_capture_get_n_bytes (row));
  add_number (builder, "uid", uid);
  add_string (builder, "owner", owner);
}

static const ListKind sessions
    = { "No sessions.\n", "sessions",
        "SESSION  OWNER        STATE     STARTED              DESCRIPTION\n", append_session,
        build_session };
static const ListKind captures
    = { "No captures.\n", "captures", "OWNER        STARTED                    SIZE  CAPTURE\n",
        append_capture, build_capture };

static GString *
dup_text (const ListKind *kind, const GPtrArray *rows)
{
  GString *out = g_string_new (rows->len > 0 ? kind->heading : kind->none);

  for (guint i = 0; i < rows->len; i++)
    kind->append_row (out, g_ptr_array_index (rows, i));
  return out;
}

static GString *
dup_json (const ListKind *kind, const GPtrArray *rows)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;
  g_autofree char *text = NULL;
  GString *out = g_string_new (NULL);

  json_builder_begin_object (builder);
  add_number (builder, "version", SCHEMA_VERSION);
  json_builder_set_member_name (builder, kind->member);
  json_builder_begin_array (builder);
  for (guint i = 0; i < rows->len; i++)
    {
      json_builder_begin_object (builder);
      kind->build_row (builder, g_ptr_array_index (rows, i));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  text = json_to_string (root, FALSE);
  g_string_append_printf (out, "%s\n", text);
  return out;
}

/* GVariant: rows of ListSessions */
static GPtrArray *
list_sessions (SondeClientProfiler *profiler, gboolean everybody, GError **error)
{
  g_autoptr (GVariant) found
      = sonde_client_profiler_list_sessions_sync (profiler, everybody, NULL, error);
  GPtrArray *rows = NULL;

  if (found == NULL)
    return NULL;
  rows = g_ptr_array_new_with_free_func ((GDestroyNotify) g_variant_unref);
  for (gsize i = 0; i < g_variant_n_children (found); i++)
    g_ptr_array_add (rows, g_variant_get_child_value (found, i));
  return rows;
}

int
sonde_cmd_list (int argc, char **argv)
{
  ListOptions options = { 0 };
  const GOptionEntry entries[] = {
    { "all", 'a', 0, G_OPTION_ARG_NONE, &options.all, "Ask for the right to see everybody's",
      NULL },
    { "captures", 'c', 0, G_OPTION_ARG_NONE, &options.captures,
      "The capture files that the service keeps", NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &options.json, "For programs", NULL },
    G_OPTION_ENTRY_NULL,
  };
  const ListKind *kind;
  g_autoptr (SondeClientProfiler) profiler = NULL;
  g_autoptr (GPtrArray) rows = NULL;
  g_autoptr (GString) out = NULL;
  g_autoptr (GError) error = NULL;

  if (!sonde_cli_parse (&argc, &argv, NULL,
                        "Lists your own sessions of the system's service, or everybody's.",
                        "Example:\n  sondectl list", entries, FALSE, NULL))
    return 1;
  if (argc != 1)
    {
      sonde_cli_complain ("list takes no arguments; see sondectl list --help");
      return 1;
    }
  kind = options.captures ? &captures : &sessions;
  profiler
      = sonde_service_connect (options.all ? SONDE_CLIENT_ASK_TERMINAL : SONDE_CLIENT_ASK_NOBODY);
  if (profiler == NULL)
    return 1;
  rows = options.captures ? sonde_client_profiler_list_captures_sync (profiler, NULL, &error)
                          : list_sessions (profiler, options.all, &error);
  if (rows == NULL)
    {
      sonde_service_error_complain ("", error, FALSE);
      return 1;
    }
  out = options.json ? dup_json (kind, rows) : dup_text (kind, rows);
  return sonde_cli_print (out) ? 0 : 1;
}
