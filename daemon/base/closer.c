/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/closer.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/bus-header.h"
#include "daemon/base/limits.h"

/* All threads are stuck if none of them has begun with another descriptor for so long, or if so
 * many wait. */
#define STUCK_US  G_USEC_PER_SEC
#define STUCK_FDS 1024
/* A message whose descriptors were not taken is read by then. */
#define REFUSED_US (10 * G_USEC_PER_SEC)
/* A thread that had nothing to do for so long ends. */
#define IDLE_US (2 * G_USEC_PER_SEC)

/* Of the whole process, as close() is. */
static struct
{
  GMutex lock; /* never held across a close */
  GCond is_there;
  GArray *fds; /* int, the oldest first */
  guint n_threads;
  guint n_idle;
  gint64 progress_us; /* monotonic: when a thread last began with one */
} closer;

static _Thread_local gboolean is_deferring;
/* SondeBusHeader, by its socket: of a message that is read without its descriptors. */
static _Thread_local GHashTable *bare;
static _Thread_local gint64 refused_us; /* monotonic: when the last one began; 0: none did */

static gpointer
close_all (gpointer unused)
{
  g_mutex_lock (&closer.lock);
  for (;;)
    {
      gint64 until_us = g_get_monotonic_time () + IDLE_US;
      int fd;

      closer.n_idle++;
      while (closer.fds->len == 0 && g_cond_wait_until (&closer.is_there, &closer.lock, until_us))
        continue;
      closer.n_idle--;
      if (closer.fds->len == 0)
        break;
      fd = g_array_index (closer.fds, int, 0);
      g_array_remove_index (closer.fds, 0);
      closer.progress_us = g_get_monotonic_time ();
      g_mutex_unlock (&closer.lock);
      syscall (SYS_close, fd);
      g_mutex_lock (&closer.lock);
    }
  closer.n_threads--;
  g_mutex_unlock (&closer.lock);
  return NULL;
}

/* One end of a pair of sockets that we made: nobody else is named as the peer of it. A socket may
 * be the last place of descriptors that wait in it, which go with it; on a stream of ours none is
 * sent. On other sockets one may come until the very end, whatever a look would say before. */
static gboolean
is_own_stream (int fd)
{
  struct ucred peer;
  socklen_t peer_size = sizeof peer;
  int type;
  socklen_t type_size = sizeof type;

  return getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0 && peer.pid == getpid ()
         && peer.uid == geteuid () && getsockopt (fd, SOL_SOCKET, SO_TYPE, &type, &type_size) == 0
         && type == SOCK_STREAM;
}

/* A session has thousands of them. No file has that name: the path of one begins with "/". */
static gboolean
is_perf_event (int fd)
{
  static const char name[] = "anon_inode:[perf_event]";
  char path[32];
  char text[sizeof name];

  g_snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
  return readlink (path, text, sizeof text) == sizeof name - 1
         && memcmp (text, name, sizeof name - 1) == 0;
}

void
sonde_closer_take (int fd)
{
  GThread *thread = NULL;

  if (is_own_stream (fd) || is_perf_event (fd))
    {
      syscall (SYS_close, fd);
      return;
    }
  g_mutex_lock (&closer.lock);
  if (closer.fds == NULL)
    closer.fds = g_array_new (FALSE, FALSE, sizeof (int));
  g_array_append_val (closer.fds, fd);
  if (closer.fds->len > closer.n_idle && closer.n_threads < SONDE_LIMIT_CLOSERS)
    {
      /* One that cannot be had is tried again with the next descriptor. */
      thread = g_thread_try_new ("closer", close_all, NULL, NULL);
      closer.n_threads += thread != NULL;
    }
  g_cond_signal (&closer.is_there);
  g_mutex_unlock (&closer.lock);
  g_clear_pointer (&thread, g_thread_unref);
}

void
sonde_closer_take_list (GUnixFDList **fds)
{
  int *list;
  int n_fds;

  if (*fds == NULL)
    return;
  list = g_unix_fd_list_steal_fds (*fds, &n_fds);
  for (int i = 0; i < n_fds; i++)
    sonde_closer_take (list[i]);
  g_free (list);
  g_clear_object (fds);
}

void
sonde_closer_clear (int *fd)
{
  if (*fd >= 0)
    sonde_closer_take (sonde_steal_fd (fd));
}

guint
sonde_closer_n_waiting (void)
{
  guint n;

  g_mutex_lock (&closer.lock);
  n = closer.fds != NULL ? closer.fds->len : 0;
  g_mutex_unlock (&closer.lock);
  return n;
}

gboolean
sonde_closer_defer (gboolean is_deferred)
{
  gboolean before = is_deferring;

  is_deferring = is_deferred;
  return before;
}

void
sonde_closer_restore (gboolean *was_deferred)
{
  is_deferring = *was_deferred;
}

static gboolean
is_stuck (void)
{
  gboolean is_so;

  g_mutex_lock (&closer.lock);
  is_so
      = closer.n_threads == SONDE_LIMIT_CLOSERS && closer.n_idle == 0
        && (closer.fds->len > STUCK_FDS || g_get_monotonic_time () - closer.progress_us > STUCK_US);
  g_mutex_unlock (&closer.lock);
  return is_so;
}

gboolean
sonde_closer_has_refused (void)
{
  return refused_us > 0 && g_get_monotonic_time () - refused_us < REFUSED_US;
}

static void
begin_bare (int fd)
{
  SondeBusHeader *header = g_new (SondeBusHeader, 1);

  sonde_bus_header_init (header);
  if (bare == NULL)
    bare = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_hash_table_replace (bare, GINT_TO_POINTER (fd), header);
}

static void
take_received (struct msghdr *message)
{
  for (struct cmsghdr *part = CMSG_FIRSTHDR (message); part != NULL;
       part = CMSG_NXTHDR (message, part))
    for (gsize at = 0; part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS
                       && CMSG_LEN (at + sizeof (int)) <= part->cmsg_len;
         at += sizeof (int))
      {
        int fd;

        memcpy (&fd, CMSG_DATA (part) + at, sizeof fd);
        sonde_closer_take (fd);
      }
  message->msg_controllen = 0;
}

static void
end_bare (int fd)
{
  if (bare != NULL)
    g_hash_table_remove (bare, GINT_TO_POINTER (fd));
}

static void
read_bare (int fd, const struct msghdr *message, gsize n_bytes)
{
  SondeBusHeader *header = bare != NULL ? g_hash_table_lookup (bare, GINT_TO_POINTER (fd)) : NULL;
  gboolean goes_on = TRUE;

  if (header == NULL)
    return;
  for (gsize i = 0; i < message->msg_iovlen && n_bytes > 0 && goes_on; i++)
    {
      gsize n_part = MIN (n_bytes, message->msg_iov[i].iov_len);

      goes_on = sonde_bus_header_hide_fds (header, message->msg_iov[i].iov_base, n_part);
      n_bytes -= n_part;
    }
  if (!goes_on)
    end_bare (fd);
}

/* In front of libc's; what is no descriptor fails at once, as sd-bus expects. */
int
close (int fd)
{
  if (!is_deferring || fcntl (fd, F_GETFD) < 0)
    return (int) syscall (SYS_close, fd);
  end_bare (fd);
  sonde_closer_take (fd);
  return 0;
}

/* In front of libc's. Without room for them the kernel lets go of the descriptors of a message,
 * which asks no file system: only a descriptor of a process is flushed. sd-bus never asks for bytes
 * of two messages at once, and the descriptors come with the first byte. */
ssize_t
recvmsg (int fd, struct msghdr *message, int flags)
{
  gboolean drops = is_deferring && is_stuck ();
  ssize_t size;

  if (drops)
    {
      message->msg_control = NULL;
      message->msg_controllen = 0;
    }
  size = syscall (SYS_recvmsg, fd, message, flags);
  if (size <= 0 || !is_deferring)
    return size;
  if ((message->msg_flags & MSG_CTRUNC) != 0)
    {
      /* sd-bus would give up the bus if it were told. Where they were not dropped, a security
       * module kept one from us, or there is no room for it; the others go, too. */
      if (drops)
        refused_us = g_get_monotonic_time ();
      else
        take_received (message);
      message->msg_flags &= ~MSG_CTRUNC;
      begin_bare (fd);
    }
  read_bare (fd, message, (gsize) size);
  return size;
}
