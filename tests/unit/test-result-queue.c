/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When and in which order a broker's results are told, and what becomes of those that are not. */
#include "daemon/broker/result-queue.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"

typedef struct
{
  SondeResultQueue *queue;
  GString *told;         /* a letter for each */
  char freed_by;         /* the letter at which the queue is freed; 0: none */
  gboolean says_another; /* once, from inside of the first */
  int fd;                /* of the last message */
} Listener;

static void
note_letter (Listener *self, char letter)
{
  g_string_append_c (self->told, letter);
  if (self->says_another)
    {
      self->says_another = FALSE;
      sonde_result_queue_note (self->queue, "said while one was told");
    }
  if (letter == self->freed_by)
    g_clear_pointer (&self->queue, sonde_result_queue_free);
}

static void
on_proved (const GError *error, gpointer user_data)
{
  note_letter (user_data, error == NULL ? 'p' : 'P');
}

static void
on_opened (const GError *error, gpointer user_data)
{
  note_letter (user_data, error == NULL ? 'o' : 'O');
}

static void
on_added (const GError *error, gpointer user_data)
{
  note_letter (user_data, error == NULL ? 'a' : 'A');
}

static void
on_message (gpointer message, gsize size_bytes, const int *fds, unsigned n_fds, gpointer user_data)
{
  Listener *self = user_data;

  g_assert_cmpuint (((SondeMessageHeader *) message)->size, ==, size_bytes);
  g_assert_cmpuint (n_fds, ==, 1);
  self->fd = fds[0];
  note_letter (self, 'm');
}

static void
on_note (const char *text, gpointer user_data)
{
  g_assert_nonnull (text);
  note_letter (user_data, 'n');
}

static void
on_all_ended (gpointer user_data)
{
  note_letter (user_data, 'e');
}

static void
on_changed (gboolean has_other_rings, gpointer user_data)
{
  note_letter (user_data, has_other_rings ? 'r' : 'c');
}

static void
on_failed (const GError *error, gpointer user_data)
{
  g_assert_error (error, SONDE_ERROR, SONDE_ERROR_FAILED);
  note_letter (user_data, 'F');
}

static const SondeBrokerResults results = {
  .proved = on_proved,
  .opened = on_opened,
  .added = on_added,
  .message = on_message,
  .note = on_note,
  .all_ended = on_all_ended,
  .changed = on_changed,
  .failed = on_failed,
};

static Listener
listener_new (void)
{
  return (Listener){ .told = g_string_new (NULL), .fd = -1 };
}

static void
listener_clear (Listener *self)
{
  sonde_result_queue_free (self->queue);
  g_string_free (self->told, TRUE);
  sonde_clear_fd (&self->fd);
}

static int
say_message (Listener *self)
{
  SondeMessageDocument message
      = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = SONDE_DOCUMENT_CPUINFO };
  int fd = open ("/dev/null", O_RDONLY | O_CLOEXEC);

  g_assert_cmpint (fd, >=, 0);
  sonde_result_queue_message (self->queue, &message, sizeof message, &fd, 1);
  return fd;
}

static void
say_all (Listener *self)
{
  sonde_result_queue_push (self->queue, SONDE_RESULT_PROVED, NULL);
  sonde_result_queue_push (self->queue, SONDE_RESULT_OPENED, NULL);
  say_message (self);
  sonde_result_queue_note (self->queue, "a note");
  sonde_result_queue_push (self->queue, SONDE_RESULT_ADDED,
                           g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, "no"));
  sonde_result_queue_push (self->queue, SONDE_RESULT_CHANGED, NULL);
  sonde_result_queue_push (self->queue, SONDE_RESULT_RINGS_CHANGED, NULL);
  sonde_result_queue_push (self->queue, SONDE_RESULT_ALL_ENDED, NULL);
  sonde_result_queue_push (self->queue, SONDE_RESULT_FAILED,
                           g_error_new_literal (SONDE_ERROR, SONDE_ERROR_FAILED, "no"));
}

static void
listen_to_all (void)
{
  while (g_main_context_iteration (NULL, FALSE))
    continue;
}

static void
tells_nothing_from_inside_of_a_call (void)
{
  Listener self = listener_new ();

  self.queue = sonde_result_queue_new (&results, &self);
  say_all (&self);
  g_assert_cmpstr (self.told->str, ==, "");
  listen_to_all ();
  g_assert_cmpstr (self.told->str, ==, "pomnAcreF");
  listener_clear (&self);
}

static void
tells_what_is_said_meanwhile_last (void)
{
  Listener self = listener_new ();

  self.queue = sonde_result_queue_new (&results, &self);
  self.says_another = TRUE;
  say_all (&self);
  listen_to_all ();
  g_assert_cmpstr (self.told->str, ==, "pomnAcreFn");
  sonde_result_queue_note (self.queue, "and goes on after that");
  listen_to_all ();
  g_assert_cmpstr (self.told->str, ==, "pomnAcreFnn");
  listener_clear (&self);
}

static void
can_be_freed_by_who_is_told (void)
{
  Listener self = listener_new ();
  int fd;

  self.queue = sonde_result_queue_new (&results, &self);
  self.freed_by = 'p';
  sonde_result_queue_push (self.queue, SONDE_RESULT_PROVED, NULL);
  fd = say_message (&self);
  listen_to_all ();
  g_assert_cmpstr (self.told->str, ==, "p");
  g_assert_cmpint (fcntl (fd, F_GETFD), <, 0);
  g_assert_cmpint (errno, ==, EBADF);
  listener_clear (&self);
}

static void
closes_what_it_could_not_tell (void)
{
  Listener self = listener_new ();
  int fd;

  self.queue = sonde_result_queue_new (&results, &self);
  fd = say_message (&self);
  listener_clear (&self);
  g_assert_cmpint (fcntl (fd, F_GETFD), <, 0);
  listen_to_all ();
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/result-queue/tells-nothing-from-inside-of-a-call",
                   tells_nothing_from_inside_of_a_call);
  g_test_add_func ("/result-queue/tells-what-is-said-meanwhile-last",
                   tells_what_is_said_meanwhile_last);
  g_test_add_func ("/result-queue/can-be-freed-by-who-is-told", can_be_freed_by_who_is_told);
  g_test_add_func ("/result-queue/closes-what-it-could-not-tell", closes_what_it_could_not_tell);
  return g_test_run ();
}
