/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/request/session-state.h"

#include "daemon/base/limits.h"

static const SondeSessionStateRow rows[SONDE_N_STATES] = {
  [SONDE_STATE_NONE] = { "none", SONDE_STATE_NONE, 0, NULL },
  [SONDE_STATE_CALLING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS, "The broker did not start in time" },
  [SONDE_STATE_PROVING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_PROOF_MS, "The targets were not proven in time" },
  [SONDE_STATE_STARTING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS, "The worker did not say hello in time" },
  [SONDE_STATE_MAPPING] = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS,
                            "The worker did not map its rings in time" },
  [SONDE_STATE_PLACING] = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS,
                            "systemd did not tell in time where the unit is" },
  [SONDE_STATE_OPENING]
  = { "starting", SONDE_STATE_NONE, SONDE_LIMIT_START_MS, "The events were not opened in time" },
  [SONDE_STATE_RUNNING]
  = { "running", SONDE_STATE_RUNNING, SONDE_LIMIT_SILENCE_MS, "The worker gave no sign of life" },
  [SONDE_STATE_PAUSED]
  = { "paused", SONDE_STATE_PAUSED, SONDE_LIMIT_SILENCE_MS, "The worker gave no sign of life" },
  [SONDE_STATE_DRAINING] = { "draining", SONDE_STATE_DRAINING, SONDE_LIMIT_DRAIN_MS,
                             "The worker did not drain its rings in time" },
  [SONDE_STATE_DELIVERING] = { "draining", SONDE_STATE_DRAINING, SONDE_LIMIT_DELIVERY_MS,
                               "The readers did not take the rest of the capture in time" },
  /* It is finished, which is not told before it is gone. Its process is killed if it stays. */
  [SONDE_STATE_LEAVING] = { "draining", SONDE_STATE_FINISHED, SONDE_LIMIT_PEER_EXIT_MS, NULL },
  [SONDE_STATE_FINISHED] = { "finished", SONDE_STATE_FINISHED, 0, NULL },
  [SONDE_STATE_FAILED] = { "failed", SONDE_STATE_FAILED, 0, NULL },
};

static const SondeSessionState next_state[SONDE_N_STATES][SONDE_N_STEPS] = {
  [SONDE_STATE_CALLING]
  = { [SONDE_STEP_CALL] = SONDE_STATE_PROVING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_PROVING]
  = { [SONDE_STEP_PROVE] = SONDE_STATE_STARTING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_STARTING]
  = { [SONDE_STEP_GREET] = SONDE_STATE_MAPPING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_MAPPING]
  = { [SONDE_STEP_MAP] = SONDE_STATE_PLACING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_PLACING]
  = { [SONDE_STEP_OPEN] = SONDE_STATE_OPENING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_OPENING]
  = { [SONDE_STEP_START] = SONDE_STATE_RUNNING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_RUNNING] = { [SONDE_STEP_PAUSE] = SONDE_STATE_PAUSED,
                            [SONDE_STEP_STOP] = SONDE_STATE_DRAINING,
                            [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_PAUSED] = { [SONDE_STEP_RESUME] = SONDE_STATE_RUNNING,
                           [SONDE_STEP_STOP] = SONDE_STATE_DRAINING,
                           [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_DRAINING] = { [SONDE_STEP_DELIVER] = SONDE_STATE_DELIVERING,
                             [SONDE_STEP_LEAVE] = SONDE_STATE_LEAVING,
                             [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_DELIVERING]
  = { [SONDE_STEP_LEAVE] = SONDE_STATE_LEAVING, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
  [SONDE_STATE_LEAVING]
  = { [SONDE_STEP_FINISH] = SONDE_STATE_FINISHED, [SONDE_STEP_FAIL] = SONDE_STATE_FAILED },
};

const SondeSessionStateRow *
sonde_session_state_row (SondeSessionState state)
{
  g_assert (state < SONDE_N_STATES);

  return &rows[state];
}

SondeSessionState
sonde_session_state_next (SondeSessionState state, SondeSessionStep step)
{
  g_assert (state < SONDE_N_STATES && step < SONDE_N_STEPS);

  return next_state[state][step];
}
