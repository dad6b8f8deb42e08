/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/control/bus/bus.h"

#include <string.h>

#include "daemon/base/error.h"
#include "daemon/control/bus/service.h"
#include "sonde-profiler1-generated.h"

#define PROPERTIES_INTERFACE     "org.freedesktop.DBus.Properties"
#define INTROSPECTABLE_INTERFACE "org.freedesktop.DBus.Introspectable"

/* --- what there is --- */

/* What every object answers beside its own interface. Source: D-Bus specification, "Standard
 * Interfaces" */
static const char standard_interfaces[]
    = "  <interface name='org.freedesktop.DBus.Peer'>\n"
      "    <method name='Ping'/>\n"
      "    <method name='GetMachineId'><arg type='s' name='machine_uuid' "
      "direction='out'/></method>\n"
      "  </interface>\n"
      "  <interface name='" INTROSPECTABLE_INTERFACE "'>\n"
      "    <method name='Introspect'><arg type='s' name='xml_data' direction='out'/></method>\n"
      "  </interface>\n"
      "  <interface name='" PROPERTIES_INTERFACE "'>\n"
      "    <method name='Get'><arg type='s' name='interface_name' direction='in'/>"
      "<arg type='s' name='property_name' direction='in'/>"
      "<arg type='v' name='value' direction='out'/></method>\n"
      "    <method name='GetAll'><arg type='s' name='interface_name' direction='in'/>"
      "<arg type='a{sv}' name='properties' direction='out'/></method>\n"
      "    <method name='Set'><arg type='s' name='interface_name' direction='in'/>"
      "<arg type='s' name='property_name' direction='in'/>"
      "<arg type='v' name='value' direction='in'/></method>\n"
      "    <signal name='PropertiesChanged'><arg type='s' name='interface_name'/>"
      "<arg type='a{sv}' name='changed_properties'/>"
      "<arg type='as' name='invalidated_properties'/></signal>\n"
      "  </interface>\n";

/* The interface of the object at @path; NULL if there is none. Every number is a session's: a
 * stranger does not learn which there are. */
static GDBusInterfaceInfo *
find_interface (const char *path)
{
  const char *node;

  if (g_str_equal (path, SONDE_MANAGER_PATH))
    return sonde_dbus_manager_interface_info ();
  if (!g_str_has_prefix (path, SONDE_SESSION_PATH "/"))
    return NULL;
  node = path + strlen (SONDE_SESSION_PATH "/");
  return strchr (node, '/') == NULL ? sonde_dbus_session_interface_info () : NULL;
}

/* The name below @path on the way to the objects that are listed; NULL if there is none. */
static char *
dup_child (const char *path)
{
  const char *rest = NULL;

  if (g_str_equal (path, "/"))
    rest = SONDE_SESSION_PATH;
  else if (g_str_has_prefix (SONDE_SESSION_PATH, path))
    rest = &SONDE_SESSION_PATH[strlen (path)];
  if (rest == NULL || rest[0] != '/')
    return NULL;
  return g_strndup (rest + 1, strcspn (rest + 1, "/"));
}

/* Returns: NULL: there is nothing at @path */
static char *
introspect (const char *path)
{
  GDBusInterfaceInfo *info = find_interface (path);
  g_autofree char *child = dup_child (path);
  GString *xml;

  if (info == NULL && child == NULL && !g_str_equal (path, SONDE_SESSION_PATH))
    return NULL;
  xml = g_string_new (
      "<!DOCTYPE node PUBLIC '-//freedesktop//DTD D-BUS Object Introspection 1.0//EN'\n"
      " 'http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd'>\n<node>\n");
  if (info != NULL)
    {
      g_string_append (xml, standard_interfaces);
      g_dbus_interface_info_generate_xml (info, 2, xml);
    }
  if (child != NULL)
    g_string_append_printf (xml, "  <node name='%s'/>\n", child);
  g_string_append (xml, "</node>\n");
  return g_string_free (xml, FALSE);
}

/* --- calls --- */

static GVariant *
get (SondeCall *call, const SondeMember *property)
{
  return property->fact == NULL
             ? property->get (call)
             : sonde_session_record_show (sonde_session_facts (call->session), property->fact);
}

/* Behind the gate. */
static void
run (SondeCall *call)
{
  GVariantBuilder builder;
  gsize n_members;
  const SondeMember *members = sonde_service_members (&n_members);

  if (call->member->handler != NULL)
    {
      call->member->handler (call);
      return;
    }
  if (!g_str_equal (sd_bus_message_get_member (call->message), "GetAll"))
    {
      sonde_call_return (call, g_variant_new ("(v)", get (call, call->member)), NULL);
      return;
    }
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{sv}"));
  for (gsize i = 0; i < n_members; i++)
    if (members[i].handler == NULL && g_str_equal (members[i].interface, call->member->interface))
      g_variant_builder_add (&builder, "{sv}", members[i].name, get (call, &members[i]));
  sonde_call_return (call, g_variant_new ("(a{sv})", &builder), NULL);
}

static void
on_caller (GObject *source, GAsyncResult *result, gpointer user_data)
{
  SondeCall *call = user_data;
  g_autoptr (GError) error = NULL;

  call->caller = sonde_callers_begin_finish (call->bus->callers, result, &error);
  if (call->caller == NULL)
    sonde_call_fail (call, error);
  else
    sonde_call_pass (call, run);
}

static void refuse (const SondeBus *bus, sd_bus_message *message, int code, const char *format, ...)
    G_GNUC_PRINTF (4, 5);

/* With the errors of D-Bus itself. */
static void
refuse (const SondeBus *bus, sd_bus_message *message, int code, const char *format, ...)
{
  g_autoptr (GError) error = NULL;
  va_list arguments;

  va_start (arguments, format);
  error = g_error_new_valist (G_DBUS_ERROR, code, format, arguments);
  va_end (arguments);
  sonde_bus_connection_answer_error (bus->connection, message, error);
}

/* @call: (transfer full): with its row */
static void
begin (SondeCall *call)
{
  sonde_callers_begin_async (call->bus->callers, sd_bus_message_get_sender (call->message),
                             on_caller, call);
}

static void
call_method (const SondeBus *bus, sd_bus_message *message, const SondeMember *method)
{
  GDBusInterfaceInfo *info = find_interface (sd_bus_message_get_path (message));
  GDBusArgInfo **arguments = g_dbus_interface_info_lookup_method (info, method->name)->in_args;
  g_autoptr (GString) signature = g_string_new (NULL);
  SondeCall *call;

  for (gsize i = 0; arguments != NULL && arguments[i] != NULL; i++)
    g_string_append (signature, arguments[i]->signature);
  if (!g_str_equal (signature->str, sd_bus_message_get_signature (message, TRUE)))
    {
      refuse (bus, message, G_DBUS_ERROR_INVALID_ARGS, "%s takes other arguments than \"%s\"",
              method->name, sd_bus_message_get_signature (message, TRUE));
      return;
    }
  call = sonde_call_new (bus, message);
  if (call == NULL)
    return;
  call->member = method;
  begin (call);
}

/* Reads pass the gate as calls do. */
static void
call_properties (const SondeBus *bus, sd_bus_message *message, const char *interface)
{
  const char *member = sd_bus_message_get_member (message);
  gboolean is_get = g_str_equal (member, "Get");
  const char *of_interface;
  const char *name = NULL;
  SondeCall *call;

  if (!is_get && !g_str_equal (member, "GetAll"))
    {
      if (g_str_equal (member, "Set"))
        refuse (bus, message, G_DBUS_ERROR_INVALID_ARGS, "No property can be set");
      else
        refuse (bus, message, G_DBUS_ERROR_UNKNOWN_METHOD, "There is no such method");
      return;
    }
  if (!g_str_equal (sd_bus_message_get_signature (message, TRUE), is_get ? "ss" : "s"))
    {
      refuse (bus, message, G_DBUS_ERROR_INVALID_ARGS, "%s takes other arguments", member);
      return;
    }
  call = sonde_call_new (bus, message);
  if (call == NULL)
    return;
  g_variant_get_child (call->arguments, 0, "&s", &of_interface);
  if (is_get)
    g_variant_get_child (call->arguments, 1, "&s", &name);
  if (g_str_equal (of_interface, interface))
    call->member = sonde_service_find (of_interface, name, FALSE);
  if (call->member == NULL)
    {
      g_autoptr (GError) error = g_error_new_literal (G_DBUS_ERROR, G_DBUS_ERROR_INVALID_ARGS,
                                                      "There is no such property");

      sonde_call_fail (call, error);
    }
  else
    begin (call);
}

gboolean
sonde_bus_call (SondeBus *self, sd_bus_message *message)
{
  const char *path = sd_bus_message_get_path (message);
  const char *interface = sd_bus_message_get_interface (message);
  const char *member = sd_bus_message_get_member (message);
  GDBusInterfaceInfo *info = find_interface (path);
  const SondeMember *method;

  if (interface == NULL || g_str_equal (interface, "org.freedesktop.DBus.Peer"))
    return FALSE;
  if (g_str_equal (interface, INTROSPECTABLE_INTERFACE) && g_str_equal (member, "Introspect"))
    {
      g_autofree char *xml = introspect (path);
      g_autoptr (GVariant) answer = NULL;

      if (xml == NULL)
        return FALSE;
      answer = g_variant_ref_sink (g_variant_new ("(s)", xml));
      sonde_bus_connection_answer (self->connection, message, answer, NULL);
      return TRUE;
    }
  if (info == NULL)
    return FALSE;
  if (g_str_equal (interface, PROPERTIES_INTERFACE))
    {
      call_properties (self, message, info->name);
      return TRUE;
    }
  method
      = g_str_equal (interface, info->name) ? sonde_service_find (interface, member, TRUE) : NULL;
  if (method == NULL)
    refuse (self, message, G_DBUS_ERROR_UNKNOWN_METHOD, "There is no method %s of %s", member,
            interface);
  else
    call_method (self, message, method);
  return TRUE;
}

static gboolean
sees (const SondeSubscriber *subscriber, SondeSession *session)
{
  return subscriber->sees_all
         || subscriber->caller->uid == sonde_session_facts (session)->owner_uid;
}

/* To nobody but the owner, the readers, and who has subscribed and may see it. */
static void
emit (SondeBus *self,
      SondeSession *session,
      const char *interface,
      const char *name,
      GVariant *parameters)
{
  g_autofree char *path = g_strdup_printf (SONDE_SESSION_PATH "/%" G_GUINT64_FORMAT,
                                           sonde_session_facts (session)->id);
  g_autoptr (GVariant) owned = g_variant_ref_sink (parameters);
  g_autoptr (GPtrArray) listeners = sonde_session_listeners (session);

  for (guint i = 0; i < self->subscribers->len; i++)
    {
      const SondeSubscriber *subscriber = g_ptr_array_index (self->subscribers, i);

      if (sees (subscriber, session)
          && !g_ptr_array_find_with_equal_func (listeners, subscriber->caller->name, g_str_equal,
                                                NULL))
        g_ptr_array_add (listeners, (gpointer) subscriber->caller->name);
    }
  for (guint i = 0; i < listeners->len; i++)
    sonde_bus_connection_emit (self->connection,
                               self->is_peer ? NULL : g_ptr_array_index (listeners, i), path,
                               interface, name, owned);
}

static void
tell_subscribers (SondeBus *self, SondeSession *session, const char *name)
{
  g_autofree char *path = g_strdup_printf (SONDE_SESSION_PATH "/%" G_GUINT64_FORMAT,
                                           sonde_session_facts (session)->id);
  g_autoptr (GVariant) arguments = g_variant_ref_sink (g_variant_new ("(o)", path));

  for (guint i = 0; i < self->subscribers->len; i++)
    {
      const SondeSubscriber *subscriber = g_ptr_array_index (self->subscribers, i);

      if (sees (subscriber, session))
        sonde_bus_connection_emit (self->connection,
                                   self->is_peer ? NULL : subscriber->caller->name,
                                   SONDE_MANAGER_PATH, SONDE_MANAGER_INTERFACE, name, arguments);
    }
}

static void
on_started (SondeSession *session, gpointer user_data)
{
  tell_subscribers (user_data, session, "SessionNew");
}

static void
on_removed (SondeSession *session, gpointer user_data)
{
  tell_subscribers (user_data, session, "SessionRemoved");
}

static void
on_state_changed (SondeSession *session, gpointer user_data)
{
  GVariantBuilder changed;

  g_variant_builder_init (&changed, G_VARIANT_TYPE ("a{sv}"));
  g_variant_builder_add (&changed, "{sv}", "State",
                         g_variant_new_string (sonde_session_state_name (session)));
  emit (user_data, session, PROPERTIES_INTERFACE, "PropertiesChanged",
        g_variant_new ("(sa{sv}as)", SONDE_SESSION_INTERFACE, &changed, NULL));
}

static void
on_ended (SondeSession *session, gpointer user_data)
{
  emit (user_data, session, SONDE_SESSION_INTERFACE, "Finished",
        g_variant_new ("(s@a{st})", sonde_session_facts (session)->reason,
                       sonde_session_statistics (session)));
}

static void
on_caller_left (const char *name, gpointer user_data)
{
  SondeBus *self = user_data;

  for (guint i = 0; i < self->subscribers->len; i++)
    {
      const SondeSubscriber *subscriber = g_ptr_array_index (self->subscribers, i);

      if (g_str_equal (subscriber->caller->name, name))
        {
          g_ptr_array_remove_index_fast (self->subscribers, i);
          break;
        }
    }
  sonde_session_manager_stop (self->manager, name, "owner-left");
}

static void
subscriber_free (gpointer data)
{
  SondeSubscriber *subscriber = data;

  sonde_caller_unref (subscriber->caller);
  g_free (subscriber);
}

SondeBus *
sonde_bus_new (SondeBusConnection *connection,
               gboolean is_peer,
               SondePeerLauncher *launcher,
               SondeCaptureStore *store,
               SondeFdStore *fd_store,
               const SondeSettings *settings)
{
  static const SondeSessionManagerHandler handler = { .started = on_started,
                                                      .state_changed = on_state_changed,
                                                      .ended = on_ended,
                                                      .removed = on_removed };
  SondeBus *self = g_new0 (SondeBus, 1);

  self->connection = connection;
  self->is_peer = is_peer;
  self->start_us = g_get_monotonic_time ();
  self->settings = settings;
  self->launcher = launcher;
  self->callers = sonde_callers_new (connection, is_peer, on_caller_left, self);
  self->authority = is_peer ? sonde_authority_new_peer () : sonde_authority_new_polkit (connection);
  self->refusals = sonde_refusals_new ();
  self->subscribers = g_ptr_array_new_with_free_func (subscriber_free);
  self->manager = sonde_session_manager_new (launcher, store, fd_store, settings, &handler, self);
  sonde_session_manager_adopt (self->manager, self->callers);
  return self;
}

gboolean
sonde_bus_is_busy (const SondeBus *self)
{
  return self->subscribers->len > 0 || sonde_session_manager_is_busy (self->manager);
}

void
sonde_bus_free (SondeBus *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->manager, sonde_session_manager_free);
  g_clear_pointer (&self->subscribers, g_ptr_array_unref);
  g_clear_pointer (&self->authority, sonde_authority_free);
  g_clear_pointer (&self->callers, sonde_callers_free);
  g_clear_pointer (&self->refusals, sonde_refusals_free);
  g_free (self);
}
