/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session against a service that the test plays itself, over a peer connection. */
#include "client/library/session.h"

#include <fcntl.h>
#include <gio/gunixfdlist.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sonde-profiler1-generated.h"
#include "tests/unit/capture-builder.h"

#define SESSION_PATH "/org/sonde/Profiler1/session/1"

typedef enum
{
  FAKE_ACCEPT,        /* makes a session */
  FAKE_REFUSE,        /* NotAuthorized */
  FAKE_FORGET_HANDLE, /* answers without the descriptor */
  FAKE_SILENT,        /* never answers */
  FAKE_GOES_ONCE,     /* and is back when it is asked again */
  FAKE_GOES_ALWAYS,
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
  guint n_profiles;
  guint n_stops;
  guint32 added_pid;

  SondeClientSession *recording; /* NULL before it runs */
  GCancellable *start;
  int out_fd;
  guint n_controls;
  char *control_error;
  guint n_added;
  guint n_refreshed;
  guint n_ended;
  char *reason;
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

  self->n_profiles++;
  if (self->mode == FAKE_SILENT)
    return TRUE;
  if (self->mode == FAKE_GOES_ALWAYS || (self->mode == FAKE_GOES_ONCE && self->n_profiles == 1))
    {
      g_dbus_method_invocation_return_dbus_error (
          invocation, "org.freedesktop.DBus.Error.NoReply",
          "Message recipient disconnected from message bus without replying");
      return TRUE;
    }
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
on_finished (SondeClientSession *session, const char *reason, const GError *error, gpointer data)
{
  Fixture *self = data;

  self->n_ended++;
  self->reason = g_strdup (reason);
  self->error = error != NULL ? g_strdup (error->message) : NULL;
}

static void
on_started (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Fixture *self = user_data;
  g_autoptr (GError) error = NULL;

  self->recording = g_task_propagate_pointer (G_TASK (result), &error);
  if (self->recording == NULL)
    {
      on_finished (NULL, NULL, error, self);
      return;
    }
  g_signal_connect (self->recording, "finished", G_CALLBACK (on_finished), self);
  sonde_client_session_save (self->recording, self->out_fd);
}

static void
on_control_opened (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Fixture *self = user_data;
  g_autoptr (GError) error = NULL;
  int fd = sonde_client_session_open_control_finish (SONDE_CLIENT_SESSION (source), result, &error);

  self->n_controls++;
  self->control_error = error != NULL ? g_strdup (error->message) : NULL;
  g_assert_true ((fd >= 0) == (error == NULL));
  if (fd >= 0)
    close (fd);
}

static void
on_added (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Fixture *self = user_data;
  g_autoptr (GError) error = NULL;

  sonde_client_session_add_process_finish (SONDE_CLIENT_SESSION (source), result, &error);
  g_assert_no_error (error);
  self->n_added++;
}

static void
on_refreshed (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Fixture *self = user_data;

  g_assert_true (sonde_client_session_refresh_finish (SONDE_CLIENT_SESSION (source), result, NULL));
  self->n_refreshed++;
}

static void
set_up (Fixture *self, gconstpointer mode)
{
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

  self->start = g_cancellable_new ();
  sonde_client_session_new (G_OBJECT (self->client.bus), &self->client,
                            g_variant_new_parsed ("@a{sv} {'launch': <true>}"), NULL,
                            g_task_new (NULL, self->start, on_started, self));
}

static void
tear_down (Fixture *self, gconstpointer mode)
{
  if (self->recording != NULL)
    g_signal_handlers_disconnect_by_data (self->recording, self);
  g_cancellable_cancel (self->client.closed);
  g_clear_object (&self->recording);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  close_capture (self);
  close (self->out_fd);
  g_object_unref (self->manager);
  g_object_unref (self->session);
  g_object_unref (self->client.closed);
  g_object_unref (self->client.bus);
  g_object_unref (self->server);
  g_object_unref (self->start);
  g_free (self->reason);
  g_free (self->error);
  g_free (self->control_error);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

static void
run_until_started (Fixture *self)
{
  while (self->recording == NULL)
    g_main_context_iteration (NULL, TRUE);
}

static void
run_until_ended (Fixture *self)
{
  while (self->n_ended == 0)
    g_main_context_iteration (NULL, TRUE);
}

/* Sends a capture without its last @n_missing bytes. Returns the size of that before its last
 * frame. */
static gsize
send_capture (const Fixture *self, gsize n_missing)
{
  g_autoptr (CaptureBuilder) capture = capture_builder_new ();
  const GByteArray *bytes;
  gsize n_before;

  add_process (capture, 7, "program");
  n_before = capture_bytes (capture)->len;
  add_sample (capture, 7, 0x1000);
  bytes = capture_bytes (capture);
  g_assert_cmpint (write (self->capture_fd, bytes->data, bytes->len - n_missing), ==,
                   (gssize) (bytes->len - n_missing));
  return n_missing > 0 ? n_before : bytes->len;
}

static void
assert_written (const Fixture *self, gsize expected_bytes)
{
  char written[1024];

  g_assert_cmpint (pread (self->out_fd, written, sizeof written, 0), ==, (gssize) expected_bytes);
  g_assert_cmpuint (sonde_client_session_get_n_bytes (self->recording), ==, expected_bytes);
}

static void
a_refusal_is_told_in_the_services_words (Fixture *self, gconstpointer mode)
{
  run_until_ended (self);
  g_assert_cmpstr (self->error, ==, "You may not");
  g_assert_null (self->recording);
}

static void
an_answer_without_the_descriptor_is_refused (Fixture *self, gconstpointer mode)
{
  run_until_ended (self);
  g_assert_nonnull (self->error);
  g_assert_null (self->recording);
}

static void
a_request_without_an_answer_can_be_taken_back (Fixture *self, gconstpointer mode)
{
  g_cancellable_cancel (self->start);
  run_until_ended (self);
  g_assert_nonnull (self->error);
  g_assert_null (self->recording);
}

static void
a_service_that_went_before_it_answered_is_asked_again (Fixture *self, gconstpointer mode)
{
  gsize n_whole;

  run_until_started (self);
  g_assert_cmpuint (self->n_profiles, ==, 2);
  n_whole = send_capture (self, 0);
  sonde_client_session_stop (self->recording);
  run_until_ended (self);
  g_assert_null (self->error);
  assert_written (self, n_whole);
}

static void
a_service_that_always_goes_is_given_up (Fixture *self, gconstpointer mode)
{
  run_until_ended (self);
  g_assert_cmpstr (self->error, ==, "The service ended");
  g_assert_cmpuint (self->n_profiles, ==, SONDE_MAX_ASKS);
}

static void
a_session_that_fails_says_why_and_keeps_what_came_whole (Fixture *self, gconstpointer mode)
{
  gsize n_whole;

  run_until_started (self);
  n_whole = send_capture (self, 4);
  close_capture (self);
  finish (self, "The worker was killed", 0);
  run_until_ended (self);
  g_assert_cmpstr (self->error, ==, "The worker was killed");
  assert_written (self, n_whole);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "file-samples"), ==, 0);
}

static void
what_is_no_capture_is_an_error (Fixture *self, gconstpointer mode)
{
  static const char zeros[256] = "";

  run_until_started (self);
  g_assert_cmpint (write (self->capture_fd, zeros, sizeof zeros), ==, sizeof zeros);
  for (guint i = 0; i < 50; i++)
    g_main_context_iteration (NULL, FALSE);
  finish (self, "reader-left", 0);
  run_until_ended (self);
  g_assert_cmpstr (self->error, ==, "The service's stream is no capture");
  assert_written (self, 0);
}

static void
a_file_that_takes_no_more_stops_the_session (Fixture *self, gconstpointer mode)
{
  int full_fd = open ("/dev/full", O_WRONLY | O_CLOEXEC);

  g_assert_cmpint (dup2 (full_fd, self->out_fd), ==, self->out_fd);
  close (full_fd);
  run_until_started (self);
  send_capture (self, 0);
  run_until_ended (self); /* by Stop, which closes the capture */
  g_assert_cmpuint (self->n_stops, ==, 1);
  g_assert_cmpstr (self->error, ==, "Cannot write the capture: No space left on device");
  g_assert_cmpuint (sonde_client_session_get_n_bytes (self->recording), ==, 0);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "file-samples-lost"), ==,
                    1);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "file-lost"), ==, 2);
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
  gsize n_whole;

  run_until_started (self);
  finish (self, "duration", 42);
  for (guint i = 0; i < 50; i++)
    g_main_context_iteration (NULL, FALSE);
  g_assert_cmpuint (self->n_ended, ==, 0);

  n_whole = send_capture (self, 0);
  close_capture (self);
  run_until_ended (self);
  g_assert_null (self->error);
  g_assert_cmpuint (self->n_ended, ==, 1);
  assert_written (self, n_whole);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "file-samples"), ==, 1);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "recorded"), ==, 42);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "unheard-of"), ==, 0);
}

static void
a_session_that_ends_at_once_is_not_missed (Fixture *self, gconstpointer mode)
{
  run_until_ended (self);
  g_assert_null (self->error);
  g_assert_cmpstr (self->reason, ==, "targets-exited");
}

static void
stop_is_asked_for_once (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  sonde_client_session_stop (self->recording);
  sonde_client_session_stop (self->recording);
  run_until_ended (self);
  g_assert_null (self->error);
  g_assert_cmpuint (self->n_stops, ==, 1);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "recorded"), ==, 7);
}

static void
a_process_is_added_with_its_proof (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  sonde_client_session_add_process_async (self->recording, getpid (), NULL, on_added, self);
  while (self->n_added == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (self->added_pid, ==, getpid ());
}

static void
a_control_socket_is_asked_for (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  sonde_client_session_open_control_async (self->recording, NULL, on_control_opened, self);
  while (self->n_controls == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_nonnull (self->control_error); /* an answer without it */

  self->gives_controls = TRUE;
  g_clear_pointer (&self->control_error, g_free);
  sonde_client_session_open_control_async (self->recording, NULL, on_control_opened, self);
  while (self->n_controls == 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (self->control_error);
}

static void
statistics_are_told_when_asked_for (Fixture *self, gconstpointer mode)
{
  run_until_started (self);
  g_assert_false (sonde_client_session_has_statistics (self->recording));
  sonde_dbus_session_set_statistics (self->session,
                                     g_variant_new_parsed ("{'recorded': uint64 5}"));
  sonde_client_session_refresh_async (self->recording, NULL, on_refreshed, self);
  while (self->n_refreshed == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (sonde_client_session_get_statistic (self->recording, "recorded"), ==, 5);
}

#define ADD_CASE(name, mode, function)                                                             \
  g_test_add ("/client-session/" name, Fixture, GINT_TO_POINTER (mode), set_up, function, tear_down)

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
  ADD_CASE ("a-service-that-went-before-it-answered-is-asked-again", FAKE_GOES_ONCE,
            a_service_that_went_before_it_answered_is_asked_again);
  ADD_CASE ("a-service-that-always-goes-is-given-up", FAKE_GOES_ALWAYS,
            a_service_that_always_goes_is_given_up);
  ADD_CASE ("a-session-that-fails-says-why-and-keeps-what-came-whole", FAKE_ACCEPT,
            a_session_that_fails_says_why_and_keeps_what_came_whole);
  ADD_CASE ("what-is-no-capture-is-an-error", FAKE_ACCEPT, what_is_no_capture_is_an_error);
  ADD_CASE ("a-file-that-takes-no-more-stops-the-session", FAKE_ACCEPT,
            a_file_that_takes_no_more_stops_the_session);
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
