/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Units of a systemd that this test plays, and control groups by path, all of them real. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"
#include "tests/lib/fake-systemd.h"

/* --- control groups --- */

static const char *
find_root (gboolean is_unified)
{
  static const char *const unified[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified", NULL };
  static const char *const named[] = { "/sys/fs/cgroup/systemd", NULL };
  const char *const *roots = is_unified ? unified : named;
  struct statfs fs;

  for (; *roots != NULL; roots++)
    if (statfs (*roots, &fs) == 0
        && fs.f_type == (is_unified ? CGROUP2_SUPER_MAGIC : CGROUP_SUPER_MAGIC))
      return *roots;
  return NULL;
}

static char *
make_group (const char *root, const char *path)
{
  char *directory = g_strconcat (root, path, NULL);

  g_assert_cmpint (mkdir (directory, 0755), ==, 0);
  return directory;
}

static void
join_group (const char *directory, pid_t pid)
{
  g_autofree char *path = g_build_filename (directory, "cgroup.procs", NULL);
  g_autofree char *text = g_strdup_printf ("%d", (int) pid);
  int fd = open (path, O_WRONLY | O_CLOEXEC);

  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));
  close (fd);
}

static void
remove_group (char *directory)
{
  g_assert_cmpint (rmdir (directory), ==, 0);
  g_free (directory);
}

/* --- captures --- */

/* All that comes, in a file of its own. */
static int
read_capture (int fd)
{
  int copy = memfd_create ("capture", MFD_CLOEXEC);
  char bytes[65536];
  gssize n;

  fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) & ~O_NONBLOCK);
  while ((n = read (fd, bytes, sizeof bytes)) > 0)
    g_assert_cmpint (write (copy, bytes, (gsize) n), ==, n);
  g_assert_cmpint (n, ==, 0);
  close (fd);
  return copy;
}

static gboolean
holds_text (int fd, const char *text)
{
  off_t size = lseek (fd, 0, SEEK_END);
  void *bytes = mmap (NULL, (gsize) size, PROT_READ, MAP_SHARED, fd, 0);
  gboolean found = memmem (bytes, (gsize) size, text, strlen (text)) != NULL;

  munmap (bytes, (gsize) size);
  return found;
}

static void
assert_samples (int fd, pid_t pid, gboolean are_expected)
{
  CaptureSummary summary;
  int copy = dup (fd);

  g_assert_cmpint (lseek (copy, 0, SEEK_SET), ==, 0);
  capture_summary_read (&summary, copy, pid);
  g_assert_cmpint (summary.status, ==, 0);
  g_assert_cmpint (summary.n_samples_of_pid > 0, ==, are_expected);
}

static GVariant *
unit_options (const char *unit)
{
  return g_variant_new_parsed ("{'unit': <%s>}", unit);
}

static GVariant *
group_options (const char *path)
{
  return g_variant_new_parsed ("{'cgroup': <%s>}", path);
}

/* Returns the error's message. */
static char *
assert_options_refused (uid_t uid, GVariant *options, const char *name)
{
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture = -1;

  g_assert_false (bus_profile (bus, options, NULL, &session, &capture, &error));
  bus_assert_error (error, name);
  return g_strdup (error->message);
}

static char *
assert_refused (uid_t uid, const char *unit, const char *name)
{
  return assert_options_refused (uid, unit_options (unit), name);
}

/* --- cases --- */

static void
test_unauthorised (void)
{
  g_auto (FakeSystemd) systemd = { 0 };
  uid_t uid = bus_next_uid ();
  g_autofree char *there = NULL;
  g_autofree char *not_there = NULL;

  fake_systemd_start (&systemd, "unit.service", "/system.slice");
  there = assert_refused (uid, "unit.service", "NotAuthorized");
  not_there = assert_refused (uid, "missing.service", "NotAuthorized");
  g_assert_cmpstr (there, ==, not_there);
  g_assert_cmpint (g_atomic_int_get (&systemd.n_asked), ==, 0);
}

static void
test_no_systemd (void)
{
  g_free (assert_refused (0, "unit.service", "NotSupported"));
}

static void
test_not_running (void)
{
  g_auto (FakeSystemd) systemd = { 0 };

  fake_systemd_start (&systemd, "unit.service", "");
  g_free (assert_refused (0, "missing.service", "NoSuchProcess"));
  g_free (assert_refused (0, "unit.service", "NoSuchProcess"));
}

static void
test_foreign_paths (void)
{
  static const char *const paths[] = { "/", "/..", "/../../proc/self", "relative", "/a/../../b" };

  for (gsize i = 0; i < G_N_ELEMENTS (paths); i++)
    {
      g_auto (FakeSystemd) systemd = { 0 };
      g_autofree char *message = NULL;

      fake_systemd_start (&systemd, "unit.service", paths[i]);
      message = assert_refused (0, "unit.service",
                                g_str_equal (paths[i], "/a/../../b") ? "NoSuchProcess" : "Failed");
      g_assert_nonnull (strstr (message, "unit"));
    }
}

/* Whoever else calls is not kept waiting. */
static void
test_silence (void)
{
  g_auto (FakeSystemd) systemd = { .silent = TRUE };

  fake_systemd_start (&systemd, "unit.service", "");
  g_free (assert_refused (0, "unit.service", "NotSupported"));
}

typedef struct
{
  GDBusConnection *bus;
  const char *session;
} Profiled;

/* Enough for each of the programs that share the machine's CPUs to have had its turn. */
static gboolean
has_samples (gpointer user_data)
{
  const Profiled *profiled = user_data;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) statistics
      = bus_session_get (profiled->bus, profiled->session, "Statistics", &error);
  guint64 n_recorded;

  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (statistics, "recorded", "t", &n_recorded));
  return n_recorded >= 500;
}

/* @by_path: nobody is asked where the unit is */
static void
check_members (gboolean is_unified, gboolean by_path)
{
  const char *root = find_root (is_unified);
  g_auto (FakeSystemd) systemd = { 0 };
  g_autofree char *path = g_strdup_printf ("/sonde-bus-%d", (int) getpid ());
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autoptr (GVariant) statistics = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  pid_t member, inner_member, stranger;
  char *directory, *inner;
  int capture = -1;

  if (root == NULL)
    {
      g_test_skip ("no control groups of that version are mounted");
      return;
    }
  member = bus_spawn (bus_next_uid (), BUS_CHILD_SPIN);
  inner_member = bus_spawn (bus_next_uid (), BUS_CHILD_SPIN);
  stranger = bus_spawn (bus_next_uid (), BUS_CHILD_SPIN);
  directory = make_group (root, path);
  inner = make_group (directory, "/inner");
  join_group (directory, member);
  join_group (inner, inner_member);
  if (!by_path)
    fake_systemd_start (&systemd, "unit.service", path);
  g_assert_true (bus_profile (bus, by_path ? group_options (path) : unit_options ("unit.service"),
                              NULL, &session, &capture, &error));
  g_assert_no_error (error);
  bus_wait (has_samples, &(Profiled){ bus, session }, "samples of all members");
  statistics = bus_stop (bus, session);
  capture = read_capture (capture);
  assert_samples (capture, member, TRUE);
  assert_samples (capture, inner_member, TRUE);
  assert_samples (capture, stranger, FALSE);
  g_assert_cmpint (holds_text (capture, "watched one by one"), ==, !is_unified);
  close (capture);
  bus_end (member, SIGKILL);
  bus_end (inner_member, SIGKILL);
  bus_end (stranger, SIGKILL);
  remove_group (inner);
  remove_group (directory);
}

/* A unit ends when its last process does, also a unit below it. */
static void
check_end (gboolean is_unified)
{
  const char *root = find_root (is_unified);
  g_auto (FakeSystemd) systemd = { 0 };
  g_autofree char *path = g_strdup_printf ("/sonde-bus-%d", (int) getpid ());
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autofree char *message = NULL;
  pid_t first, last;
  char *directory, *inner;
  g_autofree char *finished = NULL;
  int capture = -1;

  if (root == NULL)
    {
      g_test_skip ("no control groups of that version are mounted");
      return;
    }
  directory = make_group (root, path);
  inner = make_group (directory, "/inner");
  fake_systemd_start (&systemd, "unit.service", path);
  message = assert_refused (0, "unit.service", "NoSuchProcess");
  g_assert_nonnull (strstr (message, "has no process"));
  first = bus_spawn (bus_next_uid (), BUS_CHILD_WAIT);
  last = bus_spawn (bus_next_uid (), BUS_CHILD_WAIT);
  join_group (directory, first);
  join_group (inner, last);
  g_assert_true (
      bus_profile (bus, unit_options ("unit.service"), NULL, &session, &capture, &error));
  g_assert_no_error (error);
  bus_end (first, SIGKILL);
  bus_assert_state (bus, session, "running");
  bus_end (last, SIGKILL);
  close (read_capture (capture));
  finished = bus_wait_finished (bus, session);
  g_assert_cmpstr (finished, ==, "targets-exited");
  remove_group (inner);
  remove_group (directory);
}

static void
test_kernel_tells_end (void)
{
  check_end (TRUE);
}

static void
test_end_is_looked_for (void)
{
  check_end (FALSE);
}

static void
test_kernel_watches (void)
{
  check_members (TRUE, FALSE);
}

static void
test_members_are_watched (void)
{
  check_members (FALSE, FALSE);
}

static void
test_paths (void)
{
  check_members (find_root (TRUE) != NULL, TRUE);
}

/* Who asks for a path learns nothing of what is there, unless he may record all of it. */
static void
test_refused_paths (void)
{
  /* What root is told, and a user. */
  static const char *const rows[][3]
      = { { "/..", "InvalidOption", "InvalidOption" },
          { "/../../proc/self", "InvalidOption", "InvalidOption" },
          { "/sonde-no-such-group", "NoSuchProcess", "NotAuthorized" } };
  uid_t uid = bus_next_uid ();

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *to_root = assert_options_refused (0, group_options (rows[i][0]), rows[i][1]);
      g_autofree char *to_user
          = assert_options_refused (uid, group_options (rows[i][0]), rows[i][2]);

      g_assert_true (g_strstr_len (to_root, -1, "cgroup: ") != NULL);
      g_assert_null (strstr (to_user, rows[i][0]));
    }
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/unit/refuses-others-before-it-looks", test_unauthorised);
  g_test_add_func ("/unit/refuses-without-systemd", test_no_systemd);
  g_test_add_func ("/unit/refuses-what-does-not-run", test_not_running);
  g_test_add_func ("/unit/refuses-paths-that-lead-elsewhere", test_foreign_paths);
  g_test_add_func ("/unit/refuses-when-systemd-is-silent", test_silence);
  g_test_add_func ("/unit/is-watched-by-the-kernel", test_kernel_watches);
  g_test_add_func ("/unit/is-watched-by-its-members", test_members_are_watched);
  g_test_add_func ("/unit/control-groups-by-path-are-watched", test_paths);
  g_test_add_func ("/unit/refuses-paths-before-it-looks", test_refused_paths);
  g_test_add_func ("/unit/ends-with-its-last-process", test_kernel_tells_end);
  g_test_add_func ("/unit/ends-where-the-kernel-does-not-tell", test_end_is_looked_for);
  return g_test_run ();
}
