/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A broker of which the kernel keeps a lane waiting that opens events. The events are fakes. */
#include "daemon/broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/message.h"
#include "daemon/base/socket.h"
#include "tests/lib/waiting-child.h"

#define STRANGER    65534
#define OF_STRANGER (-1)
#define WAIT_US     (20 * G_USEC_PER_SEC) /* a hang ends */

/* --- the kernel --- */

static struct
{
  GMutex lock;
  GCond is_changed;
  pid_t held; /* whose events are not opened; 0: nobody's */
  int off;    /* processor without events; -1: none */
  gboolean is_waiting;
} kernel = { .off = -1 };

long __wrap_syscall (long number, long a, long b, long c, long d, long e);
long __real_syscall (long number, ...);
int __wrap_ioctl (int fd, unsigned long request, void *argument);
int __real_ioctl (int fd, unsigned long request, ...);

long
__wrap_syscall (long number, long a, long b, long c, long d, long e)
{
  int fd;

  if (number != SYS_perf_event_open)
    return __real_syscall (number, a, b, c, d, e);
  g_mutex_lock (&kernel.lock);
  while (kernel.held != 0 && kernel.held == (pid_t) b)
    {
      kernel.is_waiting = TRUE;
      g_cond_broadcast (&kernel.is_changed);
      g_cond_wait (&kernel.is_changed, &kernel.lock);
    }
  errno = ENODEV;
  fd = kernel.off >= 0 && kernel.off == (int) c ? -1 : memfd_create ("event", MFD_CLOEXEC);
  g_mutex_unlock (&kernel.lock);
  return fd;
}

int
__wrap_ioctl (int fd, unsigned long request, void *argument)
{
  if (_IOC_TYPE (request) != '$')
    return __real_ioctl (fd, request, argument);
  if (request == PERF_EVENT_IOC_ID)
    *(uint64_t *) argument = (uint64_t) fd;
  return 0;
}

static void
switch_off (int cpu)
{
  g_mutex_lock (&kernel.lock);
  kernel.off = cpu;
  g_mutex_unlock (&kernel.lock);
}

static void
hold (pid_t pid)
{
  g_mutex_lock (&kernel.lock);
  kernel.held = pid;
  kernel.is_waiting = FALSE;
  g_cond_broadcast (&kernel.is_changed);
  g_mutex_unlock (&kernel.lock);
}

static void
wait_until_held (void)
{
  g_mutex_lock (&kernel.lock);
  while (!kernel.is_waiting)
    g_cond_wait (&kernel.is_changed, &kernel.lock);
  g_mutex_unlock (&kernel.lock);
}

/* --- a front and a worker --- */

typedef union
{
  SondeMessageHeader header;
  SondeMessageResult result;
  SondeMessageProcess process;
  SondeMessageStuck stuck;
  SondeMessageEvents events;
  SondeMessageNote note;
  char bytes[SONDE_MESSAGE_MAX_SIZE];
} Packet;

typedef struct
{
  SondeBroker *broker;
  int front;
  int worker;
  gboolean is_done;
  pid_t target;
  pid_t others[2]; /* of a stranger's, and ours */
  guint n_events;  /* that the front was given */
  guint n_ends;    /* of all targets, of which it was told */
  Packet got;
} Story;

static void
on_done (int status, gpointer user_data)
{
  ((Story *) user_data)->is_done = TRUE;
}

/* FALSE: there is nothing. */
static gboolean
receive (Story *self, int fd)
{
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))];
  } control;
  struct iovec vector = { &self->got, sizeof self->got };
  struct msghdr header = {
    .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  const struct cmsghdr *rights;

  if (recvmsg (fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
    return FALSE;
  rights = CMSG_FIRSTHDR (&header);
  for (gsize i = 0; rights != NULL && CMSG_LEN (i * sizeof (int)) < rights->cmsg_len; i++)
    close (((const int *) (const void *) CMSG_DATA (rights))[i]);
  if (self->got.header.type == SONDE_MESSAGE_EVENTS)
    self->n_events += self->got.events.n_events;
  self->n_ends += self->got.header.type == SONDE_MESSAGE_TARGETS_ENDED;
  return TRUE;
}

/* The next one of that type, whatever comes before. */
static void
expect (Story *self, int fd, SondeMessageType type)
{
  gint64 end_us = g_get_monotonic_time () + WAIT_US;

  do
    {
      while (g_main_context_iteration (NULL, FALSE))
        continue;
      if (receive (self, fd) && self->got.header.type == type)
        return;
      g_usleep (100);
    }
  while (g_get_monotonic_time () < end_us);
  g_error ("no \"%s\"", sonde_message_type_to_string (type));
}

static void
say (int fd, gpointer message, gsize size_bytes, const int *fds, unsigned n_fds)
{
  ((SondeMessageHeader *) message)->size = (guint32) size_bytes;
  g_assert_cmpint (sonde_send_with_fds (fd, message, size_bytes, fds, n_fds), ==, 0);
}

static void
say_simple (Story *self, SondeMessageType type)
{
  SondeMessageHeader message = { .type = type };

  say (self->front, &message, sizeof message, NULL, 0);
}

static void
say_target (Story *self, SondeMessageType type, pid_t pid)
{
  union
  {
    SondeMessageTargets targets;
    char bytes[sizeof (SondeMessageTargets) + sizeof (SondeMessageTarget)];
  } message = { .targets = { .header.type = type, .n_targets = 1 } };
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  sonde_autofd int pidfd = (int) __real_syscall (SYS_pidfd_open, pid, 0);
  sonde_autofd int maps_fd = open (pidfd < 0 ? "/proc/self/maps" : path, O_RDONLY | O_CLOEXEC);
  const int fds[] = { maps_fd, pidfd };

  message.targets.targets[0]
      = (SondeMessageTarget){ .pid = pid,
                              .flags = SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS
                                       | (pidfd < 0 ? 0 : SONDE_TARGET_HAS_PIDFD) };
  say (self->front, &message, sizeof message, fds, pidfd < 0 ? 1 : 2);
}

static gboolean
wait_always (gpointer unused)
{
  return TRUE;
}

static gboolean
be_a_stranger (gpointer unused)
{
  return setresgid (STRANGER, STRANGER, STRANGER) == 0
         && setresuid (STRANGER, STRANGER, STRANGER) == 0 && prctl (PR_SET_DUMPABLE, 1) == 0;
}

/* @data: a processor that is off and 1 more, or OF_STRANGER: whose session it is */
static void
set_up (Story *self, gconstpointer data)
{
  gboolean is_of_stranger = GPOINTER_TO_INT (data) == OF_STRANGER;
  SondeMessageAsk ask = { .header.type = SONDE_MESSAGE_ASK,
                          .version = SONDE_MESSAGE_VERSION,
                          .asked = { .scope = SONDE_SCOPE_LAUNCH,
                                     .event = SONDE_EVENT_CPU_CLOCK,
                                     .frequency_hz = 99,
                                     .max_depth = 127 } };
  SondeMessageServe serve = { .header.type = SONDE_MESSAGE_SERVE, .session_id = 7 };
  SondeMessageOpen open_message = { .header.type = SONDE_MESSAGE_OPEN };
  int ends[2];

  switch_off (is_of_stranger ? -1 : GPOINTER_TO_INT (data) - 1);
  self->target = waiting_child_spawn (is_of_stranger ? be_a_stranger : wait_always, NULL);
  ask.owner_uid = is_of_stranger ? STRANGER : 0;
  ask.owner_pid = is_of_stranger ? self->target : 0;
  self->others[0] = waiting_child_spawn (be_a_stranger, NULL);
  self->others[1] = waiting_child_spawn (wait_always, NULL);
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, ends, NULL));
  self->front = ends[0];
  self->broker = sonde_broker_new (ends[1], on_done, self);
  expect (self, self->front, SONDE_MESSAGE_SHEET);
  say (self->front, &ask, sizeof ask, NULL, 0);
  say_target (self, SONDE_MESSAGE_PROVE, self->target);
  expect (self, self->front, SONDE_MESSAGE_PROVED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, ends, NULL));
  self->worker = ends[0];
  say (self->front, &serve, sizeof serve, &ends[1], 1);
  close (ends[1]);
  say (self->front, &open_message, sizeof open_message, NULL, 0);
  expect (self, self->front, SONDE_MESSAGE_OPENED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  say_simple (self, SONDE_MESSAGE_ANNOUNCE);
  expect (self, self->front, SONDE_MESSAGE_PROCESS);
  self->n_events = 0;
}

static void
tear_down (Story *self, gconstpointer data)
{
  sonde_broker_free (self->broker);
  hold (0);
  close (self->front);
  close (self->worker);
  if (self->target != 0)
    waiting_child_end (self->target);
  if (self->others[0] != 0)
    waiting_child_end (self->others[0]);
  waiting_child_end (self->others[1]);
}

static void
assert_is_answered (Story *self)
{
  SondeMessageProcessRequest request
      = { .header.type = SONDE_MESSAGE_PROCESS_REQUEST, .request_id = 1, .pid = self->target };

  say (self->worker, &request, sizeof request, NULL, 0);
  expect (self, self->worker, SONDE_MESSAGE_PROCESS);
  g_assert_cmpint (self->got.process.status, ==, 0);
}

static guint
count_fds (void)
{
  g_autoptr (GDir) dir = g_dir_open ("/proc/self/fd", 0, NULL);
  guint n_fds = 0;

  while (g_dir_read_name (dir) != NULL)
    n_fds++;
  return n_fds;
}

static void
begin_to_add_a_stranger (Story *self)
{
  hold (self->others[0]);
  say_target (self, SONDE_MESSAGE_ADD, self->others[0]);
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  wait_until_held ();
}

/* --- cases --- */

static void
one_that_is_added_keeps_no_other_waiting (Story *self, gconstpointer data)
{
  guint n_fds = count_fds ();

  begin_to_add_a_stranger (self);
  assert_is_answered (self);
  expect (self, self->front, SONDE_MESSAGE_STUCK);
  g_assert_cmpuint (self->got.stuck.uid, ==, STRANGER);
  g_assert_cmpint (self->got.stuck.pid, ==, self->others[0]);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_ERROR_FAILED);
  g_assert_cmpuint (self->n_events, ==, 0);

  /* What it brings in the end is closed. */
  hold (0);
  expect (self, self->front, SONDE_MESSAGE_STUCK);
  g_assert_true (self->got.stuck.is_over);
  for (guint i = 0; i < 2000 && count_fds () > n_fds; i++)
    g_usleep (10000);
  /* A thread of the story's beginning may have closed something, too. */
  g_assert_cmpuint (count_fds (), <=, n_fds);
  say_target (self, SONDE_MESSAGE_ADD, self->others[0]);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  g_assert_cmpuint (self->n_events, >, 0);
}

static void
those_that_are_added_are_answered_in_their_order (Story *self, gconstpointer data)
{
  begin_to_add_a_stranger (self);
  say_target (self, SONDE_MESSAGE_ADD, self->others[1]);
  say_target (self, SONDE_MESSAGE_ADD, self->others[1]);
  assert_is_answered (self);
  g_assert_cmpuint (self->n_events, ==, 0);
  hold (0);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_ERROR_INVALID_OPTION);
}

static void
end_the_target (Story *self)
{
  waiting_child_end (self->target);
  self->target = 0;
  while (g_main_context_iteration (NULL, FALSE))
    continue;
}

static void
those_that_are_added_are_targets_before_the_end_is_told (Story *self, gconstpointer data)
{
  begin_to_add_a_stranger (self);
  end_the_target (self);
  hold (0);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  say_simple (self, SONDE_MESSAGE_REPORT);
  while (g_main_context_iteration (NULL, FALSE) || receive (self, self->front))
    continue;
  g_assert_cmpuint (self->n_ends, ==, 0);
  waiting_child_end (self->others[0]);
  self->others[0] = 0;
  expect (self, self->front, SONDE_MESSAGE_TARGETS_ENDED);
}

static void
the_end_is_told_behind_what_was_not_added (Story *self, gconstpointer data)
{
  begin_to_add_a_stranger (self);
  end_the_target (self);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_ERROR_FAILED);
  g_assert_cmpuint (self->n_ends, ==, 0);
  expect (self, self->front, SONDE_MESSAGE_TARGETS_ENDED);
}

static void
the_end_waits_for_none (Story *self, gconstpointer data)
{
  begin_to_add_a_stranger (self);
  say_target (self, SONDE_MESSAGE_ADD, self->others[1]);
  say_simple (self, SONDE_MESSAGE_CLOSE);
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  hold (0);
  for (guint i = 0; i < 2; i++)
    {
      expect (self, self->front, SONDE_MESSAGE_ADDED);
      g_assert_cmpuint (self->got.result.error, ==, SONDE_ERROR_INVALID_STATE);
    }
  g_assert_cmpuint (self->n_events, ==, 0);
}

/* Of a process that is root's, and one that is none. */
static void
a_stuck_owner_learns_nothing (Story *self, gconstpointer data)
{
  const pid_t pids[] = { self->others[1], waiting_child_spawn (wait_always, NULL) };

  begin_to_add_a_stranger (self);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  waiting_child_end (pids[1]);
  for (guint i = 0; i < G_N_ELEMENTS (pids); i++)
    {
      say_target (self, SONDE_MESSAGE_ADD, pids[i]);
      expect (self, self->front, SONDE_MESSAGE_ADDED);
      g_assert_cmpuint (self->got.result.error, ==, SONDE_ERROR_FAILED);
      g_assert_cmpstr (self->got.result.text, ==,
                       "The kernel does not answer about processes of this user");
    }
}

static void
a_processor_that_comes_keeps_no_other_waiting (Story *self, gconstpointer data)
{
  SondeMessageRingsMapped mapped = { .header.type = SONDE_MESSAGE_RINGS_MAPPED };
  int cpu = GPOINTER_TO_INT (data) - 1;

  say_target (self, SONDE_MESSAGE_ADD, self->others[0]);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  self->n_events = 0;
  hold (self->others[0]);
  switch_off (-1);
  expect (self, self->front, SONDE_MESSAGE_RINGS);
  g_assert_cmpint (self->got.events.events[0].cpu, ==, cpu);
  say (self->front, &mapped, sizeof mapped, NULL, 0);
  while (g_main_context_iteration (NULL, FALSE))
    continue;
  wait_until_held ();
  say_target (self, SONDE_MESSAGE_ADD, self->others[1]);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  self->n_events = 0;
  assert_is_answered (self);
  expect (self, self->front, SONDE_MESSAGE_STUCK);
  expect (self, self->front, SONDE_MESSAGE_EVENTS);
  g_assert_cmpuint (self->n_events, ==, 2); /* of the other target */
  g_assert_cmpint (self->got.events.events[0].tid, ==, self->target);
  g_assert_cmpint (self->got.events.events[0].cpu, ==, cpu);
  expect (self, self->front, SONDE_MESSAGE_NOTE);
  g_assert_nonnull (strstr (self->got.note.text, "until the kernel answers: 1"));

  /* Its events are on once it is not stuck any more. */
  self->n_events = 0;
  hold (0);
  expect (self, self->front, SONDE_MESSAGE_EVENTS);
  g_assert_cmpuint (self->n_events, ==, 2);
  g_assert_cmpint (self->got.events.events[0].tid, ==, self->others[0]);
  g_assert_cmpint (self->got.events.events[0].cpu, ==, cpu);
  expect (self, self->front, SONDE_MESSAGE_NOTE);
}

static void
a_processor_that_was_off_shows_what_was_added (Story *self, gconstpointer data)
{
  int cpu = (int) sysconf (_SC_NPROCESSORS_ONLN) - 1;
  guint n_cpus = (guint) cpu + 1;

  switch_off (cpu);
  say_target (self, SONDE_MESSAGE_ADD, self->others[1]);
  expect (self, self->front, SONDE_MESSAGE_ADDED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  g_assert_cmpuint (self->n_events, ==, 2 * (n_cpus - 1));
  self->n_events = 0;
  switch_off (-1);
  expect (self, self->front, SONDE_MESSAGE_EVENTS);
  g_assert_cmpuint (self->n_events, ==, 2);
  g_assert_cmpint (self->got.events.events[0].tid, ==, self->others[1]);
  g_assert_cmpint (self->got.events.events[0].cpu, ==, cpu);
  expect (self, self->front, SONDE_MESSAGE_NOTE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  /* Only root has processes of others. */
  if (getuid () != 0)
    return g_test_run ();
#define ADD(name, function)                                                                        \
  g_test_add ("/broker-waits/" name, Story, NULL, set_up, function, tear_down)
  ADD ("one-that-is-added-keeps-no-other-waiting", one_that_is_added_keeps_no_other_waiting);
  ADD ("those-that-are-added-are-answered-in-their-order",
       those_that_are_added_are_answered_in_their_order);
  ADD ("the-end-waits-for-none", the_end_waits_for_none);
  ADD ("those-that-are-added-are-targets-before-the-end-is-told",
       those_that_are_added_are_targets_before_the_end_is_told);
  ADD ("the-end-is-told-behind-what-was-not-added", the_end_is_told_behind_what_was_not_added);
#undef ADD
  g_test_add ("/broker-waits/a-stuck-owner-learns-nothing", Story, GINT_TO_POINTER (OF_STRANGER),
              set_up, a_stuck_owner_learns_nothing, tear_down);
  if (sysconf (_SC_NPROCESSORS_ONLN) > 1
      && sysconf (_SC_NPROCESSORS_ONLN) == sysconf (_SC_NPROCESSORS_CONF))
    {
      g_test_add ("/broker-waits/a-processor-that-comes-keeps-no-other-waiting", Story,
                  GINT_TO_POINTER (sysconf (_SC_NPROCESSORS_ONLN)), set_up,
                  a_processor_that_comes_keeps_no_other_waiting, tear_down);
      g_test_add ("/broker-waits/a-processor-that-was-off-shows-what-was-added", Story, NULL,
                  set_up, a_processor_that_was_off_shows_what_was_added, tear_down);
    }
  return g_test_run ();
}
