/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The BPF program that walks interpreters, as the kernel of this machine takes it. */
#include "config.h"

#include "daemon/broker/walk-program.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/broker/rights.h"

/* NULL: skipped */
static SondeWalkProgram *
program_new (void)
{
  g_autofree char *why = NULL;
  SondeWalkProgram *program = sonde_walk_program_new (&why);

  if (program != NULL)
    return program;
  g_assert_nonnull (why);
  if (HAVE_WALK_PROGRAM && getuid () == 0)
    g_test_message ("%s", why);
  g_test_skip (why);
  return NULL;
}

static int
open_event (guint64 config, guint64 sample_type)
{
  struct perf_event_attr attr = { .size = sizeof attr,
                                  .type = PERF_TYPE_SOFTWARE,
                                  .config = config,
                                  .sample_period = 1000000,
                                  .sample_type = sample_type,
                                  .disabled = 1 };

  return (int) syscall (SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

/* --- cases --- */

static void
runs_at_one_event_once (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  sonde_autofd int clock_fd = -1;
  sonde_autofd int output_fd = -1;

  if (program == NULL)
    return;
  clock_fd = open_event (PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_IP);
  output_fd = open_event (PERF_COUNT_SW_BPF_OUTPUT, PERF_SAMPLE_RAW);
  if (clock_fd < 0 || output_fd < 0)
    {
      g_test_skip ("needs the right to events of whole processors");
      return;
    }
  g_assert_cmpint (sonde_walk_program_set_output (program, 0, output_fd), ==, 0);
  g_assert_cmpint (sonde_walk_program_attach (program, clock_fd), ==, 0);
  g_assert_cmpint (sonde_walk_program_attach (program, clock_fd), ==, -EEXIST);
}

static void
takes_outputs_of_its_kind_alone (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();

  if (program == NULL)
    return;
  g_assert_cmpint (sonde_walk_program_set_output (program, 0, STDIN_FILENO), <, 0);
  g_assert_cmpint (sonde_walk_program_set_output (program, -1, STDIN_FILENO), <, 0);
}

static void
is_told_of_more_processes_than_it_has_room_for (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  SondeWalkPlace place = { .generation = 1 };

  if (program == NULL)
    return;
  for (pid_t pid = 1; pid <= 5000; pid++)
    g_assert_cmpint (sonde_walk_program_set_place (program, pid, &place), ==, 0);
  for (pid_t pid = 1; pid <= 5000; pid++)
    g_assert_cmpint (sonde_walk_program_set_place (program, pid, NULL), ==, 0);
}

/* In a process of its own: what is given up does not come back. */
static void
says_why_there_is_none (void)
{
  pid_t pid = fork ();
  int status;

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      cap_t none = cap_init ();
      char *why = NULL;

      /* Where everybody may load programs there is nothing to be refused. */
      _exit (cap_set_proc (none) == 0 && sonde_walk_program_new (&why) == NULL && why != NULL
                     && why[0] != '\0'
                 ? EXIT_SUCCESS
                 : EXIT_FAILURE);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

/* As a broker does. */
static void
load_by_what_a_broker_has (void)
{
  g_autofree char *why = NULL;
  SondeWalkProgram *program;

  if (!sonde_capabilities_init (NULL) || !sonde_broker_calls_enforce (STDERR_FILENO, NULL))
    _exit (EXIT_FAILURE);
  program = sonde_walk_program_new (&why);
  _exit (program != NULL ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void
needs_two_capabilities_and_the_calls_of_a_broker (void)
{
  g_autoptr (SondeWalkProgram) program = program_new ();
  pid_t pid;
  int status;

  if (program == NULL)
    return;
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    load_by_what_a_broker_has ();
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_cmpint (status, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/walk-program/says-why-there-is-none", says_why_there_is_none);
  g_test_add_func ("/walk-program/takes-outputs-of-its-kind-alone",
                   takes_outputs_of_its_kind_alone);
  g_test_add_func ("/walk-program/runs-at-one-event-once", runs_at_one_event_once);
  g_test_add_func ("/walk-program/is-told-of-more-processes-than-it-has-room-for",
                   is_told_of_more_processes_than_it_has_room_for);
  g_test_add_func ("/walk-program/needs-two-capabilities-and-the-calls-of-a-broker",
                   needs_two_capabilities_and_the_calls_of_a_broker);
  return g_test_run ();
}
