/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/systemd/unit-manager.h"

#include <string.h>

#define NAME              "org.freedesktop.systemd1"
#define PATH              "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE NAME ".Manager"

struct SondeUnitManager
{
  GDBusConnection *bus;
  const char *whose; /* as messages have it */
};

static GDBusConnection *
open_bus (gboolean is_user, GError **error)
{
  const char *address = g_getenv ("DBUS_SESSION_BUS_ADDRESS");
  const char *runtime = g_getenv ("XDG_RUNTIME_DIR");
  g_autofree char *usual = NULL;

  if (!is_user)
    return g_bus_get_sync (G_BUS_TYPE_SYSTEM, NULL, error);
  /* GLib would start a bus, which has no systemd. */
  if (address == NULL && runtime != NULL)
    address = usual = g_strdup_printf ("unix:path=%s/bus", runtime);
  if (address != NULL)
    return g_dbus_connection_new_for_address_sync (
        address,
        G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT
            | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
        NULL, NULL, error);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "Nobody is logged in here");
  return NULL;
}

SondeUnitManager *
sonde_unit_manager_open (gboolean is_user, GError **error)
{
  g_autoptr (SondeUnitManager) self = g_new0 (SondeUnitManager, 1);

  self->whose = is_user ? "your systemd" : "systemd";
  self->bus = open_bus (is_user, error);
  if (self->bus == NULL)
    {
      g_prefix_error (error, "Cannot reach %s: ", self->whose);
      return NULL;
    }
  g_dbus_connection_set_exit_on_close (self->bus, FALSE);
  return g_steal_pointer (&self);
}

void
sonde_unit_manager_free (SondeUnitManager *self)
{
  if (self == NULL)
    return;
  g_clear_object (&self->bus);
  g_free (self);
}

/* Whoever may be asked for a password is, by the desktop's agent. */
static GVariant *
call (SondeUnitManager *self,
      const char *path,
      const char *interface,
      const char *method,
      GVariant *arguments,
      const char *type,
      GError **error)
{
  GError *failure = NULL;
  GVariant *answer = g_dbus_connection_call_sync (
      self->bus, NAME, path, interface, method, arguments, G_VARIANT_TYPE (type),
      G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION, G_MAXINT, NULL, &failure);

  if (answer != NULL)
    return answer;
  g_dbus_error_strip_remote_error (failure);
  g_propagate_prefixed_error (error, failure, "%s does not %s: ", self->whose, method);
  return NULL;
}

static void
add_properties (SondeUnitManager *self,
                const char *path,
                const char *interface,
                GVariantDict *dict,
                GError **error)
{
  g_autoptr (GVariant) answer = call (self, path, "org.freedesktop.DBus.Properties", "GetAll",
                                      g_variant_new ("(s)", interface), "(a{sv})", error);
  g_autoptr (GVariantIter) iter = NULL;
  const char *key;
  GVariant *value;

  if (answer == NULL)
    return;
  g_variant_get (answer, "(a{sv})", &iter);
  while (g_variant_iter_loop (iter, "{&sv}", &key, &value))
    g_variant_dict_insert_value (dict, key, value);
}

GVariant *
sonde_unit_manager_dup_unit (SondeUnitManager *self, const char *unit, GError **error)
{
  g_autoptr (GVariant) answer
      = call (self, PATH, MANAGER_INTERFACE, "LoadUnit", g_variant_new ("(s)", unit), "(o)", error);
  g_auto (GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr (GVariant) properties = NULL;
  g_autoptr (GError) failure = NULL;
  const char *state = "not-found";
  const char *path;

  if (answer == NULL)
    return NULL;
  g_variant_get (answer, "(&o)", &path);
  add_properties (self, path, NAME ".Unit", &dict, &failure);
  if (failure == NULL)
    add_properties (self, path, NAME ".Service", &dict, &failure);
  if (failure != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return NULL;
    }
  properties = g_variant_ref_sink (g_variant_dict_end (&dict));
  g_variant_lookup (properties, "LoadState", "&s", &state);
  if (g_str_equal (state, "loaded"))
    return g_steal_pointer (&properties);
  if (g_str_equal (state, "not-found"))
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "%s knows no unit %s", self->whose, unit);
  else
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s cannot run %s: it is %s", self->whose,
                 unit, state);
  return NULL;
}

const char *
sonde_unit_find_variable (GVariant *environment, const char *name)
{
  const char *found = NULL;
  const char *text;
  GVariantIter iter;
  gsize length = strlen (name);

  if (environment == NULL)
    return NULL;
  g_variant_iter_init (&iter, environment);
  while (g_variant_iter_next (&iter, "&s", &text))
    if (strncmp (text, name, length) == 0 && text[length] == '=')
      found = text + length + 1;
  return found;
}

char *
sonde_unit_manager_dup_variable (SondeUnitManager *self, const char *name)
{
  g_autoptr (GVariant) answer
      = call (self, PATH, "org.freedesktop.DBus.Properties", "Get",
              g_variant_new ("(ss)", MANAGER_INTERFACE, "Environment"), "(v)", NULL);
  g_autoptr (GVariant) value = NULL;

  if (answer == NULL)
    return NULL;
  g_variant_get (answer, "(v)", &value);
  return g_variant_is_of_type (value, G_VARIANT_TYPE_STRING_ARRAY)
             ? g_strdup (sonde_unit_find_variable (value, name))
             : NULL;
}

gboolean
sonde_unit_manager_reload (SondeUnitManager *self, GError **error)
{
  g_autoptr (GVariant) answer = call (self, PATH, MANAGER_INTERFACE, "Reload", NULL, "()", error);

  return answer != NULL;
}

/* @user_data: results by job: one may be over before its number is known. */
static void
on_job_removed (GDBusConnection *bus,
                const char *sender,
                const char *path,
                const char *interface,
                const char *signal,
                GVariant *parameters,
                gpointer user_data)
{
  const char *job, *result;

  if (!g_variant_is_of_type (parameters, G_VARIANT_TYPE ("(uoss)")))
    return;
  g_variant_get (parameters, "(u&o&s&s)", NULL, &job, NULL, &result);
  g_hash_table_replace (user_data, g_strdup (job), g_strdup (result));
}

static void
on_vanished (GDBusConnection *bus, const char *name, gpointer user_data)
{
  *(gboolean *) user_data = TRUE;
}

gboolean
sonde_unit_manager_restart (SondeUnitManager *self, const char *unit, GError **error)
{
  g_autoptr (GHashTable) results = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  GVariant *subscribed
      = call (self, PATH, MANAGER_INTERFACE, "Subscribe", NULL, "()", NULL); /* else it says less */
  guint watch = g_dbus_connection_signal_subscribe (
      self->bus, NAME, MANAGER_INTERFACE, "JobRemoved", PATH, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
      on_job_removed, results, NULL);
  g_autoptr (GVariant) answer = call (self, PATH, MANAGER_INTERFACE, "RestartUnit",
                                      g_variant_new ("(ss)", unit, "replace"), "(o)", error);
  gboolean is_gone = FALSE;
  guint owner = g_bus_watch_name_on_connection (self->bus, NAME, G_BUS_NAME_WATCHER_FLAGS_NONE,
                                                NULL, on_vanished, &is_gone, NULL);
  const char *result = NULL;
  const char *job;

  if (answer != NULL)
    {
      g_variant_get (answer, "(&o)", &job);
      while ((result = g_hash_table_lookup (results, job)) == NULL && !is_gone
             && !g_dbus_connection_is_closed (self->bus))
        g_main_context_iteration (NULL, TRUE);
      if (g_strcmp0 (result, "done") != 0)
        g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s could not restart %s: %s",
                     self->whose, unit, result != NULL ? result : "it left meanwhile");
    }
  g_bus_unwatch_name (owner);
  g_dbus_connection_signal_unsubscribe (self->bus, watch);
  g_clear_pointer (&subscribed, g_variant_unref);
  return g_strcmp0 (result, "done") == 0;
}
