/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The start of the service that we are about to call. */
#include "client/library/service-start.h"

#define UNIT_PATH        "/org/freedesktop/systemd1/unit/sonded_2eservice"
#define START_TIMEOUT_MS 60000 /* the bus gives up before */
#define LOOK_INTERVAL_MS 100

typedef struct
{
  GDBusConnection *bus;
  GCancellable *over;
  unsigned n_calls; /* that are not answered */
  GError *error;
} ServiceStart;

static void
finish (ServiceStart *self, GError *error)
{
  if (g_cancellable_is_cancelled (self->over))
    g_clear_error (&error);
  else
    self->error = error;
  g_cancellable_cancel (self->over);
}

/* As systemd's own programs print them, those that its help or a broken installation leads to. */
static const char *
name_status (int status)
{
  static const struct
  {
    int status;
    const char *name;
  } names[] = {
    { 127, ", a library is missing" },
    { 200, "/CHDIR" },
    { 203, "/EXEC" },
    { 210, "/CHROOT" },
    { 218, "/CAPABILITIES" },
    { 219, "/CGROUP" },
    { 226, "/NAMESPACE" },
    { 228, "/SECCOMP" },
    { 238, "/STATE_DIRECTORY" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (names[i].status == status)
      return names[i].name;
  return "";
}

static const char *
look_up_text (GVariant *properties, const char *key)
{
  const char *text = "";

  g_variant_lookup (properties, key, "&s", &text);
  return text;
}

/* The start that we asked for is a job of systemd's: when there is none, it has succeeded or
 * failed. A unit that waits to be tried again has a job if somebody asked since; one whose start
 * has just failed keeps its job while it holds systemd back. */
static gboolean
has_failed (GVariant *properties)
{
  const char *state = look_up_text (properties, "ActiveState");
  const char *sub_state = look_up_text (properties, "SubState");
  guint32 job = 1;

  if (g_str_equal (sub_state, "stop-post"))
    return g_str_equal (look_up_text (properties, "Result"), "exit-code");
  g_variant_lookup (properties, "Job", "(uo)", &job, NULL);
  return job == 0
         && (g_str_equal (state, "failed") || g_str_equal (state, "inactive")
             || g_str_equal (sub_state, "auto-restart"));
}

static GError *
describe_failure (GVariant *properties)
{
  const char *own_words = look_up_text (properties, "StatusText");
  const char *result = look_up_text (properties, "Result");
  gint32 status = 0;

  if (own_words[0] != '\0')
    return g_error_new (G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED, "The service cannot start: %s",
                        own_words);
  if (g_str_equal (result, "success"))
    return g_error_new_literal (
        G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED,
        "The service could not start, and the bus tries it again only 25 s after "
        "it first did");
  g_variant_lookup (properties, "ExecMainStatus", "i", &status);
  if (g_str_equal (result, "exit-code"))
    return g_error_new (G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED,
                        "The service cannot start: exit status %d%s", (int) status,
                        name_status (status));
  return g_error_new (G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED, "The service cannot start: %s",
                      result);
}

static void
on_unit (GObject *source, GAsyncResult *answer, gpointer user_data)
{
  ServiceStart *self = user_data;
  g_autoptr (GVariant) value = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), answer,
                                                              NULL); /* there may be no systemd */
  g_autoptr (GVariant) properties = NULL;

  self->n_calls--;
  if (value == NULL || g_cancellable_is_cancelled (self->over))
    return;
  properties = g_variant_get_child_value (value, 0);
  if (has_failed (properties))
    finish (self, describe_failure (properties));
}

static gboolean
look_at_unit (gpointer user_data)
{
  ServiceStart *self = user_data;

  if (self->n_calls > 1 || g_cancellable_is_cancelled (self->over))
    return G_SOURCE_CONTINUE;
  self->n_calls++;
  g_dbus_connection_call (self->bus, "org.freedesktop.systemd1", UNIT_PATH,
                          "org.freedesktop.DBus.Properties", "GetAll", g_variant_new ("(s)", ""),
                          G_VARIANT_TYPE ("(a{sv})"), G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          START_TIMEOUT_MS, self->over, on_unit, self);
  return G_SOURCE_CONTINUE;
}

static void
on_started (GObject *source, GAsyncResult *answer, gpointer user_data)
{
  ServiceStart *self = user_data;
  GError *error = NULL;
  GVariant *value = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), answer, &error);

  g_clear_pointer (&value, g_variant_unref);
  self->n_calls--;
  finish (self, error);
}

gboolean
sonde_service_start (GDBusConnection *bus, const char *name, GError **error)
{
  g_autoptr (GMainContext) context = g_main_context_new ();
  g_autoptr (GCancellable) over = g_cancellable_new ();
  g_autoptr (GSource) timer = g_timeout_source_new (LOOK_INTERVAL_MS);
  ServiceStart self = { .bus = bus, .over = over, .n_calls = 1 };

  g_main_context_push_thread_default (context);
  g_source_set_callback (timer, look_at_unit, &self, NULL);
  g_source_attach (timer, context);
  g_dbus_connection_call (bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                          "org.freedesktop.DBus", "StartServiceByName",
                          g_variant_new ("(su)", name, 0), G_VARIANT_TYPE ("(u)"),
                          G_DBUS_CALL_FLAGS_NONE, START_TIMEOUT_MS, over, on_started, &self);
  while (self.n_calls > 0)
    g_main_context_iteration (context, TRUE);
  g_source_destroy (timer);
  g_main_context_pop_thread_default (context);
  if (self.error == NULL)
    return TRUE;
  g_propagate_error (error, self.error);
  return FALSE;
}
