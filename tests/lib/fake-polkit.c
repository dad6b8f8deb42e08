/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/fake-polkit.h"

#include <pwd.h>

#include "tests/lib/bus-client.h"

static const char authority_xml[]
    = "<node><interface name='org.freedesktop.PolicyKit1.Authority'>"
      "<method name='CheckAuthorization'>"
      "<arg type='(sa{sv})' direction='in'/><arg type='s' direction='in'/>"
      "<arg type='a{ss}' direction='in'/><arg type='u' direction='in'/>"
      "<arg type='s' direction='in'/><arg type='(bba{ss})' direction='out'/></method>"
      "<method name='CancelCheckAuthorization'><arg type='s' direction='in'/></method>"
      "<signal name='Changed'/>"
      "</interface></node>";

static void
question_free (gpointer data)
{
  FakePolkitQuestion *question = data;

  g_object_unref (question->invocation);
  g_free (question->subject);
  g_free (question->id);
  g_free (question);
}

static void
answer (GDBusMethodInvocation *invocation, gboolean is_authorized)
{
  g_dbus_method_invocation_return_value (
      g_object_ref (invocation), g_variant_new_parsed ("((%b, false, @a{ss} {}),)", is_authorized));
}

static void
fail (GDBusMethodInvocation *invocation, const char *message)
{
  g_dbus_method_invocation_return_dbus_error (g_object_ref (invocation),
                                              "org.freedesktop.PolicyKit1.Error.Failed", message);
}

static void
check (FakePolkit *self, GVariant *arguments, GDBusMethodInvocation *invocation)
{
  FakePolkitQuestion *question = g_new0 (FakePolkitQuestion, 1);
  g_autoptr (GVariant) subject = NULL;
  guint32 flags;

  g_variant_get (arguments, "((s@a{sv})s@a{ss}us)", NULL, &subject, NULL, NULL, &flags,
                 &question->id);
  g_assert_true (g_variant_lookup (subject, "name", "s", &question->subject));
  question->invocation = invocation;
  question->is_interactive = (flags & 1) != 0;
  self->n_asked++;
  g_ptr_array_add (self->open, question);
  if (self->error != NULL)
    fail (invocation, self->error);
  else if (self->allows_quiet && !question->is_interactive)
    answer (invocation, TRUE);
  else
    return;
  g_ptr_array_remove (self->open, question);
}

/* As polkitd does: the question is answered, too. */
static void
cancel (FakePolkit *self, const char *id)
{
  self->n_cancelled++;
  for (guint i = 0; i < self->open->len; i++)
    {
      FakePolkitQuestion *question = g_ptr_array_index (self->open, i);

      if (!g_str_equal (question->id, id))
        continue;
      fail (question->invocation, "cancelled");
      g_ptr_array_remove_index (self->open, i);
      return;
    }
  g_error ("a question is cancelled that is not open: %s", id);
}

static void
on_call (GDBusConnection *bus,
         const char *sender,
         const char *path,
         const char *interface,
         const char *method,
         GVariant *arguments,
         GDBusMethodInvocation *invocation,
         gpointer user_data)
{
  const char *id;

  if (g_str_equal (method, "CheckAuthorization"))
    {
      check (user_data, arguments, invocation);
      return;
    }
  g_variant_get (arguments, "(&s)", &id);
  cancel (user_data, id);
  g_dbus_method_invocation_return_value (invocation, NULL);
}

void
fake_polkit_init (FakePolkit *self)
{
  static const GDBusInterfaceVTable vtable = { .method_call = on_call };
  g_autoptr (GDBusNodeInfo) node = g_dbus_node_info_new_for_xml (authority_xml, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) result = NULL;
  const struct passwd *polkitd = getpwnam ("polkitd"); /* the bus gives the name to nobody else */

  g_assert_nonnull (polkitd);
  *self = (FakePolkit){ .bus = bus_connect (polkitd->pw_uid),
                        .open = g_ptr_array_new_with_free_func (question_free) };
  g_dbus_connection_register_object (self->bus, "/org/freedesktop/PolicyKit1/Authority",
                                     node->interfaces[0], &vtable, self, NULL, &error);
  g_assert_no_error (error);
  result = g_dbus_connection_call_sync (
      self->bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
      "RequestName", g_variant_new ("(su)", "org.freedesktop.PolicyKit1", 4 /* do not queue */),
      G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);
  g_assert_no_error (error);
}

void
fake_polkit_clear (FakePolkit *self)
{
  if (self->bus == NULL)
    return;
  g_assert_true (g_dbus_connection_close_sync (self->bus, NULL, NULL));
  g_ptr_array_unref (self->open);
  g_clear_object (&self->bus);
}

guint
fake_polkit_count_of (const FakePolkit *self, const char *subject)
{
  guint n = 0;

  for (guint i = 0; i < self->open->len; i++)
    n += g_str_equal (((const FakePolkitQuestion *) g_ptr_array_index (self->open, i))->subject,
                      subject);
  return n;
}

void
fake_polkit_answer_one (FakePolkit *self, gboolean is_allowed)
{
  answer (((FakePolkitQuestion *) g_ptr_array_index (self->open, 0))->invocation, is_allowed);
  g_ptr_array_remove_index (self->open, 0);
}
