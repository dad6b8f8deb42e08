/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libsonde-memory in programs that do unusual things: what it records, and that they do not notice.
 */
#include <fcntl.h>
#include <glib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/control-server.h"
#include "tests/lib/heap-summary.h"

#define MAX_ARGUMENTS 24
#define WAIT_US       10000000

/* Of the command line. */
static const char *library;
static const char *client;
static const char *allocator;
static char *const *modules; /* NULL-terminated */

static const ControlServerOptions all
    = { .socket_type = SOCK_SEQPACKET, .wait_us = WAIT_US, .memory_mode = SONDE_MEMORY_ALL };

/* Of the run that is under way. */
static const char *preloads;
static const char *arguments[MAX_ARGUMENTS];
static int output = -1;
static int input = -1;
static gboolean with_mappings;

static int
run_client (void)
{
  if (output >= 0)
    dup2 (output, STDOUT_FILENO);
  if (input >= 0)
    dup2 (input, STDIN_FILENO);
  if (with_mappings)
    g_setenv ("SONDE_MEMORY_MMAP", "1", TRUE);
  g_setenv ("LD_PRELOAD", preloads, TRUE);
  execv (client, (char *const *) arguments);
  return 127;
}

static void
set_arguments (const char *name, const char *argument)
{
  preloads = library;
  arguments[0] = client;
  arguments[1] = name;
  arguments[2] = argument;
  arguments[3] = NULL;
}

/* Runs it below a profiler; it must succeed. */
static ControlServer *
run (const ControlServerOptions *options)
{
  ControlServer *server = control_server_new (options);
  int status = control_server_run (server, run_client, "SONDE_CONTROL_FD");

  g_assert_cmpint (status, ==, 0);
  return server;
}

static void
sum_up (const ControlServer *server, HeapSummary *sum)
{
  g_autoptr (HeapEvents) events = heap_events_new ();

  for (guint i = 0; i < server->rings->len; i++)
    {
      const ControlRing *ring = server->rings->pdata[i];

      for (guint k = 0; k < ring->frames->len; k++)
        heap_events_take (events, ring->frames->pdata[k]);
    }
  heap_events_sum (events, 0, sum);
}

/* Calls @check for each allocation of @low to @high bytes; returns how many there are. */
static guint
count_sizes (const ControlServer *server, gint64 low, gint64 high)
{
  guint n = 0;

  for (guint i = 0; i < server->rings->len; i++)
    {
      const ControlRing *ring = server->rings->pdata[i];

      for (guint k = 0; k < ring->frames->len; k++)
        {
          const SondeFrameAllocation *frame = ring->frames->pdata[k];

          n += frame->frame.type == SONDE_FRAME_ALLOCATION && frame->size_bytes >= low
               && frame->size_bytes <= high;
        }
    }
  return n;
}

static void
records_each_function (void)
{
  static const gint64 sizes[]
      = { 100001, 100010, 100002, 300003, 400005, 100004, 100096, 100006, 100007, 100008, 1, 13 };
  g_autoptr (ControlServer) server = NULL;
  HeapSummary sum;

  set_arguments ("all", NULL);
  server = run (&all);
  sum_up (server, &sum);
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    g_assert_cmpuint (count_sizes (server, sizes[i], sizes[i]), ==, 1);
  g_assert_cmpuint (sum.n_allocations, ==, G_N_ELEMENTS (sizes));
  g_assert_cmpuint (sum.n_frees, ==, G_N_ELEMENTS (sizes));
  g_assert_cmpuint (sum.n_unknown + sum.n_twice, ==, 0);
  /* At least the function, main() and what called it. */
  g_assert_cmpuint (sum.n_addrs, >=, 3 * sum.n_allocations);
}

static void
takes_back_what_failed (void)
{
  g_autoptr (ControlServer) server = NULL;
  HeapSummary sum;

  set_arguments ("fail", NULL);
  server = run (&all);
  sum_up (server, &sum);
  g_assert_cmpuint (sum.n_live, ==, 0);
  g_assert_cmpuint (sum.n_unknown + sum.n_twice, ==, 0);
  g_assert_cmpuint (count_sizes (server, 1 << 20, G_MAXINT64), ==, 0);
}

/* Whether anybody listens or not. */
static void
gives_back_what_others_gave (void)
{
  static const SondeMemoryMode modes[]
      = { SONDE_MEMORY_ALL, SONDE_MEMORY_SAMPLED, SONDE_MEMORY_OFF };

  for (guint i = 0; i < 2 * G_N_ELEMENTS (modes); i++)
    {
      ControlServerOptions options = all;
      g_autoptr (ControlServer) server = NULL;

      options.memory_mode = modes[i / 2];
      options.memory_interval_bytes = 20000;
      set_arguments (i % 2 == 0 ? "foreign" : "foreign-grown", NULL);
      server = run (&options);
    }
}

static void
keeps_threads_apart (void)
{
  g_autoptr (ControlServer) server = NULL;
  HeapSummary sum;

  set_arguments ("threads", NULL);
  server = run (&all);
  sum_up (server, &sum);
  g_assert_cmpuint (server->rings->len, ==, 13);
  g_assert_cmpuint (count_sizes (server, 1000, 2999), ==, 3 * 4 * 2000);
  g_assert_cmpuint (sum.n_twice, ==, 0);
  g_assert_cmpuint (sum.n_unknown, ==, 0);
  g_assert_cmpuint (sum.n_frees, ==, 3 * 4 * 2000);
}

static void
gives_children_rings_of_their_own (void)
{
  g_autoptr (ControlServer) server = NULL;

  set_arguments ("children", NULL);
  server = run (&all);
  g_assert_cmpuint (count_sizes (server, 200001, 200001), ==, 4);
  g_assert_cmpuint (count_sizes (server, 200002, 200002), ==, 1);
  g_assert_cmpuint (server->n_links, ==, 6);
}

static void
knows_the_thread_of_a_first_event (void)
{
  g_autoptr (ControlServer) server = NULL;

  set_arguments ("free-in-child", NULL);
  server = run (&all);
  g_assert_cmpuint (server->rings->len, ==, 2);
  for (guint i = 0; i < server->rings->len; i++)
    {
      const ControlRing *ring = server->rings->pdata[i];

      g_assert_cmpuint (ring->frames->len, >, 0);
      for (guint k = 0; k < ring->frames->len; k++)
        {
          const SondeFrameAllocation *frame = ring->frames->pdata[k];

          if (frame->frame.type == SONDE_FRAME_ALLOCATION)
            g_assert_cmpint (frame->tid, ==, ring->tid);
        }
    }
}

static void
tells_of_mappings_if_asked (void)
{
  const gint64 page = sysconf (_SC_PAGESIZE);
  g_autoptr (ControlServer) with = NULL;
  g_autoptr (ControlServer) without = NULL;
  HeapSummary sum;

  set_arguments ("map", NULL);
  without = run (&all);
  g_assert_cmpuint (count_sizes (without, 11 * page, G_MAXINT64), ==, 0);

  with_mappings = TRUE;
  with = run (&all);
  with_mappings = FALSE;
  sum_up (with, &sum);
  g_assert_cmpuint (count_sizes (with, 11 * page, 11 * page), ==, 1);
  g_assert_cmpuint (count_sizes (with, 23 * page, 23 * page), ==, 1);
  g_assert_cmpuint (sum.n_allocations, ==, 2);
  g_assert_cmpuint (sum.n_frees, ==, 2);
  g_assert_cmpuint (sum.n_unknown, ==, 0);
}

static void
survives_signal_handlers (void)
{
  g_autofree char *both = g_strdup_printf ("%s %s", library, allocator);
  g_autoptr (ControlServer) server = NULL;
  SondeRingCounts counts;

  set_arguments ("signals", NULL);
  preloads = both;
  server = run (&all);
  control_server_account (server, &counts);
  /* Those that interrupted another event are lost, and counted. */
  g_assert_cmpuint (count_sizes (server, 300001, 300001) * 2 + counts.claimed.lost_events, >=, 20);
  g_assert_cmpuint (counts.claimed.lost_events, <=, 2 * 100);
}

static void
walks_other_stacks (void)
{
  g_autoptr (ControlServer) server = NULL;

  set_arguments ("stacks", NULL);
  server = run (&all);
  g_assert_cmpuint (count_sizes (server, 400001, 400001), ==, 20 * 50);
  g_assert_cmpuint (count_sizes (server, 400002, 400002), ==, 20 * 50);
}

static char *
read_output (void)
{
  char text[64];
  ssize_t n = pread (output, text, sizeof text - 1, 0);

  g_assert_cmpint (n, >=, 0);
  text[n] = '\0';
  close (output);
  output = -1;
  return g_strdup (text);
}

/* The stack of each ends in the same way, whatever module was at that place before. */
static void
check_stacks (const ControlServer *server)
{
  const ControlRing *ring = server->rings->pdata[0];
  guint64 outermost = 0;
  guint n_addrs = 0;

  for (guint k = 0; k < ring->frames->len; k++)
    {
      const SondeFrameAllocation *frame = ring->frames->pdata[k];
      guint64 last;

      if (frame->frame.type != SONDE_FRAME_ALLOCATION || frame->size_bytes <= 700000
          || frame->size_bytes >= 700100)
        continue;
      memcpy (&last, frame->addrs + frame->n_addrs - 1, sizeof last);
      if (outermost == 0)
        {
          outermost = last;
          n_addrs = frame->n_addrs;
        }
      g_assert_cmpuint (frame->n_addrs, ==, n_addrs);
      g_assert_cmphex (last, ==, outermost);
    }
  g_assert_cmpuint (n_addrs, >=, 4);
}

static void
follows_modules_and_takes_no_static_tls (void)
{
  g_autoptr (ControlServer) server = NULL;
  g_autoptr (ControlServer) plain = NULL;
  g_autofree char *output_with = NULL;
  g_autofree char *output_without = NULL;

  set_arguments ("modules", NULL);
  for (guint i = 0; modules[i] != NULL; i++)
    {
      arguments[2 + i] = modules[i];
      arguments[3 + i] = NULL;
    }
  output = memfd_create ("output", MFD_CLOEXEC);
  server = run (&all);
  output_with = read_output ();

  preloads = "";
  output = memfd_create ("output", MFD_CLOEXEC);
  plain = run (&all);
  output_without = read_output ();

  g_assert_cmpstr (output_with, ==, output_without);
  check_stacks (server);
}

static void
sees_what_destructors_free (void)
{
  g_autoptr (ControlServer) server = NULL;
  HeapSummary sum;

  set_arguments ("thread-ends", NULL);
  server = run (&all);
  sum_up (server, &sum);
  g_assert_cmpuint (count_sizes (server, 500001, 500001), ==, 10);
  g_assert_cmpuint (sum.live_bytes, <, 500001);
}

static void
leaves_descriptors_alone_that_are_not_its_own (void)
{
  g_autoptr (ControlServer) server = NULL;

  set_arguments ("close", NULL);
  server = run (&all);
  g_assert_cmpuint (count_sizes (server, 600001, 600001), ==, 1);
}

static void
asks_a_mute_profiler_once (void)
{
  ControlServerOptions mute = all;
  g_autoptr (ControlServer) server = NULL;

  mute.is_mute = TRUE;
  set_arguments ("threads", NULL);
  server = run (&mute);
  g_assert_cmpuint (server->rings->len, ==, 0);
}

/* Children, too, who have their parent's words, but not its rings. */
static void
makes_nothing_while_paused (void)
{
  static const char *const names[] = { "events", "threads", "children" };
  ControlServerOptions paused = all;

  paused.is_paused = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (ControlServer) server = NULL;
      SondeRingCounts counts;

      set_arguments (names[i], i == 0 ? "1000" : NULL);
      server = run (&paused);
      control_server_account (server, &counts);
      g_assert_cmpuint (server->rings->len, >, 0);
      g_assert_cmpuint (counts.frames + counts.claimed.lost_events, ==, 0);
    }
}

/* A program that goes on, paused after its first frames, and resumed when it has made none for some
 * turns. */
static struct
{
  int input[2];
  guint n_frames;
  guint n_quiet_turns;
  guint n_paused_at;
} switching;

static void
pause_and_resume (gpointer data)
{
  ControlServer *server = data;
  ControlRing *ring = server->rings->len > 0 ? server->rings->pdata[0] : NULL;
  guint n_frames = ring != NULL ? ring->frames->len : 0;

  switching.n_quiet_turns = n_frames == switching.n_frames ? switching.n_quiet_turns + 1 : 0;
  switching.n_frames = n_frames;
  if (n_frames > 100 && switching.n_paused_at == 0)
    {
      sonde_ring_reader_pause (ring->reader, TRUE);
      switching.n_paused_at = n_frames;
    }
  else if (switching.n_paused_at != 0 && switching.n_quiet_turns == 5)
    {
      sonde_ring_reader_pause (ring->reader, FALSE);
      switching.n_paused_at = n_frames;
    }
  else if (switching.n_paused_at != 0 && switching.n_quiet_turns == 0
           && n_frames > switching.n_paused_at + 100000 && switching.input[1] >= 0)
    {
      close (switching.input[1]);
      switching.input[1] = -1;
    }
}

static void
can_be_paused_and_resumed (void)
{
  ControlServerOptions options = all;
  g_autoptr (ControlServer) server = NULL;

  options.turn = pause_and_resume;
  g_assert_cmpint (pipe2 (switching.input, O_CLOEXEC), ==, 0);
  set_arguments ("until-told", NULL);
  input = switching.input[0];
  server = run (&options);
  close (input);
  input = -1;
  g_assert_cmpint (switching.input[1], ==, -1);
}

static void
makes_nothing_that_is_not_wanted (void)
{
  ControlServerOptions off = all;
  g_autoptr (ControlServer) server = NULL;
  SondeRingCounts counts;

  off.memory_mode = SONDE_MEMORY_OFF;
  set_arguments ("events", "1000");
  server = run (&off);
  control_server_account (server, &counts);
  g_assert_cmpuint (counts.frames + counts.claimed.lost_events, ==, 0);
}

/* Not faster than any reader could be. */
static void
counts_what_it_drops (void)
{
  ControlServerOptions dropping = all;
  g_autoptr (ControlServer) server = NULL;
  SondeRingCounts counts;
  HeapSummary sum;

  dropping.wait_us = 0;
  set_arguments ("events", "300000");
  server = run (&dropping);
  control_server_account (server, &counts);
  sum_up (server, &sum);
  g_test_message ("%" G_GUINT64_FORMAT " of 600000 lost", counts.claimed.lost_events);
  g_assert_cmpuint (counts.frames + counts.claimed.lost_events, ==, 600000);
  g_assert_cmpuint (sum.n_allocations + sum.n_frees + sum.n_unknown, ==, counts.frames);
}

static void
waits_for_room_if_the_session_says_so (void)
{
  g_autoptr (ControlServer) server = NULL;
  SondeRingCounts counts;
  HeapSummary sum;

  set_arguments ("events", "300000");
  server = run (&all);
  control_server_account (server, &counts);
  sum_up (server, &sum);
  g_assert_cmpuint (counts.frames, ==, 600000);
  g_assert_cmpuint (counts.claimed.lost_events, ==, 0);
  g_assert_cmpuint (sum.n_frees, ==, 300000);
  g_assert_cmpuint (sum.peak_bytes, ==, 64);
}

/* What a profiler learns does not depend on whether its rings take records; and these are small. */
static void
says_the_same_in_short (void)
{
  static const char *const names[] = { "events", "threads", "children", "stacks", "all" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      HeapSummary sums[2];
      SondeRingCounts counts[2];

      for (guint k = 0; k < 2; k++)
        {
          ControlServerOptions options = all;
          g_autoptr (ControlServer) server = NULL;

          options.wants_frames = k == 0;
          set_arguments (names[i], i == 0 ? "20000" : NULL);
          server = run (&options);
          control_server_account (server, &counts[k]);
          sum_up (server, &sums[k]);
          g_assert_cmpuint (counts[k].claimed.lost_events, ==, 0);
        }
      g_test_message ("%s: %.1f bytes an event, %.1f in short", names[i],
                      (double) counts[0].bytes / (double) counts[0].frames,
                      (double) counts[1].bytes / (double) counts[1].frames);
      g_assert_cmpuint (sums[1].n_allocations, ==, sums[0].n_allocations);
      g_assert_cmpuint (sums[1].n_frees, ==, sums[0].n_frees);
      g_assert_cmpuint (sums[1].allocated_bytes, ==, sums[0].allocated_bytes);
      g_assert_cmpuint (sums[1].n_live, ==, sums[0].n_live);
      g_assert_cmpuint (sums[1].live_bytes, ==, sums[0].live_bytes);
      g_assert_cmpuint (sums[1].n_unknown, ==, sums[0].n_unknown);
      g_assert_cmpuint (sums[1].n_twice, ==, 0);
      g_assert_cmpuint (sums[1].n_addrs, ==, sums[0].n_addrs);
      if (i == 0)
        g_assert_cmpuint (counts[1].bytes, <=, 21 * counts[1].frames);
    }
}

/* Blocks of 64 bytes, one of 4096 bytes: 5 standard deviations are one failure in a million. */
static void
samples_each_byte_alike (void)
{
  const double n_blocks = 400000;
  const double probability = 1 - exp (-64.0 / 4096.0);
  const double expected = n_blocks * probability;
  ControlServerOptions sampled = all;
  g_autoptr (ControlServer) server = NULL;
  HeapSummary sum;

  sampled.memory_mode = SONDE_MEMORY_SAMPLED;
  sampled.memory_interval_bytes = 4096;
  set_arguments ("events", "400000");
  server = run (&sampled);
  sum_up (server, &sum);
  g_test_message ("%" G_GUINT64_FORMAT " samples, %.0f expected", sum.n_allocations, expected);
  g_assert_cmpfloat (fabs ((double) sum.n_allocations - expected), <,
                     5 * sqrt (expected * (1 - probability)));
  g_assert_cmpuint (sum.n_frees, ==, sum.n_allocations);
  g_assert_cmpuint (sum.n_unknown + sum.n_twice, ==, 0);
  g_assert_cmpuint (sum.allocated_bytes, ==, 64 * sum.n_allocations);
}

/* What is sampled is freed by other threads, and by children. */
static void
samples_in_threads_and_children (void)
{
  ControlServerOptions sampled = all;
  g_autoptr (ControlServer) server = NULL;
  g_autoptr (ControlServer) children = NULL;
  HeapSummary sum;

  sampled.memory_mode = SONDE_MEMORY_SAMPLED;
  sampled.memory_interval_bytes = 20000;
  set_arguments ("threads", NULL);
  server = run (&sampled);
  sum_up (server, &sum);
  g_assert_cmpuint (sum.n_allocations, >, 1000);
  g_assert_cmpuint (sum.n_unknown + sum.n_twice, ==, 0);
  g_assert_cmpuint (sum.live_bytes, <, 5000);

  set_arguments ("children", NULL);
  children = run (&sampled);
  g_assert_cmpuint (count_sizes (children, 200001, 200001), ==, 4);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, >, 4);
  library = argv[1];
  client = argv[2];
  allocator = argv[3];
  modules = argv + 4;

  g_test_add_func ("/memory/asks-a-mute-profiler-once", asks_a_mute_profiler_once);
  g_test_add_func ("/memory/makes-nothing-that-is-not-wanted", makes_nothing_that_is_not_wanted);
  g_test_add_func ("/memory/makes-nothing-while-paused", makes_nothing_while_paused);
  g_test_add_func ("/memory/can-be-paused-and-resumed", can_be_paused_and_resumed);
  g_test_add_func ("/memory/records-each-function", records_each_function);
  g_test_add_func ("/memory/takes-back-what-failed", takes_back_what_failed);
  g_test_add_func ("/memory/gives-back-what-others-gave", gives_back_what_others_gave);
  g_test_add_func ("/memory/keeps-threads-apart", keeps_threads_apart);
  g_test_add_func ("/memory/gives-children-rings-of-their-own", gives_children_rings_of_their_own);
  g_test_add_func ("/memory/knows-the-thread-of-a-first-event", knows_the_thread_of_a_first_event);
  g_test_add_func ("/memory/tells-of-mappings-if-asked", tells_of_mappings_if_asked);
  g_test_add_func ("/memory/survives-signal-handlers", survives_signal_handlers);
  g_test_add_func ("/memory/walks-other-stacks", walks_other_stacks);
  g_test_add_func ("/memory/follows-modules-and-takes-no-static-tls",
                   follows_modules_and_takes_no_static_tls);
  g_test_add_func ("/memory/sees-what-destructors-free", sees_what_destructors_free);
  g_test_add_func ("/memory/leaves-descriptors-alone-that-are-not-its-own",
                   leaves_descriptors_alone_that_are_not_its_own);
  g_test_add_func ("/memory/counts-what-it-drops", counts_what_it_drops);
  g_test_add_func ("/memory/waits-for-room-if-the-session-says-so",
                   waits_for_room_if_the_session_says_so);
  g_test_add_func ("/memory/says-the-same-in-short", says_the_same_in_short);
  g_test_add_func ("/memory/samples-each-byte-alike", samples_each_byte_alike);
  g_test_add_func ("/memory/samples-in-threads-and-children", samples_in_threads_and_children);

  return g_test_run ();
}
