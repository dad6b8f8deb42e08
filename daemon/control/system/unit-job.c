/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/unit-job.h"

#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/control/system/systemd.h"

typedef enum
{
  ASK_FOR_JOB,
  START_AGAIN,
  FORGET_STARTS,
} Purpose;

/* A question in progress. */
typedef struct
{
  SondeBusConnection *bus;
  SondeUnitJobAnswer answer;
  gpointer user_data;
  Purpose purpose;
} Question;

static void
answer (Question *self, gboolean is_restart)
{
  self->answer (is_restart, self->user_data);
  g_free (self);
}

static void
call (Question *self,
      const char *path,
      const char *interface,
      const char *method,
      GVariant *arguments,
      const char *type,
      SondeBusConnectionReply reply)
{
  sonde_systemd_call (self->bus, path, interface, method, arguments, type, SONDE_LIMIT_UNIT_JOB_MS,
                      reply, self);
}

/* @type: of the property. NULL: it is not there, or of another type */
static GVariant *
read_property (GVariant *reply, const char *type)
{
  g_autoptr (GVariant) value = NULL;

  if (reply == NULL)
    return NULL;
  g_variant_get (reply, "(v)", &value);
  return g_variant_is_of_type (value, G_VARIANT_TYPE (type)) ? g_steal_pointer (&value) : NULL;
}

static void
on_job_type (GVariant *reply, const GError *error, gpointer user_data)
{
  g_autoptr (GVariant) type = read_property (reply, "s");

  answer (user_data, type != NULL && g_str_equal (g_variant_get_string (type, NULL), "restart"));
}

static void
on_job (GVariant *reply, const GError *error, gpointer user_data)
{
  Question *self = user_data;
  g_autoptr (GVariant) job = read_property (reply, "(uo)");
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
on_done (GVariant *reply, const GError *error, gpointer user_data)
{
  answer (user_data, reply != NULL);
}

static void
on_unit (GVariant *reply, const GError *error, gpointer user_data)
{
  Question *self = user_data;
  const char *path;

  if (reply == NULL)
    {
      answer (self, FALSE);
      return;
    }
  g_variant_get (reply, "(&o)", &path);
  switch (self->purpose)
    {
    case ASK_FOR_JOB:
      call (self, path, PROPERTY_INTERFACE, "Get", g_variant_new ("(ss)", UNIT_INTERFACE, "Job"),
            "(v)", on_job);
      break;
    case START_AGAIN:
      call (self, path, UNIT_INTERFACE, "Start", g_variant_new ("(s)", "replace"), "(o)", on_done);
      break;
    case FORGET_STARTS:
      call (self, path, UNIT_INTERFACE, "ResetFailed", NULL, "()", on_done);
      break;
    default:
      g_assert_not_reached ();
    }
}

static void
ask (SondeBusConnection *bus, Purpose purpose, SondeUnitJobAnswer callback, gpointer user_data)
{
  Question *self = g_new0 (Question, 1);

  self->bus = bus;
  self->answer = callback;
  self->user_data = user_data;
  self->purpose = purpose;
  call (self, SYSTEMD_PATH, MANAGER_INTERFACE, "GetUnitByPID",
        g_variant_new ("(u)", (guint32) getpid ()), "(o)", on_unit);
}

void
sonde_unit_job_ask (SondeBusConnection *bus, SondeUnitJobAnswer callback, gpointer user_data)
{
  ask (bus, ASK_FOR_JOB, callback, user_data);
}

void
sonde_unit_job_start_again (SondeBusConnection *bus,
                            SondeUnitJobAnswer callback,
                            gpointer user_data)
{
  ask (bus, START_AGAIN, callback, user_data);
}

void
sonde_unit_job_forget_starts (SondeBusConnection *bus,
                              SondeUnitJobAnswer callback,
                              gpointer user_data)
{
  ask (bus, FORGET_STARTS, callback, user_data);
}
