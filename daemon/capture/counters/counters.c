/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/counters/counters.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"

#define SECTOR_BYTES 512
#define KIBIBYTE     1024

/* Fields of their lines, from 0, without the name. */
#define CPU_IDLE       3
#define CPU_IOWAIT     4
#define CPU_STEAL      7 /* what follows is in user time already */
#define NET_RECEIVED   0
#define NET_SENT       8
#define DISK_READ      2
#define DISK_WRITTEN   6
#define STAT_USER      11 /* fields 14, 15, 20, 22 and 24 of proc_pid_stat(5), where 3 is the state */
#define STAT_SYSTEM    12
#define STAT_THREADS   17
#define STAT_START     19
#define STAT_RESIDENT  21
#define MAX_FIELDS     22
#define MAX_CPU_NUMBER 8191 /* Linux knows no more */

SondeCounterText
sonde_counter_text (const char *bytes, gsize size_bytes)
{
  const char *last = memrchr (bytes, '\n', size_bytes);

  return (SondeCounterText){ bytes, last != NULL ? last + 1 : bytes };
}

/* FALSE at the end. @line is without its line break. */
static gboolean
next_line (SondeCounterText *self, SondeCounterText *line)
{
  const char *end;

  if (self->at == self->end)
    return FALSE;
  end = memchr (self->at, '\n', (gsize) (self->end - self->at)); /* the text ends with one */
  *line = (SondeCounterText){ self->at, end };
  self->at = end + 1;

  return TRUE;
}

static void
skip_spaces (SondeCounterText *line)
{
  while (line->at < line->end && *line->at == ' ')
    line->at++;
}

static gboolean
take_word (SondeCounterText *line, const char *word)
{
  gsize length = strlen (word);

  if ((gsize) (line->end - line->at) < length || memcmp (line->at, word, length) != 0)
    return FALSE;
  line->at += length;

  return TRUE;
}

/* Digits alone, and at least one. */
static gboolean
take_number (SondeCounterText *line, guint64 *number)
{
  const char *begin = line->at;
  guint64 value = 0;

  for (; line->at < line->end && g_ascii_isdigit (*line->at); line->at++)
    if (!g_uint64_checked_mul (&value, value, 10)
        || !g_uint64_checked_add (&value, value, (guint64) (*line->at - '0')))
      return FALSE;
  *number = value;

  return line->at > begin;
}

/* @n_fields numbers with spaces before each. */
static gboolean
take_numbers (SondeCounterText *line, guint64 *numbers, guint n_fields)
{
  for (guint i = 0; i < n_fields; i++)
    {
      skip_spaces (line);
      if (!take_number (line, &numbers[i])
          || (line->at < line->end && *line->at != ' ')) /* "12x" */
        return FALSE;
    }

  return TRUE;
}

static void
copy_name (const char *begin, const char *end, char name[SONDE_COUNTER_TEXT_MAX_NAME])
{
  gsize length = MIN ((gsize) (end - begin), (gsize) SONDE_COUNTER_TEXT_MAX_NAME - 1);

  memcpy (name, begin, length);
  name[length] = '\0';
}

/* Up to @stop, which is left behind; FALSE if it does not come, or nothing is before it. */
static gboolean
take_name (SondeCounterText *line, char stop, char name[SONDE_COUNTER_TEXT_MAX_NAME])
{
  const char *end = memchr (line->at, stop, (gsize) (line->end - line->at));

  if (end == NULL || end == line->at)
    return FALSE;
  copy_name (line->at, end, name);
  line->at = end + 1;

  return TRUE;
}

/* "cpu  1 2 …", "cpu7 1 2 …". Old kernels had fewer fields than we want; none that we run on. */
gboolean
sonde_counter_text_next_cpu (SondeCounterText *self, SondeCpuTimes *times)
{
  SondeCounterText line;

  while (next_line (self, &line) && take_word (&line, "cpu"))
    {
      gboolean is_one = line.at < line.end && *line.at != ' ';
      guint64 numbers[CPU_STEAL + 1];
      guint64 number = 0;
      guint64 busy = 0;
      gboolean fits;

      if (is_one && (!take_number (&line, &number) || number > MAX_CPU_NUMBER))
        continue;
      fits = take_numbers (&line, numbers, G_N_ELEMENTS (numbers));
      for (guint i = 0; i < G_N_ELEMENTS (numbers) && fits; i++)
        if (i != CPU_IDLE && i != CPU_IOWAIT)
          fits = g_uint64_checked_add (&busy, busy, numbers[i]);
      if (!fits
          || !g_uint64_checked_add (&times->idle_ticks, numbers[CPU_IDLE], numbers[CPU_IOWAIT]))
        continue;
      times->cpu = is_one ? (gint) number : -1;
      times->busy_ticks = busy;
      return TRUE;
    }

  return FALSE;
}

gboolean
sonde_counter_text_memory (SondeCounterText *self, SondeMemoryAmounts *amounts)
{
  const struct
  {
    const char *key;
    guint64 *amount;
  } keys[] = { { "MemTotal:", &amounts->total },
               { "MemAvailable:", &amounts->available },
               { "SwapTotal:", &amounts->swap_total },
               { "SwapFree:", &amounts->swap_free } };
  guint found = 0; /* one bit each */
  SondeCounterText line;

  while (next_line (self, &line))
    for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
      {
        SondeCounterText rest = line;
        guint64 kibibytes;

        if (take_word (&rest, keys[i].key) && take_numbers (&rest, &kibibytes, 1)
            && g_uint64_checked_mul (keys[i].amount, kibibytes, KIBIBYTE))
          found |= 1u << i;
      }

  return found == (1u << G_N_ELEMENTS (keys)) - 1;
}

gboolean
sonde_counter_text_next_interface (SondeCounterText *self, SondeDeviceBytes *device)
{
  SondeCounterText line;

  /* The two lines of headings have no colon. */
  while (next_line (self, &line))
    {
      guint64 numbers[NET_SENT + 1];

      skip_spaces (&line);
      if (!take_name (&line, ':', device->name)
          || !take_numbers (&line, numbers, G_N_ELEMENTS (numbers)))
        continue;
      device->in_bytes = numbers[NET_RECEIVED];
      device->out_bytes = numbers[NET_SENT];
      return TRUE;
    }

  return FALSE;
}

/* "   8       0 sda 1 2 3 …": two numbers before the name. */
gboolean
sonde_counter_text_next_disk (SondeCounterText *self, SondeDeviceBytes *device)
{
  SondeCounterText line;

  while (next_line (self, &line))
    {
      guint64 place[2];
      guint64 numbers[DISK_WRITTEN + 1];

      if (!take_numbers (&line, place, G_N_ELEMENTS (place)))
        continue;
      skip_spaces (&line);
      if (take_name (&line, ' ', device->name)
          && take_numbers (&line, numbers, G_N_ELEMENTS (numbers))
          && g_uint64_checked_mul (&device->in_bytes, numbers[DISK_READ], SECTOR_BYTES)
          && g_uint64_checked_mul (&device->out_bytes, numbers[DISK_WRITTEN], SECTOR_BYTES))
        return TRUE;
    }

  return FALSE;
}

gboolean
sonde_counter_text_process (SondeCounterText *self, SondeProcessAmounts *amounts)
{
  static const guint ours[] = { STAT_USER, STAT_SYSTEM, STAT_THREADS, STAT_START, STAT_RESIDENT };
  guint64 numbers[MAX_FIELDS];
  gsize size_bytes = (gsize) (self->end - self->at);
  const char *open = memchr (self->at, '(', size_bytes);
  const char *close = memrchr (self->at, ')', size_bytes); /* the name may have line breaks */
  SondeCounterText line;

  if (open == NULL || close == NULL || close < open)
    return FALSE;
  line = (SondeCounterText){ close + 1, self->end - 1 }; /* the text ends with a line break */
  for (guint i = 0; i < MAX_FIELDS; i++)
    {
      SondeCounterText field;

      skip_spaces (&line);
      field = line;
      while (line.at < line.end && *line.at != ' ')
        line.at++;
      field.end = line.at;
      if (field.at == field.end)
        return FALSE;
      /* Some fields may be negative; ours are not. */
      if (!take_number (&field, &numbers[i]) || field.at != field.end)
        numbers[i] = G_MAXUINT64;
    }
  for (guint i = 0; i < G_N_ELEMENTS (ours); i++)
    if (numbers[ours[i]] == G_MAXUINT64)
      return FALSE;
  copy_name (open + 1, close, amounts->name);
  amounts->n_threads = numbers[STAT_THREADS];
  amounts->start_ticks = numbers[STAT_START];
  amounts->resident_pages = numbers[STAT_RESIDENT];

  return g_uint64_checked_add (&amounts->run_ticks, numbers[STAT_USER], numbers[STAT_SYSTEM]);
}

/* --- what is counted --- */

#define N_KINDS SONDE_COUNTER_KIND_PROCESS /* those of machines, and 0 */
/* Room for the lines of SONDE_COUNTERS_MAX_CPUS processors, whose eleven fields rarely have
 * more than 230 characters, or of as many interfaces or disks as we count. */
#define MACHINE_BYTES (256u << 10)

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

#define PROCESS_BYTES 2048 /* 52 numbers and a name */

enum
{
  COUNTER_CPU,
  COUNTER_RESIDENT,
  COUNTER_THREADS,
  N_COUNTERS
};

typedef struct
{
  gint32 pid;
  int fd; /* -1: gone, or not for us */
  gboolean is_defined;
  gboolean is_awaited; /* the broker was asked for it */
  gboolean is_stale;   /* and it has executed another program since */
  guint32 ids[N_COUNTERS];
  guint64 start_ticks;
  guint64 last_run_ticks;
  gint64 last_ns; /* 0: never */
} Counted;

struct SondeCounters
{
  SondeRecorder *recorder;
  CounterKind kinds[N_KINDS]; /* of the machine, by SondeCounterKind */
  char *text;                 /* NULL: the machine is not counted */
  GArray *ids;                /* guint32, of the current reading */
  GArray *values;             /* SondeCounterValue */
  gboolean is_shown;
  gint64 now_ns;
  gint64 last_cpu_ns;

  SondeCountersAsk ask;
  gpointer user_data;
  GArray *processes; /* Counted */
  double ticks_per_s;
  guint64 page_bytes;
};

static void
clear_counted (gpointer data)
{
  Counted *process = data;

  sonde_clear_fd (&process->fd);
}

SondeCounters *
sonde_counters_new (SondeRecorder *recorder, SondeCountersAsk ask, gpointer user_data)
{
  SondeCounters *self = g_new0 (SondeCounters, 1);

  G_STATIC_ASSERT (SONDE_COUNTERS_MAX_PROCESSES == SONDE_LIMIT_SESSION_TARGETS);

  self->recorder = recorder;
  self->ids = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->values = g_array_new (FALSE, FALSE, sizeof (SondeCounterValue));
  for (guint i = 0; i < N_KINDS; i++)
    {
      self->kinds[i].fd = -1;
      self->kinds[i].devices = g_array_new (FALSE, TRUE, sizeof (Device));
    }
  self->ask = ask;
  self->user_data = user_data;
  self->processes = g_array_new (FALSE, FALSE, sizeof (Counted));
  g_array_set_clear_func (self->processes, clear_counted);
  self->ticks_per_s = (double) sysconf (_SC_CLK_TCK);
  self->page_bytes = (guint64) sysconf (_SC_PAGESIZE);

  return self;
}

void
sonde_counters_free (SondeCounters *self)
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
  g_array_unref (self->processes);
  g_free (self);
}

/* --- the machine: devices --- */

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
  .max_devices = SONDE_COUNTERS_MAX_CPUS + 1,
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
  .max_devices = SONDE_COUNTERS_MAX_INTERFACES,
  .category = "Network",
  .type = SONDE_COUNTER_INT64,
  .n_counters = 2,
  .names = { "RX Bytes (%s)", "TX Bytes (%s)" },
  .descriptions = { "received since first seen", "sent since first seen" },
};

static const Naming disk_naming = {
  .what = "disks",
  .max_devices = SONDE_COUNTERS_MAX_DISKS,
  .category = "Disk",
  .type = SONDE_COUNTER_INT64,
  .n_counters = 2,
  .names = { "Read Bytes (%s)", "Written Bytes (%s)" },
  .descriptions = { "read since first seen", "written since first seen" },
};

/* NULL: there are too many. */
static Device *
define_device (SondeCounters *self, CounterKind *kind, const Naming *naming, const char *name)
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
set (SondeCounters *self, guint32 id, SondeCounterValue value)
{
  if (!self->is_shown)
    return;
  g_array_append_val (self->ids, id);
  g_array_append_val (self->values, value);
}

static void
set_bytes (SondeCounters *self, guint32 id, guint64 bytes)
{
  set (self, id, (SondeCounterValue){ .v64 = (gint64) MIN (bytes, (guint64) G_MAXINT64) });
}

/* --- the machine: one text each --- */

static void
read_cpus (SondeCounters *self, CounterKind *kind, SondeCounterText *text)
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
read_memory (SondeCounters *self, CounterKind *kind, SondeCounterText *text)
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
count_device (SondeCounters *self,
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
read_interfaces (SondeCounters *self, CounterKind *kind, SondeCounterText *text)
{
  SondeDeviceBytes device;

  while (sonde_counter_text_next_interface (text, &device))
    count_device (self, kind, &interface_naming, &device);
}

/* Places for disks that were never used are no disks. */
static void
read_disks (SondeCounters *self, CounterKind *kind, SondeCounterText *text)
{
  SondeDeviceBytes device;

  while (sonde_counter_text_next_disk (text, &device))
    if (device.in_bytes != 0 || device.out_bytes != 0)
      count_device (self, kind, &disk_naming, &device);
}

static void
read_machine (SondeCounters *self, gboolean is_shown, gint64 now_ns)
{
  static void (*const readers[N_KINDS]) (SondeCounters * self, CounterKind * kind,
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
        while (size_bytes < MACHINE_BYTES
               && (n = pread (self->kinds[i].fd, self->text + size_bytes,
                              MACHINE_BYTES - size_bytes, (off_t) size_bytes))
                      > 0)
          size_bytes += (gsize) n;
        text = sonde_counter_text (self->text, size_bytes);
        readers[i](self, &self->kinds[i], &text);
      }
  sonde_recorder_set_counters (self->recorder, -1, (const void *) self->ids->data,
                               (const void *) self->values->data, self->ids->len, now_ns);
}

static Counted *
find_process (SondeCounters *self, gint32 pid)
{
  for (guint i = 0; i < self->processes->len; i++)
    if (g_array_index (self->processes, Counted, i).pid == pid)
      return &g_array_index (self->processes, Counted, i);

  return NULL;
}

/* --- processes: which --- */

static void
ask_for (SondeCounters *self, Counted *process)
{
  process->is_stale = process->is_awaited;
  if (!process->is_awaited)
    process->is_awaited = self->ask (process->pid, self->user_data);
}

static void
add_process (SondeCounters *self, gint32 pid, int fd)
{
  sonde_autofd int owned = fd;
  Counted *process = find_process (self, pid);
  Counted added = { .pid = pid, .fd = -1 };

  if (process == NULL)
    {
      if (self->processes->len >= SONDE_COUNTERS_MAX_PROCESSES)
        return;
      g_array_append_val (self->processes, added);
      process = &g_array_index (self->processes, Counted, self->processes->len - 1);
    }
  process->is_awaited = FALSE;
  sonde_clear_fd (&process->fd);
  /* What it was opened for is not what it shows now. */
  if (process->is_stale)
    {
      ask_for (self, process);
      return;
    }
  process->fd = sonde_steal_fd (&owned);
}

void
sonde_counters_exec (SondeCounters *self, gint32 pid)
{
  Counted *process = find_process (self, pid);

  if (process == NULL)
    return;
  sonde_clear_fd (&process->fd);
  ask_for (self, process);
}

void
sonde_counters_lost_records (SondeCounters *self)
{
  for (guint i = 0; i < self->processes->len; i++)
    {
      Counted *process = &g_array_index (self->processes, Counted, i);

      if (process->fd < 0 && !process->is_awaited)
        continue;
      sonde_clear_fd (&process->fd);
      ask_for (self, process);
    }
}

/* --- processes: what --- */

/* FALSE: the session has too many counters. */
static gboolean
define_process (SondeCounters *self, Counted *process, const char *name, gint64 now_ns)
{
  static const char *const names[N_COUNTERS] = { "CPU Percent", "Resident", "Threads" };
  static const char *const descriptions[N_COUNTERS]
      = { "of one processor's time, all threads", "bytes of memory", "number of threads" };
  char texts[N_COUNTERS][64];
  SondeCounter counters[N_COUNTERS] = { 0 };

  for (guint i = 0; i < N_COUNTERS; i++)
    {
      g_snprintf (texts[i], sizeof texts[i], "%s (%d %s)", names[i], process->pid, name);
      counters[i].category = "Process";
      counters[i].name = texts[i];
      counters[i].description = descriptions[i];
      counters[i].type = i == COUNTER_CPU ? SONDE_COUNTER_DOUBLE : SONDE_COUNTER_INT64;
    }
  if (!sonde_recorder_define_counters (self->recorder, process->pid, counters, N_COUNTERS, now_ns))
    return FALSE;
  for (guint i = 0; i < N_COUNTERS; i++)
    process->ids[i] = counters[i].id;
  process->is_defined = TRUE;

  return TRUE;
}

static void
read_process (SondeCounters *self, Counted *process, gboolean is_shown, gint64 now_ns)
{
  char bytes[PROCESS_BYTES];
  gssize size_bytes = pread (process->fd, bytes, sizeof bytes, 0);
  SondeCounterText text = sonde_counter_text (bytes, (gsize) MAX (size_bytes, 0));
  SondeProcessAmounts amounts;
  guint32 ids[N_COUNTERS];
  SondeCounterValue values[N_COUNTERS];
  guint64 resident_bytes;
  gboolean is_due;
  guint n = 0;

  if (size_bytes <= 0 || !sonde_counter_text_process (&text, &amounts))
    {
      sonde_clear_fd (&process->fd);
      return;
    }
  if (amounts.start_ticks != process->start_ticks)
    {
      /* The number is another process's now. */
      process->start_ticks = amounts.start_ticks;
      process->is_defined = FALSE;
      process->last_ns = 0;
    }
  if (!process->is_defined && !define_process (self, process, amounts.name, now_ns))
    {
      sonde_clear_fd (&process->fd);
      return;
    }
  is_due = process->last_ns == 0 || now_ns - process->last_ns >= SONDE_COUNTER_MIN_PERIOD_NS;
  if (is_shown && is_due && process->last_ns != 0)
    {
      guint64 last = MIN (process->last_run_ticks, amounts.run_ticks);
      double run_s = (double) (amounts.run_ticks - last) / self->ticks_per_s;

      ids[n] = process->ids[COUNTER_CPU];
      values[n++].vdbl = 100.0 * run_s / ((double) (now_ns - process->last_ns) / 1e9);
    }
  if (is_shown)
    {
      if (!g_uint64_checked_mul (&resident_bytes, amounts.resident_pages, self->page_bytes))
        resident_bytes = G_MAXUINT64;
      ids[n] = process->ids[COUNTER_RESIDENT];
      values[n++].v64 = (gint64) MIN (resident_bytes, (guint64) G_MAXINT64);
      ids[n] = process->ids[COUNTER_THREADS];
      values[n++].v64 = (gint64) MIN (amounts.n_threads, (guint64) G_MAXINT64);
      sonde_recorder_set_counters (self->recorder, process->pid, ids, values, n, now_ns);
    }
  if (is_due)
    {
      process->last_run_ticks = amounts.run_ticks;
      process->last_ns = now_ns;
    }
}

/* --- all --- */

void
sonde_counters_add (SondeCounters *self, SondeCounterKind kind, gint32 pid, int fd)
{
  if (kind == SONDE_COUNTER_KIND_PROCESS)
    {
      add_process (self, pid, fd);
      return;
    }
  g_assert (kind < N_KINDS);
  if (self->text == NULL)
    self->text = g_malloc (MACHINE_BYTES);
  sonde_clear_fd (&self->kinds[kind].fd);
  self->kinds[kind].fd = fd;
}

void
sonde_counters_read (SondeCounters *self, gboolean is_shown, gint64 now_ns)
{
  if (self->text != NULL)
    read_machine (self, is_shown, now_ns);
  for (guint i = 0; i < self->processes->len; i++)
    {
      Counted *process = &g_array_index (self->processes, Counted, i);

      if (process->fd >= 0)
        read_process (self, process, is_shown, now_ns);
    }
}
