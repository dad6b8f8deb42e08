/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/base/quota.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/base/limits.h"
#include "daemon/base/socket.h"
#include "daemon/base/proc-text.h"

guint64
sonde_quota_share (guint64 total, guint64 n_of_others)
{
  guint64 left = total - MIN (total, n_of_others);

  return left > 1 ? left * SONDE_LIMIT_SHARE_PERCENT / 100 : left;
}

/* Descriptors that this process may still open; the look itself takes one. */
static guint64
count_free_fds (void)
{
  struct rlimit limit;
  guint64 n_open = 0;
  DIR *directory = opendir ("/proc/self/fd");

  if (directory == NULL || getrlimit (RLIMIT_NOFILE, &limit) < 0)
    {
      g_clear_pointer (&directory, closedir);
      return 0;
    }
  while (readdir (directory) != NULL)
    n_open++;
  closedir (directory);
  return limit.rlim_cur > n_open ? limit.rlim_cur - n_open : 0;
}

gboolean
sonde_quota_check_fds (uid_t uid, guint64 n_fds, GError **error)
{
  guint64 n_free = count_free_fds ();
  guint64 n_left = n_free - MIN (n_free, SONDE_LIMIT_RESERVED_FDS);

  if (n_fds <= (uid == 0 ? n_left : sonde_quota_share (n_left, 0)))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
               "Limit descriptors: %" G_GUINT64_FORMAT
               " more are %s what the service can still open",
               n_fds, uid == 0 ? "more than" : "more than half of");
  return FALSE;
}

gboolean
sonde_quota_check_message (GError **error)
{
  if (count_free_fds () >= SONDE_LIMIT_RESERVED_FDS / 2)
    return TRUE;
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                       "Limit descriptors: the service cannot take those of the call");
  return FALSE;
}

/* @n_fds copies of @fd go into @socket. */
static gboolean
send_copies (int socket, int fd, guint n_fds)
{
  int fds[SONDE_LIMIT_FLIGHT_MARGIN];

  for (guint i = 0; i < n_fds; i++)
    fds[i] = fd;
  return sonde_send_with_fds (socket, "", 1, fds, n_fds) == 0;
}

/* The kernel looks before it takes a message, not at what is in it: the margin, then one more. */
gboolean
sonde_quota_check_flight (GError **error)
{
  sonde_autofd int fd = open ("/", O_PATH | O_CLOEXEC);
  sonde_autofd int sender = -1;
  sonde_autofd int receiver = -1;
  int ends[2];

  if (sonde_socketpair (SOCK_SEQPACKET, ends, NULL))
    {
      sender = ends[0];
      receiver = ends[1];
      if (send_copies (sender, fd, SONDE_LIMIT_FLIGHT_MARGIN) && send_copies (sender, fd, 1))
        return TRUE;
    }
  g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                       "Limit descriptors: too many of the service's are on their way between "
                       "processes; try again");
  return FALSE;
}

gboolean
sonde_quota_check_rings (uid_t uid, guint n_cpus, GError **error)
{
  guint64 wanted = (guint64) n_cpus * SONDE_LIMIT_RING_BYTES;
  g_autofree char *text = NULL;
  const char *line;
  guint64 kib = 0; /* if the kernel does not say */

  if (uid == 0)
    return TRUE;
  /* Source: proc_meminfo(5) */
  text = sonde_proc_text_read (AT_FDCWD, "/proc/meminfo", SONDE_LIMIT_PROC_TEXT_BYTES);
  line = text != NULL ? strstr (text, "MemAvailable:") : NULL;
  if (line != NULL && sscanf (line, "MemAvailable: %" G_GUINT64_FORMAT " kB", &kib) != 1)
    kib = 0;
  if (wanted <= sonde_quota_share (kib * 1024, 0))
    return TRUE;
  g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
               "Limit perf-rings: the rings of a session are more than half of the memory that is "
               "left");
  return FALSE;
}

gboolean
sonde_quota_check_sessions (
    uid_t uid, guint n_own, guint n_of_others, guint max, guint max_of_machine, GError **error)
{
  if (n_own >= max)
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit %s: at most %u at a time for uid %u",
                   uid == 0 ? "sessions-root" : "sessions", max, (guint) uid);
      return FALSE;
    }
  if (uid != 0 && n_own >= sonde_quota_share (max_of_machine, n_of_others))
    {
      g_set_error (error, SONDE_ERROR, SONDE_ERROR_LIMIT_EXCEEDED,
                   "Limit sessions-machine: at most %u at a time for all users, and half of what "
                   "is left for one",
                   max_of_machine);
      return FALSE;
    }
  return TRUE;
}

/* --- how often --- */

typedef struct
{
  guint n_used;       /* of the burst, not given back yet */
  gint64 refilled_us; /* up to when it was given back */
} Bucket;

struct SondeUidRate
{
  guint burst;
  gint64 interval_us;
  GHashTable *buckets; /* uid → Bucket */
};

SondeUidRate *
sonde_uid_rate_new (guint burst, gint64 interval_us)
{
  SondeUidRate *self = g_new0 (SondeUidRate, 1);

  self->burst = burst;
  self->interval_us = interval_us;
  self->buckets = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return self;
}

void
sonde_uid_rate_free (SondeUidRate *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->buckets);
  g_free (self);
}

/* Gives back what time has earned, and forgets who has used nothing. */
static void
refill (SondeUidRate *self, gint64 now_us)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->buckets);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      Bucket *bucket = value;
      gint64 n_refills = (now_us - bucket->refilled_us) / self->interval_us;

      bucket->n_used -= (guint) MIN ((gint64) bucket->n_used, n_refills);
      bucket->refilled_us += n_refills * self->interval_us;
      if (bucket->n_used == 0)
        g_hash_table_iter_remove (&iter);
    }
}

gboolean
sonde_uid_rate_has_room (SondeUidRate *self, uid_t uid, gint64 now_us)
{
  const Bucket *bucket;

  refill (self, now_us);
  bucket = g_hash_table_lookup (self->buckets, GUINT_TO_POINTER (uid));
  return bucket == NULL || bucket->n_used < self->burst;
}

void
sonde_uid_rate_count (SondeUidRate *self, uid_t uid, gint64 now_us)
{
  Bucket *bucket = g_hash_table_lookup (self->buckets, GUINT_TO_POINTER (uid));

  if (bucket == NULL)
    {
      bucket = g_new0 (Bucket, 1);
      bucket->refilled_us = now_us;
      g_hash_table_insert (self->buckets, GUINT_TO_POINTER (uid), bucket);
    }
  bucket->n_used++;
}
