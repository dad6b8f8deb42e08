/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The life of a session as one table. */
#include "daemon/control/request/session-state.h"

static const SondeSessionState next_state[SONDE_N_STATES][SONDE_N_STEPS] = {
  [SONDE_STATE_STARTING]
  = { [SONDE_STEP_STARTED] = SONDE_STATE_RUNNING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_RUNNING] = { [SONDE_STEP_PAUSE] = SONDE_STATE_PAUSED,
                            [SONDE_STEP_STOP] = SONDE_STATE_DRAINING,
                            [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_PAUSED] = { [SONDE_STEP_RESUME] = SONDE_STATE_RUNNING,
                           [SONDE_STEP_STOP] = SONDE_STATE_DRAINING,
                           [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_DRAINING]
  = { [SONDE_STEP_FINISH] = SONDE_STATE_FINISHED, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
};

SondeSessionState
sonde_session_state_next (SondeSessionState state, SondeSessionStep step)
{
  g_assert (state < SONDE_N_STATES && step < SONDE_N_STEPS);

  return next_state[state][step];
}

const char *
sonde_session_state_name (SondeSessionState state)
{
  static const char *const names[SONDE_N_STATES] = {
    "none", "starting", "running", "paused", "draining", "finished", "failed",
  };

  g_assert (state < SONDE_N_STATES);

  return names[state];
}
