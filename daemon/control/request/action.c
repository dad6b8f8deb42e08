/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/request/action.h"

const char *
sonde_action_id (SondeAction action)
{
  static const char *const ids[SONDE_N_ACTIONS] = {
    [SONDE_ACTION_PROFILE_OWN] = "org.sonde.profiler1.profile-own",
    [SONDE_ACTION_PROFILE_OWN_RESTRICTED] = "org.sonde.profiler1.profile-own-restricted",
    [SONDE_ACTION_PROFILE_OWN_KERNEL] = "org.sonde.profiler1.profile-own-kernel",
    [SONDE_ACTION_PROFILE_OTHERS] = "org.sonde.profiler1.profile-others",
    [SONDE_ACTION_PROFILE_SYSTEM] = "org.sonde.profiler1.profile-system",
    [SONDE_ACTION_RAW_DATA] = "org.sonde.profiler1.raw-data",
    [SONDE_ACTION_MANAGE_SESSIONS] = "org.sonde.profiler1.manage-sessions",
  };

  g_assert (action < SONDE_N_ACTIONS);

  return ids[action];
}

/* Strongest first: one question is asked for all that a request contains. */
SondeAction
sonde_action_to_use (const SondeOptions *options)
{
  if (options->asked.raw)
    return SONDE_ACTION_RAW_DATA;
  if (options->asked.scope == SONDE_SCOPE_SYSTEM || options->asked.event == SONDE_EVENT_TRACEPOINT)
    return SONDE_ACTION_PROFILE_SYSTEM;
  return SONDE_ACTION_PROFILE_OTHERS;
}

SondeAction
sonde_action_to_start (const SondeOptions *options, gint64 paranoid)
{
  SondeAction for_others = sonde_action_to_use (options);
  gboolean is_own
      = options->asked.scope == SONDE_SCOPE_TARGETS || options->asked.scope == SONDE_SCOPE_LAUNCH;

  if (!is_own || for_others != SONDE_ACTION_PROFILE_OTHERS)
    return for_others;
  if (options->asked.kernel)
    return SONDE_ACTION_PROFILE_OWN_KERNEL;
  /* Debian's 3, Ubuntu's 4, and whatever is stricter: perf is closed to users. */
  return paranoid >= 3 ? SONDE_ACTION_PROFILE_OWN_RESTRICTED : SONDE_ACTION_PROFILE_OWN;
}
