/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What systemd does with our own unit. */
#include "daemon/control/unit-job.h"

#include <unistd.h>

#include "daemon/base/limits.h"

#define SYSTEMD_NAME       "org.freedesktop.systemd1"
#define SYSTEMD_PATH       "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE  SYSTEMD_NAME ".Manager"
#define UNIT_INTERFACE     SYSTEMD_NAME ".Unit"
#define JOB_INTERFACE      SYSTEMD_NAME ".Job"
#define PROPERTY_INTERFACE "org.freedesktop.DBus.Properties"

/* A question in progress. */
typedef struct
{
  GDBusConnection *bus;
  SondeUnitJobAnswer answer;
  gpointer user_data;
  gboolean is_to_start;
} Question;

static void
answer (Question *self, gboolean is_restart)
{
  self->answer (is_restart, self->user_data);
  g_object_unref (self->bus);
  g_free (self);
}

static void
call (Question *self,
      const char *path,
      const char *interface,
      const char *method,
      GVariant *arguments,
      const char *type,
      GAsyncReadyCallback callback)
{
  g_dbus_connection_call (self->bus, SYSTEMD_NAME, path, interface, method, arguments,
                          G_VARIANT_TYPE (type), G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          SONDE_LIMIT_UNIT_JOB_MS, NULL, callback, self);
}

/* @type: of the property. NULL: it is not there, or of another type */
static GVariant *
finish_get (GObject *source, GAsyncResult *result, const char *type)
{
  g_autoptr (GVariant) value = NULL;
  g_autoptr (GVariant) reply
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  if (reply == NULL)
    return NULL;
  g_variant_get (reply, "(v)", &value);
  return g_variant_is_of_type (value, G_VARIANT_TYPE (type)) ? g_steal_pointer (&value) : NULL;
}

static void
on_job_type (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GVariant) type = finish_get (source, result, "s");

  answer (user_data, type != NULL && g_str_equal (g_variant_get_string (type, NULL), "restart"));
}

static void
on_job (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Question *self = user_data;
  g_autoptr (GVariant) job = finish_get (source, result, "(uo)");
  guint32 number = 0;
  const char *path;

  if (job != NULL)
    g_variant_get (job, "(u&o)", &number, &path);
  if (number == 0)
    answer (self, FALSE);
  else
    call (self, path, PROPERTY_INTERFACE, "Get", g_variant_new ("(ss)", JOB_INTERFACE, "JobType"),
          "(v)", on_job_type);
}

static void
on_start_queued (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GVariant) reply
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  answer (user_data, reply != NULL);
}

static void
on_unit (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Question *self = user_data;
  g_autoptr (GVariant) reply
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);
  const char *path;

  if (reply == NULL)
    {
      answer (self, FALSE);
      return;
    }
  g_variant_get (reply, "(&o)", &path);
  if (self->is_to_start)
    call (self, path, UNIT_INTERFACE, "Start", g_variant_new ("(s)", "replace"), "(o)",
          on_start_queued);
  else
    call (self, path, PROPERTY_INTERFACE, "Get", g_variant_new ("(ss)", UNIT_INTERFACE, "Job"),
          "(v)", on_job);
}

static void
ask (GDBusConnection *bus, gboolean is_to_start, SondeUnitJobAnswer callback, gpointer user_data)
{
  Question *self = g_new0 (Question, 1);

  self->bus = g_object_ref (bus);
  self->answer = callback;
  self->user_data = user_data;
  self->is_to_start = is_to_start;
  call (self, SYSTEMD_PATH, MANAGER_INTERFACE, "GetUnitByPID",
        g_variant_new ("(u)", (guint32) getpid ()), "(o)", on_unit);
}

void
sonde_unit_job_ask (GDBusConnection *bus, SondeUnitJobAnswer callback, gpointer user_data)
{
  ask (bus, FALSE, callback, user_data);
}

void
sonde_unit_job_start_again (GDBusConnection *bus, SondeUnitJobAnswer callback, gpointer user_data)
{
  ask (bus, TRUE, callback, user_data);
}
