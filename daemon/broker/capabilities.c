/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/capabilities.h"

#include <errno.h>

#include "daemon/base/error.h"
#include "daemon/base/proc-text.h"

#define PARANOID_PATH "/proc/sys/kernel/perf_event_paranoid"
#define MAX_NEEDED    3

static const struct
{
  int n_needed;
  cap_value_t needed[MAX_NEEDED];
} purposes[SONDE_N_PURPOSES] = {
  /* SYS_ADMIN where nothing less will do: see init. PTRACE for tasks of others. */
  [SONDE_FOR_EVENTS] = { 3, { CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYS_ADMIN } },
  /* maps and root; map_files; programs in folders that are closed to others */
  [SONDE_FOR_PROCESSES] = { 3, { CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE, CAP_DAC_READ_SEARCH } },
  [SONDE_FOR_TRACEPOINTS] = { 1, { CAP_DAC_READ_SEARCH } },
  [SONDE_FOR_KERNEL_NAMES] = { 1, { CAP_SYSLOG } },
};

static gboolean
is_permitted (cap_t set, cap_value_t capability)
{
  cap_flag_value_t value = CAP_CLEAR;

  return cap_get_flag (set, capability, CAP_PERMITTED, &value) == 0 && value == CAP_SET;
}

/* Kernels that Debian and Ubuntu patch so do not know CAP_PERFMON above 2. */
static gboolean
is_wanted (cap_value_t capability)
{
  return capability != CAP_SYS_ADMIN || sonde_proc_number_read (PARANOID_PATH, 2) >= 3;
}

gboolean
sonde_capabilities_init (GError **error)
{
  cap_t now = cap_get_proc ();
  cap_t kept = cap_init ();
  gboolean is_done = now != NULL && kept != NULL;

  for (guint i = 0; i < SONDE_N_PURPOSES && is_done; i++)
    for (int j = 0; j < purposes[i].n_needed; j++)
      {
        cap_value_t capability = purposes[i].needed[j];

        if (is_permitted (now, capability) && is_wanted (capability))
          cap_set_flag (kept, CAP_PERMITTED, 1, &capability, CAP_SET);
      }
  is_done = is_done && cap_set_proc (kept) == 0;
  if (!is_done)
    sonde_error_set_errno (error, errno, "Cannot give up capabilities");
  cap_free (now);
  cap_free (kept);

  return is_done;
}

cap_t
sonde_capabilities_raise (SondePurpose purpose)
{
  cap_t before = cap_get_proc ();
  cap_t raised = before != NULL ? cap_dup (before) : NULL;
  gboolean is_more = FALSE;

  for (int i = 0; i < purposes[purpose].n_needed && raised != NULL; i++)
    if (is_permitted (raised, purposes[purpose].needed[i]))
      is_more
          |= cap_set_flag (raised, CAP_EFFECTIVE, 1, &purposes[purpose].needed[i], CAP_SET) == 0;
  /* If it fails the call that follows does, with a reason of its own. */
  if (is_more)
    cap_set_proc (raised);
  cap_free (raised);

  return before;
}

void
sonde_capabilities_lower (cap_t *before)
{
  int saved = errno;

  /* What has been in effect once cannot be refused. */
  if (*before != NULL && cap_set_proc (*before) < 0)
    g_error ("Cannot lower capabilities: %s", g_strerror (errno));
  cap_free (*before);
  *before = NULL;
  errno = saved;
}
