/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A recording against a service that the test plays itself, over a peer connection. */
#include "client/library/recording.h"

#include <fcntl.h>
#include <gio/gunixfdlist.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SESSION_PATH "/org/sonde/Profiler1/session/1"

typedef enum
{
  FAKE_ACCEPT,        /* makes a session */
  FAKE_REFUSE,        /* NotAuthorized */
  FAKE_FORGET_HANDLE, /* answers without the descriptor */
  FAKE_SILENT,        /* never answers */
  FAKE_FINISH_AT_ONCE /* Finished right behind the answer */
} FakeMode;

typedef struct
{
  FakeMode mode;
  GDBusConnection *server;
  SondeDBusManager *manager;
  SondeDBusSession *session;
  SondeConnection client;
  gboolean gives_controls;
  int capture_fd; /* the service's end; -1 before and after */
  guint n_stops;
  guint32 added_pid;

  SondeRecording *recording;
  int out_fd;
  gboolean is_started;
  guint n_controls;
  char *control_error;
  guint n_added;
  guint n_refreshed;
  guint n_ended;
  char *error;
} Fixture;

static void
finish (Fixture *self, const char *reason, guint64 n_recorded)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{st}"));
  g_variant_builder_add (&builder, "{st}", "recorded", n_recorded);
  sonde_dbus_session_emit_finished (self->session, reason, g_variant_builder_end (&builder));
}

static void
close_capture (Fixture *self)
{
  if (self->capture_fd >= 0)
    close (self->capture_fd);
  self->capture_fd = -1;
}

static gboolean
handle_profile (SondeDBusManager *manager,
                GDBusMethodInvocation *invocation,
                GUnixFDList *request_fds,
                GVariant *options,
                gpointer user_data)
{
  Fixture *self = user_data;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  int pair[2];

  if (self->mode == FAKE_SILENT)
    return TRUE;
  if (self->mode == FAKE_REFUSE)
    {
      g_dbus_method_invocation_return_dbus_error (
          invocation, "org.sonde.Profiler1.Error.NotAuthorized", "You may not");
      return TRUE;
    }
  if (self->mode != FAKE_FORGET_HANDLE)
    {
      g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), ==, 0);
      self->capture_fd = pair[0];
      g_assert_cmpint (g_unix_fd_list_append (fds, pair[1], NULL), ==, 0);
      close (pair[1]);
    }
  sonde_dbus_manager_complete_profile (manager, invocation, fds, SESSION_PATH,
                                       g_variant_new_handle (0));
  if (self->mode == FAKE_FINISH_AT_ONCE)
    {
      finish (self, "targets-exited", 3);
      close_capture (self);
    }
  return TRUE;
}

static gboolean
handle_stop (SondeDBusSession *session, GDBusMethodInvocation *invocation, gpointer user_data)
{
  Fixture *self = user_data;

  self->n_stops++;
  sonde_dbus_session_complete_stop (session, invocation, g_variant_new ("a{st}", NULL));
  finish (self, "stopped", 7);
  close_capture (self);
  return TRUE;
}

static gboolean
handle_add_process (SondeDBusSession *session,
                    GDBusMethodInvocation *invocation,
                    GUnixFDList *fds,
                    GVariant *targets,
                    gpointer user_data)
{
  Fixture *self = user_data;

  g_assert_cmpint (g_unix_fd_list_get_length (fds), ==, 1);
  g_variant_get_child (targets, 0, "(uh)", &self->added_pid, NULL);
  sonde_dbus_session_complete_add_process (session, invocation, NULL);
  return TRUE;
}

static gboolean
handle_open_control (SondeDBusSession *session,
                     GDBusMethodInvocation *invocation,
                     GUnixFDList *request_fds,
                     gpointer user_data)
{
  const Fixture *self = user_data;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();

  if (self->gives_controls)
    g_unix_fd_list_append (fds, self->out_fd, NULL);
  sonde_dbus_session_complete_open_control (session, invocation, fds, g_variant_new_handle (0));
  return TRUE;
}

static void
take_connection (GObject *source, GAsyncResult *result, gpointer user_data)
{
  GDBusConnection **connection = user_data;

  *connection = g_dbus_connection_new_finish (result, NULL);
  g_assert_nonnull (*connection);
}

static void
connect_one (int fd, GDBusConnectionFlags flags, const char *guid, GDBusConnection **connection)
{
  g_autoptr (GSocket) socket = g_socket_new_from_fd (fd, NULL);
  g_autoptr (GSocketConnection) stream = g_socket_connection_factory_create_connection (socket);

  g_dbus_connection_new (G_IO_STREAM (stream), guid, flags, NULL, NULL, take_connection,
                         connection);
}

static void
connect_both (Fixture *self)
{
  g_autofree char *guid = g_dbus_generate_guid ();
  int pair[2];

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), ==, 0);
  connect_one (pair[0], G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_SERVER, guid, &self->server);
  connect_one (pair[1], G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT, NULL, &self->client.bus);
  while (self->server == NULL || self->client.bus == NULL)
    g_main_context_iteration (NULL, TRUE);
}

static void
take_manager (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Fixture *self = user_data;

  self->client.manager = sonde_dbus_manager_proxy_new_finish (result, NULL);
  g_assert_nonnull (self->client.manager);
}

static void
on_started (gpointer user_data)
{
  Fixture *self = user_data;

  self->is_started = TRUE;
  sonde_recording_save (self->recording, self->out_fd);
}

static void
on_control_opened (int fd, const GError *error, gpointer user_data)
{
  Fixture *self = user_data;

  self->n_controls++;
  self->control_error = error != NULL ? g_strdup (error->message) : NULL;
  g_assert_true ((fd >= 0) == (error == NULL));
  if (fd >= 0)
    close (fd);
}

static void
on_added (const GError *error, gpointer user_data)
{
  Fixture *self = user_data;

  g_assert_no_error (error);
  self->n_added++;
}

static void
on_refreshed (gpointer user_data)
{
  Fixture *self = user_data;

  self->n_refreshed++;
}

static void
on_ended (const GError *error, gpointer user_data)
{
  Fixture *self = user_data;

  self->n_ended++;
  self->error = error != NULL ? g_strdup (error->message) : NULL;
}

static void
set_up (Fixture *self, gconstpointer mode)
{
  static const SondeRecordingHandler handler
      = { on_started, on_control_opened, on_added, on_refreshed, on_ended, NULL };

  self->mode = GPOINTER_TO_INT (mode);
  self->capture_fd = -1;
  self->out_fd = open ("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  g_assert_cmpint (self->out_fd, >=, 0);
  self->client.closed = g_cancellable_new ();
  connect_both (self);

  self->manager = sonde_dbus_manager_skeleton_new ();
  self->session = sonde_dbus_session_skeleton_new ();
  g_signal_connect (self->manager, "handle-profile", G_CALLBACK (handle_profile), self);
  g_signal_connect (self->session, "handle-stop", G_CALLBACK (handle_stop), self);
  g_signal_connect (self->session, "handle-open-control", G_CALLBACK (handle_open_control), self);
  g_signal_connect (self->session, "handle-add-process", G_CALLBACK (handle_add_process), self);
  g_assert_true (g_dbus_interface_skeleton_export (G_DBUS_INTERFACE_SKELETON (self->manager),
                                                   self->server, "/org/sonde/Profiler1", NULL));
  g_assert_true (g_dbus_interface_skeleton_export (G_DBUS_INTERFACE_SKELETON (self->session),
                                                   self->server, SESSION_PATH, NULL));
  sonde_dbus_manager_proxy_new (self->client.bus, G_DBUS_PROXY_FLAGS_DO_NOT_LOAD_PROPERTIES, NULL,
                                "/org/sonde/Profiler1", NULL, take_manager, self);
  while (self->client.manager == NULL)
    g_main_context_iteration (NULL, TRUE);

  self->recording = sonde_recording_new (&self->client, &handler, self);
  sonde_recording_start (self->recording, g_variant_new_parsed ("@a{sv} {'launch': <true>}"), NULL);
}

static void
tear_down (Fixture *self, gconstpointer mode)
{
  sonde_recording_free (self->recording);
  close_capture (self);
  close (self->out_fd);
  g_object_unref (self->manager);
  g_object_unref (self->session);
  g_object_unref (self->client.manager);
  g_object_unref (self->client.closed);
  g_object_unref (self->client.bus);
  g_object_unref (self->server);
  g_free (self->error);
  g_free (self->control_error);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

static void
run_until_started (Fixture *self)
{
  while (!self->is_started)
    g_main_context_iteration (NULL, TRUE);
}

static void
run_until_ended (Fixture *self)
{
  while (self->n_ended == 0)
    g_main_context_iteration (NULL, TRUE);
}

static void
assert_written (Fixture *self, const char *expected)
{
  char written[64] = "";

  g_assert_cmpint (pread (self->out_fd, written, sizeof written - 1, 0), ==,
                   (gssize) strlen (expected));
  g_assert_cmpstr (written, ==, expected);
  g_assert_cmpuint (sonde_recording_bytes (self->recording), ==, strlen (expected));
}

static void
a_refusal_is_told_in_the_services_words (Fixture *self, gconstpointer mode)
{
  run_until_ended (self);
  g_assert_cmpstr (self->error, ==, "You may not");
  g_assert_false (self->is_started);
}

static void
an_answer_without_the_descriptor_is_refused (Fixture *self, gconstpointer mode)
{
  run_until_ended (self);
  g_assert_nonnull (self->error);
  g_assert_false (self->is_started);
}

static void
a_request_without_an_answer_can_be_taken_back (Fixture *self, gconstpointer mode)
{
  sonde_recording_stop (self->recording);
  run_until_ended (self);
  g_assert_nonnull (self->error);
}

static void
a_session_that_fails_says_why_and_keeps_what_came (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  g_assert_cmpint (write (self->capture_fd, "half", 4), ==, 4);
  close_capture (self);
  finish (self, "The worker was killed", 0);
  run_until_ended (self);
  g_assert_cmpstr (self->error, ==, "The worker was killed");
  assert_written (self, "half");
}

static void
a_service_that_goes_away_is_an_error (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  g_dbus_connection_close (self->server, NULL, NULL, NULL);
  close_capture (self);
  run_until_ended (self);
  g_assert_nonnull (self->error);
}

static void
what_the_session_sent_is_written_before_the_end (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  finish (self, "duration", 42);
  for (guint i = 0; i < 50; i++)
    g_main_context_iteration (NULL, FALSE);
  g_assert_cmpuint (self->n_ended, ==, 0);

  g_assert_cmpint (write (self->capture_fd, "whole", 5), ==, 5);
  close_capture (self);
  run_until_ended (self);
  g_assert_null (self->error);
  g_assert_cmpuint (self->n_ended, ==, 1);
  assert_written (self, "whole");
  g_assert_cmpuint (sonde_recording_statistic (self->recording, "recorded"), ==, 42);
  g_assert_cmpuint (sonde_recording_statistic (self->recording, "unheard-of"), ==, 0);
}

static void
a_session_that_ends_at_once_is_not_missed (Fixture *self, gconstpointer mode)
{
  run_until_ended (self);
  g_assert_null (self->error);
  g_assert_cmpstr (sonde_recording_reason (self->recording), ==, "targets-exited");
}

static void
stop_is_asked_for_once (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  sonde_recording_stop (self->recording);
  sonde_recording_stop (self->recording);
  run_until_ended (self);
  g_assert_null (self->error);
  g_assert_cmpuint (self->n_stops, ==, 1);
  g_assert_cmpuint (sonde_recording_statistic (self->recording, "recorded"), ==, 7);
}

static void
a_process_is_added_with_its_proof (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  sonde_recording_add_process (self->recording, 4711, self->out_fd);
  while (self->n_added == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (self->added_pid, ==, 4711);
}

static void
a_control_socket_is_asked_for (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  sonde_recording_open_control (self->recording);
  while (self->n_controls == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_nonnull (self->control_error); /* an answer without it */

  self->gives_controls = TRUE;
  g_clear_pointer (&self->control_error, g_free);
  sonde_recording_open_control (self->recording);
  while (self->n_controls == 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (self->control_error);
}

static void
statistics_are_told_when_asked_for (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  g_assert_false (sonde_recording_has_statistics (self->recording));
  sonde_dbus_session_set_statistics (self->session,
                                     g_variant_new_parsed ("{'recorded': uint64 5}"));
  sonde_recording_refresh (self->recording);
  while (self->n_refreshed == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (sonde_recording_statistic (self->recording, "recorded"), ==, 5);
}

#define ADD_CASE(name, mode, function)                                                             \
  g_test_add ("/recording/" name, Fixture, GINT_TO_POINTER (mode), set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD_CASE ("a-refusal-is-told-in-the-services-words", FAKE_REFUSE,
            a_refusal_is_told_in_the_services_words);
  ADD_CASE ("an-answer-without-the-descriptor-is-refused", FAKE_FORGET_HANDLE,
            an_answer_without_the_descriptor_is_refused);
  ADD_CASE ("a-request-without-an-answer-can-be-taken-back", FAKE_SILENT,
            a_request_without_an_answer_can_be_taken_back);
  ADD_CASE ("a-session-that-fails-says-why-and-keeps-what-came", FAKE_ACCEPT,
            a_session_that_fails_says_why_and_keeps_what_came);
  ADD_CASE ("a-service-that-goes-away-is-an-error", FAKE_ACCEPT,
            a_service_that_goes_away_is_an_error);
  ADD_CASE ("what-the-session-sent-is-written-before-the-end", FAKE_ACCEPT,
            what_the_session_sent_is_written_before_the_end);
  ADD_CASE ("a-session-that-ends-at-once-is-not-missed", FAKE_FINISH_AT_ONCE,
            a_session_that_ends_at_once_is_not_missed);
  ADD_CASE ("stop-is-asked-for-once", FAKE_ACCEPT, stop_is_asked_for_once);
  ADD_CASE ("a-process-is-added-with-its-proof", FAKE_ACCEPT, a_process_is_added_with_its_proof);
  ADD_CASE ("a-control-socket-is-asked-for", FAKE_ACCEPT, a_control_socket_is_asked_for);
  ADD_CASE ("statistics-are-told-when-asked-for", FAKE_ACCEPT, statistics_are_told_when_asked_for);
  return g_test_run ();
}
