/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of what a worker tells control. */
#include "daemon/capture/worker/message-sender.h"

#include <errno.h>
#include <sys/socket.h>

#include "daemon/base/socket.h"

typedef struct
{
  SondeMessageSender *sender;
  SondeChannel *control;
  GPtrArray *received; /* copies of messages */
  gboolean has_parted;
} Fixture;

static void
on_message (SondeChannel *channel,
            const SondeMessageHeader *message,
            int *fds,
            unsigned n_fds,
            gpointer user_data)
{
  Fixture *fixture = user_data;

  g_ptr_array_add (fixture->received, g_memdup2 (message, message->size));
}

static void
on_sender_message (SondeChannel *channel,
                   const SondeMessageHeader *message,
                   int *fds,
                   unsigned n_fds,
                   gpointer user_data)
{
  Fixture *fixture = user_data;

  if (message->type == SONDE_MESSAGE_LEAVE)
    sonde_message_sender_leave (fixture->sender);
}

static void
on_sender_closed (SondeChannel *channel, const GError *error, gpointer user_data)
{
  Fixture *fixture = user_data;

  sonde_message_sender_close (fixture->sender);
}

static void
on_parted (gpointer user_data)
{
  Fixture *fixture = user_data;

  fixture->has_parted = TRUE;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  static const SondeChannelHandler control_handler = { .message = on_message };
  static const SondeChannelHandler sender_handler
      = { .message = on_sender_message, .closed = on_sender_closed };
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, fds, NULL));
  fixture->received = g_ptr_array_new_with_free_func (g_free);
  fixture->control = sonde_channel_new (fds[0], SONDE_WAY_WORKER_TO_FRONT, &control_handler, fixture);
  fixture->sender = sonde_message_sender_new (fds[1], &sender_handler, on_parted, fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_message_sender_free (fixture->sender);
  sonde_channel_free (fixture->control);
  g_ptr_array_unref (fixture->received);
}

static const SondeMessageFailed *
wait_for_message (Fixture *fixture, guint n_messages)
{
  while (fixture->received->len < n_messages)
    g_main_context_iteration (NULL, TRUE);
  return g_ptr_array_index (fixture->received, n_messages - 1);
}

static void
wait_for_parting (Fixture *fixture)
{
  while (!fixture->has_parted)
    g_main_context_iteration (NULL, TRUE);
}

static void
fail (Fixture *fixture)
{
  SondeMessageFailed message = { .error = EMFILE, .text = "too many" };

  sonde_message_sender_send (fixture->sender, SONDE_MESSAGE_FAILED, &message, sizeof message);
}

static void
says_its_last_word_until_it_is_heard (Fixture *fixture, gconstpointer data)
{
  const SondeMessageFailed *failed;

  fail (fixture);
  sonde_message_sender_part (fixture->sender);
  wait_for_message (fixture, 1);
  sonde_message_sender_repeat (fixture->sender);
  failed = wait_for_message (fixture, 2);
  g_assert_cmpuint (failed->header.type, ==, SONDE_MESSAGE_FAILED);
  g_assert_cmpint (failed->error, ==, EMFILE);
  g_assert_cmpstr (failed->text, ==, "too many");
  g_assert_false (fixture->has_parted);
  sonde_channel_send_simple (fixture->control, SONDE_MESSAGE_LEAVE, NULL);
  wait_for_parting (fixture);
}

static void
does_not_wait_for_a_control_that_is_gone (Fixture *fixture, gconstpointer data)
{
  fail (fixture);
  sonde_message_sender_part (fixture->sender);
  g_clear_pointer (&fixture->control, sonde_channel_free);
  wait_for_parting (fixture);
}

static void
parts_at_once_without_a_last_word (Fixture *fixture, gconstpointer data)
{
  sonde_message_sender_part (fixture->sender);
  wait_for_parting (fixture);
  sonde_message_sender_repeat (fixture->sender); /* has nothing to say */
  g_assert_cmpuint (fixture->received->len, ==, 0);
}

int
main (int argc, char **argv)
{
#define ADD(name, function)                                                                        \
  g_test_add ("/message-sender/" name, Fixture, NULL, set_up, function, tear_down)

  g_test_init (&argc, &argv, NULL);
  ADD ("says-its-last-word-until-it-is-heard", says_its_last_word_until_it_is_heard);
  ADD ("does-not-wait-for-a-control-that-is-gone", does_not_wait_for_a_control_that_is_gone);
  ADD ("parts-at-once-without-a-last-word", parts_at_once_without_a_last_word);
  return g_test_run ();
}
