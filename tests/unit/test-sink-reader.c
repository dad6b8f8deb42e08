/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Readers that do with their end of a stream whatever they can, or nothing at all. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "tests/lib/packet-socket.h"
#include "tests/unit/sink-fixture.h"

static void
assert_leaves (Fixture *fixture)
{
  while (fixture->closed < 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpint (fixture->closed, ==, EPIPE);
}

static void
closes_when_its_reader_shuts_down (Fixture *fixture, gconstpointer data)
{
  record_samples (fixture, 3);
  g_assert_cmpint (shutdown (fixture->reader, SHUT_RD), ==, 0);
  record_samples (fixture, 3);
  assert_leaves (fixture);
}

static void
does_not_care_for_flags_and_buffers_of_its_reader (Fixture *fixture, gconstpointer data)
{
  g_autoptr (StreamSummary) summary = NULL;
  int smallest = 1;

  /* The reader's end blocks; ours shares nothing with it. */
  g_assert_cmpint (fcntl (fixture->reader, F_SETFL, 0), ==, 0);
  g_assert_cmpint (setsockopt (fixture->reader, SOL_SOCKET, SO_RCVBUF, &smallest, sizeof smallest),
                   ==, 0);
  g_assert_cmpint (setsockopt (fixture->reader, SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest),
                   ==, 0);
  /* More than the socket takes: a blocking send would never return. */
  record_samples (fixture, 4000);
  g_assert_cmpint (fixture->closed, ==, -1);
  summary = finish (fixture, NULL);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], >, 0);
}

static void
cannot_be_written_to_by_its_reader (Fixture *fixture, gconstpointer data)
{
  g_assert_cmpint (send (fixture->reader, "x", 1, MSG_NOSIGNAL), ==, -1);
  g_assert_cmpint (errno, ==, EPIPE);
}

/* Passed to itself, which makes one more of it; none of them is ours. */
static int
pass_to_itself (int fd)
{
  char control[CMSG_SPACE (sizeof fd)] = { 0 };
  struct iovec part = { .iov_base = control, .iov_len = 1 };
  struct msghdr message = {
    .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control
  };
  sonde_autofd int from = -1;
  sonde_autofd int to = -1;
  int fds[2], passed;

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  from = fds[0];
  to = fds[1];
  g_assert_cmpint (packet_socket_send (from, "", 1, &fd, 1, 0), ==, 1);
  g_assert_cmpint (recvmsg (to, &message, MSG_CMSG_CLOEXEC), ==, 1);
  memcpy (&passed, CMSG_DATA (CMSG_FIRSTHDR (&message)), sizeof passed);
  return passed;
}

static void
goes_on_while_one_copy_of_the_end_is_open (Fixture *fixture, gconstpointer data)
{
  sonde_autofd int copy = dup (fixture->reader);
  g_autoptr (StreamSummary) summary = NULL;

  record_samples (fixture, 3);
  sonde_clear_fd (&fixture->reader);
  fixture->reader = pass_to_itself (copy);
  sonde_clear_fd (&copy);
  record_samples (fixture, 3);
  summary = finish (fixture, NULL);
  g_assert_cmpuint (summary->n_types[SONDE_FRAME_SAMPLE], ==, 6);
}

/* --- time --- */

static void
closes_a_reader_that_is_stuck (Fixture *fixture, gconstpointer data)
{
  gint64 full_us;

  record_samples (fixture, 8000);
  g_assert_cmpuint (fixture->sink->counters[SONDE_LEDGER_STREAM_LOST], >, 0);
  full_us = g_get_monotonic_time ();
  sonde_sink_close_if_stuck (fixture->sink, full_us + SONDE_SINK_STUCK_US - G_USEC_PER_SEC);
  g_assert_cmpint (fixture->closed, ==, -1);
  /* It takes something, so its time begins anew. */
  read_some (fixture);
  record_samples (fixture, 8000);
  sonde_sink_close_if_stuck (fixture->sink, full_us + SONDE_SINK_STUCK_US);
  g_assert_cmpint (fixture->closed, ==, -1);
  sonde_sink_close_if_stuck (fixture->sink,
                             g_get_monotonic_time () + SONDE_SINK_STUCK_US + G_USEC_PER_SEC);
  g_assert_cmpint (fixture->closed, ==, ETIMEDOUT);
}

static void
keeps_a_reader_that_has_nothing_to_take (Fixture *fixture, gconstpointer data)
{
  record_samples (fixture, 1);
  sonde_sink_close_if_stuck (fixture->sink, g_get_monotonic_time () + 10 * SONDE_SINK_STUCK_US);
  g_assert_cmpint (fixture->closed, ==, -1);
}

#define ADD(name, function)                                                                        \
  g_test_add ("/sink-reader/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("closes-when-its-reader-shuts-down", closes_when_its_reader_shuts_down);
  ADD ("does-not-care-for-flags-and-buffers-of-its-reader",
       does_not_care_for_flags_and_buffers_of_its_reader);
  ADD ("cannot-be-written-to-by-its-reader", cannot_be_written_to_by_its_reader);
  ADD ("goes-on-while-one-copy-of-the-end-is-open", goes_on_while_one_copy_of_the_end_is_open);
  ADD ("closes-a-reader-that-is-stuck", closes_a_reader_that_is_stuck);
  ADD ("keeps-a-reader-that-has-nothing-to-take", keeps_a_reader_that_has_nothing_to_take);
  return g_test_run ();
}
