/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The perf events of a session that passes from one sonded to the next. */
#include <sys/ioctl.h>

#include "daemon/base/error.h"
#include "daemon/base/fd.h"
#include "daemon/control/event-set-private.h"

/* The descriptor in @fds of the event that @ring says. */
static gboolean
take_ring (SondeEventSet *self, const SondeRecordRing *ring, GArray *fds)
{
  for (guint i = 0; i < fds->len; i++)
    {
      int *fd = &g_array_index (fds, int, i);
      guint64 id = 0;

      if (*fd < 0 || ioctl (*fd, PERF_EVENT_IOC_ID, &id) < 0 || id != ring->id)
        continue;
      SondeOpenEvent event
          = { .fd = sonde_steal_fd (fd),
              .entry = { .id = id, .cpu = ring->cpu, .tid = -1, .kind = ring->kind } };

      g_array_append_val (self->rings, event);
      return TRUE;
    }
  return FALSE;
}

/* In the order of sonde_event_set_new(). */
static gboolean
take_rings (SondeEventSet *self, const GArray *rings, GArray *fds)
{
  guint n_of_cpu = sonde_event_set_n_kinds (self);

  if (rings->len == 0 || rings->len % n_of_cpu != 0)
    return FALSE;
  for (guint i = 0; i < rings->len; i++)
    {
      const SondeRecordRing *ring = &g_array_index (rings, SondeRecordRing, i);
      SondeEventKind kind
          = i % n_of_cpu == n_of_cpu - 1 ? SONDE_EVENT_SIDEBAND : SONDE_EVENT_SAMPLES;

      if (ring->kind != kind || !take_ring (self, ring, fds))
        return FALSE;
      if (kind == SONDE_EVENT_SIDEBAND)
        sonde_event_set_append_cpu (self, ring->cpu);
    }
  return TRUE;
}

SondeEventSet *
sonde_event_set_new_recorded (
    const SondeOptions *options, const GArray *rings, GArray *fds, guint n_events, GError **error)
{
  g_autoptr (SondeEventSet) self = sonde_event_set_alloc (options);

  self->n_handed_over = n_events;
  if (!take_rings (self, rings, fds))
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The rings of the session are not those of its record");
      return NULL;
    }
  if (!sonde_perf_plan_probe (&self->plan, options, g_array_index (self->cpus, int, 0), error))
    return NULL;
  return g_steal_pointer (&self);
}

void
sonde_event_set_record (const SondeEventSet *self, GArray *rings)
{
  for (guint i = 0; i < self->rings->len; i++)
    {
      const SondeMessageEvent *entry = &g_array_index (self->rings, SondeOpenEvent, i).entry;
      SondeRecordRing ring = { .id = entry->id, .cpu = entry->cpu, .kind = entry->kind };

      g_array_append_val (rings, ring);
    }
}

GArray *
sonde_event_set_ring_fds (const SondeEventSet *self)
{
  GArray *fds = g_array_new (FALSE, FALSE, sizeof (int));

  for (guint i = 0; i < self->rings->len; i++)
    g_array_append_val (fds, g_array_index (self->rings, SondeOpenEvent, i).fd);
  return fds;
}
