/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A session's life, by the steps that it takes. */
#include "daemon/control/request/session-record.h"

static const char *
name_of (SondeSessionState state)
{
  return sonde_session_state_row (state)->name;
}

static void
test_life (void)
{
  static const struct
  {
    SondeSessionStep step;
    const char *name;
  } life[] = {
    { SONDE_STEP_CALL, "starting" },  { SONDE_STEP_PROVE, "starting" },
    { SONDE_STEP_GREET, "starting" }, { SONDE_STEP_MAP, "starting" },
    { SONDE_STEP_OPEN, "starting" },  { SONDE_STEP_START, "running" },
    { SONDE_STEP_PAUSE, "paused" },   { SONDE_STEP_RESUME, "running" },
    { SONDE_STEP_STOP, "draining" },  { SONDE_STEP_DELIVER, "draining" },
    { SONDE_STEP_LEAVE, "draining" }, { SONDE_STEP_FINISH, "finished" },
  };
  SondeSessionState state = SONDE_STATE_CALLING;

  g_assert_cmpstr (name_of (state), ==, "starting");
  for (gsize i = 0; i < G_N_ELEMENTS (life); i++)
    {
      g_assert_false (sonde_session_state_is_in (state, SONDE_STATES_OVER));
      g_assert_cmpint (sonde_session_state_next (state, SONDE_STEP_FAIL), ==, SONDE_STATE_FAILED);
      state = sonde_session_state_next (state, life[i].step);
      g_assert_cmpstr (name_of (state), ==, life[i].name);
    }
  g_assert_true (sonde_session_state_is_in (state, SONDE_STATES_OVER));
}

/* No step is taken twice but that a reader's rest follows, and what is over stays so. */
static void
test_refusals (void)
{
  for (guint step = 0; step < SONDE_N_STEPS; step++)
    {
      g_assert_cmpint (sonde_session_state_next (SONDE_STATE_FINISHED, step), ==, SONDE_STATE_NONE);
      g_assert_cmpint (sonde_session_state_next (SONDE_STATE_FAILED, step), ==, SONDE_STATE_NONE);
      for (guint state = 0; state < SONDE_N_STATES; state++)
        {
          SondeSessionState next = sonde_session_state_next (state, step);

          if (next != SONDE_STATE_NONE)
            g_assert_cmpint (sonde_session_state_next (next, step), ==, SONDE_STATE_NONE);
        }
    }
  g_assert_cmpint (sonde_session_state_next (SONDE_STATE_STARTING, SONDE_STEP_START), ==,
                   SONDE_STATE_NONE);
  g_assert_cmpint (sonde_session_state_next (SONDE_STATE_PAUSED, SONDE_STEP_STOP), ==,
                   SONDE_STATE_DRAINING);
  g_assert_cmpint (sonde_session_state_next (SONDE_STATE_DRAINING, SONDE_STEP_LEAVE), ==,
                   SONDE_STATE_LEAVING);
}

/* The next sonded is told a state that it can begin in, and that one of itself. */
static void
test_records (void)
{
  for (guint state = SONDE_STATE_STARTING; state < SONDE_N_STATES; state++)
    {
      SondeSessionState record = sonde_session_state_row (state)->record;

      g_assert_cmpint (sonde_session_state_is_in (state, SONDE_STATES_STARTING), ==,
                       record == SONDE_STATE_NONE);
      g_assert_cmpint (sonde_session_state_row (record)->record, ==, record);
      g_assert_cmpint (record, <=, SONDE_STATE_FAILED); /* numbers of the first version */
    }
  g_assert_cmpint (sonde_session_state_row (SONDE_STATE_LEAVING)->record, ==, SONDE_STATE_FINISHED);
}

static void
test_deadlines (void)
{
  for (guint state = SONDE_STATE_STARTING; state < SONDE_N_STATES; state++)
    {
      const SondeSessionStateRow *row = sonde_session_state_row (state);

      g_assert_cmpint (sonde_session_state_is_in (state, SONDE_STATES_OVER), ==,
                       row->deadline_ms == 0);
      g_assert_cmpint (sonde_session_state_is_in (state, SONDE_STATES_DEAF), ==,
                       row->overdue == NULL);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session-state/leads-from-start-to-end", test_life);
  g_test_add_func ("/session-state/takes-no-other-step", test_refusals);
  g_test_add_func ("/session-state/is-told-to-the-next-sonded", test_records);
  g_test_add_func ("/session-state/has-a-deadline-until-it-is-over", test_deadlines);
  return g_test_run ();
}
