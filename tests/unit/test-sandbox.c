/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A process in the worker's sandbox, and what it cannot do any more. */
#include "daemon/capture/worker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/message.h"
#include "daemon/base/socket.h"

#define OWN_UID      60900 /* of nobody: workers' begin behind it */
#define EXIT_STRANGE 7     /* the child could not even try */

/* A child in the sandbox, and our end of its connection. */
typedef struct
{
  pid_t pid;
  int fd;
} Child;

static void
child_start (Child *self, void (*action) (int fd))
{
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  self->pid = fork ();
  g_assert_cmpint (self->pid, >=, 0);
  if (self->pid == 0)
    {
      uid_t uid = geteuid () == 0 ? OWN_UID : SONDE_SANDBOX_SAME_UID;

      if (!sonde_sandbox_enter (fds[1], uid, NULL))
        _exit (EXIT_STRANGE);
      action (fds[1]);
      _exit (EXIT_SUCCESS);
    }
  close (fds[1]);
  self->fd = fds[0];
}

/* Returns: its wait status */
static int
child_end (Child *self)
{
  int status;

  g_assert_cmpint (waitpid (self->pid, &status, 0), ==, self->pid);
  sonde_clear_fd (&self->fd);
  return status;
}

static void
assert_refused (void (*action) (int fd), const char *name)
{
  g_autofree char *expected
      = g_strdup_printf ("The worker made a system call that it may not make: %s", name);
  SondeMessageFailed message;
  const char *why;
  Child child;
  int status;

  child_start (&child, action);
  g_assert_cmpint (recv (child.fd, &message, sizeof message, 0), ==, sizeof message);
  g_assert_cmpint (
      sonde_message_check (&message, sizeof message, 0, SONDE_WAY_WORKER_TO_FRONT, &why), ==, 0);
  g_assert_cmpuint (message.header.type, ==, SONDE_MESSAGE_FAILED);
  g_assert_cmpstr (message.text, ==, expected);
  g_assert_cmpint (message.error, ==, EPERM);
  status = child_end (&child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, EXIT_FAILURE);
}

/* --- what is tried --- */

static void
open_file (int fd)
{
  syscall (SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY);
}

static void
make_socket (int fd)
{
  socket (AF_UNIX, SOCK_STREAM, 0);
}

static void
execute (int fd)
{
  char *none[] = { NULL };

  execve ("/bin/true", none, none);
}

static void
trace (int fd)
{
  ptrace (PTRACE_SEIZE, 1, NULL, NULL);
}

static void
make_process (int fd)
{
  syscall (SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void
signal_others (int fd)
{
  kill (getpid () - 1, 0);
}

static void
signal_other_thread (int fd)
{
  syscall (SYS_tgkill, 1, 1, 0);
}

static void
map_code (int fd)
{
  mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void
make_code (int fd)
{
  void *memory = mmap (NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  mprotect (memory, 4096, PROT_READ | PROT_EXEC);
}

static void
ask_a_device (int fd)
{
  ioctl (fd, FIONREAD, &fd);
}

static void
open_event (int fd)
{
  syscall (SYS_perf_event_open, NULL, 0, -1, -1, 0);
}

static void
change_limit_of_others (int fd)
{
  struct rlimit limit;

  syscall (SYS_prlimit64, 1, RLIMIT_NOFILE, NULL, &limit);
}

static void
become_dumpable (int fd)
{
  prctl (PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static const struct
{
  const char *name;
  void (*action) (int fd);
} refused[] = {
  { "openat", open_file },
  { "socket", make_socket },
  { "execve", execute },
  { "ptrace", trace },
  { "clone", make_process },
  { "kill", signal_others },
  { "tgkill", signal_other_thread },
  { "mmap", map_code },
  { "mprotect", make_code },
  { "ioctl", ask_a_device },
  { "perf_event_open", open_event },
  { "prlimit64", change_limit_of_others },
  { "prctl", become_dumpable },
};

/* --- cases --- */

static void
refuses_a_call (gconstpointer data)
{
  guint index = GPOINTER_TO_UINT (data);

  assert_refused (refused[index].action, refused[index].name);
}

static void
try_much_memory (int fd)
{
  const size_t page = 4096;
  char *memory = mmap (NULL, SONDE_LIMIT_WORKER_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  if (memory != MAP_FAILED || errno != ENOMEM)
    _exit (EXIT_FAILURE);
  memory = mmap (NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    _exit (EXIT_STRANGE);
}

static void
refuses_memory_beyond_its_limit (void)
{
  Child child;

  child_start (&child, try_much_memory);
  g_assert_cmpint (child_end (&child), ==, 0);
}

static void
wait_for_end (int fd)
{
  char byte;

  if (send (fd, "x", 1, 0) != 1 || read (fd, &byte, 1) != 0)
    _exit (EXIT_STRANGE);
}

static void
assert_status (const char *status, const char *name, const char *value)
{
  g_autofree char *line = g_strdup_printf ("\n%s:\t%s\n", name, value);

  g_assert_nonnull (strstr (status, line));
}

static guint
count_entries (const char *path)
{
  g_autoptr (GDir) folder = g_dir_open (path, 0, NULL);
  guint n = 0;

  while (folder != NULL && g_dir_read_name (folder) != NULL)
    n++;
  return n;
}

static void
leaves_nothing_but_the_connection (void)
{
  g_autofree char *status_path = NULL;
  g_autofree char *fds_path = NULL;
  g_autofree char *status = NULL;
  g_autofree char *uids = NULL;
  int superfluous = open ("/dev/null", O_RDONLY);
  Child child;
  char byte;

  child_start (&child, wait_for_end);
  g_assert_cmpint (recv (child.fd, &byte, 1, 0), ==, 1);
  status_path = g_strdup_printf ("/proc/%d/status", (int) child.pid);
  fds_path = g_strdup_printf ("/proc/%d/fd", (int) child.pid);
  g_assert_true (g_file_get_contents (status_path, &status, NULL, NULL));
  assert_status (status, "NoNewPrivs", "1");
  assert_status (status, "Seccomp", "2");
  assert_status (status, "CapPrm", "0000000000000000");
  assert_status (status, "CapEff", "0000000000000000");
  if (geteuid () == 0)
    {
      uids = g_strdup_printf ("%d\t%d\t%d\t%d", OWN_UID, OWN_UID, OWN_UID, OWN_UID);
      assert_status (status, "Uid", uids);
      g_assert_cmpuint (count_entries (fds_path), ==, 4); /* stdio and the connection */
    }
  sonde_clear_fd (&child.fd);
  g_assert_cmpint (child_end (&child), ==, 0);
  close (superfluous);
}

static void
refuses_files_by_landlock (void)
{
  pid_t pid;
  int status;

  if (syscall (SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 1)
    {
      g_test_skip ("this kernel has no Landlock");
      return;
    }
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      if (prctl (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !sonde_sandbox_restrict_files (NULL))
        _exit (EXIT_STRANGE);
      _exit (open ("/proc/self/status", O_RDONLY) < 0 && errno == EACCES ? EXIT_SUCCESS
                                                                         : EXIT_FAILURE);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autofree char *path = g_strdup_printf ("/sandbox/refuses-%s", refused[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), refuses_a_call);
    }
  g_test_add_func ("/sandbox/refuses-memory-beyond-its-limit", refuses_memory_beyond_its_limit);
  g_test_add_func ("/sandbox/refuses-files-by-landlock", refuses_files_by_landlock);
  g_test_add_func ("/sandbox/leaves-nothing-but-the-connection", leaves_nothing_but_the_connection);
  return g_test_run ();
}
