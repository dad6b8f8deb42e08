/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which perf events stay open, and what they say was lost. Files stand for events: what is read
 * from them is what the kernel would say. */
#include "daemon/capture/event-keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#define FORMAT_LOST (1 << 4) /* PERF_FORMAT_LOST, Linux 6.0 */

/* value, id, lost: from where it is read */
static int
make_event (guint64 n_lost)
{
  const guint64 values[] = { 0, 1, n_lost };
  int fd = memfd_create ("event", MFD_CLOEXEC);

  g_assert_cmpint (pwrite (fd, values, sizeof values, 0), ==, sizeof values);
  return fd;
}

static gboolean
is_open (int fd)
{
  return fcntl (fd, F_GETFD) >= 0 || errno != EBADF;
}

static SondeEventKeeper *
keeper_new (void)
{
  return sonde_event_keeper_new (PERF_FORMAT_ID | FORMAT_LOST);
}

static int
add (SondeEventKeeper *keeper, SondeEventKind kind, int tid, int cpu, guint64 n_lost)
{
  const SondeMessageEvent event = { .id = 1, .cpu = cpu, .tid = tid, .kind = kind };
  int fd = make_event (n_lost);

  g_assert_true (sonde_event_keeper_add (keeper, &event, fd));
  return fd;
}

static void
that_of_a_processor_that_came_back_replaces_the_dead_one (void)
{
  g_autoptr (SondeEventKeeper) keeper = keeper_new ();
  int sideband = add (keeper, SONDE_EVENT_SIDEBAND, -1, 1, 0);
  int other = add (keeper, SONDE_EVENT_SAMPLES, -1, 0, 3);
  int dead = add (keeper, SONDE_EVENT_SAMPLES, -1, 1, 4);
  int live = add (keeper, SONDE_EVENT_SAMPLES, -1, 1, 5);

  g_assert_false (is_open (dead));
  g_assert_true (is_open (sideband) && is_open (other) && is_open (live));
}

static void
what_the_dead_one_had_lost_stays_counted (void)
{
  g_autoptr (SondeEventKeeper) keeper = keeper_new ();

  add (keeper, SONDE_EVENT_SAMPLES, -1, 1, 4);
  add (keeper, SONDE_EVENT_SAMPLES, -1, 1, 5);
  add (keeper, SONDE_EVENT_SIDEBAND, -1, 1, 100);
  g_assert_cmpuint (sonde_event_keeper_read_lost (keeper, G_MAXUINT), ==, 9);
}

static void
those_of_tasks_all_stay (void)
{
  g_autoptr (SondeEventKeeper) keeper = keeper_new ();
  int first = add (keeper, SONDE_EVENT_SAMPLES, 7, 1, 1);
  int second = add (keeper, SONDE_EVENT_SAMPLES, 7, 1, 2);

  g_assert_true (is_open (first) && is_open (second));
  g_assert_cmpuint (sonde_event_keeper_read_lost (keeper, G_MAXUINT), ==, 3);
}

static void
one_too_many_is_refused_and_closed (void)
{
  g_autoptr (SondeEventKeeper) keeper = keeper_new ();
  const SondeMessageEvent task = { .tid = 7, .kind = SONDE_EVENT_SIDEBAND };
  const SondeMessageEvent cpu = { .tid = -1, .kind = SONDE_EVENT_SIDEBAND };
  int fd;

  /* No descriptor: none is used. */
  g_assert_true (sonde_event_keeper_add (keeper, &cpu, make_event (0)));
  for (guint i = 1; i < SONDE_EVENT_KEEPER_MAX; i++)
    g_assert_true (sonde_event_keeper_add (keeper, &task, -1));
  fd = make_event (0);
  g_assert_false (sonde_event_keeper_add (keeper, &task, fd));
  g_assert_false (is_open (fd));
  g_assert_true (sonde_event_keeper_add (keeper, &cpu, make_event (0))); /* instead of the first */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) g_test_add_func ("/event-keeper/" name, function)
  ADD ("one-too-many-is-refused-and-closed", one_too_many_is_refused_and_closed);
  ADD ("that-of-a-processor-that-came-back-replaces-the-dead-one",
       that_of_a_processor_that_came_back_replaces_the_dead_one);
  ADD ("what-the-dead-one-had-lost-stays-counted", what_the_dead_one_had_lost_stays_counted);
  ADD ("those-of-tasks-all-stay", those_of_tasks_all_stay);
#undef ADD
  return g_test_run ();
}
