/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures how long an unrelated call waits while 400 callers of 13 users are in an authentication
 * dialog that nobody answers. To be run under private-bus, without a polkitd: this plays it. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/bus-user.h"
#include "tests/lib/fake-polkit.h"

enum
{
  N_USERS = 13,
  N_CALLERS = 400,
  N_DIALOGS = 48, /* the others wait for one of these to end */
  N_TRIES = 50,
};

/* Whose calls have come to sonded: behind each is one that needs no question. */
typedef struct
{
  FakePolkit polkit;
  guint n_arrived;
  guint n_answered; /* those for which there is no dialog */
} Dialogs;

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

static void
on_arrived (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GVariant) version
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  g_assert_nonnull (version);
  ((Dialogs *) user_data)->n_arrived++;
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
      g_dbus_connection_call (bus, "org.sonde.Profiler1", "/org/sonde/Profiler1",
                              "org.freedesktop.DBus.Properties", "Get",
                              g_variant_new ("(ss)", "org.sonde.Profiler1.Manager", "Version"),
                              NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, on_arrived, dialogs);
    }
  return callers;
}

static gboolean
all_wait (gpointer user_data)
{
  const Dialogs *self = user_data;

  return self->n_arrived == N_CALLERS && self->polkit.open->len == N_DIALOGS;
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
  g_autoptr (GPtrArray) callers = NULL;
  gint64 alone_us[N_TRIES], beside_us[N_TRIES];

  fake_polkit_init (&dialogs.polkit);
  measure (alone_us);
  callers = call_all (&dialogs);
  bus_wait (all_wait, &dialogs, "a dialog for every caller");
  measure (beside_us);
  printf ("%d callers of %d users: %u in a dialog, %u waiting for one, %u refused; an unrelated "
          "ListSessions takes "
          "%.2f ms, at most %.2f, without them %.2f ms\n",
          N_CALLERS, N_USERS, dialogs.polkit.open->len,
          N_CALLERS - dialogs.polkit.open->len - dialogs.n_answered, dialogs.n_answered,
          (double) beside_us[N_TRIES / 2] / 1e3, (double) beside_us[N_TRIES - 1] / 1e3,
          (double) alone_us[N_TRIES / 2] / 1e3);
  printf ("bench dialog list_ms=%.2f worst_ms=%.2f dialogs=%u refused=%u\n",
          (double) beside_us[N_TRIES / 2] / 1e3, (double) beside_us[N_TRIES - 1] / 1e3,
          dialogs.polkit.open->len, dialogs.n_answered);
  fake_polkit_clear (&dialogs.polkit);
  return EXIT_SUCCESS;
}
