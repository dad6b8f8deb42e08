/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of the connection between sonded and a worker. */
#include "daemon/base/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/socket.h"
#include "tests/lib/packet-socket.h"

typedef struct
{
  SondeChannel *channel; /* the end under test: it plays control, its peer is a worker */
  int own;               /* the channel's */
  int peer;
  guint n_messages;
  guint n_closed;
  guint32 last_type;
  char *close_reason;
  gboolean free_in_callback;
  gboolean hold_in_callback;
  guint n_drained;
  gulong cost_us; /* of a message */
} Fixture;

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  Fixture *self = user_data;

  self->n_messages++;
  self->last_type = message->type;
  g_usleep (self->cost_us);
  if (self->free_in_callback)
    g_clear_pointer (&self->channel, sonde_channel_free);
  if (self->hold_in_callback)
    sonde_channel_hold (self->channel, TRUE);
}

static void
on_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  Fixture *self = user_data;

  self->n_closed++;
  g_free (self->close_reason);
  self->close_reason = g_strdup (error != NULL ? error->message : "");
}

static void
on_drained (SondeChannel *channel, gpointer user_data)
{
  ((Fixture *) user_data)->n_drained++;
}

static const SondeChannelHandler handler
    = { .message = on_message, .closed = on_closed, .drained = on_drained };

static void
set_up (Fixture *self, gconstpointer data)
{
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL));
  self->channel = sonde_channel_new (fds[0], SONDE_WAY_WORKER_TO_FRONT, &handler, self);
  self->own = fds[0];
  self->peer = fds[1];
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  sonde_channel_free (self->channel);
  sonde_clear_fd (&self->peer);
  g_free (self->close_reason);
}

static void
send_hello (int fd)
{
  SondeMessageHello hello
      = { .header = { SONDE_MESSAGE_HELLO, sizeof hello }, .version = SONDE_MESSAGE_VERSION };

  g_assert_cmpint (send (fd, &hello, sizeof hello, MSG_NOSIGNAL), ==, sizeof hello);
}

static void
spin (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    continue;
}

static void
delivers_messages (Fixture *self, gconstpointer data)
{
  send_hello (self->peer);
  send_hello (self->peer);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 2);
  g_assert_cmpuint (self->last_type, ==, SONDE_MESSAGE_HELLO);
}

static void
tells_what_waits_and_what_came (Fixture *self, gconstpointer data)
{
  g_assert_cmpint (sonde_channel_fd (self->channel), ==, self->own);
  g_assert_false (sonde_channel_is_waiting (self->channel));
  send_hello (self->peer);
  g_assert_true (sonde_channel_is_waiting (self->channel));
  g_assert_cmpuint (sonde_channel_n_received (self->channel), ==, 0);
  spin ();
  g_assert_false (sonde_channel_is_waiting (self->channel));
  g_assert_cmpuint (sonde_channel_n_received (self->channel), ==, 1);
  sonde_clear_fd (&self->peer);
  g_assert_true (sonde_channel_is_waiting (self->channel)); /* the end */
  spin ();
  g_assert_false (sonde_channel_is_waiting (self->channel));
  g_assert_cmpint (sonde_channel_fd (self->channel), ==, -1);
}

/* The second message waits, and so does the end. */
static void
hears_nothing_while_it_is_held (Fixture *self, gconstpointer data)
{
  self->hold_in_callback = TRUE;
  send_hello (self->peer);
  send_hello (self->peer);
  sonde_clear_fd (&self->peer);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 1);
  g_assert_cmpuint (self->n_closed, ==, 0);
  self->hold_in_callback = FALSE;
  sonde_channel_hold (self->channel, FALSE);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 2);
  g_assert_cmpuint (self->n_closed, ==, 1);
}

/* As if somebody had put another file into its number. */
static void
closes_when_it_cannot_receive (Fixture *self, gconstpointer data)
{
  int pipe_fds[2];

  g_assert_cmpint (pipe2 (pipe_fds, O_CLOEXEC | O_NONBLOCK), ==, 0);
  sonde_channel_free (self->channel);
  self->channel = sonde_channel_new (pipe_fds[0], SONDE_WAY_WORKER_TO_FRONT, &handler, self);
  g_assert_cmpint (write (pipe_fds[1], "?", 1), ==, 1);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 0);
  g_assert_cmpuint (self->n_closed, ==, 1);
  g_assert_nonnull (strstr (self->close_reason, "Cannot receive"));
  g_assert_cmpint (fcntl (pipe_fds[0], F_GETFD), ==, -1);
  close (pipe_fds[1]);
}

/* Others on the loop wait for one of them, not for all. */
static void
yields_after_a_costly_message (Fixture *self, gconstpointer data)
{
  self->cost_us = 20000;
  for (guint i = 0; i < 4; i++)
    send_hello (self->peer);
  g_main_context_iteration (NULL, FALSE);
  g_assert_cmpuint (self->n_messages, ==, 1);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 4);
}

static void
tells_end_of_file_once (Fixture *self, gconstpointer data)
{
  send_hello (self->peer);
  sonde_clear_fd (&self->peer);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 1);
  g_assert_cmpuint (self->n_closed, ==, 1);
  g_assert_cmpstr (self->close_reason, ==, "");
}

static void
closes_on_rubbish_and_says_why (Fixture *self, gconstpointer data)
{
  g_assert_cmpint (send (self->peer, "rubbish!", 8, MSG_NOSIGNAL), ==, 8);
  send_hello (self->peer);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 0);
  g_assert_cmpuint (self->n_closed, ==, 1);
  g_assert_nonnull (strstr (self->close_reason, "size is not the packet's"));
}

static void
may_be_freed_while_it_delivers (Fixture *self, gconstpointer data)
{
  self->free_in_callback = TRUE;
  send_hello (self->peer);
  send_hello (self->peer);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 1);
  g_assert_cmpuint (self->n_closed, ==, 0);
}

static int
count_fds (void)
{
  g_autoptr (GDir) dir = g_dir_open ("/proc/self/fd", 0, NULL);
  int n = 0;

  while (g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

/* A packet that carries both ends of a pipe. */
static void
send_descriptors (int fd, void *bytes, size_t size_bytes)
{
  int pipe_fds[2];

  g_assert_cmpint (pipe2 (pipe_fds, O_CLOEXEC), ==, 0);
  g_assert_cmpint (packet_socket_send (fd, bytes, size_bytes, pipe_fds, 2, 0), ==,
                   (gssize) size_bytes);
  close (pipe_fds[0]);
  close (pipe_fds[1]);
}

static void
closes_descriptors_that_nobody_took (Fixture *self, gconstpointer data)
{
  int before = count_fds ();
  SondeMessageHello hello
      = { .header = { SONDE_MESSAGE_HELLO, sizeof hello }, .version = SONDE_MESSAGE_VERSION };

  send_descriptors (self->peer, &hello, sizeof hello);
  spin ();
  g_assert_cmpuint (self->n_closed, ==, 1);
  g_assert_cmpint (count_fds (), ==, before - 1); /* the channel's own socket went as well */
}

/* It looks like the end of file, but the kernel has installed them. */
static void
closes_descriptors_of_an_empty_packet (Fixture *self, gconstpointer data)
{
  int before = count_fds ();

  send_descriptors (self->peer, NULL, 0);
  spin ();
  g_assert_cmpuint (self->n_closed, ==, 1);
  g_assert_cmpint (count_fds (), ==, before - 1);
}

static void
knows_who_sent_the_first_message (Fixture *self, gconstpointer data)
{
  int yes = 1;

  g_assert_cmpint (setsockopt (self->own, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes), ==, 0);
  g_assert_cmpint (sonde_channel_peer_pid (self->channel), ==, 0);
  send_hello (self->peer);
  send_hello (self->peer);
  spin ();
  g_assert_cmpint (sonde_channel_peer_pid (self->channel), ==, getpid ());
  g_assert_true (sonde_channel_has_peer (self->channel));
  sonde_clear_fd (&self->peer);
  g_assert_false (sonde_channel_has_peer (self->channel));
}

static void
queues_in_order_while_the_socket_is_full (Fixture *self, gconstpointer data)
{
  guint sent = 0, received = 0;

  while (sonde_channel_queued (self->channel) < 100)
    {
      SondeMessageFile file
          = { .header = { .type = SONDE_MESSAGE_FILE }, .request_id = ++sent, .status = ENOENT };

      g_assert_true (sonde_channel_send (self->channel, &file, sizeof file, NULL, 0, NULL));
    }
  while (received < sent)
    {
      SondeMessageFile file;

      if (recv (self->peer, &file, sizeof file, MSG_DONTWAIT) != sizeof file)
        g_main_context_iteration (NULL, TRUE);
      else
        g_assert_cmpuint (file.request_id, ==, ++received);
    }
  g_assert_cmpuint (sonde_channel_queued (self->channel), ==, 0);
  g_assert_cmpuint (self->n_drained, >, 0);
}

static guint n_closed_by_owner;

static void
close_and_count (int fd)
{
  n_closed_by_owner++;
  g_assert_cmpint (close (fd), ==, 0);
}

/* The end of a broker's connection, which has another owner than the fixture's. */
static void
replace_channel (Fixture *self)
{
  static const SondeChannelHandler own_handler = {
    .message = on_message, .closed = on_closed, .drained = on_drained, .close_fd = close_and_count
  };

  n_closed_by_owner = 0;
  g_clear_pointer (&self->channel, sonde_channel_free);
  sonde_clear_fd (&self->peer);
  {
    int fds[2];

    g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL));
    self->channel = sonde_channel_new (fds[0], SONDE_WAY_BROKER_TO_FRONT, &own_handler, self);
    self->peer = fds[1];
  }
}

static void
has_its_owner_close_what_was_sent (Fixture *self, gconstpointer data)
{
  SondeMessageHeader message = { .type = SONDE_MESSAGE_CONTROL };
  int fd = open ("/dev/null", O_RDONLY | O_CLOEXEC);

  replace_channel (self);
  g_assert_true (sonde_channel_send (self->channel, &message, sizeof message, &fd, 1, NULL));
  g_assert_cmpuint (n_closed_by_owner, ==, 1);
  g_assert_cmpint (fcntl (fd, F_GETFD), ==, -1);
}

/* Of a message that nobody took them from, of one that may have none, and of an empty packet. */
static void
has_its_owner_close_what_came (Fixture *self, gconstpointer data)
{
  SondeMessageProcess process = { .header = { SONDE_MESSAGE_PROCESS, sizeof process },
                                  .pid = 1,
                                  .fds = SONDE_PROCESS_FD_MAPS | SONDE_PROCESS_FD_CMDLINE };
  SondeMessageHeader ended = { SONDE_MESSAGE_TARGETS_ENDED, sizeof ended };

  replace_channel (self);
  send_descriptors (self->peer, &process, sizeof process);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 1);
  g_assert_cmpuint (n_closed_by_owner, ==, 2);
  send_descriptors (self->peer, &ended, sizeof ended);
  spin ();
  g_assert_cmpuint (self->n_closed, ==, 1);
  g_assert_cmpuint (n_closed_by_owner, ==, 2 + 2 + 1); /* the connection is one, too */
  replace_channel (self);
  send_descriptors (self->peer, NULL, 0);
  spin ();
  g_assert_cmpuint (self->n_closed, ==, 2);
  g_assert_cmpuint (n_closed_by_owner, ==, 2 + 1);
}

static void
refuses_more_than_its_queue_holds (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 2 * SONDE_CHANNEL_MAX_QUEUE && error == NULL; i++)
    sonde_channel_send_simple (self->channel, SONDE_MESSAGE_PAUSE, &error);
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_cmpuint (sonde_channel_queued (self->channel), ==, SONDE_CHANNEL_MAX_QUEUE);
}

/* Its last word may still be unread; it is a failure only once that was heard. */
static void
hears_what_a_dead_peer_has_said (Fixture *self, gconstpointer data)
{
  SondeMessageFile file = { .header.type = SONDE_MESSAGE_FILE };
  int fds[]
      = { open ("/dev/null", O_RDONLY | O_CLOEXEC), open ("/dev/null", O_RDONLY | O_CLOEXEC) };
  g_autoptr (GError) error = NULL;

  send_hello (self->peer);
  sonde_clear_fd (&self->peer);
  g_assert_true (sonde_channel_send (self->channel, &file, sizeof file, &fds[0], 1, &error));
  g_assert_no_error (error);
  g_assert_cmpint (fcntl (fds[0], F_GETFD), ==, -1);
  g_assert_cmpuint (self->n_closed, ==, 0);
  spin ();
  g_assert_cmpuint (self->n_messages, ==, 1);
  g_assert_cmpuint (self->n_closed, ==, 1);
  g_assert_false (sonde_channel_send (self->channel, &file, sizeof file, &fds[1], 1, &error));
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  g_assert_cmpint (fcntl (fds[1], F_GETFD), ==, -1);
}

#define ADD(path, function)                                                                        \
  g_test_add ("/channel/" path, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("delivers-messages", delivers_messages);
  ADD ("yields-after-a-costly-message", yields_after_a_costly_message);
  ADD ("tells-what-waits-and-what-came", tells_what_waits_and_what_came);
  ADD ("hears-nothing-while-it-is-held", hears_nothing_while_it_is_held);
  ADD ("closes-when-it-cannot-receive", closes_when_it_cannot_receive);
  ADD ("tells-end-of-file-once", tells_end_of_file_once);
  ADD ("closes-on-rubbish-and-says-why", closes_on_rubbish_and_says_why);
  ADD ("may-be-freed-while-it-delivers", may_be_freed_while_it_delivers);
  ADD ("closes-descriptors-that-nobody-took", closes_descriptors_that_nobody_took);
  ADD ("closes-descriptors-of-an-empty-packet", closes_descriptors_of_an_empty_packet);
  ADD ("knows-who-sent-the-first-message", knows_who_sent_the_first_message);
  ADD ("queues-in-order-while-the-socket-is-full", queues_in_order_while_the_socket_is_full);
  ADD ("has-its-owner-close-what-was-sent", has_its_owner_close_what_was_sent);
  ADD ("has-its-owner-close-what-came", has_its_owner_close_what_came);
  ADD ("refuses-more-than-its-queue-holds", refuses_more_than_its_queue_holds);
  ADD ("hears-what-a-dead-peer-has-said", hears_what_a_dead_peer_has_said);
  return g_test_run ();
}
