/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Makes code, says in a map file what it is, and runs it: jit SECONDS [NAME]
 *
 * The file is "/tmp/perf-PID.map", as the process sees itself and its files. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Counts down from its argument. */
#if defined(__x86_64__)
static const uint8_t code[] = { 0x48, 0x89, 0xf8, 0x48, 0xff, 0xc8, 0x75, 0xfb, 0xc3 };
#elif defined(__aarch64__)
static const uint32_t code[] = { 0xf1000400, 0x54ffffe1, 0xd65f03c0 };
#else
#error "no code for this architecture"
#endif

static double
now_s (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

int
main (int argc, char *argv[])
{
  double end_s = now_s () + (argc > 1 ? atof (argv[1]) : 1);
  void *memory = mmap (NULL, sizeof code, PROT_READ | PROT_WRITE | PROT_EXEC,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void (*count_down) (uint64_t from);
  char path[64];
  FILE *map;

  if (memory == MAP_FAILED)
    return 1;
  memcpy (memory, code, sizeof code);
  __builtin___clear_cache (memory, (char *) memory + sizeof code);
  memcpy (&count_down, &memory, sizeof memory);
  snprintf (path, sizeof path, "/tmp/perf-%d.map", (int) getpid ());
  map = fopen (path, "w");
  if (map == NULL)
    return 1;
  fprintf (map, "%lx %zx %s\n", (unsigned long) (uintptr_t) memory, sizeof code,
           argc > 2 ? argv[2] : "count_down");
  fclose (map);
  puts ("ready");
  fflush (stdout);
  while (now_s () < end_s)
    count_down (1000000);
  return 0;
}
