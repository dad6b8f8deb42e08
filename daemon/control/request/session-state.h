/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The life of a session as one table. */
#pragma once

#include <glib.h>

typedef enum
{
  SONDE_STATE_NONE = 0, /* no state: the step is refused */
  SONDE_STATE_STARTING,
  SONDE_STATE_RUNNING,
  SONDE_STATE_PAUSED,
  SONDE_STATE_DRAINING, /* the events are off, the streams get what is left */
  SONDE_STATE_FINISHED,
  SONDE_STATE_FAILED,
  SONDE_N_STATES,
} SondeSessionState;

typedef enum
{
  SONDE_STEP_STARTED, /* the events are on */
  SONDE_STEP_PAUSE,
  SONDE_STEP_RESUME,
  SONDE_STEP_STOP,
  SONDE_STEP_FINISH, /* the worker is done and gone */
  SONDE_STEP_FAIL,
  SONDE_N_STEPS,
} SondeSessionStep;

/* SONDE_STATE_NONE when @step is not possible in @state. */
SondeSessionState sonde_session_state_next (SondeSessionState state, SondeSessionStep step);

/* "starting", "running", ...: the property State. */
const char *sonde_session_state_name (SondeSessionState state);
