/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What libsonde-client asks for while sonded is killed, or its answer gets lost. */
#include <signal.h>
#include <unistd.h>

#include "client/library/sonde-client.h"
#include "tests/lib/bus-user.h"

#define N_SESSIONS 6

/* What becomes of the first call of a method on the library's connection. */
typedef struct
{
  GDBusConnection *bus;
  const char *method;
  pid_t service;  /* is killed before it reads the call; 0: its answer gets lost */
  guint32 serial; /* of the call; 0: it was not made yet */
  guint n_calls;
  guint filter;
} Accident;

static GDBusMessage *
meet (GDBusConnection *bus, GDBusMessage *message, gboolean is_incoming, gpointer user_data)
{
  Accident *self = user_data;
  GDBusMessage *lost;

  if (!is_incoming && g_strcmp0 (g_dbus_message_get_member (message), self->method) == 0)
    {
      self->n_calls++;
      if (self->serial == 0 && self->service != 0)
        kill (self->service, SIGSTOP);
      if (self->serial == 0)
        self->serial = g_dbus_message_get_serial (message);
    }
  if (!is_incoming || self->service != 0 || self->serial == 0
      || g_dbus_message_get_reply_serial (message) != self->serial)
    return message;
  lost = g_dbus_message_new ();
  g_dbus_message_set_message_type (lost, G_DBUS_MESSAGE_TYPE_ERROR);
  g_dbus_message_set_error_name (lost, "org.freedesktop.DBus.Error.NoReply");
  g_dbus_message_set_reply_serial (lost, self->serial);
  g_dbus_message_set_sender (lost, g_dbus_message_get_sender (message));
  g_object_unref (message);
  return lost;
}

static void
accident_init (Accident *self, GDBusConnection *bus, const char *method, pid_t service)
{
  *self = (Accident){ .bus = bus, .method = method, .service = service };
  self->filter = g_dbus_connection_add_filter (bus, meet, self, NULL);
}

static void
accident_clear (Accident *self)
{
  g_dbus_connection_remove_filter (self->bus, self->filter);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Accident, accident_clear)

static SondeClientProfiler *
new_profiler (void)
{
  g_autoptr (GError) error = NULL;
  SondeClientProfiler *profiler = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_NOBODY, &error);

  g_assert_no_error (error);
  return profiler;
}

static gsize
count_running (SondeClientProfiler *profiler)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) sessions
      = sonde_client_profiler_list_sessions_sync (profiler, FALSE, NULL, &error);
  gsize n = 0;

  g_assert_no_error (error);
  for (gsize i = 0; i < g_variant_n_children (sessions); i++)
    {
      const char *state;

      g_variant_get_child (sessions, i, "(&ou&sts)", NULL, NULL, &state, NULL, NULL);
      n += g_str_equal (state, "running");
    }
  return n;
}

typedef struct
{
  SondeClientSession *sessions[N_SESSIONS];
  guint n_started;
  guint n_finished;
} Sessions;

static void
session_finished (SondeClientSession *session,
                  const char *reason,
                  const GError *error,
                  gpointer data)
{
  g_assert_no_error (error);
  g_assert_cmpstr (reason, ==, "stopped");
  ((Sessions *) data)->n_finished++;
}

static void
session_started (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Sessions *self = user_data;
  g_autoptr (GError) error = NULL;
  SondeClientSession *session
      = sonde_client_profiler_profile_finish (SONDE_CLIENT_PROFILER (source), result, &error);

  g_assert_no_error (error);
  g_signal_connect (session, "finished", G_CALLBACK (session_finished), self);
  self->sessions[self->n_started++] = session;
}

static gboolean
have_started (gpointer user_data)
{
  return ((Sessions *) user_data)->n_started == N_SESSIONS;
}

static gboolean
have_finished (gpointer user_data)
{
  return ((Sessions *) user_data)->n_finished == N_SESSIONS;
}

static void
test_profile (void)
{
  g_autoptr (SondeClientProfiler) profiler = new_profiler ();
  GDBusConnection *bus = sonde_client_profiler_get_connection (profiler);
  pid_t service = bus_service_pid (bus);
  g_auto (Accident) accident = { 0 };
  g_autoptr (GVariant) id = NULL;
  Sessions all = { 0 };

  accident_init (&accident, bus, "Profile", service);
  for (guint i = 0; i < N_SESSIONS; i++)
    sonde_client_profiler_profile_async (profiler, g_variant_new_parsed ("{'launch': <true>}"),
                                         NULL, NULL, session_started, &all);
  /* the bus has passed on what was sent before this is answered */
  id = g_dbus_connection_call_sync (bus, "org.freedesktop.DBus", "/", "org.freedesktop.DBus",
                                    "GetId", NULL, NULL, G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL,
                                    NULL);
  g_assert_nonnull (id);
  kill (service, SIGKILL);
  bus_wait (have_started, &all, "the sessions");
  g_assert_cmpuint (accident.n_calls, ==, 2 * N_SESSIONS);
  g_assert_cmpuint (count_running (profiler), ==, N_SESSIONS);
  for (guint i = 0; i < N_SESSIONS; i++)
    sonde_client_session_stop (all.sessions[i]);
  bus_wait (have_finished, &all, "the ends of the sessions");
  for (guint i = 0; i < N_SESSIONS; i++)
    g_object_unref (all.sessions[i]);
}

static gpointer
kill_soon (gpointer user_data)
{
  g_usleep (300 * 1000);
  kill (GPOINTER_TO_INT (user_data), SIGKILL);
  return NULL;
}

/* @label: of the file, whose name tells services that know nothing of each other apart no further
 * than by seconds */
static guint64
start_session (SondeClientProfiler *profiler, const char *label, GError **error)
{
  return sonde_client_profiler_start_session_sync (
      profiler, g_variant_new_parsed ("{'launch': <true>, 'label': <%s>}", label), NULL, NULL,
      error);
}

static void
test_start_session (void)
{
  g_autoptr (SondeClientProfiler) profiler = new_profiler ();
  GDBusConnection *bus = sonde_client_profiler_get_connection (profiler);
  pid_t service = bus_service_pid (bus);
  g_auto (Accident) accident = { 0 };
  g_autoptr (GVariant) statistics = NULL;
  g_autoptr (GError) error = NULL;
  GThread *killer;
  guint64 session;

  accident_init (&accident, bus, "StartSession", service);
  killer = g_thread_new ("killer", kill_soon, GINT_TO_POINTER (service));
  session = start_session (profiler, "killed", &error);
  g_thread_join (killer);
  g_assert_no_error (error);
  g_assert_cmpuint (session, >, 0);
  g_assert_cmpuint (count_running (profiler), ==, 1);
  statistics = sonde_client_profiler_stop_session_sync (profiler, session, NULL, &error);
  g_assert_no_error (error);
}

/* Something may have begun: whoever started it twice would record twice. */
static void
test_lost_answer (void)
{
  g_autoptr (SondeClientProfiler) profiler = new_profiler ();
  g_autoptr (GError) error = NULL;
  g_auto (Accident) accident = { 0 };
  gsize n_before = count_running (profiler);

  accident_init (&accident, sonde_client_profiler_get_connection (profiler), "StartSession", 0);
  g_assert_cmpuint (start_session (profiler, "lost", &error), ==, 0);
  g_assert_error (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY);
  g_assert_cmpuint (accident.n_calls, ==, 1);
  g_assert_cmpuint (count_running (profiler), ==, n_before + 1);
}

typedef struct
{
  SondeClientSessionList *list;
  guint64 session;
  const char *state; /* NULL: it is not to be there */
} Expected;

/* (transfer none) (nullable) */
static SondeClientSessionInfo *
find_session (const Expected *self)
{
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (self->list)); i++)
    {
      g_autoptr (SondeClientSessionInfo) info
          = g_list_model_get_item (G_LIST_MODEL (self->list), i);

      if (sonde_client_session_info_get_number (info) == self->session)
        return info;
    }
  return NULL;
}

static gboolean
is_listed (gpointer user_data)
{
  const Expected *self = user_data;
  SondeClientSessionInfo *info = find_session (self);
  gboolean is_current;

  g_object_get (self->list, "is-current", &is_current, NULL);
  if (!is_current || (info == NULL) != (self->state == NULL))
    return FALSE;
  return info == NULL || g_str_equal (sonde_client_session_info_get_state (info), self->state);
}

static GDBusMessage *
count_lists (GDBusConnection *bus, GDBusMessage *message, gboolean is_incoming, gpointer user_data)
{
  if (!is_incoming && g_strcmp0 (g_dbus_message_get_member (message), "ListSessions") == 0)
    g_atomic_int_inc ((gint *) user_data);
  return message;
}

static void
test_list (void)
{
  g_autoptr (SondeClientProfiler) profiler = new_profiler ();
  g_autoptr (GVariant) statistics = NULL;
  g_autoptr (GError) error = NULL;
  GDBusConnection *bus = sonde_client_profiler_get_connection (profiler);
  Expected expected = { .list = sonde_client_profiler_watch_sessions (profiler, FALSE) };
  SondeClientSessionInfo *info;
  gint n_lists = 0;
  guint filter;

  bus_wait (is_listed, &expected, "the list");
  expected.session = start_session (profiler, "listed", &error);
  g_assert_no_error (error);
  expected.state = "running";
  bus_wait (is_listed, &expected, "the session in the list");
  info = g_object_ref (find_session (&expected));
  g_assert_cmpuint (sonde_client_session_info_get_owner_uid (info), ==, 0);
  g_assert_cmpuint (sonde_client_session_info_get_start_us (info), >, 0);

  /* the next service knows nothing of it, as nobody kept it here, and has not heard of us */
  kill (bus_service_pid (bus), SIGKILL);
  expected.session = start_session (profiler, "listed-later", &error);
  g_assert_no_error (error);
  bus_wait (is_listed, &expected, "another session after the restart");
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (expected.list)), ==, 1);
  g_assert_true (find_session (&expected) != info);

  /* its end is heard of, not asked for */
  filter = g_dbus_connection_add_filter (bus, count_lists, &n_lists, NULL);
  statistics = sonde_client_profiler_stop_session_sync (profiler, expected.session, NULL, &error);
  g_assert_no_error (error);
  expected.state = "finished";
  bus_wait (is_listed, &expected, "the end of the session in the list");
  g_assert_cmpint (g_atomic_int_get (&n_lists), ==, 0);
  g_dbus_connection_remove_filter (bus, filter);
  g_object_unref (info);
  g_object_unref (expected.list);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/library-restarts/what-may-have-begun-is-not-asked-for-again",
                   test_lost_answer);
  g_test_add_func ("/library-restarts/a-profile-on-its-way-begins-once", test_profile);
  g_test_add_func ("/library-restarts/a-start-on-its-way-begins-once", test_start_session);
  g_test_add_func ("/library-restarts/a-list-of-sessions-follows-them", test_list);
  return g_test_run ();
}
