/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads that run, wait for locks, sleep, answer each other and write to a disk; each prints what
 * the kernel accounts to it when it is done: "NAME TID ON-NS DELAY-NS SLICES". Then they stay
 * blocked until all are, and a second longer ("stay"), or end one by one ("leave"). "switch
 * SECONDS" only hands one byte to and fro, "bounce N" so often, on one processor, and prints
 * "SWITCHES CPU-NS"; "exec" executes another program from a second thread while the first one
 * waits. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MS         1000000
#define BURN_MS    300
#define N_LOCKS    100
#define N_NAPS     60
#define N_ROUNDS   300
#define N_WRITES   8
#define WRITE_SIZE (256 * 1024)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int there[2], back[2], never[2], done[2];
static int stays;
static double switch_s;
static long n_bounces;

static double
read_clock (clockid_t id)
{
  struct timespec now;

  clock_gettime (id, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void
nap (long ns)
{
  nanosleep (&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL);
}

static void
burn (double ms)
{
  double end = read_clock (CLOCK_THREAD_CPUTIME_ID) + ms / 1e3;

  while (read_clock (CLOCK_THREAD_CPUTIME_ID) < end)
    ;
}

static void
burner (void)
{
  burn (BURN_MS);
}

static void
locker (void)
{
  for (int i = 0; i < N_LOCKS; i++)
    {
      pthread_mutex_lock (&lock);
      burn (1);
      pthread_mutex_unlock (&lock);
      nap (MS);
    }
}

static void
sleeper (void)
{
  for (int i = 0; i < N_NAPS; i++)
    nap (20 * MS);
}

static void
pass (int from, int to)
{
  char byte = 0;

  if ((from >= 0 && read (from, &byte, 1) != 1) || (to >= 0 && write (to, &byte, 1) != 1))
    exit (1);
}

static void
ping (void)
{
  for (int i = 0; i < N_ROUNDS; i++)
    {
      pass (-1, there[1]);
      pass (back[0], -1);
      nap (MS);
    }
}

static void
pong (void)
{
  for (int i = 0; i < N_ROUNDS; i++)
    pass (there[0], back[1]);
}

static void
disk (void)
{
  char name[] = "/var/tmp/thread-times-XXXXXX";
  static char block[WRITE_SIZE];
  int fd = mkstemp (name);

  if (fd < 0)
    exit (1);
  unlink (name);
  for (int i = 0; i < N_WRITES; i++)
    if (pwrite (fd, block, sizeof block, (off_t) (i * sizeof block)) != sizeof block
        || fdatasync (fd) != 0)
      exit (1);
  close (fd);
}

static const struct
{
  const char *name;
  void (*run) (void);
} kinds[] = { { "burner", burner },   { "locker-1", locker }, { "locker-2", locker },
              { "sleeper", sleeper }, { "ping", ping },       { "pong", pong },
              { "disk", disk } };

#define N_KINDS (sizeof kinds / sizeof kinds[0])

static void
print_account (const char *name)
{
  char line[128], text[96];
  int fd;
  ssize_t size;

  /* What a thread has run is counted when it stops running. */
  nap (MS);
  fd = open ("/proc/thread-self/schedstat", O_RDONLY);
  size = read (fd, text, sizeof text - 1);
  close (fd);
  if (size <= 0)
    exit (1);
  text[size] = '\0';
  size = snprintf (line, sizeof line, "%s %d %s", name, (int) syscall (SYS_gettid), text);
  if (write (STDOUT_FILENO, line, (size_t) size) != size)
    exit (1);
}

static void *
run (void *data)
{
  size_t kind = (size_t) data;

  prctl (PR_SET_NAME, kinds[kind].name);
  kinds[kind].run ();
  print_account (kinds[kind].name);
  pass (-1, done[1]);
  if (stays)
    pass (never[0], -1);
  return NULL;
}

static void *
bounce (void *data)
{
  double end = read_clock (CLOCK_MONOTONIC) + switch_s;

  while (read_clock (CLOCK_MONOTONIC) < end)
    {
      pass (-1, there[1]);
      pass (back[0], -1);
    }
  exit (0);
}

static void *
bounce_often (void *data)
{
  struct rusage usage;

  for (long i = 0; i < n_bounces; i++)
    {
      pass (-1, there[1]);
      pass (back[0], -1);
    }
  getrusage (RUSAGE_SELF, &usage);
  printf ("%ld %.0f\n", usage.ru_nvcsw + usage.ru_nivcsw,
          read_clock (CLOCK_PROCESS_CPUTIME_ID) * 1e9);
  fflush (stdout);
  exit (0);
}

static void
stay_on_one_processor (void)
{
  cpu_set_t all, last;

  CPU_ZERO (&last);
  if (sched_getaffinity (0, sizeof all, &all) < 0)
    exit (1);
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT (&last) == 0; cpu--)
    if (CPU_ISSET (cpu, &all))
      CPU_SET (cpu, &last);
  if (sched_setaffinity (0, sizeof last, &last) < 0)
    exit (1);
}

static void *
execute (void *data)
{
  nap (50 * MS);
  execl ("/proc/self/exe", "thread-times", "rest", (char *) NULL);
  exit (1);
}

int
main (int argc, char **argv)
{
  pthread_t threads[N_KINDS];
  pthread_t other;

  if (argc < 2 || pipe (there) < 0 || pipe (back) < 0 || pipe (never) < 0 || pipe (done) < 0)
    return 1;
  if (strcmp (argv[1], "rest") == 0)
    {
      nap (100 * MS);
      print_account ("rest");
      return 0;
    }
  if (strcmp (argv[1], "exec") == 0)
    {
      pthread_create (&other, NULL, execute, NULL);
      pass (never[0], -1);
    }
  if ((strcmp (argv[1], "switch") == 0 || strcmp (argv[1], "bounce") == 0) && argc > 2)
    {
      int is_counted = strcmp (argv[1], "bounce") == 0;

      switch_s = atof (argv[2]);
      n_bounces = atol (argv[2]);
      if (is_counted)
        stay_on_one_processor ();
      pthread_create (&other, NULL, is_counted ? bounce_often : bounce, NULL);
      for (;;)
        pass (there[0], back[1]);
    }
  stays = strcmp (argv[1], "stay") == 0;
  for (size_t i = 0; i < N_KINDS; i++)
    pthread_create (&threads[i], NULL, run, (void *) i);
  for (size_t i = 0; i < N_KINDS; i++)
    pass (done[0], -1);
  for (size_t i = 0; i < N_KINDS && !stays; i++)
    pthread_join (threads[i], NULL);
  print_account ("main");
  if (stays)
    nap (1000 * (long) MS);
  return 0;
}
