/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A program with threads that takes descriptors, links and threads away from under the collector:
 * unruly WAY. Each part of its work is blocks of another size. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define N_BLOCKS  1000
#define N_THREADS 4
#define N_ROUNDS  5
#define N_FDS     300
#define LEFT_MS   300 /* until the profiler has left the rings of a link that is closed */

static atomic_int n_ready;
static atomic_bool may_end;

static void
rest (long ms)
{
  const struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

  nanosleep (&time, NULL);
}

static void
work (size_t size_bytes)
{
  for (unsigned i = 0; i < N_BLOCKS; i++)
    {
      void *volatile block = malloc (size_bytes);

      free (block);
    }
}

/* All but the control socket, by which it comes back. */
static void
close_link (void)
{
  const char *text = getenv ("SONDE_CONTROL_FD");
  int control = text != NULL ? atoi (text) : -1;

  for (int fd = 3; fd < N_FDS; fd++)
    if (fd != control)
      close (fd);
}

static void
start (pthread_t *threads, void *(*run) (void *) )
{
  n_ready = 0;
  may_end = false;
  for (unsigned i = 0; i < N_THREADS; i++)
    if (pthread_create (&threads[i], NULL, run, NULL) != 0)
      exit (1);
}

static void
await_ready (void)
{
  while (n_ready < N_THREADS)
    rest (1);
}

static void
join_all (const pthread_t *threads)
{
  for (unsigned i = 0; i < N_THREADS; i++)
    pthread_join (threads[i], NULL);
}

/* libc frees the memory of strerror() behind all that a thread does. */
static void *
work_and_end (void *data)
{
  (void) data;
  work (10001);
  if (strerror (987654) == NULL)
    exit (1);
  n_ready++;
  while (!may_end)
    rest (1);
  return NULL;
}

static int
end_behind_a_link (void)
{
  pthread_t threads[N_THREADS];

  for (unsigned round = 0; round < N_ROUNDS; round++)
    {
      start (threads, work_and_end);
      await_ready ();
      close_link ();
      rest (LEFT_MS);
      may_end = true;
      join_all (threads);
      work (10002);
    }
  return 0;
}

static void *
work_cancelled (void *data)
{
  (void) data;
  while (!may_end)
    ;
  work (10001);
  n_ready++;
  pthread_testcancel ();
  return NULL;
}

/* The request for a ring, and the doorbell, are no places to end. */
static int
cancel_at_once (void)
{
  pthread_t threads[N_THREADS];

  start (threads, work_cancelled);
  for (unsigned i = 0; i < N_THREADS; i++)
    pthread_cancel (threads[i]);
  may_end = true;
  join_all (threads);
  work (10002);
  return n_ready == N_THREADS ? 0 : 1;
}

static void *
work_once (void *data)
{
  work (*(const size_t *) data);
  return NULL;
}

static int
run_out_of_descriptors (void)
{
  static const size_t missed = 10001, made = 10002;
  struct rlimit limit = { 40, 40 };
  pthread_t thread;

  work (10003);
  if (setrlimit (RLIMIT_NOFILE, &limit) < 0)
    return 1;
  while (dup (2) >= 0)
    ;
  if (pthread_create (&thread, NULL, work_once, (void *) &missed) != 0)
    return 1;
  pthread_join (thread, NULL);
  for (int fd = 30; fd < 40; fd++)
    close (fd);
  if (pthread_create (&thread, NULL, work_once, (void *) &made) != 0)
    return 1;
  pthread_join (thread, NULL);
  return 0;
}

static void *
work_much (void *data)
{
  (void) data;
  n_ready++;
  for (unsigned i = 0; i < 100; i++)
    work (10001);
  return NULL;
}

static int
close_while_others_ask (void)
{
  pthread_t threads[N_THREADS];

  start (threads, work_much);
  await_ready ();
  close_link ();
  join_all (threads);
  return 0;
}

int
main (int argc, char *argv[])
{
  static const struct
  {
    const char *name;
    int (*go) (void);
  } ways[] = {
    { "ending", end_behind_a_link },
    { "cancelled", cancel_at_once },
    { "full", run_out_of_descriptors },
    { "closing", close_while_others_ask },
  };

  for (unsigned i = 0; argc == 2 && i < sizeof ways / sizeof ways[0]; i++)
    if (strcmp (argv[1], ways[i].name) == 0)
      return ways[i].go ();
  return 2;
}
