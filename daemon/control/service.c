/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The members of our interfaces: one table each for methods and properties. */
#include "config.h"

#include "daemon/control/service.h"

#include "daemon/control/perf-event.h"

static void
on_profile_started (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeCall *call = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  int capture_fd = -1;
  guint64 id = sonde_session_manager_start_finish (call->manager, result, &capture_fd, &error);

  if (id == 0)
    {
      sonde_call_fail (call, error);
      return;
    }
  fds = g_unix_fd_list_new_from_array (&capture_fd, 1);
  path = g_strdup_printf (SONDE_SESSION_PATH "/%" G_GUINT64_FORMAT, id);
  sonde_call_return (call, g_variant_new ("(oh)", path, 0), fds);
}

static void
profile (SondeCall *call)
{
  sonde_session_manager_start_async (call->manager, call->caller, g_steal_pointer (&call->options),
                                     on_profile_started, call);
}

static void
on_stopped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeCall *call = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) statistics = sonde_session_stop_finish (result, &error);

  if (statistics == NULL)
    sonde_call_fail (call, error);
  else
    sonde_call_return (call, g_variant_new ("(@a{st})", statistics), NULL);
}

static void
stop (SondeCall *call)
{
  sonde_session_stop_async (call->session, on_stopped, call);
}

static void
add_process (SondeCall *call)
{
  GVariant *parameters = g_dbus_method_invocation_get_parameters (call->invocation);
  GDBusMessage *message = g_dbus_method_invocation_get_message (call->invocation);
  g_autoptr (GVariant) value = g_variant_get_child_value (parameters, 0);
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) targets = sonde_options_parse_targets (
      value, g_dbus_message_get_unix_fd_list (message), "targets", &error);

  if (targets == NULL || !sonde_session_add_targets (call->session, targets, &error))
    sonde_call_fail (call, error);
  else
    sonde_call_return (call, NULL, NULL);
}

static GVariant *
get_version (SondeCall *call)
{
  return g_variant_new_string (SONDE_VERSION);
}

static GVariant *
get_events (SondeCall *call)
{
  g_auto (GStrv) names = sonde_perf_event_names ();

  return g_variant_new_strv ((const char *const *) names, -1);
}

static GVariant *
get_state (SondeCall *call)
{
  return g_variant_new_string (sonde_session_state_name (sonde_session_state (call->session)));
}

static GVariant *
get_statistics (SondeCall *call)
{
  return sonde_session_statistics (call->session);
}

static const SondeMethod methods[] = {
  { SONDE_MANAGER_INTERFACE, "Profile", SONDE_GATE_PROFILE, profile },
  { SONDE_SESSION_INTERFACE, "Stop", SONDE_GATE_OWNER, stop },
  { SONDE_SESSION_INTERFACE, "AddProcess", SONDE_GATE_OWNER, add_process },
};

static const SondeProperty properties[] = {
  { SONDE_MANAGER_INTERFACE, "Version", SONDE_GATE_ANYONE, get_version },
  { SONDE_MANAGER_INTERFACE, "Events", SONDE_GATE_ANYONE, get_events },
  { SONDE_SESSION_INTERFACE, "State", SONDE_GATE_OWNER, get_state },
  { SONDE_SESSION_INTERFACE, "Statistics", SONDE_GATE_OWNER, get_statistics },
};

const SondeMethod *
sonde_service_methods (gsize *n_methods)
{
  *n_methods = G_N_ELEMENTS (methods);
  return methods;
}

const SondeProperty *
sonde_service_properties (gsize *n_properties)
{
  *n_properties = G_N_ELEMENTS (properties);
  return properties;
}

const SondeMethod *
sonde_service_find_method (const char *interface, const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (methods); i++)
    if (g_str_equal (methods[i].interface, interface) && g_str_equal (methods[i].name, name))
      return &methods[i];
  return NULL;
}

const SondeProperty *
sonde_service_find_property (const char *interface, const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (properties); i++)
    if (g_str_equal (properties[i].interface, interface)
        && (name == NULL || g_str_equal (properties[i].name, name)))
      return &properties[i];
  return NULL;
}
