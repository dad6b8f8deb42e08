/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Measures how long a client waits for the first sample: start SONDED WORKER BUSY-PROGRAM */
#include <gio/gunixfdlist.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/library/connection.h"
#include "protocol/reader.h"

enum
{
  N_TRIES = 20,
  SKIPPED = 77, /* what meson takes for "skipped" */
};

/* Whether the stream of @fd came to a sample. */
static gboolean
read_first_sample (int fd)
{
  SondeReader *reader;
  const SondeFrame *frame;
  gboolean found = FALSE;

  if (sonde_reader_new_fd (fd, &reader) < 0)
    return FALSE;
  while (!found && sonde_reader_next (reader, &frame) == 1)
    found = frame->type == SONDE_FRAME_SAMPLE;
  sonde_reader_free (reader);
  return found;
}

static gboolean
stop (SondeConnection *connection, const char *session, GError **error)
{
  const SondeServiceCall call = { .path = session, .method = "Stop", .type = "(a{st})" };
  g_autoptr (GVariant) answer = sonde_connection_call_sync (connection, &call, NULL, NULL, error);

  return answer != NULL;
}

/* µs from the call to the first sample; negative with @error. */
static gint64
measure (SondeConnection *connection, GError **error)
{
  const SondeServiceCall call
      = { .method = "Profile",
          .arguments = g_variant_new_parsed ("({'system': <true>, 'event': <'cpu-clock'>},)"),
          .type = "(oh)" };
  gint64 begin_us = g_get_monotonic_time ();
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GVariant) handle = NULL;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autofree char *session = NULL;
  gint64 taken_us;
  gboolean found;
  int fd;

  answer = sonde_connection_call_sync (connection, &call, &fds, NULL, error);
  if (answer == NULL)
    return -1;
  g_variant_get (answer, "(o@h)", &session, &handle);
  fd = g_unix_fd_list_get (fds, g_variant_get_handle (handle), error);
  if (fd < 0)
    return -1;
  found = read_first_sample (fd);
  taken_us = g_get_monotonic_time () - begin_us;
  if (!found)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "the stream has no sample");
  if (!stop (connection, session, found ? error : NULL))
    found = FALSE;
  close (fd);
  return found ? taken_us : -1;
}

static int
compare (gconstpointer a, gconstpointer b)
{
  gint64 first = *(const gint64 *) a, second = *(const gint64 *) b;

  return (first > second) - (first < second);
}

static gboolean
run (const char *daemon_path, const char *worker_path, GError **error)
{
  g_autoptr (SondeConnection) connection
      = sonde_connection_open_embedded (daemon_path, worker_path, error);
  gint64 taken_us[N_TRIES];

  if (connection == NULL)
    return FALSE;
  for (guint i = 0; i < N_TRIES; i++)
    if ((taken_us[i] = measure (connection, error)) < 0)
      return FALSE;

  qsort (taken_us, N_TRIES, sizeof *taken_us, compare);
  printf ("%d sessions of the whole machine, one after the other: %.1f to %.1f ms to the first "
          "sample\n",
          N_TRIES, (double) taken_us[0] / 1e3, (double) taken_us[N_TRIES - 1] / 1e3);
  printf ("bench start first_sample_ms=%.1f\n",
          (double) (taken_us[N_TRIES / 2 - 1] + taken_us[N_TRIES / 2]) / 2e3);
  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GSubprocess) busy = NULL;
  gboolean done;

  if (argc != 4)
    {
      g_printerr ("usage: bench-start SONDED WORKER BUSY-PROGRAM\n");
      return EXIT_FAILURE;
    }
  if (geteuid () != 0)
    {
      printf ("skipped: needs root\n");
      return SKIPPED;
    }
  busy = g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_SILENCE, &error, argv[3], "100000000", NULL);
  done = busy != NULL && run (argv[1], argv[2], &error);
  if (busy != NULL)
    {
      /* Another thread sends the signal, so it may come too late for those who do not wait. */
      g_subprocess_force_exit (busy);
      g_subprocess_wait (busy, NULL, NULL);
    }
  if (!done)
    g_printerr ("bench-start: %s\n", error->message);
  return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
