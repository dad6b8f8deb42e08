/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The advice of sondectl on each error. */
#include "client/service/service.h"

#include <string.h>

#include "client/library/sonde-client.h"

static void
assert_advice (
    GQuark domain, int code, gboolean is_embedded, const char *message, const char *words)
{
  g_autoptr (GError) error = g_error_new_literal (domain, code, message);
  const char *advice = sonde_service_error_advice (error, is_embedded);

  if (words == NULL)
    g_assert_null (advice);
  else
    {
      g_assert_nonnull (advice);
      g_test_message ("%s", advice);
      g_assert_nonnull (strstr (advice, words));
    }
}

static void
assert_message (const char *message, const char *shown)
{
  g_autoptr (GError) error
      = g_error_new_literal (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_INVALID_OPTION, message);
  g_autofree char *words = sonde_service_error_dup_message (error);

  g_assert_cmpstr (words, ==, shown);
}

/* Whoever typed "-p 1 -p 1" knows no option "targets". */
static void
test_words (void)
{
  assert_message ("Option targets: process 1 is given twice", "-p: process 1 is given twice");
  /* An option of Meson's is none of ours. */
  assert_message ("if it was built with the option perf_event_paranoid_drop_in",
                  "if it was built with the option perf_event_paranoid_drop_in");
  assert_message ("Option frequency: must be from 1 to 20000",
                  "--frequency: must be from 1 to 20000");
  assert_message ("Option counters: \"process\" needs the option targets, launch or pids",
                  "--counters: \"process\" needs -p or COMMAND");
  assert_message ("Option unit: that is the whole machine: option system",
                  "-u: that is the whole machine: -a");
  assert_message ("Option children: this kernel cannot follow threads without processes",
                  "--no-children: this kernel cannot follow threads without processes");
  assert_message ("Option event: not one of auto, none and the others of the property Events; did "
                  "you mean sched:sched_switch?",
                  "--event: not one of auto, none and the others of sondectl events; did you mean "
                  "sched:sched_switch?");
  assert_message ("Limit sessions: at most 4 at a time for uid 1",
                  "Limit sessions: at most 4 at a time for uid 1");
  assert_message ("The session is\033 paused", "The session is\\x1b paused");
}

static void
test_names (void)
{
  g_autoptr (GError) error = NULL;

  (void) SONDE_CLIENT_ERROR;
  error = g_dbus_error_new_for_dbus_error ("org.sonde.Profiler1.Error.LimitExceeded", "Too many");
  g_assert_error (error, SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_LIMIT_EXCEEDED);
}

static void
test_rights (void)
{
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_AUTHORIZED, FALSE, "Nothing works",
                 "terminal");
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_AUTHORIZED, TRUE, "Nothing works",
                 "own rights");
}

static void
test_sessions (void)
{
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NO_SUCH_SESSION, FALSE, "Nothing works",
                 "sondectl list");
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, FALSE,
                 "Limit sessions: at most 4", "sondectl stop");
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, FALSE,
                 "Limit capture-uid-bytes: 4 GiB", "sondectl rm");
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, FALSE,
                 "Limit calls: at most 32", "sondectl limits");
}

static void
test_bus (void)
{
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN, FALSE, "Nothing works",
                 "systemctl status sonded");
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER, FALSE, "Nothing works", "--embedded");
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_SPAWN_FAILED, FALSE, "Nothing works",
                 "journalctl -u sonded");
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_TIMED_OUT, FALSE, "Nothing works", "--embedded");
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_ACCESS_DENIED, FALSE, "Nothing works",
                 "org.sonde.Profiler1.conf");
}

static void
test_options (void)
{
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_SUPPORTED, FALSE,
                 "Option event: this machine has no cycles", "sondectl events");
}

/* Their messages say it all. */
static void
test_rest (void)
{
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_INVALID_OPTION, FALSE, "Nothing works",
                 NULL);
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_FAILED, FALSE, "Nothing works", NULL);
  assert_advice (G_IO_ERROR, G_IO_ERROR_NOT_FOUND, FALSE, "Nothing works", NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/service.has-the-names-of-the-bus", test_names);
  g_test_add_func ("/client-service/speaks-of-the-options-of-sondectl", test_words);
  g_test_add_func ("/client-service/advises-on-options", test_options);
  g_test_add_func ("/client-service/advises-on-rights", test_rights);
  g_test_add_func ("/client-service/advises-on-sessions", test_sessions);
  g_test_add_func ("/client-service/advises-on-a-missing-service", test_bus);
  g_test_add_func ("/client-service/leaves-the-rest-to-the-message", test_rest);
  return g_test_run ();
}
