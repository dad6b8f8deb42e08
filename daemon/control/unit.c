/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* systemd's units: their names, and which control group is theirs. */
#include "daemon/control/unit.h"

#include <string.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"

#define SYSTEMD_NAME      "org.freedesktop.systemd1"
#define SYSTEMD_PATH      "/org/freedesktop/systemd1"
#define SYSTEMD_INTERFACE "org.freedesktop.systemd1.Manager"
#define ERROR_NO_UNIT     "org.freedesktop.systemd1.NoSuchUnit"

#define MAX_NAME          255
#define CHARACTERS        G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS ":_.\\@-"

/* Only these have processes of their own and a property ControlGroup that tells of them. */
static const struct
{
  const char *suffix;
  const char *interface;
} kinds[] = {
  { ".service", "org.freedesktop.systemd1.Service" },
  { ".scope", "org.freedesktop.systemd1.Scope" },
  { ".slice", "org.freedesktop.systemd1.Slice" },
};

static const char *
find_interface (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (g_str_has_suffix (name, kinds[i].suffix) && strlen (name) > strlen (kinds[i].suffix))
      return kinds[i].interface;
  return NULL;
}

gboolean
sonde_unit_is_name (const char *text)
{
  gsize size_bytes = strlen (text);

  return size_bytes <= MAX_NAME && strspn (text, CHARACTERS) == size_bytes
         && find_interface (text) != NULL;
}

gboolean
sonde_unit_is_everything (const char *name)
{
  return g_str_equal (name, "-.slice");
}

/* @task: (transfer full). What systemd says of a unit is one of two things: there is none, or
 * something that is not the caller's fault. */
static void
fail (GTask *task, const GError *error)
{
  g_autoptr (GTask) owned = task;
  g_autofree char *remote = g_dbus_error_get_remote_error (error);
  const char *name = g_task_get_task_data (owned);

  if (g_strcmp0 (remote, ERROR_NO_UNIT) == 0)
    g_task_return_new_error (owned, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS,
                             "Unit %s is not running", name);
  else if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN)
           || g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NAME_HAS_NO_OWNER)
           || remote == NULL)
    g_task_return_new_error (owned, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                             "Option unit: systemd does not answer");
  else
    g_task_return_new_error (owned, SONDE_ERROR, SONDE_ERROR_FAILED,
                             "Option unit: systemd answers with %s", remote);
}

static void
on_group (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  g_autoptr (GVariant) value = NULL;

  if (answer == NULL)
    {
      fail (task, error);
      return;
    }
  g_variant_get (answer, "(v)", &value);
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_FAILED,
                             "Option unit: systemd's ControlGroup is no text");
  else if (g_variant_get_size (value) <= 1)
    g_task_return_new_error (task, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS,
                             "Unit %s is not running", (char *) g_task_get_task_data (task));
  else
    g_task_return_pointer (task, g_variant_dup_string (value, NULL), g_free);
  g_object_unref (task);
}

static void
on_unit (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  const char *path;

  if (answer == NULL)
    {
      fail (task, error);
      return;
    }
  g_variant_get (answer, "(&o)", &path);
  g_dbus_connection_call (
      G_DBUS_CONNECTION (source), SYSTEMD_NAME, path, "org.freedesktop.DBus.Properties", "Get",
      g_variant_new ("(ss)", find_interface (g_task_get_task_data (task)), "ControlGroup"),
      G_VARIANT_TYPE ("(v)"), G_DBUS_CALL_FLAGS_NO_AUTO_START, SONDE_LIMIT_UNIT_MS,
      g_task_get_cancellable (task), on_group, task);
}

static void
on_bus (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GTask *task = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GDBusConnection) bus = g_bus_get_finish (result, &error);

  if (bus == NULL)
    {
      fail (task, error);
      return;
    }
  /* In a private sonded it is ours alone, and its end must not be. */
  g_dbus_connection_set_exit_on_close (bus, FALSE);
  g_dbus_connection_call (bus, SYSTEMD_NAME, SYSTEMD_PATH, SYSTEMD_INTERFACE, "GetUnit",
                          g_variant_new ("(s)", g_task_get_task_data (task)),
                          G_VARIANT_TYPE ("(o)"), G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          SONDE_LIMIT_UNIT_MS, g_task_get_cancellable (task), on_unit, task);
}

void
sonde_unit_find_group_async (const char *name,
                             GCancellable *cancellable,
                             GAsyncReadyCallback callback,
                             gpointer user_data)
{
  GTask *task = g_task_new (NULL, cancellable, callback, user_data);

  g_task_set_source_tag (task, sonde_unit_find_group_async);
  g_task_set_task_data (task, g_strdup (name), g_free);
  g_bus_get (G_BUS_TYPE_SYSTEM, cancellable, on_bus, task);
}

char *
sonde_unit_find_group_finish (GAsyncResult *result, GError **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}
