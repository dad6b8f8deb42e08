/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/bus-user.h"

#include <signal.h>

#define SERVICE      "org.sonde.Profiler1"
#define MANAGER_PATH "/org/sonde/Profiler1"

void
bus_user_init (BusUser *self, BusChild what)
{
  self->uid = bus_next_uid ();
  self->bus = bus_connect (self->uid);
  self->target = bus_spawn (self->uid, what);
}

void
bus_user_clear (BusUser *self)
{
  g_clear_object (&self->bus);
  if (self->target > 0)
    bus_end (self->target, SIGKILL);
}

GVariant *
bus_manager_call (
    GDBusConnection *bus, const char *method, GVariant *arguments, GUnixFDList *fds, GError **error)
{
  return g_dbus_connection_call_with_unix_fd_list_sync (
      bus, SERVICE, MANAGER_PATH, SERVICE ".Manager", method, arguments, NULL,
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, fds, NULL, NULL, error);
}

void
bus_assert_answers (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      bus, SERVICE, MANAGER_PATH, "org.freedesktop.DBus.Properties", "Get",
      g_variant_new ("(ss)", SERVICE ".Manager", "Version"), G_VARIANT_TYPE ("(v)"),
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);

  g_assert_no_error (error);
  g_assert_nonnull (answer);
}

char *
bus_start_session (GDBusConnection *bus, GVariant *options, GUnixFDList *fds, GError **error)
{
  g_autoptr (GVariant) answer
      = bus_manager_call (bus, "StartSession", g_variant_new ("(@a{sv})", options), fds, error);
  char *session = NULL;

  if (answer != NULL)
    g_variant_get (answer, "(o)", &session);
  return session;
}

static GVariant *
list_sessions (GDBusConnection *bus, GDBusCallFlags flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_sync (bus, SERVICE, MANAGER_PATH, SERVICE ".Manager", "ListSessions",
                                     NULL, NULL, flags, BUS_CALL_MS, NULL, &error);

  g_assert_no_error (error);
  return g_variant_get_child_value (answer, 0);
}

static char *
join_paths (GVariant *list)
{
  g_autoptr (GString) paths = g_string_new (NULL);

  for (gsize i = 0; i < g_variant_n_children (list); i++)
    {
      const char *path;

      g_variant_get_child (list, i, "(&oust&s)", &path, NULL, NULL, NULL, NULL);
      g_string_append_printf (paths, "%s%s", i > 0 ? " " : "", path);
    }
  return g_strdup (paths->str);
}

GVariant *
bus_list_sessions (GDBusConnection *bus)
{
  return list_sessions (bus, G_DBUS_CALL_FLAGS_NONE);
}

char *
bus_list_paths (GDBusConnection *bus)
{
  g_autoptr (GVariant) list = bus_list_sessions (bus);

  return join_paths (list);
}

char *
bus_list_all_paths (GDBusConnection *bus)
{
  g_autoptr (GVariant) list
      = list_sessions (bus, G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION);

  return join_paths (list);
}

gboolean
bus_subscribe (GDBusConnection *bus, gboolean is_interactive, GError **error)
{
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      bus, SERVICE, MANAGER_PATH, SERVICE ".Manager", "Subscribe", NULL, NULL,
      is_interactive ? G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION : G_DBUS_CALL_FLAGS_NONE,
      BUS_CALL_MS, NULL, error);

  return answer != NULL;
}

/* @options is consumed. */
static int
call_for_fd (GDBusConnection *bus,
             const char *session,
             const char *method,
             GVariant *options,
             GError **error)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_with_unix_fd_list_sync (
      bus, SERVICE, session, SERVICE ".Session", method, g_variant_new ("(@a{sv})", options),
      G_VARIANT_TYPE ("(h)"), G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &fds, NULL, error);

  return answer != NULL ? g_unix_fd_list_get (fds, 0, error) : -1;
}

int
bus_open_capture (GDBusConnection *bus, const char *session, GVariant *options, GError **error)
{
  if (options == NULL)
    options = g_variant_new_parsed ("@a{sv} {}");
  return call_for_fd (bus, session, "OpenCapture", options, error);
}

int
bus_take_snapshot (GDBusConnection *bus, const char *session, GError **error)
{
  return call_for_fd (bus, session, "Snapshot", g_variant_new_parsed ("@a{sv} {}"), error);
}

int
bus_open_control (GDBusConnection *bus, const char *session, GError **error)
{
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_with_unix_fd_list_sync (
      bus, SERVICE, session, SERVICE ".Session", "OpenControl", NULL, G_VARIANT_TYPE ("(h)"),
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &fds, NULL, error);

  return answer != NULL ? g_unix_fd_list_get (fds, 0, error) : -1;
}

void
bus_assert_state (GDBusConnection *bus, const char *session, const char *state)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) value = bus_session_get (bus, session, "State", &error);

  g_assert_no_error (error);
  g_assert_cmpstr (g_variant_get_string (value, NULL), ==, state);
}

guint64
bus_count (GDBusConnection *bus, const char *session, const char *key)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) statistics = bus_session_get (bus, session, "Statistics", &error);
  guint64 count = 0;

  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (statistics, key, "t", &count));
  return count;
}

typedef struct
{
  GDBusConnection *bus;
  const char *session;
  const char *key;
  guint64 n;
} Wait;

static gboolean
is_reached (gpointer user_data)
{
  const Wait *wait = user_data;

  return bus_count (wait->bus, wait->session, wait->key) > wait->n;
}

void
bus_wait_count (GDBusConnection *bus, const char *session, const char *key, guint64 n)
{
  bus_wait (is_reached, &(Wait){ .bus = bus, .session = session, .key = key, .n = n }, key);
}

void
bus_wait_samples (GDBusConnection *bus, const char *session, guint64 n)
{
  bus_wait_count (bus, session, "recorded", n);
}
