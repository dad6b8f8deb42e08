/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-client's call trees and frames, by its public header alone. */
#include "client/library/sonde-client.h"
#include "tests/unit/capture-builder.h"

static CaptureBuilder *
make_capture (void)
{
  CaptureBuilder *capture = capture_builder_new ();

  add_process (capture, 5, "prog");
  add_jit_name (capture, JIT (1), "main");
  add_jit_name (capture, JIT (2), "heavy\033");
  add_jit_name (capture, JIT (3), "light");
  for (guint i = 0; i < 9; i++)
    add_sample (capture, 5, JIT (2), JIT (1));
  add_sample (capture, 5, JIT (3), JIT (1));
  return capture;
}

static void
check_call (gpointer call, const char *name, guint64 self, guint64 total)
{
  g_assert_cmpstr (sonde_client_call_get_name (call), ==, name);
  g_assert_cmpstr (sonde_client_call_get_module (call), ==, "");
  g_assert_cmpstr (sonde_client_call_get_source (call), ==, "");
  g_assert_cmpint (sonde_client_call_get_pid (call), ==, 5);
  g_assert_cmpuint (sonde_client_call_get_self (call), ==, self);
  g_assert_cmpuint (sonde_client_call_get_total (call), ==, total);
}

static void
a_file_makes_a_call_tree (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autoptr (SondeClientProfile) profile = sonde_client_profile_new ();
  g_autoptr (GPtrArray) processes = NULL;
  g_autoptr (GPtrArray) outer = NULL;
  g_autoptr (GPtrArray) inner = NULL;
  g_autoptr (GError) error = NULL;
  char *path = write_file (capture, -1);

  g_assert_true (sonde_client_profile_add_file (profile, path, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (sonde_client_profile_get_n_samples (profile), ==, 10);
  sonde_client_profile_finish (profile, SONDE_CLIENT_NAMES_INLINES);

  processes = sonde_client_profile_get_processes (profile);
  g_assert_cmpuint (processes->len, ==, 1);
  check_call (g_ptr_array_index (processes, 0), "prog", 0, 10);
  outer = sonde_client_call_get_callees (g_ptr_array_index (processes, 0));
  g_assert_cmpuint (outer->len, ==, 1);
  check_call (g_ptr_array_index (outer, 0), "main", 0, 10);

  /* a call keeps its profile */
  g_clear_object (&profile);
  inner = sonde_client_call_get_callees (g_ptr_array_index (outer, 0));
  g_assert_cmpuint (inner->len, ==, 2);
  check_call (g_ptr_array_index (inner, 0), "heavy\\x1b", 9, 9);
  check_call (g_ptr_array_index (inner, 1), "light", 1, 1);
  remove_file (path);
}

static void
a_broken_file_is_told_and_kept_so_far (void)
{
  g_autoptr (CaptureBuilder) capture = make_capture ();
  g_autoptr (SondeClientProfile) profile = sonde_client_profile_new ();
  g_autoptr (GError) error = NULL;
  char *path = write_file (capture, (gssize) capture_bytes (capture)->len - 8);

  g_assert_false (sonde_client_profile_add_file (profile, path, &error));
  g_assert_nonnull (error);
  g_assert_cmpuint (sonde_client_profile_get_n_samples (profile), ==, 9);
  remove_file (path);
}

static void
what_is_no_capture_is_refused (void)
{
  g_autoptr (SondeClientProfile) profile = sonde_client_profile_new ();
  g_autoptr (GError) error = NULL;

  g_assert_false (sonde_client_profile_add_file (profile, "/dev/null", &error));
  g_assert_nonnull (error);
}

static void
what_is_no_session_has_no_number (void)
{
  static const char *const names[] = { NULL,
                                       "",
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
    g_assert_cmpuint (sonde_client_session_number (names[i]), ==, 0);
}

static void
a_session_is_named_by_number_or_path (void)
{
  g_assert_cmpuint (sonde_client_session_number ("42"), ==, 42);
  g_assert_cmpuint (sonde_client_session_number ("/org/sonde/Profiler1/session/7"), ==, 7);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/client-library/a-file-makes-a-call-tree", a_file_makes_a_call_tree);
  g_test_add_func ("/client-library/a-broken-file-is-told-and-kept-so-far",
                   a_broken_file_is_told_and_kept_so_far);
  g_test_add_func ("/client-library/what-is-no-capture-is-refused", what_is_no_capture_is_refused);
  g_test_add_func ("/client-library/what-is-no-session-has-no-number",
                   what_is_no_session_has_no_number);
  g_test_add_func ("/client-library/a-session-is-named-by-number-or-path",
                   a_session_is_named_by_number_or_path);
  return g_test_run ();
}
