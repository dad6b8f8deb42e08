/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker that somebody else has taken over. */
#include "tests/bus/hostile-worker.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bus/hostile-messages.h"
#include "tests/lib/packet-socket.h"

#define WORKER_FD  3
#define RING_BYTES ((1 + 8) * (size_t) sysconf (_SC_PAGESIZE))

/* The connection with the broker; -1: not yet. */
static int link_fd = -1;

static void
send_to (int connection, const HostileMessage *message)
{
  int fds[SONDE_MESSAGE_MAX_FDS];

  for (unsigned i = 0; i < message->n_fds; i++)
    fds[i] = WORKER_FD;
  if (packet_socket_send (connection, message->bytes, message->size_bytes, fds, message->n_fds, 0)
      < 0)
    _exit (1);
}

static void
send_message (const HostileMessage *message)
{
  send_to (WORKER_FD, message);
}

static void
send_good (guint32 type)
{
  HostileMessage message;

  hostile_make_good (&message, type);
  send_message (&message);
}

/* Returns how many descriptors came with it; rings are mapped, and all are closed but the link. */
static unsigned
receive (int connection, HostileMessage *message)
{
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))];
  } control;
  struct iovec vector = { message->bytes, sizeof message->bytes };
  struct msghdr header = { .msg_iov = &vector,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes };
  unsigned n_fds = 0;

  if (recvmsg (connection, &header, 0) <= 0)
    _exit (0); /* sonded has enough of us */
  for (struct cmsghdr *c = CMSG_FIRSTHDR (&header); c != NULL; c = CMSG_NXTHDR (&header, c))
    if (c->cmsg_type == SCM_RIGHTS)
      {
        n_fds = (unsigned) ((c->cmsg_len - CMSG_LEN (0)) / sizeof (int));
        for (unsigned i = 0; i < n_fds; i++)
          {
            int fd = ((int *) (void *) CMSG_DATA (c))[i];

            /* Events can only be sent into a ring that is mapped; that stays without it. */
            if (message->header.type == SONDE_MESSAGE_RINGS)
              (void) mmap (NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            if (message->header.type == SONDE_MESSAGE_LINK)
              link_fd = fd;
            else
              close (fd);
          }
      }
  return n_fds;
}

static void
wait_for (HostileMessage *message, SondeMessageType type)
{
  do
    receive (WORKER_FD, message);
  while (message->header.type != type);
}

/* Of a session that lost its broker it drains what it has. */
static void
wait_for_the_end (void)
{
  HostileMessage message;

  wait_for (&message, SONDE_MESSAGE_STOP);
  send_good (SONDE_MESSAGE_DRAINED);
  send_good (SONDE_MESSAGE_FINISHED);
  wait_for (&message, SONDE_MESSAGE_LEAVE);
  _exit (0);
}

static void
ask_process (guint64 id, pid_t pid)
{
  HostileMessage message;

  hostile_make_good (&message, SONDE_MESSAGE_PROCESS_REQUEST);
  message.process_request.request_id = id;
  message.process_request.pid = pid;
  send_to (link_fd, &message);
}

/* A line of maps, as anybody who may read it would know it. */
typedef struct
{
  unsigned long start;
  unsigned long offset;
  unsigned long inode;
  unsigned major;
  unsigned minor;
} Mapping;

static void
ask_mapping (guint64 id, pid_t pid, const Mapping *mapping)
{
  HostileMessage message;

  hostile_make_good (&message, SONDE_MESSAGE_FILE_REQUEST);
  message.file_request.request_id = id;
  message.file_request.pid = pid;
  message.file_request.start = mapping->start;
  message.file_request.offset = mapping->offset;
  message.file_request.dev_major = mapping->major;
  message.file_request.dev_minor = mapping->minor;
  message.file_request.inode = mapping->inode;
  send_to (link_fd, &message);
}

/* Its first mapping that is executable. */
static void
ask_file (guint64 id, pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  FILE *maps = fopen (path, "re");
  Mapping mapping = { 0 };
  Mapping found;
  char line[8192];
  char is_executable;

  while (maps != NULL && mapping.inode == 0 && fgets (line, sizeof line, maps) != NULL)
    if (sscanf (line, "%lx-%*x %*c%*c%c%*c %lx %x:%x %lu", &found.start, &is_executable,
                &found.offset, &found.major, &found.minor, &found.inode)
            == 6
        && is_executable == 'x')
      mapping = found;
  if (maps != NULL)
    fclose (maps);
  ask_mapping (id, pid, &mapping);
}

/* Not answered where there is nothing to be had. */
static void
ask_counters (pid_t pid)
{
  HostileMessage message;

  hostile_make_good (&message, SONDE_MESSAGE_COUNTERS_REQUEST);
  message.counters_request.pid = pid;
  send_to (link_fd, &message);
}

/* Until both answers are there: how many descriptors came; *@n_wrong: how many refused it in no
 * proper way. */
static unsigned
receive_answers (unsigned *n_wrong)
{
  HostileMessage message;
  unsigned n_all = 0;

  for (unsigned i = 0; i < 2;)
    {
      unsigned n_fds = receive (link_fd, &message);
      gboolean is_process = message.header.type == SONDE_MESSAGE_PROCESS;
      int32_t status = is_process ? message.process.status : message.file.status;

      n_all += n_fds;
      if (!is_process && message.header.type != SONDE_MESSAGE_FILE)
        continue;
      i++;
      *n_wrong += status != EPERM && status != ESRCH;
    }
  return n_all;
}

/* Asks for all whom HOSTILE_PID_FILE names, and says what it got. */
static void
ask_others (void)
{
  FILE *file = fopen (HOSTILE_PID_FILE, "re");
  HostileMessage message;
  unsigned n_of_target = 0, n_of_others = 0, n_wrong = 0;
  int pid;

  for (guint64 id = 1; file != NULL && fscanf (file, "%d", &pid) == 1; id += 2)
    {
      unsigned ignored = 0;

      ask_counters (pid);
      ask_process (id, pid);
      ask_file (id + 1, pid);
      if (id == 1)
        n_of_target = receive_answers (&ignored);
      else
        n_of_others += receive_answers (&n_wrong);
    }
  hostile_make_good (&message, SONDE_MESSAGE_FAILED);
  g_snprintf (message.failed.text, sizeof message.failed.text,
              "%s of its target, %u of others, %u wrong", n_of_target >= 3 ? "some" : "none",
              n_of_others, n_wrong);
  send_message (&message);
}

/* One after the other: a letter for each answer. */
static void
ask_mappings (void)
{
  FILE *file = fopen (HOSTILE_MAPPING_FILE, "re");
  g_autoptr (GString) answers = g_string_new ("files: ");
  HostileMessage message;
  Mapping mapping;
  int pid;

  for (guint64 id = 1; file != NULL
                       && fscanf (file, "%d %lx %lx %x:%x %lu", &pid, &mapping.start,
                                  &mapping.offset, &mapping.major, &mapping.minor, &mapping.inode)
                              == 6;
       id++)
    {
      unsigned n_fds;

      ask_mapping (id, pid, &mapping);
      do
        n_fds = receive (link_fd, &message);
      while (message.header.type != SONDE_MESSAGE_FILE);
      g_string_append_c (answers, n_fds > 0 ? 'y' : 'n');
    }
  hostile_make_good (&message, SONDE_MESSAGE_FAILED);
  g_strlcpy (message.failed.text, answers->str, sizeof message.failed.text);
  send_message (&message);
}

/* As fast as the answers come, and faster. */
static void
flood (void)
{
  struct pollfd readable = { .fd = link_fd, .events = POLLIN };
  HostileMessage message;

  for (guint64 id = 1;; id++)
    {
      ask_process (id, 1);
      while (poll (&readable, 1, 0) > 0)
        receive (link_fd, &message);
    }
}

static void
misbehave (guint64 what)
{
  HostileMessage message;

  switch (what)
    {
    case HOSTILE_ASK_OTHERS:
      ask_others ();
      break;
    case HOSTILE_ASK_MAPPINGS:
      ask_mappings ();
      break;
    case HOSTILE_FLOOD:
      flood ();
      break;
    case HOSTILE_NEVER_READ:
      for (guint64 id = 1;; id++)
        ask_process (id, 1);
    case HOSTILE_HANG:
      for (;;)
        pause ();
    default:
      if (what >= HOSTILE_BAD_REQUEST
          && hostile_make_bad (&message, SONDE_WAY_WORKER_TO_BROKER,
                               (unsigned) (what - HOSTILE_BAD_REQUEST)))
        send_to (link_fd, &message);
      else if (what >= HOSTILE_BAD
               && hostile_make_bad (&message, SONDE_WAY_WORKER_TO_FRONT,
                                    (unsigned) (what - HOSTILE_BAD)))
        send_message (&message);
      else if (what >= HOSTILE_LATE && what <= HOSTILE_LATE + HOSTILE_MAX_TYPE)
        send_good ((guint32) (what - HOSTILE_LATE));
    }
}

void
hostile_worker_main (void)
{
  HostileMessage message;
  guint64 what;

  send_good (SONDE_MESSAGE_HELLO);
  wait_for (&message, SONDE_MESSAGE_SETUP);
  what = message.setup.asked.frequency_hz;
  if (what == HOSTILE_ASK_EARLY)
    {
      ask_process (1, 1);
      wait_for_the_end ();
    }
  if (what >= HOSTILE_EARLY && what <= HOSTILE_EARLY + HOSTILE_MAX_TYPE)
    {
      send_good ((guint32) (what - HOSTILE_EARLY));
      wait_for_the_end ();
    }
  wait_for (&message, SONDE_MESSAGE_RINGS);
  send_good (SONDE_MESSAGE_RINGS_MAPPED);
  wait_for (&message, SONDE_MESSAGE_START);
  misbehave (what);
  wait_for_the_end ();
}
