/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stored captures by their names: whose they are, and what no name leads to. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/bus-user.h"

/* A session of @user's. Returns: (transfer full): its path; @name: (out): of its capture */
static char *
start (BusUser *user, const char *label, char **name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) path = NULL;
  char *session = bus_start_session (
      user->bus, g_variant_new_parsed ("{'launch': <true>, 'label': <%s>}", label), NULL, &error);

  g_assert_no_error (error);
  path = bus_session_get (user->bus, session, "CaptureFile", &error);
  g_assert_no_error (error);
  *name = g_path_get_basename (g_variant_get_string (path, NULL));
  return session;
}

static void
stop (BusUser *user, const char *session)
{
  g_autofree char *finished = NULL;

  g_variant_unref (bus_stop (user->bus, session));
  finished = bus_wait_finished (user->bus, session);
}

/* The names that @bus sees, separated by spaces. */
static char *
list (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = bus_manager_call (bus, "ListCaptures", NULL, NULL, &error);
  g_autoptr (GVariantIter) iter = NULL;
  g_autoptr (GString) names = g_string_new (NULL);
  const char *name;

  g_assert_no_error (error);
  g_variant_get (answer, "(a(ssttu))", &iter);
  while (g_variant_iter_next (iter, "(&s&sttu)", &name, NULL, NULL, NULL, NULL))
    g_string_append_printf (names, "%s%s", names->len > 0 ? " " : "", name);
  return g_string_free (g_steal_pointer (&names), FALSE);
}

/* The error's name without its prefix; "" if it was granted. */
static char *
call (GDBusConnection *bus, const char *method, const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = bus_manager_call (bus, method, g_variant_new ("(s)", name), NULL, &error);
  g_autofree char *remote = error != NULL ? g_dbus_error_get_remote_error (error) : NULL;

  g_assert_true ((answer == NULL) == (error != NULL));
  return g_strdup (remote != NULL ? strrchr (remote, '.') + 1 : "");
}

static void
assert_answer (GDBusConnection *bus, const char *method, const char *name, const char *expected)
{
  g_autofree char *outcome = call (bus, method, name);

  g_test_message ("%s \"%s\"", method, name);
  g_assert_cmpstr (outcome, ==, expected);
}

static void
test_hostile_names (void)
{
  static const char *const names[] = {
    "",
    "..",
    "../owners",
    "../../../etc/passwd",
    "/etc/passwd",
    "label-20260102T030405Z-1.syscap/../x",
    "../captures/label-20260102T030405Z-1.syscap",
    "la\nbel-20260102T030405Z-1.syscap",
  };
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autoptr (GDBusConnection) user = bus_connect (bus_next_uid ());

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      assert_answer (user, "OpenStoredCapture", names[i], "InvalidOption");
      assert_answer (root, "OpenStoredCapture", names[i], "InvalidOption");
      assert_answer (user, "RemoveCapture", names[i], "InvalidOption");
      assert_answer (root, "RemoveCapture", names[i], "InvalidOption");
    }
}

/* Whoever puts a link into the folder is root, but nothing is read or removed by it. */
static void
test_link (void)
{
  static const char name[] = "label-20260102T030405Z-77.syscap";
  g_autofree char *state = g_build_filename (g_getenv ("PRIVATE_BUS_DIR"), "state", NULL);
  g_autofree char *path = g_build_filename (state, "captures", name, NULL);
  g_autofree char *secret = g_build_filename (state, "secret", NULL);
  g_auto (BusUser) user = { 0 };
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autofree char *links = NULL;
  g_autofree char *link = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_assert_answers (user.bus);
  links = g_strdup_printf ("%s/owners/%u", state, user.uid);
  link = g_build_filename (links, name, NULL);
  g_assert_true (g_file_set_contents (secret, "secret", -1, NULL));
  g_assert_cmpint (g_mkdir_with_parents (links, 0700), ==, 0);
  g_assert_cmpint (chown (links, BUS_SERVICE_UID, 0), ==, 0);
  g_assert_cmpint (symlink (secret, path), ==, 0);
  g_assert_cmpint (symlink (path, link), ==, 0);
  assert_answer (user.bus, "OpenStoredCapture", name, "Failed");
  assert_answer (root, "OpenStoredCapture", name, "Failed");
  assert_answer (user.bus, "RemoveCapture", name, "");
  g_assert_true (g_file_test (secret, G_FILE_TEST_EXISTS));
  g_assert_false (g_file_test (path, G_FILE_TEST_IS_SYMLINK));
}

static void
test_being_written (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (BusUser) other = { 0 };
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autofree char *name = NULL;
  g_autofree char *session = NULL;
  g_autofree char *listed = NULL;
  g_autofree char *of_other = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_WAIT);
  session = start (&user, "live", &name);
  listed = list (user.bus);
  g_assert_cmpstr (listed, ==, name);
  assert_answer (user.bus, "OpenStoredCapture", name, "InvalidState");
  assert_answer (user.bus, "RemoveCapture", name, "InvalidState");
  assert_answer (root, "RemoveCapture", name, "InvalidState");
  assert_answer (other.bus, "OpenStoredCapture", name, "NotAuthorized");
  assert_answer (other.bus, "RemoveCapture", name, "NotAuthorized");
  of_other = list (other.bus);
  g_assert_cmpstr (of_other, ==, "");
  bus_assert_state (user.bus, session, "running");
  stop (&user, session);
  assert_answer (user.bus, "RemoveCapture", name, "");
}

static void
test_life (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GDBusConnection) later = NULL;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autofree char *name = NULL;
  g_autofree char *second = NULL;
  g_autofree char *session = NULL;
  g_autofree char *second_session = NULL;
  g_autofree char *listed = NULL;
  g_autofree char *both = NULL;
  g_autofree char *left = NULL;
  struct stat st;
  int fd;

  bus_user_init (&user, BUS_CHILD_WAIT);
  session = start (&user, "first", &name);
  stop (&user, session);
  second_session = start (&user, "second", &second);
  stop (&user, second_session);

  /* Another connection of his. */
  later = bus_connect (user.uid);
  both = g_strconcat (name, " ", second, NULL);
  listed = list (later);
  g_assert_cmpstr (listed, ==, both);
  answer = g_dbus_connection_call_with_unix_fd_list_sync (
      later, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager",
      "OpenStoredCapture", g_variant_new ("(s)", name), G_VARIANT_TYPE ("(h)"),
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &fds, NULL, &error);
  g_assert_no_error (error);
  fd = g_unix_fd_list_get (fds, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  g_assert_cmpint (fstat (fd, &st), ==, 0);
  g_assert_cmpint (st.st_size, >, 256);
  close (fd);

  assert_answer (later, "RemoveCapture", name, "");
  left = list (later);
  g_assert_cmpstr (left, ==, second);
  assert_answer (later, "RemoveCapture", name, "NotAuthorized");
  assert_answer (later, "OpenStoredCapture", name, "NotAuthorized");
  /* Its session can still be seen, and says that the file is gone. */
  g_assert_cmpint (bus_open_capture (later, session, NULL, &error), ==, -1);
  bus_assert_error (error, "NoSuchSession");
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/captures/" path, function)
  ADD ("names-that-lead-elsewhere-are-refused", test_hostile_names);
  ADD ("a-link-is-not-followed", test_link);
  ADD ("what-is-being-written-stays-and-is-no-strangers", test_being_written);
  ADD ("an-owner-lists-opens-and-removes-his-own", test_life);
#undef ADD
  return g_test_run ();
}
