/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A front and a worker that may say anything at any time to a broker. The events are fakes; /proc
 * is real, of this program, its child, process 1 and nobody. */
#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "daemon/base/proc-maps.h"
#include "daemon/base/socket.h"
#include "daemon/broker/broker.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/packet.h"
#include "tests/lib/packet-socket.h"
#include "tests/lib/waiting-child.h"

#define MAX_PACKETS 64
#define MAX_TURNS   1024                  /* of the main loop after each packet */
#define ANSWER_US   (20 * G_USEC_PER_SEC) /* only so that a hang ends */

/* Who is meant in a script; anybody else is nobody. */
enum
{
  OWN_PID = 10,
  CHILD_PID = 11,
  INIT_PID = 1,
  NO_PID = INT32_MAX,
  OWN_UID = 1000,
};

/* Types of packets that are none. */
enum
{
  STEP_WAIT = 0,           /* the loop's timers come */
  STEP_EVENTS_FAIL = 30,   /* with the kind of descriptors as errno; 0: not any more */
  STEP_SWITCHES_FAIL = 31, /* what is done with them, the same */
  STEP_CHILD_ENDS = 32,
  STEP_WORKER_LEAVES = 33,
};

typedef struct
{
  SondeBroker *broker;
  int front;  /* our end; -1 once it is closed */
  int worker; /* the same */
  pid_t child;
  gboolean is_done;
  gboolean is_strange; /* its owner may see nobody here */
  gboolean is_open;    /* OPENED was good, and nothing was BROKEN */
  guint n_heard;       /* messages to the front */
  guint n_unproved;    /* PROVE that was not answered */
  guint n_unadded;
  guint n_unjoined;
  guint n_unanswered; /* requests of the worker */
} Story;

/* --- the kernel --- */

static int open_errno;
static int switch_errno;

/* With as many arguments as the broker uses, all of them in registers. */
long __wrap_syscall (long number, long a, long b, long c, long d, long e);
long __real_syscall (long number, ...);
int __wrap_ioctl (int fd, unsigned long request, void *argument);
int __real_ioctl (int fd, unsigned long request, ...);

long
__wrap_syscall (long number, long a, long b, long c, long d, long e)
{
  if (number == SYS_bpf)
    {
      errno = EPERM;
      return -1;
    }
  if (number != SYS_perf_event_open)
    return __real_syscall (number, a, b, c, d, e);
  errno = open_errno;
  return open_errno != 0 ? -1 : memfd_create ("event", MFD_CLOEXEC);
}

int
__wrap_ioctl (int fd, unsigned long request, void *argument)
{
  if (_IOC_TYPE (request) != '$')
    return __real_ioctl (fd, request, argument);
  if (request == PERF_EVENT_IOC_ID)
    *(uint64_t *) argument = (uint64_t) fd;
  errno = switch_errno;
  return switch_errno != 0 ? -1 : 0;
}

static gboolean
wait_always (gpointer unused)
{
  return TRUE;
}

static void
end_child (Story *story)
{
  if (story->child != 0)
    waiting_child_end (story->child);
  story->child = 0;
}

static int32_t
pid_of (Story *story, int32_t pid)
{
  if (pid == CHILD_PID && story->child == 0)
    story->child = waiting_child_spawn (wait_always, NULL);
  if (pid == CHILD_PID)
    return story->child;
  if (pid == OWN_PID)
    return getpid ();
  return pid <= INIT_PID ? pid : NO_PID;
}

/* --- what the broker says --- */

/* Who may see nobody is told of nobody, and gets no event of a task. */
static void
check_secrets (const SondeMessageHeader *message)
{
  const SondeMessageEvents *events = (const void *) message;

  if (message->type == SONDE_MESSAGE_PROCESS
      && ((const SondeMessageProcess *) (const void *) message)->status == 0)
    abort ();
  if (message->type == SONDE_MESSAGE_JOINED
      && ((const SondeMessageJoined *) (const void *) message)->status == 0)
    abort ();
  if (message->type == SONDE_MESSAGE_FILE
      && ((const SondeMessageFile *) (const void *) message)->status == 0)
    abort ();
  if (message->type == SONDE_MESSAGE_THREADS
      && ((const SondeMessageThreads *) (const void *) message)->n_threads > 0)
    abort ();
  for (guint i = 0; message->type == SONDE_MESSAGE_EVENTS && i < events->n_events; i++)
    if (events->events[i].tid > 0)
      abort ();
}

static void
check_order (Story *story, const SondeMessageHeader *message)
{
  const SondeMessageResult *result = (const void *) message;

  switch (message->type)
    {
    case SONDE_MESSAGE_PROVED:
      if (story->n_unproved-- == 0)
        abort ();
      break;
    case SONDE_MESSAGE_OPENED:
      story->is_open = result->error == SONDE_MESSAGE_NO_ERROR;
      break;
    case SONDE_MESSAGE_ADDED:
      if (story->n_unadded-- == 0)
        abort ();
      break;
    case SONDE_MESSAGE_JOINED:
      if (story->n_unjoined-- == 0)
        abort ();
      break;
    case SONDE_MESSAGE_BROKEN:
      story->is_open = FALSE;
      break;
    default:
      break;
    }
  if ((story->n_heard++ == 0) != (message->type == SONDE_MESSAGE_SHEET))
    abort ();
}

/* FALSE: nothing is there. */
static gboolean
hear_one (Story *story, int *fd, SondeMessageWay way)
{
  union
  {
    SondeMessageHeader header;
    uint64_t align;
    char bytes[SONDE_MESSAGE_MAX_SIZE];
  } packet;
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))];
  } control;
  struct iovec vector = { &packet, sizeof packet };
  struct msghdr message = {
    .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
  };
  const struct cmsghdr *rights;
  int fds[SONDE_MESSAGE_MAX_FDS];
  unsigned n_fds = 0;
  ssize_t got;

  if (*fd < 0)
    return FALSE;
  got = recvmsg (*fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && errno == EAGAIN)
    return FALSE;
  if (got <= 0)
    {
      sonde_clear_fd (fd);
      return FALSE;
    }
  rights = CMSG_FIRSTHDR (&message);
  if (rights != NULL)
    n_fds = (unsigned) ((rights->cmsg_len - CMSG_LEN (0)) / sizeof (int));
  if (rights != NULL)
    memcpy (fds, CMSG_DATA (rights), n_fds * sizeof (int));
  for (unsigned i = 0; i < n_fds; i++)
    close (fds[i]);
  if (!packet_is_good (&packet, (size_t) got, n_fds, way))
    abort ();
  if (story->is_strange)
    check_secrets (&packet.header);
  if (way == SONDE_WAY_BROKER_TO_FRONT)
    check_order (story, &packet.header);
  else if (packet.header.type == SONDE_MESSAGE_FILE || packet.header.type == SONDE_MESSAGE_PROCESS)
    {
      if (story->n_unanswered-- == 0)
        abort ();
    }
  return TRUE;
}

static void
hear (Story *story)
{
  while (hear_one (story, &story->front, SONDE_WAY_BROKER_TO_FRONT))
    continue;
  while (hear_one (story, &story->worker, SONDE_WAY_BROKER_TO_WORKER))
    continue;
}

/* Each question is answered, and what is added, whatever its lane does. */
static void
run (Story *story, gint64 end_us)
{
  gint64 late_us = g_get_monotonic_time () + ANSWER_US;

  for (unsigned i = 0; i < MAX_TURNS && !story->is_done; i++)
    {
      gboolean is_busy = g_main_context_iteration (NULL, FALSE);
      gboolean is_awaited;

      hear (story);
      is_awaited = story->is_open
                   && ((story->worker >= 0 && story->n_unanswered > 0)
                       || (story->front >= 0 && story->n_unadded + story->n_unjoined > 0));
      if (is_awaited && g_get_monotonic_time () > late_us)
        abort ();
      if (!is_busy && !is_awaited && g_get_monotonic_time () >= end_us)
        break;
      if (!is_busy)
        g_usleep (100);
      if (is_awaited)
        i = 0;
    }
}

static void
on_done (int status, gpointer user_data)
{
  Story *story = user_data;

  if (story->is_done)
    abort ();
  story->is_done = TRUE;
}

/* --- what front and worker say --- */

static int
open_of (int32_t pid, const char *name)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/%s", pid, name);
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  return fd >= 0 ? fd : open ("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int
open_pidfd (int32_t pid)
{
  int fd = (int) syscall (SYS_pidfd_open, pid, 0);

  return fd >= 0 ? fd : open ("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* The descriptors that the flags promise, or with a kind others. Returns: how many */
static unsigned
name_targets (Story *story, Packet *packet, int *fds)
{
  SondeMessageTargets *message = (void *) packet->bytes;
  guint n_targets = MIN (message->n_targets, SONDE_MESSAGE_MAX_TARGETS);
  unsigned n = 0;

  for (guint i = 0; i < n_targets && n + 2 <= PACKET_MAX_FDS; i++)
    {
      SondeMessageTarget *target = &message->targets[i];

      target->pid = pid_of (story, target->pid);
      if (target->flags & SONDE_TARGET_HAS_MAPS)
        fds[n++] = packet->fd_kind & 1 ? open_of (INIT_PID, "maps") : open_of (target->pid, "maps");
      if (target->flags & SONDE_TARGET_HAS_PIDFD)
        fds[n++] = packet->fd_kind & 2 ? open_pidfd (INIT_PID) : open_pidfd (target->pid);
    }
  return n;
}

static void
name_owner (Story *story, SondeMessageAsk *message)
{
  message->owner_pid = pid_of (story, message->owner_pid);
  if (message->owner_uid == OWN_UID)
    message->owner_uid = getuid ();
  story->is_strange = message->owner_uid != 0 && message->owner_uid != getuid ()
                      && message->asked.raw == 0
                      && (message->asked.scope == SONDE_SCOPE_TARGETS
                          || message->asked.scope == SONDE_SCOPE_LAUNCH);
}

/* A mapping that a request can name. */
static void
name_mapping (SondeMessageFileRequest *request)
{
  sonde_autofd int fd = open ("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  g_autofree char *text = NULL;
  int64_t size_bytes = sonde_proc_maps_read (fd, 1 << 20, &text);
  const char *at = text;
  size_t left = size_bytes > 0 ? (size_t) size_bytes : 0;
  SondeProcMap map;

  while (sonde_proc_maps_next (&at, &left, &map) != 0)
    if (map.executable && map.inode != 0)
      {
        request->start = map.start;
        request->offset = map.offset;
        request->inode = map.inode;
        request->dev_major = map.dev_major;
        request->dev_minor = map.dev_minor;
        return;
      }
}

/* Returns: how many descriptors */
static unsigned
complete (Story *story, Packet *packet, int *fds)
{
  SondeMessageFileRequest *file = (void *) packet->bytes;
  SondeMessageProcessRequest *process = (void *) packet->bytes;
  SondeMessageCountersRequest *counters = (void *) packet->bytes;
  SondeMessageInterpreter *interpreter = (void *) packet->bytes;
  SondeMessageProbes *probes = (void *) packet->bytes;
  SondeMessageThreadsRequest *threads = (void *) packet->bytes;
  SondeMessageJoin *join = (void *) packet->bytes;
  int ends[2];

  switch (packet->header.type)
    {
    case SONDE_MESSAGE_ASK:
      if (story->n_heard == 1)
        name_owner (story, (void *) packet->bytes);
      return 0;
    case SONDE_MESSAGE_PROVE:
    case SONDE_MESSAGE_ADD:
      return name_targets (story, packet, fds);
    case SONDE_MESSAGE_PROCESS_REQUEST:
      process->pid = pid_of (story, process->pid);
      return 0;
    case SONDE_MESSAGE_JOIN:
      join->pid = pid_of (story, join->pid);
      return 0;
    case SONDE_MESSAGE_INTERPRETER:
      interpreter->pid = pid_of (story, interpreter->pid);
      return 0;
    case SONDE_MESSAGE_PROBES:
      probes->pid = pid_of (story, probes->pid);
      return 0;
    case SONDE_MESSAGE_THREADS_REQUEST:
      threads->pid = pid_of (story, threads->pid);
      return 0;
    case SONDE_MESSAGE_COUNTERS_REQUEST:
      counters->pid = pid_of (story, counters->pid);
      return 0;
    case SONDE_MESSAGE_FILE_REQUEST:
      if (file->pid == OWN_PID && file->inode == 0)
        name_mapping (file);
      file->pid = pid_of (story, file->pid);
      return 0;
    case SONDE_MESSAGE_SERVE:
      if (!sonde_socketpair (packet->fd_kind & 1 ? SOCK_STREAM : SOCK_SEQPACKET, ends, NULL))
        abort ();
      if (story->worker >= 0 || packet->fd_kind & 1)
        close (ends[0]);
      else
        story->worker = ends[0];
      fds[0] = ends[1];
      return 1;
    default:
      return 0;
    }
}

static void
say (Story *story, Packet *packet)
{
  int fd = packet->is_of_link ? story->worker : story->front;
  SondeMessageWay way = packet->is_of_link ? SONDE_WAY_WORKER_TO_BROKER : SONDE_WAY_FRONT_TO_BROKER;
  int fds[PACKET_MAX_FDS];
  unsigned n_fds = complete (story, packet, fds);
  uint32_t type = packet->header.type;

  while (n_fds < packet->n_fds)
    fds[n_fds++] = open ("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd >= 0)
    packet_socket_send (fd, packet->bytes, packet->size_bytes, fds, n_fds, MSG_DONTWAIT);
  if (fd >= 0 && packet_is_good (packet->bytes, packet->size_bytes, n_fds, way))
    {
      story->n_unproved += type == SONDE_MESSAGE_PROVE;
      story->n_unadded += type == SONDE_MESSAGE_ADD;
      story->n_unjoined += type == SONDE_MESSAGE_JOIN;
      story->n_unanswered
          += packet->is_of_link
             && (type == SONDE_MESSAGE_PROCESS_REQUEST || type == SONDE_MESSAGE_FILE_REQUEST);
    }
  for (unsigned i = 0; i < n_fds; i++)
    sonde_clear_fd (&fds[i]);
}

static void
converse (Story *story, Input *input)
{
  for (unsigned i = 0; i < MAX_PACKETS && input->left > 0 && !story->is_done; i++)
    {
      gint64 end_us = 0;
      Packet packet;

      packet_take (&packet, input);
      switch (packet.header.type)
        {
        case STEP_WAIT:
          end_us = g_get_monotonic_time () + 1000 * (packet.fd_kind % 8);
          break;
        case STEP_EVENTS_FAIL:
          open_errno = (int) packet.fd_kind;
          break;
        case STEP_SWITCHES_FAIL:
          switch_errno = (int) packet.fd_kind;
          break;
        case STEP_CHILD_ENDS:
          end_child (story);
          break;
        case STEP_WORKER_LEAVES:
          sonde_clear_fd (&story->worker);
          break;
        default:
          say (story, &packet);
        }
      run (story, end_us);
    }
}

/* A front that does wrong is complained of. */
static GLogWriterOutput
write_no_log (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  if (level & (G_LOG_LEVEL_ERROR | G_LOG_LEVEL_CRITICAL))
    abort ();
  return G_LOG_WRITER_HANDLED;
}

/* Returns: how many descriptors are open. A lane of the input before may have some just now. */
static unsigned
prepare (void)
{
  static gsize is_prepared;
  static unsigned n_fds;

  if (!g_once_init_enter (&is_prepared))
    return n_fds;
  g_log_set_always_fatal (G_LOG_FATAL_MASK | G_LOG_LEVEL_CRITICAL);
  g_log_set_writer_func (write_no_log, NULL, NULL);
  while (g_main_context_iteration (NULL, FALSE)) /* GLib's own descriptors are there */
    continue;
  n_fds = fuzz_count_fds ();
  g_once_init_leave (&is_prepared, 1);
  return n_fds;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  Story story = { .worker = -1 };
  unsigned before = prepare ();
  int fds[2];

  open_errno = switch_errno = 0;
  if (!sonde_socketpair (SOCK_SEQPACKET | SOCK_NONBLOCK, fds, NULL))
    abort ();
  story.front = fds[0];
  story.broker = sonde_broker_new (fds[1], on_done, &story);
  hear (&story);
  converse (&story, &input);
  if (story.front >= 0)
    shutdown (story.front, SHUT_WR);
  run (&story, 0);
  if (!story.is_done)
    abort ();
  sonde_broker_free (story.broker);
  sonde_clear_fd (&story.front);
  sonde_clear_fd (&story.worker);
  end_child (&story);
  fuzz_await_fds (before); /* those that its threads close */

  return 0;
}
