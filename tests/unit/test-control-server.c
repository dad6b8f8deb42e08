/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Programs that ask for more than there is, or read late: each gets its answer, or is told of. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/capture/program/control-server.h"

/* What the server told the session, and the program's end of a control socket. */
typedef struct
{
  SondeControlServer *server;
  int program;
  guint n_wanted, n_undelivered, n_links_refused, n_gone, n_closed;
  pid_t refused_pid;
  GPtrArray *sentences;
} Fixture;

static int
wanted (const SondeRingWanted *ring, guint *number, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_cmpint (ring->pid, ==, getpid ());
  *number = ++fixture->n_wanted;
  return memfd_create ("ring", MFD_CLOEXEC);
}

static void
link_refused (pid_t pid, gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->n_links_refused++;
  fixture->refused_pid = pid;
}

static void
undelivered (const SondeRingWanted *wanted, guint number, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_cmpuint (number, ==, fixture->n_wanted);
  fixture->n_undelivered++;
}

static void
bell (gpointer user_data)
{
  g_assert_not_reached ();
}

static void
gone (guint64 peer, gpointer user_data)
{
  ((Fixture *) user_data)->n_gone++;
}

static void
closed (gpointer user_data)
{
  ((Fixture *) user_data)->n_closed++;
}

static void
refused (const char *text, gpointer user_data)
{
  g_ptr_array_add (((Fixture *) user_data)->sentences, g_strdup (text));
}

static void
run_server (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    continue;
}

/* @room_bytes: for answers that are not read yet; the kernel takes a few for the least that there
 * is. */
static void
fixture_init (Fixture *fixture, int room_bytes, gboolean is_divided)
{
  static const SondeControlServerHandler handler
      = { wanted, link_refused, undelivered, bell, gone, closed, refused };
  const SondeControlTerms terms = { .max_depth = 1 };
  const int on = 1;
  int fds[2];

  *fixture = (Fixture){ .sentences = g_ptr_array_new_with_free_func (g_free) };
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  g_assert_cmpint (setsockopt (fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), ==, 0);
  g_assert_cmpint (setsockopt (fds[0], SOL_SOCKET, SO_SNDBUF, &room_bytes, sizeof room_bytes), ==,
                   0);
  fixture->program = fds[1];
  fixture->server = sonde_control_server_new (&terms, is_divided, &handler, fixture);
  sonde_control_server_add (fixture->server, fds[0], FALSE);
}

static void
fixture_clear (Fixture *fixture)
{
  sonde_clear_fd (&fixture->program);
  run_server ();
  g_assert_cmpuint (fixture->n_closed, ==, 1);
  sonde_control_server_free (fixture->server);
  g_ptr_array_unref (fixture->sentences);
}

static void
ask (Fixture *fixture, gconstpointer bytes, gsize size_bytes)
{
  while (send (fixture->program, bytes, size_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    {
      g_assert_cmpint (errno, ==, EAGAIN);
      run_server ();
    }
}

static void
ask_link (Fixture *fixture)
{
  const SondeControlHeader request
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };

  ask (fixture, &request, sizeof request);
}

/* Returns: the answer's descriptor, to be closed; -1: it has none */
static int
read_answer (Fixture *fixture)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (int))];
  } control;
  SondeControlHeader answer;
  struct iovec iov = { &answer, sizeof answer };
  struct msghdr header = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  int fd = -1;

  run_server ();
  g_assert_cmpint (recvmsg (fixture->program, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC), ==,
                   sizeof answer);
  g_assert_cmpuint (answer.type, ==, SONDE_CONTROL_LINK);
  if (CMSG_FIRSTHDR (&header) != NULL)
    memcpy (&fd, CMSG_DATA (CMSG_FIRSTHDR (&header)), sizeof fd);
  return fd;
}

/* Those for whose answer there was no room are not forgotten. */
static void
test_late_reader (void)
{
  const guint n_links = 200;
  Fixture fixture;

  fixture_init (&fixture, 1, FALSE);
  for (guint i = 0; i < n_links; i++)
    ask_link (&fixture);
  run_server ();
  for (guint i = 0; i < n_links; i++)
    {
      sonde_autofd int link = read_answer (&fixture);

      g_assert_cmpint (link, >=, 0);
    }
  run_server ();
  /* Those that found no room hung up, too. */
  g_assert_cmpuint (fixture.n_gone, >=, n_links);
  g_assert_cmpuint (fixture.sentences->len, ==, 0);
  g_assert_cmpuint (fixture.n_links_refused, ==, 0);
  fixture_clear (&fixture);
}

/* A ring whose answer finds no room is the session's again, and nobody waits for it. */
static void
test_undelivered (void)
{
  Fixture fixture;

  fixture_init (&fixture, 1, FALSE);
  while (fixture.n_undelivered == 0)
    {
      ask (&fixture, SONDE_CONTROL_SYSPROF_REQUEST, SONDE_CONTROL_SYSPROF_REQUEST_BYTES);
      run_server ();
      g_assert_cmpuint (fixture.n_wanted, <, 10000);
    }
  ask_link (&fixture);
  run_server ();
  g_assert_cmpuint (fixture.n_undelivered, ==, 1);
  g_assert_cmpuint (fixture.sentences->len, ==, 1);
  g_assert_cmpuint (fixture.n_closed, ==, 0);
  fixture_clear (&fixture);
}

/* A link whose program has told that it is there, under a uid that the kernel vouches for; all that
 * are added of it are that user's. Returns: FALSE: that takes root */
static gboolean
open_link_of (uid_t uid, int fds[2])
{
  const SondeControlHeader join
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_JOIN };
  const struct ucred credentials = { getpid (), uid, getgid () };
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (struct ucred))];
  } control = { .header = { .cmsg_len = CMSG_LEN (sizeof (struct ucred)),
                            .cmsg_level = SOL_SOCKET,
                            .cmsg_type = SCM_CREDENTIALS } };
  struct iovec iov = { (gpointer) &join, sizeof join };
  const struct msghdr message = {
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  const int on = 1;

  memcpy (CMSG_DATA (&control.header), &credentials, sizeof credentials);
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  g_assert_cmpint (setsockopt (fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on), ==, 0);
  return sendmsg (fds[1], &message, MSG_NOSIGNAL) == sizeof join;
}

/* What one user's programs cannot take is there for another's. */
static void
test_users (void)
{
  const uid_t users[] = { 61001, 61002 };
  guint left = SONDE_LIMIT_RINGS;
  struct rlimit limit;
  Fixture fixture;

  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  limit.rlim_cur = limit.rlim_max;
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  fixture_init (&fixture, 65536, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (users); i++)
    {
      guint n_gone = fixture.sentences->len;
      guint n_added = 0;
      int fds[2];

      if (!open_link_of (users[i], fds))
        {
          g_test_skip ("nobody but root has processes of two users");
          close (fds[0]);
          close (fds[1]);
          break;
        }
      for (; fixture.sentences->len == n_gone && n_added <= SONDE_LIMIT_RINGS; n_added++)
        sonde_control_server_add (fixture.server, dup (fds[0]), TRUE);
      /* The last one was turned away. */
      g_assert_cmpuint (n_added - 1, ==, left / 2);
      left -= left / 2;
      close (fds[0]);
      close (fds[1]);
    }
  fixture_clear (&fixture);
}

/* More programs than rings: who comes too late is told of, at each power of two. */
static void
test_too_many (void)
{
  struct rlimit limit;
  Fixture fixture;
  int fds[2];

  g_assert_cmpint (getrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  limit.rlim_cur = limit.rlim_max;
  g_assert_cmpint (setrlimit (RLIMIT_NOFILE, &limit), ==, 0);
  g_assert_cmpuint (limit.rlim_max, >, SONDE_LIMIT_RINGS + 64);

  fixture_init (&fixture, 65536, FALSE);
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  for (guint i = 0; i < SONDE_LIMIT_RINGS + 5; i++)
    sonde_control_server_add (fixture.server, dup (fds[0]), TRUE);
  g_assert_cmpuint (fixture.sentences->len, ==, 3);
  g_assert_cmpstr (g_ptr_array_index (fixture.sentences, 2), ==,
                   "Programs that are not recorded, since too many have rings: 4");
  g_assert_cmpuint (fixture.n_links_refused, ==, 5);

  ask_link (&fixture);
  g_assert_cmpint (read_answer (&fixture), ==, -1);
  g_assert_cmpuint (fixture.n_links_refused, ==, 6);
  g_assert_cmpint (fixture.refused_pid, ==, getpid ());

  /* All of them hang up; then there is room. */
  close (fds[0]);
  close (fds[1]);
  run_server ();
  g_assert_cmpuint (fixture.n_gone, ==, SONDE_LIMIT_RINGS);
  ask_link (&fixture);
  close (read_answer (&fixture));
  g_assert_cmpuint (fixture.n_links_refused, ==, 6);
  fixture_clear (&fixture);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/control-server/no-user-takes-all-links", test_users);
  g_test_add_func ("/control-server/who-comes-too-late-is-told-of", test_too_many);
  g_test_add_func ("/control-server/a-ring-that-is-not-delivered-is-taken-back", test_undelivered);
  g_test_add_func ("/control-server/who-reads-late-gets-every-link", test_late_reader);
  return g_test_run ();
}
