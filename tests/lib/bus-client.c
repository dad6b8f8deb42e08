/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/bus-client.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/capture-summary.h"

#define SERVICE      "org.sonde.Profiler1"
#define MANAGER_PATH "/org/sonde/Profiler1"

/* Of private-bus; the group has the same number. */
enum
{
  FIRST_ACCOUNT = 50000,
  N_ACCOUNTS = 1000,
};

static const char *const child_names[] = {
  [BUS_CHILD_SPIN] = "--spin",     [BUS_CHILD_WAIT] = "--wait",       [BUS_CHILD_EXEC] = "--exec",
  [BUS_CHILD_CLIENT] = "--client", [BUS_CHILD_PROFILE] = "--profile",
};

uid_t
bus_next_uid (void)
{
  static guint n_used;

  g_assert_cmpuint (n_used, <, N_ACCOUNTS);
  return FIRST_ACCOUNT + n_used++;
}

gboolean
bus_is_long (void)
{
  return g_strcmp0 (g_getenv ("SONDE_TEST_LONG"), "1") == 0;
}

#define FINISHED "sonde-test-finished" /* of a connection: reasons by the paths of sessions */

static void
take_finished (GDBusConnection *bus,
               const char *sender,
               const char *path,
               const char *interface,
               const char *signal,
               GVariant *arguments,
               gpointer user_data)
{
  char *reason;

  g_variant_get_child (arguments, 0, "s", &reason);
  g_assert_true (g_hash_table_insert (user_data, g_strdup (path), reason));
}

/* From the beginning, whoever sends it: a session may end before its path is known here, and before
 * the owner of a well-known name is, too. */
static void
listen_for_finished (GDBusConnection *bus)
{
  GHashTable *finished = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  g_object_set_data_full (G_OBJECT (bus), FINISHED, finished, (GDestroyNotify) g_hash_table_unref);
  g_dbus_connection_signal_subscribe (
      bus, NULL, SERVICE ".Session", "Finished", NULL, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
      take_finished, g_hash_table_ref (finished), (GDestroyNotify) g_hash_table_unref);
}

GDBusConnection *
bus_connect (uid_t uid)
{
  g_autoptr (GError) error = NULL;
  GDBusConnection *bus;

  /* The bus asks the kernel who connects, at that moment. */
  g_assert_cmpint (seteuid (uid), ==, 0);
  bus = g_dbus_connection_new_for_address_sync (
      g_getenv ("DBUS_SYSTEM_BUS_ADDRESS"),
      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT
          | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
      NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (seteuid (0), ==, 0);
  listen_for_finished (bus);
  return bus;
}

gboolean
bus_has_name (GDBusConnection *bus, const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  gboolean has_owner;

  answer = g_dbus_connection_call_sync (bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                        "org.freedesktop.DBus", "NameHasOwner",
                                        g_variant_new ("(s)", name), G_VARIANT_TYPE ("(b)"),
                                        G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);
  g_assert_no_error (error);
  g_variant_get (answer, "(b)", &has_owner);
  return has_owner;
}

pid_t
bus_spawn (uid_t uid, BusChild what)
{
  int ready[2];
  char byte;
  pid_t pid;

  g_assert_cmpint (pipe (ready), ==, 0);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      /* Without an exec behind the change of uid nobody but root may read this process. */
      dup2 (ready[1], STDOUT_FILENO);
      close (ready[0]);
      close (ready[1]);
      if (setresgid (uid, uid, uid) == 0 && setresuid (uid, uid, uid) == 0
          && prctl (PR_SET_PDEATHSIG, SIGKILL) == 0)
        execl ("/proc/self/exe", "bus-child", child_names[what], NULL);
      _exit (127);
    }
  close (ready[1]);
  /* The child writes a byte when it is as its caller wants it. */
  g_assert_cmpint (read (ready[0], &byte, 1), ==, 1);
  close (ready[0]);
  return pid;
}

int
bus_end (pid_t pid, int signum)
{
  int status;

  if (signum != 0)
    kill (pid, signum);
  while (waitpid (pid, &status, 0) < 0)
    g_assert_cmpint (errno, ==, EINTR);
  return status;
}

GUnixFDList *
bus_open_proc (pid_t pid, const char *name, int flags)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/%s", pid, name);
  int fd = open (path, flags | O_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  return g_unix_fd_list_new_from_array (&fd, 1);
}

gboolean
bus_profile (GDBusConnection *bus,
             GVariant *options,
             GUnixFDList *fds,
             char **session,
             int *capture,
             GError **error)
{
  g_autoptr (GUnixFDList) answer_fds = NULL;
  g_autoptr (GVariant) answer = NULL;
  int handle;

  answer = g_dbus_connection_call_with_unix_fd_list_sync (
      bus, SERVICE, MANAGER_PATH, SERVICE ".Manager", "Profile",
      g_variant_new ("(@a{sv})", options), G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE,
      BUS_CALL_MS, fds, &answer_fds, NULL, error);
  if (answer == NULL)
    return FALSE;

  g_variant_get (answer, "(oh)", session, &handle);
  *capture = g_unix_fd_list_get (answer_fds, handle, error);
  return *capture >= 0;
}

static GVariant *
merge_options (GVariant *first, GVariant *more)
{
  g_autoptr (GVariant) base = g_variant_ref_sink (first);
  g_autoptr (GVariant) extra = g_variant_ref_sink (more);
  g_autoptr (GVariantDict) dict = g_variant_dict_new (base);
  GVariantIter iter;
  const char *key;
  GVariant *value;

  g_variant_iter_init (&iter, extra);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    g_variant_dict_insert_value (dict, key, value);
  return g_variant_dict_end (dict);
}

void
bus_profile_pid (GDBusConnection *bus, pid_t pid, GVariant *more, char **session, int *capture)
{
  g_autoptr (GUnixFDList) fds = bus_open_proc (pid, "maps", O_RDONLY);
  g_autoptr (GError) error = NULL;
  GVariant *options = g_variant_new_parsed ("{'targets': <[(%u, %h)]>}", (guint32) pid, 0);

  if (more != NULL)
    options = merge_options (options, more);
  bus_profile (bus, options, fds, session, capture, &error);
  g_assert_no_error (error);
}

GVariant *
bus_session_call (GDBusConnection *bus,
                  const char *session,
                  const char *method,
                  GVariant *arguments,
                  GUnixFDList *fds,
                  GError **error)
{
  return g_dbus_connection_call_with_unix_fd_list_sync (
      bus, SERVICE, session, SERVICE ".Session", method, arguments, NULL, G_DBUS_CALL_FLAGS_NONE,
      BUS_CALL_MS, fds, NULL, NULL, error);
}

GVariant *
bus_stop (GDBusConnection *bus, const char *session)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = bus_session_call (bus, session, "Stop", NULL, NULL, &error);

  g_assert_no_error (error);
  return g_variant_get_child_value (answer, 0);
}

GVariant *
bus_get (
    GDBusConnection *bus, const char *path, const char *interface, const char *name, GError **error)
{
  g_autoptr (GVariant) answer = NULL;
  GVariant *value = NULL;

  answer = g_dbus_connection_call_sync (bus, SERVICE, path, "org.freedesktop.DBus.Properties",
                                        "Get", g_variant_new ("(ss)", interface, name),
                                        G_VARIANT_TYPE ("(v)"), G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS,
                                        NULL, error);
  if (answer != NULL)
    g_variant_get (answer, "(v)", &value);
  return value;
}

GVariant *
bus_session_get (GDBusConnection *bus, const char *session, const char *name, GError **error)
{
  return bus_get (bus, session, SERVICE ".Session", name, error);
}

void
bus_assert_error (const GError *error, const char *name)
{
  g_autofree char *expected = g_strconcat (SERVICE ".Error.", name, NULL);
  g_autofree char *remote = NULL;

  g_assert_nonnull (error);
  remote = g_dbus_error_get_remote_error (error);
  g_test_message ("%s", error->message);
  g_assert_cmpstr (remote, ==, expected);
}

pid_t
bus_service_pid (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  guint32 pid;

  answer = g_dbus_connection_call_sync (bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                        "org.freedesktop.DBus", "GetConnectionUnixProcessID",
                                        g_variant_new ("(s)", SERVICE), G_VARIANT_TYPE ("(u)"),
                                        G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);
  g_assert_no_error (error);
  g_variant_get (answer, "(u)", &pid);
  return (pid_t) pid;
}

static pid_t
read_parent (const char *pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%s/stat", pid);
  g_autofree char *stat = NULL;
  const char *behind_comm;
  int parent;
  char state;

  /* The name may hold anything, so count from its last parenthesis. A zombie is not a process. */
  if (!g_file_get_contents (path, &stat, NULL, NULL) || (behind_comm = strrchr (stat, ')')) == NULL
      || sscanf (behind_comm, ") %c %d", &state, &parent) != 2 || state == 'Z')
    return -1;
  return parent;
}

pid_t
bus_parent (pid_t pid)
{
  g_autofree char *text = g_strdup_printf ("%d", (int) pid);

  return read_parent (text);
}

static gboolean
is_called (pid_t pid, const char *name)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/comm", (int) pid);
  g_autofree char *comm = NULL;

  return g_file_get_contents (path, &comm, NULL, NULL) && g_str_equal (g_strchomp (comm), name);
}

static GArray *
list_own_children (pid_t pid)
{
  GArray *children = g_array_new (FALSE, FALSE, sizeof (pid_t));
  DIR *proc = opendir ("/proc");
  struct dirent *entry;

  g_assert_nonnull (proc);
  while ((entry = readdir (proc)) != NULL)
    if (g_ascii_isdigit (entry->d_name[0]) && read_parent (entry->d_name) == pid)
      {
        pid_t child = atoi (entry->d_name);

        g_array_append_val (children, child);
      }
  closedir (proc);
  return children;
}

GArray *
bus_list_children (pid_t pid)
{
  GArray *children = list_own_children (pid);

  for (guint i = 0; i < children->len; i++)
    {
      pid_t child = g_array_index (children, pid_t, i);
      g_autoptr (GArray) spawned = NULL;

      if (!is_called (child, "sonde-spawner"))
        continue;
      spawned = list_own_children (child);
      g_array_remove_index (children, i);
      g_array_append_vals (children, spawned->data, spawned->len);
      break;
    }
  return children;
}

static GArray *
list_of_kind (pid_t pid, gboolean are_brokers)
{
  GArray *children = bus_list_children (pid);

  for (guint i = children->len; i > 0; i--)
    if (is_called (g_array_index (children, pid_t, i - 1), "sonde-broker") != are_brokers)
      g_array_remove_index (children, i - 1);
  return children;
}

GArray *
bus_list_workers (pid_t pid)
{
  return list_of_kind (pid, FALSE);
}

GArray *
bus_list_brokers (pid_t pid)
{
  return list_of_kind (pid, TRUE);
}

guint
bus_count_fds (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/fd", pid);
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  guint n_fds = 0;

  g_assert_nonnull (dir);
  while (g_dir_read_name (dir) != NULL)
    n_fds++;
  return n_fds;
}

static gboolean
wake_up (gpointer user_data)
{
  return G_SOURCE_CONTINUE;
}

void
bus_wait (BusCondition done, gpointer user_data, const char *what)
{
  gint64 deadline = g_get_monotonic_time () + BUS_DEADLINE_S * G_USEC_PER_SEC;
  guint timer = g_timeout_add (5, wake_up, NULL);

  while (!done (user_data))
    {
      if (g_get_monotonic_time () > deadline)
        g_error ("waited in vain: %s", what);
      g_main_context_iteration (NULL, TRUE);
    }
  g_source_remove (timer);
}

typedef struct
{
  pid_t pid;
  guint n_fds;
  guint n_looks; /* in a row that found it at rest, with n_fds */
} Rest;

static gboolean
is_at_rest (gpointer user_data)
{
  Rest *self = user_data;
  g_autoptr (GArray) workers = bus_list_workers (self->pid);
  g_autoptr (GArray) brokers = bus_list_brokers (self->pid);
  guint n_fds = bus_count_fds (self->pid);

  self->n_looks
      = workers->len == 0 && brokers->len <= 1 && n_fds == self->n_fds ? self->n_looks + 1 : 0;
  self->n_fds = n_fds;
  return self->n_looks >= 20;
}

guint
bus_wait_at_rest (pid_t pid)
{
  Rest rest = { .pid = pid };

  bus_wait (is_at_rest, &rest, "the end of all workers");
  return rest.n_fds;
}

typedef struct
{
  GHashTable *finished;
  const char *session;
} Finish;

static gboolean
has_finished (gpointer user_data)
{
  const Finish *self = user_data;

  return g_hash_table_contains (self->finished, self->session);
}

char *
bus_wait_finished (GDBusConnection *bus, const char *session)
{
  GHashTable *finished = g_object_get_data (G_OBJECT (bus), FINISHED);
  Finish finish = { finished, session };

  bus_wait (has_finished, &finish, "the session's Finished signal");
  return g_strdup (g_hash_table_lookup (finished, session));
}

static void
report_ready (void)
{
  if (write (STDOUT_FILENO, "", 1) != 1)
    _exit (1);
}

static void
spin (void)
{
  volatile unsigned n = 0;

  for (;;)
    n = n + 1;
}

static void
exec_sleep (int signum)
{
  execl ("/bin/sleep", "sleep", "1000", NULL);
  _exit (127);
}

static void *
spin_thread (void *unused)
{
  spin ();
  return NULL;
}

/* The whole of what a user's program does, as that user from end to end. */
static int
profile_self (gboolean reads)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GDBusConnection) bus = NULL;
  g_autofree char *session = NULL;
  CaptureSummary summary;
  int capture = -1;

  bus = g_dbus_connection_new_for_address_sync (
      g_getenv ("DBUS_SYSTEM_BUS_ADDRESS"),
      G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT
          | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
      NULL, NULL, &error);
  g_assert_no_error (error);
  g_thread_unref (g_thread_new ("spin", spin_thread, NULL));
  bus_profile_pid (bus, getpid (),
                   reads ? g_variant_new_parsed ("{'duration': <%t>}", (guint64) 1000000) : NULL,
                   &session, &capture);
  report_ready ();
  if (!reads)
    pause ();
  capture_summary_read (&summary, capture, getpid ());
  capture_summary_assert_whole (&summary);
  return 0;
}

void
bus_child_main (int argc, char **argv)
{
  const char *what = argc == 2 && g_str_equal (argv[0], "bus-child") ? argv[1] : NULL;

  if (what == NULL)
    return;
  if (g_str_equal (what, child_names[BUS_CHILD_CLIENT])
      || g_str_equal (what, child_names[BUS_CHILD_PROFILE]))
    _exit (profile_self (g_str_equal (what, child_names[BUS_CHILD_PROFILE])));

  signal (SIGUSR1, exec_sleep);
  report_ready ();
  if (g_str_equal (what, child_names[BUS_CHILD_SPIN]))
    spin ();
  for (;;)
    pause ();
}
