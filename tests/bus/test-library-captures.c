/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stored captures through libsonde-client, with and without waiting for the answer. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "client/library/sonde-client.h"
#include "tests/lib/bus-user.h"

/* A capture of root, who this program is. Returns: (transfer full): its name */
static char *
make_capture (GDBusConnection *bus)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) path = NULL;
  g_autofree char *session = bus_start_session (
      bus, g_variant_new_parsed ("{'launch': <true>, 'label': <'library'>}"), NULL, &error);
  g_autofree char *finished = NULL;

  g_assert_no_error (error);
  path = bus_session_get (bus, session, "CaptureFile", &error);
  g_assert_no_error (error);
  g_variant_unref (bus_stop (bus, session));
  finished = bus_wait_finished (bus, session);
  return g_path_get_basename (g_variant_get_string (path, NULL));
}

static gboolean
has_name (GPtrArray *captures, const char *name)
{
  for (guint i = 0; i < captures->len; i++)
    if (g_str_equal (sonde_client_stored_capture_get_name (g_ptr_array_index (captures, i)), name))
      return TRUE;
  return FALSE;
}

static void
test_errors (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeClientProfiler) profiler
      = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_NOBODY, &error);

  g_assert_no_error (error);
  g_assert_cmpint (sonde_client_profiler_open_capture_sync (profiler, "../x", NULL, &error), ==,
                   -1);
  g_assert_error (error, SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_INVALID_OPTION);
  g_assert_true (g_str_has_prefix (error->message, "Argument name: "));
  g_clear_error (&error);
  g_assert_false (sonde_client_profiler_remove_capture_sync (
      profiler, "label-20260102T030405Z-1.syscap", NULL, &error));
  g_assert_error (error, SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NO_SUCH_SESSION);
  g_assert_cmpstr (error->message, ==, "There is no such capture");
}

static void
test_sync (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autofree char *name = make_capture (bus);
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeClientProfiler) profiler
      = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_NOBODY, &error);
  g_autoptr (GPtrArray) before = sonde_client_profiler_list_captures_sync (profiler, NULL, &error);
  g_autoptr (GPtrArray) after = NULL;
  SondeClientStoredCapture *capture;
  gint64 age_us;
  int fd;

  g_assert_no_error (error);
  g_assert_cmpuint (before->len, ==, 1);
  capture = g_ptr_array_index (before, 0);
  g_assert_cmpstr (sonde_client_stored_capture_get_name (capture), ==, name);
  g_assert_cmpstr (sonde_client_stored_capture_get_label (capture), ==, "library");
  g_assert_cmpuint (sonde_client_stored_capture_get_owner_uid (capture), ==, 0);
  g_assert_cmpuint (sonde_client_stored_capture_get_n_bytes (capture), >, 256);
  age_us = g_get_real_time () - (gint64) sonde_client_stored_capture_get_start_us (capture);
  g_assert_cmpint (age_us, <, G_TIME_SPAN_HOUR);
  fd = sonde_client_profiler_open_capture_sync (profiler, name, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (fcntl (fd, F_GETFL) & O_ACCMODE, ==, O_RDONLY);
  g_assert_cmpint (fcntl (fd, F_GETFD) & FD_CLOEXEC, ==, FD_CLOEXEC);
  close (fd);
  g_assert_true (sonde_client_profiler_remove_capture_sync (profiler, name, NULL, &error));
  after = sonde_client_profiler_list_captures_sync (profiler, NULL, &error);
  g_assert_false (has_name (after, name));
}

static void
take_result (GObject *source, GAsyncResult *result, gpointer user_data)
{
  *(GAsyncResult **) user_data = g_object_ref (result);
}

static gboolean
has_result (gpointer user_data)
{
  return *(GAsyncResult **) user_data != NULL;
}

static void
test_async (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autofree char *name = make_capture (bus);
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeClientProfiler) profiler
      = sonde_client_profiler_new_bus (SONDE_CLIENT_ASK_NOBODY, &error);
  g_autoptr (GAsyncResult) listed = NULL;
  g_autoptr (GAsyncResult) opened = NULL;
  g_autoptr (GAsyncResult) removed = NULL;
  g_autoptr (GAsyncResult) again = NULL;
  g_autoptr (GPtrArray) captures = NULL;
  int fd;

  sonde_client_profiler_list_captures_async (profiler, NULL, take_result, &listed);
  sonde_client_profiler_open_capture_async (profiler, name, NULL, take_result, &opened);
  sonde_client_profiler_remove_capture_async (profiler, name, NULL, take_result, &removed);
  sonde_client_profiler_open_capture_async (profiler, name, NULL, take_result, &again);
  bus_wait (has_result, &again, "the answers");
  captures = sonde_client_profiler_list_captures_finish (profiler, listed, &error);
  g_assert_no_error (error);
  g_assert_true (has_name (captures, name));
  fd = sonde_client_profiler_open_capture_finish (profiler, opened, &error);
  g_assert_no_error (error);
  close (fd);
  g_assert_true (sonde_client_profiler_remove_capture_finish (profiler, removed, &error));
  g_assert_cmpint (sonde_client_profiler_open_capture_finish (profiler, again, &error), ==, -1);
  g_assert_error (error, SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NO_SUCH_SESSION);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/library-captures/errors-have-the-librarys-domain", test_errors);
  g_test_add_func ("/library-captures/are-listed-opened-and-removed", test_sync);
  g_test_add_func ("/library-captures/answers-come-later-too", test_async);
  return g_test_run ();
}
