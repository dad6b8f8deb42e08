/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/control-link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "shared-ring/collector/beacon.h"
#include "shared-ring/fork-guard.h"
#include "shared-ring/known-socket.h"
#include "shared-ring/ring-atomic.h"

/* Answers to requests that timed out may stand before ours. */
#define MAX_STALE_ANSWERS 16

/* A profiler that has no place at the moment is asked again, at first soon and then more rarely,
 * for SONDE_CONTROL_TIMEOUT_MS in all. */
#define MAX_RETRIES    3 /* where the link was closed meanwhile */
#define FIRST_PAUSE_MS 4
#define LAST_PAUSE_MS  512

/* Who was called comes by himself, in the middle of what he does: he waits less, and the profiler
 * calls again. */
#define CALLED_MS 1000

/* For a larger ring: a program can do without. */
#define GROW_MS 1000

/* Of everybody whom a user namespace has no number for. */
#define OVERFLOW_UID 65534

/* Programs count on low numbers: a daemon opens what is to be its standard output. */
#define LOWEST_FD    3
#define PREFERRED_FD 200

/* A rendezvous. */
typedef struct
{
  struct sockaddr_un address;
  socklen_t address_bytes;              /* 0: there is none */
  uint8_t key[SONDE_CONTROL_KEY_BYTES]; /* of the session; all zero: of whichever calls */
} Place;

/* The links of the process, as its environment is; under the lock, but for is_there and what is
 * said to be so. */
static struct
{
  pthread_mutex_t lock;
  SondeKnownSocket control; /* shared with our ancestors and descendants */
  SondeKnownSocket link;    /* ours alone */
  Place place;              /* of the environment */
  uint32_t is_there;        /* who is inherited */
  uint32_t has_come;     /* the link is, or was, of a session that has called; without the lock */
  uint64_t refused_call; /* the last call that was answered with no; without the lock */
  uint32_t missed;       /* generation of the beacon whose call could not be followed; so, too */
  uint32_t came_at;      /* generation by which the link was made, if who called has it */
  uint32_t is_confined;  /* makes no sockets any more */
  uint32_t n_requests;
  bool is_let_through; /* by the filter that it had at its start: so says its environment */
  bool is_sysprof;     /* only the protocol of libsysprof-capture */
  bool is_slow;        /* did not answer who wished for a larger ring */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .control = { .fd = -1 }, .link = { .fd = -1 } };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_once_t around_once = PTHREAD_ONCE_INIT;

/* Other handlers of fork() in the thread that forks may want a ring while it has the lock. */
static _Thread_local bool is_forking;

static void
lock_for_fork (void)
{
  /* For signal handlers, too, from before it has the lock until behind that. */
  is_forking = true;
  pthread_mutex_lock (&state.lock);
}

static void
unlock_in_parent (void)
{
  pthread_mutex_unlock (&state.lock);
  is_forking = false;
}

/* The link stays the parent's: the profiler shall see when the parent is gone. */
static void
unlock_in_child (void)
{
  int saved_errno = errno;

  sonde_known_socket_close (&state.link);
  pthread_mutex_unlock (&state.lock);
  is_forking = false;
  errno = saved_errno;
}

/* Whether that is the socket which the environment means, and not another that has its number by
 * now: who says no more than the number is believed. */
static bool
is_as_inherited (int fd)
{
  const char *text = secure_getenv ("SONDE_CONTROL_INODE");
  struct stat status;

  return text == NULL
         || (fstat (fd, &status) == 0 && strtoull (text, NULL, 10) == (uint64_t) status.st_ino);
}

/* Whether @variable names a Unix socket. Set-user-ID programs trust no environment. */
static bool
find_control (const char *variable)
{
  const char *text = secure_getenv (variable);
  socklen_t size = sizeof (int);
  char *end = NULL;
  int domain = -1;
  long fd;

  if (text == NULL || text[0] < '0' || text[0] > '9')
    return false;

  errno = 0;
  fd = strtol (text, &end, 10);
  if (errno != 0 || *end != '\0' || fd < 3 || fd > INT32_MAX)
    return false;

  return getsockopt ((int) fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX
         && is_as_inherited ((int) fd) && sonde_known_socket_init (&state.control, (int) fd) == 0;
}

static bool
read_key (const char *digits)
{
  static const char all[] = "0123456789abcdef";

  if (strlen (digits) != (size_t) 2 * SONDE_CONTROL_KEY_BYTES)
    return false;
  for (size_t i = 0; i < SONDE_CONTROL_KEY_BYTES; i++)
    {
      const char *high = strchr (all, digits[2 * i]);
      const char *low = strchr (all, digits[2 * i + 1]);

      if (high == NULL || low == NULL)
        return false;
      state.place.key[i] = (uint8_t) ((high - all) << 4 | (low - all));
    }
  return true;
}

/* Whether SONDE_RENDEZVOUS names a place, "PATH:KEY" or "@NAME:KEY" of an abstract one. */
static bool
find_rendezvous (void)
{
  const char *text = secure_getenv ("SONDE_RENDEZVOUS");
  const char *key = text != NULL ? strrchr (text, ':') : NULL;

  if (key == NULL || !read_key (key + 1))
    return false;
  state.place.address_bytes
      = sonde_beacon_parse_address (text, (size_t) (key - text), &state.place.address);
  return state.place.address_bytes > 0;
}

/* A filter that was there before us may kill who makes a socket. Source: proc_pid_status(5) */
static void
look_for_filter (void)
{
  char text[4096];
  const char *line;
  ssize_t n;
  int fd = open ("/proc/self/status", O_RDONLY | O_CLOEXEC);

  n = fd >= 0 ? read (fd, text, sizeof text - 1) : -1;
  text[n > 0 ? n : 0] = '\0';
  line = strstr (text, "\nSeccomp:");
  if (line == NULL || strtol (line + strlen ("\nSeccomp:"), NULL, 10) != 0)
    sonde_control_link_confine ();
  if (fd >= 0)
    close (fd);
}

/* Who armed the program knows its filter. */
static bool
says_let_through (void)
{
  const char *text = secure_getenv ("SONDE_SECCOMP");

  return text != NULL && strcmp (text, "1") == 0;
}

void
sonde_control_link_confine (void)
{
  sonde_ring_store_relaxed (&state.is_confined, 1);
}

static void
look_around_once (void)
{
  int saved_errno = errno;

  sonde_beacon_open ();
  state.is_let_through = says_let_through ();
  if (!state.is_let_through
      && (sonde_beacon_is_there () || secure_getenv ("SONDE_RENDEZVOUS") != NULL))
    look_for_filter ();
  errno = saved_errno;
}

/* Before the program could set a filter, or change its root. */
static void __attribute__ ((constructor)) begin (void)
{
  pthread_once (&around_once, look_around_once);
}

static void
init_once (void)
{
  int saved_errno = errno;
  bool is_found = find_control ("SONDE_CONTROL_FD");

  begin ();
  if (!is_found)
    state.is_sysprof = is_found = find_control ("SYSPROF_CONTROL_FD");
  if (!state.is_sysprof)
    is_found = find_rendezvous () || is_found;
  if (is_found || sonde_beacon_is_there ())
    {
      if (sonde_fork_guard_init () < 0
          || pthread_atfork (lock_for_fork, unlock_in_parent, unlock_in_child) != 0)
        sonde_control_link_confine ();
      else if (is_found)
        sonde_ring_store_release (&state.is_there, 1);
    }
  errno = saved_errno;
}

static bool
is_called (SondeProducer producer)
{
  uint64_t call = sonde_beacon_call (producer);

  return call != 0 && call != sonde_ring_load_relaxed (&state.refused_call)
         && sonde_beacon_generation () != sonde_ring_load_relaxed (&state.missed);
}

bool
sonde_control_link_is_there (SondeProducer producer)
{
  pthread_once (&once, init_once);
  return sonde_ring_load_acquire (&state.is_there) != 0
         || sonde_ring_load_relaxed (&state.has_come) != 0
         || (sonde_beacon_is_there () && sonde_ring_load_relaxed (&state.is_confined) == 0
             && is_called (producer));
}

bool
sonde_control_link_may_come (void)
{
  pthread_once (&once, init_once);
  return sonde_beacon_is_there () && sonde_ring_load_relaxed (&state.is_confined) == 0;
}

static int64_t
now_ms (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until something is there to receive, or there is room to send. */
static int
wait_for (int fd, short events, int64_t deadline_ms)
{
  for (;;)
    {
      struct pollfd awaited = { .fd = fd, .events = events };
      int64_t left_ms = deadline_ms - now_ms ();
      int n = left_ms > 0 ? poll (&awaited, 1, (int) left_ms) : 0;

      if (n > 0)
        return 0;
      if (n == 0)
        return -ETIMEDOUT;
      if (errno != EINTR)
        return -errno;
    }
}

/* A message, and the descriptor that came with it or -1. Others that came, too, the kernel closes.
 */
static ssize_t
receive (int fd, void *bytes, size_t size_bytes, int *received_fd)
{
  union
  {
    struct cmsghdr header;
    char space[CMSG_SPACE (sizeof (int))];
  } control;
  struct iovec iov = { bytes, size_bytes };
  struct msghdr message = {
    .msg_iov = &iov,
    .msg_iovlen = 1,
    .msg_control = &control,
    .msg_controllen = CMSG_LEN (sizeof (int)), /* its space would have room for a second one */
  };
  struct cmsghdr *header;
  ssize_t n = recvmsg (fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

  *received_fd = -1;
  if (n < 0)
    return -errno;

  header = CMSG_FIRSTHDR (&message);
  if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS
      && header->cmsg_len == CMSG_LEN (sizeof (int)))
    memcpy (received_fd, CMSG_DATA (header), sizeof *received_fd);

  return n;
}

/* A socket that many share is full at times. */
static int
send_request (int fd, const void *request, size_t request_bytes, int64_t deadline_ms)
{
  int r = 0;

  while (r == 0 && send (fd, request, request_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
    {
      if (errno != EAGAIN && errno != EINTR)
        return -errno;
      r = wait_for (fd, POLLOUT, deadline_ms);
    }
  return r;
}

/* Sends a request and takes one answer of this size. */
static int
ask (int fd,
     const void *request,
     size_t request_bytes,
     void *answer,
     size_t answer_bytes,
     int64_t deadline_ms,
     int *got)
{
  ssize_t n = -EAGAIN;
  int r = request_bytes > 0 ? send_request (fd, request, request_bytes, deadline_ms) : 0;

  if (r < 0)
    return r;

  /* Of a socket that others share, one of them may take what poll() saw. Who closes the other end
   * without having read all of ours is told once, before what he has sent. */
  while (n == -EAGAIN || n == -EINTR || n == -ECONNRESET)
    {
      r = wait_for (fd, POLLIN, deadline_ms);
      if (r < 0)
        return r;
      n = receive (fd, answer, answer_bytes, got);
    }
  if (n == 0)
    return -EPIPE;
  if (n == (ssize_t) answer_bytes)
    return 0;

  if (n > 0 && *got >= 0)
    close (*got);
  return n < 0 ? (int) n : -EBADMSG;
}

/* --- the rendezvous --- */

static int
make_socket (void)
{
  int low = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int fd;

  if (low < 0)
    return -errno;
  fd = fcntl (low, F_DUPFD_CLOEXEC, PREFERRED_FD);
  if (fd < 0)
    fd = fcntl (low, F_DUPFD_CLOEXEC, LOWEST_FD);
  if (fd < 0)
    fd = -errno;
  close (low);
  return fd;
}

/* Whether root listens there, or our own user: the address is free for all when its session is
 * over, and what a program does is told to nobody else. */
static bool
is_trusted (int fd)
{
  struct ucred listener;
  socklen_t size = sizeof listener;

  return getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &listener, &size) == 0
         && (listener.uid == 0 || (listener.uid == geteuid () && listener.uid != OVERFLOW_UID));
}

/* Returns: 0; -EAGAIN it has no place for us now, or has gone and may come back; -ECONNREFUSED,
 * -ENOENT nobody listens; or another negative errno */
static int
join (int fd, const Place *place, int64_t until_ms, int64_t answer_ms)
{
  const struct timespec step = { .tv_nsec = FIRST_PAUSE_MS * 1000000 };
  SondeControlJoin request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_JOIN } };
  SondeControlJoinAnswer answer;
  SondeControlNonce nonce;
  int got = -1;
  int r;

  /* Others may have filled the queue, which costs the profiler nothing. */
  while (connect (fd, (const struct sockaddr *) &place->address, place->address_bytes) < 0)
    {
      if (errno != EAGAIN || now_ms () >= until_ms)
        return -errno;
      nanosleep (&step, NULL);
    }
  if (!is_trusted (fd))
    return -EPERM;
  r = ask (fd, NULL, 0, &nonce, sizeof nonce, until_ms, &got);
  if (r == 0 && nonce.header.type == SONDE_CONTROL_NONCE)
    {
      memcpy (request.nonce, nonce.nonce, sizeof request.nonce);
      memcpy (request.key, place->key, sizeof request.key);
      if (got >= 0)
        close (got);
      r = ask (fd, &request, sizeof request, &answer, sizeof answer, now_ms () + answer_ms, &got);
    }
  else if (r == 0)
    r = -EBADMSG;
  if (got >= 0)
    close (got);
  if (r == 0)
    r = answer.header.type != SONDE_CONTROL_JOIN || answer.error > 0 ? -EBADMSG : answer.error;
  return r == -EPIPE || r == -ECONNRESET ? -EAGAIN : r;
}

/* The kernel is asked for a filter, too: who sets one need not call what we see, nor in our copy of
 * the state. */
static bool
may_make_sockets (void)
{
  return sonde_ring_load_relaxed (&state.is_confined) == 0
         && (state.is_let_through || prctl (PR_GET_SECCOMP, 0, 0, 0, 0) <= 0);
}

static int
try_place (const Place *place, int64_t until_ms, int64_t answer_ms)
{
  int fd = make_socket ();
  int r = fd < 0 ? fd : join (fd, place, until_ms, answer_ms);

  if (r == 0)
    r = sonde_known_socket_init (&state.link, fd);
  if (r < 0 && fd >= 0)
    close (fd);
  return r;
}

/* Each try is another connection, since one that was taken for a stranger's is over. */
static int
open_link_there (void)
{
  int64_t until_ms = now_ms () + SONDE_CONTROL_TIMEOUT_MS;
  long pause_ms = FIRST_PAUSE_MS;
  int r = -EAGAIN;

  if (state.place.address_bytes == 0 || !may_make_sockets ())
    return -EBADF;
  while (r == -EAGAIN && now_ms () < until_ms)
    {
      struct timespec pause = { .tv_nsec = pause_ms * 1000000 };

      r = try_place (&state.place, until_ms, SONDE_CONTROL_TIMEOUT_MS);
      if (r == -EAGAIN)
        nanosleep (&pause, NULL);
      if (pause_ms < LAST_PAUSE_MS)
        pause_ms *= 2;
    }
  return r;
}

/* To whoever calls. A no is not asked again before the call is another one; who is just not heard,
 * or has no descriptor, comes again when the word has grown. */
static int
open_link_to_caller (SondeProducer producer)
{
  uint32_t generation = sonde_beacon_generation ();
  uint64_t call = sonde_beacon_call (producer);
  Place place = { .address_bytes = 0 };
  int r;

  sonde_ring_store_relaxed (&state.has_come, 0);
  if (!is_called (producer))
    return -ENODEV;
  if (!may_make_sockets ())
    {
      sonde_control_link_confine ();
      return -ENODEV;
    }
  place.address_bytes = sonde_beacon_read_address (&place.address);
  r = place.address_bytes > 0 ? try_place (&place, now_ms () + CALLED_MS, CALLED_MS) : -ENOENT;
  if (r == 0)
    {
      state.came_at = generation;
      sonde_ring_store_relaxed (&state.has_come, 1);
    }
  else if (r == -EPERM || r == -ESRCH)
    sonde_ring_store_relaxed (&state.refused_call, call);
  else
    sonde_ring_store_relaxed (&state.missed, generation);
  return r;
}

static int
open_link (SondeProducer producer)
{
  static const SondeControlHeader request
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };
  SondeControlHeader answer;
  int fd = -1;
  int r;

  if (sonde_ring_load_relaxed (&state.is_there) == 0)
    return open_link_to_caller (producer);
  if (!sonde_known_socket_check (&state.control))
    return open_link_there ();
  r = ask (state.control.fd, &request, sizeof request, &answer, sizeof answer,
           now_ms () + SONDE_CONTROL_TIMEOUT_MS, &fd);
  if (r < 0)
    return r;

  if (fd < 0 || memcmp (&answer, &request, sizeof answer) != 0)
    r = -EBADMSG;
  else
    r = sonde_known_socket_init (&state.link, fd);
  if (r < 0 && fd >= 0)
    close (fd);

  return r;
}

/* A descriptor that finds no place in this process is lost, and the profiler does not know. */
static int
check_place (int fd)
{
  int copy = fd >= 0 ? fcntl (fd, F_DUPFD_CLOEXEC, 0) : -1;

  if (copy < 0)
    return fd >= 0 && (errno == EMFILE || errno == ENFILE) ? -errno : 0;
  close (copy);
  return 0;
}

/* @is_asked: (out): over a link, which may have been closed since */
static int
get_native_ring (const SondeRingWish *wish, SondeRingGrant *grant, bool *is_asked)
{
  SondeControlRingAnswer *answer = &grant->answer;
  SondeControlRingRequest request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_RING },
          .producer = wish->producer,
          .tid = wish->is_common ? 0 : gettid (),
          .size_bytes = (uint32_t) wish->size_bytes,
          .number = ++state.n_requests };
  int r = check_place (state.control.fd);

  if (r == 0 && !sonde_known_socket_check (&state.link))
    r = open_link (wish->producer);
  if (r == 0)
    r = check_place (state.link.fd);
  *is_asked = r == 0;
  if (r == 0)
    r = ask (state.link.fd, &request, sizeof request, answer, sizeof *answer,
             now_ms () + SONDE_CONTROL_TIMEOUT_MS, &grant->ring_fd);
  for (unsigned n = 0; r == 0 && answer->number != request.number && n < MAX_STALE_ANSWERS; n++)
    {
      if (grant->ring_fd >= 0)
        close (grant->ring_fd);
      r = ask (state.link.fd, NULL, 0, answer, sizeof *answer, now_ms () + SONDE_CONTROL_TIMEOUT_MS,
               &grant->ring_fd);
    }
  if (r < 0)
    return r;

  grant->link_fd = state.link.fd;
  if (answer->number == request.number && answer->error == 0 && grant->ring_fd >= 0)
    return 0;

  if (grant->ring_fd >= 0)
    close (grant->ring_fd);
  return answer->error < 0 ? answer->error : -EBADMSG;
}

/* Whoever is there has gone, or does not answer: once would cost each thread the same wait. So who
 * has called and did not keep the link is come to again only when the word is another one, as it
 * is behind the end of a session; unless the program has closed the link. */
static void
give_up (void)
{
  if (sonde_ring_load_relaxed (&state.is_there) != 0)
    sonde_ring_store_release (&state.is_there, 0);
  else
    {
      if (sonde_ring_load_relaxed (&state.has_come) != 0
          && state.came_at == sonde_beacon_generation () && sonde_known_socket_check (&state.link))
        sonde_ring_store_relaxed (&state.missed, state.came_at);
      sonde_ring_store_relaxed (&state.has_come, 0);
    }
  state.is_slow = false;
  sonde_known_socket_close (&state.link);
}

/* Returns: -ENODEV nobody is there (any more); else as of sonde_control_link_get_ring() */
static int
ask_for_ring (const SondeRingWish *wish, SondeRingGrant *got)
{
  bool is_asked;
  char answer;
  int r;

  if (!sonde_control_link_is_there (wish->producer))
    return -ENODEV;
  if (sonde_ring_load_relaxed (&state.is_there) == 0 || !state.is_sysprof)
    /* The program may close the link while it is asked on. */
    for (unsigned n = 0;
         (r = get_native_ring (wish, got, &is_asked)) < 0 && is_asked && r != -ETIMEDOUT
         && got->answer.error == 0 && n < MAX_RETRIES && !sonde_known_socket_check (&state.link);
         n++)
      *got = (SondeRingGrant){ .ring_fd = -1, .link_fd = -1 };
  else if (!sonde_known_socket_check (&state.control) || wish->producer == SONDE_PRODUCER_TRACER)
    r = -EBADF; /* others have no region */
  else
    {
      r = ask (state.control.fd, SONDE_CONTROL_SYSPROF_REQUEST, SONDE_CONTROL_SYSPROF_REQUEST_BYTES,
               &answer, sizeof answer, now_ms () + SONDE_CONTROL_TIMEOUT_MS, &got->ring_fd);
      if (r == 0 && got->ring_fd < 0)
        r = -EBADMSG;
    }
  if (r < 0 && got->answer.error == 0 && r != -EMFILE && r != -ENFILE)
    give_up ();
  return r;
}

int
sonde_control_link_get_ring (const SondeRingWish *wish, SondeRingGrant *grant)
{
  SondeRingGrant got = { .ring_fd = -1, .link_fd = -1 };
  int saved_errno = errno;
  int next, r;

  if (!sonde_control_link_is_there (wish->producer))
    return -ENODEV;
  if (is_forking)
    return -EBUSY;

  pthread_mutex_lock (&state.lock);
  r = ask_for_ring (wish, &got);
  /* Behind one that has gone another may call. */
  if (r < 0 && got.answer.error == 0 && r != -EMFILE && r != -ENFILE)
    {
      got = (SondeRingGrant){ .ring_fd = -1, .link_fd = -1 };
      next = ask_for_ring (wish, &got);
      r = next != -ENODEV ? next : r;
    }
  pthread_mutex_unlock (&state.lock);

  if (r == 0)
    *grant = got;
  errno = saved_errno;
  return r;
}

/* Source: poll(2): POLLHUP comes unasked */
static bool
is_link_over (void)
{
  struct pollfd link = { .fd = state.link.fd };

  return !sonde_known_socket_check (&state.link)
         || (poll (&link, 1, 0) > 0 && (link.revents & POLLHUP) != 0);
}

void
sonde_control_link_follow (SondeProducer producer)
{
  pthread_once (&once, init_once);
  if (!sonde_beacon_is_there () || is_forking || sonde_ring_load_relaxed (&state.is_confined) != 0
      || !sonde_fork_guard_is_own_process ())
    return;

  pthread_mutex_lock (&state.lock);
  if (sonde_ring_load_relaxed (&state.is_there) == 0)
    {
      if (sonde_ring_load_relaxed (&state.has_come) != 0 && is_link_over ())
        give_up ();
      if (sonde_ring_load_relaxed (&state.has_come) == 0 && is_called (producer))
        open_link_to_caller (producer);
    }
  pthread_mutex_unlock (&state.lock);
}

/* Answers to requests before this one are passed over, as who asked is gone. */
static int
ask_for_larger (uint32_t number, size_t size_bytes, SondeRingGrant *grant)
{
  const SondeControlGrowRequest request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_GROW },
          .continues = number,
          .size_bytes = (uint32_t) size_bytes,
          .number = ++state.n_requests };
  SondeControlRingAnswer *answer = &grant->answer;
  int64_t deadline_ms = now_ms () + GROW_MS;
  int r = check_place (state.link.fd);

  if (r == 0)
    r = ask (state.link.fd, &request, sizeof request, answer, sizeof *answer, deadline_ms,
             &grant->ring_fd);
  for (unsigned n = 0; r == 0 && answer->number != request.number && n < MAX_STALE_ANSWERS; n++)
    {
      if (grant->ring_fd >= 0)
        close (grant->ring_fd);
      r = ask (state.link.fd, NULL, 0, answer, sizeof *answer, deadline_ms, &grant->ring_fd);
    }
  if (r < 0)
    return r;
  if (answer->number == request.number && answer->error == 0 && grant->ring_fd >= 0)
    return 0;

  if (grant->ring_fd >= 0)
    close (grant->ring_fd);
  return answer->error < 0 ? answer->error : -EBADMSG;
}

int
sonde_control_link_grow_ring (uint32_t number,
                              size_t size_bytes,
                              int *ring_fd,
                              uint32_t *new_number)
{
  SondeRingGrant got = { .ring_fd = -1, .link_fd = -1 };
  int saved_errno = errno;
  int r = -ENODEV;

  if (is_forking || pthread_mutex_trylock (&state.lock) != 0)
    return -EBUSY;
  if ((sonde_ring_load_relaxed (&state.is_there) != 0
           ? !state.is_sysprof
           : sonde_ring_load_relaxed (&state.has_come) != 0)
      && !state.is_slow && sonde_ring_load_relaxed (&state.is_confined) == 0
      && sonde_known_socket_check (&state.link))
    r = ask_for_larger (number, size_bytes, &got);
  state.is_slow = state.is_slow || r == -ETIMEDOUT;
  pthread_mutex_unlock (&state.lock);

  if (r == 0)
    {
      *ring_fd = got.ring_fd;
      *new_number = got.answer.number;
    }
  errno = saved_errno;
  return r;
}
