/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A target that executes a setuid program around the moment when it becomes a target: nothing of
 * that program may be in the capture. test-exec-race TARGET-PROGRAM PRIVILEGED-PROGRAM */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "protocol/reader.h"
#include "tests/lib/bus-client.h"
#include "tests/lib/bus-target.h"

/* Of the privileged program: see meson.build. */
#define IMAGE_START G_GUINT64_CONSTANT (0x5a5a5a000000)
#define IMAGE_END   (IMAGE_START + 0x100000)

enum
{
  N_TRIES = 500,
  N_MORE_TRIES = 1000, /* at most, until there was a race */
  N_MEASURED = 4,
  N_TRIES_OF_USER = 5, /* what the start rate lets him do at once */
  MARGIN_US = 5000,    /* the exec comes at most so long before the call, or after its answer */
  RUN_NS = 5000000,    /* what the privileged program runs before we look for it: 100 samples */
};

static const char *target_program;
static char *privileged_program;

typedef struct
{
  guint n_granted;
  guint n_refused;
  guint n_early; /* granted, and the program was there before the answer */
  guint64 n_frames;
  guint64 n_found; /* samples and mappings of the privileged program */
} Counts;

/* One try. */
typedef struct
{
  GDBusConnection *bus;
  pid_t pid;
  int proof; /* of the program before the exec, as its user has it */
  int life_fd;
  gboolean is_answered;
  char *session;
  int capture;
} Try;

static void
look_at_frame (Counts *counts, const SondeFrame *frame)
{
  counts->n_frames++;
  if (frame->type == SONDE_FRAME_MAP)
    {
      const SondeFrameMap *map = (const SondeFrameMap *) frame;

      counts->n_found += map->start < IMAGE_END && map->end > IMAGE_START;
    }
  else if (frame->type == SONDE_FRAME_SAMPLE)
    {
      const SondeFrameSample *sample = (const SondeFrameSample *) frame;

      for (guint i = 0; i < sample->n_addrs; i++)
        counts->n_found += sample->addrs[i] >= IMAGE_START && sample->addrs[i] < IMAGE_END;
    }
}

/* Reads to the end, and closes. */
static void
look_at_capture (Counts *counts, int fd)
{
  SondeReader *reader = NULL;
  const SondeFrame *frame;
  int result;

  g_assert_cmpint (fcntl (fd, F_SETFL, 0), ==, 0); /* blocking */
  g_assert_cmpint (sonde_reader_new_fd (fd, &reader), ==, 0);
  while ((result = sonde_reader_next (reader, &frame)) == 1)
    look_at_frame (counts, frame);
  g_assert_cmpint (result, ==, 0);
  sonde_reader_free (reader);
  close (fd);
}

static void
on_profiled (GObject *source, GAsyncResult *result, gpointer user_data)
{
  Try *self = user_data;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) answer
      = g_dbus_connection_call_with_unix_fd_list_finish (self->bus, &fds, result, &error);

  self->is_answered = TRUE;
  if (answer == NULL)
    {
      g_autofree char *name = g_dbus_error_get_remote_error (error);

      g_assert_cmpstr (name, ==, "org.sonde.Profiler1.Error.NotAuthorized");
      return;
    }
  g_variant_get (answer, "(oh)", &self->session, NULL);
  self->capture = g_unix_fd_list_get (fds, 0, &error);
  g_assert_no_error (error);
}

static void
send_call (Try *self)
{
  g_autoptr (GUnixFDList) fds = g_unix_fd_list_new_from_array (&self->proof, 1);
  g_autoptr (GError) error = NULL;

  g_dbus_connection_call_with_unix_fd_list (
      self->bus, "org.sonde.Profiler1", "/org/sonde/Profiler1", "org.sonde.Profiler1.Manager",
      "Profile",
      g_variant_new_parsed ("({'targets': <[(%u, %h)]>, 'frequency': <uint32 20000>},)",
                            (guint32) self->pid, 0),
      G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE, BUS_CALL_MS, fds, NULL, on_profiled, self);
  g_dbus_connection_flush_sync (self->bus, NULL, &error);
  g_assert_no_error (error);
}

static void
send_exec (Try *self)
{
  g_assert_cmpint (write (self->life_fd, "", 1), ==, 1);
}

static gboolean
is_answered (gpointer user_data)
{
  return ((Try *) user_data)->is_answered;
}

static gboolean
is_privileged (gpointer user_data)
{
  g_autofree char *link = g_strdup_printf ("/proc/%d/exe", ((Try *) user_data)->pid);
  g_autofree char *path = g_file_read_link (link, NULL);

  return g_strcmp0 (path, privileged_program) == 0;
}

static guint64
read_run_ns (pid_t pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/schedstat", pid);
  g_autofree char *text = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  return g_ascii_strtoull (text, NULL, 10);
}

static gboolean
has_run (gpointer user_data)
{
  return read_run_ns (((Try *) user_data)->pid) >= RUN_NS;
}

static void
wait_for_image (Try *self)
{
  bus_wait (is_privileged, self, "the target's exec");
  bus_wait (has_run, self, "the privileged program running");
}

static void
try_once (GDBusConnection *bus, uid_t uid, gint answer_us, Counts *counts)
{
  g_autofree char *argument = g_strconcat ("exec=", privileged_program, NULL);
  const char *arguments[] = { argument, NULL };
  Try self = { .bus = bus, .capture = -1 };
  gint delay_us = g_test_rand_int_range (-MARGIN_US, answer_us + MARGIN_US);

  self.pid = bus_run (uid, target_program, arguments, NULL, &self.life_fd);
  self.proof = bus_open_proof (uid, self.pid);
  g_assert_cmpint (self.proof, >=, 0);
  /* Not to wait for anything: this is the moment that the race is about. */
  (delay_us < 0 ? send_exec : send_call) (&self);
  g_usleep ((gulong) ABS (delay_us));
  (delay_us < 0 ? send_call : send_exec) (&self);

  bus_wait (is_answered, &self, "an answer to Profile");
  if (self.session != NULL)
    {
      counts->n_granted++;
      counts->n_early += is_privileged (&self);
      wait_for_image (&self);
      g_variant_unref (bus_stop (bus, self.session));
      look_at_capture (counts, self.capture);
    }
  else
    counts->n_refused++;
  bus_end (self.pid, SIGKILL);
  close (self.life_fd);
  g_free (self.session);
}

/* How long Profile takes here when it is disturbed least, in µs: an exec in that time is in the
 * midst of it. */
static gint
measure_answer (void)
{
  uid_t uid = bus_next_uid ();
  g_autoptr (GDBusConnection) bus = bus_connect (uid);
  gint64 begin_us;
  gint64 answer_us = G_MAXINT;

  for (guint i = 0; i < N_MEASURED; i++) /* the first one wakes up the service */
    {
      Try self = { .bus = bus };

      self.pid = bus_run (uid, target_program, NULL, NULL, &self.life_fd);
      self.proof = bus_open_proof (uid, self.pid);
      begin_us = g_get_monotonic_time ();
      send_call (&self);
      bus_wait (is_answered, &self, "an answer to Profile");
      answer_us = MIN (answer_us, g_get_monotonic_time () - begin_us);
      g_assert_nonnull (self.session);
      close (self.capture);
      bus_end (self.pid, SIGKILL);
      close (self.life_fd);
      g_free (self.session);
    }
  return (gint) answer_us;
}

static void
test_race (void)
{
  guint n_tries = bus_is_long () ? N_TRIES : N_TRIES / 10;
  gint answer_us = measure_answer ();
  Counts counts = { 0 };

  /* Whether an exec comes before or behind is for chance to say, and for what else the machine
   * does. */
  for (guint i = 0;
       i < n_tries
       || (i < n_tries + N_MORE_TRIES && (counts.n_granted == 0 || counts.n_refused == 0));
       i += N_TRIES_OF_USER)
    {
      uid_t uid = bus_next_uid ();
      g_autoptr (GDBusConnection) bus = bus_connect (uid);

      for (guint k = 0; k < N_TRIES_OF_USER; k++)
        try_once (bus, uid, answer_us, &counts);
    }
  g_test_message (
      "%u tries with an exec from 5 ms before Profile until 5 ms after its answer, which "
      "takes %.1f ms: %u granted, %u of them with the exec before the answer, %u refused; "
      "%" G_GUINT64_FORMAT " frames",
      counts.n_granted + counts.n_refused, answer_us / 1e3, counts.n_granted, counts.n_early,
      counts.n_refused, counts.n_frames);
  g_assert_cmpuint (counts.n_found, ==, 0);
  /* Else this was no race. */
  g_assert_cmpuint (counts.n_granted, >, 0);
  g_assert_cmpuint (counts.n_refused, >, 0);
}

/* What the other test looks for is there to be found. */
static void
test_root_sees (void)
{
  g_autoptr (GDBusConnection) bus = bus_connect (0);
  g_autofree char *argument = g_strconcat ("exec=", privileged_program, NULL);
  const char *arguments[] = { argument, NULL };
  g_autoptr (GError) error = NULL;
  g_autofree char *session = NULL;
  Try self = { 0 };
  Counts counts = { 0 };
  int capture;

  self.pid = bus_run (bus_next_uid (), target_program, arguments, NULL, &self.life_fd);
  send_exec (&self);
  wait_for_image (&self);
  bus_profile (
      bus,
      g_variant_new_parsed ("{'pids': <[%u]>, 'duration': <uint64 100000>}", (guint32) self.pid),
      NULL, &session, &capture, &error);
  g_assert_no_error (error);
  look_at_capture (&counts, capture);
  g_assert_cmpuint (counts.n_found, >, 0);
  bus_end (self.pid, SIGKILL);
  close (self.life_fd);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 3);
  target_program = argv[1];
  privileged_program = bus_copy_program (argv[2], "privileged", 04755);

  g_test_add_func ("/exec-race/root-sees-the-privileged-program", test_root_sees);
  g_test_add_func ("/exec-race/user-sees-nothing-of-the-privileged-program", test_race);
  return g_test_run ();
}
