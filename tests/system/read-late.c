/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Records a command for several readers who come one after the other:
 * read-late SONDED WORKER FOLDER COMMAND…
 *
 * The first is there from the start. Then one comes every 300 ms, or later, when the first has got
 * something more, until there are eight and the command gets SIGTERM; every other one asks for its
 * samples alone. Each writes FOLDER/N.syscap. */
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "client/library/connection.h"
#include "client/service/spawn.h"

#define MAX_READERS 8
#define WAIT_MS     300
#define PIECE_BYTES 65536
#define MORE_BYTES  16384

typedef struct
{
  SondeConnection *connection;
  char *session; /* object path */
  SondeSpawn *spawn;
  const char *folder;
  GMainLoop *loop;
  guint n_readers;
  guint n_open;
  gsize first_bytes;  /* what the first reader has got */
  gsize wanted_bytes; /* and what it is to get before the next one comes */
} Test;

typedef struct
{
  Test *test;
  int out_fd;
  gboolean is_first;
} Reader;

G_NORETURN static void
fail (const char *what, const GError *error)
{
  g_printerr ("read-late: %s: %s\n", what, error != NULL ? error->message : g_strerror (errno));
  exit (1);
}

static gboolean
on_capture (gint fd, GIOCondition condition, gpointer user_data)
{
  Reader *reader = user_data;
  guint8 bytes[PIECE_BYTES];
  gssize size_bytes = read (fd, bytes, sizeof bytes);

  if (size_bytes > 0)
    {
      if (write (reader->out_fd, bytes, (gsize) size_bytes) != size_bytes)
        fail ("cannot write", NULL);
      if (reader->is_first)
        reader->test->first_bytes += (gsize) size_bytes;
      return G_SOURCE_CONTINUE;
    }
  close (fd);
  close (reader->out_fd);
  if (--reader->test->n_open == 0)
    g_main_loop_quit (reader->test->loop);
  g_free (reader);
  return G_SOURCE_REMOVE;
}

static void
add_reader (Test *test, GUnixFDList *fds)
{
  g_autofree char *name = g_strdup_printf ("%s/%u.syscap", test->folder, test->n_readers++);
  g_autoptr (GError) error = NULL;
  Reader *reader = g_new0 (Reader, 1);
  int fd = g_unix_fd_list_get (fds, 0, &error);

  if (fd < 0)
    fail ("no capture", error);
  reader->test = test;
  reader->is_first = test->n_open == 0;
  reader->out_fd = open (name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (reader->out_fd < 0)
    fail (name, NULL);
  test->n_open++;
  g_unix_fd_add (fd, G_IO_IN | G_IO_HUP, on_capture, reader);
}

/* TRUE for more of them. */
static gboolean
open_late (gpointer user_data)
{
  Test *test = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  GVariantDict options;

  if (test->first_bytes < test->wanted_bytes)
    return G_SOURCE_CONTINUE;
  test->wanted_bytes = test->first_bytes + MORE_BYTES;
  if (test->n_readers == MAX_READERS)
    {
      sonde_spawn_kill (test->spawn, SIGTERM);
      return G_SOURCE_REMOVE;
    }
  g_variant_dict_init (&options, NULL);
  if (test->n_readers % 2 == 0)
    {
      const guint32 pid = (guint32) sonde_spawn_pid (test->spawn);
      const char *const frames[] = { "samples", NULL };

      g_variant_dict_insert_value (
          &options, "pids", g_variant_new_fixed_array (G_VARIANT_TYPE_UINT32, &pid, 1, sizeof pid));
      g_variant_dict_insert (&options, "frames", "^as", frames);
    }
  answer = sonde_connection_call_sync (
      test->connection,
      &(SondeServiceCall){ .path = test->session,
                           .method = "OpenCapture",
                           .arguments = g_variant_new ("(@a{sv})", g_variant_dict_end (&options)),
                           .type = "(h)" },
      &fds, NULL, &error);
  if (answer == NULL)
    fail ("OpenCapture", error);
  add_reader (test, fds);
  return G_SOURCE_CONTINUE;
}

static void
start (Test *test)
{
  const guint32 pid = (guint32) sonde_spawn_pid (test->spawn);
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer = NULL;
  GVariantDict options;

  g_variant_dict_init (&options, NULL);
  g_variant_dict_insert_value (
      &options, "pids", g_variant_new_fixed_array (G_VARIANT_TYPE_UINT32, &pid, 1, sizeof pid));
  answer = sonde_connection_call_sync (
      test->connection,
      &(SondeServiceCall){ .method = "Profile",
                           .arguments = g_variant_new ("(@a{sv})", g_variant_dict_end (&options)),
                           .type = "(oh)" },
      &fds, NULL, &error);
  if (answer == NULL)
    fail ("Profile", error);
  g_variant_get (answer, "(oh)", &test->session, NULL);
  add_reader (test, fds);
}

static void
ignore_failed_exec (int error_number, gpointer user_data)
{
}

static void
ignore_exit (int wait_status, gpointer user_data)
{
}

int
main (int argc, char **argv)
{
  static const SondeSpawnHandler handler = { ignore_failed_exec, ignore_exit };
  g_autoptr (GError) error = NULL;
  g_autoptr (GMainLoop) loop = NULL;
  g_autoptr (SondeSpawn) spawn = NULL;
  g_autoptr (SondeConnection) connection = NULL;
  Test test = { 0 };

  if (argc < 5)
    {
      g_printerr ("usage: read-late SONDED WORKER FOLDER COMMAND…\n");
      return 2;
    }
  test.folder = argv[3];
  test.spawn = spawn = sonde_spawn_new (argv + 4, NULL, NULL, FALSE, &error);
  if (spawn == NULL)
    fail (argv[4], error);
  test.connection = connection = sonde_connection_open_embedded (argv[1], argv[2], &error);
  if (connection == NULL)
    fail (argv[1], error);
  test.loop = loop = g_main_loop_new (NULL, FALSE);

  start (&test);
  sonde_spawn_watch (spawn, &handler, NULL);
  sonde_spawn_release (spawn, -1, NULL, NULL, FALSE);
  g_timeout_add (WAIT_MS, open_late, &test);
  g_main_loop_run (loop);
  g_free (test.session);
  return 0;
}
