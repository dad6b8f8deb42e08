/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Time and memory of a report on five million samples: report SONDECTL [SAMPLES] */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/report-data.h"

#define DEFAULT_SAMPLES 5000000

enum
{
  NOT_FOUND = 127,   /* exit status of a program that is not there */
  PERF_TIMEOUT = 600 /* s */
};

typedef struct
{
  int status;
  double seconds;
  double cpu_seconds;
  double rss_mib;
} Cost;

static double
now (void)
{
  struct timespec time;

  clock_gettime (CLOCK_MONOTONIC, &time);
  return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static void
execute (const char *const *argv)
{
  int null_fd = open ("/dev/null", O_WRONLY | O_CLOEXEC);

  dup2 (null_fd, STDOUT_FILENO);
  if (strcmp (argv[0], "perf") == 0)
    {
      dup2 (null_fd, STDERR_FILENO);
      alarm (PERF_TIMEOUT);
    }
  execvp (argv[0], (char *const *) argv);
  _exit (NOT_FOUND);
}

static Cost
measure (const char *const *argv)
{
  double begin = now ();
  struct rusage usage = { 0 };
  Cost cost = { -1, 0, 0, 0 };
  pid_t pid = fork ();

  if (pid == 0)
    execute (argv);
  if (pid < 0 || wait4 (pid, &cost.status, 0, &usage) < 0)
    return cost;
  cost.seconds = now () - begin;
  cost.cpu_seconds = (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
                     + (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  cost.rss_mib = (double) usage.ru_maxrss / 1024;
  return cost;
}

static void
print_cost (const char *what, const Cost *cost)
{
  printf ("%s: %.1f s (%.1f s of CPU), %.0f MiB\n", what, cost->seconds, cost->cpu_seconds,
          cost->rss_mib);
}

static void
measure_perf (const char *path, uint64_t n_samples)
{
  const char *const argv[] = { "perf", "report", "--stdio", "--no-children", "-i", path, NULL };
  Cost cost;

  if (!report_data_write_perf (path, n_samples))
    return;
  cost = measure (argv);
  unlink (path);
  if (WIFEXITED (cost.status) && WEXITSTATUS (cost.status) == 0)
    print_cost ("perf report --stdio", &cost);
  else if (WIFEXITED (cost.status) && WEXITSTATUS (cost.status) == NOT_FOUND)
    printf ("perf report --stdio: not measured: perf is not installed\n");
  else if (WIFSIGNALED (cost.status) && WTERMSIG (cost.status) == SIGALRM)
    printf ("perf report --stdio: more than %d s\n", PERF_TIMEOUT);
  else
    printf ("perf report --stdio: not measured: status %#x\n", (unsigned) cost.status);
}

static bool
measure_report (const char *sondectl, const char *path, uint64_t n_samples, Cost *cost)
{
  const char *const argv[] = { sondectl, "report", path, NULL };
  struct stat st;

  if (!report_data_write_capture (path, n_samples) || stat (path, &st) < 0)
    return false;
  printf ("capture: %.0f samples, %.2f GB\n", (double) n_samples, (double) st.st_size / 1e9);
  *cost = measure (argv);
  unlink (path);
  print_cost ("sondectl report", cost);
  return cost->status == 0;
}

int
main (int argc, char **argv)
{
  uint64_t n_samples = argc > 2 ? strtoull (argv[2], NULL, 10) : DEFAULT_SAMPLES;
  const char *parent = getenv ("TMPDIR");
  char folder[256];
  char path[300];
  Cost cost;
  bool good;

  if (argc < 2)
    return 2;
  snprintf (folder, sizeof folder, "%s/sonde-bench-XXXXXX", parent != NULL ? parent : "/tmp");
  if (mkdtemp (folder) == NULL)
    {
      perror (folder);
      return 1;
    }
  snprintf (path, sizeof path, "%s/data", folder);
  setvbuf (stdout, NULL, _IOLBF, 0);

  good = measure_report (argv[1], path, n_samples, &cost);
  if (good)
    measure_perf (path, n_samples);
  rmdir (folder);
  if (good)
    printf ("bench report seconds=%.2f rss_mib=%.0f\n", cost.seconds, cost.rss_mib);
  return good ? 0 : 1;
}
