/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs a program below libsonde-memory with a profiler of the tests', and prints what its heap did.
 */
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/control-server.h"
#include "tests/lib/heap-summary.h"

static char **command;
static char *library;
static gboolean is_paused, is_mute, counts_only, wants_frames;
static int interval_bytes, wait_us, max_depth, ring_bytes;

static const GOptionEntry entries[] = {
  { "library", 'l', 0, G_OPTION_ARG_FILENAME, &library, "libsonde-memory.so", "FILE" },
  { "interval", 'i', 0, G_OPTION_ARG_INT, &interval_bytes, "sample at this mean distance",
    "BYTES" },
  { "wait", 'w', 0, G_OPTION_ARG_INT, &wait_us, "let the program wait for room", "US" },
  { "depth", 'd', 0, G_OPTION_ARG_INT, &max_depth, "of stacks", "N" },
  { "ring", 'r', 0, G_OPTION_ARG_INT, &ring_bytes, "size of rings", "BYTES" },
  { "paused", 'p', 0, G_OPTION_ARG_NONE, &is_paused, "want no events", NULL },
  { "mute", 'm', 0, G_OPTION_ARG_NONE, &is_mute, "do not answer", NULL },
  { "frames", 'f', 0, G_OPTION_ARG_NONE, &wants_frames, "let no event come in short", NULL },
  { "counts", 'c', 0, G_OPTION_ARG_NONE, &counts_only, "do not look at the events", NULL },
  { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &command, NULL, NULL },
  { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
};

static int
run_command (void)
{
  g_setenv ("LD_PRELOAD", library, TRUE);
  execvp (command[0], command);
  fprintf (stderr, "cannot run %s: %m\n", command[0]);
  return 127;
}

static void
take (gpointer events, const SondeFrame *frame)
{
  if (events != NULL)
    heap_events_take (events, frame);
}

static void
print (const ControlServer *server, HeapEvents *events)
{
  SondeRingCounts counts;
  HeapSummary sum;

  control_server_account (server, &counts);
  heap_events_sum (events, 0, &sum);
  fprintf (stderr,
           "heap rings=%u links=%u frames=%" G_GUINT64_FORMAT " bytes=%" G_GUINT64_FORMAT
           " lost=%" G_GUINT64_FORMAT " blocked=%" G_GUINT64_FORMAT " blocked_ns=%" G_GUINT64_FORMAT
           " allocations=%" G_GUINT64_FORMAT " frees=%" G_GUINT64_FORMAT
           " allocated_bytes=%" G_GUINT64_FORMAT " peak_bytes=%" G_GUINT64_FORMAT
           " live=%" G_GUINT64_FORMAT " live_bytes=%" G_GUINT64_FORMAT " unknown=%" G_GUINT64_FORMAT
           " twice=%" G_GUINT64_FORMAT " addrs=%" G_GUINT64_FORMAT "\n",
           server->rings->len, server->n_links, counts.frames, counts.bytes,
           counts.claimed.lost_events, counts.claimed.blocked_events, counts.claimed.blocked_ns,
           sum.n_allocations, sum.n_frees, sum.allocated_bytes, sum.peak_bytes, sum.n_live,
           sum.live_bytes, sum.n_unknown, sum.n_twice, sum.n_addrs);
}

int
main (int argc, char **argv)
{
  g_autoptr (GOptionContext) context = g_option_context_new ("-- COMMAND");
  g_autoptr (GError) error = NULL;
  g_autoptr (HeapEvents) events = heap_events_new ();
  g_autoptr (ControlServer) server = NULL;
  ControlServerOptions options = { .socket_type = SOCK_SEQPACKET };
  int status;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || command == NULL || library == NULL)
    {
      fprintf (stderr, "%s\n", error != NULL ? error->message : "--library=FILE -- COMMAND");
      return EXIT_FAILURE;
    }

  options.wait_us = (guint32) wait_us;
  options.may_grow = ring_bytes == 0;
  options.is_paused = is_paused;
  options.is_mute = is_mute;
  options.wants_frames = wants_frames;
  options.ring_bytes = (guint32) ring_bytes;
  options.max_depth = (guint32) max_depth;
  options.memory_mode = interval_bytes > 0 ? SONDE_MEMORY_SAMPLED : SONDE_MEMORY_ALL;
  options.memory_interval_bytes = (guint64) interval_bytes;
  options.take = take;
  options.take_data = counts_only ? NULL : events;
  server = control_server_new (&options);
  status = control_server_run (server, run_command, "SONDE_CONTROL_FD");
  print (server, events);
  return WIFEXITED (status) ? WEXITSTATUS (status) : EXIT_FAILURE;
}
