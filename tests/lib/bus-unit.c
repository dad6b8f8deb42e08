/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A systemd that knows one unit, played on the private bus; the unit's control group is real. */
#include "tests/lib/bus-unit.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/bus-client.h"

#define SYSTEMD   "org.freedesktop.systemd1"
#define UNIT_PATH "/org/freedesktop/systemd1/unit/one"

static const char systemd_xml[]
    = "<node>"
      "<interface name='" SYSTEMD ".Manager'><method name='GetUnit'>"
      "<arg type='s' direction='in'/><arg type='o' direction='out'/></method></interface>"
      "<interface name='" SYSTEMD ".Service'>"
      "<property name='ControlGroup' type='s' access='read'/></interface>"
      "</node>";

static void
on_get_unit (GDBusConnection *bus,
             const char *sender,
             const char *path,
             const char *interface,
             const char *method,
             GVariant *arguments,
             GDBusMethodInvocation *invocation,
             gpointer user_data)
{
  const BusUnit *self = user_data;
  const char *name;

  g_variant_get (arguments, "(&s)", &name);
  if (g_str_equal (name, self->name))
    g_dbus_method_invocation_return_value (invocation, g_variant_new ("(o)", UNIT_PATH));
  else
    g_dbus_method_invocation_return_dbus_error (invocation, SYSTEMD ".NoSuchUnit", "not loaded");
}

static GVariant *
get_group (GDBusConnection *bus,
           const char *sender,
           const char *path,
           const char *interface,
           const char *property,
           GError **error,
           gpointer user_data)
{
  return g_variant_new_string (((const BusUnit *) user_data)->group);
}

static void
register_object (BusUnit *self,
                 const char *path,
                 GDBusInterfaceInfo *info,
                 const GDBusInterfaceVTable *vtable)
{
  g_autoptr (GError) error = NULL;

  g_dbus_connection_register_object (self->bus, path, info, vtable, self, NULL, &error);
  g_assert_no_error (error);
}

/* Calls come in the context that is the thread's default now. */
static void
own_name (BusUnit *self)
{
  static const GDBusInterfaceVTable manager = { .method_call = on_get_unit };
  static const GDBusInterfaceVTable service = { .get_property = get_group };
  g_autoptr (GDBusNodeInfo) node = g_dbus_node_info_new_for_xml (systemd_xml, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;

  g_main_context_push_thread_default (self->context);
  register_object (self, "/org/freedesktop/systemd1", node->interfaces[0], &manager);
  register_object (self, UNIT_PATH, node->interfaces[1], &service);
  g_main_context_pop_thread_default (self->context);
  answer = g_dbus_connection_call_sync (
      self->bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
      "RequestName", g_variant_new ("(su)", SYSTEMD, 4 /* do not queue */), G_VARIANT_TYPE ("(u)"),
      G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
  g_assert_no_error (error);
}

static gpointer
run_loop (gpointer user_data)
{
  g_main_loop_run (user_data);
  return NULL;
}

/* Where control groups can be made here: version 2, else systemd's own of version 1. */
static const char *
find_hierarchy (void)
{
  static const char *const roots[]
      = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd" };

  for (guint i = 0; i < G_N_ELEMENTS (roots); i++)
    {
      g_autofree char *path = g_build_filename (roots[i], "cgroup.procs", NULL);

      if (access (path, W_OK) == 0)
        return roots[i];
    }
  g_error ("no control groups at /sys/fs/cgroup");
}

void
bus_unit_init (BusUnit *self, const char *name)
{
  self->name = name;
  self->group = g_strdup_printf ("/sonde-test-%08x-%s", g_random_int (), name);
  self->folder = g_strconcat (find_hierarchy (), self->group, NULL);
  g_assert_cmpint (mkdir (self->folder, 0755), ==, 0);
  self->bus = bus_connect (0);
  self->context = g_main_context_new ();
  self->loop = g_main_loop_new (self->context, FALSE);
  own_name (self);
  self->thread = g_thread_new ("systemd", run_loop, self->loop);
}

static gboolean
is_removed (gpointer user_data)
{
  /* Somebody may still be dying in it. */
  return rmdir (((const BusUnit *) user_data)->folder) == 0;
}

void
bus_unit_clear (BusUnit *self)
{
  g_main_loop_quit (self->loop);
  g_thread_join (self->thread);
  g_main_loop_unref (self->loop);
  g_main_context_unref (self->context);
  g_assert_true (g_dbus_connection_close_sync (self->bus, NULL, NULL));
  g_object_unref (self->bus);
  bus_wait (is_removed, self, "the end of the unit");
  g_free (self->group);
  g_free (self->folder);
}

void
bus_unit_add (const BusUnit *self, pid_t pid)
{
  g_autofree char *path = g_build_filename (self->folder, "cgroup.procs", NULL);
  FILE *procs = fopen (path, "we");

  g_assert_nonnull (procs);
  g_assert_cmpint (fprintf (procs, "%d", (int) pid), >, 0);
  g_assert_cmpint (fclose (procs), ==, 0);
}
