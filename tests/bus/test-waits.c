/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sonded among file systems that do not answer: whatever waits for them, its main loop does not.
 */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "tests/lib/bus-user.h"

/* --- a file system that is told whom it does not answer: tests/lib/stuck-fuse.c --- */

typedef struct
{
  char *mount_point;
  GSubprocess *server;
  GOutputStream *commands;
  GDataInputStream *said;
} Stuck;

static const char *build; /* directory */

/* The next line, which begins with @start. */
static void
stuck_expect (Stuck *self, const char *start)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *line = g_data_input_stream_read_line (self->said, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_nonnull (line);
  if (!g_str_has_prefix (line, start))
    g_error ("\"%s\" is not \"%s…\"", line, start);
}

static void stuck_tell (Stuck *self, const char *format, ...) G_GNUC_PRINTF (2, 3);

/* What it said of requests that it held before it heard the command is passed over. */
static void
stuck_tell (Stuck *self, const char *format, ...)
{
  g_autoptr (GError) error = NULL;
  va_list arguments;

  va_start (arguments, format);
  g_assert_true (g_output_stream_vprintf (self->commands, NULL, NULL, &error, format, arguments));
  va_end (arguments);
  g_assert_no_error (error);
  for (;;)
    {
      g_autofree char *line = g_data_input_stream_read_line (self->said, NULL, NULL, &error);

      g_assert_no_error (error);
      if (g_strcmp0 (line, "ok") == 0)
        return;
      g_assert_true (g_str_has_prefix (line, "held "));
    }
}

/* @folder: what it shows; @mount_point: taken */
static void
stuck_init (Stuck *self, const char *folder, char *mount_point)
{
  g_autofree char *program = g_build_filename (build, "tests/bus/stuck-fuse", NULL);
  g_autoptr (GError) error = NULL;

  self->mount_point = mount_point;
  self->server = g_subprocess_new (G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDOUT_PIPE,
                                   &error, program, folder, mount_point, NULL);
  g_assert_no_error (error);
  self->commands = g_subprocess_get_stdin_pipe (self->server);
  self->said = g_data_input_stream_new (g_subprocess_get_stdout_pipe (self->server));
  stuck_expect (self, "mounted");
}

static void
stuck_clear (Stuck *self)
{
  if (self->server == NULL)
    return;
  stuck_tell (self, "go\n");
  g_output_stream_close (self->commands, NULL, NULL);
  g_assert_true (g_subprocess_wait_check (self->server, NULL, NULL));
  g_clear_object (&self->said);
  g_clear_object (&self->server);
  g_clear_pointer (&self->mount_point, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Stuck, stuck_clear)

/* --- descriptors that come with messages --- */

static int
open_stuck (const Stuck *self)
{
  g_autofree char *path = g_build_filename (self->mount_point, "file", NULL);
  int fd = open (path, O_RDWR | O_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  return fd;
}

static void
stuck_init_file (Stuck *self)
{
  g_autofree char *folder = g_dir_make_tmp ("sonde-stuck-XXXXXX", NULL);
  g_autofree char *file = g_build_filename (folder, "file", NULL);

  g_assert_true (g_file_set_contents (file, "file", -1, NULL));
  stuck_init (self, folder, g_dir_make_tmp ("sonde-stuck-XXXXXX", NULL));
}

/* @message: taken; with @n_fds descriptors of the file, which its body need not name. The bus
 * passes them on one by one. */
static void
send_with_fds (GDBusConnection *bus, GDBusMessage *message, const Stuck *stuck, guint n_fds)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < n_fds; i++)
    {
      int fd = open_stuck (stuck);

      g_assert_cmpint (g_unix_fd_list_append (fds, fd, &error), ==, (int) i);
      close (fd);
    }
  g_dbus_message_set_unix_fd_list (message, fds);
  /* Who gets no answer may wait for few of them. */
  g_dbus_message_set_flags (message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
  g_dbus_connection_send_message (bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, &error);
  g_assert_no_error (error);
  g_object_unref (message);
}

static GDBusMessage *
new_call (const char *interface, const char *method, GVariant *body)
{
  GDBusMessage *call = g_dbus_message_new_method_call ("org.sonde.Profiler1",
                                                       "/org/sonde/Profiler1", interface, method);

  if (body != NULL)
    g_dbus_message_set_body (call, body);
  return call;
}

static GDBusMessage *
new_signal (void)
{
  GDBusMessage *message
      = g_dbus_message_new_signal ("/org/sonde/Profiler1", "org.sonde.Nothing", "Changed");

  g_dbus_message_set_destination (message, "org.sonde.Profiler1");
  return message;
}

/* More values than a message may have. */
static GVariant *
new_flood (void)
{
  GVariantBuilder options;

  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  for (guint i = 0; i < 1000; i++)
    g_variant_builder_add (&options, "{sv}", "", g_variant_new_byte (1));
  return g_variant_new ("(a{sv})", &options);
}

static guint
count_threads (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/task", pid);
  g_autoptr (GDir) threads = g_dir_open (path, 0, NULL);
  guint n = 0;

  while (threads != NULL && g_dir_read_name (threads) != NULL)
    n++;
  return n;
}

/* The main loop, GLib's thread for signals, and who waits for the disk of the captures. */
enum
{
  N_AT_REST = 3
};

static gboolean
are_gone (gpointer pid)
{
  return count_threads (*(pid_t *) pid) == N_AT_REST;
}

/* Whatever a message is, its descriptors are closed by somebody whom nobody waits for. */
static void
test_foreign_descriptors (void)
{
  GDBusMessage *const messages[] = {
    new_call ("org.freedesktop.DBus.Peer", "Ping", NULL),
    new_call ("org.sonde.Profiler1.Manager", "NoSuchMethod", NULL),
    new_call ("org.sonde.Profiler1.Manager", "ListSessions", NULL),
    new_call ("org.sonde.Profiler1.Manager", "ListSessions", g_variant_new ("(s)", "too much")),
    new_call ("org.sonde.Profiler1.Manager", "Profile", new_flood ()),
    new_call ("org.sonde.Profiler1.Manager", "Profile",
              g_variant_new_parsed ("({'targets': <[(%u, @h 0)]>},)", (guint32) getpid ())),
    new_call ("org.sonde.Profiler1.Manager", "Profile",
              g_variant_new_parsed ("({'no-such-option': <@h 0>},)")),
    new_call ("org.freedesktop.DBus.Properties", "Get",
              g_variant_new ("(ss)", "org.sonde.Profiler1.Manager", "Version")),
    new_signal (),
  };
  g_auto (BusUser) user = { 0 };
  g_auto (Stuck) stuck = { 0 };
  pid_t sonded;

  bus_user_init (&user, BUS_CHILD_WAIT);
  stuck_init_file (&stuck);
  bus_assert_answers (user.bus);
  sonded = bus_service_pid (user.bus);
  stuck_tell (&stuck, "stop FLUSH %d\n", sonded);
  for (guint i = 0; i < G_N_ELEMENTS (messages); i++)
    {
      send_with_fds (user.bus, messages[i], &stuck, 1);
      stuck_expect (&stuck, "held FLUSH");
      bus_assert_answers (user.bus);
    }
  g_assert_cmpint (bus_service_pid (user.bus), ==, sonded);
  stuck_tell (&stuck, "go\n");
  bus_wait (are_gone, &sonded, "the threads that closed descriptors are gone");
}

static gboolean
are_all_stuck (gpointer pid)
{
  return count_threads (*(pid_t *) pid) == N_AT_REST + SONDE_LIMIT_CLOSERS;
}

/* A call that brings a descriptor, by which nothing is started unless @option is there.
 * Returns: (nullable): why not */
static GError *
profile_with_fd (const BusUser *user, const char *option)
{
  g_autoptr (GUnixFDList) fds = bus_open_proc (user->target, "maps", O_RDONLY | O_CLOEXEC);
  GError *error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_with_unix_fd_list_sync (
      user->bus, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager",
      "Profile", g_variant_new_parsed ("({%s: <[(%u, @h 0)]>},)", option, (guint32) user->target),
      NULL, G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, fds, NULL, NULL, &error);

  g_assert_true ((answer == NULL) == (error != NULL));
  return error;
}

static gboolean
are_fds_refused (gpointer user)
{
  g_autoptr (GError) error = profile_with_fd (user, "no-such-option");

  return strstr (error->message, "Limit closers:") != NULL;
}

static void
assert_target_refused (const BusUser *user)
{
  g_autoptr (GError) error = profile_with_fd (user, "targets");

  bus_assert_error (error, "LimitExceeded");
  g_assert_nonnull (strstr (error->message, "Limit closers:"));
}

static void
assert_lists_sessions (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = bus_manager_call (bus, "ListSessions", NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_nonnull (answer);
}

/* It brings one, and is answered as if it did not. */
static void
assert_answers_with_fd (GDBusConnection *bus, const Stuck *stuck)
{
  g_autoptr (GDBusMessage) message = new_call ("org.freedesktop.DBus.Peer", "Ping", NULL);
  g_autoptr (GDBusMessage) answer = NULL;
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GError) error = NULL;
  int fd = open_stuck (stuck);

  g_unix_fd_list_append (fds, fd, &error);
  g_assert_no_error (error);
  close (fd);
  g_dbus_message_set_unix_fd_list (message, fds);
  answer = g_dbus_connection_send_message_with_reply_sync (
      bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, BUS_CALL_MS, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_dbus_message_get_message_type (answer), ==, G_DBUS_MESSAGE_TYPE_METHOD_RETURN);
}

/* When nobody is left to close them, calls that need descriptors are refused; all else goes on. */
static void
test_too_many_descriptors (void)
{
  enum
  {
    N_FLOOD = 300
  };
  g_auto (BusUser) user = { 0 };
  g_auto (BusUser) other = { 0 };
  g_auto (Stuck) stuck = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GUnixFDList) streams = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  pid_t sonded;
  guint n_fds;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_SPIN);
  stuck_init_file (&stuck);
  bus_profile_pid (other.bus, other.target, NULL, &session, &capture);
  sonded = bus_service_pid (user.bus);
  stuck_tell (&stuck, "stop FLUSH %d\n", sonded);
  for (guint i = 0; i < SONDE_LIMIT_CLOSERS; i++)
    send_with_fds (user.bus, new_call ("org.freedesktop.DBus.Peer", "Ping", NULL), &stuck, 1);
  bus_wait (are_all_stuck, &sonded, "all that close descriptors wait");
  bus_assert_answers (user.bus);
  bus_wait (are_fds_refused, &user, "descriptors are refused");
  assert_target_refused (&user);
  assert_target_refused (&other);
  assert_answers_with_fd (user.bus, &stuck);
  assert_lists_sessions (user.bus);
  n_fds = bus_count_fds (sonded);
  for (guint i = 0; i < N_FLOOD; i++)
    send_with_fds (user.bus, new_call ("org.freedesktop.DBus.Peer", "Ping", NULL), &stuck, 10);
  bus_assert_answers (user.bus);
  bus_assert_answers (other.bus);
  g_assert_cmpuint (bus_count_fds (sonded), <=, n_fds);
  g_assert_cmpuint (count_threads (sonded), ==, N_AT_REST + SONDE_LIMIT_CLOSERS);
  /* What a client gets is as it was. */
  bus_wait_samples (other.bus, session, 10);
  g_variant_unref (bus_stop (other.bus, session));
  close (capture);
  answer = g_dbus_connection_call_with_unix_fd_list_sync (
      user.bus, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager",
      "Profile", g_variant_new_parsed ("({'launch': <true>},)"), NULL, G_DBUS_CALL_FLAGS_NONE,
      BUS_CALL_MS, NULL, &streams, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_unix_fd_list_get_length (streams), ==, 1);

  stuck_tell (&stuck, "go\n");
  bus_wait (are_gone, &sonded, "the threads that closed descriptors are gone");
  g_assert_null (profile_with_fd (&user, "targets"));
  g_assert_cmpint (bus_service_pid (user.bus), ==, sonded);
}

/* --- a broker that waits --- */

/* Returns: (nullable): why no session was started; one that was ends */
static GError *
try_start (const BusUser *user)
{
  g_autofree char *session = NULL;
  GError *error = NULL;
  int capture = -1;

  if (bus_profile (user->bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture,
                   &error))
    close (capture);
  return error;
}

static gboolean
is_shut_out (gpointer user)
{
  g_autoptr (GError) error = try_start (user);

  return error != NULL && strstr (error->message, "Limit brokers:") != NULL;
}

static gboolean
is_let_in (gpointer user)
{
  g_autoptr (GError) error = try_start (user);

  return error == NULL;
}

/* A session that is over, but for its broker. */
static void
leave_stuck_broker (const BusUser *user, Stuck *stuck)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr (GArray) brokers = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture = -1;
  int fd;

  bus_profile (user->bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture,
               &error);
  g_assert_no_error (error);
  brokers = bus_list_brokers (bus_service_pid (user->bus));
  g_assert_cmpuint (brokers->len, >, 0);
  for (guint i = 0; i < brokers->len; i++)
    stuck_tell (stuck, "stop FLUSH %d\n", g_array_index (brokers, pid_t, i));
  fd = open_stuck (stuck);
  g_unix_fd_list_append (fds, fd, NULL);
  close (fd);
  answer = bus_session_call (user->bus, session, "AddProcess",
                             g_variant_new_parsed ("([(%u, %h)],)", (guint32) user->target, 0), fds,
                             &error);
  bus_assert_error (error, "NotAuthorized");
  stuck_expect (stuck, "held FLUSH");
  g_variant_unref (bus_stop (user->bus, session));
  close (capture);
}

/* It outlives its session, and the kill: that costs its own user the next one, and nobody else
 * anything. */
static void
test_stuck_broker (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (BusUser) other = { 0 };
  g_auto (Stuck) stuck = { 0 };
  pid_t sonded;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_WAIT);
  stuck_init_file (&stuck);
  leave_stuck_broker (&user, &stuck);
  sonded = bus_service_pid (user.bus);
  bus_wait (is_shut_out, &user, "the limit of who has a broker that does not end");
  bus_assert_answers (user.bus);
  g_assert_true (is_let_in (&other));
  stuck_tell (&stuck, "go\n");
  bus_wait (is_let_in, &user, "the end of the broker");
  g_assert_cmpint (bus_service_pid (user.bus), ==, sonded);
}

static gboolean
has_no_session (gpointer bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = bus_manager_call (bus, "ListSessions", NULL, NULL, &error);
  g_autoptr (GVariant) list = NULL;

  g_assert_no_error (error);
  list = g_variant_get_child_value (answer, 0);
  return g_variant_n_children (list) == 0;
}

/* Each counts from when its session is over: a user who is quick has no more of them. */
static void
test_stuck_brokers_at_once (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (BusUser) other = { 0 };
  g_auto (Stuck) stuck = { 0 };
  g_autoptr (GError) error = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_WAIT);
  stuck_init_file (&stuck);
  for (guint i = 0; i < SONDE_LIMIT_SESSIONS; i++)
    leave_stuck_broker (&user, &stuck);
  bus_wait (has_no_session, user.bus, "the end of the sessions");
  error = try_start (&user);
  bus_assert_error (error, "LimitExceeded");
  g_assert_nonnull (strstr (error->message, "Limit brokers:"));
  g_assert_true (is_let_in (&other));
  stuck_tell (&stuck, "go\n");
  bus_wait (is_let_in, &user, "the end of the brokers");
}

/* --- the disk of the capture files --- */

typedef struct
{
  gboolean is_done;
  GVariant *value;
  GError *error;
} Answer;

static void
on_answer (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Answer *answer = user_data;

  answer->value
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &answer->error);
  answer->is_done = TRUE;
}

static void
answer_clear (Answer *self)
{
  g_clear_pointer (&self->value, g_variant_unref);
  g_clear_error (&self->error);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Answer, answer_clear)

static gboolean
is_done (gpointer user_data)
{
  return ((Answer *) user_data)->is_done;
}

static void
call (GDBusConnection *bus, const char *method, GVariant *arguments, Answer *answer)
{
  g_dbus_connection_call (bus, "org.sonde.Profiler1", "/org/sonde/Profiler1",
                          "org.sonde.Profiler1.Manager", method, arguments, NULL,
                          G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, on_answer, answer);
}

static void
assert_disk_failed (const Answer *answer)
{
  bus_assert_error (answer->error, "Failed");
  g_assert_nonnull (strstr (answer->error->message, "does not answer"));
}

static guint
count_captures (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = bus_manager_call (bus, "ListCaptures", NULL, NULL, &error);
  g_autoptr (GVariant) list = NULL;

  g_assert_no_error (error);
  list = g_variant_get_child_value (answer, 0);
  return (guint) g_variant_n_children (list);
}

/* A session with a file, from its start to its end. */
static void
assert_keeps (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *session
      = bus_start_session (bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &error);

  g_assert_no_error (error);
  g_variant_unref (bus_stop (bus, session));
}

static gboolean
is_name_free (gpointer bus)
{
  return !bus_has_name (bus, "org.sonde.Profiler1");
}

static void
end_service (GDBusConnection *bus)
{
  bus_assert_answers (bus);
  g_assert_cmpint (kill (bus_service_pid (bus), SIGTERM), ==, 0);
  bus_wait (is_name_free, bus, "sonded has gone");
}

/* A file system over sonded's state directory, for the sonded that comes. */
static void
stuck_init_state (Stuck *self, GDBusConnection *bus)
{
  g_autofree char *folder = g_dir_make_tmp ("sonde-stuck-XXXXXX", NULL);

  end_service (bus);
  stuck_init (self, folder, g_build_filename (g_getenv ("PRIVATE_BUS_DIR"), "state", NULL));
}

/* What needs it fails, in its time; nothing else notices. */
static void
test_disk (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (BusUser) other = { 0 };
  g_auto (Stuck) stuck = { 0 };
  g_auto (Answer) started = { 0 };
  g_auto (Answer) listed = { 0 };
  g_auto (Answer) removed = { 0 };
  g_autofree char *lasting = NULL;
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  int capture = -1;
  pid_t sonded;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_SPIN);
  stuck_init_state (&stuck, user.bus);
  assert_keeps (user.bus);
  lasting
      = bus_start_session (other.bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_captures (user.bus), ==, 1);
  sonded = bus_service_pid (user.bus);

  stuck_tell (&stuck, "stop ALL %d\n", sonded);
  call (user.bus, "StartSession", g_variant_new_parsed ("({'launch': <true>},)"), &started);
  call (user.bus, "ListCaptures", NULL, &listed);
  call (user.bus, "RemoveCapture", g_variant_new ("(s)", "session-20260102T030405Z-1.syscap"),
        &removed);
  stuck_expect (&stuck, "held ");
  bus_assert_answers (user.bus);
  bus_profile_pid (other.bus, other.target, NULL, &session, &capture);
  bus_wait_samples (other.bus, session, 10);
  g_variant_unref (bus_stop (other.bus, session));
  close (capture);
  g_variant_unref (bus_stop (other.bus, lasting));
  bus_wait (is_done, &started, "StartSession fails");
  bus_wait (is_done, &listed, "ListCaptures fails");
  bus_wait (is_done, &removed, "RemoveCapture fails");
  assert_disk_failed (&started);
  assert_disk_failed (&listed);
  assert_disk_failed (&removed);
  bus_assert_answers (user.bus);

  stuck_tell (&stuck, "go\n");
  assert_keeps (user.bus);
  g_assert_cmpuint (count_captures (user.bus), ==, 2);
  g_assert_cmpuint (count_captures (other.bus), ==, 1);
  g_assert_cmpint (bus_service_pid (user.bus), ==, sonded);
  end_service (user.bus);
}

static void
test_disk_at_the_start (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (Stuck) stuck = { 0 };
  g_auto (Answer) started = { 0 };

  bus_user_init (&user, BUS_CHILD_WAIT);
  stuck_init_state (&stuck, user.bus);
  stuck_tell (&stuck, "stop ALL\n");
  bus_assert_answers (user.bus);
  call (user.bus, "StartSession", g_variant_new_parsed ("({'launch': <true>},)"), &started);
  bus_wait (is_done, &started, "StartSession fails");
  assert_disk_failed (&started);
  stuck_tell (&stuck, "go\n");
  assert_keeps (user.bus);
  g_assert_cmpuint (count_captures (user.bus), ==, 1);
  end_service (user.bus);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  build = argv[1];
  g_test_add_func ("/waits/foreign-descriptors", test_foreign_descriptors);
  g_test_add_func ("/waits/too-many-descriptors", test_too_many_descriptors);
  g_test_add_func ("/waits/broker-that-does-not-end", test_stuck_broker);
  g_test_add_func ("/waits/brokers-that-do-not-end-count-at-once", test_stuck_brokers_at_once);
  g_test_add_func ("/waits/disk-of-captures", test_disk);
  g_test_add_func ("/waits/disk-of-captures-at-the-start", test_disk_at_the_start);
  return g_test_run ();
}
