/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/counters/machine-counters.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/capture/counters/counter-text.h"

#define N_KINDS SONDE_COUNTER_KIND_PROCESS /* those of machines, and 0 */
/* Room for the lines of SONDE_MACHINE_COUNTERS_MAX_CPUS processors, whose eleven fields rarely have
 * more than 230 characters, or of as many interfaces or disks as we count. */
#define TEXT_BYTES (256u << 10)

/* One processor, interface or disk; or the memory. */
typedef struct
{
  char name[SONDE_COUNTER_TEXT_MAX_NAME];
  guint32 ids[3];
  guint64 last[2]; /* as read: busy and idle ticks, or bytes in and out */
  guint64 sum[2];  /* bytes since it was first seen */
} Device;

typedef struct
{
  int fd;          /* -1: not asked for, or given up */
  GArray *devices; /* Device, nearly in the order of the text */
  guint hint;      /* where the next one of the text probably is */
  gboolean is_full;
} CounterKind;

struct SondeMachineCounters
{
  SondeRecorder *recorder;
  CounterKind kinds[N_KINDS]; /* by SondeCounterKind */
  char *text;
  GArray *ids;    /* guint32, of the current reading */
  GArray *values; /* SondeCounterValue */
  gboolean is_shown;
  gint64 now_ns;
  gint64 last_cpu_ns;
};

SondeMachineCounters *
sonde_machine_counters_new (SondeRecorder *recorder)
{
  SondeMachineCounters *self = g_new0 (SondeMachineCounters, 1);

  self->recorder = recorder;
  self->text = g_malloc (TEXT_BYTES);
  self->ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->values = g_array_new (FALSE, FALSE, sizeof (SondeCounterValue));
  for (guint i = 0; i < N_KINDS; i++)
    {
      self->kinds[i].fd = -1;
      self->kinds[i].devices = g_array_new (FALSE, TRUE, sizeof (Device));
    }

  return self;
}

void
sonde_machine_counters_free (SondeMachineCounters *self)
{
  if (self == NULL)
    return;

  for (guint i = 0; i < N_KINDS; i++)
    {
      sonde_clear_fd (&self->kinds[i].fd);
      g_array_unref (self->kinds[i].devices);
    }
  g_array_unref (self->ids);
  g_array_unref (self->values);
  g_free (self->text);
  g_free (self);
}

void
sonde_machine_counters_add (SondeMachineCounters *self, SondeCounterKind kind, int fd)
{
  g_assert (kind < N_KINDS);

  sonde_clear_fd (&self->kinds[kind].fd);
  self->kinds[kind].fd = fd;
}

/* --- devices --- */

/* NULL: not seen before. */
static Device *
find_device (CounterKind *kind, const char *name)
{
  for (guint i = 0; i < kind->devices->len; i++)
    {
      guint at = (kind->hint + i) % kind->devices->len;
      Device *device = &g_array_index (kind->devices, Device, at);

      if (g_str_equal (device->name, name))
        {
          kind->hint = at + 1;
          return device;
        }
    }

  return NULL;
}

/* What a kind of counters is called; "%s" is the device. */
typedef struct
{
  const char *what;
  guint max_devices;
  const char *category;
  guint8 type;
  guint n_counters;
  const char *names[3];
  const char *descriptions[3];
} Naming;

static const Naming cpu_naming = {
  .what = "processors",
  .max_devices = SONDE_MACHINE_COUNTERS_MAX_CPUS + 1,
  .category = "CPU Percent",
  .type = SONDE_COUNTER_DOUBLE,
  .n_counters = 1,
  .names = { "%s" },
  .descriptions = { "time not idle, %" },
};

static const Naming memory_naming = {
  .what = "memories",
  .max_devices = 1,
  .category = "Memory",
  .type = SONDE_COUNTER_INT64,
  .n_counters = 3,
  .names = { "Used", "Available", "Swap Used" },
  .descriptions = { "bytes: all but what is available", "bytes that programs could have", "bytes" },
};

static const Naming interface_naming = {
  .what = "network interfaces",
  .max_devices = SONDE_MACHINE_COUNTERS_MAX_INTERFACES,
  .category = "Network",
  .type = SONDE_COUNTER_INT64,
  .n_counters = 2,
  .names = { "RX Bytes (%s)", "TX Bytes (%s)" },
  .descriptions = { "received since first seen", "sent since first seen" },
};

static const Naming disk_naming = {
  .what = "disks",
  .max_devices = SONDE_MACHINE_COUNTERS_MAX_DISKS,
  .category = "Disk",
  .type = SONDE_COUNTER_INT64,
  .n_counters = 2,
  .names = { "Read Bytes (%s)", "Written Bytes (%s)" },
  .descriptions = { "read since first seen", "written since first seen" },
};

/* NULL: there are too many. */
static Device *
define_device (SondeMachineCounters *self,
               CounterKind *kind,
               const Naming *naming,
               const char *name)
{
  SondeCounter counters[G_N_ELEMENTS (naming->names)] = { 0 };
  char names[G_N_ELEMENTS (naming->names)][64];
  Device device = { 0 };

  for (guint i = 0; i < naming->n_counters; i++)
    {
      g_auto (GStrv) parts = g_strsplit (naming->names[i], "%s", 2);

      g_snprintf (names[i], sizeof names[i], "%s%s%s", parts[0], parts[1] != NULL ? name : "",
                  parts[1] != NULL ? parts[1] : "");
      counters[i] = (SondeCounter){ .category = naming->category,
                                    .name = names[i],
                                    .description = naming->descriptions[i],
                                    .type = naming->type };
    }
  if (kind->devices->len >= naming->max_devices
      || !sonde_recorder_define_counters (self->recorder, -1, counters, naming->n_counters,
                                          self->now_ns))
    {
      if (!kind->is_full)
        {
          g_autofree char *text = g_strdup_printf (
              "There are more %s than are counted, which are %u", naming->what, kind->devices->len);

          sonde_recorder_warn (self->recorder, text);
        }
      kind->is_full = TRUE;
      return NULL;
    }

  g_strlcpy (device.name, name, sizeof device.name);
  for (guint i = 0; i < naming->n_counters; i++)
    device.ids[i] = counters[i].id;
  g_array_append_val (kind->devices, device);
  kind->hint = kind->devices->len;

  return &g_array_index (kind->devices, Device, kind->devices->len - 1);
}

static void
set (SondeMachineCounters *self, guint32 id, SondeCounterValue value)
{
  if (!self->is_shown)
    return;
  g_array_append_val (self->ids, id);
  g_array_append_val (self->values, value);
}

static void
set_bytes (SondeMachineCounters *self, guint32 id, guint64 bytes)
{
  set (self, id, (SondeCounterValue){ .v64 = (gint64) MIN (bytes, (guint64) G_MAXINT64) });
}

/* --- one text each --- */

static void
read_cpus (SondeMachineCounters *self, CounterKind *kind, SondeCounterText *text)
{
  SondeCpuTimes times;

  if (self->last_cpu_ns != 0 && self->now_ns - self->last_cpu_ns < SONDE_COUNTER_MIN_PERIOD_NS)
    return;
  self->last_cpu_ns = self->now_ns;
  while (sonde_counter_text_next_cpu (text, &times))
    {
      char name[SONDE_COUNTER_TEXT_MAX_NAME];
      gboolean is_new;
      guint64 busy, idle;
      Device *device;

      if (times.cpu < 0)
        g_strlcpy (name, "Combined", sizeof name);
      else
        g_snprintf (name, sizeof name, "Total CPU %d", times.cpu);
      device = find_device (kind, name);
      is_new = device == NULL;
      if (is_new && (device = define_device (self, kind, &cpu_naming, name)) == NULL)
        continue;

      /* The kernel's idle time has been seen to go backwards. */
      busy = times.busy_ticks - MIN (device->last[0], times.busy_ticks);
      idle = times.idle_ticks - MIN (device->last[1], times.idle_ticks);
      device->last[0] = times.busy_ticks;
      device->last[1] = times.idle_ticks;
      if (!is_new && (busy > 0 || idle > 0))
        set (
            self, device->ids[0],
            (SondeCounterValue){ .vdbl = 100.0 * (double) busy / ((double) busy + (double) idle) });
    }
}

static void
read_memory (SondeMachineCounters *self, CounterKind *kind, SondeCounterText *text)
{
  SondeMemoryAmounts amounts;
  Device *device = find_device (kind, "");

  if (!sonde_counter_text_memory (text, &amounts)
      || (device == NULL && (device = define_device (self, kind, &memory_naming, "")) == NULL))
    return;
  set_bytes (self, device->ids[0], amounts.total - MIN (amounts.available, amounts.total));
  set_bytes (self, device->ids[1], amounts.available);
  set_bytes (self, device->ids[2],
             amounts.swap_total - MIN (amounts.swap_free, amounts.swap_total));
}

static void
count_device (SondeMachineCounters *self,
              CounterKind *kind,
              const Naming *naming,
              const SondeDeviceBytes *read)
{
  const guint64 now[] = { read->in_bytes, read->out_bytes };
  Device *device = find_device (kind, read->name);
  gboolean is_new = device == NULL;

  if (is_new && (device = define_device (self, kind, naming, read->name)) == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (now); i++)
    {
      /* Some drivers begin again at 0 when the device is reset, or it is another of that name. */
      guint64 from = now[i] < device->last[i] ? 0 : device->last[i];

      if (!is_new && !g_uint64_checked_add (&device->sum[i], device->sum[i], now[i] - from))
        device->sum[i] = G_MAXUINT64;
      device->last[i] = now[i];
      set_bytes (self, device->ids[i], device->sum[i]);
    }
}

static void
read_interfaces (SondeMachineCounters *self, CounterKind *kind, SondeCounterText *text)
{
  SondeDeviceBytes device;

  while (sonde_counter_text_next_interface (text, &device))
    count_device (self, kind, &interface_naming, &device);
}

/* Places for disks that were never used are no disks. */
static void
read_disks (SondeMachineCounters *self, CounterKind *kind, SondeCounterText *text)
{
  SondeDeviceBytes device;

  while (sonde_counter_text_next_disk (text, &device))
    if (device.in_bytes != 0 || device.out_bytes != 0)
      count_device (self, kind, &disk_naming, &device);
}

void
sonde_machine_counters_read (SondeMachineCounters *self, gboolean is_shown, gint64 now_ns)
{
  static void (*const readers[N_KINDS]) (SondeMachineCounters * self, CounterKind * kind,
                                         SondeCounterText * text)
      = {
          [SONDE_COUNTER_KIND_CPU] = read_cpus,
          [SONDE_COUNTER_KIND_MEMORY] = read_memory,
          [SONDE_COUNTER_KIND_NETWORK] = read_interfaces,
          [SONDE_COUNTER_KIND_DISK] = read_disks,
        };

  self->is_shown = is_shown;
  self->now_ns = now_ns;
  g_array_set_size (self->ids, 0);
  g_array_set_size (self->values, 0);
  for (guint i = 0; i < N_KINDS; i++)
    if (self->kinds[i].fd >= 0)
      {
        SondeCounterText text;
        gsize size_bytes = 0;
        gssize n;

        /* The kernel gives some of these texts a page at a time. */
        while (size_bytes < TEXT_BYTES
               && (n = pread (self->kinds[i].fd, self->text + size_bytes, TEXT_BYTES - size_bytes,
                              (off_t) size_bytes))
                      > 0)
          size_bytes += (gsize) n;
        text = sonde_counter_text (self->text, size_bytes);
        readers[i](self, &self->kinds[i], &text);
      }
  sonde_recorder_set_counters (self->recorder, -1, (const void *) self->ids->data,
                               (const void *) self->values->data, self->ids->len, now_ns);
}
