/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* writer: what it refuses, where it cuts and splits, and what it leaves behind. */
#include <errno.h>
#include <glib.h>
#include <string.h>

#include "protocol/frame-check.h"
#include "tests/lib/memory-capture.h"

#define BUFFER SONDE_WRITER_MIN_BUFFER_SIZE

static const SondeFrameOrigin origin = { 5000, 0, 42 };

/* The frame that starts @offset bytes into the capture; checked. */
static gconstpointer
frame_at (const GByteArray *bytes, gsize offset, guint8 type)
{
  const SondeFrame *frame = (const SondeFrame *) (bytes->data + offset);

  g_assert_cmpuint (offset, <, bytes->len);
  g_assert_cmpstr (sonde_frame_fault_to_string (sonde_frame_check (frame, bytes->len - offset)), ==,
                   "it is whole");
  g_assert_cmpuint (frame->type, ==, type);

  return frame;
}

/* The one frame of a capture that has no other. */
static gconstpointer
only_frame (MemoryCapture *capture, guint8 type)
{
  const GByteArray *bytes = memory_capture_finish (capture);
  const SondeFrame *frame = frame_at (bytes, sizeof (SondeFileHeader), type);

  g_assert_cmpuint (bytes->len, ==, sizeof (SondeFileHeader) + frame->len);
  g_assert_cmpuint (sonde_writer_n_frames (capture->writer), ==, 1);

  return frame;
}

static void *
fail (void *user_data, void *buffer, size_t used_bytes)
{
  guint *n_calls = user_data;

  ++*n_calls;
  return NULL;
}

static void
refuses_buffers_it_cannot_use (void)
{
  g_autofree guint8 *buffer = g_malloc (BUFFER + 8);
  guint n = 0;

  errno = 0;
  g_assert_null (sonde_writer_new (buffer, BUFFER - 1, fail, &n));
  g_assert_cmpint (errno, ==, EINVAL);
  g_assert_null (sonde_writer_new (buffer + 4, BUFFER, fail, &n));
  g_assert_null (sonde_writer_new (NULL, BUFFER, fail, &n));
  g_assert_null (sonde_writer_new (buffer, BUFFER, NULL, &n));
  sonde_writer_free (NULL);
}

static void
refuses_what_can_never_fit (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0);
  g_autofree guint64 *addrs = g_new0 (guint64, 8188);
  g_autofree guint8 *data = g_malloc0 (SONDE_WRITER_MAX_CHUNK + 1);
  g_autofree char *text = g_strnfill (70000, 'x');
  SondeWriter *w = capture->writer;

  g_assert_cmpint (sonde_writer_add_sample (w, &origin, 1, addrs, 8188), ==, -EMSGSIZE);
  g_assert_cmpint (sonde_writer_add_sample (w, &origin, 1, addrs, SIZE_MAX / 8), ==, -EMSGSIZE);
  g_assert_cmpint (sonde_writer_add_allocation (w, &origin, 1, 0, 1, addrs, 8186), ==, -EMSGSIZE);
  g_assert_cmpint (
      sonde_writer_add_file_chunk (w, &origin, "f", data, SONDE_WRITER_MAX_CHUNK + 1, TRUE), ==,
      -EMSGSIZE);
  text[256] = '\0';
  g_assert_cmpint (sonde_writer_add_file_chunk (w, &origin, text, data, 1, TRUE), ==, -EMSGSIZE);
  text[256] = 'x';
  g_assert_cmpint (sonde_writer_add_overlay (w, &origin, 0, text, "/"), ==, -EMSGSIZE);
  text[33000] = '\0';
  g_assert_cmpint (sonde_writer_add_overlay (w, &origin, 0, text, text), ==, -EMSGSIZE);

  g_assert_cmpuint (sonde_writer_n_frames (w), ==, 0);
  g_assert_cmpuint (sonde_writer_pending (w), ==, sizeof (SondeFileHeader));
}

static void
refuses_arguments_out_of_range (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0);
  static const SondeFrameOrigin below = { 0, -2, 0 }, above = { 0, 32768, 0 };
  static const SondeCounterValue value = { .v64 = 1 };
  static const uint32_t ids[] = { 0, 1u << 24 };
  SondeCounter counter = { "c", "n", "d", 0, SONDE_COUNTER_INT64, { .v64 = 0 } };
  g_autofree char *digits = g_strnfill (257, 'a');
  SondeWriter *w = capture->writer;

  g_assert_cmpint (sonde_writer_add_timestamp (w, &below), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_timestamp (w, &above), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_counter_define (w, &origin, &counter, 1), ==, -EINVAL);
  counter.id = 1u << 24;
  g_assert_cmpint (sonde_writer_add_counter_define (w, &origin, &counter, 1), ==, -EINVAL);
  counter.id = 1;
  counter.type = 2;
  g_assert_cmpint (sonde_writer_add_counter_define (w, &origin, &counter, 1), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_counter_set (w, &origin, &ids[0], &value, 1), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_counter_set (w, &origin, &ids[1], &value, 1), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_map (w, &origin, 2, 1, 0, 0, "x", NULL), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_map (w, &origin, 1, 2, 0, 0, "x", ""), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_map (w, &origin, 1, 2, 0, 0, "x", "xyz"), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_map (w, &origin, 1, 2, 0, 0, "x", digits), ==, -EINVAL);
  g_assert_cmpint (sonde_writer_add_allocation (w, &origin, 1, 0, -1, NULL, 0), ==, -EINVAL);

  g_assert_cmpuint (sonde_writer_n_frames (w), ==, 0);
}

static void
refuses_everything_once_the_callback_failed (void)
{
  g_autofree guint8 *buffer = g_malloc (BUFFER);
  guint n = 0;
  SondeWriter *w = sonde_writer_new (buffer, BUFFER, fail, &n);

  g_assert_cmpint (sonde_writer_flush (w), ==, 0); /* nothing to hand on */
  g_assert_cmpuint (n, ==, 0);
  g_assert_cmpint (sonde_writer_add_exit (w, &origin), ==, 0);
  g_assert_cmpint (sonde_writer_flush (w), ==, -EPIPE);
  g_assert_cmpint (sonde_writer_flush (w), ==, -EPIPE);
  g_assert_cmpint (sonde_writer_add_exit (w, &origin), ==, -EPIPE);
  g_assert_cmpint (sonde_writer_add_file_header (w, 0, 0), ==, -EPIPE);
  g_assert_cmpuint (n, ==, 1);
  g_assert_cmpuint (sonde_writer_n_frames (w), ==, 1);
  g_assert_cmpuint (sonde_writer_pending (w), ==, 0);
  g_assert_null (sonde_writer_buffer (w));
  sonde_writer_free (w);
}

static void
fails_with_the_frame_that_did_not_fit (void)
{
  g_autofree guint8 *buffer = g_malloc (BUFFER);
  guint n = 0;
  int r;
  SondeWriter *w = sonde_writer_new (buffer, BUFFER, fail, &n);

  do
    r = sonde_writer_add_fork (w, &origin, 1);
  while (r == 0);

  g_assert_cmpint (r, ==, -EPIPE);
  g_assert_cmpuint (sonde_writer_n_frames (w), ==, BUFFER / 32); /* to the last byte */
  sonde_writer_free (w);
}

static void
file_header_says_what_and_when (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  const SondeFileHeader *header;

  g_assert_cmpint (
      sonde_writer_add_file_header (capture->writer, G_GINT64_CONSTANT (1795000000999999999), 77),
      ==, 0);
  header = (const SondeFileHeader *) (memory_capture_finish (capture)->data + sizeof *header);
  g_assert_cmpint (sonde_file_header_check (header), ==, 0);
  g_assert_cmpstr (header->capture_time, ==, "2026-11-18T11:06:40Z");
  g_assert_cmpint (header->time_ns, ==, 77);
  g_assert_cmpint (header->end_time_ns, ==, 0);
  g_assert_cmpuint (sonde_writer_n_frames (capture->writer), ==, 0);
  g_assert_cmpmem (capture->bytes->data, 6, "\x5E\x97\xCA\xFD\x01\x01", 6);
}

/* Whatever the buffer held before must not show: padding is zero. */
static void
leaves_no_byte_of_the_buffer_unset (void)
{
  g_autoptr (MemoryCapture) clean = memory_capture_new (0);
  g_autoptr (MemoryCapture) dirty = memory_capture_new (0xAA);
  const GByteArray *a, *b;

  memory_capture_add_all (clean);
  memory_capture_add_all (dirty);
  a = memory_capture_finish (clean);
  b = memory_capture_finish (dirty);
  g_assert_cmpmem (a->data, a->len, b->data, b->len);
}

static void
every_length_of_text_ends_in_zeros (void)
{
  for (gsize len = 0; len < 32; len++)
    {
      g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
      g_autofree char *text = g_strnfill (len, 'x');
      const SondeFrameProcess *frame;

      g_assert_cmpint (sonde_writer_add_process (capture->writer, &origin, text), ==, 0);
      frame = only_frame (capture, SONDE_FRAME_PROCESS);
      g_assert_cmpuint (frame->frame.len, ==, (24 + len + 1 + 7) / 8 * 8);
      g_assert_cmpstr (frame->cmdline, ==, text);
      for (gsize i = len; i < frame->frame.len - sizeof *frame; i++)
        g_assert_cmpint (frame->cmdline[i], ==, 0);
    }
}

static void
largest_frames_fit_the_smallest_buffer (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  g_autofree guint64 *addrs = g_new0 (guint64, 8187);
  g_autofree guint8 *data = g_malloc0 (SONDE_WRITER_MAX_CHUNK);
  const GByteArray *bytes;
  const SondeFrame *frame;
  SondeWriter *w = capture->writer;

  g_assert_cmpint (sonde_writer_add_sample (w, &origin, 1, addrs, 8187), ==, 0);
  g_assert_cmpint (sonde_writer_add_allocation (w, &origin, 1, 0, 1, addrs, 8185), ==, 0);
  g_assert_cmpint (
      sonde_writer_add_file_chunk (w, &origin, "f", data, SONDE_WRITER_MAX_CHUNK, FALSE), ==, 0);

  bytes = memory_capture_finish (capture);
  frame = frame_at (bytes, 256, SONDE_FRAME_SAMPLE);
  g_assert_cmpuint (frame->len, ==, SONDE_FRAME_MAX_SIZE);
  frame = frame_at (bytes, 256 + 65528, SONDE_FRAME_ALLOCATION);
  g_assert_cmpuint (frame->len, ==, SONDE_FRAME_MAX_SIZE);
  frame = frame_at (bytes, 256 + 2 * 65528, SONDE_FRAME_FILE_CHUNK);
  /* More is more than Sysprof's sysprof_capture_writer_cat() can bear. */
  g_assert_cmpuint (frame->len, ==, 16384);
}

static void
cuts_fixed_text_at_a_character (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  const SondeFrameMark *mark;

  /* 23 bytes of group: 22 letters, then a character of two bytes. 39 of name: one of four at 36. */
  g_assert_cmpint (
      sonde_writer_add_mark (capture->writer, &origin, 0, "gggggggggggggggggggggg\xc3\xa9",
                             "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\xf0\x9f\x90\x9e", "m"),
      ==, 0);
  mark = only_frame (capture, SONDE_FRAME_MARK);
  g_assert_cmpstr (mark->group, ==, "gggggggggggggggggggggg");
  g_assert_cmpuint (strlen (mark->name), ==, 36);
}

static void
keeps_a_character_that_just_fits (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  const SondeFrameMark *mark;

  g_assert_cmpint (sonde_writer_add_mark (capture->writer, &origin, 0,
                                          "ggggggggggggggggggggg\xc3\xa9xyz", "n", "m"),
                   ==, 0);
  mark = only_frame (capture, SONDE_FRAME_MARK);
  g_assert_cmpstr (mark->group, ==, "ggggggggggggggggggggg\xc3\xa9");
}

static void
cuts_text_that_is_not_utf8_where_the_room_ends (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0);
  g_autofree char *text = g_strnfill (100, '\x80');
  const SondeFrameMark *mark;

  g_assert_cmpint (sonde_writer_add_mark (capture->writer, &origin, 0, text, text, text), ==, 0);
  mark = only_frame (capture, SONDE_FRAME_MARK);
  g_assert_cmpuint (strlen (mark->group), ==, 23);
  g_assert_cmpuint (strlen (mark->name), ==, 39);
  g_assert_cmpstr (mark->message, ==, text);
}

static void
cuts_long_text_at_the_largest_frame (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  g_autofree char *text = g_strnfill (70000, 'x');
  const SondeFrameMetadata *metadata;

  /* 65,463 bytes of room: a character of two bytes at 65,462 does not fit. */
  memcpy (text + 65462, "\xc3\xa9", 2);
  g_assert_cmpint (sonde_writer_add_metadata (capture->writer, &origin, "id", text, 70000), ==, 0);
  metadata = only_frame (capture, SONDE_FRAME_METADATA);
  g_assert_cmpuint (metadata->frame.len, ==, SONDE_FRAME_MAX_SIZE);
  g_assert_cmpuint (strlen (metadata->metadata), ==, 65462);
}

static void
keeps_the_build_id_of_a_long_path (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  g_autofree char *path = g_strnfill (70000, 'x');
  const SondeFrameMap *map;
  gsize path_len;

  g_assert_cmpint (sonde_writer_add_map (capture->writer, &origin, 1, 2, 0, 0, path, "abcdef"), ==,
                   0);
  map = only_frame (capture, SONDE_FRAME_MAP);
  path_len = strlen (map->path);
  g_assert_cmpuint (path_len, >, 65000);
  g_assert_cmpstr (map->path + path_len + 1, ==, "@abcdef");
}

static void
counters_are_split_over_frames (void)
{
  enum
  {
    N = 6000
  };
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  g_autofree SondeCounter *counters = g_new0 (SondeCounter, N);
  g_autofree SondeCounterValue *values = g_new0 (SondeCounterValue, N);
  g_autofree uint32_t *ids = g_new0 (uint32_t, N);
  const GByteArray *bytes;
  guint n_defined = 0, n_set = 0, n_frames = 0;

  for (guint i = 0; i < N; i++)
    {
      counters[i] = (SondeCounter){ "c", "n", "d", i + 1, SONDE_COUNTER_INT64, { .v64 = i } };
      ids[i] = i + 1;
      values[i].v64 = i;
    }
  g_assert_cmpint (sonde_writer_add_counter_define (capture->writer, &origin, counters, N), ==, 0);
  g_assert_cmpint (sonde_writer_add_counter_set (capture->writer, &origin, ids, values, N), ==, 0);
  g_assert_cmpint (sonde_writer_add_counter_define (capture->writer, &origin, counters, 0), ==, 0);
  g_assert_cmpint (sonde_writer_add_counter_set (capture->writer, &origin, ids, values, 0), ==, 0);

  bytes = memory_capture_finish (capture);
  for (gsize at = 256; at < bytes->len; n_frames++)
    {
      const SondeFrame *frame = (const SondeFrame *) (bytes->data + at);

      frame_at (bytes, at, n_defined < N ? SONDE_FRAME_CTRDEF : SONDE_FRAME_CTRSET);
      if (frame->type == SONDE_FRAME_CTRDEF)
        for (guint i = 0; i < ((const SondeFrameCounterDefine *) frame)->n_counters; i++)
          g_assert_cmpuint (
              sonde_counter_id (((const SondeFrameCounterDefine *) frame)->counters[i].id_type), ==,
              ++n_defined);
      else
        for (guint i = 0; i < ((const SondeFrameCounterSet *) frame)->n_groups * 8u; i++)
          g_assert_cmpuint (((const SondeFrameCounterSet *) frame)->groups[i / 8].ids[i % 8], ==,
                            ++n_set);
      at += frame->len;
    }

  g_assert_cmpuint (n_defined, ==, N);
  g_assert_cmpuint (n_set, ==, N);
  g_assert_cmpuint (n_frames, ==, (N + 510) / 511 + 2); /* 682 groups a frame */
}

static void
jit_names_are_split_over_frames (void)
{
  enum
  {
    N = 5000
  };
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  g_autofree SondeJitName *names = g_new0 (SondeJitName, N);
  g_autofree char *huge = g_strnfill (100000, 'h');
  const GByteArray *bytes;
  guint n = 0;

  for (guint i = 0; i < N; i++)
    names[i] = (SondeJitName){ SONDE_JIT_ADDRESS_BASE + i, i == 2500 ? huge : "function_name" };
  g_assert_cmpint (sonde_writer_add_jitmap (capture->writer, &origin, names, N), ==, 0);
  g_assert_cmpint (sonde_writer_add_jitmap (capture->writer, &origin, names, 0), ==, 0);

  bytes = memory_capture_finish (capture);
  for (gsize at = 256; at < bytes->len;)
    {
      const SondeFrameJitmap *jitmap = frame_at (bytes, at, SONDE_FRAME_JITMAP);
      const guint8 *name = jitmap->data;

      for (guint i = 0; i < jitmap->n_names; i++, n++)
        {
          g_assert_cmpmem (name, 8, &names[n].address, 8);
          g_assert_true (n == 2500 || strcmp ((const char *) name + 8, "function_name") == 0);
          name += 8 + strlen ((const char *) name + 8) + 1;
        }
      at += jitmap->frame.len;
    }

  g_assert_cmpuint (n, ==, N);
}

typedef struct
{
  guint64 buffers[2][BUFFER / 8];
  guint n_full;
  guint64 n_bytes;
  guint64 n_frames;
} TwoBuffers;

/* Keeps the full buffer and gives the other; a full buffer holds whole frames only. */
static void *
swap_buffers (void *user_data, void *buffer, size_t used_bytes)
{
  TwoBuffers *self = user_data;

  g_assert_true (buffer == self->buffers[self->n_full % 2]);
  for (gsize at = 0; at < used_bytes; self->n_frames++)
    {
      const SondeFrame *frame = (const SondeFrame *) ((guint8 *) buffer + at);

      g_assert_cmpint (sonde_frame_check (frame, used_bytes - at), ==, SONDE_FRAME_OK);
      at += frame->len;
    }
  self->n_bytes += used_bytes;
  memset (buffer, 0xFF, BUFFER); /* as if another user had it now */

  return self->buffers[++self->n_full % 2];
}

static void
fills_one_buffer_after_the_other (void)
{
  enum
  {
    N = 40000
  };
  g_autofree TwoBuffers *two = g_new0 (TwoBuffers, 1);
  SondeWriter *w = sonde_writer_new (two->buffers[0], BUFFER, swap_buffers, two);
  guint64 addrs[64] = { 0 };

  for (guint i = 0; i < N; i++)
    g_assert_cmpint (sonde_writer_add_sample (w, &origin, 1, addrs, i % 64), ==, 0);
  g_assert_cmpint (sonde_writer_flush (w), ==, 0);

  g_assert_cmpuint (two->n_bytes, >, 100 * BUFFER);
  g_assert_cmpuint (two->n_frames, ==, N);
  g_assert_cmpuint (sonde_writer_n_frames (w), ==, N);
  g_assert_true (sonde_writer_buffer (w) == two->buffers[two->n_full % 2]);
  sonde_writer_free (w);
}

static void
copies_frames_without_stale_padding (void)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  guint64 index[4] = { 0 };
  SondeFrame *frame = (SondeFrame *) index;
  const SondeFrame *copy;

  frame->len = sizeof index;
  frame->type = SONDE_FRAME_TIMESTAMP;
  frame->time_ns = 9;
  memset (frame->padding1, 0x55, sizeof frame->padding1);
  frame->padding2 = 0x53504958;
  g_assert_cmpint (sonde_writer_add_frame (capture->writer, frame), ==, 0);

  copy = only_frame (capture, SONDE_FRAME_TIMESTAMP);
  g_assert_cmpuint (copy->len, ==, sizeof index);
  g_assert_cmpint (copy->time_ns, ==, 9);
  g_assert_cmpuint (copy->padding1[0] | copy->padding1[1] | copy->padding1[2], ==, 0);
  g_assert_cmpuint (copy->padding2, ==, 0);
}

static void
ledger_names_differ (void)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    g_assert_true (g_hash_table_add (seen, (gpointer) sonde_ledger_name (i)));
  g_assert_cmpstr (sonde_ledger_name (SONDE_LEDGER_LOST_KERNEL), ==, "lost-kernel");
  g_assert_cmpstr (sonde_ledger_name (SONDE_LEDGER_STREAM_SAMPLES_LOST), ==, "stream-samples-lost");
  g_assert_cmpstr (sonde_ledger_name (SONDE_N_LEDGER), ==, "?");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/writer/refuses-buffers-it-cannot-use", refuses_buffers_it_cannot_use);
  g_test_add_func ("/writer/refuses-what-can-never-fit", refuses_what_can_never_fit);
  g_test_add_func ("/writer/refuses-arguments-out-of-range", refuses_arguments_out_of_range);
  g_test_add_func ("/writer/refuses-everything-once-the-callback-failed",
                   refuses_everything_once_the_callback_failed);
  g_test_add_func ("/writer/fails-with-the-frame-that-did-not-fit",
                   fails_with_the_frame_that_did_not_fit);
  g_test_add_func ("/writer/file-header-says-what-and-when", file_header_says_what_and_when);
  g_test_add_func ("/writer/leaves-no-byte-of-the-buffer-unset",
                   leaves_no_byte_of_the_buffer_unset);
  g_test_add_func ("/writer/every-length-of-text-ends-in-zeros",
                   every_length_of_text_ends_in_zeros);
  g_test_add_func ("/writer/largest-frames-fit-the-smallest-buffer",
                   largest_frames_fit_the_smallest_buffer);
  g_test_add_func ("/writer/cuts-fixed-text-at-a-character", cuts_fixed_text_at_a_character);
  g_test_add_func ("/writer/keeps-a-character-that-just-fits", keeps_a_character_that_just_fits);
  g_test_add_func ("/writer/cuts-text-that-is-not-utf8-where-the-room-ends",
                   cuts_text_that_is_not_utf8_where_the_room_ends);
  g_test_add_func ("/writer/cuts-long-text-at-the-largest-frame",
                   cuts_long_text_at_the_largest_frame);
  g_test_add_func ("/writer/keeps-the-build-id-of-a-long-path", keeps_the_build_id_of_a_long_path);
  g_test_add_func ("/writer/counters-are-split-over-frames", counters_are_split_over_frames);
  g_test_add_func ("/writer/jit-names-are-split-over-frames", jit_names_are_split_over_frames);
  g_test_add_func ("/writer/fills-one-buffer-after-the-other", fills_one_buffer_after_the_other);
  g_test_add_func ("/writer/copies-frames-without-stale-padding",
                   copies_frames_without_stale_padding);
  g_test_add_func ("/writer/ledger-names-differ", ledger_names_differ);

  return g_test_run ();
}
