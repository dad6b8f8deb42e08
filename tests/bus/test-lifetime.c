/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How sessions end, by kindness and by force, and that nothing of them stays. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"

/* The daemon as it was before a session: that is what it must be like again. */
typedef struct
{
  GDBusConnection *root;
  pid_t pid;
  guint n_fds;
} Daemon;

static guint
count_children (pid_t pid)
{
  g_autoptr (GArray) children = bus_list_children (pid);

  return children->len;
}

/* A session with samples, from its start to its whole capture. */
static void
profile_once (GDBusConnection *bus, uid_t uid)
{
  g_autofree char *session = NULL;
  pid_t target = bus_spawn (uid, BUS_CHILD_SPIN);
  CaptureSummary summary;
  int capture = -1;

  bus_profile_pid (bus, target, NULL, &session, &capture);
  bus_wait_samples (bus, session, 0);
  g_variant_unref (bus_stop (bus, session));
  capture_summary_read (&summary, capture, target);
  capture_summary_assert_whole (&summary);
  bus_end (target, SIGKILL);
}

/* One session runs first, so that what the daemon opens once is open. */
static void
daemon_init (Daemon *self)
{
  self->root = bus_connect (0);
  profile_once (self->root, 0);
  self->pid = bus_service_pid (self->root);
}

static gboolean
has_no_child (gpointer user_data)
{
  return count_children (((Daemon *) user_data)->pid) == 0;
}

/* To be called when nothing runs. */
static void
daemon_remember (Daemon *self)
{
  self->n_fds = bus_wait_at_rest (self->pid);
}

static gboolean
is_as_before (gpointer user_data)
{
  Daemon *self = user_data;

  return has_no_child (self) && bus_count_fds (self->pid) <= self->n_fds;
}

static void
daemon_clear (Daemon *self)
{
  g_clear_object (&self->root);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Daemon, daemon_clear)

/* The daemon still is the same process, and makes a whole capture for @uid. */
static void
assert_alive (Daemon *self)
{
  uid_t uid = bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);

  profile_once (bus, uid);
  g_assert_cmpint (bus_service_pid (self->root), ==, self->pid);
}

static gboolean
has_child (gpointer user_data)
{
  return !has_no_child (user_data);
}

static void
test_worker_killed (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GDBusConnection) bus = NULL;
  g_autoptr (GArray) workers = NULL;
  g_autofree char *session = NULL;
  uid_t uid = bus_next_uid ();
  pid_t target = bus_spawn (uid, BUS_CHILD_SPIN);
  g_autofree char *finished = NULL;
  CaptureSummary summary;
  int capture = -1;

  daemon_init (&daemon);
  daemon_remember (&daemon);
  bus = bus_connect (uid);
  bus_profile_pid (bus, target, NULL, &session, &capture);
  bus_wait (has_child, &daemon, "the worker");
  bus_wait_count (bus, session, "stream-samples", 0);
  workers = bus_list_workers (daemon.pid);
  g_assert_cmpuint (workers->len, ==, 1);
  kill (g_array_index (workers, pid_t, 0), SIGKILL);

  finished = bus_wait_finished (bus, session);
  g_test_message ("%s", finished);
  /* None of the reasons of a good end. */
  g_assert_nonnull (strchr (finished, ' '));
  capture_summary_read (&summary, capture, target);
  g_assert_false (summary.is_closed);
  g_assert_true (summary.status == 0 || summary.fault == SONDE_FRAME_FAULT_SHORT_HEADER
                 || summary.fault == SONDE_FRAME_FAULT_LENGTH_PAST_END);
  g_assert_cmpuint (summary.n_samples_of_pid, >, 0);
  bus_end (target, SIGKILL);

  bus_wait (is_as_before, &daemon, "the daemon letting go of the dead session");
  assert_alive (&daemon);
}

/* What was recorded is there, whole; the session says why there is no more. */
static void
test_broker_killed (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GDBusConnection) bus = NULL;
  g_autoptr (GArray) brokers = NULL;
  g_autofree char *session = NULL;
  g_autofree char *finished = NULL;
  uid_t uid = bus_next_uid ();
  pid_t target = bus_spawn (uid, BUS_CHILD_SPIN);
  CaptureSummary summary;
  int capture = -1;

  daemon_init (&daemon);
  daemon_remember (&daemon);
  bus = bus_connect (uid);
  bus_profile_pid (bus, target, NULL, &session, &capture);
  bus_wait_samples (bus, session, 0);
  brokers = bus_list_brokers (daemon.pid);
  g_assert_cmpuint (brokers->len, ==, 1);
  kill (g_array_index (brokers, pid_t, 0), SIGKILL);

  finished = bus_wait_finished (bus, session);
  g_assert_cmpstr (finished, ==, "The broker was killed by signal 9");
  capture_summary_read (&summary, capture, target);
  capture_summary_assert_whole (&summary);
  g_assert_cmpuint (summary.n_samples_of_pid, >, 0);
  bus_end (target, SIGKILL);

  bus_wait (is_as_before, &daemon, "the daemon letting go of the session without a broker");
  assert_alive (&daemon);
}

static void
add_process (GDBusConnection *bus, const char *session, pid_t pid, GError **error)
{
  g_autoptr (GUnixFDList) fds = bus_open_proc (pid, "maps", O_RDONLY);
  g_autoptr (GVariant) answer
      = bus_session_call (bus, session, "AddProcess",
                          g_variant_new_parsed ("([(%u, %h)],)", (guint32) pid, 0), fds, error);

  g_assert_true (answer != NULL || *error != NULL);
}

/* It costs a call, not the session; its late answer is nobody's. */
static void
test_broker_late (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GDBusConnection) bus = NULL;
  g_autoptr (GArray) brokers = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  uid_t uid = bus_next_uid ();
  pid_t target = bus_spawn (uid, BUS_CHILD_SPIN);
  pid_t second = bus_spawn (uid, BUS_CHILD_SPIN);
  CaptureSummary summary;
  int capture = -1;

  daemon_init (&daemon);
  daemon_remember (&daemon);
  bus = bus_connect (uid);
  bus_profile_pid (bus, target, NULL, &session, &capture);
  bus_wait_samples (bus, session, 0);
  brokers = bus_list_brokers (daemon.pid);
  g_assert_cmpuint (brokers->len, ==, 1);
  kill (g_array_index (brokers, pid_t, 0), SIGSTOP);
  add_process (bus, session, second, &error);
  bus_assert_error (error, "Failed");
  g_assert_nonnull (strstr (error->message, "not proven in time"));
  g_clear_error (&error);
  kill (g_array_index (brokers, pid_t, 0), SIGCONT);
  /* Of somebody else: so the answer that comes first was not this one's. */
  add_process (bus, session, getpid (), &error);
  bus_assert_error (error, "NotAuthorized");
  g_clear_error (&error);
  g_variant_unref (bus_stop (bus, session));
  capture_summary_read (&summary, capture, target);
  capture_summary_assert_whole (&summary);
  bus_end (target, SIGKILL);
  bus_end (second, SIGKILL);
  bus_wait (is_as_before, &daemon, "the daemon letting go of the session with a late broker");
}

static void
test_client_killed (void)
{
  g_auto (Daemon) daemon = { 0 };
  pid_t client;

  daemon_init (&daemon);
  daemon_remember (&daemon);
  client = bus_spawn (bus_next_uid (), BUS_CHILD_CLIENT);
  g_assert_cmpuint (count_children (daemon.pid), ==, 2); /* broker and worker */
  bus_end (client, SIGKILL);
  bus_wait (is_as_before, &daemon, "the daemon letting go of the dead client's session");
  assert_alive (&daemon);
}

static void
test_owner_leaves (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GDBusConnection) bus = NULL;
  g_autofree char *session = NULL;
  uid_t uid = bus_next_uid ();
  pid_t target = bus_spawn (uid, BUS_CHILD_SPIN);
  CaptureSummary summary;
  int capture = -1;

  daemon_init (&daemon);
  daemon_remember (&daemon);
  bus = bus_connect (uid);
  bus_profile_pid (bus, target, NULL, &session, &capture);
  bus_wait_samples (bus, session, 0);
  g_assert_true (g_dbus_connection_close_sync (bus, NULL, NULL));

  /* He may still read to the end what was recorded. */
  capture_summary_read (&summary, capture, target);
  capture_summary_assert_whole (&summary);
  bus_end (target, SIGKILL);
  bus_wait (is_as_before, &daemon, "the daemon letting go of the session");
}

/* Ends as @reason says, whatever makes it end. */
static void
assert_ends (GVariant *options,
             BusChild what,
             gboolean kill_target,
             gboolean close_capture,
             const char *reason)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GDBusConnection) bus = NULL;
  g_autofree char *session = NULL;
  uid_t uid = bus_next_uid ();
  pid_t target = bus_spawn (uid, what);
  g_autofree char *finished = NULL;
  CaptureSummary summary;
  int capture = -1;

  daemon_init (&daemon);
  daemon_remember (&daemon);
  bus = bus_connect (uid);
  bus_profile_pid (bus, target, options, &session, &capture);
  if (kill_target)
    {
      bus_wait_samples (bus, session, 0);
      bus_end (target, SIGKILL);
    }
  if (close_capture)
    close (capture);
  else
    {
      capture_summary_read (&summary, capture, target);
      capture_summary_assert_whole (&summary);
    }
  finished = bus_wait_finished (bus, session);
  g_assert_cmpstr (finished, ==, reason);
  if (!kill_target)
    bus_end (target, SIGKILL);
  bus_wait (is_as_before, &daemon, "the daemon letting go of the session");
}

static void
test_duration (void)
{
  assert_ends (g_variant_new_parsed ("{'duration': <%t>}", (guint64) 1000000), BUS_CHILD_SPIN,
               FALSE, FALSE, "duration");
}

static void
test_targets_exit (void)
{
  assert_ends (NULL, BUS_CHILD_SPIN, TRUE, FALSE, "targets-exited");
}

static void
test_reader_leaves (void)
{
  assert_ends (NULL, BUS_CHILD_SPIN, FALSE, TRUE, "reader-left");
}

static void
test_reader_that_never_reads (void)
{
  g_auto (Daemon) daemon = { 0 };
  pid_t clients[2];

  daemon_init (&daemon);
  daemon_remember (&daemon);
  for (guint i = 0; i < G_N_ELEMENTS (clients); i++)
    clients[i] = bus_spawn (bus_next_uid (), BUS_CHILD_CLIENT);
  assert_alive (&daemon);
  assert_alive (&daemon);
  for (guint i = 0; i < G_N_ELEMENTS (clients); i++)
    bus_end (clients[i], SIGKILL);
  bus_wait (is_as_before, &daemon, "the daemon letting go of stuck readers");
}

typedef struct
{
  guint n_pending;
  guint n_limited;
} Flood;

static void
count_answer (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Flood *flood = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autofree char *name = NULL;

  answer = g_dbus_connection_call_with_unix_fd_list_finish (G_DBUS_CONNECTION (source), NULL,
                                                            result, &error);
  g_assert_null (answer);
  name = g_dbus_error_get_remote_error (error);
  if (g_strcmp0 (name, "org.sonde.Profiler1.Error.LimitExceeded") == 0)
    flood->n_limited++;
  else
    g_assert_cmpstr (name, ==, "org.sonde.Profiler1.Error.NotAuthorized");
  flood->n_pending--;
}

static gboolean
is_over (gpointer user_data)
{
  return ((Flood *) user_data)->n_pending == 0;
}

/* Each of these calls makes the daemon ask polkit; only so many of one user may wait at a time. The
 * bus itself stops at 128 unanswered ones. */
static void
test_flood (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GDBusConnection) bus = NULL;
  Flood flood = { 0 };

  daemon_init (&daemon);
  daemon_remember (&daemon);
  bus = bus_connect (bus_next_uid ());
  for (guint i = 0; i < 120; i++)
    {
      flood.n_pending++;
      g_dbus_connection_call_with_unix_fd_list (
          bus, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager",
          "Profile", g_variant_new_parsed ("({'system': <true>},)"), NULL, G_DBUS_CALL_FLAGS_NONE,
          BUS_CALL_MS, NULL, NULL, count_answer, &flood);
    }
  assert_alive (&daemon);
  bus_wait (is_over, &flood, "an answer to every call");
  g_assert_cmpuint (flood.n_limited, >, 0);
  g_assert_true (g_dbus_connection_close_sync (bus, NULL, NULL));
  bus_wait (is_as_before, &daemon, "the daemon letting go of the flood");
}

static uid_t
uid_of (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", pid);
  g_autofree char *status = NULL;
  const char *line;
  guint uids[4], gids[4];

  g_assert_true (g_file_get_contents (path, &status, NULL, NULL));
  line = strstr (status, "\nUid:");
  g_assert_nonnull (line);
  g_assert_cmpint (sscanf (line, "\nUid: %u %u %u %u\nGid: %u %u %u %u", &uids[0], &uids[1],
                           &uids[2], &uids[3], &gids[0], &gids[1], &gids[2], &gids[3]),
                   ==, 8);
  for (guint i = 0; i < 4; i++)
    {
      g_assert_cmpuint (uids[i], ==, uids[0]);
      g_assert_cmpuint (gids[i], ==, uids[0]);
    }
  return uids[0];
}

static void
test_worker_uids (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GArray) workers = NULL;
  pid_t target = bus_spawn (0, BUS_CHILD_SPIN);
  char *sessions[2];
  int captures[2];
  uid_t uids[2];

  daemon_init (&daemon);
  daemon_remember (&daemon);
  for (guint i = 0; i < 2; i++)
    bus_profile_pid (daemon.root, target, NULL, &sessions[i], &captures[i]);
  workers = bus_list_workers (daemon.pid);
  g_assert_cmpuint (workers->len, ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      uids[i] = uid_of (g_array_index (workers, pid_t, i));
      /* Between the uids of people and those of systemd's DynamicUser=. */
      g_assert_cmpuint (uids[i], >, 60000);
      g_assert_cmpuint (uids[i], <, 61184);
    }
  g_assert_cmpuint (uids[0], !=, uids[1]);

  for (guint i = 0; i < 2; i++)
    {
      close (captures[i]);
      g_free (sessions[i]);
    }
  bus_end (target, SIGKILL);
  bus_wait (is_as_before, &daemon, "the end of both workers");
}

/* Events of whole processors, and the clock among them. */
static void
test_whole_machine (void)
{
  g_auto (Daemon) daemon = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture = -1;

  daemon_init (&daemon);
  daemon_remember (&daemon);
  bus_profile (daemon.root, g_variant_new_parsed ("{'system': <true>}"), NULL, &session, &capture,
               &error);
  g_assert_no_error (error);
  bus_wait_samples (daemon.root, session, 0);
  g_variant_unref (bus_stop (daemon.root, session));
  close (capture);
  bus_wait (is_as_before, &daemon, "the daemon letting go of the whole machine");
}

static guint64
read_run_ns (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/schedstat", (int) pid);
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return g_ascii_strtoull (text, NULL, 10);
}

/* A loop that never sleeps would have most of that second, however busy the machine is with
 * others. */
static void
test_rest (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (bus_next_uid ());
  guint64 least_ns = G_MAXUINT64;
  pid_t pid;

  bus_assert_answers (bus);
  pid = bus_service_pid (bus);
  for (guint i = 0; i < 5; i++)
    {
      guint64 before_ns = read_run_ns (pid);

      g_usleep (G_USEC_PER_SEC);
      least_ns = MIN (least_ns, read_run_ns (pid) - before_ns);
    }
  g_test_message ("%.3f ms in a second", (double) least_ns / 1e6);
  g_assert_cmpuint (least_ns, <, 20000000);
}

static gboolean
has_gone (gpointer user_data)
{
  return bus_parent (*(const pid_t *) user_data) < 0;
}

/* How brokers and workers end is not told to sonded any more. */
static void
test_hanging_spawner (void)
{
  uid_t uid = bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  pid_t target = bus_spawn (uid, BUS_CHILD_SPIN);
  g_autoptr (GArray) workers = NULL;
  g_autofree char *session = NULL;
  pid_t spawner;
  pid_t pid;
  int capture = -1;

  bus_profile_pid (bus, target, NULL, &session, &capture);
  pid = bus_service_pid (bus);
  workers = bus_list_workers (pid);
  g_assert_cmpuint (workers->len, >, 0);
  spawner = bus_parent (g_array_index (workers, pid_t, 0));
  g_assert_cmpint (bus_parent (spawner), ==, pid);
  g_assert_cmpint (kill (spawner, SIGSTOP), ==, 0);
  g_assert_cmpint (kill (pid, SIGTERM), ==, 0);
  bus_wait (has_gone, &pid, "the end of sonded");
  g_assert_cmpint (kill (spawner, SIGCONT), ==, 0);
  bus_wait (has_gone, &spawner, "the end of its spawner");
  close (capture);
  bus_end (target, SIGKILL);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/lifetime/" path, function)
  ADD ("worker-killed-ends-its-session-alone", test_worker_killed);
  ADD ("broker-killed-ends-its-session-with-what-it-has", test_broker_killed);
  ADD ("broker-that-is-late-costs-a-call", test_broker_late);
  ADD ("client-killed-leaves-nothing", test_client_killed);
  ADD ("owner-leaving-ends-the-session", test_owner_leaves);
  ADD ("duration-ends-the-session", test_duration);
  ADD ("exit-of-the-targets-ends-the-session", test_targets_exit);
  ADD ("reader-leaving-ends-the-session", test_reader_leaves);
  ADD ("reader-that-never-reads-disturbs-nobody", test_reader_that_never_reads);
  ADD ("session-of-the-whole-machine-leaves-nothing", test_whole_machine);
  ADD ("workers-have-uids-of-their-own", test_worker_uids);
  ADD ("flood-of-calls-disturbs-nobody", test_flood);
  ADD ("nobody-asking-costs-nothing", test_rest);
  ADD ("spawner-that-hangs-keeps-nobody", test_hanging_spawner);
#undef ADD
  return g_test_run ();
}
