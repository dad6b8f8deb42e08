/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Many readers of one session: what some of them do costs the others nothing. test-many-clients
 * TARGET-PROGRAM */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"
#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"

enum
{
  N_READERS = 16, /* SONDE_LIMIT_SINKS */
  N_OF_A_KIND = 4,
  N_TURNS = 100,
  N_TARGETS = 2,
  N_SAMPLES = 10000, /* until the session is stopped */
  SLOW_BYTES = 1000, /* in each tenth of a second */
  MAX_SERVICE_KIB = 64 * 1024,
  MAX_WORKER_KIB = 512 * 1024,
};

/* The first is the one that Profile gave. */
typedef enum
{
  GOOD,
  STUCK,
  SLOW,
  MORTAL,
} Kind;

typedef struct
{
  Kind kind;
  int fd;
  GThread *thread; /* GOOD, SLOW */
  pid_t child;     /* MORTAL */
  int copy_fd;     /* GOOD: everything that came */
  gint stops;      /* SLOW: atomic */
} Reader;

typedef struct
{
  uid_t uid;
  GDBusConnection *bus;
  char *session;
  pid_t targets[N_TARGETS];
  int life_fds[N_TARGETS];
  Reader readers[N_READERS];
} Crowd;

static gpointer
read_all (gpointer user_data)
{
  Reader *self = user_data;
  char buffer[65536];
  gssize n_bytes;

  while ((n_bytes = read (self->fd, buffer, sizeof buffer)) > 0)
    g_assert_cmpint (write (self->copy_fd, buffer, (gsize) n_bytes), ==, n_bytes);
  return NULL;
}

static gpointer
read_slowly (gpointer user_data)
{
  Reader *self = user_data;
  char buffer[SLOW_BYTES];

  while (!g_atomic_int_get (&self->stops) && read (self->fd, buffer, sizeof buffer) > 0)
    g_usleep (G_USEC_PER_SEC / 10); /* 10 kB/s */
  return NULL;
}

static pid_t
run_mortal (int fd)
{
  pid_t pid = fork ();

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      int null = open ("/dev/null", O_WRONLY);

      dup2 (fd, STDIN_FILENO);
      dup2 (null, STDOUT_FILENO);
      execl ("/bin/cat", "cat", NULL);
      _exit (127);
    }
  return pid;
}

static void
reader_init (Reader *self, Kind kind, int fd)
{
  *self = (Reader){ .kind = kind, .fd = fd };
  g_assert_cmpint (fcntl (fd, F_SETFL, 0), ==, 0); /* blocking: ours, it is not the daemon's */
  if (kind == GOOD)
    {
      self->copy_fd = memfd_create ("capture", MFD_CLOEXEC);
      self->thread = g_thread_new ("good", read_all, self);
    }
  else if (kind == SLOW)
    self->thread = g_thread_new ("slow", read_slowly, self);
  else if (kind == MORTAL)
    {
      self->child = run_mortal (fd);
      close (fd);
    }
}

/* Nothing runs yet: who reads from now on reads everything. */
static void
crowd_init (Crowd *self)
{
  g_autoptr (GError) error = NULL;
  int fd;

  self->uid = bus_next_uid ();
  self->bus = bus_connect (self->uid);
  bus_profile (self->bus, g_variant_new_parsed ("{'launch': <true>, 'frequency': <uint32 4000>}"),
               NULL, &self->session, &fd, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < N_READERS; i++)
    {
      Kind kind = (Kind) (i / N_OF_A_KIND);

      if (i > 0)
        fd = bus_open_capture (self->bus, self->session,
                               kind == GOOD || kind == STUCK
                                   ? g_variant_new_parsed ("@a{sv} {}")
                                   : g_variant_new_parsed ("{'buffer-size': <uint32 65536>}"),
                               &error);
      g_assert_no_error (error);
      reader_init (&self->readers[i], kind, fd);
    }
}

static void
crowd_add_targets (Crowd *self, const char *program)
{
  static const char *const arguments[] = { "spin", NULL };

  for (guint i = 0; i < N_TARGETS; i++)
    {
      g_autoptr (GUnixFDList) fds = NULL;
      g_autoptr (GError) error = NULL;
      g_autoptr (GVariant) answer = NULL;
      int proof;

      self->targets[i] = bus_run (self->uid, program, arguments, NULL, &self->life_fds[i]);
      proof = bus_open_proof (self->uid, self->targets[i]);
      fds = g_unix_fd_list_new_from_array (&proof, 1);
      answer = bus_session_call (
          self->bus, self->session, "AddProcess",
          g_variant_new_parsed ("([(%u, %h)],)", (guint32) self->targets[i], 0), fds, &error);
      g_assert_no_error (error);
    }
}

static void
crowd_clear (Crowd *self)
{
  for (guint i = 0; i < N_TARGETS; i++)
    if (self->targets[i] > 0)
      {
        bus_end (self->targets[i], SIGKILL);
        close (self->life_fds[i]);
      }
  g_clear_object (&self->bus);
  g_clear_pointer (&self->session, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Crowd, crowd_clear)

static guint64
lookup (GVariant *statistics, const char *key)
{
  guint64 count = 0;

  g_assert_true (g_variant_lookup (statistics, key, "t", &count));
  return count;
}

/* Kills those whose time has come. */
static gboolean
has_samples (gpointer user_data)
{
  Crowd *self = user_data;
  g_autoptr (GVariant) statistics = bus_session_get (self->bus, self->session, "Statistics", NULL);
  guint64 n_samples;

  g_assert_nonnull (statistics);
  n_samples = lookup (statistics, "recorded");
  for (guint i = 0; i < N_READERS; i++)
    if (self->readers[i].child > 0 && n_samples > (guint64) g_test_rand_int_range (0, N_SAMPLES))
      {
        bus_end (self->readers[i].child, SIGKILL);
        self->readers[i].child = 0;
      }
  return n_samples >= N_SAMPLES;
}

static guint64
read_rss_kib (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", pid);
  g_autofree char *status = NULL;
  const char *line;

  g_assert_true (g_file_get_contents (path, &status, NULL, NULL));
  line = strstr (status, "VmRSS:");
  g_assert_nonnull (line);
  return g_ascii_strtoull (line + strlen ("VmRSS:"), NULL, 10);
}

static void
check_memory (GDBusConnection *bus)
{
  pid_t service = bus_service_pid (bus);
  g_autoptr (GArray) workers = bus_list_workers (service);
  guint64 service_kib, worker_kib;

  g_assert_cmpuint (workers->len, ==, 1);
  service_kib = read_rss_kib (service);
  worker_kib = read_rss_kib (g_array_index (workers, pid_t, 0));
  g_test_message ("memory: sonded %" G_GUINT64_FORMAT " KiB, its worker %" G_GUINT64_FORMAT " KiB",
                  service_kib, worker_kib);
#ifndef __SANITIZE_ADDRESS__ /* which takes several times as much */
  g_assert_cmpuint (service_kib, <, MAX_SERVICE_KIB);
  g_assert_cmpuint (worker_kib, <, MAX_WORKER_KIB);
#endif
}

/* A digest of all samples in their order. */
static char *
digest_samples (int fd)
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  g_assert_cmpint (lseek (fd, 0, SEEK_SET), ==, 0);
  g_assert_cmpint (sonde_reader_new_fd (fd, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    if (frame->type == SONDE_FRAME_SAMPLE)
      g_checksum_update (checksum, (const guchar *) frame, frame->len);
  sonde_reader_free (reader);
  return g_strdup (g_checksum_get_string (checksum));
}

/* Every frame: by its own ledger, by the session's, and by comparison with the first reader. */
static void
check_good_reader (const Crowd *self, guint index, guint64 n_recorded, char **digest)
{
  const Reader *reader = &self->readers[index];
  g_autofree char *own_digest = digest_samples (reader->copy_fd);
  CaptureSummary summary;

  g_assert_cmpint (lseek (reader->copy_fd, 0, SEEK_SET), ==, 0);
  capture_summary_read (&summary, reader->copy_fd, self->targets[0]);
  capture_summary_assert_whole (&summary);
  g_assert_cmpint (summary.ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
  g_assert_cmpint (summary.ledger[SONDE_LEDGER_STREAM_FILTERED], ==, 0);
  g_assert_cmpuint (summary.n_frames[SONDE_FRAME_SAMPLE], ==, n_recorded);
  if (*digest == NULL)
    *digest = g_steal_pointer (&own_digest);
  else
    g_assert_cmpstr (own_digest, ==, *digest);
}

static void
crowd_check (Crowd *self, GVariant *statistics)
{
  guint64 n_recorded = lookup (statistics, "recorded");
  g_autofree char *digest = NULL;

  g_assert_cmpuint (lookup (statistics, "produced"), ==,
                    n_recorded + lookup (statistics, "lost-kernel")
                        + lookup (statistics, "lost-ring") + lookup (statistics, "lost-queue"));
  for (guint i = 0; i < N_OF_A_KIND; i++)
    {
      g_thread_join (self->readers[i].thread);
      close (self->readers[i].fd);
      check_good_reader (self, i, n_recorded, &digest);
    }
  g_test_message ("%" G_GUINT64_FORMAT " samples recorded of %" G_GUINT64_FORMAT
                  " produced, each in all of %d streams; of all streams %" G_GUINT64_FORMAT
                  " frames delivered, %" G_GUINT64_FORMAT " lost",
                  n_recorded, lookup (statistics, "produced"), N_OF_A_KIND,
                  lookup (statistics, "stream-delivered"), lookup (statistics, "stream-lost"));
  g_assert_cmpuint (lookup (statistics, "stream-lost"), >, 0); /* of the stuck and the slow */
}

static void
crowd_end_the_bad (Crowd *self)
{
  for (guint i = 0; i < N_READERS; i++)
    {
      Reader *reader = &self->readers[i];

      if (reader->child > 0)
        bus_end (reader->child, SIGKILL);
      if (reader->kind == SLOW)
        {
          g_atomic_int_set (&reader->stops, 1);
          g_thread_join (reader->thread);
        }
      if (reader->kind == SLOW || reader->kind == STUCK)
        close (reader->fd);
    }
}

static void
test_crowd (gconstpointer program)
{
  g_auto (Crowd) crowd = { 0 };
  g_autoptr (GVariant) statistics = NULL;
  g_autofree char *finished = NULL;

  crowd_init (&crowd);
  crowd_add_targets (&crowd, program);
  bus_wait (has_samples, &crowd, "a session's samples beside stuck, slow and dying readers");
  check_memory (crowd.bus);
  statistics = bus_stop (crowd.bus, crowd.session);
  crowd_check (&crowd, statistics);
  crowd_end_the_bad (&crowd);
  finished = bus_wait_finished (crowd.bus, crowd.session);
  g_assert_cmpstr (finished, ==, "stopped");
}

/* Reads until a sample comes, and leaves in the middle of what follows. */
static void
visit (GDBusConnection *bus, const char *session)
{
  g_autoptr (GError) error = NULL;
  int fd = bus_open_capture (bus, session, g_variant_new_parsed ("@a{sv} {}"), &error);
  SondeReader *reader = NULL;
  const SondeFrame *frame = NULL;

  g_assert_no_error (error);
  g_assert_cmpint (fcntl (fd, F_SETFL, 0), ==, 0);
  g_assert_cmpint (sonde_reader_new_fd (fd, &reader), ==, 0);
  do
    g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  while (frame->type != SONDE_FRAME_SAMPLE);
  sonde_reader_free (reader);
  close (fd);
}

typedef struct
{
  pid_t worker;
  guint n_fds;
} WorkerRest;

static gboolean
has_let_go (gpointer user_data)
{
  const WorkerRest *rest = user_data;

  return bus_count_fds (rest->worker) <= rest->n_fds;
}

static void
test_turns (gconstpointer program)
{
  static const char *const arguments[] = { "spin", NULL };
  uid_t uid = bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  g_autoptr (GArray) workers = NULL;
  g_autofree char *session = NULL;
  Reader first;
  WorkerRest rest;
  int fd, life_fd;
  pid_t target = bus_run (uid, program, arguments, NULL, &life_fd);
  CaptureSummary summary;

  bus_profile_pid (bus, target, NULL, &session, &fd);
  reader_init (&first, GOOD, fd);
  visit (bus, session);
  workers = bus_list_workers (bus_service_pid (bus));
  rest.worker = g_array_index (workers, pid_t, 0);
  rest.n_fds = bus_count_fds (rest.worker);
  for (guint i = 0; i < (bus_is_long () ? N_TURNS : N_TURNS / 5); i++)
    visit (bus, session);
  bus_wait (has_let_go, &rest, "the worker letting go of those who left");
  check_memory (bus);

  g_variant_unref (bus_stop (bus, session));
  g_thread_join (first.thread);
  g_assert_cmpint (lseek (first.copy_fd, 0, SEEK_SET), ==, 0);
  capture_summary_read (&summary, first.copy_fd, target);
  capture_summary_assert_whole (&summary);
  g_assert_cmpint (summary.ledger[SONDE_LEDGER_STREAM_LOST], ==, 0);
  close (first.fd);
  bus_end (target, SIGKILL);
  close (life_fd);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  g_test_add_data_func ("/many-clients/16-at-once-disturb-nobody", argv[1], test_crowd);
  g_test_add_data_func ("/many-clients/many-in-turn-leave-nothing", argv[1], test_turns);
  return g_test_run ();
}
