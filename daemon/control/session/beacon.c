/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/session/beacon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "shared-ring/beacon-layout.h"

/* The last one is for all. */
#define N_CALLS (SONDE_BEACON_PLACES + 1)

struct SondeBeaconPage
{
  SondeBeacon *page;
  int fd;                   /* of a private one, which is locked; else -1 */
  guint64 reasons[N_CALLS]; /* of each call, together; 0: nobody is wanted, or it is not known */
};

/* Never anything that could wait, or that is not as large as its readers think: they have it
 * mapped, so that it grows once and never shrinks. */
static gboolean
check_file (int fd, gboolean is_private, GError **error)
{
  struct stat st;
  int result;

  if (fstat (fd, &st) < 0)
    return sonde_error_set_errno (error, errno, "Cannot look at the beacon");
  if (!S_ISREG (st.st_mode))
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED, "The beacon is not a file");
      return FALSE;
    }
  if (is_private && (st.st_uid != geteuid () || (st.st_mode & (S_IWGRP | S_IWOTH)) != 0))
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The beacon is not the user's own");
      return FALSE;
    }
  /* Also its holes: a page that finds no memory is a SIGBUS in whoever looks at it. */
  result = posix_fallocate (fd, 0, SONDE_BEACON_BYTES);
  return result == 0 || sonde_error_set_errno (error, result, "Cannot enlarge the beacon");
}

SondeBeaconPage *
sonde_beacon_page_open (const char *path, const char *address, gboolean is_private, GError **error)
{
  sonde_autofd int fd = open (path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  SondeBeaconPage *self;
  SondeBeacon *page;

  if (fd < 0)
    {
      sonde_error_set_errno (error, errno, "Cannot open the beacon");
      return NULL;
    }
  if (!check_file (fd, is_private, error))
    return NULL;
  if (strlen (address) >= sizeof page->address)
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The address of the rendezvous is too long for the beacon");
      return NULL;
    }
  if (is_private && flock (fd, LOCK_EX | LOCK_NB) < 0)
    {
      sonde_error_set_errno (error, errno, "Another session has the beacon");
      return NULL;
    }
  page = mmap (NULL, SONDE_BEACON_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED)
    {
      sonde_error_set_errno (error, errno, "Cannot map the beacon");
      return NULL;
    }
  self = g_new0 (SondeBeaconPage, 1);
  self->page = page;
  self->fd = is_private ? sonde_steal_fd (&fd) : -1;
  memset (page->address, 0, sizeof page->address);
  memcpy (page->address, address, strlen (address));
  page->version = SONDE_BEACON_VERSION;
  page->magic = SONDE_BEACON_MAGIC;
  return self;
}

void
sonde_beacon_page_free (SondeBeaconPage *self)
{
  if (self == NULL)
    return;
  munmap (self->page, SONDE_BEACON_BYTES);
  sonde_clear_fd (&self->fd);
  g_free (self);
}

/* 0 is of a page that nobody has written. */
static guint32
next_generation (const SondeBeaconPage *self)
{
  guint32 next = sonde_ring_load_relaxed (&self->page->generation) + 1;

  return next != 0 ? next : 1;
}

/* Wakes all who sleep, of whatever user: that is the kernel's work, and takes no one's time here
 * but theirs. */
static void
publish (SondeBeaconPage *self, guint32 generation)
{
  /* Pairs with the acquires of readers: the calls come first. */
  sonde_ring_store_release (&self->page->generation, generation);
  syscall (SYS_futex, &self->page->generation, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Spreads the bits of a number, so that sums of some tell them apart. Source: splitmix64 */
static guint64
mix (guint64 number)
{
  number = (number ^ number >> 30) * G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9);
  number = (number ^ number >> 27) * G_GUINT64_CONSTANT (0x94D049BB133111EB);
  return (number ^ number >> 31) | 1;
}

gboolean
sonde_beacon_page_set (SondeBeaconPage *self, const SondeBeaconWish *wishes, gsize n_wishes)
{
  guint64 reasons[N_CALLS] = { 0 };
  guint32 producers[N_CALLS] = { 0 };
  guint32 generation = next_generation (self);
  gboolean has_changed = FALSE;

  for (gsize i = 0; i < n_wishes; i++)
    {
      gsize place = wishes[i].is_all ? SONDE_BEACON_PLACES : sonde_beacon_place (wishes[i].uid);

      reasons[place] += mix (wishes[i].reason);
      producers[place] |= wishes[i].producers;
    }
  for (gsize i = 0; i < N_CALLS; i++)
    {
      guint64 *call = i < SONDE_BEACON_PLACES ? &self->page->places[i] : &self->page->all;

      if (reasons[i] == self->reasons[i]
          && producers[i] == (guint32) sonde_ring_load_relaxed (call))
        continue;
      sonde_ring_store_relaxed (call, sonde_beacon_make_call (generation, producers[i]));
      self->reasons[i] = reasons[i];
      has_changed = TRUE;
    }
  if (has_changed)
    publish (self, generation);
  return has_changed;
}

void
sonde_beacon_page_repeat (SondeBeaconPage *self)
{
  publish (self, next_generation (self));
}
