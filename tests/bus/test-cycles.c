/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sessions one after the other, hundreds of them: nothing of them stays. test-cycles TARGET-PROGRAM
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"

enum
{
  N_CYCLES = 1000,
  N_WARM_UP = 20,
  MAX_GROWTH_KIB
  = 1024, /* of the daemon, in all cycles: a leak of 1 KiB in each would be as much */
};

/* What sessions take: of sonded, and of the machine as far as the test sees it. */
typedef struct
{
  guint n_fds;
  guint n_processes;
  guint n_perf_events; /* descriptors in all processes */
  guint64 rss_kib;
} Usage;

static guint
count_perf_events (const char *pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%s/fd", pid);
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;
  guint n_events = 0;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *link = g_build_filename (path, name, NULL);
      g_autofree char *file = g_file_read_link (link, NULL);

      n_events += g_strcmp0 (file, "anon_inode:[perf_event]") == 0;
    }
  return n_events;
}

static guint64
read_rss_kib (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", pid);
  g_autofree char *status = NULL;
  const char *line;

  g_assert_true (g_file_get_contents (path, &status, NULL, NULL));
  line = strstr (status, "VmRSS:");
  g_assert_nonnull (line);
  return g_ascii_strtoull (line + strlen ("VmRSS:"), NULL, 10);
}

static void
usage_read (Usage *self, pid_t service)
{
  g_autoptr (GDir) proc = g_dir_open ("/proc", 0, NULL);
  const char *name;

  *self = (Usage){ .n_fds = bus_wait_at_rest (service), .rss_kib = read_rss_kib (service) };
  while ((name = g_dir_read_name (proc)) != NULL)
    if (g_ascii_isdigit (name[0]))
      {
        self->n_processes++;
        self->n_perf_events += count_perf_events (name);
      }
}

static void
run_cycles (GDBusConnection *bus, pid_t target, guint n_cycles)
{
  for (guint i = 0; i < n_cycles; i++)
    {
      g_autofree char *session = NULL;
      int capture;

      bus_profile_pid (bus, target, NULL, &session, &capture);
      g_variant_unref (bus_stop (bus, session));
      close (capture);
    }
}

static void
test_cycles (gconstpointer program)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  guint n_cycles = bus_is_long () ? N_CYCLES : N_CYCLES / 10;
  Usage before, after;
  pid_t service;
  int life_fd;
  pid_t target = bus_run (bus_next_uid (), program, NULL, NULL, &life_fd);

  run_cycles (bus, target, N_WARM_UP);
  service = bus_service_pid (bus);
  usage_read (&before, service);
  run_cycles (bus, target, n_cycles);
  usage_read (&after, service);

  g_test_message (
      "before %u sessions, and after: descriptors %u, %u; processes %u, %u; perf events %u, "
      "%u; memory of sonded %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT " KiB",
      n_cycles, before.n_fds, after.n_fds, before.n_processes, after.n_processes,
      before.n_perf_events, after.n_perf_events, before.rss_kib, after.rss_kib);
  g_assert_cmpint (bus_service_pid (bus), ==, service);
  g_assert_cmpuint (after.n_fds, ==, before.n_fds);
  g_assert_cmpuint (after.n_processes, ==, before.n_processes);
  g_assert_cmpuint (after.n_perf_events, ==, before.n_perf_events);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed, and looks for leaks by itself */
  g_assert_cmpuint (after.rss_kib, <=, before.rss_kib + MAX_GROWTH_KIB);
#endif
  bus_end (target, SIGKILL);
  close (life_fd);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  g_test_add_data_func ("/cycles/leave-nothing", argv[1], test_cycles);
  return g_test_run ();
}
