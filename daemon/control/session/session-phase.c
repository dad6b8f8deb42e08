/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Where the conversation between a session and its worker stands. */
#include "daemon/control/session/session-phase.h"

#include "daemon/base/message.h"

gboolean
sonde_session_phase_expects (SondeSessionPhase phase, guint32 type)
{
  switch (type)
    {
    case SONDE_MESSAGE_HELLO:
      return phase == SONDE_PHASE_HELLO;
    case SONDE_MESSAGE_RINGS_MAPPED:
      /* Its answer may cross our STOP. */
      return phase == SONDE_PHASE_RINGS || phase == SONDE_PHASE_LIVE || phase == SONDE_PHASE_DRAIN;
    case SONDE_MESSAGE_PROCESS_REQUEST:
    case SONDE_MESSAGE_FILE_REQUEST:
    case SONDE_MESSAGE_COUNTERS_REQUEST:
    case SONDE_MESSAGE_STATISTICS:
    case SONDE_MESSAGE_SINK_CLOSED:
    case SONDE_MESSAGE_SINKS:
    case SONDE_MESSAGE_CONTROLS:
      return phase == SONDE_PHASE_LIVE || phase == SONDE_PHASE_DRAIN
             || phase == SONDE_PHASE_DELIVERY;
    /* One that is adopted says DRAINED again, or has said it to the sonded before. */
    case SONDE_MESSAGE_DRAINED:
    case SONDE_MESSAGE_FINISHED:
      return phase == SONDE_PHASE_DRAIN || phase == SONDE_PHASE_DELIVERY;
    case SONDE_MESSAGE_FAILED:
      return TRUE;
    default:
      return FALSE;
    }
}

const char *
sonde_session_phase_overdue (SondeSessionPhase phase)
{
  static const char *const reasons[SONDE_N_PHASES] = {
    [SONDE_PHASE_HELLO] = "The worker did not say hello in time",
    [SONDE_PHASE_RINGS] = "The worker did not map its rings in time",
    [SONDE_PHASE_SCOPE] = "systemd did not tell in time where the unit is",
    [SONDE_PHASE_LIVE] = "The worker gave no sign of life",
    [SONDE_PHASE_DRAIN] = "The worker did not drain its rings in time",
    [SONDE_PHASE_DELIVERY] = "The readers did not take the rest of the capture in time",
  };

  g_assert (phase < SONDE_N_PHASES && reasons[phase] != NULL);

  return reasons[phase];
}
