/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files that end at a whole frame: at their limit, and where the disk takes no more. */
#include "daemon/capture/stream/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/socket.h"

#define FRAME_BYTES 544 /* of a sample with 64 addresses */

typedef struct
{
  SondeChunkPool *pool;
  SondeSpanWriter *writer;
  SondeSpanQueue *queue;
  char name[32];
  int fd; /* of our own */
} Fixture;

static void
queue_span (const SondeSpan *span, gpointer user_data)
{
  Fixture *fixture = user_data;

  g_assert_true (sonde_span_queue_push (fixture->queue, span));
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  g_strlcpy (fixture->name, "/tmp/sonde-output-XXXXXX", sizeof fixture->name);
  fixture->fd = mkostemp (fixture->name, O_CLOEXEC);
  fixture->pool = sonde_chunk_pool_new ();
  fixture->queue = sonde_span_queue_new (64);
  fixture->writer = sonde_span_writer_new (fixture->pool, queue_span, fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_span_writer_free (fixture->writer);
  sonde_span_queue_free (fixture->queue);
  sonde_chunk_pool_unref (fixture->pool);
  sonde_clear_fd (&fixture->fd);
  unlink (fixture->name);
}

static SondeFileOutput *
open_output (const Fixture *fixture, guint64 max_bytes)
{
  return sonde_file_output_new (open (fixture->name, O_WRONLY | O_CLOEXEC), max_bytes);
}

static void
add_samples (Fixture *fixture, guint n_samples)
{
  static const uint64_t addrs[64];
  SondeFrameOrigin origin = { 1, 0, 10 };

  for (guint i = 0; i < n_samples; i++)
    sonde_span_writer_add_sample (fixture->writer, &origin, 10, addrs, G_N_ELEMENTS (addrs));
  sonde_span_writer_publish (fixture->writer);
}

static guint64
file_size (const Fixture *fixture)
{
  struct stat st;

  g_assert_cmpint (fstat (fixture->fd, &st), ==, 0);
  return (guint64) st.st_size;
}

static guint64
n_waiting (const Fixture *fixture)
{
  guint64 n_frames, n_samples, n_events;

  sonde_span_queue_count (fixture->queue, &n_frames, &n_samples, &n_events);
  g_assert_cmpuint (n_frames, ==, n_samples);
  return n_frames;
}

/* Returns why it ended; 0: the queue is empty. */
static int
write_all (Fixture *fixture, SondeFileOutput *output)
{
  gssize written;

  while ((written = sonde_file_output_write (output, fixture->queue)) > 0)
    ;
  return (int) -written;
}

/* --- cases --- */

static void
refuses_what_is_not_an_empty_file (Fixture *fixture, gconstpointer data)
{
  int fds[2];

  g_assert_true (sonde_socketpair (SOCK_STREAM, fds, NULL));
  g_assert_null (sonde_file_output_new (fds[0], 1 << 20));
  close (fds[1]);
  g_assert_cmpint (write (fixture->fd, "x", 1), ==, 1);
  g_assert_null (open_output (fixture, 1 << 20));
}

static void
ends_at_its_limit (Fixture *fixture, gconstpointer data)
{
  const guint64 max_bytes = SONDE_FILE_OUTPUT_RESERVE + 100 * FRAME_BYTES + FRAME_BYTES / 2;
  g_autoptr (SondeFileOutput) output = open_output (fixture, max_bytes);

  sonde_writer_add_file_header (sonde_span_writer_plain (fixture->writer), 0, 0);
  add_samples (fixture, 400);
  g_assert_cmpint (write_all (fixture, output), ==, EFBIG);
  /* The header takes the place of half a frame. */
  g_assert_cmpuint (file_size (fixture), ==, 256 + 100 * FRAME_BYTES);
  g_assert_cmpuint (n_waiting (fixture), ==, 300);
  g_assert_cmpint (write_all (fixture, output), ==, EFBIG);

  sonde_file_output_use_reserve (output);
  g_assert_cmpint (write_all (fixture, output), ==, EFBIG);
  g_assert_cmpuint (file_size (fixture), <=, max_bytes);
  g_assert_cmpuint (file_size (fixture), >, max_bytes - FRAME_BYTES);
}

static void
takes_all_that_fits (Fixture *fixture, gconstpointer data)
{
  g_autoptr (SondeFileOutput) output = open_output (fixture, 1 << 20);

  sonde_writer_add_file_header (sonde_span_writer_plain (fixture->writer), 0, 0);
  add_samples (fixture, 400);
  g_assert_cmpint (write_all (fixture, output), ==, 0);
  g_assert_cmpuint (file_size (fixture), ==, 256 + 400 * FRAME_BYTES);
  g_assert_cmpuint (n_waiting (fixture), ==, 0);
}

/* The kernel takes a part of what is written and then no more, as it does on a full disk. At each
 * of many places, so that frames are cut everywhere. */
static void
ends_at_a_whole_frame_on_a_full_disk (Fixture *fixture, gconstpointer data)
{
  struct rlimit before;
  struct rlimit limit;

  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
  limit = before;
  signal (SIGXFSZ, SIG_IGN);
  for (guint64 size_bytes = 20000; size_bytes < 20000 + FRAME_BYTES + 8; size_bytes += 8)
    {
      SondeFileOutput *output;
      guint64 n_before, whole_bytes;

      g_assert_cmpint (ftruncate (fixture->fd, 0), ==, 0);
      g_clear_pointer (&fixture->queue, sonde_span_queue_free);
      fixture->queue = sonde_span_queue_new (64);
      /* A chunk of its own, for what was written of an earlier one is not taken back. */
      g_clear_pointer (&fixture->writer, sonde_span_writer_free);
      fixture->writer = sonde_span_writer_new (fixture->pool, queue_span, fixture);
      output = open_output (fixture, 1 << 20);
      limit.rlim_cur = size_bytes;
      g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
      sonde_writer_add_file_header (sonde_span_writer_plain (fixture->writer), 0, 0);
      add_samples (fixture, 50);
      g_assert_cmpint (write_all (fixture, output), ==, EFBIG);

      /* What is not in the file waits still, and there is room for the last words. */
      n_before = n_waiting (fixture);
      whole_bytes = 256 + (50 - n_before) * FRAME_BYTES;
      g_assert_cmpuint (whole_bytes, <=, size_bytes - 512);
      g_assert_cmpuint (whole_bytes, >, size_bytes - 1024 - 2 * FRAME_BYTES);
      sonde_file_output_use_reserve (output);
      g_assert_cmpint (write_all (fixture, output), ==, EFBIG);
      g_assert_cmpuint (n_waiting (fixture), <, n_before);
      sonde_file_output_free (output);
      g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
      g_assert_cmpuint (file_size (fixture), ==, 256 + (50 - n_waiting (fixture)) * FRAME_BYTES);
    }
}

#define ADD(name, function)                                                                        \
  g_test_add ("/file-output/" name, Fixture, NULL, set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("refuses-what-is-not-an-empty-file", refuses_what_is_not_an_empty_file);
  ADD ("ends-at-its-limit", ends_at_its_limit);
  ADD ("takes-all-that-fits", takes_all_that_fits);
  ADD ("ends-at-a-whole-frame-on-a-full-disk", ends_at_a_whole_frame_on_a_full_disk);
  return g_test_run ();
}
