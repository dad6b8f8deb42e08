/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/counters/process-counters.h"

#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/capture/counters/counter-text.h"

#define TEXT_BYTES 2048 /* 52 numbers and a name */

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

struct SondeProcessCounters
{
  SondeRecorder *recorder;
  SondeProcessCountersAsk ask;
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

SondeProcessCounters *
sonde_process_counters_new (SondeRecorder *recorder,
                            SondeProcessCountersAsk ask,
                            gpointer user_data)
{
  SondeProcessCounters *self = g_new0 (SondeProcessCounters, 1);

  G_STATIC_ASSERT (SONDE_PROCESS_COUNTERS_MAX == SONDE_LIMIT_SESSION_TARGETS);

  self->recorder = recorder;
  self->ask = ask;
  self->user_data = user_data;
  self->processes = g_array_new (FALSE, FALSE, sizeof (Counted));
  g_array_set_clear_func (self->processes, clear_counted);
  self->ticks_per_s = (double) sysconf (_SC_CLK_TCK);
  self->page_bytes = (guint64) sysconf (_SC_PAGESIZE);

  return self;
}

void
sonde_process_counters_free (SondeProcessCounters *self)
{
  if (self == NULL)
    return;

  g_array_unref (self->processes);
  g_free (self);
}

static Counted *
find (SondeProcessCounters *self, gint32 pid)
{
  for (guint i = 0; i < self->processes->len; i++)
    if (g_array_index (self->processes, Counted, i).pid == pid)
      return &g_array_index (self->processes, Counted, i);

  return NULL;
}

/* --- which --- */

static void
ask_for (SondeProcessCounters *self, Counted *process)
{
  process->is_stale = process->is_awaited;
  if (!process->is_awaited)
    process->is_awaited = self->ask (process->pid, self->user_data);
}

void
sonde_process_counters_add (SondeProcessCounters *self, gint32 pid, int fd)
{
  sonde_autofd int owned = fd;
  Counted *process = find (self, pid);
  Counted added = { .pid = pid, .fd = -1 };

  if (process == NULL)
    {
      if (self->processes->len >= SONDE_PROCESS_COUNTERS_MAX)
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
sonde_process_counters_exec (SondeProcessCounters *self, gint32 pid)
{
  Counted *process = find (self, pid);

  if (process == NULL)
    return;
  sonde_clear_fd (&process->fd);
  ask_for (self, process);
}

void
sonde_process_counters_lost_records (SondeProcessCounters *self)
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

/* --- what --- */

/* FALSE: the session has too many counters. */
static gboolean
define (SondeProcessCounters *self, Counted *process, const char *name, gint64 now_ns)
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
read_process (SondeProcessCounters *self, Counted *process, gboolean is_shown, gint64 now_ns)
{
  char bytes[TEXT_BYTES];
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
  if (!process->is_defined && !define (self, process, amounts.name, now_ns))
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

void
sonde_process_counters_read (SondeProcessCounters *self, gboolean is_shown, gint64 now_ns)
{
  for (guint i = 0; i < self->processes->len; i++)
    {
      Counted *process = &g_array_index (self->processes, Counted, i);

      if (process->fd >= 0)
        read_process (self, process, is_shown, now_ns);
    }
}
