/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program built with Debian's libsysprof-capture-4: sysprof-events THREADS EVENTS */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <sysprof-capture.h>

static unsigned long n_events;
static unsigned counter_id;

static int
trace_stack (SysprofCaptureAddress *addrs, unsigned n_addrs, void *user_data)
{
  addrs[0] = (SysprofCaptureAddress) (unsigned long) __builtin_return_address (0);
  addrs[1] = (SysprofCaptureAddress) (unsigned long) trace_stack;
  return 2;
}

/* Slowly: who is full drops, and does not say so. */
static void *
make_events (void *data)
{
  for (unsigned long i = 0; i < n_events; i++)
    {
      SysprofCaptureCounterValue value = { .v64 = (long) i };

      sysprof_collector_mark (SYSPROF_CAPTURE_CURRENT_TIME, 5, "group", "mark", "a message");
      sysprof_collector_log (64, "domain", "a line");
      sysprof_collector_allocate (0x5000 + i, 64, trace_stack, NULL);
      sysprof_collector_set_counters (&counter_id, &value, 1);
      if (i % 50 == 0)
        usleep (20000);
    }
  return NULL;
}

int
main (int argc, char **argv)
{
  SysprofCaptureCounter counter
      = { .category = "program", .name = "count", .type = SYSPROF_CAPTURE_COUNTER_INT64 };
  unsigned n_threads = argc == 3 ? (unsigned) atoi (argv[1]) : 0;
  pthread_t threads[16];

  if (n_threads == 0 || n_threads > 16)
    return EXIT_FAILURE;
  n_events = strtoul (argv[2], NULL, 10);
  sysprof_collector_init ();
  if (!sysprof_collector_is_active ())
    return EXIT_FAILURE;
  counter.id = counter_id = sysprof_collector_request_counters (1);
  sysprof_collector_define_counters (&counter, 1);
  for (unsigned i = 0; i < n_threads; i++)
    pthread_create (&threads[i], NULL, make_events, NULL);
  for (unsigned i = 0; i < n_threads; i++)
    pthread_join (threads[i], NULL);
  return EXIT_SUCCESS;
}
