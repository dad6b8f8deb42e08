/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which words of a worker a session takes, and when. */
#include "daemon/control/session/session-phase.h"

#include "daemon/base/message.h"

/* The phases in which a message is expected, a bit each. */
static guint
expected_in (guint32 type)
{
  const guint while_heard
      = 1u << SONDE_PHASE_LIVE | 1u << SONDE_PHASE_DRAIN | 1u << SONDE_PHASE_DELIVERY;

  switch (type)
    {
    case SONDE_MESSAGE_HELLO:
      return 1u << SONDE_PHASE_HELLO;
    case SONDE_MESSAGE_RINGS_MAPPED:
      return 1u << SONDE_PHASE_RINGS | 1u << SONDE_PHASE_LIVE | 1u << SONDE_PHASE_DRAIN;
    case SONDE_MESSAGE_DRAINED:
    case SONDE_MESSAGE_FINISHED:
      return 1u << SONDE_PHASE_DRAIN | 1u << SONDE_PHASE_DELIVERY;
    case SONDE_MESSAGE_FAILED:
      return (1u << SONDE_N_PHASES) - 1;
    case SONDE_MESSAGE_PROCESS_REQUEST:
    case SONDE_MESSAGE_FILE_REQUEST:
    case SONDE_MESSAGE_COUNTERS_REQUEST:
    case SONDE_MESSAGE_STATISTICS:
    case SONDE_MESSAGE_SINK_CLOSED:
    case SONDE_MESSAGE_SINKS:
    case SONDE_MESSAGE_CONTROLS:
      return while_heard;
    default:
      return 0;
    }
}

static void
test_whole_table (void)
{
  for (guint phase = 0; phase < SONDE_N_PHASES; phase++)
    for (guint type = 0; type < 256; type++)
      g_assert_cmpint (sonde_session_phase_expects (phase, type), ==,
                       (expected_in (type) & 1u << phase) != 0);
}

static void
test_overdue (void)
{
  const SondeSessionPhase phases[] = { SONDE_PHASE_HELLO, SONDE_PHASE_RINGS, SONDE_PHASE_SCOPE,
                                       SONDE_PHASE_DRAIN, SONDE_PHASE_DELIVERY };

  for (gsize i = 0; i < G_N_ELEMENTS (phases); i++)
    g_assert_true (g_str_has_suffix (sonde_session_phase_overdue (phases[i]), " in time")
                   || g_strrstr (sonde_session_phase_overdue (phases[i]), " in time ") != NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session-phase/hears-the-listed-messages-and-no-other", test_whole_table);
  g_test_add_func ("/session-phase/says-what-did-not-come-in-time", test_overdue);
  return g_test_run ();
}
