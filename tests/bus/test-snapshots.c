/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compares what the recorder of a session gives with what a reader of all of it has. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/lib/bus-user.h"
#include "tests/lib/capture-summary.h"

/* A sample of a capture: what it is, without the order of the file. */
typedef struct
{
  gint64 time_ns;
  gint32 pid;
  gint32 tid;
  guint hash; /* of its addresses */
} Sample;

typedef struct
{
  GArray *samples; /* Sample, in their order */
  char *metadata;  /* of the frame "sonde" */
  gboolean has_names;
  gboolean is_named_last; /* nothing but the last counters is behind the names */
} Story;

static int64_t
read_fd (void *user_data, void *buffer, size_t size_bytes)
{
  ssize_t n = read (*(int *) user_data, buffer, size_bytes);

  g_assert_cmpint (n, >=, 0);
  return n;
}

/* @fd: (transfer full) */
static void
story_read (Story *self, int fd)
{
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  self->samples = g_array_new (FALSE, FALSE, sizeof (Sample));
  g_assert_cmpint (sonde_reader_new (read_fd, &fd, &reader), ==, 0);
  while (sonde_reader_next (reader, &frame) == 1)
    {
      const SondeFrameSample *sample = (const void *) frame;
      const SondeFrameMetadata *metadata = (const void *) frame;
      const SondeFrameFileChunk *chunk = (const void *) frame;

      self->is_named_last = frame->type == SONDE_FRAME_CTRSET && self->has_names;
      if (frame->type == SONDE_FRAME_FILE_CHUNK && g_str_equal (chunk->path, "__symbols__"))
        self->has_names = TRUE;
      if (frame->type == SONDE_FRAME_METADATA && g_str_equal (metadata->id, "sonde"))
        {
          g_free (self->metadata);
          self->metadata = g_strdup (metadata->metadata);
        }
      if (frame->type == SONDE_FRAME_SAMPLE)
        {
          Sample one = { frame->time_ns, frame->pid, sample->tid, 5381 };

          for (guint i = 0; i < sample->n_addrs * 8u; i++)
            one.hash = one.hash * 33 + ((const guint8 *) sample->addrs)[i];
          g_array_append_val (self->samples, one);
        }
    }
  sonde_reader_free (reader);
  close (fd);
}

static void
story_clear (Story *self)
{
  g_clear_pointer (&self->samples, g_array_unref);
  g_free (self->metadata);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Story, story_clear)

static gint64
window_of (const Story *story, const char *key)
{
  g_autoptr (GKeyFile) file = g_key_file_new ();
  g_autoptr (GError) error = NULL;
  gint64 time_ns;

  g_key_file_load_from_data (file, story->metadata, strlen (story->metadata), G_KEY_FILE_NONE,
                             &error);
  g_assert_no_error (error);
  time_ns = g_key_file_get_int64 (file, "sonde", key, &error);
  g_assert_no_error (error);
  return time_ns;
}

static const Sample *
sample_at (const Story *story, guint index)
{
  return &g_array_index (story->samples, Sample, index);
}

static int
snap (GDBusConnection *bus, const char *session)
{
  g_autoptr (GError) error = NULL;
  int fd = bus_take_snapshot (bus, session, &error);

  g_assert_no_error (error);
  return fd;
}

static GVariant *
recorder_of (guint64 length_us)
{
  return g_variant_new_parsed ("{'recorder': <%t>}", length_us);
}

static gint64
monotonic_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

/* --- cases --- */

/* Sample for sample, from the window's begin to the call. */
static void
test_equals_the_tail (void)
{
  g_auto (BusUser) user = { 0 };
  g_auto (Story) window = { 0 };
  g_auto (Story) all = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GError) error = NULL;
  CaptureSummary summary;
  gint64 called_ns;
  guint first = 0;
  int capture, reader, fd;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target, recorder_of (1000000), &session, &capture);
  reader = bus_open_capture (user.bus, session,
                             g_variant_new_parsed ("{'buffer-size': <uint32 8388608>}"), &error);
  g_assert_no_error (error);
  /* More than the window reaches back to. */
  bus_wait_count (user.bus, session, "recorder-gone", 0);
  called_ns = monotonic_ns ();
  fd = snap (user.bus, session);
  capture_summary_read (&summary, fcntl (fd, F_DUPFD_CLOEXEC, 0), user.target);
  capture_summary_assert_whole (&summary);
  g_assert_cmpint (lseek (fd, 0, SEEK_SET), ==, 0);
  story_read (&window, fd);
  bus_wait_samples (user.bus, session, bus_count (user.bus, session, "recorded"));
  g_variant_unref (bus_stop (user.bus, session));
  story_read (&all, reader);
  close (capture);

  g_assert_true (window.is_named_last);
  g_assert_cmpint (window_of (&window, "window-end"), >=, called_ns);
  g_assert_cmpint (window_of (&window, "window-end") - window_of (&window, "window-start"), >=,
                   1000000000);
  g_assert_cmpuint (window.samples->len, >, 0);
  g_assert_cmpuint (window.samples->len, <, all.samples->len);
  while (first < all.samples->len
         && memcmp (sample_at (&all, first), sample_at (&window, 0), sizeof (Sample)) != 0)
    first++;
  g_assert_cmpuint (first + window.samples->len, <=, all.samples->len);
  for (guint i = 0; i < window.samples->len; i++)
    g_assert_cmpmem (sample_at (&window, i), sizeof (Sample), sample_at (&all, first + i),
                     sizeof (Sample));
  /* What came before it began was sampled before, too, and what was sampled until the call is in.
   */
  for (guint i = 0; i < first; i++)
    g_assert_cmpint (sample_at (&all, i)->time_ns, <, window_of (&window, "window-start"));
  for (guint i = first + window.samples->len; i < all.samples->len; i++)
    g_assert_cmpint (sample_at (&all, i)->time_ns, >, called_ns);
}

static void
test_goes_on (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  CaptureSummary first, second, last;
  guint64 n_samples;
  int capture;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target, recorder_of (3600000000), &session, &capture);
  bus_wait_samples (user.bus, session, 20);
  capture_summary_read (&first, snap (user.bus, session), user.target);
  capture_summary_assert_whole (&first);
  n_samples = first.n_frames[SONDE_FRAME_SAMPLE];
  g_assert_cmpuint (n_samples, >, 20);
  bus_wait_samples (user.bus, session, n_samples + 20);
  bus_assert_state (user.bus, session, "running");
  capture_summary_read (&second, snap (user.bus, session), user.target);
  capture_summary_assert_whole (&second);
  g_assert_cmpuint (second.n_frames[SONDE_FRAME_SAMPLE], >, n_samples + 20);
  /* The stream of Profile has what is kept at the end, and had nothing before. */
  g_variant_unref (bus_stop (user.bus, session));
  capture_summary_read (&last, capture, user.target);
  capture_summary_assert_whole (&last);
  g_assert_cmpuint (last.n_frames[SONDE_FRAME_SAMPLE], >=, second.n_frames[SONDE_FRAME_SAMPLE]);
}

static void
assert_refused (GDBusConnection *bus, const char *session, const char *name, const char *text)
{
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (bus_take_snapshot (bus, session, &error), ==, -1);
  bus_assert_error (error, name);
  g_assert_nonnull (strstr (error->message, text));
}

static void
test_refuses_sessions_without_a_recorder (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  int capture;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_profile_pid (user.bus, user.target, NULL, &session, &capture);
  assert_refused (user.bus, session, "InvalidState", "has no recorder");
  close (capture);
}

static void
test_refuses_options_that_are_not_known (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  int capture;

  bus_user_init (&user, BUS_CHILD_WAIT);
  bus_profile_pid (user.bus, user.target, recorder_of (1000000), &session, &capture);
  answer = bus_session_call (user.bus, session, "Snapshot",
                             g_variant_new_parsed ("({'since': <uint64 1>},)"), NULL, &error);
  g_assert_null (answer);
  bus_assert_error (error, "InvalidOption");
  g_assert_nonnull (strstr (error->message, "since"));
  close (capture);
}

static void
test_refuses_sessions_that_are_over (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autofree char *reason = NULL;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  CaptureSummary summary;

  bus_user_init (&user, BUS_CHILD_SPIN);
  fds = bus_open_proc (user.target, "maps", O_RDONLY);
  session = bus_start_session (
      user.bus,
      g_variant_new_parsed ("{'targets': <[(%u, %h)]>, 'recorder': <uint64 60000000>}",
                            (guint32) user.target, 0),
      fds, &error);
  g_assert_no_error (error);
  bus_wait_samples (user.bus, session, 20);
  g_variant_unref (bus_stop (user.bus, session));
  reason = bus_wait_finished (user.bus, session);
  assert_refused (user.bus, session, "InvalidState", "The session is finished");
  /* Its file has what was kept. */
  capture_summary_read (&summary, bus_open_capture (user.bus, session, NULL, &error), user.target);
  capture_summary_assert_whole (&summary);
  g_assert_cmpuint (summary.n_frames[SONDE_FRAME_SAMPLE], >, 20);
}

/* The file of StartSession does not grow before the end, and its session has no other reader. */
static void
test_keeps_a_file_empty (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GUnixFDList) fds = NULL;
  g_autoptr (GError) error = NULL;
  CaptureSummary summary;
  int reader;

  bus_user_init (&user, BUS_CHILD_SPIN);
  fds = bus_open_proc (user.target, "maps", O_RDONLY);
  session = bus_start_session (
      user.bus,
      g_variant_new_parsed ("{'targets': <[(%u, %h)]>, 'recorder': <uint64 1000000>}",
                            (guint32) user.target, 0),
      fds, &error);
  g_assert_no_error (error);
  bus_wait_count (user.bus, session, "recorder-gone", 0);
  g_assert_cmpuint (bus_count (user.bus, session, "bytes"), ==, 0);
  g_assert_cmpuint (bus_count (user.bus, session, "recorder-bytes"), <=, 32u << 20);
  /* Who reads along and leaves does not end it. */
  reader = bus_open_capture (user.bus, session, NULL, &error);
  g_assert_no_error (error);
  close (reader);
  capture_summary_read (&summary, snap (user.bus, session), user.target);
  capture_summary_assert_whole (&summary);
  bus_assert_state (user.bus, session, "running");
  g_variant_unref (bus_stop (user.bus, session));
}

static void
test_takes_paused_sessions (void)
{
  g_auto (BusUser) user = { 0 };
  g_autofree char *session = NULL;
  g_autoptr (GVariant) answer = NULL;
  g_autoptr (GError) error = NULL;
  CaptureSummary summary;
  int capture;

  bus_user_init (&user, BUS_CHILD_SPIN);
  bus_profile_pid (user.bus, user.target, recorder_of (60000000), &session, &capture);
  bus_wait_samples (user.bus, session, 20);
  answer = bus_session_call (user.bus, session, "Pause", NULL, NULL, &error);
  g_assert_no_error (error);
  capture_summary_read (&summary, snap (user.bus, session), user.target);
  capture_summary_assert_whole (&summary);
  close (capture);
}

int
main (int argc, char **argv)
{
  bus_child_main (argc, argv);
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) g_test_add_func ("/snapshots/" path, function)
  ADD ("refuses-sessions-without-a-recorder", test_refuses_sessions_without_a_recorder);
  ADD ("refuses-options-that-are-not-known", test_refuses_options_that_are_not_known);
  ADD ("refuses-sessions-that-are-over", test_refuses_sessions_that_are_over);
  ADD ("equals-the-tail", test_equals_the_tail);
  ADD ("goes-on", test_goes_on);
  ADD ("keeps-a-file-empty", test_keeps_a_file_empty);
  ADD ("takes-paused-sessions", test_takes_paused_sessions);
#undef ADD
  return g_test_run ();
}
