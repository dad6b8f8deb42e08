/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The D-Bus side: objects, the single gate, the name. */
#include "config.h"

#include "daemon/control/bus.h"

#include "daemon/base/error.h"
#include "daemon/control/gate.h"
#include "daemon/control/service.h"
#include "sonde-profiler1-generated.h"

#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

struct SondeBus
{
  GDBusConnection *connection;
  SondeContext context;
  guint manager_object;
  guint session_subtree;
};

static GVariant *
get_all (SondeCall *call)
{
  GVariantBuilder builder;
  gsize n_properties;
  const SondeProperty *properties = sonde_service_properties (&n_properties);

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{sv}"));
  for (gsize i = 0; i < n_properties; i++)
    if (g_str_equal (properties[i].interface, call->property->interface))
      g_variant_builder_add (&builder, "{sv}", properties[i].name, properties[i].get (call));
  return g_variant_new ("(a{sv})", &builder);
}

/* Behind the gate. */
static void
run (SondeCall *call)
{
  if (call->method != NULL)
    call->method->handler (call);
  else if (g_str_equal (g_dbus_method_invocation_get_method_name (call->invocation), "GetAll"))
    sonde_call_return (call, get_all (call), NULL);
  else
    sonde_call_return (call, g_variant_new ("(v)", call->property->get (call)), NULL);
}

static void
on_caller (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeCall *call = user_data;
  g_autoptr (GError) error = NULL;

  call->caller = sonde_callers_begin_finish (call->context->callers, result, &error);
  if (call->caller == NULL)
    sonde_call_fail (call, error);
  else
    sonde_gate_pass (call, run);
}

/* GDBus has checked interface, member and types against the XML. Without a getter in the object's
 * vtable it sends property reads here too, so that they pass the same gate. */
static void
on_method_call (GDBusConnection *connection,
                const char *sender,
                const char *object_path,
                const char *interface,
                const char *method,
                GVariant *parameters,
                GDBusMethodInvocation *invocation,
                gpointer user_data)
{
  const SondeBus *self = user_data;
  SondeCall *call = sonde_call_new (&self->context, invocation);
  g_autoptr (GError) error = NULL;

  if (!sonde_call_check_fds (call, &error))
    {
      sonde_call_fail (call, error);
      return;
    }
  if (g_str_equal (interface, PROPERTIES_INTERFACE))
    {
      const char *of_interface;
      const char *name = NULL;

      g_variant_get_child (parameters, 0, "&s", &of_interface);
      if (g_str_equal (method, "Get"))
        g_variant_get_child (parameters, 1, "&s", &name);
      call->property = sonde_service_find_property (of_interface, name);
    }
  else
    call->method = sonde_service_find_method (interface, method);
  if (call->method == NULL && call->property == NULL)
    sonde_call_fail_with (call, SONDE_ERROR_NOT_SUPPORTED, "There is no such member");
  else
    sonde_callers_begin_async (self->context.callers, sender, on_caller, call);
}

/* Sessions are not listed: a stranger does not learn which there are. */
static char **
enumerate_sessions (GDBusConnection *connection,
                    const char *sender,
                    const char *object_path,
                    gpointer user_data)
{
  return g_new0 (char *, 1);
}

static GDBusInterfaceInfo **
introspect_session (GDBusConnection *connection,
                    const char *sender,
                    const char *object_path,
                    const char *node,
                    gpointer user_data)
{
  GDBusInterfaceInfo **infos;

  if (node == NULL)
    return NULL;
  infos = g_new0 (GDBusInterfaceInfo *, 2);
  infos[0] = g_dbus_interface_info_ref (sonde_dbus_session_interface_info ());
  return infos;
}

static const GDBusInterfaceVTable object_vtable = { .method_call = on_method_call };

static const GDBusInterfaceVTable *
dispatch_session (GDBusConnection *connection,
                  const char *sender,
                  const char *object_path,
                  const char *interface,
                  const char *node,
                  gpointer *out_user_data,
                  gpointer user_data)
{
  *out_user_data = user_data;
  return &object_vtable;
}

gboolean
sonde_bus_register (SondeBus *self, GError **error)
{
  static const GDBusSubtreeVTable subtree_vtable = { .enumerate = enumerate_sessions,
                                                     .introspect = introspect_session,
                                                     .dispatch = dispatch_session };

  self->manager_object = g_dbus_connection_register_object (self->connection, SONDE_MANAGER_PATH,
                                                            sonde_dbus_manager_interface_info (),
                                                            &object_vtable, self, NULL, error);
  if (self->manager_object == 0)
    return FALSE;
  self->session_subtree = g_dbus_connection_register_subtree (
      self->connection, SONDE_SESSION_PATH, &subtree_vtable,
      G_DBUS_SUBTREE_FLAGS_DISPATCH_TO_UNENUMERATED_NODES, self, NULL, error);
  return self->session_subtree != 0;
}

/* To nobody but the owner and the readers. */
static void
emit (SondeBus *self,
      SondeSession *session,
      const char *interface,
      const char *name,
      GVariant *parameters)
{
  g_autofree char *path
      = g_strdup_printf (SONDE_SESSION_PATH "/%" G_GUINT64_FORMAT, sonde_session_id (session));
  g_autoptr (GVariant) owned = g_variant_ref_sink (parameters);
  g_autoptr (GPtrArray) listeners = sonde_session_listeners (session);

  /* Fails only when the connection is closed: then nobody is left to be told. */
  for (guint i = 0; i < listeners->len; i++)
    g_dbus_connection_emit_signal (self->connection,
                                   self->context.is_peer ? NULL : g_ptr_array_index (listeners, i),
                                   path, interface, name, owned, NULL);
}

static void
on_state_changed (SondeSession *session, gpointer user_data)
{
  GVariantBuilder changed;

  g_variant_builder_init (&changed, G_VARIANT_TYPE ("a{sv}"));
  g_variant_builder_add (
      &changed, "{sv}", "State",
      g_variant_new_string (sonde_session_state_name (sonde_session_state (session))));
  emit (user_data, session, PROPERTIES_INTERFACE, "PropertiesChanged",
        g_variant_new ("(sa{sv}as)", SONDE_SESSION_INTERFACE, &changed, NULL));
}

static void
on_ended (SondeSession *session, gpointer user_data)
{
  emit (user_data, session, SONDE_SESSION_INTERFACE, "Finished",
        g_variant_new ("(s@a{st})", sonde_session_reason (session),
                       sonde_session_statistics (session)));
}

static void
on_caller_left (const char *name, gpointer user_data)
{
  SondeBus *self = user_data;

  sonde_session_manager_owner_left (self->context.manager, name);
}

SondeBus *
sonde_bus_new (GDBusConnection *connection,
               gboolean is_peer,
               SondeWorkerLauncher *launcher,
               SondeCaptureStore *store,
               SondeFdStore *fd_store,
               const SondeSettings *settings)
{
  static const SondeSessionManagerHandler handler
      = { .state_changed = on_state_changed, .ended = on_ended };
  SondeBus *self = g_new0 (SondeBus, 1);

  self->connection = g_object_ref (connection);
  self->context.is_peer = is_peer;
  self->context.settings = settings;
  self->context.callers = sonde_callers_new (connection, is_peer, on_caller_left, self);
  self->context.authority
      = is_peer ? sonde_authority_new_peer () : sonde_authority_new_polkit (connection);
  self->context.refusals = sonde_refusals_new ();
  self->context.manager
      = sonde_session_manager_new (launcher, store, fd_store, settings, &handler, self);
  sonde_session_manager_adopt (self->context.manager, self->context.callers);
  return self;
}

void
sonde_bus_free (SondeBus *self)
{
  if (self == NULL)
    return;
  if (self->manager_object != 0)
    g_dbus_connection_unregister_object (self->connection, self->manager_object);
  if (self->session_subtree != 0)
    g_dbus_connection_unregister_subtree (self->connection, self->session_subtree);
  g_clear_pointer (&self->context.manager, sonde_session_manager_free);
  g_clear_pointer (&self->context.authority, sonde_authority_free);
  g_clear_pointer (&self->context.callers, sonde_callers_free);
  g_clear_pointer (&self->context.refusals, sonde_refusals_free);
  g_clear_object (&self->connection);
  g_free (self);
}

gboolean
sonde_bus_has_sessions (const SondeBus *self)
{
  return sonde_session_manager_n_sessions (self->context.manager) > 0;
}

gboolean
sonde_bus_has_progress (const SondeBus *self)
{
  return sonde_session_manager_has_progress (self->context.manager);
}

void
sonde_bus_leave (SondeBus *self)
{
  sonde_session_manager_leave (self->context.manager);
}

void
sonde_bus_shut_down (SondeBus *self,
                     const char *reason,
                     void (*done) (gpointer user_data),
                     gpointer user_data)
{
  sonde_session_manager_shut_down (self->context.manager, reason, done, user_data);
}
