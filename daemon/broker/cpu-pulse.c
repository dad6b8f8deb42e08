/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/cpu-pulse.h"

#include <unistd.h>

#include "base/fd.h"
#include "daemon/broker/perf-event.h"

SondeCpuPulse
sonde_cpu_pulse_open (const struct perf_event_attr *attr, int cpu)
{
  int fd = sonde_perf_event_open (attr, -1, cpu);

  return (SondeCpuPulse){ .fd = fd < 0 ? -1 : fd, .since_ns = g_get_monotonic_time () * 1000 };
}

static gboolean
read_clock (SondeCpuPulse *self)
{
  guint64 values[2]; /* count, time enabled */

  if (self->fd < 0 || read (self->fd, values, sizeof values) != sizeof values)
    return FALSE;
  self->enabled_ns = values[1];
  return TRUE;
}

void
sonde_cpu_pulse_close (SondeCpuPulse *self)
{
  sonde_clear_fd (&self->fd);
}

gboolean
sonde_cpu_pulse_is_beating (SondeCpuPulse *self)
{
  guint64 before_ns = self->enabled_ns;

  return !read_clock (self) || self->enabled_ns > before_ns;
}

gint64
sonde_cpu_pulse_until_ns (SondeCpuPulse *self)
{
  return read_clock (self) ? self->since_ns + (gint64) self->enabled_ns : 0;
}
