/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Burns the CPU seconds of its argument and prints how many those were. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static double
used_seconds (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
         + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int
main (int argc, char **argv)
{
  double wanted = argc > 1 ? atof (argv[1]) : 1;
  volatile unsigned n = 0;

  while (used_seconds () < wanted)
    for (int i = 0; i < 1000000; i++)
      n = n + 1;
  printf ("%.6f\n", used_seconds ());
  return 0;
}
