/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long an unrelated call waits while 400 callers of 13 users are in an authentication dialog
 * that nobody answers. To be run under private-bus, without a polkitd: this plays it. */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/bus-user.h"

enum
{
  N_USERS = 13,
  N_CALLERS = 400,
  N_TRIES = 50,
};

static const char authority_xml[]
    = "<node><interface name='org.freedesktop.PolicyKit1.Authority'>"
      "<method name='CheckAuthorization'>"
      "<arg type='(sa{sv})' direction='in'/><arg type='s' direction='in'/>"
      "<arg type='a{ss}' direction='in'/><arg type='u' direction='in'/>"
      "<arg type='s' direction='in'/><arg type='(bba{ss})' direction='out'/></method>"
      "<method name='CancelCheckAuthorization'><arg type='s' direction='in'/></method>"
      "<signal name='Changed'/>"
      "</interface></node>";

/* A polkitd whose dialogs stand open. */
typedef struct
{
  guint n_asked;
  guint n_cancelled;
  guint n_answered; /* calls to sonded: those for which there is no dialog */
} Dialogs;

static void
on_polkit_call (GDBusConnection *bus,
                const char *sender,
                const char *path,
                const char *interface,
                const char *method,
                GVariant *arguments,
                GDBusMethodInvocation *invocation,
                gpointer user_data)
{
  Dialogs *self = user_data;

  if (g_str_equal (method, "CheckAuthorization"))
    {
      self->n_asked++;
      g_object_unref (invocation); /* never answered */
      return;
    }
  self->n_cancelled++;
  g_dbus_method_invocation_return_value (invocation, NULL);
}

static GDBusConnection *
play_polkit (Dialogs *self)
{
  static const GDBusInterfaceVTable vtable = { .method_call = on_polkit_call };
  g_autoptr (GDBusNodeInfo) node = g_dbus_node_info_new_for_xml (authority_xml, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  const struct passwd *polkitd = getpwnam ("polkitd"); /* the bus gives the name to nobody else */
  GDBusConnection *bus;

  g_assert_nonnull (polkitd);
  bus = bus_connect (polkitd->pw_uid);
  g_dbus_connection_register_object (bus, "/org/freedesktop/PolicyKit1/Authority",
                                     node->interfaces[0], &vtable, self, NULL, &error);
  g_assert_no_error (error);
  answer = g_dbus_connection_call_sync (
      bus, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "RequestName",
      g_variant_new ("(su)", "org.freedesktop.PolicyKit1", 4 /* do not queue */),
      G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
  g_assert_no_error (error);
  return bus;
}

static void
on_answered (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);

  g_assert_null (answer);
  if (!g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CLOSED))
    ((Dialogs *) user_data)->n_answered++;
}

/* 400 connections, each with one call that needs a password. */
static GPtrArray *
call_all (Dialogs *dialogs)
{
  GPtrArray *callers = g_ptr_array_new_with_free_func (g_object_unref);
  uid_t uids[N_USERS];

  for (guint i = 0; i < N_USERS; i++)
    uids[i] = bus_next_uid ();
  for (guint i = 0; i < N_CALLERS; i++)
    {
      GDBusConnection *bus = bus_connect (uids[i % N_USERS]);

      g_ptr_array_add (callers, bus);
      g_dbus_connection_call (
          bus, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager",
          "Profile", g_variant_new_parsed ("({'system': <true>},)"), NULL,
          G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION, G_MAXINT, NULL, on_answered, dialogs);
    }
  return callers;
}

static gboolean
all_wait (gpointer user_data)
{
  const Dialogs *self = user_data;

  return self->n_asked + self->n_answered == N_CALLERS;
}

static int
compare (gconstpointer a, gconstpointer b)
{
  gint64 first = *(const gint64 *) a, second = *(const gint64 *) b;

  return (first > second) - (first < second);
}

/* µs, sorted */
static void
measure (gint64 taken_us[N_TRIES])
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());

  for (guint i = 0; i < N_TRIES; i++)
    {
      gint64 begin_us = g_get_monotonic_time ();
      g_autoptr (GVariant) sessions = bus_list_sessions (bus);

      taken_us[i] = g_get_monotonic_time () - begin_us;
      g_assert_cmpuint (g_variant_n_children (sessions), ==, 0);
    }
  qsort (taken_us, N_TRIES, sizeof *taken_us, compare);
}

int
main (void)
{
  Dialogs dialogs = { 0 };
  g_autoptr (GDBusConnection) polkit = play_polkit (&dialogs);
  g_autoptr (GPtrArray) callers = NULL;
  gint64 alone_us[N_TRIES], beside_us[N_TRIES];

  measure (alone_us);
  callers = call_all (&dialogs);
  bus_wait (all_wait, &dialogs, "a dialog for every caller");
  measure (beside_us);
  printf ("%d callers of %d users: %u in a dialog, %u refused one; an unrelated ListSessions takes "
          "%.2f ms, at most %.2f, without them %.2f ms\n",
          N_CALLERS, N_USERS, dialogs.n_asked, dialogs.n_answered,
          (double) beside_us[N_TRIES / 2] / 1e3, (double) beside_us[N_TRIES - 1] / 1e3,
          (double) alone_us[N_TRIES / 2] / 1e3);
  printf ("bench dialog list_ms=%.2f worst_ms=%.2f dialogs=%u\n",
          (double) beside_us[N_TRIES / 2] / 1e3, (double) beside_us[N_TRIES - 1] / 1e3,
          dialogs.n_asked);
  return g_dbus_connection_close_sync (polkit, NULL, NULL) ? EXIT_SUCCESS : EXIT_FAILURE;
}
