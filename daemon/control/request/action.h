/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The polkit actions, and which of them a request needs. */
#pragma once

#include "daemon/control/request/options.h"

/* Declared with their defaults in dbus/org.sonde.profiler1.policy.in. */
typedef enum
{
  SONDE_ACTION_PROFILE_OWN,
  SONDE_ACTION_PROFILE_OWN_RESTRICTED,
  SONDE_ACTION_PROFILE_OWN_KERNEL,
  SONDE_ACTION_PROFILE_OTHERS,
  SONDE_ACTION_PROFILE_SYSTEM,
  SONDE_ACTION_RAW_DATA,
  SONDE_ACTION_MANAGE_SESSIONS,
  SONDE_N_ACTIONS,
} SondeAction;

/* "org.sonde.profiler1.profile-own", ... */
const char *sonde_action_id (SondeAction action);

/* What starting a session with @options needs. @paranoid: kernel.perf_event_paranoid */
SondeAction sonde_action_to_start (const SondeOptions *options, gint64 paranoid);
/* What somebody else's session needs: the processes in it are those of another uid. */
SondeAction sonde_action_to_use (const SondeOptions *options);
