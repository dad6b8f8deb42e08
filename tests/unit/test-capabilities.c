/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Capabilities that are kept, and when they are in effect. */
#include "daemon/broker/rights.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static gboolean
has (cap_value_t capability, cap_flag_t set)
{
  cap_t now = cap_get_proc ();
  cap_flag_value_t value = CAP_CLEAR;

  g_assert_no_errno (cap_get_flag (now, capability, set, &value));
  cap_free (now);
  return value == CAP_SET;
}

static guint
count (cap_flag_t set)
{
  guint n = 0;

  for (cap_value_t i = 0; i <= cap_max_bits () - 1; i++)
    n += has (i, set);
  return n;
}

/* In a process of its own: what is given up does not come back. */
static void
run (void (*body) (void))
{
  pid_t pid = fork ();
  int status;

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      body ();
      _exit (EXIT_SUCCESS);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

static void
init (void)
{
  g_autoptr (GError) error = NULL;

  g_assert_true (sonde_capabilities_init (&error));
  g_assert_no_error (error);
}

/* --- cases --- */

static void
keep_what_is_needed (void)
{
  gboolean is_root = has (CAP_SYS_PTRACE, CAP_PERMITTED);

  init ();
  g_assert_cmpuint (count (CAP_EFFECTIVE), ==, 0);
  g_assert_cmpuint (count (CAP_INHERITABLE), ==, 0);
  g_assert_cmpint (has (CAP_SYS_PTRACE, CAP_PERMITTED), ==, is_root);
  g_assert_false (has (CAP_DAC_OVERRIDE, CAP_PERMITTED));
  g_assert_false (has (CAP_SETUID, CAP_PERMITTED));
  g_assert_false (has (CAP_CHOWN, CAP_PERMITTED));
  g_assert_false (has (CAP_NET_ADMIN, CAP_PERMITTED));
}

static void
keeps_what_is_needed_without_effect (void)
{
  run (keep_what_is_needed);
}

static void
raise_in_scopes (void)
{
  gboolean is_root = has (CAP_SYS_PTRACE, CAP_PERMITTED);

  init ();
  {
    sonde_raised cap_t outer = sonde_capabilities_raise (SONDE_FOR_PROCESSES);

    g_assert_cmpint (has (CAP_SYS_PTRACE, CAP_EFFECTIVE), ==, is_root);
    g_assert_false (has (CAP_SYSLOG, CAP_EFFECTIVE));
    {
      sonde_raised cap_t inner = sonde_capabilities_raise (SONDE_FOR_KERNEL_NAMES);

      g_assert_cmpint (has (CAP_SYSLOG, CAP_EFFECTIVE), ==, is_root);
      g_assert_cmpint (has (CAP_SYS_PTRACE, CAP_EFFECTIVE), ==, is_root);
    }
    g_assert_false (has (CAP_SYSLOG, CAP_EFFECTIVE));
    g_assert_cmpint (has (CAP_SYS_PTRACE, CAP_EFFECTIVE), ==, is_root);
    errno = ENOTTY;
  }
  g_assert_cmpint (errno, ==, ENOTTY);
  g_assert_cmpuint (count (CAP_EFFECTIVE), ==, 0);
}

static void
raises_them_for_a_scope (void)
{
  run (raise_in_scopes);
}

static void
raise_without (void)
{
  cap_t none = cap_init ();

  g_assert_no_errno (cap_set_proc (none));
  cap_free (none);
  init ();
  for (guint i = 0; i < SONDE_N_PURPOSES; i++)
    {
      sonde_raised cap_t raised = sonde_capabilities_raise ((SondePurpose) i);

      g_assert_cmpuint (count (CAP_EFFECTIVE), ==, 0);
    }
}

static void
raises_nothing_for_those_who_have_nothing (void)
{
  run (raise_without);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/capabilities/keeps-what-is-needed-without-effect",
                   keeps_what_is_needed_without_effect);
  g_test_add_func ("/capabilities/raises-them-for-a-scope", raises_them_for_a_scope);
  g_test_add_func ("/capabilities/raises-nothing-for-those-who-have-nothing",
                   raises_nothing_for_those_who_have_nothing);
  return g_test_run ();
}
