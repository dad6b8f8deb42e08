/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/fake-systemd.h"

#include "tests/lib/bus-client.h"

#define SYSTEMD      "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define UNIT_PATH    MANAGER_PATH "/unit/one"

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
  FakeSystemd *self = user_data;
  const char *name;

  g_atomic_int_inc (&self->n_asked);
  g_variant_get (arguments, "(&s)", &name);
  if (self->silent)
    g_object_unref (invocation);
  else if (g_str_equal (name, self->name))
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
  return g_variant_new_string (((const FakeSystemd *) user_data)->group);
}

static void
register_object (FakeSystemd *self,
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
own_name (FakeSystemd *self)
{
  static const GDBusInterfaceVTable manager = { .method_call = on_get_unit };
  static const GDBusInterfaceVTable service = { .get_property = get_group };
  g_autoptr (GDBusNodeInfo) node = g_dbus_node_info_new_for_xml (systemd_xml, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;

  g_main_context_push_thread_default (self->context);
  register_object (self, MANAGER_PATH, node->interfaces[0], &manager);
  register_object (self, UNIT_PATH, node->interfaces[1], &service);
  g_main_context_pop_thread_default (self->context);
  answer = g_dbus_connection_call_sync (
      self->bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
      "RequestName", g_variant_new ("(su)", SYSTEMD, 4 /* do not queue */), G_VARIANT_TYPE ("(u)"),
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);
  g_assert_no_error (error);
}

static gpointer
run_loop (gpointer user_data)
{
  g_main_loop_run (user_data);
  return NULL;
}

void
fake_systemd_start (FakeSystemd *self, const char *name, const char *group)
{
  self->name = name;
  self->group = group;
  self->bus = bus_connect (0);
  self->context = g_main_context_new ();
  self->loop = g_main_loop_new (self->context, FALSE);
  own_name (self);
  self->thread = g_thread_new ("systemd", run_loop, self->loop);
}

void
fake_systemd_clear (FakeSystemd *self)
{
  if (self->bus == NULL)
    return;
  g_main_loop_quit (self->loop);
  g_thread_join (self->thread);
  g_clear_pointer (&self->loop, g_main_loop_unref);
  g_clear_pointer (&self->context, g_main_context_unref);
  g_assert_true (g_dbus_connection_close_sync (self->bus, NULL, NULL));
  g_clear_object (&self->bus);
}
