/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker gains that somebody else has taken over: nothing. This program is the worker, too;
 * what it does is told by the frequency that a session asks for. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/message.h"
#include "tests/lib/bus-user.h"

#define WORKER_FD  3
#define RING_BYTES ((1 + 8) * (size_t) sysconf (_SC_PAGESIZE))
/* KiB, of sonded; AddressSanitizer keeps up to 256 MiB of what was freed. */
#ifdef __SANITIZE_ADDRESS__
#define MAX_GROWTH (384 * 1024)
#else
#define MAX_GROWTH (16 * 1024)
#endif
#define FIRST_PACKET 100 /* Hz: a packet that cannot be, from packets[] */
#define FIRST_EARLY  300 /* a message before the session runs */
#define FIRST_LATE   500 /* a message while it does */
#define ASK_OTHERS   701
#define FLOOD        702
#define NEVER_READ   703
#define HANG         704
#define PID_FILE     "/mnt/victims" /* of private-bus: who to ask about, one pid a line */

/* --- the worker --- */

typedef union
{
  SondeMessageHeader header;
  SondeMessageSetup setup;
  SondeMessageHello hello;
  SondeMessageRingsMapped mapped;
  SondeMessageProcessRequest process_request;
  SondeMessageFileRequest file_request;
  SondeMessageStatistics statistics;
  SondeMessageSinkClosed sink_closed;
  SondeMessageFailed failed;
  SondeMessageProcess process;
  SondeMessageFile file;
  char bytes[SONDE_MESSAGE_MAX_SIZE + 4096];
} Packet;

static void
send_packet (const void *bytes, size_t size_bytes, unsigned n_fds)
{
  union
  {
    struct cmsghdr align;
    char bytes[CMSG_SPACE (SONDE_MESSAGE_MAX_FDS * sizeof (int))];
  } control = { 0 };
  struct iovec vector = { (void *) bytes, size_bytes };
  struct msghdr header = { .msg_iov = &vector, .msg_iovlen = 1 };

  if (n_fds > 0)
    {
      struct cmsghdr *rights;
      int *fds;

      header.msg_control = control.bytes;
      header.msg_controllen = CMSG_SPACE (n_fds * sizeof (int));
      rights = CMSG_FIRSTHDR (&header);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN (n_fds * sizeof (int));
      fds = (int *) (void *) CMSG_DATA (rights);
      for (unsigned i = 0; i < n_fds; i++)
        fds[i] = WORKER_FD;
    }
  if (sendmsg (WORKER_FD, &header, MSG_NOSIGNAL) < 0)
    _exit (1);
}

static void
send_message (Packet *packet, SondeMessageType type, size_t size_bytes)
{
  packet->header.type = type;
  packet->header.size = (uint32_t) size_bytes;
  send_packet (packet, size_bytes, 0);
}

/* Returns how many descriptors came with it; rings are mapped, and all are closed. */
static unsigned
receive (Packet *packet)
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
  unsigned n_fds = 0;

  if (recvmsg (WORKER_FD, &header, 0) <= 0)
    _exit (0); /* sonded has enough of us */
  for (struct cmsghdr *c = CMSG_FIRSTHDR (&header); c != NULL; c = CMSG_NXTHDR (&header, c))
    if (c->cmsg_type == SCM_RIGHTS)
      {
        n_fds = (unsigned) ((c->cmsg_len - CMSG_LEN (0)) / sizeof (int));
        for (unsigned i = 0; i < n_fds; i++)
          {
            int fd = ((int *) (void *) CMSG_DATA (c))[i];

            /* Events can only be sent into a ring that is mapped; that stays without it. */
            if (packet->header.type == SONDE_MESSAGE_RINGS)
              (void) mmap (NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            close (fd);
          }
      }
  return n_fds;
}

static void
wait_for (Packet *packet, SondeMessageType type)
{
  do
    receive (packet);
  while (packet->header.type != type);
}

static void
wait_for_the_end (void)
{
  Packet packet;

  for (;;)
    receive (&packet);
}

/* What cannot be, in each of its ways: an index without one ends the worker. */
static void
send_bad_packet (unsigned index)
{
  Packet p = { 0 };

  switch (index)
    {
    case 0:
      send_packet (&p, 0, 0);
      break;
    case 1:
      send_packet (&p, 4, 0);
      break;
    case 2:
      send_packet (&p, sizeof p, 0);
      break;
    case 3: /* a size that lies */
      p.header = (SondeMessageHeader){ SONDE_MESSAGE_STATISTICS, sizeof p.statistics };
      send_packet (&p, sizeof p.statistics - 8, 0);
      break;
    case 4:
      p.header = (SondeMessageHeader){ SONDE_MESSAGE_STATISTICS, 0xffffffff };
      send_packet (&p, sizeof p.statistics, 0);
      break;
    case 5:
      send_message (&p, SONDE_MESSAGE_STATISTICS, sizeof p.statistics + 8);
      break;
    case 6: /* a request without a number, of nobody, with something behind */
      p.process_request.pid = 1;
      send_message (&p, SONDE_MESSAGE_PROCESS_REQUEST, sizeof p.process_request);
      break;
    case 7:
      p.process_request = (SondeMessageProcessRequest){ .request_id = 1, .pid = -1 };
      send_message (&p, SONDE_MESSAGE_PROCESS_REQUEST, sizeof p.process_request);
      break;
    case 8:
      p.file_request = (SondeMessageFileRequest){ .request_id = 1, .pid = 1, .padding = 1 };
      send_message (&p, SONDE_MESSAGE_FILE_REQUEST, sizeof p.file_request);
      break;
    case 9: /* a text without an end, and one for the terminal */
      memset (p.failed.text, 'x', sizeof p.failed.text);
      send_message (&p, SONDE_MESSAGE_FAILED, sizeof p.failed);
      break;
    case 10:
      g_strlcpy (p.failed.text, "\033[2J", sizeof p.failed.text);
      send_message (&p, SONDE_MESSAGE_FAILED, sizeof p.failed);
      break;
    case 11: /* descriptors */
    case 12:
      p.header = (SondeMessageHeader){ SONDE_MESSAGE_STATISTICS, sizeof p.statistics };
      send_packet (&p, sizeof p.statistics, index == 11 ? 1 : SONDE_MESSAGE_MAX_FDS);
      break;
    default: /* types: none, control's own, and those between and behind */
      if (index - 13 > SONDE_MESSAGE_NOTE + 3)
        _exit (0);
      send_message (&p, index - 13 <= SONDE_MESSAGE_NOTE ? index - 13 : 0x55u << (8 * (index % 3)),
                    sizeof p.header);
    }
}

enum
{
  N_BAD_PACKETS = 13 + SONDE_MESSAGE_NOTE + 3,
};

static const struct
{
  SondeMessageType type;
  size_t size_bytes;
} own_types[] = {
  { SONDE_MESSAGE_HELLO, sizeof (SondeMessageHello) },
  { SONDE_MESSAGE_RINGS_MAPPED, sizeof (SondeMessageRingsMapped) },
  { SONDE_MESSAGE_PROCESS_REQUEST, sizeof (SondeMessageProcessRequest) },
  { SONDE_MESSAGE_FILE_REQUEST, sizeof (SondeMessageFileRequest) },
  { SONDE_MESSAGE_STATISTICS, sizeof (SondeMessageStatistics) },
  { SONDE_MESSAGE_DRAINED, sizeof (SondeMessageStatistics) },
  { SONDE_MESSAGE_SINK_CLOSED, sizeof (SondeMessageSinkClosed) },
  { SONDE_MESSAGE_FINISHED, sizeof (SondeMessageStatistics) },
};

/* Well made, and not its turn. */
static void
send_own_type (unsigned index)
{
  Packet p = { 0 };

  if (own_types[index].type == SONDE_MESSAGE_HELLO)
    p.hello.version = SONDE_MESSAGE_VERSION;
  if (own_types[index].type == SONDE_MESSAGE_PROCESS_REQUEST)
    p.process_request = (SondeMessageProcessRequest){ .request_id = 1, .pid = 1 };
  if (own_types[index].type == SONDE_MESSAGE_FILE_REQUEST)
    p.file_request = (SondeMessageFileRequest){ .request_id = 1, .pid = 1 };
  if (own_types[index].type == SONDE_MESSAGE_SINK_CLOSED)
    p.sink_closed.sink_id = 4711;
  send_message (&p, own_types[index].type, own_types[index].size_bytes);
}

static void
ask_process (guint64 id, pid_t pid)
{
  Packet p = { 0 };

  p.process_request.request_id = id;
  p.process_request.pid = pid;
  send_message (&p, SONDE_MESSAGE_PROCESS_REQUEST, sizeof p.process_request);
}

/* Its first mapping, as anybody who may read it would know it. */
static void
ask_file (guint64 id, pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", (int) pid);
  FILE *maps = fopen (path, "re");
  Packet p = { 0 };
  unsigned long start, offset, inode;
  unsigned major, minor;

  if (maps != NULL
      && fscanf (maps, "%lx-%*x %*s %lx %x:%x %lu", &start, &offset, &major, &minor, &inode) == 5)
    {
      p.file_request.start = start;
      p.file_request.offset = offset;
      p.file_request.dev_major = major;
      p.file_request.dev_minor = minor;
      p.file_request.inode = inode;
    }
  if (maps != NULL)
    fclose (maps);
  p.file_request.request_id = id;
  p.file_request.pid = pid;
  send_message (&p, SONDE_MESSAGE_FILE_REQUEST, sizeof p.file_request);
}

/* Asks for all whom PID_FILE names, the first of which is its own target, and says what it got. */
static void
ask_others (void)
{
  FILE *file = fopen (PID_FILE, "re");
  Packet p = { 0 };
  unsigned n_of_target = 0, n_of_others = 0, n_wrong = 0;
  int pid;

  for (guint64 id = 1; file != NULL && fscanf (file, "%d", &pid) == 1; id += 2)
    {
      ask_process (id, pid);
      ask_file (id + 1, pid);
      for (unsigned i = 0; i < 2;)
        {
          unsigned n_fds = receive (&p);
          gboolean is_process = p.header.type == SONDE_MESSAGE_PROCESS;
          int32_t status = is_process ? p.process.status : p.file.status;

          /* Its target it is told of unasked, too. */
          if ((!is_process && p.header.type != SONDE_MESSAGE_FILE)
              || (is_process && p.process.request_id == 0))
            continue;
          i++;
          *(id == 1 ? &n_of_target : &n_of_others) += n_fds;
          n_wrong += id > 1 && status != EPERM && status != ESRCH;
        }
    }
  memset (&p, 0, sizeof p);
  g_snprintf (p.failed.text, sizeof p.failed.text, "%s of its target, %u of others, %u wrong",
              n_of_target >= 2 ? "some" : "none", n_of_others, n_wrong);
  send_message (&p, SONDE_MESSAGE_FAILED, sizeof p.failed);
}

/* As fast as the answers come, and faster. */
static void
flood (void)
{
  struct pollfd readable = { .fd = WORKER_FD, .events = POLLIN };
  Packet p;

  for (guint64 id = 1;; id++)
    {
      ask_process (id, 1);
      while (poll (&readable, 1, 0) > 0)
        receive (&p);
    }
}

static void
worker_main (void)
{
  Packet p = { .hello.version = SONDE_MESSAGE_VERSION };
  guint64 what;

  send_message (&p, SONDE_MESSAGE_HELLO, sizeof p.hello);
  wait_for (&p, SONDE_MESSAGE_SETUP);
  what = p.setup.frequency_hz;
  if (what >= FIRST_EARLY && what < FIRST_EARLY + G_N_ELEMENTS (own_types))
    {
      send_own_type ((unsigned) what - FIRST_EARLY);
      wait_for_the_end ();
    }
  wait_for (&p, SONDE_MESSAGE_RINGS);
  memset (&p, 0, sizeof p);
  send_message (&p, SONDE_MESSAGE_RINGS_MAPPED, sizeof p.mapped);
  wait_for (&p, SONDE_MESSAGE_START);
  if (what >= FIRST_LATE && what < FIRST_LATE + G_N_ELEMENTS (own_types))
    send_own_type ((unsigned) what - FIRST_LATE);
  else if (what >= FIRST_PACKET && what < FIRST_PACKET + N_BAD_PACKETS)
    send_bad_packet ((unsigned) what - FIRST_PACKET);
  else if (what == ASK_OTHERS)
    ask_others ();
  else if (what == FLOOD)
    flood ();
  else if (what == NEVER_READ)
    for (guint64 id = 1;; id++)
      ask_process (id, 1);
  else if (what == HANG)
    for (;;)
      pause ();
  wait_for_the_end ();
}

/* --- who suffers from it, or not --- */

typedef struct
{
  GDBusConnection *bus; /* root's, who may start as often as he likes */
  BusUser other;        /* who has to be answered all the while */
  pid_t sonded;
  guint n_fds;
  guint64 memory_kib;
} Fixture;

static guint64
read_memory (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", (int) pid);
  g_autofree char *status = NULL;
  const char *line;

  g_assert_true (g_file_get_contents (path, &status, NULL, NULL));
  line = strstr (status, "VmRSS:");
  g_assert_nonnull (line);
  return g_ascii_strtoull (line + strlen ("VmRSS:"), NULL, 10);
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->bus = bus_connect (0);
  bus_user_init (&fixture->other, BUS_CHILD_WAIT);
  bus_assert_answers (fixture->other.bus);
  fixture->sonded = bus_service_pid (fixture->bus);
  fixture->n_fds = bus_count_fds (fixture->sonded);
  fixture->memory_kib = read_memory (fixture->sonded);
}

static gboolean
holds_no_more (gpointer user_data)
{
  const Fixture *fixture = user_data;

  return bus_count_fds (fixture->sonded) <= fixture->n_fds;
}

/* It is the same process, and has no more than before. */
static void
tear_down (Fixture *fixture, gconstpointer data)
{
  bus_assert_answers (fixture->other.bus);
  bus_wait (holds_no_more, fixture, "the descriptors of a hostile worker's session");
  g_assert_cmpint (bus_service_pid (fixture->bus), ==, fixture->sonded);
  g_assert_cmpuint (read_memory (fixture->sonded), <=, fixture->memory_kib + MAX_GROWTH);
  bus_user_clear (&fixture->other);
  g_clear_object (&fixture->bus);
}

static gboolean
start (GDBusConnection *bus, unsigned what, char **session, int *capture, GError **error)
{
  return bus_profile (
      bus,
      g_variant_new_parsed ("{'launch': <true>, 'event': <'cpu-clock'>, 'frequency': <%u>}", what),
      NULL, session, capture, error);
}

/* The end of the session that has such a worker. */
static char *
run (Fixture *fixture, unsigned what)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  BusFinished finished;
  int capture = -1;

  bus_watch_finished (&finished, fixture->bus, NULL);
  if (!start (fixture->bus, what, &session, &capture, &error))
    {
      g_dbus_connection_signal_unsubscribe (fixture->bus, finished.subscription);
      return g_strdup (error->message);
    }
  bus_wait_finished (&finished, fixture->bus);
  close (capture);
  bus_assert_answers (fixture->other.bus);
  return finished.reason;
}

static void
packets_that_cannot_be_end_it (Fixture *fixture, gconstpointer data)
{
  for (unsigned i = 0; i < N_BAD_PACKETS; i++)
    {
      g_autofree char *reason = run (fixture, FIRST_PACKET + i);

      g_test_message ("%u: %s", i, reason);
      /* An empty packet is the end of the connection. */
      g_assert_true (i == 0 || g_str_has_prefix (reason, "Refused a message "));
    }
}

static void
messages_out_of_turn_end_it (Fixture *fixture, gconstpointer data)
{
  for (unsigned i = 0; i < G_N_ELEMENTS (own_types); i++)
    {
      g_autofree char *early = NULL;

      /* That one it owes. */
      if (own_types[i].type == SONDE_MESSAGE_RINGS_MAPPED)
        continue;
      early = run (fixture, FIRST_EARLY + i);
      g_test_message ("early: %s", early);
      g_assert_nonnull (strstr (early, "out of order"));
    }
  for (unsigned i = 0; i < G_N_ELEMENTS (own_types); i++)
    {
      SondeMessageType type = own_types[i].type;
      g_autofree char *late = NULL;

      if (type == SONDE_MESSAGE_PROCESS_REQUEST || type == SONDE_MESSAGE_FILE_REQUEST
          || type == SONDE_MESSAGE_STATISTICS)
        continue;
      late = run (fixture, FIRST_LATE + i);
      g_test_message ("late: %s", late);
      g_assert_true (strstr (late, "out of order") != NULL || strstr (late, "not given") != NULL
                     || strstr (late, "not open") != NULL);
    }
}

static void
others_stay_closed_to_it (Fixture *fixture, gconstpointer data)
{
  g_auto (BusUser) owner = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autofree char *victims = NULL;
  BusFinished finished;
  int capture = -1;

  bus_user_init (&owner, BUS_CHILD_WAIT);
  victims = g_strdup_printf ("%d\n1\n%d\n%d\n%d\n999999\n", (int) owner.target,
                             (int) fixture->sonded, (int) fixture->other.target, (int) getpid ());
  g_assert_true (g_file_set_contents (PID_FILE, victims, -1, NULL));
  fds = bus_open_proc (owner.target, "maps", O_RDONLY);
  bus_watch_finished (&finished, owner.bus, NULL);
  g_assert_true (bus_profile (owner.bus,
                              g_variant_new_parsed ("{'targets': <[(%u, @h 0)]>, 'event': "
                                                    "<'cpu-clock'>, 'frequency': <%u>}",
                                                    (guint32) owner.target, ASK_OTHERS),
                              fds, &session, &capture, &error));
  g_assert_no_error (error);
  bus_wait_finished (&finished, owner.bus);
  close (capture);
  g_assert_cmpstr (finished.reason, ==, "some of its target, 0 of others, 0 wrong");
  g_free (finished.reason);
}

/* Others are answered 200 times while it does its worst. */
static void
floods_stop_nobody (Fixture *fixture, gconstpointer data)
{
  unsigned what = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autoptr (GVariant) answer = NULL;
  gint64 longest_us = 0;
  int capture = -1;

  g_assert_true (start (fixture->bus, what, &session, &capture, &error));
  g_assert_no_error (error);
  for (unsigned i = 0; i < 200; i++)
    {
      gint64 begin_us = g_get_monotonic_time ();

      bus_assert_answers (fixture->other.bus);
      longest_us = MAX (longest_us, g_get_monotonic_time () - begin_us);
    }
  g_test_message ("the longest of 200 answers took %.1f ms", (double) longest_us / 1e3);
  /* It does not drain, or has failed by now: Stop says so, and comes back. */
  answer = bus_session_call (fixture->bus, session, "Stop", NULL, NULL, &error);
  g_assert_null (answer);
  g_test_message ("%s", error->message);
  close (capture);
}

int
main (int argc, char **argv)
{
  if (argc >= 2 && g_str_equal (argv[1], "--fd=3"))
    worker_main ();
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, data, function)                                                                  \
  g_test_add ("/hostile-worker/" path, Fixture, GUINT_TO_POINTER (data), set_up, function,         \
              tear_down)
  ADD ("packets-that-cannot-be-end-it", 0, packets_that_cannot_be_end_it);
  ADD ("messages-out-of-turn-end-it", 0, messages_out_of_turn_end_it);
  ADD ("others-stay-closed-to-it", 0, others_stay_closed_to_it);
  ADD ("its-requests-without-end-stop-nobody", FLOOD, floods_stop_nobody);
  ADD ("its-deafness-stops-nobody", NEVER_READ, floods_stop_nobody);
  ADD ("its-silence-stops-nobody", HANG, floods_stop_nobody);
#undef ADD
  return g_test_run ();
}
