/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/cpu-follower.h"

#include <fcntl.h>

#include "daemon/base/limits.h"
#include "daemon/base/proc-text.h"

#define LOOK_S 1

typedef struct
{
  int number;
  gboolean is_on;
  gint64 seen_ns; /* the last look at which it was on */
} Cpu;

struct SondeCpuFollower
{
  char *path;
  const SondeCpuFollowerHandler *handler;
  gpointer user_data;
  GArray *cpus; /* Cpu */
  guint timer;
};

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

static gboolean
on_time (gpointer user_data)
{
  sonde_cpu_follower_look (user_data);
  return G_SOURCE_CONTINUE;
}

SondeCpuFollower *
sonde_cpu_follower_new (const char *path,
                        const GArray *cpus,
                        const SondeCpuFollowerHandler *handler,
                        gpointer user_data)
{
  SondeCpuFollower *self = g_new0 (SondeCpuFollower, 1);
  gint64 now = now_ns ();

  self->path = g_strdup (path);
  self->handler = handler;
  self->user_data = user_data;
  self->cpus = g_array_new (FALSE, FALSE, sizeof (Cpu));
  for (guint i = 0; i < cpus->len; i++)
    {
      Cpu cpu = { .number = g_array_index (cpus, int, i), .is_on = TRUE, .seen_ns = now };

      g_array_append_val (self->cpus, cpu);
    }
  self->timer = g_timeout_add_seconds (LOOK_S, on_time, self);
  return self;
}

void
sonde_cpu_follower_free (SondeCpuFollower *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->timer, g_source_remove);
  g_array_unref (self->cpus);
  g_free (self->path);
  g_free (self);
}

static gboolean
contains (const GArray *online, int number)
{
  for (guint i = 0; i < online->len; i++)
    if (g_array_index (online, int, i) == number)
      return TRUE;
  return FALSE;
}

static Cpu *
find_or_add (SondeCpuFollower *self, int number)
{
  Cpu unknown = { .number = number };

  for (guint i = 0; i < self->cpus->len; i++)
    if (g_array_index (self->cpus, Cpu, i).number == number)
      return &g_array_index (self->cpus, Cpu, i);
  g_array_append_val (self->cpus, unknown);
  return &g_array_index (self->cpus, Cpu, self->cpus->len - 1);
}

void
sonde_cpu_follower_look (SondeCpuFollower *self)
{
  g_autofree char *text = sonde_proc_text_read (AT_FDCWD, self->path, SONDE_LIMIT_PROC_TEXT_BYTES);
  g_autoptr (GArray) online = text != NULL ? sonde_cpu_list_parse (text) : NULL;
  gint64 now = now_ns ();

  if (online == NULL)
    return;
  for (guint i = 0; i < self->cpus->len; i++)
    if (!contains (online, g_array_index (self->cpus, Cpu, i).number))
      g_array_index (self->cpus, Cpu, i).is_on = FALSE;
  for (guint i = 0; i < online->len; i++)
    {
      Cpu *cpu = find_or_add (self, g_array_index (online, int, i));

      cpu->is_on = (cpu->is_on && self->handler->is_counting (cpu->number, self->user_data))
                   || self->handler->came (cpu->number, cpu->seen_ns, self->user_data);
      if (cpu->is_on)
        cpu->seen_ns = now;
    }
}
