/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/system/unit.h"

#include <string.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/control/system/systemd.h"

#define ERROR_NO_UNIT SYSTEMD_NAME ".NoSuchUnit"

#define MAX_NAME      255
#define CHARACTERS    G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS ":_.\\@-"

/* Only these have processes of their own and a property ControlGroup that tells of them. */
static const struct
{
  const char *suffix;
  const char *interface;
} kinds[] = {
  { ".service", SERVICE_INTERFACE },
  { ".scope", SYSTEMD_NAME ".Scope" },
  { ".slice", SYSTEMD_NAME ".Slice" },
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

/* --- where a unit is --- */

/* On a connection of its own: a private sonded has no other to the system bus. */
struct SondeGroupQuestion
{
  char *name;
  SondeGroupFound found;
  gpointer user_data;
  SondeBusConnection *bus;
};

void
sonde_group_question_free (SondeGroupQuestion *self)
{
  if (self == NULL)
    return;
  sonde_bus_connection_free (self->bus);
  g_free (self->name);
  g_free (self);
}

/* @error: (transfer full) (nullable) */
static void
answer_group (SondeGroupQuestion *self, const char *group, GError *error)
{
  g_autoptr (GError) owned = error;

  self->found (group, owned, self->user_data);
  sonde_group_question_free (self);
}

static GError *
not_running (const char *name)
{
  return g_error_new (SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS, "Unit %s is not running", name);
}

/* What systemd says of a unit is one of two things: there is none, or something that is not the
 * caller's fault. */
static GError *
explain (const char *name, const GError *error)
{
  g_autofree char *remote = g_dbus_error_get_remote_error (error);

  if (g_strcmp0 (remote, ERROR_NO_UNIT) == 0)
    return not_running (name);
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN)
      || g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NAME_HAS_NO_OWNER)
      || g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY) || remote == NULL)
    return g_error_new_literal (SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                                "Option unit: systemd does not answer");
  return g_error_new (SONDE_ERROR, SONDE_ERROR_FAILED, "Option unit: systemd answers with %s",
                      remote);
}

static void
on_group (GVariant *reply, const GError *error, gpointer user_data)
{
  SondeGroupQuestion *self = user_data;
  g_autoptr (GVariant) value = NULL;

  if (reply == NULL)
    {
      answer_group (self, NULL, explain (self->name, error));
      return;
    }
  g_variant_get (reply, "(v)", &value);
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    answer_group (self, NULL,
                  g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED,
                                       "Option unit: systemd's ControlGroup is no text"));
  else if (g_variant_get_size (value) <= 1)
    answer_group (self, NULL, not_running (self->name));
  else
    answer_group (self, g_variant_get_string (value, NULL), NULL);
}

static void
on_group_unit (GVariant *reply, const GError *error, gpointer user_data)
{
  SondeGroupQuestion *self = user_data;
  const char *path;

  if (reply == NULL)
    {
      answer_group (self, NULL, explain (self->name, error));
      return;
    }
  g_variant_get (reply, "(&o)", &path);
  sonde_systemd_call (self->bus, path, PROPERTY_INTERFACE, "Get",
                      g_variant_new ("(ss)", find_interface (self->name), "ControlGroup"), "(v)",
                      SONDE_LIMIT_UNIT_MS, on_group, self);
}

SondeGroupQuestion *
sonde_unit_find_group (const char *name, SondeGroupFound found, gpointer user_data, GError **error)
{
  g_autoptr (GError) why = NULL;
  SondeBusConnection *bus = sonde_bus_connection_new_system (NULL, NULL, &why);
  SondeGroupQuestion *self;

  if (bus == NULL)
    {
      g_propagate_error (error, explain (name, why));
      return NULL;
    }
  self = g_new0 (SondeGroupQuestion, 1);
  self->name = g_strdup (name);
  self->found = found;
  self->user_data = user_data;
  self->bus = bus;
  sonde_systemd_call (bus, SYSTEMD_PATH, MANAGER_INTERFACE, "GetUnit", g_variant_new ("(s)", name),
                      "(o)", SONDE_LIMIT_UNIT_MS, on_group_unit, self);
  return self;
}

/* --- jobs of our own unit --- */

/* On the connection that we have. */
typedef struct
{
  SondeBusConnection *bus;
  SondeUnitWish wish;
  SondeUnitAnswer answer;
  gpointer user_data;
} JobQuestion;

static void
answer (JobQuestion *self, gboolean is_so)
{
  self->answer (is_so, self->user_data);
  g_free (self);
}

static void
call (JobQuestion *self,
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
  JobQuestion *self = user_data;
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
on_own_unit (GVariant *reply, const GError *error, gpointer user_data)
{
  JobQuestion *self = user_data;
  const char *path;

  if (reply == NULL)
    {
      answer (self, FALSE);
      return;
    }
  g_variant_get (reply, "(&o)", &path);
  switch (self->wish)
    {
    case SONDE_UNIT_IS_RESTARTED:
      call (self, path, PROPERTY_INTERFACE, "Get", g_variant_new ("(ss)", UNIT_INTERFACE, "Job"),
            "(v)", on_job);
      break;
    case SONDE_UNIT_START_AGAIN:
      call (self, path, UNIT_INTERFACE, "Start", g_variant_new ("(s)", "replace"), "(o)", on_done);
      break;
    case SONDE_UNIT_FORGET_STARTS:
      call (self, path, UNIT_INTERFACE, "ResetFailed", NULL, "()", on_done);
      break;
    default:
      g_assert_not_reached ();
    }
}

void
sonde_unit_ask_own (SondeBusConnection *bus,
                    SondeUnitWish wish,
                    SondeUnitAnswer callback,
                    gpointer user_data)
{
  JobQuestion *self = g_new0 (JobQuestion, 1);

  self->bus = bus;
  self->wish = wish;
  self->answer = callback;
  self->user_data = user_data;
  call (self, SYSTEMD_PATH, MANAGER_INTERFACE, "GetUnitByPID",
        g_variant_new ("(u)", (guint32) getpid ()), "(o)", on_own_unit);
}
