/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program with libsonde-collector that forks and executes itself: collect DEPTH EVENTS. Each of
 * its processes prints what it made and what had no room. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared-ring/collector/sonde-collector.h"

static __attribute__ ((noinline)) void
make_events (int depth, unsigned long n_events)
{
  int id = sonde_collector_define_counter (SONDE_COLLECTOR_INT64, "program", "count", "text");
  uint64_t addrs[] = { (uint64_t) make_events + 8, 0 };

  sonde_collector_name_address (depth % 2 == 0 ? "even" : "odd", &addrs[1]);
  for (unsigned long i = 0; i < n_events; i++)
    {
      sonde_collector_mark (sonde_collector_now (), 1, "group", "mark", "a message");
      sonde_collector_allocation (0x5000 + i, 64, addrs, 2);
      sonde_collector_set_int64 (id, (int64_t) i);
    }
}

static void
tell_count (void)
{
  uint64_t n_events, n_lost;

  sonde_collector_count (&n_events, &n_lost);
  printf ("%d made %llu lost %llu\n", (int) getpid (), (unsigned long long) n_events,
          (unsigned long long) n_lost);
  fflush (stdout);
}

int
main (int argc, char **argv)
{
  int depth = argc == 3 ? atoi (argv[1]) : 0;
  unsigned long n_events = argc == 3 ? strtoul (argv[2], NULL, 10) : 0;
  char next[16];

  make_events (depth, n_events);
  if (depth > 0 && fork () == 0)
    {
      make_events (depth, n_events);
      tell_count ();
      snprintf (next, sizeof next, "%d", depth - 1);
      execl ("/proc/self/exe", argv[0], next, argv[2], (char *) NULL);
    }
  tell_count ();
  while (wait (NULL) > 0)
    continue;
  return EXIT_SUCCESS;
}
