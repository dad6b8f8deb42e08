/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The perf events of a session that passes from one sonded to the next. */
#include <sys/ioctl.h>

#include "base/fd.h"
#include "daemon/base/error.h"
#include "daemon/broker/event-set-private.h"

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
take_rings (SondeEventSet *self, const SondeBrokerRecord *record, GArray *fds)
{
  const GArray *rings = record->rings;
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

static gboolean
take_pulse (SondeCpuPulse *pulse, const SondeRecordPulse *recorded, GArray *fds)
{
  for (guint i = 0; i < fds->len; i++)
    if (sonde_cpu_pulse_adopt (pulse, recorded->id, recorded->since_ns,
                               &g_array_index (fds, int, i)))
      return TRUE;
  return FALSE;
}

/* Whether events of a processor still count is to be seen by those that were opened together with
 * them. Without one they are taken to. */
static void
take_pulses (SondeEventSet *self, const SondeBrokerRecord *record, GArray *fds)
{
  for (guint i = 0; i < self->cpus->len; i++)
    {
      int cpu = g_array_index (self->cpus, int, i);
      gboolean is_taken = FALSE;

      for (guint j = 0; j < record->pulses->len && !is_taken; j++)
        {
          const SondeRecordPulse *pulse = &g_array_index (record->pulses, SondeRecordPulse, j);

          is_taken = pulse->cpu == cpu
                     && take_pulse (&g_array_index (self->pulses, SondeCpuPulse, i), pulse, fds);
        }
      if (!is_taken)
        sonde_event_set_revive (self, cpu);
    }
}

SondeEventSet *
sonde_event_set_new_recorded (const SondeAsked *asked,
                              const SondeBrokerRecord *record,
                              GArray *fds,
                              GError **error)
{
  g_autoptr (SondeEventSet) self = sonde_event_set_alloc (asked);

  self->n_handed_over = record->n_events;
  if (!take_rings (self, record, fds))
    {
      g_set_error_literal (error, SONDE_ERROR, SONDE_ERROR_FAILED,
                           "The rings of the session are not those of its record");
      return NULL;
    }
  take_pulses (self, record, fds);
  if (!sonde_perf_plan_probe (&self->plan, asked, g_array_index (self->cpus, int, 0), error))
    return NULL;
  return g_steal_pointer (&self);
}

void
sonde_event_set_record (const SondeEventSet *self, SondeBrokerRecord *record)
{
  record->n_events = self->n_handed_over;
  for (guint i = 0; i < self->rings->len; i++)
    {
      const SondeMessageEvent *entry = &g_array_index (self->rings, SondeOpenEvent, i).entry;
      SondeRecordRing ring = { .id = entry->id, .cpu = entry->cpu, .kind = entry->kind };

      g_array_append_val (record->rings, ring);
    }
  for (guint i = 0; i < self->pulses->len; i++)
    {
      const SondeCpuPulse *pulse = &g_array_index (self->pulses, SondeCpuPulse, i);
      SondeRecordPulse entry = { .id = pulse->id,
                                 .cpu = g_array_index (self->cpus, int, i),
                                 .since_ns = pulse->since_ns };

      if (pulse->fd >= 0)
        g_array_append_val (record->pulses, entry);
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

GArray *
sonde_event_set_pulse_fds (const SondeEventSet *self)
{
  GArray *fds = g_array_new (FALSE, FALSE, sizeof (int));

  for (guint i = 0; i < self->pulses->len; i++)
    {
      const SondeCpuPulse *pulse = &g_array_index (self->pulses, SondeCpuPulse, i);

      if (pulse->fd >= 0)
        g_array_append_val (fds, pulse->fd);
    }
  return fds;
}
