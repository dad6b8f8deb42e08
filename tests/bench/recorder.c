/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures what a flight recorder of the whole machine holds and what a snapshot of it costs,
 * beside the capture that a session without one would have written: recorder SONDED WORKER */
#include <gio/gunixfdlist.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/library/connection.h"
#include "protocol/reader.h"

#define PROPERTIES "org.freedesktop.DBus.Properties"

enum
{
  N_SNAPSHOTS = 9,
  N_LOADS = 2,
  FILL_S = 20,           /* until there is something to keep */
  REST_S = 5,            /* without snapshots, for what the worker costs anyway */
  GOAL_SAMPLES = 120000, /* of two processors at 1 kHz for 60 s */
  SKIPPED = 77,          /* what meson takes for "skipped" */
};

/* Its stacks are deep and of all kinds, as a compiler's are. */
static const char load[] = "import ast, os\n"
                           "text = open(os.__file__).read()\n"
                           "while True: compile(ast.parse(text), 'x', 'exec')\n";

typedef struct
{
  guint64 cpu_us; /* of the worker */
  guint64 kept_bytes;
} Numbers;

static gboolean
get_numbers (SondeConnection *connection, const char *session, Numbers *numbers, GError **error)
{
  const SondeServiceCall call
      = { .path = session,
          .interface = PROPERTIES,
          .method = "Get",
          .arguments = g_variant_new ("(ss)", "org.sonde.Profiler1.Session", "Statistics"),
          .type = "(v)" };
  g_autoptr (GVariant) answer = sonde_connection_call_sync (connection, &call, NULL, NULL, error);
  g_autoptr (GVariant) statistics = NULL;

  if (answer == NULL)
    return FALSE;
  g_variant_get (answer, "(v)", &statistics);
  g_variant_lookup (statistics, "worker-cpu-us", "t", &numbers->cpu_us);
  g_variant_lookup (statistics, "recorder-bytes", "t", &numbers->kept_bytes);
  return TRUE;
}

/* Of the last one, in bytes and samples. */
typedef struct
{
  off_t size_bytes;
  guint64 n_samples;
  double wall_ms;
} Snapshot;

static gboolean
take_snapshot (SondeConnection *connection, const char *session, Snapshot *snapshot, GError **error)
{
  const SondeServiceCall call = { .path = session,
                                  .method = "Snapshot",
                                  .arguments = g_variant_new_parsed ("(@a{sv} {},)"),
                                  .type = "(h)" };
  gint64 begin_us = g_get_monotonic_time ();
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) answer = sonde_connection_call_sync (connection, &call, &fds, NULL, error);
  SondeReader *reader = NULL;
  const SondeFrame *frame;
  struct stat st;
  int fd = answer != NULL ? g_unix_fd_list_get (fds, 0, error) : -1;

  if (fd < 0)
    return FALSE;
  snapshot->wall_ms = (double) (g_get_monotonic_time () - begin_us) / 1e3;
  snapshot->n_samples = 0;
  if (fstat (fd, &st) == 0 && sonde_reader_new_fd (fd, &reader) == 0)
    {
      snapshot->size_bytes = st.st_size;
      while (sonde_reader_next (reader, &frame) == 1)
        snapshot->n_samples += frame->type == SONDE_FRAME_SAMPLE;
      sonde_reader_free (reader);
    }
  close (fd);
  if (snapshot->n_samples == 0)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "a snapshot has no sample");
  return snapshot->n_samples > 0;
}

static gboolean
measure (SondeConnection *connection, const char *session, GError **error)
{
  Numbers begin = { 0 }, middle = { 0 }, end = { 0 };
  Snapshot snapshot = { 0 };
  gint64 begin_us, middle_us, end_us;
  double usual, scale;

  g_usleep (FILL_S * G_USEC_PER_SEC);
  begin_us = g_get_monotonic_time ();
  if (!get_numbers (connection, session, &begin, error))
    return FALSE;
  g_usleep (REST_S * G_USEC_PER_SEC);
  middle_us = g_get_monotonic_time ();
  if (!get_numbers (connection, session, &middle, error))
    return FALSE;
  for (guint i = 0; i < N_SNAPSHOTS; i++)
    if (!take_snapshot (connection, session, &snapshot, error))
      return FALSE;
  /* What it costs is told about three times a second. */
  g_usleep (G_USEC_PER_SEC);
  end_us = g_get_monotonic_time ();
  if (!get_numbers (connection, session, &end, error))
    return FALSE;

  usual = (double) (middle.cpu_us - begin.cpu_us) / (double) (middle_us - begin_us);
  scale = (double) GOAL_SAMPLES / (double) snapshot.n_samples;
  printf ("%" G_GUINT64_FORMAT " samples: %.1f MiB kept, a capture of %.1f MiB; the worker takes "
          "%.2f %% of a processor, a snapshot %.0f ms\n",
          snapshot.n_samples, (double) end.kept_bytes / 1048576,
          (double) snapshot.size_bytes / 1048576, usual * 100, snapshot.wall_ms);
  printf ("of 60 s at 1 kHz on two processors: a capture of %.1f MiB\n",
          (double) snapshot.size_bytes * scale / 1048576);
  printf ("bench recorder bytes_mib=%.2f snapshot_cpu_ms=%.1f\n",
          (double) end.kept_bytes * scale / 1048576,
          ((double) (end.cpu_us - middle.cpu_us) - usual * (double) (end_us - middle_us)) / 1e3
              / N_SNAPSHOTS);
  return TRUE;
}

static gboolean
run (const char *daemon_path, const char *worker_path, GError **error)
{
  const SondeServiceCall call
      = { .method = "Profile",
          .arguments
          = g_variant_new_parsed ("({'system': <true>, 'event': <'cpu-clock'>, 'recorder': <%t>},)",
                                  G_GUINT64_CONSTANT (60000000)),
          .type = "(oh)" };
  g_autoptr (SondeConnection) connection
      = sonde_connection_open_embedded (daemon_path, worker_path, error);
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GUnixFDList) fds = NULL; /* the stream, which has nothing before the end */
  g_autofree char *session = NULL;

  if (connection != NULL)
    answer = sonde_connection_call_sync (connection, &call, &fds, NULL, error);
  if (answer == NULL)
    return FALSE;
  g_variant_get (answer, "(oh)", &session, NULL);
  return measure (connection, session, error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  GSubprocess *loads[N_LOADS] = { NULL };
  gboolean done = TRUE;

  if (argc != 3)
    {
      g_printerr ("usage: bench-recorder SONDED WORKER\n");
      return EXIT_FAILURE;
    }
  if (geteuid () != 0)
    {
      printf ("skipped: needs root\n");
      return SKIPPED;
    }
  for (guint i = 0; i < N_LOADS && done; i++)
    {
      loads[i] = g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_SILENCE, &error, "python3", "-c", load,
                                   NULL);
      done = loads[i] != NULL;
    }
  done = done && run (argv[1], argv[2], &error);
  for (guint i = 0; i < N_LOADS && loads[i] != NULL; i++)
    {
      g_subprocess_force_exit (loads[i]);
      g_subprocess_wait (loads[i], NULL, NULL);
      g_object_unref (loads[i]);
    }
  if (!done)
    g_printerr ("bench-recorder: %s\n", error->message);
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
