/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Proofs that are none. */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/broker/target.h"

#define NOBODY 65534

/* A child that waits, and executes `sleep` when it gets a byte. */
typedef struct
{
  pid_t pid;
  int pipe;
} Child;

static Child
child_new (void)
{
  Child child;
  int fds[2];
  char byte;

  g_assert_cmpint (pipe2 (fds, O_CLOEXEC), ==, 0);
  child.pid = fork ();
  g_assert_cmpint (child.pid, >=, 0);
  if (child.pid == 0)
    {
      close (fds[1]);
      prctl (PR_SET_PDEATHSIG, SIGKILL);
      if (read (fds[0], &byte, 1) == 1)
        execl ("/bin/sleep", "sleep", "1000", NULL);
      _exit (0);
    }
  close (fds[0]);
  child.pipe = fds[1];
  return child;
}

static void
child_end (Child *child)
{
  kill (child->pid, SIGKILL);
  waitpid (child->pid, NULL, 0);
  close (child->pipe);
}

static int
open_proc (pid_t pid, const char *name, int flags)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/%s", (int) pid, name);
  int fd = open (path, flags | O_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  return fd;
}

static void
wait_for_exec (pid_t pid, int maps_fd)
{
  char byte;

  while (pread (maps_fd, &byte, 1, 0) != 0)
    g_usleep (1000);
}

/* @fd is consumed. Returns the sentence. */
static char *
assert_refused (pid_t pid, int fd, uid_t owner)
{
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new (pid, fd));
  g_autoptr (GError) error = NULL;

  g_assert_false (sonde_target_prove (target, &(SondeTracer){ .uid = owner }, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED);
  return g_strdup (error->message);
}

/* The kernel's own descriptor of a perf event, made by whoever offers it. */
static int
open_event (void)
{
  struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
                                  .size = sizeof attr,
                                  .config = PERF_COUNT_SW_DUMMY,
                                  .disabled = 1,
                                  .exclude_kernel = 1 };

  return (int) syscall (SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void
test_wrong_descriptors (void)
{
  Child child = child_new ();
  int fds[2];

  g_free (assert_refused (child.pid, open_proc (child.pid, "maps", O_PATH), getuid ()));
  g_free (assert_refused (child.pid, open_proc (child.pid, "status", O_RDONLY), getuid ()));
  g_free (assert_refused (child.pid, open_proc (child.pid, "smaps", O_RDONLY), getuid ()));
  g_free (assert_refused (child.pid, open_proc (getpid (), "maps", O_RDONLY), getuid ()));
  g_free (assert_refused (child.pid, open ("/dev/null", O_RDONLY | O_CLOEXEC), getuid ()));
  g_free (assert_refused (child.pid, memfd_create ("maps", MFD_CLOEXEC), getuid ()));
  g_free (
      assert_refused (child.pid, open ("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), getuid ()));
  g_free (assert_refused (child.pid, open_event (), getuid ()));
  g_free (assert_refused (child.pid, socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), getuid ()));
  g_free (assert_refused (child.pid, -1, getuid ()));
  /* Reading from it would wait for ever. */
  g_assert_cmpint (pipe2 (fds, O_CLOEXEC), ==, 0);
  g_free (assert_refused (child.pid, fds[0], getuid ()));
  close (fds[1]);
  child_end (&child);
}

/* It is one process from the request on, whatever happens to its number. */
static void
test_held_process (void)
{
  Child child = child_new ();
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new_unproven (child.pid));
  g_autoptr (GError) error = NULL;
  int pidfd = target->pidfd;

  g_assert_cmpint (pidfd, >=, 0);
  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = 0 }, &error));
  g_assert_cmpint (target->pidfd, ==, pidfd);
  child_end (&child);
  g_assert_false (sonde_target_prove (target, &(SondeTracer){ .uid = 0 }, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS);
  g_assert_cmpint (target->pidfd, ==, pidfd);
}

static void
test_foreign_owner (void)
{
  uid_t stranger = getuid () == NOBODY ? 1 : NOBODY;

  g_free (assert_refused (getpid (), open_proc (getpid (), "maps", O_RDONLY), stranger));
}

/* A descriptor from better days of a process that the kernel has closed to its own uid since. */
static void
test_undumpable (void)
{
  uid_t owner = getuid () == 0 ? NOBODY : getuid ();
  int fd = open_proc (getpid (), "maps", O_RDONLY);

  g_assert_cmpint (seteuid (owner), ==, 0);
  g_assert_cmpint (prctl (PR_SET_DUMPABLE, 0), ==, 0);
  g_free (assert_refused (getpid (), fd, owner));
  g_assert_cmpint (seteuid (getuid ()), ==, 0);
  g_assert_cmpint (prctl (PR_SET_DUMPABLE, 1), ==, 0);
}

static void
test_no_process (void)
{
  Child child = child_new ();
  int fd = open_proc (child.pid, "maps", O_RDONLY);
  g_autofree char *dead = NULL;
  g_autofree char *foreign = NULL;

  foreign = assert_refused (child.pid, open_proc (getpid (), "maps", O_RDONLY), getuid ());
  child_end (&child);
  dead = assert_refused (child.pid, fd, getuid ());
  /* The same words: nobody learns whether it is there. */
  g_assert_cmpstr (dead, ==, foreign);
}

static void
test_exec_before (void)
{
  Child child = child_new ();
  int fd = open_proc (child.pid, "maps", O_RDONLY);

  g_assert_cmpint (write (child.pipe, "x", 1), ==, 1);
  wait_for_exec (child.pid, fd);
  g_free (assert_refused (child.pid, fd, getuid ()));
  child_end (&child);
}

static void
test_exec_between (void)
{
  Child child = child_new ();
  int fd = open_proc (child.pid, "maps", O_RDONLY);
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new (child.pid, fd));
  g_autoptr (GError) error = NULL;

  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = getuid () }, &error));
  g_assert_no_error (error);
  g_assert_cmpint (write (child.pipe, "x", 1), ==, 1);
  wait_for_exec (child.pid, fd);
  g_assert_false (sonde_target_confirm (target, &(SondeTracer){ .uid = getuid () }, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_NOT_AUTHORIZED);
  child_end (&child);
}

static void
test_exit_between (void)
{
  Child child = child_new ();
  g_autoptr (SondeTarget) target = sonde_target_new (sonde_asked_target_new_unproven (child.pid));
  g_autoptr (GError) error = NULL;

  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = 0 }, &error));
  child_end (&child);
  g_assert_false (sonde_target_confirm (target, &(SondeTracer){ .uid = getuid () }, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_NO_SUCH_PROCESS);
}

static void
test_proof (void)
{
  Child child = child_new ();
  g_autoptr (SondeTarget) target = sonde_target_new (
      sonde_asked_target_new (child.pid, open_proc (child.pid, "maps", O_RDONLY)));
  g_autoptr (GError) error = NULL;

  g_assert_true (sonde_target_prove (target, &(SondeTracer){ .uid = getuid () }, &error));
  g_assert_true (sonde_target_confirm (target, &(SondeTracer){ .uid = getuid () }, &error));
  g_assert_no_error (error);
  g_assert_cmpint (target->pidfd, >=, 0);
  g_assert_cmpuint (target->start_ticks, !=, 0);
  child_end (&child);
}

static void
test_reopen (void)
{
  Child child = child_new ();
  g_autoptr (SondeTarget) target = sonde_target_new (
      sonde_asked_target_new (child.pid, open_proc (child.pid, "maps", O_RDONLY)));
  const SondeTracer owner = { .uid = getuid () };

  g_assert_true (sonde_target_prove (target, &owner, NULL));
  g_assert_true (sonde_target_confirm (target, &owner, NULL));
  g_assert_cmpint (target->process_fd, ==, -1);
  if (getuid () == 0)
    g_assert_false (sonde_target_reopen (target, &(SondeTracer){ .uid = 12345 }));
  g_assert_true (sonde_target_reopen (target, &owner));
  g_assert_cmpint (target->process_fd, >=, 0);
  g_assert_true (sonde_target_confirm (target, &owner, NULL));
  child_end (&child);
  g_assert_false (sonde_target_reopen (target, &owner));
  g_assert_cmpint (target->process_fd, ==, -1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/target/refuses-a-descriptor-that-is-no-proof", test_wrong_descriptors);
  g_test_add_func ("/target/is-the-process-that-it-was-first", test_held_process);
  g_test_add_func ("/target/refuses-a-process-of-another-uid", test_foreign_owner);
  g_test_add_func ("/target/refuses-what-the-kernel-closes-to-its-uid", test_undumpable);
  g_test_add_func ("/target/refuses-the-dead-in-the-same-words", test_no_process);
  g_test_add_func ("/target/refuses-after-an-exec", test_exec_before);
  g_test_add_func ("/target/refuses-an-exec-while-events-are-opened", test_exec_between);
  g_test_add_func ("/target/refuses-an-exit-while-events-are-opened", test_exit_between);
  g_test_add_func ("/target/takes-the-kernel-s-proof", test_proof);
  g_test_add_func ("/target/is-opened-again-while-it-lives-and-is-its-owner-s", test_reopen);
  return g_test_run ();
}
