/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions that outlive their caller and leave a file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"

/* StartSession with a proof for the user's process; @more may be NULL. Returns the path. */
static char *
start (BusUser *user, GVariant *more)
{
  g_autoptr (GUnixFDList) fds = bus_open_proc (user->target, "maps", O_RDONLY);
  g_autoptr (GVariant) given = more != NULL ? g_variant_ref_sink (more) : NULL;
  g_autoptr (GVariantDict) dict = g_variant_dict_new (given);
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  char *session = NULL;

  g_variant_dict_insert_value (dict, "targets",
                               g_variant_new_parsed ("[(%u, %h)]", (guint32) user->target, 0));
  answer = bus_manager_call (user->bus, "StartSession",
                             g_variant_new ("(@a{sv})", g_variant_dict_end (dict)), fds, &error);
  g_assert_no_error (error);
  g_variant_get (answer, "(o)", &session);
  return session;
}

typedef struct
{
  GDBusConnection *bus;
  const char *session;
  const char *state;
} Wait;

static gboolean
has_state (gpointer user_data)
{
  const Wait *wait = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) value = bus_session_get (wait->bus, wait->session, "State", &error);

  g_assert_no_error (error);
  return g_str_equal (g_variant_get_string (value, NULL), wait->state);
}

static char *
get_file (GDBusConnection *bus, const char *session)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) value = bus_session_get (bus, session, "CaptureFile", &error);

  g_assert_no_error (error);
  return g_variant_dup_string (value, NULL);
}

static void
assert_whole (int fd, pid_t pid)
{
  CaptureSummary summary;

  capture_summary_read (&summary, fd, pid);
  capture_summary_assert_whole (&summary);
}

/* The caller leaves; another connection of his finds the session, ends it and reads the file. */
static void
test_caller_leaves (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GDBusConnection) later = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autofree char *listed = NULL;
  g_autofree char *path = NULL;
  struct stat st;
  int fd;

  bus_user_init (&user, BUS_CHILD_SPIN);
  session = start (&user, g_variant_new_parsed ("{'label': <'later'>}"));
  g_assert_true (g_dbus_connection_close_sync (user.bus, NULL, NULL));
  later = bus_connect (user.uid);
  listed = bus_list_paths (later);
  g_assert_cmpstr (listed, ==, session);
  bus_wait_samples (later, session, 0);
  bus_assert_state (later, session, "running");
  g_variant_unref (bus_stop (later, session));
  bus_wait (has_state, &(Wait){ later, session, "finished" }, "the end of the session");

  path = get_file (later, session);
  g_assert_nonnull (strstr (path, "/captures/later-"));
  g_assert_true (g_str_has_suffix (path, ".syscap"));
  g_assert_cmpint (stat (path, &st), ==, 0);
  g_assert_cmpuint (st.st_mode & 07777, ==, 0640);
  g_assert_cmpuint (st.st_uid, ==, BUS_SERVICE_UID);
  fd = bus_open_capture (later, session, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  assert_whole (fd, user.target);
}

/* As long as it lives others read along, and what they do is nothing to it. */
static void
test_reader_comes_and_goes (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int fd;

  bus_user_init (&user, BUS_CHILD_SPIN);
  session = start (&user, NULL);
  fd = bus_open_capture (user.bus, session, NULL, &error);
  g_assert_no_error (error);
  bus_wait_samples (user.bus, session, 0);
  close (fd);
  bus_wait_samples (user.bus, session, bus_count (user.bus, session, "recorded"));
  bus_assert_state (user.bus, session, "running");
  fd = bus_open_capture (user.bus, session, NULL, &error);
  g_assert_no_error (error);
  g_variant_unref (bus_stop (user.bus, session));
  close (fd);
  bus_wait (has_state, &(Wait){ user.bus, session, "finished" }, "the end of the session");
}

static void
test_finished_takes_no_options (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;

  bus_user_init (&user, BUS_CHILD_SPIN);
  session = start (&user, g_variant_new_parsed ("{'duration': <%t>}", (guint64) 200000));
  bus_wait (has_state, &(Wait){ user.bus, session, "finished" }, "the end of the session");
  g_assert_cmpint (bus_open_capture (user.bus, session,
                                     g_variant_new_parsed ("{'buffer-size': <uint32 65536>}"),
                                     &error),
                   ==, -1);
  bus_assert_error (error, "InvalidOption");
  g_assert_nonnull (strstr (error->message, "buffer-size"));
  g_clear_error (&error);
  g_assert_null (bus_session_call (user.bus, session, "Stop", NULL, NULL, &error));
  bus_assert_error (error, "InvalidState");
  g_clear_error (&error);
  g_assert_null (bus_session_call (user.bus, session, "Pause", NULL, NULL, &error));
  bus_assert_error (error, "InvalidState");
}

static void
test_targets_exit (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autofree char *finished = NULL;
  pid_t target;
  int fd;

  bus_user_init (&user, BUS_CHILD_SPIN);
  session = start (&user, NULL);
  bus_wait_samples (user.bus, session, 0);
  target = user.target;
  user.target = 0;
  bus_end (target, SIGKILL);
  finished = bus_wait_finished (user.bus, session);
  g_assert_cmpstr (finished, ==, "targets-exited");
  fd = bus_open_capture (user.bus, session, NULL, NULL);
  assert_whole (fd, target);
}

/* What ended counts no more among the sessions of its owner. */
static void
test_quota (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *listed = NULL;
  g_auto (GStrv) paths = NULL;

  bus_user_init (&user, BUS_CHILD_SPIN);
  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *session
          = start (&user, g_variant_new_parsed ("{'duration': <%t>}", (guint64) 100000));

      bus_wait (has_state, &(Wait){ user.bus, session, "finished" }, "the end of the session");
    }
  listed = bus_list_paths (user.bus);
  paths = g_strsplit (listed, " ", -1);
  g_assert_cmpuint (g_strv_length (paths), ==, 5);
}

/* Of Profile nothing stays, of a failed start neither. */
static void
test_others_are_gone (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autofree char *listed = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *finished = NULL;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  close (capture);
  finished = bus_wait_finished (user.bus, session);
  g_assert_null (bus_manager_call (user.bus, "StartSession",
                                   g_variant_new_parsed ("({'system': <true>},)"), NULL, &error));
  bus_assert_error (error, "NotAuthorized");
  listed = bus_list_paths (user.bus);
  g_assert_cmpstr (listed, ==, "");
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/lasting/" path, function)
  ADD ("survives-its-caller-and-leaves-a-file", test_caller_leaves);
  ADD ("readers-come-and-go", test_reader_comes_and_goes);
  ADD ("finished-gives-its-file-and-takes-nothing", test_finished_takes_no_options);
  ADD ("exit-of-the-targets-ends-it", test_targets_exit);
  ADD ("finished-ones-do-not-count", test_quota);
  ADD ("nothing-else-stays", test_others_are_gone);
#undef ADD
  return g_test_run ();
}
