/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A stream in a file that cannot take all of it. With SMALL_DISKS: on disks that
 * are full, which takes root; else under limits of the size of a file. */
#include "client/model/capture-sink.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/model/capture-file.h"
#include "client/model/ledger.h"
#include "tests/unit/capture-builder.h"

#define STEP_BYTES 4096u
#define N_ROUNDS   40
#define N_SAMPLES  12 /* a round */

/* The ledger as a sink of the service would have it now. */
static void
set_true_ledger (CaptureBuilder *capture, gint64 n_samples, gint64 n_events, gint64 n_lost)
{
  gint64 n_frames = (gint64) sonde_writer_n_frames (capture->writer) + 1;
  const gint64 values[SONDE_N_LEDGER] = {
    [SONDE_LEDGER_PRODUCED] = n_samples + 3 + n_lost,
    [SONDE_LEDGER_RECORDED] = n_samples + n_lost,
    [SONDE_LEDGER_LOST_KERNEL] = 3,
    [SONDE_LEDGER_EVENTS_PRODUCED] = n_events,
    [SONDE_LEDGER_EVENTS_RECORDED] = n_events,
    [SONDE_LEDGER_STREAM_RECORDED] = n_frames + n_lost - 5,
    [SONDE_LEDGER_STREAM_RESENT] = 5,
    [SONDE_LEDGER_STREAM_DELIVERED] = n_frames,
    [SONDE_LEDGER_STREAM_LOST] = n_lost,
    [SONDE_LEDGER_STREAM_SAMPLES] = n_samples,
    [SONDE_LEDGER_STREAM_SAMPLES_LOST] = n_lost,
    [SONDE_LEDGER_STREAM_EVENTS] = n_events,
  };

  set_ledger (capture, values, SONDE_N_LEDGER);
}

/* State, then rounds of samples, marks and the ledger. The last one closes it. */
static CaptureBuilder *
new_recording (void)
{
  CaptureBuilder *capture = capture_builder_new ();
  gint64 n_samples = 0;
  gint64 n_events = 0;

  add_process (capture, 7, "program");
  add_map (capture, 7, 0x1000, 0x100000, "/usr/bin/program");
  define_ledger (capture);
  for (guint round = 0; round < N_ROUNDS; round++)
    {
      SondeFrameOrigin origin = at (7, 3000 + round);

      for (guint i = 0; i < N_SAMPLES; i++, n_samples++)
        add_sample (capture, 7, 0x1000 + i, 0x2000 + round, 0x3000, 0x4000, 0x5000, 0x6000);
      ADD (sonde_writer_add_mark (capture->writer, &origin, 5, "group", "name", "a message"));
      n_events++;
      set_true_ledger (capture, n_samples, n_events, 2);
    }
  return capture;
}

/* Counts what a reader finds, and lets nothing pass that sondectl verify would not. */
static SondeCaptureCounts
read_back (const char *path, gboolean has_ledger)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (SondeCaptureFile) file = sonde_capture_file_open (path, &error);
  g_autoptr (SondeLedgerCheck) check = sonde_ledger_check_new ();
  g_autoptr (GPtrArray) findings = NULL;
  SondeCaptureCounts counts = { .n_bytes = sizeof (SondeFileHeader) };
  const SondeFrame *frame;

  g_assert_no_error (error);
  while (sonde_capture_file_next (file, &frame, &error))
    {
      sonde_ledger_check_add_frame (check, frame);
      counts.n_bytes += frame->len;
      counts.n_frames++;
      counts.n_samples += frame->type == SONDE_FRAME_SAMPLE;
      counts.n_events += sonde_ledger_n_events (frame);
    }
  g_assert_no_error (error);
  findings = sonde_ledger_check_dup_findings (check);
  for (guint i = 0; has_ledger && i < findings->len; i++)
    {
      const SondeFinding *finding = g_ptr_array_index (findings, i);

      if (finding->verdict != SONDE_VERDICT_PASSED)
        g_error ("%s: %s", finding->subject, finding->text);
    }
  return counts;
}

static void
assert_same (const SondeCaptureCounts *one, const SondeCaptureCounts *other)
{
  g_assert_cmpuint (one->n_bytes, ==, other->n_bytes);
  g_assert_cmpuint (one->n_frames, ==, other->n_frames);
  g_assert_cmpuint (one->n_samples, ==, other->n_samples);
  g_assert_cmpuint (one->n_events, ==, other->n_events);
}

/* Returns the error of the one call that failed. */
static GError *
add_all (SondeCaptureSink *sink, const GByteArray *bytes, gsize piece_bytes, gsize size_bytes)
{
  GError *error = NULL;

  for (gsize done = 0; done < size_bytes; done += MIN (piece_bytes, size_bytes - done))
    {
      g_autoptr (GError) failure = NULL;

      if (!sonde_capture_sink_add (sink, bytes->data + done, MIN (piece_bytes, size_bytes - done),
                                   &failure))
        {
          g_assert_no_error (error);
          error = g_steal_pointer (&failure);
        }
    }
  sonde_capture_sink_finish (sink);
  return error;
}

/* A recording into a file that can take @room_bytes at most. Returns what was kept. */
static SondeCaptureCounts
record_into (const char *path, gsize piece_bytes, gsize size_bytes, gboolean *is_cut)
{
  g_autoptr (CaptureBuilder) capture = new_recording ();
  const GByteArray *bytes = capture_bytes (capture);
  int fd = open (path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  g_autoptr (SondeCaptureSink) sink = sonde_capture_sink_new (fd);
  g_autoptr (GError) error = add_all (sink, bytes, piece_bytes, MIN (size_bytes, bytes->len));
  SondeCaptureCounts kept = *sonde_capture_sink_kept (sink);
  SondeCaptureCounts lost = sonde_capture_sink_lost (sink);
  struct stat st;

  g_assert_cmpint (fstat (fd, &st), ==, 0);
  close (fd);
  g_assert_cmpuint ((guint64) st.st_size, ==, kept.n_bytes);
  *is_cut = error != NULL;
  if (error != NULL)
    g_assert_true (error->domain == G_FILE_ERROR);
  if (kept.n_bytes > 0)
    {
      SondeCaptureCounts found = read_back (path, TRUE);

      assert_same (&kept, &found);
    }
  g_assert_true (error != NULL || lost.n_frames == 0);
  if (size_bytes >= bytes->len)
    g_assert_cmpuint (kept.n_samples + lost.n_samples, ==, N_ROUNDS * N_SAMPLES);
  return kept;
}

static gsize
recording_bytes (void)
{
  g_autoptr (CaptureBuilder) capture = new_recording ();

  return capture_bytes (capture)->len;
}

/* Where the first @n_rounds end. */
static gsize
rounds_bytes (guint n_rounds)
{
  g_autoptr (CaptureBuilder) capture = new_recording ();
  const GByteArray *bytes = capture_bytes (capture);
  gsize offset = sizeof (SondeFileHeader);

  while (n_rounds > 0)
    {
      const SondeFrame *frame = (const void *) (bytes->data + offset);

      n_rounds -= frame->type == SONDE_FRAME_CTRSET;
      offset += frame->len;
    }
  return offset;
}

typedef void (*SetRoom) (const char *folder, gsize room_bytes);

/* Each step, with pieces as a socket may give them, to the end and up to where others still record.
 */
static void
fill (const char *folder, SetRoom set_room, gsize more_bytes)
{
  static const gsize pieces[] = { 100, 4096, 50000, G_MAXUINT32 };
  const gsize ends[] = { G_MAXSIZE, rounds_bytes (N_ROUNDS / 2) };
  g_autofree char *path = g_build_filename (folder, "x.syscap", NULL);
  gboolean is_cut = TRUE;
  guint n_kept = 0;

  for (gsize room = STEP_BYTES; room < recording_bytes () + more_bytes + STEP_BYTES;
       room += STEP_BYTES)
    for (guint i = 0; i < G_N_ELEMENTS (pieces); i++)
      for (guint j = 0; j < G_N_ELEMENTS (ends); j++)
        {
          SondeCaptureCounts kept;

          set_room (folder, room);
          kept = record_into (path, pieces[i], ends[j], &is_cut);
          set_room (folder, 0);
          unlink (path);
          n_kept += is_cut && kept.n_samples > 0;
          g_assert_true (is_cut || kept.n_bytes > 0);
          /* what the end takes, twice over, is all that may be lacking */
          if (is_cut && room > more_bytes + 4 * STEP_BYTES)
            g_assert_cmpuint (kept.n_bytes, >, room - more_bytes - 3 * STEP_BYTES);
        }
  g_assert_false (is_cut);
  g_assert_cmpuint (n_kept, >, 20);
}

#ifdef SMALL_DISKS
static void
set_disk (const char *folder, gsize room_bytes)
{
  g_autofree char *options = g_strdup_printf ("size=%zu", room_bytes);

  if (room_bytes == 0)
    g_assert_cmpint (umount2 (folder, MNT_DETACH), ==, 0);
  else
    g_assert_cmpint (mount ("small-disk", folder, "tmpfs", 0, options), ==, 0);
}

static void
a_full_disk_ends_the_file_with_an_account_of_it (void)
{
  g_autofree char *folder = g_dir_make_tmp ("sonde-test-XXXXXX", NULL);

  if (geteuid () != 0 || unshare (CLONE_NEWNS) < 0
      || mount (NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
    {
      g_test_skip ("a disk of its own needs root");
      return;
    }
  fill (folder, set_disk, 2 * STEP_BYTES);
  rmdir (folder);
}
#else
static void
set_limit (const char *folder, gsize room_bytes)
{
  struct rlimit limit;

  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  limit.rlim_cur = room_bytes == 0 ? limit.rlim_max : room_bytes;
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
}

static void
a_file_at_its_limit_ends_with_an_account_of_it (void)
{
  g_autofree char *folder = g_dir_make_tmp ("sonde-test-XXXXXX", NULL);

  fill (folder, set_limit, 0);
  rmdir (folder);
}

static void
a_file_can_be_read_at_any_moment (void)
{
  g_autoptr (CaptureBuilder) capture = new_recording ();
  const GByteArray *bytes = capture_bytes (capture);
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp ("sonde-test-XXXXXX", &path, NULL);
  g_autoptr (SondeCaptureSink) sink = NULL;

  /* what an older capture left is gone with the first frame, not before */
  g_assert_cmpint (write (fd, bytes->data, bytes->len), ==, (gssize) bytes->len);
  lseek (fd, 0, SEEK_SET);
  sink = sonde_capture_sink_new (fd);
  read_back (path, TRUE);
  for (gsize done = 0; done < bytes->len; done += MIN (777, bytes->len - done))
    {
      SondeCaptureCounts found;

      g_assert_true (
          sonde_capture_sink_add (sink, bytes->data + done, MIN (777, bytes->len - done), NULL));
      found = read_back (path, FALSE);
      if (done > 0)
        assert_same (&found, sonde_capture_sink_kept (sink));
    }
  sonde_capture_sink_finish (sink);
  read_back (path, TRUE);
  close (fd);
  unlink (path);
}

static void
a_file_that_stands_elsewhere_keeps_what_is_before (void)
{
  g_autoptr (CaptureBuilder) capture = new_recording ();
  const GByteArray *bytes = capture_bytes (capture);
  g_autofree char *path = NULL;
  g_autofree char *content = NULL;
  int fd = g_file_open_tmp ("sonde-test-XXXXXX", &path, NULL);
  g_autoptr (SondeCaptureSink) sink = NULL;
  gsize size_bytes;

  g_assert_cmpint (write (fd, "before", 6), ==, 6);
  sink = sonde_capture_sink_new (fd);
  g_assert_null (add_all (sink, bytes, 1000, bytes->len));
  g_assert_cmpint (write (fd, "behind", 6), ==, 6);
  g_assert_true (g_file_get_contents (path, &content, &size_bytes, NULL));
  g_assert_cmpuint (size_bytes, ==, 12 + bytes->len);
  g_assert_cmpmem (content + 6, bytes->len, bytes->data, bytes->len);
  g_assert_cmpmem (content + 6 + bytes->len, 6, "behind", 6);
  close (fd);
  unlink (path);
}

static void
a_pipe_gets_the_bytes_as_they_come (void)
{
  g_autoptr (CaptureBuilder) capture = new_recording ();
  const GByteArray *bytes = capture_bytes (capture);
  g_autoptr (SondeCaptureSink) sink = NULL;
  g_autofree guint8 *got = g_malloc (bytes->len + 1);
  int fds[2];

  g_assert_cmpint (pipe2 (fds, O_CLOEXEC | O_NONBLOCK), ==, 0);
  g_assert_cmpint (fcntl (fds[1], F_SETPIPE_SZ, 1 << 20), >=, (int) bytes->len);
  sink = sonde_capture_sink_new (fds[1]);
  g_assert_null (add_all (sink, bytes, 1000, bytes->len));
  g_assert_cmpint (read (fds[0], got, bytes->len + 1), ==, (gssize) bytes->len);
  g_assert_cmpmem (got, bytes->len, bytes->data, bytes->len);
  close (fds[0]);
  close (fds[1]);
}

static void
a_full_device_is_an_error_and_holds_nothing (void)
{
  g_autoptr (CaptureBuilder) capture = new_recording ();
  const GByteArray *bytes = capture_bytes (capture);
  int fd = open ("/dev/full", O_WRONLY | O_CLOEXEC);
  g_autoptr (SondeCaptureSink) sink = sonde_capture_sink_new (fd);
  g_autoptr (GError) error = add_all (sink, bytes, 1000, bytes->len);

  g_assert_error (error, G_FILE_ERROR, G_FILE_ERROR_NOSPC);
  g_assert_cmpuint (sonde_capture_sink_kept (sink)->n_bytes, ==, 0);
  g_assert_cmpuint (sonde_capture_sink_lost (sink).n_samples, ==, N_ROUNDS * N_SAMPLES);
  close (fd);
}

static void
what_is_no_capture_is_refused (void)
{
  static const guint8 zeros[300] = { 0 };
  g_autoptr (CaptureBuilder) capture = new_recording ();
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_autoptr (SondeCaptureSink) none = NULL;
  g_autoptr (SondeCaptureSink) broken = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *path = NULL;
  SondeCaptureCounts found;
  int fd = g_file_open_tmp ("sonde-test-XXXXXX", &path, NULL);

  none = sonde_capture_sink_new (fd);
  g_assert_false (sonde_capture_sink_add (none, zeros, sizeof zeros, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
  g_clear_error (&error);
  sonde_capture_sink_finish (none);
  g_assert_cmpuint (sonde_capture_sink_kept (none)->n_bytes, ==, 0);

  g_byte_array_append (bytes, capture_bytes (capture)->data, (guint) rounds_bytes (3));
  g_byte_array_append (bytes, zeros, sizeof zeros);
  broken = sonde_capture_sink_new (fd);
  error = add_all (broken, bytes, 1000, bytes->len);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA);
  found = read_back (path, TRUE);
  g_assert_cmpuint (found.n_bytes, ==, rounds_bytes (3));
  close (fd);
  unlink (path);
}
#endif

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  signal (SIGXFSZ, SIG_IGN);
#ifdef SMALL_DISKS
  g_test_add_func ("/capture-sink/a-full-disk-ends-the-file-with-an-account-of-it",
                   a_full_disk_ends_the_file_with_an_account_of_it);
#else
  g_test_add_func ("/capture-sink/what-is-no-capture-is-refused", what_is_no_capture_is_refused);
  g_test_add_func ("/capture-sink/a-full-device-is-an-error-and-holds-nothing",
                   a_full_device_is_an_error_and_holds_nothing);
  g_test_add_func ("/capture-sink/a-file-at-its-limit-ends-with-an-account-of-it",
                   a_file_at_its_limit_ends_with_an_account_of_it);
  g_test_add_func ("/capture-sink/a-file-can-be-read-at-any-moment",
                   a_file_can_be_read_at_any_moment);
  g_test_add_func ("/capture-sink/a-file-that-stands-elsewhere-keeps-what-is-before",
                   a_file_that_stands_elsewhere_keeps_what_is_before);
  g_test_add_func ("/capture-sink/a-pipe-gets-the-bytes-as-they-come",
                   a_pipe_gets_the_bytes_as_they_come);
#endif
  return g_test_run ();
}
