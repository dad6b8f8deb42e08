/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The rings of all processors: mapped within what the kernel lets us lock, and watched. */
#include "daemon/capture/ring-set.h"

#include <errno.h>
#include <glib-unix.h>
#include <unistd.h>

#include "daemon/base/fd.h"
#include "daemon/base/limits.h"

#define ASSUMED_FREQUENCY_HZ  4000 /* of events with a period */
#define SAMPLE_OVERHEAD_BYTES 1024 /* registers, call chain and header */
#define RINGS_A_SECOND        4    /* 0.25 s in a ring */

typedef struct
{
  int fd; /* of the event that owns it, kept for as long as the session lives */
  SondeEventKind kind;
  guint source; /* 0: its task is gone */
} Ring;

struct SondeRingSet
{
  const SondeRingSetHandler *handler;
  gpointer user_data;
  size_t sample_bytes; /* of each ring, wanted at first */
  size_t sideband_bytes;
  GArray *rings;  /* Ring */
  guint n_mapped; /* of them; the rest came in messages that others follow */
};

size_t
sonde_ring_set_wanted (const SondeMessageSetup *setup)
{
  guint64 frequency_hz = setup->frequency_hz != 0 ? setup->frequency_hz : ASSUMED_FREQUENCY_HZ;
  guint64 stack_bytes = setup->flags & SONDE_SPEC_USER_STACK ? setup->stack_size_bytes : 0;
  guint64 wanted
      = MIN (frequency_hz, 1000000) * (stack_bytes + SAMPLE_OVERHEAD_BYTES) / RINGS_A_SECOND;
  size_t size_bytes = SONDE_RING_MIN_SAMPLE_BYTES;

  /* Nobody knows how often a tracepoint will be hit. */
  if (setup->frequency_hz == 0 && setup->period < SONDE_LIMIT_PERIOD_MIN)
    return SONDE_RING_MAX_SAMPLE_BYTES;
  while (size_bytes < wanted && size_bytes < SONDE_RING_MAX_SAMPLE_BYTES)
    size_bytes *= 2;

  return size_bytes;
}

static void
clear_ring (gpointer data)
{
  Ring *ring = data;

  g_clear_handle_id (&ring->source, g_source_remove);
  sonde_clear_fd (&ring->fd);
}

SondeRingSet *
sonde_ring_set_new (size_t sample_bytes, const SondeRingSetHandler *handler, gpointer user_data)
{
  size_t page_bytes = (size_t) sysconf (_SC_PAGESIZE);
  SondeRingSet *self = g_new0 (SondeRingSet, 1);

  self->handler = handler;
  self->user_data = user_data;
  self->sample_bytes = MAX (sample_bytes, page_bytes);
  self->sideband_bytes = MAX (SONDE_RING_SIDEBAND_BYTES, page_bytes);
  self->rings = g_array_new (FALSE, FALSE, sizeof (Ring));
  g_array_set_clear_func (self->rings, clear_ring);

  return self;
}

void
sonde_ring_set_free (SondeRingSet *self)
{
  if (self == NULL)
    return;

  g_array_unref (self->rings);
  g_free (self);
}

void
sonde_ring_set_unwatch (SondeRingSet *self)
{
  for (guint i = 0; i < self->rings->len; i++)
    g_clear_handle_id (&g_array_index (self->rings, Ring, i).source, g_source_remove);
}

static gboolean
on_filled (gint fd, GIOCondition condition, gpointer user_data)
{
  SondeRingSet *self = user_data;

  self->handler->filled (self->user_data);
  if ((condition & (G_IO_HUP | G_IO_ERR | G_IO_NVAL)) == 0)
    return G_SOURCE_CONTINUE;

  /* Its task is gone: poll would say so for ever. The clock still makes us look at the ring. */
  for (guint i = 0; i < self->rings->len; i++)
    if (g_array_index (self->rings, Ring, i).fd == fd)
      g_array_index (self->rings, Ring, i).source = 0;

  return G_SOURCE_REMOVE;
}

static guint
watch (SondeRingSet *self, int fd)
{
  g_autoptr (GSource) source = g_unix_fd_source_new (fd, G_IO_IN | G_IO_HUP | G_IO_ERR);

  g_source_set_callback (source, G_SOURCE_FUNC (on_filled), self, NULL);
  /* It does not. But GLib takes its descriptor out of the poll for each call otherwise, and wakes
   * itself up twice. */
  g_source_set_can_recurse (source, TRUE);

  return g_source_attach (source, NULL);
}

/* Returns: 0 and as many of @mapped as there are new rings, or a negative errno and none */
static int
map_all (const SondeRingSet *self,
         size_t sample_bytes,
         size_t sideband_bytes,
         SondePerfRing **mapped)
{
  guint n_rings = self->rings->len - self->n_mapped;

  for (guint i = 0; i < n_rings; i++)
    {
      const Ring *ring = &g_array_index (self->rings, Ring, self->n_mapped + i);
      size_t size_bytes = ring->kind == SONDE_EVENT_SAMPLES ? sample_bytes : sideband_bytes;
      int r = sonde_perf_ring_open (ring->fd, size_bytes, &mapped[i]);

      if (r == 0)
        continue;
      while (i > 0)
        sonde_perf_ring_close (mapped[--i]);
      return r;
    }

  return 0;
}

/* The same at ever smaller sizes. */
static int
map_smaller (SondeRingSet *self, SondePerfRing **mapped)
{
  size_t samples = self->sample_bytes;
  size_t sideband = self->sideband_bytes;
  int r;

  while ((r = map_all (self, samples, sideband, mapped)) != 0)
    {
      if ((r != -EPERM && r != -ENOMEM)
          || (samples <= SONDE_RING_MIN_SAMPLE_BYTES && sideband <= SONDE_RING_MIN_SIDEBAND_BYTES))
        return r;
      samples = MAX (samples / 2, SONDE_RING_MIN_SAMPLE_BYTES);
      sideband = MAX (sideband / 2, SONDE_RING_MIN_SIDEBAND_BYTES);
    }
  self->sample_bytes = samples;
  self->sideband_bytes = sideband;

  return 0;
}

static int
map_new (SondeRingSet *self)
{
  guint n_rings = self->rings->len - self->n_mapped;
  g_autofree SondePerfRing **mapped = g_new0 (SondePerfRing *, n_rings);
  int r = map_smaller (self, mapped);

  if (r != 0)
    {
      g_array_set_size (self->rings, self->n_mapped);
      return r;
    }
  for (guint i = 0; i < n_rings; i++)
    {
      Ring *ring = &g_array_index (self->rings, Ring, self->n_mapped++);

      ring->source = watch (self, ring->fd);
      self->handler->mapped (mapped[i], ring->kind, self->user_data);
    }

  return 0;
}

gboolean
sonde_ring_set_take (SondeRingSet *self,
                     const SondeMessageEvents *message,
                     int *fds,
                     SondeMessageRingsMapped *answer)
{
  gboolean is_last = message->n_more == 0;

  for (guint i = 0; i < message->n_events; i++)
    {
      Ring ring = { .fd = sonde_steal_fd (&fds[i]), .kind = message->events[i].kind };

      g_array_append_val (self->rings, ring);
    }
  if (self->rings->len > SONDE_MESSAGE_MAX_RINGS)
    {
      g_array_set_size (self->rings, self->n_mapped);
      answer->status = E2BIG;
      return TRUE;
    }
  if (!is_last)
    return FALSE;
  answer->status = -map_new (self);
  answer->n_rings = self->n_mapped;
  answer->sample_ring_bytes = self->sample_bytes;
  answer->sideband_ring_bytes = self->sideband_bytes;

  return TRUE;
}
