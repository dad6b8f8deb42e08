/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a worker is told before it starts. */
#include "config.h"

#include "daemon/control/worker-setup.h"

#include <fcntl.h>

#include "daemon/control/capabilities.h"

static gboolean
send_setup (SondeWorker *worker,
            guint64 session_id,
            uid_t owner_uid,
            const SondeOptions *options,
            const SondePerfPlan *plan,
            GError **error)
{
  /* Without samples its rings hold what tells of processes, in the same shape. */
  const struct perf_event_attr *attr = plan->has_samples ? &plan->samples : &plan->sideband;
  SondeMessageSetup message = {
    .header.type = SONDE_MESSAGE_SETUP,
    .version = SONDE_MESSAGE_VERSION,
    .flags = sonde_perf_plan_flags (plan, options),
    .session_id = session_id,
    .owner_uid = owner_uid,
    .unwind = options->unwind,
    .stack_size_bytes = options->stack_size_bytes,
    .max_depth = options->max_depth,
    .frequency_hz = options->frequency_hz,
    .period = options->period,
    .sample_type = attr->sample_type,
    .sample_regs_user = attr->sample_regs_user,
    .read_format = attr->read_format,
    .duration_us = options->duration_us,
    .memory_interval_bytes = options->memory_interval_bytes,
    .memory = options->memory,
    .memory_wait_us = options->memory_wait_us,
    .start_realtime_ns = g_get_real_time () * 1000,
    .start_ns = g_get_monotonic_time () * 1000,
  };

  g_strlcpy (message.event, plan->event_name, sizeof message.event);
  g_strlcpy (message.scope, sonde_scope_name (options->scope), sizeof message.scope);
  g_strlcpy (message.sonde_version, SONDE_VERSION, sizeof message.sonde_version);
  return sonde_worker_send (worker, &message, sizeof message, NULL, 0, error);
}

/* A text that cannot be had is not worth a session: captures without it are complete enough. */
static gboolean
send_document (SondeWorker *worker, SondeDocumentKind kind, const char *path, GError **error)
{
  SondeMessageDocument message = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = kind };
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_KERNEL_NAMES);
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  return fd < 0 || sonde_worker_send (worker, &message, sizeof message, &fd, 1, error);
}

gboolean
sonde_worker_setup_send (SondeWorker *worker,
                         guint64 session_id,
                         uid_t owner_uid,
                         const SondeOptions *options,
                         const SondePerfPlan *plan,
                         GError **error)
{
  if (!send_setup (worker, session_id, owner_uid, options, plan, error)
      || !send_document (worker, SONDE_DOCUMENT_CPUINFO, "/proc/cpuinfo", error))
    return FALSE;
  /* Else those that the first target sees. */
  if (options->scope != SONDE_SCOPE_TARGETS && options->scope != SONDE_SCOPE_LAUNCH
      && !send_document (worker, SONDE_DOCUMENT_MOUNTS, "/proc/mounts", error))
    return FALSE;
  return !options->kernel
         || send_document (worker, SONDE_DOCUMENT_KALLSYMS, "/proc/kallsyms", error);
}
