/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The real broker between a front and a worker that this program plays. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/message.h"
#include "daemon/base/proc-maps.h"
#include "tests/lib/waiting-child.h"

#define WAIT_S 20 /* a hang ends */

static const char *program;

/* --- a connection --- */

typedef union
{
  SondeMessageHeader header;
  SondeMessageSheet sheet;
  SondeMessageResult result;
  SondeMessageSetup setup;
  SondeMessageEvents events;
  SondeMessageProcess process;
  SondeMessageFile file;
  SondeMessageCounters counters;
  SondeMessageDocument document;
  SondeMessageThreads threads;
  char bytes[SONDE_MESSAGE_MAX_SIZE];
} Packet;

static void
send_message (int fd, gpointer message, gsize size_bytes, const int *fds, unsigned n_fds)
{
  ((SondeMessageHeader *) message)->size = (guint32) size_bytes;
  g_assert_cmpint (sonde_send_with_fds (fd, message, size_bytes, fds, n_fds), ==, 0);
}

static void
send_simple (int fd, SondeMessageType type)
{
  SondeMessageHeader message = { .type = type };

  send_message (fd, &message, sizeof message, NULL, 0);
}

/* FALSE: the end of the connection. */
static gboolean
receive (int fd, SondeMessageWay way, Packet *packet, int *fds, unsigned *n_fds)
{
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))];
  } control;
  struct iovec vector = { packet, sizeof *packet };
  struct msghdr header = { .msg_iov = &vector,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes };
  const char *why = "";
  ssize_t got = recvmsg (fd, &header, MSG_CMSG_CLOEXEC);
  struct cmsghdr *rights = got > 0 ? CMSG_FIRSTHDR (&header) : NULL;

  if (got == 0 || (got < 0 && errno == ECONNRESET))
    return FALSE;
  if (got < 0)
    g_error ("nothing came: %s", g_strerror (errno));
  *n_fds = rights != NULL ? (unsigned) ((rights->cmsg_len - CMSG_LEN (0)) / sizeof (int)) : 0;
  if (rights != NULL)
    memcpy (fds, CMSG_DATA (rights), *n_fds * sizeof (int));
  if (sonde_message_check (packet, (guint64) got, *n_fds, way, &why) < 0)
    g_error ("\"%s\": %s", sonde_message_type_to_string (packet->header.type), why);
  return TRUE;
}

static void
close_all (const int *fds, unsigned n_fds)
{
  for (unsigned i = 0; i < n_fds; i++)
    close (fds[i]);
}

/* --- a broker and its front --- */

typedef struct
{
  GSubprocess *process;
  int fd;
  int link;                       /* the worker's end; -1 before SERVE */
  int fds[SONDE_MESSAGE_MAX_FDS]; /* that came with what was got */
  unsigned n_fds;
  pid_t target;
  int maps_fd;
  int pidfd;
  guint n_rings;
  guint n_events;
  GPtrArray *maps; /* of rings, one page and its header each */
  guint waits;     /* that are asked for */
  Packet got;
} Front;

static void
set_wait (int fd)
{
  struct timeval wait = { .tv_sec = WAIT_S };

  g_assert_cmpint (setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), ==, 0);
}

static void
drop_fds (Front *self)
{
  close_all (self->fds, self->n_fds);
  self->n_fds = 0;
}

static gboolean
next_is_there (Front *self)
{
  drop_fds (self);
  return receive (self->fd, SONDE_WAY_BROKER_TO_FRONT, &self->got, self->fds, &self->n_fds);
}

static void
expect (Front *self, SondeMessageType type)
{
  g_assert_true (next_is_there (self));
  if (self->got.header.type == SONDE_MESSAGE_BROKEN && type != SONDE_MESSAGE_BROKEN)
    g_error ("broken: %s", self->got.result.text);
  g_assert_cmpstr (sonde_message_type_to_string (self->got.header.type), ==,
                   sonde_message_type_to_string (type));
}

static void
expect_of_worker (Front *self, SondeMessageType type)
{
  drop_fds (self);
  g_assert_true (
      receive (self->link, SONDE_WAY_BROKER_TO_WORKER, &self->got, self->fds, &self->n_fds));
  g_assert_cmpstr (sonde_message_type_to_string (self->got.header.type), ==,
                   sonde_message_type_to_string (type));
}

/* @text: (nullable): what is part of the reason */
static void
expect_result (Front *self, SondeMessageType type, guint32 error, const char *text)
{
  expect (self, type);
  if (self->got.result.error != error || (text != NULL && !strstr (self->got.result.text, text)))
    g_error ("%s: %u %s", sonde_message_type_to_string (type), self->got.result.error,
             self->got.result.text);
}

static gboolean
wait_always (gpointer unused)
{
  return TRUE;
}

static void
set_up (Front *self, gconstpointer data)
{
  g_autoptr (GSubprocessLauncher) launcher
      = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDERR_SILENCE);
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  int ends[2];

  self->target = waiting_child_spawn (wait_always, NULL);
  path = g_strdup_printf ("/proc/%d/maps", (int) self->target);
  self->maps_fd = open (path, O_RDONLY | O_CLOEXEC);
  self->pidfd = (int) syscall (SYS_pidfd_open, self->target, 0);
  self->link = -1;
  self->maps = g_ptr_array_new ();
  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, ends, NULL));
  self->fd = ends[0];
  set_wait (self->fd);
  g_subprocess_launcher_take_fd (launcher, ends[1], 3);
  g_subprocess_launcher_unsetenv (launcher, "G_DEBUG");
  self->process = g_subprocess_launcher_spawn (launcher, &error, program, "--fd=3", NULL);
  g_assert_no_error (error);
  expect (self, SONDE_MESSAGE_SHEET);
}

/* It has ended, with that status. */
static void
expect_end (Front *self, int status)
{
  drop_fds (self);
  while (next_is_there (self))
    g_assert_cmpint (self->got.header.type, !=, SONDE_MESSAGE_BROKEN);
  g_assert_true (g_subprocess_wait (self->process, NULL, NULL));
  g_assert_true (g_subprocess_get_if_exited (self->process));
  g_assert_cmpint (g_subprocess_get_exit_status (self->process), ==, status);
}

static void
tear_down (Front *self, gconstpointer data)
{
  drop_fds (self);
  close (self->fd);
  sonde_clear_fd (&self->link);
  g_assert_true (g_subprocess_wait (self->process, NULL, NULL));
  g_assert_true (g_subprocess_get_if_exited (self->process));
  g_object_unref (self->process);
  if (self->target > 0)
    waiting_child_end (self->target);
  close (self->maps_fd);
  close (self->pidfd);
  for (guint i = 0; i < self->maps->len; i++)
    munmap (g_ptr_array_index (self->maps, i), 2 * (gsize) sysconf (_SC_PAGESIZE));
  g_ptr_array_unref (self->maps);
}

/* --- what a front says --- */

static void
ask (Front *self, SondeScope scope)
{
  SondeMessageAsk message = { .header.type = SONDE_MESSAGE_ASK,
                              .version = SONDE_MESSAGE_VERSION,
                              .owner_uid = getuid (),
                              .owner_pid = getpid (),
                              .asked = { .scope = scope,
                                         .event = SONDE_EVENT_CPU_CLOCK,
                                         .frequency_hz = 99,
                                         .children = TRUE,
                                         .max_depth = 127,
                                         .counters = SONDE_COUNTERS_PROCESS,
                                         .waits = self->waits } };

  send_message (self->fd, &message, sizeof message, NULL, 0);
}

static void
send_target (Front *self, SondeMessageType type, guint32 flags, int maps_fd, int pidfd)
{
  union
  {
    SondeMessageTargets targets;
    char bytes[sizeof (SondeMessageTargets) + sizeof (SondeMessageTarget)];
  } message = { .targets = { .header.type = type, .n_targets = 1 } };
  int fds[2];
  unsigned n_fds = 0;

  message.targets.targets[0] = (SondeMessageTarget){ .pid = self->target, .flags = flags };
  if ((flags & SONDE_TARGET_HAS_MAPS) != 0)
    fds[n_fds++] = maps_fd;
  if ((flags & SONDE_TARGET_HAS_PIDFD) != 0)
    fds[n_fds++] = pidfd;
  send_message (self->fd, &message, sizeof message, fds, n_fds);
}

static void
prove (Front *self)
{
  send_target (self, SONDE_MESSAGE_PROVE,
               SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS | SONDE_TARGET_HAS_PIDFD,
               self->maps_fd, self->pidfd);
}

static void
serve (Front *self)
{
  SondeMessageServe message = { .header.type = SONDE_MESSAGE_SERVE, .session_id = 7 };
  int ends[2];

  g_assert_true (sonde_socketpair (SOCK_SEQPACKET, ends, NULL));
  send_message (self->fd, &message, sizeof message, &ends[1], 1);
  close (ends[1]);
  self->link = ends[0];
  set_wait (self->link);
}

static void
send_open (Front *self)
{
  SondeMessageOpen message = { .header.type = SONDE_MESSAGE_OPEN };

  send_message (self->fd, &message, sizeof message, NULL, 0);
}

/* FALSE: skipped */
static gboolean
go_proven (Front *self)
{
  ask (self, SONDE_SCOPE_LAUNCH);
  prove (self);
  expect (self, SONDE_MESSAGE_PROVED);
  if (self->got.result.error == SONDE_ERROR_NOT_AUTHORIZED)
    {
      g_test_skip ("no perf events can be had here");
      return FALSE;
    }
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  return TRUE;
}

/* As a worker would: its rings are mapped. */
static void
map_rings (Front *self)
{
  gsize size_bytes = 2 * (gsize) sysconf (_SC_PAGESIZE);

  for (unsigned i = 0; i < self->n_fds; i++)
    {
      void *map = mmap (NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->fds[i], 0);

      g_assert_true (map != MAP_FAILED);
      g_ptr_array_add (self->maps, map);
    }
}

static gboolean
go_served (Front *self)
{
  if (!go_proven (self))
    return FALSE;
  serve (self);
  expect (self, SONDE_MESSAGE_SETUP);
  g_assert_cmpuint (self->got.setup.session_id, ==, 7);
  g_assert_cmpuint (self->got.setup.asked.scope, ==, SONDE_SCOPE_LAUNCH);
  expect (self, SONDE_MESSAGE_DOCUMENT);
  g_assert_cmpuint (self->got.document.kind, ==, SONDE_DOCUMENT_CPUINFO);
  do
    {
      expect (self, SONDE_MESSAGE_RINGS);
      self->n_rings += self->got.events.n_events;
      map_rings (self);
    }
  while (self->got.events.n_more > 0);
  return TRUE;
}

static gboolean
go_open (Front *self)
{
  if (!go_served (self))
    return FALSE;
  send_open (self);
  expect (self, SONDE_MESSAGE_EVENTS);
  while (self->got.header.type == SONDE_MESSAGE_EVENTS)
    {
      self->n_events += self->got.events.n_events;
      g_assert_true (next_is_there (self));
    }
  g_assert_cmpuint (self->got.header.type, ==, SONDE_MESSAGE_OPENED);
  g_assert_cmpuint (self->got.result.error, ==, SONDE_MESSAGE_NO_ERROR);
  return TRUE;
}

static gboolean
go_live (Front *self)
{
  if (!go_open (self))
    return FALSE;
  send_simple (self->fd, SONDE_MESSAGE_ANNOUNCE);
  expect (self, SONDE_MESSAGE_DOCUMENT);
  g_assert_cmpuint (self->got.document.kind, ==, SONDE_DOCUMENT_MOUNTS);
  expect (self, SONDE_MESSAGE_COUNTERS);
  g_assert_cmpint (self->got.counters.pid, ==, self->target);
  expect (self, SONDE_MESSAGE_PROCESS);
  g_assert_cmpint (self->got.process.pid, ==, self->target);
  g_assert_cmpint (self->got.process.status, ==, 0);
  return TRUE;
}

/* --- what a worker asks --- */

/* A file that the target can run, which is this program. */
static SondeMessageFileRequest
request_file (const Front *self)
{
  SondeMessageFileRequest request = { .header.type = SONDE_MESSAGE_FILE_REQUEST, .request_id = 5 };
  SondeProcMap map = { 0 };
  char *text = NULL;
  gsize size_bytes = (gsize) sonde_proc_maps_read (self->maps_fd, 1 << 20, &text);
  const char *rest = text;

  while (sonde_proc_maps_next (&rest, &size_bytes, &map) == 1
         && (!map.executable || map.inode == 0))
    ;
  free (text);
  request.pid = self->target;
  request.dev_major = map.dev_major;
  request.dev_minor = map.dev_minor;
  request.inode = map.inode;
  request.start = map.start;
  request.offset = map.offset;
  return request;
}

static void
assert_file_is_answered (Front *self)
{
  SondeMessageFileRequest request = request_file (self);
  char magic[4] = { 0 };

  send_message (self->link, &request, sizeof request, NULL, 0);
  expect_of_worker (self, SONDE_MESSAGE_FILE);
  g_assert_cmpuint (self->got.file.request_id, ==, 5);
  g_assert_cmpint (self->got.file.status, ==, 0);
  g_assert_cmpint (pread (self->fds[0], magic, 4, 0), ==, 4);
  g_assert_cmpmem (magic, 4, "\177ELF", 4);
}

/* Perf events that the broker holds. */
static guint
count_events (const Front *self)
{
  g_autofree char *path
      = g_strdup_printf ("/proc/%s/fd", g_subprocess_get_identifier (self->process));
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;
  guint n_events = 0;

  g_assert_nonnull (dir);
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *link = g_build_filename (path, name, NULL);
      g_autofree char *what = g_file_read_link (link, NULL);

      n_events += what != NULL && strstr (what, "perf_event") != NULL;
    }
  return n_events;
}

/* Two connections have no common order. */
static void
expect_no_events (const Front *self)
{
  for (guint i = 0; i < WAIT_S * 100 && count_events (self) > 0; i++)
    g_usleep (10000);
  g_assert_cmpuint (count_events (self), ==, 0);
}

/* --- cases --- */

static void
refuses_what_is_out_of_order (Front *self, gconstpointer data)
{
  send_open (self);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "\"open\" out of order");
  expect_end (self, EXIT_FAILURE);
}

static void
refuses_to_be_asked_twice (Front *self, gconstpointer data)
{
  ask (self, SONDE_SCOPE_LAUNCH);
  ask (self, SONDE_SCOPE_SYSTEM);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "\"ask\" out of order");
  expect_end (self, EXIT_FAILURE);
}

static void
refuses_a_message_of_the_other_side (Front *self, gconstpointer data)
{
  send_simple (self->fd, SONDE_MESSAGE_START);
  expect_end (self, EXIT_FAILURE);
}

static void
refuses_another_version (Front *self, gconstpointer data)
{
  SondeMessageAsk message = { .header.type = SONDE_MESSAGE_ASK, .version = 2 };

  send_message (self->fd, &message, sizeof message, NULL, 0);
  expect_end (self, EXIT_FAILURE);
}

static void
refuses_a_target_that_nobody_proved (Front *self, gconstpointer data)
{
  ask (self, SONDE_SCOPE_TARGETS);
  send_target (self, SONDE_MESSAGE_PROVE, SONDE_TARGET_HAS_PIDFD, -1, self->pidfd);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "\"prove\" with targets");
  expect_end (self, EXIT_FAILURE);
}

static void
refuses_a_target_of_the_whole_machine (Front *self, gconstpointer data)
{
  ask (self, SONDE_SCOPE_SYSTEM);
  send_target (self, SONDE_MESSAGE_PROVE, SONDE_TARGET_HAS_PIDFD, -1, self->pidfd);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "scope system does not take");
  expect_end (self, EXIT_FAILURE);
}

/* What is refused is told, and then nothing is heard. */
static void
refuses_a_proof_that_is_none (Front *self, gconstpointer data)
{
  sonde_autofd int other = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);

  ask (self, SONDE_SCOPE_LAUNCH);
  send_target (self, SONDE_MESSAGE_PROVE,
               SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS | SONDE_TARGET_HAS_PIDFD, other,
               self->pidfd);
  expect_result (self, SONDE_MESSAGE_PROVED, SONDE_ERROR_NOT_AUTHORIZED, "proves the right");
  send_open (self);
  send_simple (self->fd, SONDE_MESSAGE_REPORT);
  shutdown (self->fd, SHUT_WR);
  expect_end (self, EXIT_SUCCESS);
}

static void
refuses_what_is_no_pidfd (Front *self, gconstpointer data)
{
  sonde_autofd int other = (int) syscall (SYS_pidfd_open, getpid (), 0);

  ask (self, SONDE_SCOPE_LAUNCH);
  send_target (self, SONDE_MESSAGE_PROVE,
               SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS | SONDE_TARGET_HAS_PIDFD,
               self->maps_fd, other);
  expect_result (self, SONDE_MESSAGE_PROVED, SONDE_ERROR_NOT_AUTHORIZED, "proves the right");
}

static void
refuses_a_link_that_is_none (Front *self, gconstpointer data)
{
  SondeMessageServe message = { .header.type = SONDE_MESSAGE_SERVE };

  if (!go_proven (self))
    return;
  send_message (self->fd, &message, sizeof message, &self->maps_fd, 1);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "without a connection");
  expect_end (self, EXIT_FAILURE);
}

static void
refuses_requests_before_there_are_events (Front *self, gconstpointer data)
{
  SondeMessageProcessRequest request
      = { .header.type = SONDE_MESSAGE_PROCESS_REQUEST, .request_id = 1, .pid = 1 };

  if (!go_served (self))
    return;
  send_message (self->link, &request, sizeof request, NULL, 0);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED,
                 "worker sent \"process-request\" out of order");
}

static void
refuses_descriptors_of_a_worker (Front *self, gconstpointer data)
{
  SondeMessageFileRequest request = { .header.type = SONDE_MESSAGE_FILE_REQUEST };

  if (!go_live (self))
    return;
  send_message (self->link, &request, sizeof request, &self->pidfd, 1);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "worker's requests: Refused");
}

static void
refuses_rings_that_were_not_given (Front *self, gconstpointer data)
{
  SondeMessageRingsMapped message = { .header.type = SONDE_MESSAGE_RINGS_MAPPED };

  if (!go_live (self))
    return;
  send_message (self->fd, &message, sizeof message, NULL, 0);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "rings that it was not given");
}

static void
adds_no_target_twice (Front *self, gconstpointer data)
{
  if (!go_live (self))
    return;
  send_target (self, SONDE_MESSAGE_ADD,
               SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS | SONDE_TARGET_HAS_PIDFD,
               self->maps_fd, self->pidfd);
  expect_result (self, SONDE_MESSAGE_ADDED, SONDE_ERROR_INVALID_OPTION, "given twice");
  assert_file_is_answered (self);
}

static void
says_what_the_machine_has (Front *self, gconstpointer data)
{
  g_assert_cmpuint (self->got.sheet.version, ==, SONDE_MESSAGE_VERSION);
  g_assert_cmpuint (self->got.sheet.events & (1u << SONDE_EVENT_NONE), !=, 0);
  g_assert_cmpuint (self->got.sheet.events >> SONDE_N_EVENTS, ==, 0);
  shutdown (self->fd, SHUT_WR);
  expect_end (self, EXIT_SUCCESS);
}

static void
serves_a_session (Front *self, gconstpointer data)
{
  SondeMessageCountersRequest counters = { .header.type = SONDE_MESSAGE_COUNTERS_REQUEST };
  SondeMessageRingsMapped late = { .header.type = SONDE_MESSAGE_RINGS_MAPPED };
  pid_t target = self->target;

  if (!go_live (self))
    return;
  g_assert_cmpuint (self->n_events, ==, self->n_rings); /* one thread */
  g_assert_cmpuint (count_events (self), ==, self->n_rings);
  assert_file_is_answered (self);
  counters.pid = target;
  send_message (self->link, &counters, sizeof counters, NULL, 0);
  expect_of_worker (self, SONDE_MESSAGE_COUNTERS);
  g_assert_cmpuint (self->n_fds, ==, 1);

  send_simple (self->fd, SONDE_MESSAGE_CLOSE);
  send_message (self->fd, &late, sizeof late, NULL, 0);
  expect_no_events (self);
  assert_file_is_answered (self);
  send_target (self, SONDE_MESSAGE_ADD,
               SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS | SONDE_TARGET_HAS_PIDFD,
               self->maps_fd, self->pidfd);
  expect_result (self, SONDE_MESSAGE_BROKEN, SONDE_ERROR_FAILED, "\"add\" out of order");
  expect_end (self, EXIT_FAILURE);
}

/* @tid: 0: all */
static void
ask_for_threads (Front *self, pid_t pid, pid_t tid)
{
  union
  {
    SondeMessageThreadsRequest request;
    struct
    {
      guint8 head[sizeof (SondeMessageThreadsRequest)];
      gint32 tid;
    };
  } message = { .request = { .header.type = SONDE_MESSAGE_THREADS_REQUEST, .pid = pid } };

  message.tid = tid;
  message.request.n_threads = tid != 0;
  send_message (self->link, &message,
                sizeof message.request + message.request.n_threads * sizeof message.tid, NULL, 0);
  expect_of_worker (self, SONDE_MESSAGE_THREADS);
  g_assert_cmpint (self->got.threads.pid, ==, pid);
  g_assert_cmpuint (self->got.threads.n_more, ==, 0);
}

static void
tells_of_threads (Front *self, gconstpointer data)
{
  const SondeMessageThread *thread = self->got.threads.threads;

  self->waits = SONDE_WAITS_TIMES;
  if (!go_live (self))
    return;
  g_assert_cmpuint (count_events (self), ==, self->n_rings); /* one thread */
  g_assert_cmpuint (self->n_rings % 3, ==, 0);
  ask_for_threads (self, self->target, 0);
  g_assert_cmpint (self->got.threads.status, ==, 0);
  g_assert_cmpuint (self->got.threads.n_threads, ==, 1);
  g_assert_cmpint (thread->tid, ==, self->target);
  g_assert_true (thread->state == 'S' || thread->state == 'R');
  g_assert_cmpuint (thread->slices, >, 0);
  g_assert_cmpint (thread->time_ns, >, 0);
  ask_for_threads (self, self->target, self->target);
  g_assert_cmpuint (self->got.threads.n_threads, ==, 1);
  g_assert_cmpuint (thread->state, ==, 0);
  /* One of another process, and what the session does not follow. */
  ask_for_threads (self, self->target, 1);
  g_assert_cmpint (self->got.threads.status, ==, 0);
  g_assert_cmpuint (self->got.threads.n_threads, ==, 0);
  ask_for_threads (self, getpid (), 0);
  g_assert_cmpint (self->got.threads.status, ==, EPERM);
  g_assert_cmpuint (self->got.threads.n_threads, ==, 0);
  ask_for_threads (self, G_MAXINT32, 0);
  g_assert_cmpint (self->got.threads.status, ==, ESRCH);
}

static void
tells_of_the_end_of_targets_again (Front *self, gconstpointer data)
{
  if (!go_live (self))
    return;
  send_simple (self->fd, SONDE_MESSAGE_REPORT);
  waiting_child_end (self->target);
  self->target = 0;
  expect (self, SONDE_MESSAGE_TARGETS_ENDED);
  send_simple (self->fd, SONDE_MESSAGE_REPORT);
  expect (self, SONDE_MESSAGE_TARGETS_ENDED);
}

/* It is dead, and not gone: its lane is asked about it. */
static void
tells_of_targets_before_their_end (Front *self, gconstpointer data)
{
  if (!go_open (self))
    return;
  g_assert_cmpint (kill (self->target, SIGKILL), ==, 0);
  g_assert_cmpint (waitid (P_PID, (id_t) self->target, NULL, WEXITED | WNOWAIT), ==, 0);
  send_simple (self->fd, SONDE_MESSAGE_ANNOUNCE);
  expect (self, SONDE_MESSAGE_COUNTERS);
  expect (self, SONDE_MESSAGE_PROCESS);
  g_assert_cmpint (self->got.process.pid, ==, self->target);
  expect (self, SONDE_MESSAGE_TARGETS_ENDED);
}

/* Its worker's end is nothing to it. */
static void
ends_with_its_front_alone (Front *self, gconstpointer data)
{
  if (!go_live (self))
    return;
  sonde_clear_fd (&self->link);
  send_simple (self->fd, SONDE_MESSAGE_CLOSE);
  expect_no_events (self);
  shutdown (self->fd, SHUT_WR);
  expect_end (self, EXIT_SUCCESS);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  program = argv[1];
#define ADD(name, function) g_test_add ("/broker/" name, Front, NULL, set_up, function, tear_down)
  ADD ("refuses-what-is-out-of-order", refuses_what_is_out_of_order);
  ADD ("refuses-to-be-asked-twice", refuses_to_be_asked_twice);
  ADD ("refuses-a-message-of-the-other-side", refuses_a_message_of_the_other_side);
  ADD ("refuses-another-version", refuses_another_version);
  ADD ("refuses-a-target-that-nobody-proved", refuses_a_target_that_nobody_proved);
  ADD ("refuses-a-target-of-the-whole-machine", refuses_a_target_of_the_whole_machine);
  ADD ("refuses-a-proof-that-is-none", refuses_a_proof_that_is_none);
  ADD ("refuses-what-is-no-pidfd-of-the-target", refuses_what_is_no_pidfd);
  ADD ("refuses-a-link-that-is-none", refuses_a_link_that_is_none);
  ADD ("refuses-requests-before-there-are-events", refuses_requests_before_there_are_events);
  ADD ("refuses-descriptors-of-a-worker", refuses_descriptors_of_a_worker);
  ADD ("refuses-rings-that-were-not-given", refuses_rings_that_were_not_given);
  ADD ("adds-no-target-twice", adds_no_target_twice);
  ADD ("says-what-the-machine-has", says_what_the_machine_has);
  ADD ("serves-a-session", serves_a_session);
  ADD ("tells-of-threads", tells_of_threads);
  ADD ("tells-of-the-end-of-targets-again", tells_of_the_end_of_targets_again);
  ADD ("tells-of-targets-before-their-end", tells_of_targets_before_their_end);
  ADD ("ends-with-its-front-alone", ends_with_its_front_alone);
#undef ADD
  return g_test_run ();
}
