/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The rendezvous against programs and strangers in the test: whom it meets, and what others can do
 * there. */
#include "daemon/control/session/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "tests/lib/packet-socket.h"

#define STRANGER 65534 /* uid */

static const guint8 good_key[SONDE_CONTROL_KEY_BYTES] = { 1, 2, 3 };

typedef struct
{
  SondeRendezvous *rendezvous;
  struct sockaddr_un address;
  socklen_t address_bytes;
  guint n_met;
  guint n_turned_away;
  SondeGuest *last;
  guint n_fds; /* before it was there */
} Place;

static void
on_met (SondeGuest *guest, gpointer user_data)
{
  Place *place = user_data;

  place->n_met++;
  sonde_guest_free (place->last);
  place->last = guest;
}

static void
on_turned_away (uid_t uid, gpointer user_data)
{
  ((Place *) user_data)->n_turned_away++;
}

static const SondeRendezvousHandler handler = { on_met, on_turned_away };

static guint
count_fds (void)
{
  g_autoptr (GDir) folder = g_dir_open ("/proc/self/fd", 0, NULL);
  guint n = 0;

  while (g_dir_read_name (folder) != NULL)
    n++;
  return n;
}

static void
open_place (Place *place)
{
  g_autoptr (GError) error = NULL;
  guint n_fds;
  int fd;

  /* It has descriptors of its own, and stays. */
  g_main_context_default ();
  n_fds = count_fds ();
  fd = sonde_rendezvous_listen (&error);
  g_assert_no_error (error);
  *place = (Place){ .address_bytes = sizeof place->address, .n_fds = n_fds };
  g_assert_cmpint (getsockname (fd, (struct sockaddr *) &place->address, &place->address_bytes), ==,
                   0);
  place->rendezvous = sonde_rendezvous_new (fd, &handler, place, &error);
  g_assert_no_error (error);
}

static void
close_place (Place *place)
{
  sonde_rendezvous_free (place->rendezvous);
  sonde_guest_free (place->last);
  /* The closer's threads do it; what is kept is a wait without an end. */
  while (count_fds () > place->n_fds)
    g_usleep (1000);
}

static void
run_loop (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

static int
make_guest (const Place *place)
{
  int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  g_assert_cmpint (fd, >=, 0);
  /* While too many wait to be taken the place has to get its turn. */
  while (connect (fd, (const struct sockaddr *) &place->address, place->address_bytes) < 0)
    {
      g_assert_cmpint (errno, ==, EAGAIN);
      g_main_context_iteration (NULL, FALSE);
    }
  g_assert_cmpint (fcntl (fd, F_SETFL, 0), ==, 0);
  return fd;
}

/* FALSE: the end came instead. The loop is this process's. */
static gboolean
hear_nonce (int fd, SondeControlJoin *answer)
{
  SondeControlNonce nonce;
  gssize n;

  while ((n = recv (fd, &nonce, sizeof nonce, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
    g_main_context_iteration (NULL, FALSE);
  if (n <= 0)
    return FALSE;
  g_assert_cmpint (n, ==, sizeof nonce);
  g_assert_cmpuint (nonce.header.type, ==, SONDE_CONTROL_NONCE);
  *answer = (SondeControlJoin){ .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION,
                                            SONDE_CONTROL_JOIN } };
  memcpy (answer->nonce, nonce.nonce, sizeof answer->nonce);
  memcpy (answer->key, good_key, sizeof answer->key);
  return TRUE;
}

static gboolean
has_ended (int fd)
{
  char byte;
  gssize n;

  while ((n = recv (fd, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN)
    g_main_context_iteration (NULL, FALSE);
  return n == 0 || (n < 0 && errno == ECONNRESET);
}

static void
meets_who_answers_with_its_nonce (void)
{
  SondeControlJoinAnswer answer;
  SondeControlJoin join;
  Place place;
  int fd;

  open_place (&place);
  fd = make_guest (&place);
  g_assert_true (hear_nonce (fd, &join));
  g_assert_cmpint (send (fd, &join, sizeof join, 0), ==, sizeof join);
  run_loop ();
  g_assert_cmpuint (place.n_met, ==, 1);
  g_assert_cmpint (place.last->pid, ==, getpid ());
  g_assert_cmpuint (place.last->uid, ==, getuid ());
  g_assert_cmpmem (place.last->key, sizeof place.last->key, good_key, sizeof good_key);
  g_assert_true (sonde_guest_is_alive (place.last));
  g_assert_true (sonde_guest_answer (place.last, -EPERM));
  g_assert_cmpint (recv (fd, &answer, sizeof answer, 0), ==, sizeof answer);
  g_assert_cmpuint (answer.header.type, ==, SONDE_CONTROL_JOIN);
  g_assert_cmpint (answer.error, ==, -EPERM);
  close (fd);
  close_place (&place);
}

static void
ends_who_answers_something_else (void)
{
  Place place;

  open_place (&place);
  for (guint i = 0; i < 8; i++)
    {
      struct
      {
        SondeControlJoin join;
        char more[8];
      } message = { .more = "" };
      gsize size_bytes = sizeof message.join;
      int fd = make_guest (&place);

      g_assert_true (hear_nonce (fd, &message.join));
      if (i == 0)
        message.join.nonce[15] ^= 1;
      else if (i == 1)
        size_bytes -= 1;
      else if (i == 2)
        size_bytes += 1;
      else if (i == 3)
        message.join.header.magic++;
      else if (i == 4)
        message.join.header.version++;
      else if (i == 5)
        message.join.header.type = SONDE_CONTROL_LINK;
      else if (i == 6)
        size_bytes = sizeof message.join.header;
      else
        size_bytes = 0;
      g_assert_cmpint (send (fd, &message, size_bytes, 0), ==, size_bytes);
      g_assert_true (has_ended (fd));
      close (fd);
    }
  g_assert_cmpuint (place.n_met, ==, 0);
  close_place (&place);
}

/* Its descriptors are not received, and lie in the socket until that is closed. */
static void
takes_no_descriptors (void)
{
  SondeControlJoin join;
  guint n_before;
  Place place;
  int fd;

  open_place (&place);
  fd = make_guest (&place);
  g_assert_true (hear_nonce (fd, &join));
  n_before = count_fds ();
  g_assert_cmpint (packet_socket_send (fd, &join, sizeof join, &fd, 1, 0), ==, sizeof join);
  run_loop ();
  g_assert_cmpuint (place.n_met, ==, 1);
  g_assert_cmpuint (count_fds (), ==, n_before);
  close (fd);
  close_place (&place);
}

/* Whoever has got the socket of another process is not that. */
static void
believes_only_the_process_that_came (void)
{
  SondeControlJoin join;
  Place place;
  pid_t child;
  int fd;

  open_place (&place);
  fd = make_guest (&place);
  g_assert_true (hear_nonce (fd, &join));
  child = fork ();
  if (child == 0)
    _exit (send (fd, &join, sizeof join, 0) == sizeof join ? 0 : 1);
  g_assert_cmpint (waitpid (child, NULL, 0), ==, child);
  g_assert_true (has_ended (fd));
  g_assert_cmpuint (place.n_met, ==, 0);
  close (fd);
  close_place (&place);
}

/* The one that came is over, and another has its number when the answer is sent. Source: clone(2),
 * set_tid */
static void
is_not_played_by_a_number_that_comes_again (void)
{
  struct clone_args arguments = { .exit_signal = SIGCHLD, .set_tid_size = 1 };
  SondeControlJoin join;
  int status = 1;
  Place place;
  pid_t child;
  pid_t again;
  int fd;

  open_place (&place);
  fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  child = fork ();
  if (child == 0)
    {
      if (connect (fd, (const struct sockaddr *) &place.address, place.address_bytes) < 0)
        _exit (1);
      pause ();
    }
  while (recv (fd, &join, 1, MSG_PEEK | MSG_DONTWAIT) != 1)
    g_main_context_iteration (NULL, FALSE);
  g_assert_true (hear_nonce (fd, &join));
  kill (child, SIGKILL);
  g_assert_cmpint (waitpid (child, NULL, 0), ==, child);

  arguments.set_tid = (guint64) (gsize) &child;
  again = (pid_t) syscall (SYS_clone3, &arguments, sizeof arguments);
  if (again == 0)
    _exit (send (fd, &join, sizeof join, 0) == sizeof join ? 0 : 1);
  if (again < 0)
    g_test_skip ("numbers of processes cannot be chosen here");
  else
    {
      g_assert_cmpint (again, ==, child);
      g_assert_cmpint (waitpid (again, &status, 0), ==, again);
      g_assert_cmpint (status, ==, 0);
      g_assert_true (has_ended (fd));
    }
  g_assert_cmpuint (place.n_met, ==, 0);
  close (fd);
  close_place (&place);
}

static void
forgets_who_dies_on_the_way (void)
{
  SondeControlJoin join;
  guint n_before;
  Place place;

  open_place (&place);
  close (make_guest (&place));
  run_loop ();
  n_before = count_fds ();
  for (guint i = 0; i < 100; i++)
    {
      pid_t child = fork ();
      int fd;

      if (child == 0)
        {
          fd = make_guest (&place);
          if (i % 2 == 0 && recv (fd, &join, sizeof join, 0) > 0)
            send (fd, &join, sizeof join, 0);
          _exit (0);
        }
      while (waitpid (child, NULL, WNOHANG) == 0)
        g_main_context_iteration (NULL, FALSE);
    }
  run_loop ();
  g_assert_cmpuint (place.n_met, ==, 0);
  /* What is left to be closed is closed by threads. */
  while (count_fds () > n_before)
    g_main_context_iteration (NULL, FALSE);
  close_place (&place);
}

static void
ends_who_says_nothing (void)
{
  SondeControlJoin join;
  Place place;
  int fd;

  open_place (&place);
  fd = make_guest (&place);
  g_assert_true (hear_nonce (fd, &join));
  g_assert_true (has_ended (fd));
  close (fd);
  close_place (&place);
}

static void
leaves_places_to_others (void)
{
  const guint n_own = SONDE_LIMIT_GUESTS / 2;
  int fds[SONDE_LIMIT_GUESTS / 2];
  SondeControlJoin join;
  Place place;
  int fd;

  open_place (&place);
  for (guint i = 0; i < n_own; i++)
    {
      fds[i] = make_guest (&place);
      g_assert_true (hear_nonce (fds[i], &join));
    }
  fd = make_guest (&place);
  g_assert_cmpuint (place.n_turned_away, ==, 0);
  g_assert_false (hear_nonce (fd, &join));
  g_assert_cmpuint (place.n_turned_away, ==, 1);
  close (fd);
  close (fds[0]);
  run_loop ();
  fd = make_guest (&place);
  g_assert_true (hear_nonce (fd, &join));
  close (fd);
  for (guint i = 1; i < n_own; i++)
    close (fds[i]);
  close_place (&place);
}

/* As fast as it can, each time with a descriptor that is to be closed. */
static void
flood (const Place *place)
{
  if (setresuid (STRANGER, STRANGER, STRANGER) < 0)
    _exit (1);
  for (;;)
    {
      int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

      if (connect (fd, (const struct sockaddr *) &place->address, place->address_bytes) == 0)
        packet_socket_send (fd, "x", 1, &fd, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
      close (fd);
    }
}

static void
meets_others_while_one_floods (void)
{
  SondeControlJoin join;
  pid_t child;
  Place place;

  if (getuid () != 0)
    {
      g_test_skip ("only root has two users");
      return;
    }
  open_place (&place);
  child = fork ();
  if (child == 0)
    flood (&place);
  for (guint i = 0; i < 50; i++)
    {
      int fd = make_guest (&place);

      g_assert_true (hear_nonce (fd, &join));
      g_assert_cmpint (send (fd, &join, sizeof join, 0), ==, sizeof join);
      while (place.n_met == i)
        g_main_context_iteration (NULL, FALSE);
      g_assert_cmpuint (place.last->uid, ==, 0);
      close (fd);
    }
  kill (child, SIGKILL);
  waitpid (child, NULL, 0);
  close_place (&place);
}

static void
knows_a_session_by_its_key (void)
{
  guint8 key[SONDE_CONTROL_KEY_BYTES] = { 0xab, 0x01 };
  g_autofree char *made = sonde_rendezvous_make_key ();
  g_autofree char *other = sonde_rendezvous_make_key ();
  g_autofree char *description = NULL;
  Place place;

  open_place (&place);
  g_assert_cmpuint (strlen (made), ==, 2 * sizeof key);
  g_assert_cmpstr (made, !=, other);
  description = sonde_rendezvous_describe (place.rendezvous, "ab010000000000000000000000000000");
  g_assert_true (g_str_has_prefix (description, "@sonde/"));
  g_assert_true (sonde_rendezvous_has_key (description, key));
  key[15] = 1;
  g_assert_false (sonde_rendezvous_has_key (description, key));
  g_assert_false (sonde_rendezvous_has_key (NULL, key));
  g_assert_false (sonde_rendezvous_has_key ("", key));
  g_assert_false (sonde_rendezvous_has_key ("@sonde:ab01", key));
  close_place (&place);
}

static void
refuses_a_descriptor_that_nobody_can_come_to (void)
{
  g_autoptr (GError) error = NULL;
  int fds[2];

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), ==, 0);
  g_assert_null (sonde_rendezvous_new (fds[0], &handler, NULL, &error));
  g_assert_nonnull (error);
  close (fds[1]);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define TEST(name, function) g_test_add_func ("/rendezvous/" name, function)
  TEST ("ends-who-answers-something-else", ends_who_answers_something_else);
  TEST ("believes-only-the-process-that-came", believes_only_the_process_that_came);
  TEST ("is-not-played-by-a-number-that-comes-again", is_not_played_by_a_number_that_comes_again);
  TEST ("takes-no-descriptors", takes_no_descriptors);
  TEST ("forgets-who-dies-on-the-way", forgets_who_dies_on_the_way);
  TEST ("ends-who-says-nothing", ends_who_says_nothing);
  TEST ("leaves-places-to-others", leaves_places_to_others);
  TEST ("meets-others-while-one-floods", meets_others_while_one_floods);
  TEST ("refuses-a-descriptor-that-nobody-can-come-to",
        refuses_a_descriptor_that_nobody_can_come_to);
  TEST ("meets-who-answers-with-its-nonce", meets_who_answers_with_its_nonce);
  TEST ("knows-a-session-by-its-key", knows_a_session_by_its_key);

  return g_test_run ();
}
