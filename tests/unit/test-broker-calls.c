/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A broker whose system calls are restricted, and what it cannot do any more. */
#include "daemon/broker/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/message.h"
#include "daemon/base/socket.h"

#define EXIT_STRANGE 7 /* the child could not even try */

/* What a child that is restricted does. Returns: its wait status; @last_word: what it said */
static int
run (void (*action) (void), SondeMessageResult *last_word)
{
  int fds[2];
  int status;
  pid_t pid;

  *last_word = (SondeMessageResult){ .text = "" };
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      if (!sonde_broker_calls_enforce (fds[1], NULL))
        _exit (EXIT_STRANGE);
      action ();
      _exit (EXIT_SUCCESS);
    }
  close (fds[1]);
  g_assert_cmpint (recv (fds[0], last_word, sizeof *last_word, 0), >=, 0);
  close (fds[0]);
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  return status;
}

static void
assert_refused (void (*action) (void), const char *name)
{
  g_autofree char *expected
      = g_strdup_printf ("The broker made a system call that it may not make: %s", name);
  SondeMessageResult message;
  const char *why;
  int status = run (action, &message);

  g_assert_cmpstr (message.text, ==, expected);
  g_assert_cmpint (
      sonde_message_check (&message, sizeof message, 0, SONDE_WAY_BROKER_TO_FRONT, &why), ==, 0);
  g_assert_true (WIFEXITED (status) && WEXITSTATUS (status) == EXIT_FAILURE);
}

static void
execute (void)
{
  execl ("/bin/true", "true", NULL);
}

/* As fork(), which since glibc 2.41 blocks all signals meanwhile, SIGSYS too: then the kernel kills
 * without a word. */
static void
make_process (void)
{
  if (syscall (SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0)
    _exit (0);
}

static void
make_socket (void)
{
  socket (AF_UNIX, SOCK_STREAM, 0);
}

static void
open_to_write (void)
{
  close (open ("/dev/null", O_WRONLY | O_CLOEXEC));
}

static void
make_file (void)
{
  close (open ("/tmp/sonde-test-broker-calls", O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* Whether to write is out of a filter's sight. */
static void
open_with_flags_behind_a_pointer (void)
{
  struct open_how how = { .flags = O_RDONLY | O_CLOEXEC };

  syscall (SYS_openat2, AT_FDCWD, "/dev/null", &how, sizeof how);
}

static void
make_code (void)
{
  mmap (NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void
trace (void)
{
  ptrace (PTRACE_TRACEME, 0, NULL, NULL);
}

static void
signal_another (void)
{
  kill (1, 0);
}

static void
signal_a_thread_of_another (void)
{
  syscall (SYS_tgkill, 1, 1, 0);
}

static void
set_filter (void)
{
  ioctl (0, PERF_EVENT_IOC_SET_FILTER, "");
}

static void
change_owner (void)
{
  if (setuid (0) < 0)
    return;
}

static void
limit_another (void)
{
  syscall (SYS_prlimit64, 1, 0, NULL, NULL);
}

static void
refuses_what_is_not_its_work (void)
{
  static const struct
  {
    const char *name;
    void (*action) (void);
  } actions[] = {
    { "execve", execute },
    { "clone", make_process },
    { "socket", make_socket },
    { "openat", open_to_write },
    { "openat", make_file },
    { "openat2", open_with_flags_behind_a_pointer },
    { "mmap", make_code },
    { "ptrace", trace },
    { "kill", signal_another },
    { "ioctl", set_filter },
    { "tgkill", signal_a_thread_of_another },
    { "prlimit64", limit_another },
    { "setuid", change_owner },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (actions); i++)
    assert_refused (actions[i].action, actions[i].name);
}

static gpointer
think (gpointer data)
{
  return data;
}

static void
work (void)
{
  g_autofree char *text = NULL;
  struct perf_event_attr attr = { .size = sizeof attr };
  GThread *thread = g_thread_new ("lane", think, GINT_TO_POINTER (5));

  if (g_thread_join (thread) != GINT_TO_POINTER (5) || open ("/proc/self/maps", O_RDONLY) < 0)
    _exit (EXIT_STRANGE);
  syscall (SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
  text = g_strdup (g_strerror (ENOENT));
  g_main_context_iteration (NULL, FALSE);
}

static void
allows_what_is_its_work (void)
{
  SondeMessageResult message;
  int status = run (work, &message);

  g_assert_cmpstr (message.text, ==, "");
  g_assert_true (WIFEXITED (status) && WEXITSTATUS (status) == EXIT_SUCCESS);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/broker-calls/refuses-what-is-not-its-work", refuses_what_is_not_its_work);
  g_test_add_func ("/broker-calls/allows-what-is-its-work", allows_what_is_its_work);
  return g_test_run ();
}
