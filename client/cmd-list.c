/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sondectl list: the sessions, or the stored captures, that the caller may see. */
#include "client/commands.h"

#include "client/base/cli.h"
#include "client/base/json.h"
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
  void (*add_row) (SondeJson *json, gpointer row);
} ListKind;

static void
add_owner (SondeJson *json, guint32 uid)
{
  g_autofree char *owner = sonde_service_dup_owner (uid);
  g_autofree char *text = g_utf8_make_valid (owner, -1);

  sonde_json_add_number (json, "uid", uid);
  sonde_json_add_text (json, "owner", text);
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
add_session (SondeJson *json, gpointer row)
{
  const char *path, *state, *description;
  guint32 uid;
  guint64 start_us;

  g_variant_get (row, "(&ou&st&s)", &path, &uid, &state, &start_us, &description);
  sonde_json_add_number (json, "session", (gint64) sonde_client_session_number (path));
  add_owner (json, uid);
  sonde_json_add_text (json, "state", state);
  sonde_json_add_number (json, "start-us", (gint64) start_us);
  sonde_json_add_text (json, "description", description);
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
add_capture (SondeJson *json, gpointer row)
{
  sonde_json_add_text (json, "name", sonde_client_stored_capture_get_name (row));
  sonde_json_add_text (json, "label", sonde_client_stored_capture_get_label (row));
  sonde_json_add_number (json, "start-us", (gint64) sonde_client_stored_capture_get_start_us (row));
  sonde_json_add_number (json, "bytes", (gint64) sonde_client_stored_capture_get_n_bytes (row));
  add_owner (json, sonde_client_stored_capture_get_owner_uid (row));
}

static const ListKind sessions
    = { "No sessions.\n", "sessions",
        "SESSION  OWNER        STATE     STARTED              DESCRIPTION\n", append_session,
        add_session };
static const ListKind captures
    = { "No captures.\n", "captures", "OWNER        STARTED                    SIZE  CAPTURE\n",
        append_capture, add_capture };

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
  GString *out = g_string_new (NULL);
  SondeJson json = SONDE_JSON_INIT (out);

  sonde_json_begin_object (&json, NULL);
  sonde_json_add_number (&json, "version", SCHEMA_VERSION);
  sonde_json_begin_array (&json, kind->member);
  for (guint i = 0; i < rows->len; i++)
    {
      sonde_json_begin_object (&json, NULL);
      kind->add_row (&json, g_ptr_array_index (rows, i));
      sonde_json_end_object (&json);
    }
  sonde_json_end_array (&json);
  sonde_json_end_object (&json);
  g_string_append_c (out, '\n');
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

  if (!sonde_cli_parse_nothing (argc, argv,
                                "Lists your own sessions of the system's service, or everybody's.",
                                "Example:\n  sondectl list", entries))
    return 1;
  kind = options.captures ? &captures : &sessions;
  profiler
      = sonde_service_connect (options.all ? SONDE_CLIENT_ASK_TERMINAL : SONDE_CLIENT_ASK_NOBODY);
  if (profiler == NULL)
    return 1;
  rows = options.captures ? sonde_client_profiler_list_captures_sync (profiler, NULL, &error)
                          : list_sessions (profiler, options.all, &error);
  if (rows == NULL)
    return sonde_service_fail (NULL, 0, error);
  out = options.json ? dup_json (kind, rows) : dup_text (kind, rows);
  return sonde_cli_print (out) ? 0 : 1;
}
