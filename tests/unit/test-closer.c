/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that close what strangers sent, and what is closed at once instead. */
#include "daemon/base/closer.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"

#define NO_HOLES 64

static guint
count_threads (void)
{
  g_autoptr (GDir) threads = g_dir_open ("/proc/self/task", 0, NULL);
  guint n = 0;

  while (g_dir_read_name (threads) != NULL)
    n++;
  return n;
}

/* One that was there to close something goes after some seconds, and would take the next. */
static void
wait_for_rest (void)
{
  while (count_threads () > 1)
    g_usleep (10000);
}

/* Whether the call did it. A thread that does is there before it returns. */
static gboolean
closes_itself (int fd)
{
  gboolean is_closed;

  wait_for_rest ();
  sonde_closer_take (fd);
  is_closed = fcntl (fd, F_GETFD) < 0;
  return is_closed && count_threads () == 1;
}

static gboolean
has_hung_up (int fd)
{
  struct pollfd end = { .fd = fd };

  return poll (&end, 1, 0) > 0 && (end.revents & POLLHUP) != 0;
}

static void
closes_own_streams_at_once (void)
{
  sonde_autofd int other = -1;
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  other = fds[1];
  g_assert_cmpint (write (other, "frame", 5), ==, 5);
  g_assert_true (closes_itself (fds[0]));
  g_assert_true (has_hung_up (other));
}

static void
closes_perf_events_at_once (void)
{
  struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
                                  .size = sizeof attr,
                                  .config = PERF_COUNT_SW_DUMMY,
                                  .exclude_kernel = 1 };
  int fd = (int) syscall (SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

  if (fd < 0)
    g_test_skip ("This kernel gives us no perf event");
  else
    g_assert_true (closes_itself (fd));
}

static void
has_files_closed (void)
{
  g_assert_false (closes_itself (open ("/dev/null", O_RDONLY | O_CLOEXEC)));
}

/* What is on its way goes with the socket, may be a stranger's, and may come until the end. */
static void
has_connections_closed (void)
{
  sonde_autofd int file = open ("/dev/null", O_RDONLY | O_CLOEXEC);

  for (guint i = 0; i < 2; i++)
    {
      sonde_autofd int other = -1;
      int fds[2];

      g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
      other = fds[1];
      if (i > 0)
        g_assert_cmpint (sonde_send_with_fds (other, "", 1, &file, 1), ==, 0);
      g_assert_false (closes_itself (fds[0]));
      while (!has_hung_up (other))
        g_usleep (1000);
    }
}

static void
has_sockets_of_strangers_closed (void)
{
  sonde_autofd int receiver = -1;
  union
  {
    struct cmsghdr header;
    char bytes[CMSG_SPACE (sizeof (int))];
  } control;
  char byte;
  struct iovec part = { .iov_base = &byte, .iov_len = 1 };
  struct msghdr message = {
    .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  int fds[2];
  pid_t child;

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  wait_for_rest ();
  child = fork ();
  if (child == 0)
    {
      int theirs[2];

      if (socketpair (AF_UNIX, SOCK_STREAM, 0, theirs) == 0)
        sonde_send_with_fds (fds[1], "", 1, theirs, 1);
      _exit (0);
    }
  close (fds[1]);
  receiver = fds[0];
  g_assert_cmpint (waitpid (child, NULL, 0), ==, child);
  g_assert_cmpint (recvmsg (receiver, &message, MSG_CMSG_CLOEXEC), ==, 1);
  g_assert_cmpint (control.header.cmsg_type, ==, SCM_RIGHTS);
  g_assert_false (closes_itself (*(int *) (void *) CMSG_DATA (&control.header)));
}

/* As where a security module keeps one from us: sd-bus must not hear of it. */
static void
takes_all_or_none_of_a_message (void)
{
  union
  {
    struct cmsghdr header;
    char bytes[CMSG_SPACE (2 * sizeof (int))];
  } control;
  char byte;
  struct iovec part = { .iov_base = &byte, .iov_len = 1 };
  sonde_autofd int file = open ("/dev/null", O_RDONLY | O_CLOEXEC);
  sonde_autofd int receiver = -1;
  sonde_autofd int sender = -1;
  int next;
  struct rlimit before;
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  receiver = fds[0];
  sender = fds[1];
  getrlimit (RLIMIT_NOFILE, &before);
  /* So that no number below is free, nor becomes it. */
  wait_for_rest ();
  do
    next = fcntl (file, F_DUPFD_CLOEXEC, 0);
  while (next < NO_HOLES);
  syscall (SYS_close, next);
  for (guint room = 0; room <= 2; room++)
    {
      struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
      };
      struct rlimit limit = before;
      gboolean deferred;

      g_assert_cmpint (sonde_send_with_fds (sender, "l", 1, (int[]){ file, file }, 2), ==, 0);
      wait_for_rest ();
      limit.rlim_cur = (rlim_t) next + room;
      g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
      deferred = sonde_closer_defer (TRUE);
      g_assert_cmpint (recvmsg (receiver, &message, MSG_CMSG_CLOEXEC), ==, 1);
      sonde_closer_restore (&deferred);
      setrlimit (RLIMIT_NOFILE, &before);
      g_assert_cmpint (message.msg_flags & MSG_CTRUNC, ==, 0);
      if (room == 2)
        {
          g_assert_cmpuint (control.header.cmsg_len, ==, CMSG_LEN (2 * sizeof (int)));
          for (guint i = 0; i < 2; i++)
            syscall (SYS_close, next + (int) i);
        }
      else
        {
          g_assert_null (CMSG_FIRSTHDR (&message));
          while (fcntl (next, F_GETFD) >= 0)
            g_usleep (1000);
        }
      g_assert_false (sonde_closer_has_refused ());
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/closer/closes-own-streams-at-once", closes_own_streams_at_once);
  g_test_add_func ("/closer/closes-perf-events-at-once", closes_perf_events_at_once);
  g_test_add_func ("/closer/has-files-closed", has_files_closed);
  g_test_add_func ("/closer/has-connections-closed", has_connections_closed);
  g_test_add_func ("/closer/has-sockets-of-strangers-closed", has_sockets_of_strangers_closed);
  g_test_add_func ("/closer/takes-all-or-none-of-a-message", takes_all_or_none_of_a_message);
  return g_test_run ();
}
