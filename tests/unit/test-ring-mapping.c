/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Rings in one message and in many, at first and later. */
#include "daemon/capture/perf/rings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_CPUS 150 /* more than go into one message */

typedef struct
{
  SondeRings *rings;
  guint n_filled;
  SondeMessageRingsMapped answer;
} Fixture;

static void
on_filled (gpointer user_data)
{
  ((Fixture *) user_data)->n_filled++;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  static const SondeMessageSetup setup = { .asked.frequency_hz = 1 }; /* rings of the smallest size */
  static const SondeRingsHandler handler = { .filled = on_filled };

  fixture->rings = sonde_rings_new (&setup, &handler, fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_rings_free (fixture->rings);
}

/* As large as the largest ring; only what is looked at takes memory. */
static int
make_memory (void)
{
  int fd = memfd_create ("ring", MFD_CLOEXEC);

  g_assert_cmpint (ftruncate (fd, 1 << 20), ==, 0);
  return fd;
}

/* Rings of samples and side band by turns, of which @n_more follow. @fd: of each; -1: new memory */
static gboolean
take (Fixture *fixture, guint n_rings, guint n_more, int fd)
{
  g_autofree SondeMessageEvents *message
      = g_malloc0 (sizeof *message + n_rings * sizeof message->events[0]);
  int fds[SONDE_MESSAGE_MAX_FDS];
  gboolean is_last;

  message->n_events = n_rings;
  message->n_more = n_more;
  for (guint i = 0; i < n_rings; i++)
    {
      message->events[i].kind = i % 2 == 0 ? SONDE_EVENT_SAMPLES : SONDE_EVENT_SIDEBAND;
      fds[i] = fd < 0 ? make_memory () : fcntl (fd, F_DUPFD_CLOEXEC, 3);
    }
  memset (&fixture->answer, 0, sizeof fixture->answer);
  is_last = sonde_rings_map (fixture->rings, message, fds, &fixture->answer);
  for (guint i = 0; i < n_rings; i++)
    g_assert_cmpint (fds[i], ==, -1);
  return is_last;
}

static void
maps_nothing_that_is_no_ring (Fixture *fixture, gconstpointer data)
{
  int fd = open ("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

  g_assert_true (take (fixture, 2, 0, fd));
  g_assert_cmpint (fixture->answer.status, !=, 0);
  g_assert_cmpuint (sonde_rings_size (fixture->rings), ==, 0);
  close (fd);
}

static void
refuses_more_than_there_can_be (Fixture *fixture, gconstpointer data)
{
  int fds[SONDE_MESSAGE_MAX_FDS];
  g_autofree SondeMessageEvents *message
      = g_malloc0 (sizeof *message + SONDE_MESSAGE_MAX_FDS * sizeof message->events[0]);

  message->n_events = SONDE_MESSAGE_MAX_FDS;
  message->n_more = 1;
  memset (fds, 0xff, sizeof fds);
  for (guint n = SONDE_MESSAGE_MAX_FDS; n <= SONDE_MESSAGE_MAX_RINGS; n += SONDE_MESSAGE_MAX_FDS)
    g_assert_false (sonde_rings_map (fixture->rings, message, fds, &fixture->answer));
  g_assert_true (sonde_rings_map (fixture->rings, message, fds, &fixture->answer));
  g_assert_cmpint (fixture->answer.status, ==, E2BIG);
  g_assert_true (take (fixture, 2, 0, -1));
  g_assert_cmpint (fixture->answer.status, ==, 0);
  g_assert_cmpuint (fixture->answer.n_rings, ==, 2);
}

static void
maps_those_of_many_processors (Fixture *fixture, gconstpointer data)
{
  guint n_rest = 2 * N_CPUS - SONDE_MESSAGE_MAX_FDS;
  guint n_samples = (SONDE_MESSAGE_MAX_FDS + 1) / 2 + (n_rest + 1) / 2;

  g_assert_false (take (fixture, SONDE_MESSAGE_MAX_FDS, n_rest, -1));
  g_assert_cmpuint (sonde_rings_size (fixture->rings), ==, 0);
  g_assert_true (take (fixture, n_rest, 0, -1));
  g_assert_cmpint (fixture->answer.status, ==, 0);
  g_assert_cmpuint (fixture->answer.n_rings, ==, 2 * N_CPUS);
  g_assert_cmpuint (sonde_rings_size (fixture->rings), ==,
                    n_samples * SONDE_RINGS_MIN_SAMPLE_BYTES
                        + (2 * N_CPUS - n_samples) * SONDE_RINGS_SIDEBAND_BYTES);
  g_assert_cmpuint (fixture->answer.sample_ring_bytes, ==, SONDE_RINGS_MIN_SAMPLE_BYTES);
}

static void
maps_those_of_a_processor_that_comes (Fixture *fixture, gconstpointer data)
{
  int fd = open ("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

  g_assert_true (take (fixture, 4, 0, -1));
  g_assert_true (take (fixture, 2, 0, fd));
  g_assert_cmpint (fixture->answer.status, !=, 0);
  g_assert_cmpuint (fixture->answer.n_rings, ==, 4);
  g_assert_true (take (fixture, 2, 0, -1));
  g_assert_cmpint (fixture->answer.status, ==, 0);
  g_assert_cmpuint (fixture->answer.n_rings, ==, 6);
  g_assert_cmpuint (sonde_rings_size (fixture->rings), ==,
                    3 * (SONDE_RINGS_MIN_SAMPLE_BYTES + SONDE_RINGS_SIDEBAND_BYTES));
  close (fd);
}

/* A file can always be read: it stands for a ring that is full. */
static void
says_when_one_is_full (Fixture *fixture, gconstpointer data)
{
  guint n_before;

  g_assert_true (take (fixture, 2, 0, -1));
  while (fixture->n_filled == 0)
    g_main_context_iteration (NULL, TRUE);
  sonde_rings_unwatch (fixture->rings);
  n_before = fixture->n_filled;
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (fixture->n_filled, ==, n_before);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function)                                                                        \
  g_test_add ("/ring-mapping/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("maps-nothing-that-is-no-ring", maps_nothing_that_is_no_ring);
  ADD ("refuses-more-than-there-can-be", refuses_more_than_there_can_be);
  ADD ("maps-those-of-many-processors", maps_those_of_many_processors);
  ADD ("maps-those-of-a-processor-that-comes", maps_those_of_a_processor_that_comes);
  ADD ("says-when-one-is-full", says_when_one_is_full);
#undef ADD
  return g_test_run ();
}
