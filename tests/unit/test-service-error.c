/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What sondectl advises on each error. */
#include "client/service/service-error.h"

#include <string.h>

#include "client/library/sonde-client.h"

static void
assert_advice (GQuark domain, int code, gboolean is_embedded, const char *words)
{
  g_autoptr (GError) error = g_error_new_literal (domain, code, "Nothing works");
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
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_AUTHORIZED, FALSE, "terminal");
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NOT_AUTHORIZED, TRUE, "own rights");
}

static void
test_sessions (void)
{
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_NO_SUCH_SESSION, FALSE, "sondectl list");
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_LIMIT_EXCEEDED, FALSE, "sondectl stop");
}

static void
test_bus (void)
{
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN, FALSE, "systemctl status sonded");
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER, FALSE, "--embedded");
  assert_advice (G_DBUS_ERROR, G_DBUS_ERROR_ACCESS_DENIED, FALSE, "org.sonde.Profiler1.conf");
}

/* Their messages say it all. */
static void
test_rest (void)
{
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_INVALID_OPTION, FALSE, NULL);
  assert_advice (SONDE_CLIENT_ERROR, SONDE_CLIENT_ERROR_FAILED, FALSE, NULL);
  assert_advice (G_IO_ERROR, G_IO_ERROR_NOT_FOUND, FALSE, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/service-error/has-the-names-of-the-bus", test_names);
  g_test_add_func ("/service-error/advises-on-rights", test_rights);
  g_test_add_func ("/service-error/advises-on-sessions", test_sessions);
  g_test_add_func ("/service-error/advises-on-a-missing-service", test_bus);
  g_test_add_func ("/service-error/leaves-the-rest-to-the-message", test_rest);
  return g_test_run ();
}
