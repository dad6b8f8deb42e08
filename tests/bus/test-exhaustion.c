/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sonded that has no descriptors left: it refuses by the limit's name, and nothing else suffers.
 */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"
#include "tests/lib/packet-socket.h"

enum
{
  N_USERS = 3,
  N_STARTS = 300,
  FEW_FDS = 256,
  N_FLOOD = 2000000,
  FEWER_FDS = 110, /* room for some sessions beside the reserve */
};

/* Of the running sonded; puts back what was. */
typedef struct
{
  pid_t pid;
  struct rlimit before;
} FdLimit;

/* @run returns whether it worked. In a process of its own. */
static void
as_service (gboolean (*run) (gpointer user_data), gpointer user_data)
{
  int status;
  pid_t child = fork ();

  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    _exit (setresgid (BUS_SERVICE_UID, BUS_SERVICE_UID, BUS_SERVICE_UID) < 0
           || setresuid (BUS_SERVICE_UID, BUS_SERVICE_UID, BUS_SERVICE_UID) < 0
           || !run (user_data));
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
}

typedef struct
{
  pid_t pid;
  const struct rlimit *limit;
} LimitChange;

static gboolean
change_limit_now (gpointer user_data)
{
  const LimitChange *self = user_data;

  return prlimit (self->pid, RLIMIT_NOFILE, self->limit, NULL) == 0;
}

/* Root itself may need a capability for the limits of others, which containers lack. */
static void
change_limit (pid_t pid, const struct rlimit *limit)
{
  as_service (change_limit_now, &(LimitChange){ pid, limit });
}

static void
fd_limit_set (FdLimit *self, pid_t pid, rlim_t n_fds)
{
  struct rlimit limit;

  self->pid = pid;
  /* It has ours, but for what it has raised itself. */
  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &self->before), ==, 0);
  self->before.rlim_cur = self->before.rlim_max;
  limit = self->before;
  limit.rlim_cur = n_fds;
  change_limit (pid, &limit);
}

static void
fd_limit_clear (FdLimit *self)
{
  if (self->pid != 0)
    change_limit (self->pid, &self->before);
  self->pid = 0;
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (FdLimit, fd_limit_clear)

/* Makes sonded run, and tells its number. */
static pid_t
find_service (const BusUser *user)
{
  bus_assert_answers (user->bus);
  return bus_service_pid (user->bus);
}

static gboolean
start (const BusUser *user, char **session, int *capture, GError **error)
{
  g_autoptr (GUnixFDList) fds = bus_open_proc (user->target, "maps", O_RDONLY | O_CLOEXEC);
  GVariant *options = g_variant_new_parsed ("{'targets': <[(%u, @h 0)]>}", (guint32) user->target);

  return bus_profile (user->bus, options, fds, session, capture, error);
}

/* One that must not work, for want of descriptors. */
static void
assert_start_refused (const BusUser *user)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture = -1;

  g_assert_false (start (user, &session, &capture, &error));
  bus_assert_error (error, "LimitExceeded");
  g_assert_nonnull (strstr (error->message, "Limit descriptors: "));
}

static void
test_cut_messages (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  int capture = -1;
  pid_t sonded;

  bus_user_init (&user, BUS_CHILD_WAIT);
  sonded = find_service (&user);
  /* None at all, and one that the message's own takes. */
  for (guint n_free = 0; n_free < 3; n_free++)
    {
      g_auto (FdLimit) limit = { 0 };

      fd_limit_set (&limit, sonded, bus_count_fds (sonded) + n_free);
      assert_start_refused (&user);
      bus_assert_answers (user.bus);
    }
  g_assert_true (start (&user, &session, &capture, &error));
  g_assert_no_error (error);
  g_variant_unref (bus_stop (user.bus, session));
  close (capture);
  g_assert_cmpint (bus_service_pid (user.bus), ==, sonded);
}

static void
assert_lost_nothing (BusUser *user, const char *session, int capture)
{
  g_autoptr (GVariant) statistics = bus_stop (user->bus, session);
  static const char *const losses[] = { "lost-kernel", "lost-ring", "lost-queue", "stream-lost" };
  CaptureSummary summary;

  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    {
      guint64 n = G_MAXUINT64;

      g_assert_true (g_variant_lookup (statistics, losses[i], "t", &n));
      g_assert_cmpuint (n, ==, 0);
    }
  capture_summary_read (&summary, capture, user->target);
  capture_summary_assert_whole (&summary);
}

/* Returns how many started; the rest was refused by a limit. */
static guint
start_many (BusUser *users, guint n_users, guint n_starts, GArray *captures)
{
  guint n_started = 0;

  for (guint i = 0; i < n_starts; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *session = NULL;
      int capture = -1;

      if (start (&users[i % n_users], &session, &capture, &error))
        {
          n_started++;
          g_array_append_val (captures, capture);
        }
      else
        bus_assert_error (error, "LimitExceeded");
    }
  return n_started;
}

/* Sessions end with their last reader. */
static void
close_all (GArray *captures)
{
  for (guint i = 0; i < captures->len; i++)
    close (g_array_index (captures, int, i));
  g_array_set_size (captures, 0);
}

typedef struct
{
  pid_t sonded;
  guint n_fds;
} Held;

static gboolean
holds_no_more (gpointer user_data)
{
  const Held *before = user_data;

  return bus_count_fds (before->sonded) <= before->n_fds;
}

static void
test_many_starts (void)
{
  g_auto (BusUser) reader = { 0 };
  BusUser users[N_USERS] = { 0 };
  g_autoptr (GArray) captures = g_array_new (FALSE, FALSE, sizeof (int));
  g_auto (FdLimit) limit = { 0 };
  g_autofree char *session = NULL;
  int capture = -1;
  Held before;
  guint n_started;

  bus_user_init (&reader, BUS_CHILD_SPIN);
  for (guint i = 0; i < N_USERS; i++)
    bus_user_init (&users[i], BUS_CHILD_WAIT);
  before.sonded = find_service (&reader);
  bus_profile_pid (reader.bus, reader.target, NULL, &session, &capture);
  before.n_fds = bus_count_fds (before.sonded);
  fd_limit_set (&limit, before.sonded, FEW_FDS);

  n_started = start_many (users, N_USERS, N_STARTS, captures);
  g_test_message ("%u of %u starts of %d users, with %d descriptors", n_started, N_STARTS, N_USERS,
                  FEW_FDS);
  g_assert_cmpuint (n_started, >=, N_USERS);
  close_all (captures);
  bus_wait (holds_no_more, &before, "the end of all that was started");
  assert_lost_nothing (&reader, session, capture);
  for (guint i = 0; i < N_USERS; i++)
    bus_user_clear (&users[i]);
}

/* Sent by who counts as sonded does, and received by nobody. */
typedef struct
{
  int ends[2];
} Flight;

/* More than a sonded with FEW_FDS may add to. */
static gboolean
send_many (gpointer user_data)
{
  const Flight *self = user_data;
  int null = open ("/dev/null", O_RDONLY | O_CLOEXEC);
  int fds[128];

  for (gsize i = 0; i < G_N_ELEMENTS (fds); i++)
    fds[i] = null;
  for (gsize n_sent = 0; n_sent <= FEW_FDS; n_sent += G_N_ELEMENTS (fds))
    if (packet_socket_send (self->ends[0], "", 1, fds, G_N_ELEMENTS (fds), MSG_DONTWAIT) != 1)
      return FALSE;
  return TRUE;
}

static void
flight_begin (Flight *self)
{
  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, self->ends), ==, 0);
  as_service (send_many, self);
}

static void
flight_end (Flight *self)
{
  close (self->ends[0]);
  close (self->ends[1]);
}

/* An answer whose descriptor the kernel does not take would be the end of the connection. */
static void
test_flight (void)
{
  g_auto (BusUser) reader = { 0 };
  g_auto (FdLimit) limit = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GVariant) no_answer = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  Flight flight;
  int capture = -1;
  pid_t sonded;

  bus_user_init (&reader, BUS_CHILD_SPIN);
  sonded = find_service (&reader);
  bus_profile_pid (reader.bus, reader.target, NULL, &session, &capture);
  bus_wait_samples (reader.bus, session, 0);
  fd_limit_set (&limit, sonded, FEW_FDS);

  flight_begin (&flight);
  assert_start_refused (&reader);
  no_answer = bus_session_call (reader.bus, session, "OpenCapture",
                                g_variant_new_parsed ("(@a{sv} {},)"), NULL, &error);
  g_assert_null (no_answer);
  bus_assert_error (error, "LimitExceeded");
  g_assert_nonnull (strstr (error->message, "Limit descriptors: "));
  flight_end (&flight);

  g_clear_error (&error);
  answer = bus_session_call (reader.bus, session, "OpenCapture",
                             g_variant_new_parsed ("(@a{sv} {},)"), NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (bus_service_pid (reader.bus), ==, sonded);
  assert_lost_nothing (&reader, session, capture);
}

/* Root has no rate to be stopped by. */
static void
test_last_descriptors (void)
{
  g_auto (BusUser) reader = { 0 };
  BusUser root = { 0 };
  g_autoptr (GArray) captures = g_array_new (FALSE, FALSE, sizeof (int));
  g_auto (FdLimit) limit = { 0 };
  g_autofree char *session = NULL;
  int capture = -1;
  Held before;
  guint n_started;

  bus_user_init (&reader, BUS_CHILD_SPIN);
  root.bus = bus_connect (0);
  root.target = bus_spawn (0, BUS_CHILD_WAIT);
  before.sonded = find_service (&reader);
  bus_profile_pid (reader.bus, reader.target, NULL, &session, &capture);
  before.n_fds = bus_count_fds (before.sonded);
  fd_limit_set (&limit, before.sonded, before.n_fds + FEWER_FDS);

  n_started = start_many (&root, 1, 30, captures);
  g_test_message ("%u of 30 starts of root, with %d descriptors more", n_started, FEWER_FDS);
  g_assert_cmpuint (n_started, >=, 1);
  g_assert_cmpuint (n_started, <, 30);
  assert_start_refused (&root);
  /* The reserve: a call with descriptors is still understood, and refused for its own reason. */
  bus_assert_answers (reader.bus);
  close_all (captures);
  bus_wait (holds_no_more, &before, "the end of all that was started");
  assert_lost_nothing (&reader, session, capture);
  bus_user_clear (&root);
}

/* Of a process, in KiB. */
static guint64
read_status (pid_t pid, const char *key)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", pid);
  g_autofree char *text = NULL;
  const char *line;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  line = strstr (text, key);
  g_assert_nonnull (line);
  return g_ascii_strtoull (line + strlen (key), NULL, 10);
}

/* As much as the bus passes on: two million options without a name. sd-bus, since GDBus would need
 * gigabytes and a minute for it. */
static sd_bus_message *
make_flood (sd_bus *bus)
{
  sd_bus_message *message = NULL;
  const guint8 byte = 1;

  g_assert_cmpint (sd_bus_message_new_method_call (bus, &message, "org.sonde.Profiler1",
                                                   "/org/sonde/Profiler1",
                                                   "org.sonde.Profiler1.Manager", "Profile"),
                   >=, 0);
  g_assert_cmpint (sd_bus_message_open_container (message, 'a', "{sv}"), >=, 0);
  /* whose memory sanitizers watch byte by byte */
  for (guint i = 0; i < (WITH_SANITIZERS ? N_FLOOD / 10 : N_FLOOD); i++)
    g_assert_cmpint (sd_bus_message_append (message, "{sv}", "", "y", byte), >=, 0);
  g_assert_cmpint (sd_bus_message_close_container (message), >=, 0);
  return message;
}

static gboolean
is_small_again (gpointer pid)
{
  return read_status (*(pid_t *) pid, "VmRSS:") <= 12 * 1024;
}

static void
test_flood (void)
{
  g_autoptr (GDBusConnection) connection = bus_connect (0);
  sd_bus *bus = NULL;
  sd_bus_message *message;
  g_autofree char *clear_refs = NULL;
  pid_t pid;
  int fd;

  bus_assert_answers (connection);
  pid = bus_service_pid (connection);
  g_assert_cmpint (sd_bus_open_system (&bus), >=, 0);
  message = make_flood (bus);
  clear_refs = g_strdup_printf ("/proc/%d/clear_refs", pid);
  fd = open (clear_refs, O_WRONLY | O_CLOEXEC);
  g_assert_cmpint (write (fd, "5", 1), ==, 1);
  close (fd);
  for (guint i = 0; i < 3; i++)
    {
      sd_bus_error error = SD_BUS_ERROR_NULL;

      g_assert_cmpint (
          sd_bus_call (bus, message, BUS_CALL_MS * G_GUINT64_CONSTANT (1000), &error, NULL), <, 0);
      g_assert_cmpstr (error.name, ==, "org.sonde.Profiler1.Error.LimitExceeded");
      g_assert_true (g_str_has_prefix (error.message, "Limit message-entries: "));
      sd_bus_error_free (&error);
    }
  if (!WITH_SANITIZERS)
    {
      g_assert_cmpuint (read_status (pid, "VmHWM:"), <=, 48 * 1024);
      /* It answers before it has given all of the message back. */
      bus_wait (is_small_again, &pid, "the memory of a message");
    }
  g_test_message ("%" G_GUINT64_FORMAT " KiB at most, %" G_GUINT64_FORMAT " KiB after",
                  read_status (pid, "VmHWM:"), read_status (pid, "VmRSS:"));
  g_assert_cmpint (bus_service_pid (connection), ==, pid);
  sd_bus_message_unref (message);
  sd_bus_flush_close_unref (bus);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/exhaustion/" path, function)
  ADD ("refuses-calls-whose-descriptors-do-not-fit", test_cut_messages);
  ADD ("refuses-what-would-send-descriptors-when-none-can-be", test_flight);
  ADD ("300-starts-of-three-users-cost-nobody-else", test_many_starts);
  ADD ("refuses-31-mib-of-options-at-the-cost-of-their-bytes", test_flood);
  ADD ("keeps-a-reserve-even-from-root", test_last_descriptors);
#undef ADD
  return g_test_run ();
}
