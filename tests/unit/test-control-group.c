/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Groups that are none of a unit, and who is in one. */
#include "daemon/broker/control-group.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/error.h"

static gboolean
is_of_type (const char *path, long magic)
{
  struct statfs fs;

  return statfs (path, &fs) == 0 && fs.f_type == magic;
}

/* Where this machine has control groups of version 2; NULL: nowhere. */
static const char *
find_unified (void)
{
  static const char *const roots[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

  for (gsize i = 0; i < G_N_ELEMENTS (roots); i++)
    if (is_of_type (roots[i], CGROUP2_SUPER_MAGIC))
      return roots[i];
  return NULL;
}

static gboolean
is_any_mounted (void)
{
  return find_unified () != NULL || is_of_type ("/sys/fs/cgroup/systemd", CGROUP_SUPER_MAGIC);
}

static void
assert_refused_of (const char *path, const char *unit, const char *option, SondeError code)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (sonde_control_group_open (path, unit, &error));
  g_assert_error (error, SONDE_ERROR, (gint) code);
  g_assert_nonnull (strstr (error->message, option));
}

static void
assert_refused (const char *path, SondeError code)
{
  assert_refused_of (path, "cron.service", "Option unit: ", code);
  assert_refused_of (path, "", "Option cgroup: ", code);
}

static void
test_impossible_paths (void)
{
  assert_refused ("", SONDE_ERROR_FAILED);
  assert_refused ("/", SONDE_ERROR_FAILED);
  assert_refused ("system.slice", SONDE_ERROR_FAILED);
  assert_refused ("/system.slice/", SONDE_ERROR_FAILED);
}

static void
test_outside (void)
{
  if (!is_any_mounted ())
    {
      assert_refused ("/system.slice", SONDE_ERROR_NOT_SUPPORTED);
      return;
    }
  assert_refused ("/..", SONDE_ERROR_FAILED);
  assert_refused ("/.", SONDE_ERROR_FAILED);
  assert_refused ("//.", SONDE_ERROR_FAILED);
  assert_refused ("/../../proc", SONDE_ERROR_FAILED);
  assert_refused ("//proc", SONDE_ERROR_FAILED);
  assert_refused ("/no-such-group.slice/x.service", SONDE_ERROR_NO_SUCH_PROCESS);
}

typedef struct
{
  char *path; /* of the group, in its hierarchy */
  char *directory;
} Group;

/* FALSE: not allowed here, and the test is skipped. */
static gboolean
group_init (Group *self, const char *root, const char *name)
{
  self->path = g_strdup_printf ("/sonde-test-%d%s", (int) getpid (), name);
  self->directory = g_strconcat (root, self->path, NULL);
  if (mkdir (self->directory, 0755) == 0)
    return TRUE;
  g_test_skip ("no control group can be made here");
  return FALSE;
}

static void
group_clear (Group *self)
{
  if (self->directory != NULL)
    rmdir (self->directory);
  g_free (self->directory);
  g_free (self->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Group, group_clear)

static void
join (const Group *group, pid_t pid)
{
  g_autofree char *path = g_build_filename (group->directory, "cgroup.procs", NULL);
  g_autofree char *text = g_strdup_printf ("%d", (int) pid);
  int fd = open (path, O_WRONLY | O_CLOEXEC);

  g_assert_cmpint (write (fd, text, strlen (text)), ==, (gssize) strlen (text));
  close (fd);
}

static pid_t
spawn_waiting (void)
{
  pid_t pid = fork ();

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      pause ();
      _exit (0);
    }
  return pid;
}

static gboolean
contains_process (const SondeControlGroup *group, pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/cgroup", (int) pid);
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return sonde_control_group_contains (group, text);
}

static gboolean
lists (GArray *pids, pid_t pid)
{
  for (guint i = 0; i < pids->len; i++)
    if (g_array_index (pids, pid_t, i) == pid)
      return TRUE;
  return FALSE;
}

static void
end (pid_t pid)
{
  kill (pid, SIGKILL);
  waitpid (pid, NULL, 0);
}

static void
check_members (const char *root, gboolean is_unified)
{
  g_auto (Group) outer = { 0 };
  g_auto (Group) inner = { 0 };
  g_auto (Group) beside = { 0 };
  g_autofree char *inner_name = g_strdup_printf ("/sonde-test-%d/inner", (int) getpid ());
  pid_t members[] = { spawn_waiting (), spawn_waiting () };
  pid_t stranger = spawn_waiting ();
  g_autoptr (GError) error = NULL;

  if (group_init (&outer, root, "") && group_init (&beside, root, "-beside"))
    {
      g_autoptr (SondeControlGroup) group = NULL;
      g_autoptr (GArray) pids = NULL;

      inner.directory = g_strconcat (root, inner_name, NULL);
      g_assert_cmpint (mkdir (inner.directory, 0755), ==, 0);
      join (&outer, members[0]);
      join (&inner, members[1]);
      join (&beside, stranger); /* whose path begins with the same letters */
      group = sonde_control_group_open (outer.path, "", &error);
      g_assert_no_error (error);
      g_assert_cmpint (sonde_control_group_fd (group) >= 0, ==, is_unified);
      pids = sonde_control_group_list (group, &error);
      g_assert_no_error (error);
      g_assert_true (lists (pids, members[0]) && lists (pids, members[1]));
      g_assert_false (lists (pids, stranger) || lists (pids, getpid ()));
      g_assert_true (contains_process (group, members[0]) && contains_process (group, members[1]));
      g_assert_false (contains_process (group, stranger) || contains_process (group, getpid ()));
    }
  end (members[0]);
  end (members[1]);
  end (stranger);
}

static void
test_members (void)
{
  const char *unified = find_unified ();

  if (!is_any_mounted ())
    g_test_skip ("no control groups of systemd's are mounted");
  if (unified != NULL)
    check_members (unified, TRUE);
  if (is_of_type ("/sys/fs/cgroup/systemd", CGROUP_SUPER_MAGIC))
    check_members ("/sys/fs/cgroup/systemd", FALSE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/control-group/refuses-what-is-no-path-of-one", test_impossible_paths);
  g_test_add_func ("/control-group/refuses-to-leave-its-hierarchy", test_outside);
  g_test_add_func ("/control-group/lists-who-is-in-it-or-below", test_members);
  return g_test_run ();
}
