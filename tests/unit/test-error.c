/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of the error domain. */
#include "daemon/base/error.h"

#include <errno.h>
#include <string.h>

static void
every_code_has_its_name_on_the_bus (void)
{
  for (int code = 0; code < SONDE_N_ERRORS; code++)
    {
      g_autoptr (GError) error = g_error_new_literal (SONDE_ERROR, code, "x");
      g_autofree char *name = g_dbus_error_encode_gerror (error);

      g_assert_true (g_str_has_prefix (name, "org.sonde.Profiler1.Error."));
    }
}

static void
errno_picks_the_code (void)
{
  static const struct
  {
    int error_number;
    SondeError code;
  } cases[] = {
    { EACCES, SONDE_ERROR_NOT_AUTHORIZED },
    { EPERM, SONDE_ERROR_NOT_AUTHORIZED },
    { ESRCH, SONDE_ERROR_NO_SUCH_PROCESS },
    { EMFILE, SONDE_ERROR_LIMIT_EXCEEDED },
    { EIO, SONDE_ERROR_FAILED },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (
          sonde_error_set_errno (&error, cases[i].error_number, "Cannot open %s", "it"));
      g_assert_error (error, SONDE_ERROR, (int) cases[i].code);
      g_assert_true (g_str_has_prefix (error->message, "Cannot open it: "));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/error/every-code-has-its-name-on-the-bus", every_code_has_its_name_on_the_bus);
  g_test_add_func ("/error/errno-picks-the-code", errno_picks_the_code);
  return g_test_run ();
}
