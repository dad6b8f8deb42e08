/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/sample-filter.h"

#include "client/base/cli.h"
#include "client/base/unit-name.h"

void
sonde_sample_filter_clear (SondeSampleFilter *self)
{
  g_clear_pointer (&self->comm, g_free);
  g_clear_pointer (&self->thread, g_free);
  g_clear_pointer (&self->unit, g_free);
  g_clear_pointer (&self->container, g_free);
}

gboolean
sonde_sample_filter_check (const SondeSampleFilter *self)
{
  if (self->from_s >= 0 && self->to_s > self->from_s)
    return TRUE;
  sonde_cli_complain ("--from and --to are seconds since the capture began, --from the smaller");
  return FALSE;
}

/* Times that the clock cannot show are as good as the first and the last one. */
static gint64
add_seconds (gint64 start_ns, double seconds)
{
  gint64 sum_ns;

  if (seconds >= (double) G_MAXINT64 / 1e9
      || __builtin_add_overflow (start_ns, (gint64) (seconds * 1e9), &sum_ns))
    return G_MAXINT64;
  return sum_ns;
}

void
sonde_sample_filter_range (const SondeSampleFilter *self,
                           gint64 start_ns,
                           gint64 *from_ns,
                           gint64 *to_ns)
{
  *from_ns = self->from_s > 0 ? add_seconds (start_ns, self->from_s) : G_MININT64;
  *to_ns = isfinite (self->to_s) ? add_seconds (start_ns, self->to_s) : G_MAXINT64;
}

static gboolean
is_in_unit (const char *wanted, const char *cgroup)
{
  g_autofree char *unit = sonde_cgroup_dup_unit (cgroup);
  g_autofree char *name = sonde_unit_name_complete (wanted);

  return unit != NULL && g_str_equal (unit, name);
}

static gboolean
is_placed (const SondeSampleFilter *self, const SondeCaptureModel *model, gint32 pid)
{
  const char *cgroup;

  if (self->unit == NULL && self->container == NULL)
    return TRUE;
  cgroup = sonde_capture_model_cgroup (model, pid);
  return cgroup != NULL && (self->unit == NULL || is_in_unit (self->unit, cgroup))
         && (self->container == NULL || sonde_cgroup_is_container (cgroup, self->container));
}

gboolean
sonde_sample_filter_matches (const SondeSampleFilter *self,
                             const SondeCaptureModel *model,
                             const SondeModelProcess *process,
                             gint32 tid)
{
  return (self->pid < 0 || process->pid == self->pid)
         && (self->comm == NULL || g_str_equal (process->comm, self->comm))
         && (self->tid < 0 || tid < 0 || tid == self->tid)
         && (self->thread == NULL || tid < 0
             || g_strcmp0 (sonde_capture_model_thread_name (model, process, tid), self->thread)
                    == 0)
         && is_placed (self, model, process->pid);
}
