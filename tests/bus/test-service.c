/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What sonded refuses, and what it grants, over a real bus with a real polkitd. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"

/* Asserts that Profile answers with Error.@name; returns its message. @options is consumed. */
static char *
assert_refused (GDBusConnection *bus, GVariant *options, GUnixFDList *fds, const char *name)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  int capture = -1;

  g_assert_false (bus_profile (bus, options, fds, &session, &capture, &error));
  bus_assert_error (error, name);
  return g_strdup (error->message);
}

static GVariant *
target_options (pid_t pid)
{
  return g_variant_new_parsed ("{'targets': <[(%u, %h)]>}", (guint32) pid, 0);
}

/* The descriptor @fd (consumed) as a proof for @pid must be no proof. */
static void
assert_no_proof (GDBusConnection *bus, pid_t pid, int fd)
{
  g_autoptr (GUnixFDList) fds = NULL;

  g_assert_cmpint (fd, >=, 0);
  fds = g_unix_fd_list_new_from_array (&fd, 1);
  g_free (assert_refused (bus, target_options (pid), fds, "NotAuthorized"));
}

static void
test_own_process (void)
{
  pid_t client = bus_spawn (bus_next_uid (), BUS_CHILD_PROFILE);
  int status = bus_end (client, 0);

  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

static void
test_root_process_with_own_maps (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  fds = bus_open_proc (user.target, "maps", O_RDONLY);
  g_free (assert_refused (user.bus, target_options (getpid ()), fds, "NotAuthorized"));
}

static void
test_maps_of_another_process (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;
  pid_t other;

  bus_user_init (&user, BUS_CHILD_WAIT);
  other = bus_spawn (user.uid, BUS_CHILD_WAIT);
  fds = bus_open_proc (other, "maps", O_RDONLY);
  g_free (assert_refused (user.bus, target_options (user.target), fds, "NotAuthorized"));
  bus_end (other, SIGKILL);
}

/* An exec empties the descriptor of the program that was there before. */
static gboolean
is_sleep (gpointer user_data)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/comm", *(pid_t *) user_data);
  g_autofree char *comm = NULL;

  return g_file_get_contents (path, &comm, NULL, NULL) && g_str_equal (comm, "sleep\n");
}

static void
test_maps_before_exec (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;

  bus_user_init (&user, BUS_CHILD_EXEC);
  fds = bus_open_proc (user.target, "maps", O_RDONLY);
  kill (user.target, SIGUSR1);
  bus_wait (is_sleep, &user.target, "the target's exec");
  g_free (assert_refused (user.bus, target_options (user.target), fds, "NotAuthorized"));
}

static void
test_files_that_are_no_proof (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *status = NULL;
  g_autofree char *folder = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  status = g_strdup_printf ("/proc/%d/status", user.target);
  folder = g_strdup_printf ("/proc/%d", user.target);
  assert_no_proof (user.bus, user.target, open ("/etc/passwd", O_RDONLY | O_CLOEXEC));
  assert_no_proof (user.bus, user.target, open ("/dev/zero", O_RDONLY | O_CLOEXEC));
  assert_no_proof (user.bus, user.target, open (status, O_RDONLY | O_CLOEXEC));
  assert_no_proof (user.bus, user.target, open (folder, O_RDONLY | O_CLOEXEC));
  assert_no_proof (user.bus, user.target, open ("/proc/self/maps", O_RDONLY | O_CLOEXEC));
}

/* A read of an empty pipe would never return. */
static void
test_pipe (void)
{
  g_auto (BusUser) user = { 0 };
  int pipe_fds[2];

  bus_user_init (&user, BUS_CHILD_WAIT);
  g_assert_cmpint (pipe2 (pipe_fds, O_CLOEXEC), ==, 0);
  assert_no_proof (user.bus, user.target, pipe_fds[0]);
  close (pipe_fds[1]);
}

static void
test_descriptor_counts (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GUnixFDList) two = NULL;
  g_autoptr (GVariant) options = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  two = bus_open_proc (user.target, "maps", O_RDONLY);
  options = g_variant_ref_sink (target_options (user.target));
  g_free (assert_refused (user.bus, options, NULL, "InvalidOption"));
  g_free (assert_refused (
      user.bus, g_variant_new_parsed ("{'targets': <[(%u, %h)]>}", (guint32) user.target, 7), two,
      "InvalidOption"));
}

/* Options beside a good target: each is refused, and the message names the key. */
static void
test_bad_options (void)
{
  static const struct
  {
    const char *key;
    const char *value;
  } cases[] = {
    { "colour", "'red'" },           { "frequency", "'often'" },
    { "frequency", "uint32 20001" }, { "stack-size", "uint32 16388" },
    { "unwind", "'magic'" },
  };
  g_auto (BusUser) user = { 0 };

  bus_user_init (&user, BUS_CHILD_WAIT);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GUnixFDList) fds = bus_open_proc (user.target, "maps", O_RDONLY);
      g_autofree char *text = g_strdup_printf ("{'targets': <[(uint32 %d, handle 0)]>, '%s': <%s>}",
                                               user.target, cases[i].key, cases[i].value);
      g_autofree char *message
          = assert_refused (user.bus, g_variant_new_parsed (text), fds, "InvalidOption");

      g_assert_nonnull (strstr (message, cases[i].key));
    }
}

static void
test_target_kinds (void)
{
  static const char *const texts[] = {
    "@a{sv} {}",
    "{'launch': <false>}",
    "{'launch': <true>, 'system': <true>}",
    "{'pids': <[uint32 1]>, 'system': <true>}",
    "{'launch': <true>, 'pids': <[uint32 1]>}",
    "{'pids': <@au []>}",
    "{'pids': <['1']>}",
    "{'targets': <@a(uh) []>}",
    "{'targets': <'1'>}",
  };
  g_auto (BusUser) user = { 0 };

  bus_user_init (&user, BUS_CHILD_WAIT);
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_test_message ("%s", texts[i]);
      g_free (assert_refused (user.bus, g_variant_new_parsed (texts[i]), NULL, "InvalidOption"));
    }
}

static void
test_too_many_targets (void)
{
  g_autoptr (GString) text = g_string_new ("{'targets': <[");
  g_auto (BusUser) user = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  fds = bus_open_proc (user.target, "maps", O_RDONLY);
  for (guint i = 0; i < 17; i++)
    g_string_append_printf (text, "%s(uint32 %d, handle 0)", i ? ", " : "", user.target);
  g_string_append (text, "]>}");
  g_free (assert_refused (user.bus, g_variant_new_parsed (text->str), fds, "InvalidOption"));
}

static void
test_kernel_names_for_a_user (void)
{
  g_auto (BusUser) user = { 0 };
  g_autoptr (GUnixFDList) fds = NULL;

  bus_user_init (&user, BUS_CHILD_WAIT);
  fds = bus_open_proc (user.target, "maps", O_RDONLY);
  g_free (assert_refused (user.bus,
                          g_variant_new_parsed ("{'targets': <[(%u, %h)]>, 'kernel': <true>}",
                                                (guint32) user.target, 0),
                          fds, "NotAuthorized"));
}

static void
record_as_root (GVariant *options, pid_t pid)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  CaptureSummary summary;
  int capture = -1;

  bus_profile (bus, options, NULL, &session, &capture, &error);
  g_assert_no_error (error);
  capture_summary_read (&summary, capture, pid);
  capture_summary_assert_whole (&summary);
}

static void
test_root_by_number (void)
{
  pid_t target = bus_spawn (bus_next_uid (), BUS_CHILD_SPIN);

  record_as_root (g_variant_new_parsed ("{'pids': <[%u]>, 'duration': <%t>}", (guint32) target,
                                        (guint64) 2000000),
                  target);
  bus_end (target, SIGKILL);
}

static void
test_machine_for_root (void)
{
  pid_t target = bus_spawn (bus_next_uid (), BUS_CHILD_SPIN);

  record_as_root (g_variant_new_parsed ("{'system': <true>, 'duration': <%t>}", (guint64) 2000000),
                  target);
  bus_end (target, SIGKILL);
}

static guint64
lookup_count (GVariant *statistics, const char *key)
{
  guint64 count = 0;

  g_test_message ("%s", key);
  g_assert_true (g_variant_lookup (statistics, key, "t", &count));
  return count;
}

static void
test_stop_adds_up (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GVariant) state = NULL;
  g_autoptr (GVariant) statistics = NULL;
  g_autofree char *finished = NULL;
  CaptureSummary summary;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  state = bus_session_get (user.bus, session, "State", NULL);
  g_assert_cmpstr (g_variant_get_string (state, NULL), ==, "running");
  bus_wait_samples (user.bus, session, 0);

  statistics = bus_stop (user.bus, session);
  capture_summary_read (&summary, capture, user.target);
  capture_summary_assert_whole (&summary);
  g_assert_cmpuint (lookup_count (statistics, "produced"), ==,
                    lookup_count (statistics, "recorded") + lookup_count (statistics, "lost-kernel")
                        + lookup_count (statistics, "lost-ring")
                        + lookup_count (statistics, "lost-queue"));
  g_assert_cmpuint (lookup_count (statistics, "recorded"), ==,
                    summary.ledger[SONDE_LEDGER_RECORDED]);
  finished = bus_wait_finished (user.bus, session);
  g_assert_cmpstr (finished, ==, "stopped");
}

static void
test_stop_twice (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *finished = NULL;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  g_variant_unref (bus_stop (user.bus, session));
  close (capture);
  finished = bus_wait_finished (user.bus, session);
  g_assert_null (bus_session_call (user.bus, session, "Stop", NULL, NULL, &error));
  bus_assert_error (error, "NoSuchSession");
}

static void
test_launch (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GUnixFDList) proof = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) added = NULL;
  CaptureSummary summary;
  int capture = -1;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile (user.bus, g_variant_new_parsed ("{'launch': <true>}"), NULL, &session, &capture,
               &error);
  g_assert_no_error (error);
  proof = bus_open_proc (user.target, "maps", O_RDONLY);

  g_assert_null (bus_session_call (user.bus, session, "AddProcess",
                                   g_variant_new_parsed ("([(%u, %h)],)", (guint32) getpid (), 0),
                                   proof, &error));
  bus_assert_error (error, "NotAuthorized");
  g_clear_error (&error);

  added = bus_session_call (user.bus, session, "AddProcess",
                            g_variant_new_parsed ("([(%u, %h)],)", (guint32) user.target, 0), proof,
                            &error);
  g_assert_no_error (error);
  bus_wait_samples (user.bus, session, 0);
  g_variant_unref (bus_stop (user.bus, session));
  capture_summary_read (&summary, capture, user.target);
  capture_summary_assert_whole (&summary);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/service/" path, function)
  ADD ("profile/refuses-a-root-process-with-own-maps", test_root_process_with_own_maps);
  ADD ("profile/refuses-maps-of-another-process", test_maps_of_another_process);
  ADD ("profile/refuses-maps-from-before-an-exec", test_maps_before_exec);
  ADD ("profile/refuses-files-that-are-no-maps", test_files_that_are_no_proof);
  ADD ("profile/refuses-a-pipe-without-waiting", test_pipe);
  ADD ("profile/refuses-wrong-descriptor-counts", test_descriptor_counts);
  ADD ("profile/refuses-bad-options-by-name", test_bad_options);
  ADD ("profile/refuses-no-or-two-kinds-of-target", test_target_kinds);
  ADD ("profile/refuses-too-many-targets", test_too_many_targets);
  ADD ("profile/refuses-kernel-names-to-a-user", test_kernel_names_for_a_user);
  ADD ("profile/gives-a-user-his-own-process", test_own_process);
  ADD ("profile/gives-root-a-process-by-number", test_root_by_number);
  ADD ("profile/gives-root-the-machine", test_machine_for_root);
  ADD ("session/stop-answers-what-the-capture-says", test_stop_adds_up);
  ADD ("session/is-gone-after-stop", test_stop_twice);
  ADD ("session/launch-takes-only-proven-processes", test_launch);
#undef ADD
  return g_test_run ();
}
