/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/broker/worker-setup.h"

#include <errno.h>
#include <fcntl.h>

#include "daemon/base/error.h"
#include "daemon/broker/capabilities.h"

static gboolean
send_setup (SondeChannel *front,
            guint64 session_id,
            uid_t owner_uid,
            const SondeAsked *asked,
            const SondePerfPlan *plan,
            GError **error)
{
  /* Without samples its rings hold what tells of processes, in the same shape. */
  const struct perf_event_attr *attr = plan->has_samples ? &plan->samples : &plan->sideband;
  SondeMessageSetup message = {
    .header.type = SONDE_MESSAGE_SETUP,
    .version = SONDE_MESSAGE_VERSION,
    .flags = sonde_perf_plan_flags (plan),
    .session_id = session_id,
    .owner_uid = owner_uid,
    .asked = *asked,
    .sample_type = attr->sample_type,
    .sample_regs_user = attr->sample_regs_user,
    .read_format = attr->read_format,
    .start_realtime_ns = g_get_real_time () * 1000,
    .start_ns = g_get_monotonic_time () * 1000,
  };

  g_strlcpy (message.event, plan->event_name, sizeof message.event);
  g_strlcpy (message.sonde_version, SONDE_VERSION, sizeof message.sonde_version);
  return sonde_channel_send (front, &message, sizeof message, NULL, 0, error);
}

/* A text that cannot be had is not worth a session: captures without it are complete enough. */
static gboolean
send_document (SondeChannel *front, SondeDocumentKind kind, const char *path, GError **error)
{
  SondeMessageDocument message = { .header.type = SONDE_MESSAGE_DOCUMENT, .kind = kind };
  sonde_raised cap_t raised = sonde_capabilities_raise (SONDE_FOR_KERNEL_NAMES);
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  return fd < 0 || sonde_channel_send (front, &message, sizeof message, &fd, 1, error);
}

/* What /proc shows to everybody. Interfaces are those of the machine: ours may have none. Where the
 * first process is hidden from us, without a right to more, it is what we have. */
static const struct
{
  guint counters; /* SONDE_COUNTERS_* */
  SondeCounterKind kind;
  const char *path;
  const char *other_path;
} texts[] = {
  { SONDE_COUNTERS_CPU, SONDE_COUNTER_KIND_CPU, "/proc/stat", NULL },
  { SONDE_COUNTERS_MEMORY, SONDE_COUNTER_KIND_MEMORY, "/proc/meminfo", NULL },
  { SONDE_COUNTERS_NETWORK, SONDE_COUNTER_KIND_NETWORK, "/proc/1/net/dev", "/proc/self/net/dev" },
  { SONDE_COUNTERS_DISK, SONDE_COUNTER_KIND_DISK, "/proc/diskstats", NULL },
};

static gboolean
send_counters (SondeChannel *front, guint counters, GError **error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      SondeMessageCounters message
          = { .header.type = SONDE_MESSAGE_COUNTERS, .kind = texts[i].kind };
      int fd;

      if ((counters & texts[i].counters) == 0)
        continue;
      fd = open (texts[i].path, O_RDONLY | O_CLOEXEC);
      if (fd < 0 && texts[i].other_path != NULL)
        fd = open (texts[i].other_path, O_RDONLY | O_CLOEXEC);
      if (fd < 0)
        {
          g_set_error (error, SONDE_ERROR, SONDE_ERROR_NOT_SUPPORTED,
                       "Option counters: cannot open %s: %s", texts[i].path, g_strerror (errno));
          return FALSE;
        }
      if (!sonde_channel_send (front, &message, sizeof message, &fd, 1, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
sonde_worker_setup_send (SondeChannel *front,
                         guint64 session_id,
                         uid_t owner_uid,
                         const SondeAsked *asked,
                         const SondePerfPlan *plan,
                         GError **error)
{
  /* Else those that the first target sees. */
  gboolean has_mounts = asked->scope != SONDE_SCOPE_TARGETS && asked->scope != SONDE_SCOPE_LAUNCH;

  return send_setup (front, session_id, owner_uid, asked, plan, error)
         && send_document (front, SONDE_DOCUMENT_CPUINFO, "/proc/cpuinfo", error)
         && send_counters (front, asked->counters, error)
         && (!has_mounts || send_document (front, SONDE_DOCUMENT_MOUNTS, "/proc/mounts", error))
         && (!asked->kernel
             || send_document (front, SONDE_DOCUMENT_KALLSYMS, "/proc/kallsyms", error));
}
