/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Perf events that stay open, what they say was lost, and tasks that two of them tell of. Files
 * stand for events: what is read from them is what the kernel would say. */
#include "daemon/capture/perf/rings.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <unistd.h>

#define FORMAT_LOST (1 << 4) /* PERF_FORMAT_LOST, Linux 6.0 */

#define PARENT      10
#define CHILD       11
#define GRAND       12

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

static SondeRings *
rings_new (void)
{
  static const SondeMessageSetup setup = { .read_format = PERF_FORMAT_ID | FORMAT_LOST };
  static const SondeRingsHandler handler;

  return sonde_rings_new (&setup, &handler, NULL);
}

static int
add (SondeRings *rings, SondeEventKind kind, int tid, int cpu, guint64 n_lost)
{
  const SondeMessageEvent event = { .id = 1, .cpu = cpu, .tid = tid, .kind = kind };
  int fd = make_event (n_lost);

  g_assert_true (sonde_rings_add_event (rings, &event, fd));
  return fd;
}

static void
that_of_a_processor_that_came_back_replaces_the_dead_one (void)
{
  g_autoptr (SondeRings) rings = rings_new ();
  int sideband = add (rings, SONDE_EVENT_SIDEBAND, -1, 1, 0);
  int other = add (rings, SONDE_EVENT_SAMPLES, -1, 0, 3);
  int dead = add (rings, SONDE_EVENT_SAMPLES, -1, 1, 4);
  int live = add (rings, SONDE_EVENT_SAMPLES, -1, 1, 5);

  g_assert_false (is_open (dead));
  g_assert_true (is_open (sideband) && is_open (other) && is_open (live));
}

static void
what_the_dead_one_had_lost_stays_counted (void)
{
  g_autoptr (SondeRings) rings = rings_new ();

  add (rings, SONDE_EVENT_SAMPLES, -1, 1, 4);
  add (rings, SONDE_EVENT_SAMPLES, -1, 1, 5);
  add (rings, SONDE_EVENT_SIDEBAND, -1, 1, 100);
  g_assert_cmpuint (sonde_rings_read_lost (rings, G_MAXUINT), ==, 9);
}

static void
those_of_tasks_all_stay (void)
{
  g_autoptr (SondeRings) rings = rings_new ();
  int first = add (rings, SONDE_EVENT_SAMPLES, 7, 1, 1);
  int second = add (rings, SONDE_EVENT_SAMPLES, 7, 1, 2);

  g_assert_true (is_open (first) && is_open (second));
  g_assert_cmpuint (sonde_rings_read_lost (rings, G_MAXUINT), ==, 3);
}

static void
one_too_many_is_refused_and_closed (void)
{
  g_autoptr (SondeRings) rings = rings_new ();
  const SondeMessageEvent task = { .tid = 7, .kind = SONDE_EVENT_SIDEBAND };
  const SondeMessageEvent cpu = { .tid = -1, .kind = SONDE_EVENT_SIDEBAND };
  int fd;

  /* No descriptor: none is used. */
  g_assert_true (sonde_rings_add_event (rings, &cpu, make_event (0)));
  for (guint i = 1; i < SONDE_RINGS_MAX_EVENTS; i++)
    g_assert_true (sonde_rings_add_event (rings, &task, -1));
  fd = make_event (0);
  g_assert_false (sonde_rings_add_event (rings, &task, fd));
  g_assert_false (is_open (fd));
  g_assert_true (sonde_rings_add_event (rings, &cpu, make_event (0))); /* instead of the first */
}

/* No descriptor: none is used. */
static void
add_task_event (SondeRings *rings, guint64 id, int tid, gboolean is_late)
{
  const SondeMessageEvent event = { .id = id,
                                    .cpu = -1,
                                    .tid = tid,
                                    .kind = SONDE_EVENT_SAMPLES,
                                    .flags = is_late ? SONDE_EVENT_LATE : 0 };

  g_assert_true (sonde_rings_add_event (rings, &event, -1));
}

static void
all_records_are_told_before_a_late_event (void)
{
  g_autoptr (SondeRings) rings = rings_new ();

  add_task_event (rings, 1, PARENT, FALSE);
  add_task_event (rings, 2, CHILD, FALSE);
  g_assert_false (sonde_rings_is_duplicate (rings, 1, CHILD));
  g_assert_false (sonde_rings_is_duplicate (rings, 2, CHILD));
}

/* A thread that was made while events were opened: it has its parent's and its own. */
static void
one_line_of_descent_is_believed (void)
{
  g_autoptr (SondeRings) rings = rings_new ();

  add_task_event (rings, 1, PARENT, FALSE);
  add_task_event (rings, 2, PARENT, FALSE); /* on another CPU */
  add_task_event (rings, 3, CHILD, TRUE);
  g_assert_false (sonde_rings_is_duplicate (rings, 1, PARENT));
  g_assert_false (sonde_rings_is_duplicate (rings, 3, CHILD));
  g_assert_true (sonde_rings_is_duplicate (rings, 1, CHILD));
  g_assert_false (sonde_rings_is_duplicate (rings, 3, CHILD));
  /* Its own children have both lines, too. */
  g_assert_false (sonde_rings_is_duplicate (rings, 2, GRAND));
  g_assert_true (sonde_rings_is_duplicate (rings, 3, GRAND));
  g_assert_false (sonde_rings_is_duplicate (rings, 1, GRAND));
}

static void
a_task_that_exits_is_forgotten (void)
{
  g_autoptr (SondeRings) rings = rings_new ();

  add_task_event (rings, 1, PARENT, FALSE);
  add_task_event (rings, 3, CHILD, TRUE);
  g_assert_false (sonde_rings_is_duplicate (rings, 3, GRAND));
  sonde_rings_forget_task (rings, GRAND);
  g_assert_false (sonde_rings_is_duplicate (rings, 1, GRAND));
  g_assert_true (sonde_rings_is_duplicate (rings, 3, GRAND));
}

static void
what_cannot_be_judged_is_told (void)
{
  g_autoptr (SondeRings) rings = rings_new ();

  add_task_event (rings, 1, PARENT, FALSE);
  add_task_event (rings, 3, CHILD, TRUE);
  g_assert_false (sonde_rings_is_duplicate (rings, 1, CHILD));
  g_assert_false (sonde_rings_is_duplicate (rings, 0, CHILD));
  g_assert_false (sonde_rings_is_duplicate (rings, 4, CHILD));
  g_assert_false (sonde_rings_is_duplicate (rings, 3, 0));
}

static void
tasks_are_remembered_within_bounds (void)
{
  g_autoptr (SondeRings) rings = rings_new ();

  add_task_event (rings, 1, PARENT, FALSE);
  add_task_event (rings, 3, CHILD, TRUE);
  for (int32_t tid = 1; tid <= SONDE_RINGS_MAX_TASKS; tid++)
    g_assert_false (sonde_rings_is_duplicate (rings, 1, tid));
  g_assert_true (sonde_rings_is_duplicate (rings, 3, CHILD));
  g_assert_false (sonde_rings_is_duplicate (rings, 3, SONDE_RINGS_MAX_TASKS + 1));
  /* Forgotten with all others. */
  g_assert_false (sonde_rings_is_duplicate (rings, 3, CHILD));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name, function) g_test_add_func ("/ring-events/" name, function)
  ADD ("one-too-many-is-refused-and-closed", one_too_many_is_refused_and_closed);
  ADD ("that-of-a-processor-that-came-back-replaces-the-dead-one",
       that_of_a_processor_that_came_back_replaces_the_dead_one);
  ADD ("what-the-dead-one-had-lost-stays-counted", what_the_dead_one_had_lost_stays_counted);
  ADD ("those-of-tasks-all-stay", those_of_tasks_all_stay);
  ADD ("all-records-are-told-before-a-late-event", all_records_are_told_before_a_late_event);
  ADD ("one-line-of-descent-is-believed", one_line_of_descent_is_believed);
  ADD ("a-task-that-exits-is-forgotten", a_task_that_exits_is_forgotten);
  ADD ("what-cannot-be-judged-is-told", what_cannot_be_judged_is_told);
  ADD ("tasks-are-remembered-within-bounds", tasks_are_remembered_within_bounds);
#undef ADD
  return g_test_run ();
}
