/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures how many frames a second go through a ring, from one core to the other, and what a mark
 * costs. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "shared-ring/collector/sonde-collector.h"
#include "shared-ring/ring-reader.h"
#include "shared-ring/ring-writer.h"
#include "tests/lib/control-server.h"

#define N_FRAMES    UINT64_C (8000000)
#define N_MARKS     300000
#define N_QUESTIONS 10000000
#define N_TRIES     7
#define PAUSE_NS    100000
#define N_ADDRS     2 /* makes an allocation 64 bytes long */
#define WAIT_US     1000000
#define TURN_BYTES  (64 * 1024)

typedef struct
{
  double wall_s;
  double writer_s; /* CPU time */
  double reader_s; /* CPU time */
  uint64_t n_lost;
} Cost;

typedef struct
{
  SondeRingMemory memory; /* the writer's */
  Cost *cost;
} Writer;

static double
now_s (clockid_t clock)
{
  struct timespec now;

  clock_gettime (clock, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* The calling thread, to one core; CPU_SETSIZE: to any. */
static void
pin (unsigned cpu)
{
  cpu_set_t set;

  CPU_ZERO (&set);
  for (unsigned i = 0; i < CPU_SETSIZE; i++)
    if (i == cpu || cpu >= CPU_SETSIZE)
      CPU_SET (i, &set);
  sched_setaffinity (0, sizeof set, &set);
}

static void
write_frame (SondeRingWriter *ring, uint64_t n)
{
  SondeFrameAllocation *frame;
  void *place;

  if (sonde_ring_writer_reserve (ring, sizeof *frame + N_ADDRS * sizeof (uint64_t), &place) < 0)
    return;

  frame = place;
  *frame = (SondeFrameAllocation){ .frame = { .len = sizeof *frame + N_ADDRS * sizeof (uint64_t),
                                              .cpu = -1,
                                              .pid = 1,
                                              .time_ns = (int64_t) n,
                                              .type = SONDE_FRAME_ALLOCATION },
                                   .address = n,
                                   .size_bytes = 64,
                                   .tid = 1,
                                   .n_addrs = N_ADDRS };
  frame->addrs[0] = n;
  frame->addrs[1] = ~n;
  sonde_ring_writer_commit (ring);
}

static void *
write_all (void *data)
{
  Writer *self = data;
  SondeRingWriter *ring = NULL;
  SondeRingLosses losses;

  pin (0);
  if (sonde_ring_writer_new (&self->memory, -1, &ring) < 0)
    abort ();
  for (uint64_t n = 0; n < N_FRAMES; n++)
    write_frame (ring, n);
  sonde_ring_writer_count (ring, NULL, &losses);
  self->cost->n_lost = losses.lost_events;
  sonde_ring_writer_close (ring);
  self->cost->writer_s = now_s (CLOCK_THREAD_CPUTIME_ID);

  return NULL;
}

/* As a worker does it: in turns with a budget, and a sleep when little waited. A reader that looked
 * all the time would take the line with the writer's position from it at each frame. The sum keeps
 * the compiler from leaving the frames unread. */
static uint64_t
read_all (SondeRingReader *reader)
{
  static const struct timespec pause = { .tv_nsec = PAUSE_NS };
  const SondeFrame *frame;
  uint64_t sum = 0;
  int r = 0;

  while (r == 0)
    {
      size_t fill_bytes;

      r = sonde_ring_reader_begin (reader, TURN_BYTES);
      fill_bytes = sonde_ring_reader_fill (reader);
      while (r == 0 && (r = sonde_ring_reader_next (reader, &frame)) == 1)
        {
          sum += ((const SondeFrameAllocation *) frame)->address;
          r = 0;
        }
      sonde_ring_reader_release (reader);
      if (r == 0 && fill_bytes < sonde_ring_reader_size (reader) / 4)
        nanosleep (&pause, NULL);
    }

  return sum;
}

static void
measure (Cost *cost)
{
  static const SondeRingOptions options = { SONDE_RING_NATIVE, 1024 * 1024, WAIT_US, 0 };
  static const SondeRingRights rights = { SONDE_RING_COLLECTOR_TYPES, 1 };
  Writer writer = { .cost = cost };
  SondeRingMemory memory;
  SondeRingReader *reader;
  pthread_t thread;
  double cpu_s, start_s;
  uint64_t sum;
  int fd;

  if (sonde_ring_memory_create (&options, &memory, &fd) < 0
      || sonde_ring_memory_map (fd, &writer.memory) < 0
      || sonde_ring_reader_new (&memory, &rights, &reader) < 0)
    abort ();

  pin (1);
  cpu_s = now_s (CLOCK_THREAD_CPUTIME_ID);
  start_s = now_s (CLOCK_MONOTONIC);
  if (pthread_create (&thread, NULL, write_all, &writer) != 0)
    abort ();
  sum = read_all (reader);
  cost->wall_s = now_s (CLOCK_MONOTONIC) - start_s;
  cost->reader_s = now_s (CLOCK_THREAD_CPUTIME_ID) - cpu_s;
  pthread_join (thread, NULL);
  if (cost->n_lost == 0 && sum != N_FRAMES * (N_FRAMES - 1) / 2)
    abort ();

  sonde_ring_reader_free (reader);
  sonde_ring_memory_unmap (&writer.memory);
}

/* Seconds that it takes with a core for each side: as long as the slower one. */
static double
slower_s (const Cost *cost)
{
  return cost->writer_s > cost->reader_s ? cost->writer_s : cost->reader_s;
}

static int
compare_numbers (const void *first, const void *second)
{
  double a = *(const double *) first;
  double b = *(const double *) second;

  return (a > b) - (a < b);
}

static int
compare (const void *first, const void *second)
{
  const double a = slower_s (first);
  const double b = slower_s (second);

  return compare_numbers (&a, &b);
}

/* What a client tells: ns of CPU time for each mark, a reading of the clock included. */
static double *mark_ns;

static int
measure_marks (void)
{
  double start_s;

  sonde_collector_prepare_thread ();
  start_s = now_s (CLOCK_THREAD_CPUTIME_ID);
  for (unsigned i = 0; i < N_MARKS; i++)
    sonde_collector_mark (sonde_collector_now (), 5, "group", "name", "a message");
  *mark_ns = (now_s (CLOCK_THREAD_CPUTIME_ID) - start_s) * 1e9 / N_MARKS;

  return 0;
}

/* The same of each question whether it is wanted. */
static int
measure_questions (void)
{
  unsigned n_wanted = 0;
  double start_s;

  sonde_collector_prepare_thread ();
  start_s = now_s (CLOCK_THREAD_CPUTIME_ID);
  for (unsigned i = 0; i < N_QUESTIONS; i++)
    n_wanted += sonde_collector_is_wanted ();
  *mark_ns = (now_s (CLOCK_THREAD_CPUTIME_ID) - start_s) * 1e9 / N_QUESTIONS;

  return n_wanted == 0 ? 0 : 1;
}

/* Of a program with a profiler that takes all, or with none. */
static double
median_ns (int (*program) (void), const char *variable)
{
  const ControlServerOptions options = { .socket_type = SOCK_SEQPACKET, .wait_us = WAIT_US };
  double tries[N_TRIES];

  for (unsigned i = 0; i < N_TRIES; i++)
    {
      ControlServer *server = control_server_new (&options);

      if (control_server_run (server, program, variable) != 0)
        abort ();
      control_server_free (server);
      tries[i] = *mark_ns;
    }
  qsort (tries, N_TRIES, sizeof *tries, compare_numbers);

  return tries[N_TRIES / 2];
}

/* By CPU time, because other programs may want the same cores. */
int
main (void)
{
  const double n_frames = (double) N_FRAMES;
  Cost costs[N_TRIES];
  const Cost *median = &costs[N_TRIES / 2];
  uint64_t n_lost = 0;

  mark_ns = mmap (NULL, sizeof *mark_ns, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mark_ns == MAP_FAILED)
    abort ();
  for (unsigned i = 0; i < N_TRIES; i++)
    {
      measure (&costs[i]);
      n_lost += costs[i].n_lost;
    }
  pin (CPU_SETSIZE);
  qsort (costs, N_TRIES, sizeof *costs, compare);
  printf ("64 bytes from core to core: writer %.1f ns, reader %.1f ns of CPU time a frame; "
          "%.1f million/s by the clock\n",
          median->writer_s * 1e9 / n_frames, median->reader_s * 1e9 / n_frames,
          n_frames / median->wall_s / 1e6);
  fflush (stdout);
  printf ("bench ring mframes_per_s=%.1f mark_ns=%.1f unheard_ns=%.1f wanted_ns=%.2f lost=%llu\n",
          n_frames / slower_s (median) / 1e6, median_ns (measure_marks, "SONDE_CONTROL_FD"),
          median_ns (measure_marks, "UNRELATED"), median_ns (measure_questions, "UNRELATED"),
          (unsigned long long) n_lost);

  return EXIT_SUCCESS;
}
