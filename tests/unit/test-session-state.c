/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The whole table of a session's life. */
#include "daemon/control/request/session-state.h"

static const struct
{
  SondeSessionState from;
  SondeSessionStep step;
  SondeSessionState to;
} legal[] = {
  { SONDE_STATE_STARTING, SONDE_STEP_STARTED, SONDE_STATE_RUNNING },
  { SONDE_STATE_STARTING, SONDE_STEP_FAIL, SONDE_STATE_FAILED },
  { SONDE_STATE_RUNNING, SONDE_STEP_PAUSE, SONDE_STATE_PAUSED },
  { SONDE_STATE_RUNNING, SONDE_STEP_STOP, SONDE_STATE_DRAINING },
  { SONDE_STATE_RUNNING, SONDE_STEP_FAIL, SONDE_STATE_FAILED },
  { SONDE_STATE_PAUSED, SONDE_STEP_RESUME, SONDE_STATE_RUNNING },
  { SONDE_STATE_PAUSED, SONDE_STEP_STOP, SONDE_STATE_DRAINING },
  { SONDE_STATE_PAUSED, SONDE_STEP_FAIL, SONDE_STATE_FAILED },
  { SONDE_STATE_DRAINING, SONDE_STEP_FINISH, SONDE_STATE_FINISHED },
  { SONDE_STATE_DRAINING, SONDE_STEP_FAIL, SONDE_STATE_FAILED },
};

static SondeSessionState
expected (SondeSessionState from, SondeSessionStep step)
{
  for (gsize i = 0; i < G_N_ELEMENTS (legal); i++)
    if (legal[i].from == from && legal[i].step == step)
      return legal[i].to;
  return SONDE_STATE_NONE;
}

static void
test_whole_table (void)
{
  for (guint state = 0; state < SONDE_N_STATES; state++)
    for (guint step = 0; step < SONDE_N_STEPS; step++)
      g_assert_cmpint (sonde_session_state_next (state, step), ==, expected (state, step));
}

static void
test_ends_are_final (void)
{
  for (guint step = 0; step < SONDE_N_STEPS; step++)
    {
      g_assert_cmpint (sonde_session_state_next (SONDE_STATE_FINISHED, step), ==, SONDE_STATE_NONE);
      g_assert_cmpint (sonde_session_state_next (SONDE_STATE_FAILED, step), ==, SONDE_STATE_NONE);
    }
}

static void
test_names (void)
{
  g_assert_cmpstr (sonde_session_state_name (SONDE_STATE_STARTING), ==, "starting");
  g_assert_cmpstr (sonde_session_state_name (SONDE_STATE_RUNNING), ==, "running");
  g_assert_cmpstr (sonde_session_state_name (SONDE_STATE_PAUSED), ==, "paused");
  g_assert_cmpstr (sonde_session_state_name (SONDE_STATE_DRAINING), ==, "draining");
  g_assert_cmpstr (sonde_session_state_name (SONDE_STATE_FINISHED), ==, "finished");
  g_assert_cmpstr (sonde_session_state_name (SONDE_STATE_FAILED), ==, "failed");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session-state/takes-the-listed-steps-and-no-other", test_whole_table);
  g_test_add_func ("/session-state/never-leaves-an-end", test_ends_are_final);
  g_test_add_func ("/session-state/has-the-names-of-the-bus", test_names);
  return g_test_run ();
}
