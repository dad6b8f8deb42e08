/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an owner does with sessions: list, look, pause, read along. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"

static GVariant *
get_manager_property (GDBusConnection *bus, const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_sync (
      bus, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.freedesktop.DBus.Properties", "Get",
      g_variant_new ("(ss)", "org.sonde.Profiler1.Manager", name), G_VARIANT_TYPE ("(v)"),
      G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL, &error);
  GVariant *value = NULL;

  g_assert_no_error (error);
  g_variant_get (answer, "(v)", &value);
  return value;
}

static void
test_manager_properties (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GVariant) features = NULL;
  g_autoptr (GVariant) limits = NULL;
  g_autofree const char **words = NULL;
  guint32 n_sessions = 0;

  bus_user_init (&user, BUS_CHILD_WAIT);
  features = get_manager_property (user.bus, "Features");
  words = g_variant_get_strv (features, NULL);
  g_assert_true (g_strv_contains (words, "start-session"));
  g_assert_true (g_strv_contains (words, "pause"));
  g_assert_true (g_strv_contains (words, "collectors"));
  limits = get_manager_property (user.bus, "Limits");
  g_assert_true (g_variant_lookup (limits, "sessions", "u", &n_sessions));
  g_assert_cmpuint (n_sessions, ==, 4);
}

static void
test_properties (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GVariant) owner = NULL;
  g_autoptr (GVariant) start = NULL;
  g_autoptr (GVariant) description = NULL;
  g_autoptr (GVariant) options = NULL;
  g_autoptr (GVariant) file = NULL;
  g_autoptr (GVariant) pids = NULL;
  gint64 before_us = g_get_real_time ();
  guint32 frequency_hz = 0;
  guint32 pid = 0;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_profile_pid (user.bus, user.target, g_variant_new_parsed ("{'label': <'look'>}"), &session,
                   &capture);
  owner = bus_session_get (user.bus, session, "Owner", NULL);
  g_assert_cmpuint (g_variant_get_uint32 (owner), ==, user.uid);
  start = bus_session_get (user.bus, session, "StartTime", NULL);
  g_assert_cmpint ((gint64) g_variant_get_uint64 (start), >=, before_us);
  g_assert_cmpint ((gint64) g_variant_get_uint64 (start), <=, g_get_real_time ());
  description = bus_session_get (user.bus, session, "Description", NULL);
  g_assert_true (g_str_has_prefix (g_variant_get_string (description, NULL), "look: process "));
  file = bus_session_get (user.bus, session, "CaptureFile", NULL);
  g_assert_cmpstr (g_variant_get_string (file, NULL), ==, "");
  options = bus_session_get (user.bus, session, "Options", NULL);
  pids = g_variant_lookup_value (options, "targets", G_VARIANT_TYPE ("au"));
  g_assert_cmpuint (g_variant_n_children (pids), ==, 1);
  g_variant_get_child (pids, 0, "u", &pid);
  g_assert_cmpuint (pid, ==, user.target);
  g_assert_true (g_variant_lookup (options, "frequency", "u", &frequency_hz));
  g_assert_cmpuint (frequency_hz, ==, 1000);
  g_assert_false (g_variant_lookup (options, "period", "t", NULL));
  close (capture);
}

static void
test_list (void)
{
  g_auto (BusUser) one = { 0 };
  g_auto (BusUser) other = { 0 };
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autofree char *sessions[2] = { NULL };
  g_autofree char *of_one = NULL;
  g_autofree char *of_other = NULL;
  g_autofree char *of_root = NULL;
  g_autoptr (GVariant) list = NULL;
  const char *state;
  guint32 uid;
  int captures[2];

  bus_user_init (&one, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_WAIT);
  bus_profile_pid (one.bus, one.target, NULL, &sessions[0], &captures[0]);
  bus_profile_pid (other.bus, other.target, NULL, &sessions[1], &captures[1]);
  of_one = bus_list_paths (one.bus);
  g_assert_cmpstr (of_one, ==, sessions[0]);
  of_other = bus_list_paths (other.bus);
  g_assert_cmpstr (of_other, ==, sessions[1]);
  of_root = bus_list_paths (root);
  g_assert_nonnull (strstr (of_root, sessions[0]));
  g_assert_nonnull (strstr (of_root, sessions[1]));
  list = bus_list_sessions (one.bus);
  g_variant_get_child (list, 0, "(ou&sts)", NULL, &uid, &state, NULL, NULL);
  g_assert_cmpuint (uid, ==, one.uid);
  g_assert_cmpstr (state, ==, "running");
  for (guint i = 0; i < 2; i++)
    {
      close (captures[i]);
      g_free (g_steal_pointer (&sessions[i]));
    }
}

/* A step that is refused with the state's name. */
static void
assert_invalid_state (GDBusConnection *bus,
                      const char *session,
                      const char *method,
                      const char *state)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (bus_session_call (bus, session, method, NULL, NULL, &error));
  bus_assert_error (error, "InvalidState");
  g_assert_nonnull (strstr (error->message, state));
}

static void
step (GDBusConnection *bus, const char *session, const char *method)
{
  g_autoptr (GError) error = NULL;
  GVariant *answer = bus_session_call (bus, session, method, NULL, NULL, &error);

  g_assert_no_error (error);
  g_variant_unref (answer);
}

/* The changes of the property State, as they are signalled. */
static void
take_state (GDBusConnection *bus,
            const char *sender,
            const char *path,
            const char *interface,
            const char *signal,
            GVariant *arguments,
            gpointer user_data)
{
  GString *states = user_data;
  g_autoptr (GVariant) changed = g_variant_get_child_value (arguments, 1);
  const char *state;

  if (g_variant_lookup (changed, "State", "&s", &state))
    g_string_append_printf (states, "%s ", state);
}

static guint
watch_states (GDBusConnection *bus, const char *session, GString *states)
{
  return g_dbus_connection_signal_subscribe (
      bus, "org.sonde.Profiler1", "org.freedesktop.DBus.Properties", "PropertiesChanged", session,
      NULL, G_DBUS_SIGNAL_FLAGS_NONE, take_state, states, NULL);
}

static gboolean
is_finished (gpointer user_data)
{
  const GString *states = user_data;

  return g_str_has_suffix (states->str, "finished ");
}

static void
test_pause (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GString) states = g_string_new (NULL);
  CaptureSummary summary;
  int capture = -1;
  guint watch;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  watch = watch_states (user.bus, session, states);
  bus_wait_samples (user.bus, session, 0);
  assert_invalid_state (user.bus, session, "Resume", "running");
  step (user.bus, session, "Pause");
  bus_assert_state (user.bus, session, "paused");
  assert_invalid_state (user.bus, session, "Pause", "paused");
  step (user.bus, session, "Resume");
  bus_assert_state (user.bus, session, "running");
  bus_wait_samples (user.bus, session, bus_count (user.bus, session, "recorded"));
  step (user.bus, session, "Pause");
  g_variant_unref (bus_stop (user.bus, session));
  capture_summary_read (&summary, capture, user.target);
  capture_summary_assert_whole (&summary);
  bus_wait (is_finished, states, "the last change of state");
  g_assert_cmpstr (states->str, ==, "paused running paused draining finished ");
  g_dbus_connection_signal_unsubscribe (user.bus, watch);
}

/* Of the same user, but neither owner nor reader: hears nothing. */
static void
test_second_reader (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GDBusConnection) reader = NULL;
  g_autoptr (GDBusConnection) stranger = NULL;
  g_autoptr (GString) to_reader = g_string_new (NULL);
  g_autoptr (GString) to_stranger = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  CaptureSummary summary;
  guint watches[2];
  int captures[2];

  bus_user_init (&user, BUS_CHILD_SPIN);
  reader = bus_connect (user.uid);
  stranger = bus_connect (user.uid);
  bus_profile_pid (user.bus, user.target, NULL, &session, &captures[0]);
  captures[1] = bus_open_capture (reader, session, NULL, &error);
  g_assert_no_error (error);
  watches[0] = watch_states (reader, session, to_reader);
  watches[1] = watch_states (stranger, session, to_stranger);
  bus_wait_samples (stranger, session, 0);
  g_variant_unref (bus_stop (stranger, session));
  for (guint i = 0; i < 2; i++)
    {
      capture_summary_read (&summary, captures[i], user.target);
      g_assert_cmpint (summary.status, ==, 0);
      g_assert_true (summary.is_closed);
    }
  bus_wait (is_finished, to_reader, "the reader's last change of state");
  g_assert_cmpstr (to_reader->str, ==, "draining finished ");
  /* What the bus delivered to it came before this answer. */
  g_free (bus_list_paths (stranger));
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpstr (to_stranger->str, ==, "");
  g_dbus_connection_signal_unsubscribe (reader, watches[0]);
  g_dbus_connection_signal_unsubscribe (stranger, watches[1]);
}

static guint64
get_number (GVariant *statistics, const char *key)
{
  guint64 number = 0;

  g_assert_true (g_variant_lookup (statistics, key, "t", &number));
  return number;
}

static void
test_cost (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GVariant) before = NULL;
  g_autoptr (GVariant) after = NULL;
  g_autoptr (GVariant) service = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  bus_wait_samples (user.bus, session, 0);
  before = bus_session_get (user.bus, session, "Statistics", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (get_number (before, "worker-cpu-us"), >, 0);
  g_assert_cmpuint (get_number (before, "worker-memory-bytes"), >, 1 << 20);
  g_assert_cmpuint (get_number (before, "worker-memory-bytes"), <, G_GUINT64_CONSTANT (1) << 30);
  bus_wait_count (user.bus, session, "worker-cpu-us", get_number (before, "worker-cpu-us"));
  after = bus_stop (user.bus, session);
  g_assert_cmpuint (get_number (after, "worker-cpu-us"), >, get_number (before, "worker-cpu-us"));
  g_assert_cmpuint (get_number (after, "worker-memory-bytes"), >, 1 << 20);
  close (capture);

  service = get_manager_property (user.bus, "Statistics");
  g_assert_cmpuint (get_number (service, "daemon-cpu-us"), >, 0);
  g_assert_cmpuint (get_number (service, "daemon-uptime-us"), >, 0);
  g_assert_cmpuint (get_number (service, "daemon-memory-bytes"), >, 1 << 20);
}

static void
take_answer (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);

  g_assert_no_error (error);
  g_assert_nonnull (answer);
  (*(guint *) user_data)++;
}

static gboolean
are_two (gpointer user_data)
{
  return *(const guint *) user_data == 2;
}

static void
assert_gone (GDBusConnection *bus, const char *session, const char *expected)
{
  g_autoptr (GError) error = NULL;

  g_assert_null (bus_session_call (bus, session, "Stop", NULL, NULL, &error));
  bus_assert_error (error, expected);
  g_clear_error (&error);
  g_assert_null (bus_session_get (bus, session, "State", &error));
  bus_assert_error (error, expected);
}

/* The owner may know that his session is gone, and nobody else that there was one. */
static void
test_second_stop (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (BusUser) other = { 0 };
  g_autoptr (GDBusConnection) twin = NULL;
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autofree char *session = NULL;
  g_autofree char *finished = NULL;
  guint n_answers = 0;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_user_init (&other, BUS_CHILD_WAIT);
  twin = bus_connect (user.uid);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  for (guint i = 0; i < 2; i++)
    g_dbus_connection_call (user.bus, "org.sonde.Profiler1", session, "org.sonde.Profiler1.Session",
                            "Stop", NULL, NULL, G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, NULL,
                            take_answer, &n_answers);
  bus_wait (are_two, &n_answers, "both answers");
  close (capture);
  finished = bus_wait_finished (user.bus, session);
  assert_gone (user.bus, session, "NoSuchSession");
  assert_gone (twin, session, "NoSuchSession");
  assert_gone (root, session, "NoSuchSession");
  assert_gone (other.bus, session, "NotAuthorized");
  assert_gone (user.bus, "/org/sonde/Profiler1/session/987654", "NotAuthorized");
}

static void
test_bad_stream_options (void)
{
  static const char *const texts[] = {
    "{'colour': <'red'>}",         "{'pids': <@au []>}",       "{'frames': <['everything']>}",
    "{'buffer-size': <uint32 1>}", "{'buffer-size': <'big'>}",
  };
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_cmpint (
          bus_open_capture (user.bus, session, g_variant_new_parsed (texts[i]), &error), ==, -1);
      bus_assert_error (error, "InvalidOption");
    }
  close (capture);
}

/* A process with so many threads beside its first one, all asleep. */
static GSubprocess *
spawn_threads (guint n_threads, guint32 *pid)
{
  g_autofree char *script = g_strdup_printf (
      "import threading, signal\n"
      "threading.stack_size(65536)\n"
      "for n in range(%u): threading.Thread(target=signal.pause, daemon=True).start()\n"
      "print('ready', flush=True)\n"
      "signal.pause()\n",
      n_threads);
  g_autoptr (GError) error = NULL;
  GSubprocess *process = g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error,
                                           "/usr/bin/python3", "-c", script, NULL);
  char ready[6];

  g_assert_no_error (error);
  g_assert_true (g_input_stream_read_all (g_subprocess_get_stdout_pipe (process), ready,
                                          sizeof ready, NULL, NULL, &error));
  *pid = (guint32) g_ascii_strtoull (g_subprocess_get_identifier (process), NULL, 10);
  return process;
}

/* Each of two processes fits, both together do not: no event is opened. */
static void
test_events (void)
{
  guint n_threads = 16384 / 2 / 2 / (guint) g_get_num_processors () + 1;
  g_autoptr (GDBusConnection) root = bus_connect (0);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  g_autoptr (GSubprocess) one = NULL;
  g_autoptr (GSubprocess) other = NULL;
  guint32 pids[2];
  int capture = -1;

  one = spawn_threads (n_threads, &pids[0]);
  other = spawn_threads (n_threads, &pids[1]);
  g_assert_false (bus_profile (root,
                               g_variant_new_parsed ("{'pids': <[%u, %u]>}", pids[0], pids[1]),
                               NULL, &session, &capture, &error));
  bus_assert_error (error, "LimitExceeded");
  g_assert_nonnull (strstr (error->message, "Limit events:"));
  g_clear_error (&error);
  bus_profile (root, g_variant_new_parsed ("{'pids': <[%u]>}", pids[0]), NULL, &session, &capture,
               &error);
  g_assert_no_error (error);
  close (capture);
  g_subprocess_force_exit (one);
  g_subprocess_force_exit (other);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/sessions/" path, function)
  ADD ("manager-tells-what-it-can", test_manager_properties);
  ADD ("properties-say-what-was-asked-for", test_properties);
  ADD ("list-shows-what-the-caller-may-see", test_list);
  ADD ("pause-and-resume-follow-the-table", test_pause);
  ADD ("second-reader-gets-a-capture-and-hears-of-the-end", test_second_reader);
  ADD ("statistics-tell-what-the-service-costs", test_cost);
  ADD ("second-stop-says-that-it-is-gone-to-the-owner-alone", test_second_stop);
  ADD ("open-capture-refuses-bad-options", test_bad_stream_options);
  ADD ("events-are-counted-over-all-processes", test_events);
#undef ADD
  return g_test_run ();
}
