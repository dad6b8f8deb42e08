/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A complete client of org.sonde.Profiler1: profile-pid PID [SECONDS] shows where a process spends
 * its time. */
#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <gio/gunixfdlist.h>
#include <gio/gunixinputstream.h>
#include <glib-unix.h>
#include <string.h>

#define BUS_NAME  "org.sonde.Profiler1"
#define MANAGER   BUS_NAME ".Manager"
#define SESSION   BUS_NAME ".Session"
#define PATH      "/org/sonde/Profiler1"
#define READ_SIZE (64 * 1024)
#define WAIT_S    10 /* for Finished, after the end of the stream */

/* What we need of the capture format; docs/protocol.md has all of it. */
enum
{
  FILE_HEADER_SIZE = 256,
  FRAME_HEADER_SIZE = 24,
  FRAME_SAMPLE = 2,
  FRAME_JITMAP = 7,
  FRAME_LOG = 12,
  FRAME_FILE_CHUNK = 13,
  SYMBOL_SIZE = 32,
};

typedef struct
{
  GByteArray *pending; /* read, but not a whole frame yet */
  gboolean has_header;
  GHashTable *leaves;    /* address → number of samples that ended there */
  GHashTable *jit_names; /* made-up address → name */
  GByteArray *symbols;   /* the embedded file __symbols__ */
  guint64 n_samples;
} Capture;

typedef struct
{
  GMainLoop *loop;
  GDBusConnection *bus;
  gint pid;
  guint seconds;
  gboolean is_stopped;  /* that was asked for, by a ^C or the time */
  char *session;        /* object path; NULL before Profile has answered */
  GInputStream *stream; /* NULL before that, and after the end of the capture */
  Capture capture;
  char *reason;         /* why the session ended, from Finished */
  GVariant *statistics; /* a{st}, from Finished */
  int status;
} Client;

/* A live capture has the byte order of this machine; memcpy, as frames may lie at any address. */
#define GET(type, bytes, offset)                                                                   \
  (*(type *) memcpy (&(type){ 0 }, (bytes) + (offset), sizeof (type)))

/* Tables from address to something small: on 32-bit machines a pointer is too short for a key. */
static guint64 *
dup_address (guint64 address)
{
  return g_memdup2 (&address, sizeof address);
}

/* The first address says "kernel" or "process"; the leaf is behind it, callers follow. */
static void
take_sample (Capture *self, const guint8 *frame, gsize size)
{
  guint16 n_addresses = GET (guint16, frame, 24);
  guint64 leaf;
  gpointer count;

  if (n_addresses < 2 || 32 + n_addresses * sizeof (guint64) > size)
    return;
  leaf = GET (guint64, frame, 40);
  count = g_hash_table_lookup (self->leaves, &leaf);
  g_hash_table_insert (self->leaves, dup_address (leaf),
                       GUINT_TO_POINTER (GPOINTER_TO_UINT (count) + 1));
  self->n_samples++;
}

/* Names of addresses that are none: "[kernel]", "[stack truncated]", kernel functions. */
static void
take_jitmap (Capture *self, const guint8 *frame, gsize size)
{
  const guint8 *at = frame + 28;
  const guint8 *end = frame + size;

  for (guint32 n = GET (guint32, frame, 24); n > 0 && end - at > 8; n--)
    {
      const guint8 *nul = memchr (at + 8, 0, (gsize) (end - at - 8));

      if (nul == NULL)
        return;
      g_hash_table_insert (self->jit_names, dup_address (GET (guint64, at, 0)),
                           g_strdup ((const char *) at + 8));
      at = nul + 1;
    }
}

static void
take_file_chunk (Capture *self, const guint8 *frame, gsize size)
{
  guint16 length = GET (guint16, frame, 26);

  if (284u + length <= size && strncmp ((const char *) frame + 28, "__symbols__", 256) == 0)
    g_byte_array_append (self->symbols, frame + 284, length);
}

/* Losses are said in the stream, where and when they happened. */
static void
take_log (const guint8 *frame, gsize size)
{
  if (size > 64 && frame[size - 1] == 0 && strncmp ((const char *) frame + 32, "sonde", 32) == 0)
    g_printerr ("%s\n", (const char *) frame + 64);
}

static void
take_frame (Capture *self, const guint8 *frame, gsize size)
{
  switch (frame[16])
    {
    case FRAME_SAMPLE:
      if (size >= 32)
        take_sample (self, frame, size);
      break;
    case FRAME_JITMAP:
      if (size >= 32)
        take_jitmap (self, frame, size);
      break;
    case FRAME_LOG:
      take_log (frame, size);
      break;
    case FRAME_FILE_CHUNK:
      if (size >= 284)
        take_file_chunk (self, frame, size);
      break;
    default: /* what we do not need, and what later versions add */
      break;
    }
}

/* Takes what is whole and keeps the rest. FALSE: this is no capture. */
static gboolean
take_bytes (Capture *self, const guint8 *bytes, gsize size)
{
  gsize used = 0;

  g_byte_array_append (self->pending, bytes, (guint) size);
  if (!self->has_header)
    {
      if (self->pending->len < FILE_HEADER_SIZE)
        return TRUE;
      if (memcmp (self->pending->data, "\x5E\x97\xCA\xFD\x01", 5) != 0)
        return FALSE;
      self->has_header = TRUE;
      used = FILE_HEADER_SIZE;
    }
  while (self->pending->len - used >= FRAME_HEADER_SIZE)
    {
      const guint8 *frame = self->pending->data + used;
      guint16 length = GET (guint16, frame, 0);

      if (length < FRAME_HEADER_SIZE || length % 8 != 0)
        return FALSE;
      if (length > self->pending->len - used)
        break;
      take_frame (self, frame, length);
      used += length;
    }
  g_byte_array_remove_range (self->pending, 0, (guint) used);
  return TRUE;
}

/* The record of __symbols__ that holds the address names its function: first and last address, pid,
 * offset of the name. There is a record for each function that was seen, not for each that exists.
 */
static const char *
find_name (const Capture *self, gint pid, guint64 address)
{
  const char *name = g_hash_table_lookup (self->jit_names, &address);
  const guint8 *bytes = self->symbols->data;
  guint size = self->symbols->len;

  for (guint at = 0; name == NULL && size - at >= SYMBOL_SIZE; at += SYMBOL_SIZE)
    {
      guint32 offset = GET (guint32, bytes, at + 20);

      if (GET (guint64, bytes, at + 8) == 0) /* the last one */
        break;
      if (GET (gint32, bytes, at + 16) == pid && GET (guint64, bytes, at) <= address
          && address <= GET (guint64, bytes, at + 8) && offset < size
          && memchr (bytes + offset, 0, size - offset) != NULL)
        name = (const char *) bytes + offset;
    }
  return name != NULL ? name : "[unknown]";
}

static gint
compare_counts (gconstpointer a, gconstpointer b, gpointer counts)
{
  guint first = GPOINTER_TO_UINT (g_hash_table_lookup (counts, *(const char *const *) a));
  guint second = GPOINTER_TO_UINT (g_hash_table_lookup (counts, *(const char *const *) b));

  return (first < second) - (first > second);
}

/* Names come last in the stream, so this works at its end. */
static void
print_profile (const Capture *self, gint pid)
{
  g_autoptr (GHashTable) counts = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree gpointer *names = NULL;
  GHashTableIter iter;
  gpointer address, count;
  guint n_names;

  g_hash_table_iter_init (&iter, self->leaves);
  while (g_hash_table_iter_next (&iter, &address, &count))
    {
      const char *name = find_name (self, pid, *(const guint64 *) address);
      guint sum = GPOINTER_TO_UINT (count) + GPOINTER_TO_UINT (g_hash_table_lookup (counts, name));

      g_hash_table_insert (counts, (gpointer) name, GUINT_TO_POINTER (sum));
    }
  names = g_hash_table_get_keys_as_array (counts, &n_names);
  g_qsort_with_data (names, (gint) n_names, sizeof *names, compare_counts, counts);
  g_print ("%" G_GUINT64_FORMAT " samples\n", self->n_samples);
  for (guint i = 0; i < MIN (n_names, 10); i++)
    {
      g_autofree char *shown = g_strescape (names[i], NULL); /* a name may hold any byte */
      guint n = GPOINTER_TO_UINT (g_hash_table_lookup (counts, names[i]));

      g_print ("%5.1f%%  %s\n", 100.0 * n / (double) self->n_samples, shown);
    }
}

static void
fail (Client *self, const char *what, GError *error)
{
  g_autofree char *name = g_dbus_error_get_remote_error (error);

  g_dbus_error_strip_remote_error (error);
  g_printerr ("profile-pid: %s: %s\n", what, error->message);
  if (g_strcmp0 (name, BUS_NAME ".Error.NotAuthorized") == 0)
    g_printerr ("An administrator may allow the action that is named there.\n");
  else if (g_strcmp0 (name, BUS_NAME ".Error.LimitExceeded") == 0)
    g_printerr ("Stop another profile first, or try again in a moment.\n");
  else if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN))
    g_printerr ("The package sonde is not installed.\n");
  g_error_free (error);
  self->status = 1;
  g_main_loop_quit (self->loop);
}

/* Done when the capture is read to its end and the service has said why it ended. */
static void
check_end (Client *self)
{
  if (self->session != NULL && self->stream == NULL && self->reason != NULL)
    g_main_loop_quit (self->loop);
}

/* A service that is restarted goes on with the session and tells its end; this one is gone. */
static gboolean
on_nothing_said (gpointer user_data)
{
  Client *self = user_data;

  g_main_loop_quit (self->loop);
  return G_SOURCE_REMOVE;
}

static void
on_bytes (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Client *self = user_data;
  GError *error = NULL;
  g_autoptr (GBytes) bytes = g_input_stream_read_bytes_finish (self->stream, result, &error);

  if (bytes == NULL)
    {
      fail (self, "Cannot read the capture", error);
      return;
    }
  if (g_bytes_get_size (bytes) > 0
      && take_bytes (&self->capture, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes)))
    {
      g_input_stream_read_bytes_async (self->stream, READ_SIZE, G_PRIORITY_DEFAULT, NULL, on_bytes,
                                       self);
      return;
    }
  if (g_bytes_get_size (bytes) > 0)
    {
      g_printerr ("profile-pid: this is no capture\n");
      self->status = 1;
    }
  g_clear_object (&self->stream); /* closes it; if the session still runs, that ends it */
  g_timeout_add_seconds (WAIT_S, on_nothing_said, self);
  check_end (self);
}

static void on_stopped (GObject *source, GAsyncResult *result, gpointer user_data);

/* Samples that are still on their way come after this, then the names, then the end of the stream.
 */
static gboolean
stop (gpointer user_data)
{
  Client *self = user_data;

  self->is_stopped = TRUE;
  if (self->session == NULL) /* ^C before Profile has answered: a second one leaves at once */
    g_printerr ("profile-pid: stops when the service has answered\n");
  else
    g_dbus_connection_call (self->bus, BUS_NAME, self->session, SESSION, "Stop", NULL, NULL,
                            G_DBUS_CALL_FLAGS_NONE, -1, NULL, on_stopped, self);
  return G_SOURCE_REMOVE;
}

/* A service that was restarted just then has not heard it. Any other error means that the session
 * had ended by itself, of which Finished tells. */
static void
on_stopped (GObject *source, GAsyncResult *result, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  GVariant *answer = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);

  g_clear_pointer (&answer, g_variant_unref);
  if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY))
    stop (user_data);
}

static void
on_profile (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Client *self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  GError *error = NULL;
  g_autoptr (GVariant) answer = g_dbus_connection_call_with_unix_fd_list_finish (
      G_DBUS_CONNECTION (source), &fds, result, &error);
  gint32 handle;
  int fd;

  if (answer == NULL)
    {
      fail (self, "Cannot profile", error);
      return;
    }
  g_variant_get (answer, "(oh)", &self->session, &handle);
  fd = fds != NULL ? g_unix_fd_list_get (fds, handle, &error) : -1;
  if (fd < 0)
    {
      g_printerr ("profile-pid: the answer has no descriptor\n");
      self->status = 1;
      g_clear_error (&error);
      g_main_loop_quit (self->loop);
      return;
    }
  self->stream = g_unix_input_stream_new (fd, TRUE);
  g_input_stream_read_bytes_async (self->stream, READ_SIZE, G_PRIORITY_DEFAULT, NULL, on_bytes,
                                   self);
  if (self->is_stopped)
    stop (self);
  else
    g_timeout_add_seconds (self->seconds, stop, self);
}

static void
on_finished (GDBusConnection *bus,
             const char *sender,
             const char *path,
             const char *interface,
             const char *signal,
             GVariant *arguments,
             gpointer user_data)
{
  Client *self = user_data;

  if (g_strcmp0 (path, self->session) != 0 || self->reason != NULL
      || !g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sa{st})")))
    return;
  g_variant_get (arguments, "(s@a{st})", &self->reason, &self->statistics);
  check_end (self);
}

/* The open /proc/PID/maps is the kernel's own proof that we may read that process. */
static gboolean
profile (Client *self, GError **error)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/maps", self->pid);
  g_autoptr (GUnixFDList) fds = NULL;
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  if (fd < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "%s: %s", path,
                   g_strerror (errno));
      return FALSE;
    }
  fds = g_unix_fd_list_new_from_array (&fd, 1); /* takes fd */
  g_dbus_connection_call_with_unix_fd_list (
      self->bus, BUS_NAME, PATH, MANAGER, "Profile",
      g_variant_new_parsed ("({'targets': <[(%u, %h)]>, 'children': <false>},)", (guint) self->pid,
                            0), /* handle 0: the first descriptor of the list */
      G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION, G_MAXINT, fds,
      NULL, on_profile, self);
  return TRUE;
}

/* What the session lost. "none" is worth saying, too: without it nobody can tell. */
static void
print_losses (const Client *self)
{
  static const char *const keys[] = { "lost-kernel", "lost-ring", "lost-queue", "stream-lost" };

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      guint64 n = 0;

      if (g_variant_lookup (self->statistics, keys[i], "t", &n))
        g_print ("%s: %" G_GUINT64_FORMAT "\n", keys[i], n);
    }
}

static void
print_result (Client *self)
{
  if (self->reason == NULL)
    {
      g_printerr ("profile-pid: the service ended; the profile goes up to that moment\n");
      self->status = 1;
    }
  if (self->capture.n_samples > 0)
    print_profile (&self->capture, self->pid);
  else
    g_print ("no samples: the process did not run\n");
  if (self->statistics != NULL)
    print_losses (self);
}

static void
run (Client *self)
{
  GError *error = NULL;

  self->bus = g_bus_get_sync (G_BUS_TYPE_SYSTEM, NULL, &error); /* in an IDE: g_bus_get() */
  if (self->bus == NULL)
    {
      fail (self, "No system bus", error);
      return;
    }
  /* Before the call: the session may end at once, and this misses nothing. */
  g_dbus_connection_signal_subscribe (self->bus, BUS_NAME, SESSION, "Finished", NULL, NULL,
                                      G_DBUS_SIGNAL_FLAGS_NONE, on_finished, self, NULL);
  g_unix_signal_add (SIGINT, stop, self);
  if (!profile (self, &error))
    {
      fail (self, "Cannot prove that the process is ours", error);
      return;
    }
  g_main_loop_run (self->loop);
  if (self->session != NULL)
    print_result (self);
}

static void
client_init (Client *self)
{
  self->loop = g_main_loop_new (NULL, FALSE);
  self->capture.pending = g_byte_array_new ();
  self->capture.symbols = g_byte_array_new ();
  self->capture.leaves = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  self->capture.jit_names = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
}

static void
client_clear (Client *self)
{
  g_clear_object (&self->stream);
  g_clear_object (&self->bus); /* a session that still runs ends with its owner */
  g_main_loop_unref (self->loop);
  g_byte_array_unref (self->capture.pending);
  g_byte_array_unref (self->capture.symbols);
  g_hash_table_unref (self->capture.leaves);
  g_hash_table_unref (self->capture.jit_names);
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_free (self->reason);
  g_free (self->session);
}

int
main (int argc, char **argv)
{
  Client client = { 0 };

  if (argc < 2 || argc > 3)
    {
      g_printerr ("Usage: profile-pid PID [SECONDS]\n");
      return 2;
    }
  client.pid = atoi (argv[1]);
  client.seconds = argc > 2 ? (guint) atoi (argv[2]) : 5;
  client_init (&client);
  run (&client);
  client_clear (&client);
  return client.status;
}
