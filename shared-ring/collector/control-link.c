/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "shared-ring/collector/control-link.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shared-ring/known-socket.h"
#include "shared-ring/ring-atomic.h"

/* Answers to requests that timed out may stand before ours. */
#define MAX_STALE_ANSWERS 16

/* The links of the process, as its environment is; under the lock, but for is_there. */
static struct
{
  pthread_mutex_t lock;
  SondeKnownSocket control; /* shared with our ancestors and descendants */
  SondeKnownSocket link;    /* ours alone */
  uint32_t is_there;
  uint32_t n_requests;
  bool is_sysprof; /* only the protocol of libsysprof-capture */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .control = { .fd = -1 }, .link = { .fd = -1 } };

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Other handlers of fork() in the thread that forks may want a ring while it has the lock. */
static _Thread_local bool is_forking;

static void
lock_for_fork (void)
{
  pthread_mutex_lock (&state.lock);
  is_forking = true;
}

static void
unlock_in_parent (void)
{
  is_forking = false;
  pthread_mutex_unlock (&state.lock);
}

/* The link stays the parent's: the profiler shall see when the parent is gone. */
static void
unlock_in_child (void)
{
  int saved_errno = errno;

  sonde_known_socket_close (&state.link);
  is_forking = false;
  pthread_mutex_unlock (&state.lock);
  errno = saved_errno;
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
         && sonde_known_socket_init (&state.control, (int) fd) == 0;
}

static void
init_once (void)
{
  int saved_errno = errno;
  bool is_found = find_control ("SONDE_CONTROL_FD");

  if (!is_found)
    state.is_sysprof = is_found = find_control ("SYSPROF_CONTROL_FD");
  if (is_found && pthread_atfork (lock_for_fork, unlock_in_parent, unlock_in_child) == 0)
    sonde_ring_store_release (&state.is_there, 1);
  errno = saved_errno;
}

bool
sonde_control_link_is_there (void)
{
  pthread_once (&once, init_once);
  return sonde_ring_load_acquire (&state.is_there) != 0;
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

/* A message, and the descriptor that came with it or -1. Others that came, too, are closed. */
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
    .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control
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
ask (int fd, const void *request, size_t request_bytes, void *answer, size_t answer_bytes, int *got)
{
  int64_t deadline_ms = now_ms () + SONDE_CONTROL_TIMEOUT_MS;
  ssize_t n = -EAGAIN;
  int r = request_bytes > 0 ? send_request (fd, request, request_bytes, deadline_ms) : 0;

  if (r < 0)
    return r;

  /* Of a socket that others share, one of them may take what poll() saw. */
  while (n == -EAGAIN || n == -EINTR)
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

static int
open_link (void)
{
  static const SondeControlHeader request
      = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_LINK };
  SondeControlHeader answer;
  int fd = -1;
  int r;

  if (!sonde_known_socket_check (&state.control))
    return -EBADF;
  r = ask (state.control.fd, &request, sizeof request, &answer, sizeof answer, &fd);
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

static int
get_native_ring (const SondeRingWish *wish, SondeRingGrant *grant)
{
  SondeControlRingAnswer *answer = &grant->answer;
  SondeControlRingRequest request
      = { .header = { SONDE_CONTROL_MAGIC, SONDE_CONTROL_VERSION, SONDE_CONTROL_RING },
          .producer = wish->producer,
          .tid = wish->is_common ? 0 : gettid (),
          .size_bytes = (uint32_t) wish->size_bytes,
          .number = ++state.n_requests };
  int r = sonde_known_socket_check (&state.link) ? 0 : open_link ();

  if (r == 0)
    r = ask (state.link.fd, &request, sizeof request, answer, sizeof *answer, &grant->ring_fd);
  for (unsigned n = 0; r == 0 && answer->number != request.number && n < MAX_STALE_ANSWERS; n++)
    {
      if (grant->ring_fd >= 0)
        close (grant->ring_fd);
      r = ask (state.link.fd, NULL, 0, answer, sizeof *answer, &grant->ring_fd);
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

int
sonde_control_link_get_ring (const SondeRingWish *wish, SondeRingGrant *grant)
{
  SondeRingGrant got = { .ring_fd = -1, .link_fd = -1 };
  int saved_errno = errno;
  char answer;
  int r;

  if (!sonde_control_link_is_there ())
    return -ENODEV;
  if (is_forking)
    return -EBUSY;

  pthread_mutex_lock (&state.lock);
  if (sonde_ring_load_relaxed (&state.is_there) == 0)
    r = -ENODEV;
  else if (!state.is_sysprof)
    r = get_native_ring (wish, &got);
  else if (!sonde_known_socket_check (&state.control))
    r = -EBADF;
  else
    {
      r = ask (state.control.fd, SONDE_CONTROL_SYSPROF_REQUEST, SONDE_CONTROL_SYSPROF_REQUEST_BYTES,
               &answer, sizeof answer, &got.ring_fd);
      if (r == 0 && got.ring_fd < 0)
        r = -EBADMSG;
    }
  /* Who does not answer once would cost each thread the same wait. */
  if (r < 0 && got.answer.error == 0)
    sonde_ring_store_release (&state.is_there, 0);
  pthread_mutex_unlock (&state.lock);

  if (r == 0)
    *grant = got;
  errno = saved_errno;
  return r;
}
