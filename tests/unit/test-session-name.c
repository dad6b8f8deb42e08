/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions as people name them. */
#include "client/service/session-name.h"

static void
test_refuses (void)
{
  static const char *const names[] = { "",
                                       "0",
                                       "-1",
                                       "+1",
                                       "1x",
                                       " 1",
                                       "all",
                                       "18446744073709551616",
                                       "/org/sonde/Profiler1/session/",
                                       "/org/sonde/Profiler1/session/1/2",
                                       "/org/other/1" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_assert_null (sonde_session_name_dup_path (names[i]));
}

static void
test_number (void)
{
  g_autofree char *path = sonde_session_name_dup_path ("42");

  g_assert_cmpstr (path, ==, "/org/sonde/Profiler1/session/42");
}

static void
test_path (void)
{
  g_autofree char *path = sonde_session_name_dup_path ("/org/sonde/Profiler1/session/7");

  g_assert_cmpstr (path, ==, "/org/sonde/Profiler1/session/7");
}

static void
test_short (void)
{
  g_assert_cmpstr (sonde_session_name_short ("/org/sonde/Profiler1/session/7"), ==, "7");
  g_assert_cmpstr (sonde_session_name_short ("/org/other/7"), ==, "/org/other/7");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session-name/refuses-what-is-no-session", test_refuses);
  g_test_add_func ("/session-name/takes-a-number", test_number);
  g_test_add_func ("/session-name/takes-an-object-path", test_path);
  g_test_add_func ("/session-name/is-short-for-people", test_short);
  return g_test_run ();
}
