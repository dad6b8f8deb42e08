/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reader: every way a capture can be broken, and that all before the break is given. */
#include <errno.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/reader.h"
#include "tests/lib/memory-capture.h"

/* Gives @size bytes, at most @step at a time, then @end_result. */
typedef struct
{
  const guint8 *data;
  gsize size;
  gsize at;
  gsize step;
  gint64 end_result;
} Memory;

static int64_t
read_memory (void *user_data, void *buffer, size_t size_bytes)
{
  Memory *memory = user_data;
  gsize n = MIN (MIN (size_bytes, memory->step), memory->size - memory->at);

  if (n == 0)
    return memory->end_result;
  memcpy (buffer, memory->data + memory->at, n);
  memory->at += n;

  return (int64_t) n;
}

static SondeReader *
open_memory (Memory *memory)
{
  SondeReader *reader = NULL;

  g_assert_cmpint (sonde_reader_new (read_memory, memory, &reader), ==, 0);

  return reader;
}

/* Reads to the end or the break, and says how many frames came. */
static int
read_all (SondeReader *reader, guint *n_frames)
{
  const SondeFrame *frame;
  int r;

  for (*n_frames = 0; (r = sonde_reader_next (reader, &frame)) == 1; ++*n_frames)
    g_assert_cmpuint (GPOINTER_TO_SIZE (frame) % SONDE_FRAME_ALIGN, ==, 0);

  return r;
}

static MemoryCapture *
new_capture (void)
{
  MemoryCapture *capture = memory_capture_new (0xAA);

  memory_capture_add_all (capture);
  memory_capture_finish (capture);

  return capture;
}

static void
refuses_less_than_a_header (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();

  for (gsize size = 0; size < sizeof (SondeFileHeader); size++)
    {
      Memory memory = { capture->bytes->data, size, 0, 100, 0 };
      SondeReader *reader = NULL;

      g_assert_cmpint (sonde_reader_new (read_memory, &memory, &reader), ==, -ENODATA);
      g_assert_null (reader);
    }
}

static void
refuses_foreign_files_by_name (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();
  Memory memory = { capture->bytes->data, capture->bytes->len, 0, 256, 0 };
  SondeReader *reader = NULL;

  capture->bytes->data[5] ^= 1;
  g_assert_cmpint (sonde_reader_new (read_memory, &memory, &reader), ==, -ENOTSUP);
  g_assert_nonnull (strstr (sonde_reader_strerror (-ENOTSUP), "byte order"));
  g_assert_nonnull (strstr (sonde_reader_strerror (-ENOTSUP), "endian"));

  memory.at = 0;
  capture->bytes->data[4] = 2;
  g_assert_cmpint (sonde_reader_new (read_memory, &memory, &reader), ==, -EPROTONOSUPPORT);
  g_assert_nonnull (strstr (sonde_reader_strerror (-EPROTONOSUPPORT), "version"));

  memory.at = 0;
  capture->bytes->data[0] = 0x7F;
  g_assert_cmpint (sonde_reader_new (read_memory, &memory, &reader), ==, -EBADMSG);
  g_assert_nonnull (strstr (sonde_reader_strerror (-EBADMSG), "magic"));

  g_assert_null (reader);
  g_assert_nonnull (strstr (sonde_reader_strerror (-ENODATA), "256"));
  g_assert_cmpstr (sonde_reader_strerror (-ENOMEM), ==, g_strerror (ENOMEM));
}

static void
passes_on_the_error_of_its_source (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();
  Memory memory = { capture->bytes->data, 100, 0, 100, -ECONNRESET };
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  g_assert_cmpint (sonde_reader_new (read_memory, &memory, &reader), ==, -ECONNRESET);
  g_assert_null (reader);

  /* Within a frame; nothing is lost when the source recovers. */
  memory = (Memory){ capture->bytes->data, 256 + 24 + 30, 0, 7, -EAGAIN };
  reader = open_memory (&memory);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, -EAGAIN);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, -EAGAIN);
  memory.size = capture->bytes->len;
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  g_assert_cmpuint (frame->type, ==, SONDE_FRAME_SAMPLE);
  sonde_reader_free (reader);
  sonde_reader_free (NULL);
}

static int64_t
boast (void *user_data, void *buffer, size_t size_bytes)
{
  return (int64_t) size_bytes + 1;
}

static void
refuses_a_source_that_claims_more_than_asked (void)
{
  SondeReader *reader = NULL;

  g_assert_cmpint (sonde_reader_new (boast, NULL, &reader), ==, -EIO);
}

/* A capture cut at @size bytes: whole frames, then the right fault at the right place. */
static void
check_cut (const GByteArray *bytes, gsize size, gsize step)
{
  g_autofree guint8 *cut = g_memdup2 (bytes->data, size);
  Memory memory = { cut, size, 0, step, 0 };
  SondeReader *reader = open_memory (&memory);
  gsize whole_end = sizeof (SondeFileHeader);
  guint n_whole = 0, n_frames;
  int r;

  for (;;)
    {
      const SondeFrame *frame = (const SondeFrame *) (bytes->data + whole_end);

      if (whole_end == bytes->len || whole_end + frame->len > size)
        break;
      whole_end += frame->len;
      n_whole++;
    }

  r = read_all (reader, &n_frames);
  g_assert_cmpuint (n_frames, ==, n_whole);
  if (whole_end == size)
    {
      g_assert_cmpint (r, ==, 0);
      g_assert_cmpint (sonde_reader_fault (reader), ==, SONDE_FRAME_OK);
    }
  else
    {
      g_assert_cmpint (r, ==, -EBADMSG);
      g_assert_cmpuint (sonde_reader_offset (reader), ==, whole_end);
      g_assert_cmpint (sonde_reader_fault (reader), ==,
                       size - whole_end < 24 ? SONDE_FRAME_FAULT_SHORT_HEADER
                                             : SONDE_FRAME_FAULT_LENGTH_PAST_END);
    }

  g_assert_cmpint (read_all (reader, &n_frames), ==, r); /* and again */
  g_assert_cmpuint (n_frames, ==, 0);
  sonde_reader_free (reader);
}

static void
gives_what_came_before_a_cut_at_every_byte (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();

  for (gsize size = sizeof (SondeFileHeader); size <= capture->bytes->len; size++)
    check_cut (capture->bytes, size, size % 3 == 0 ? 1 + size % 29 : 4096);
}

static void
breaks_at_lengths_and_types_that_cannot_be (void)
{
  static const struct
  {
    guint16 len;
    guint8 type;
    SondeFrameFault fault;
  } cases[] = {
    { 0, SONDE_FRAME_EXIT, SONDE_FRAME_FAULT_LENGTH_SMALL },
    { 23, SONDE_FRAME_EXIT, SONDE_FRAME_FAULT_LENGTH_SMALL },
    { 29, SONDE_FRAME_EXIT, SONDE_FRAME_FAULT_LENGTH_ALIGN },
    { 65535, SONDE_FRAME_EXIT, SONDE_FRAME_FAULT_LENGTH_ALIGN },
    { 65528, SONDE_FRAME_EXIT, SONDE_FRAME_FAULT_LENGTH_PAST_END },
    { 24, 0, SONDE_FRAME_FAULT_TYPE },
    { 24, SONDE_FRAME_N_READ, SONDE_FRAME_FAULT_TYPE },
    { 24, 100, SONDE_FRAME_FAULT_TYPE },
    { 24, 255, SONDE_FRAME_FAULT_TYPE },
    { 24, SONDE_FRAME_SAMPLE, SONDE_FRAME_FAULT_LENGTH_SMALL },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (MemoryCapture) capture = new_capture ();
      SondeFrame bad = { .len = cases[i].len, .type = cases[i].type };
      gsize at = capture->bytes->len;
      Memory memory = { .step = 1000 };
      SondeReader *reader;
      guint n_frames;

      g_byte_array_append (capture->bytes, (const guint8 *) &bad, sizeof bad);
      g_byte_array_append (capture->bytes, capture->bytes->data + sizeof (SondeFileHeader), 24);
      memory.data = capture->bytes->data;
      memory.size = capture->bytes->len;
      reader = open_memory (&memory);
      g_assert_cmpint (read_all (reader, &n_frames), ==, -EBADMSG);
      g_assert_cmpuint (n_frames, ==, 15);
      g_assert_cmpuint (sonde_reader_offset (reader), ==, at);
      g_assert_cmpint (sonde_reader_fault (reader), ==, cases[i].fault);
      sonde_reader_free (reader);
    }
}

/* A live stream: the source fails the test when it is asked for bytes that are not needed. */
static int64_t
read_no_further (void *user_data, void *buffer, size_t size_bytes)
{
  const Memory *memory = user_data;

  g_assert_cmpuint (memory->at, <, memory->size);

  return read_memory (user_data, buffer, size_bytes);
}

static void
waits_for_no_more_than_the_next_frame (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();
  SondeFrame foreign = { .len = 4096, .type = 255 };
  Memory memory = { .step = 100000 };
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  g_byte_array_append (capture->bytes, (const guint8 *) &foreign, sizeof foreign);
  memory.data = capture->bytes->data;
  memory.size = capture->bytes->len;
  g_assert_cmpint (sonde_reader_new (read_no_further, &memory, &reader), ==, 0);
  for (guint i = 0; i < 15; i++)
    g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, -EBADMSG);
  g_assert_cmpint (sonde_reader_fault (reader), ==, SONDE_FRAME_FAULT_TYPE);
  sonde_reader_free (reader);
}

static const SondeFrame *
next_of_type (SondeReader *reader, guint8 type)
{
  const SondeFrame *frame = NULL;

  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  g_assert_cmpuint (frame->type, ==, type);
  g_assert_cmpint (frame->time_ns, ==, 1000 + type);
  g_assert_cmpint (frame->cpu, ==, 1);
  g_assert_cmpint (frame->pid, ==, 42);

  return frame;
}

static void
check_process_frames (SondeReader *reader)
{
  const SondeFrameSample *sample;
  const SondeFrameMap *map;

  next_of_type (reader, SONDE_FRAME_TIMESTAMP);
  sample = (const void *) next_of_type (reader, SONDE_FRAME_SAMPLE);
  g_assert_cmpuint (sample->n_addrs, ==, 3);
  g_assert_cmpint (sample->tid, ==, 43);
  g_assert_cmpuint (sample->addrs[0], ==, SONDE_CONTEXT_USER);
  g_assert_cmpuint (sample->addrs[2], ==, 0x402000);

  map = (const void *) next_of_type (reader, SONDE_FRAME_MAP);
  g_assert_cmpuint (map->start, ==, 0x400000);
  g_assert_cmpuint (map->end, ==, 0x403000);
  g_assert_cmpuint (map->offset, ==, 0x1000);
  g_assert_cmpuint (map->inode, ==, 99);
  g_assert_cmpmem (map->path, 18, "/bin/x\0@0badc0de\0", 18);

  g_assert_cmpstr (
      ((const SondeFrameProcess *) next_of_type (reader, SONDE_FRAME_PROCESS))->cmdline, ==,
      "x --fast\nline\xc3");
  g_assert_cmpint (((const SondeFrameFork *) next_of_type (reader, SONDE_FRAME_FORK))->child, ==,
                   44);
  next_of_type (reader, SONDE_FRAME_EXIT);
}

static void
check_table_frames (SondeReader *reader)
{
  const SondeFrameJitmap *jitmap;
  const SondeFrameCounterDefine *define;
  const SondeFrameCounterSet *set;
  guint64 address = SONDE_JIT_ADDRESS_BASE;

  jitmap = (const void *) next_of_type (reader, SONDE_FRAME_JITMAP);
  g_assert_cmpuint (jitmap->n_names, ==, 2);
  g_assert_cmpmem (jitmap->data, 8, &address, 8);
  g_assert_cmpstr ((const char *) jitmap->data + 8, ==, "[kernel]");
  g_assert_cmpstr ((const char *) jitmap->data + 8 + 9 + 8, ==, "a\nb\xff");

  define = (const void *) next_of_type (reader, SONDE_FRAME_CTRDEF);
  g_assert_cmpuint (define->n_counters, ==, 2);
  g_assert_cmpstr (define->counters[0].category, ==, "Sonde");
  g_assert_cmpstr (define->counters[0].name, ==, "produced");
  g_assert_cmpstr (define->counters[0].description, ==, "samples");
  g_assert_cmpuint (sonde_counter_id (define->counters[0].id_type), ==, 1);
  g_assert_cmpint (define->counters[0].value.v64, ==, 7);
  g_assert_cmpuint (sonde_counter_id (define->counters[1].id_type), ==, 2);
  g_assert_cmpuint (sonde_counter_type (define->counters[1].id_type), ==, SONDE_COUNTER_DOUBLE);
  g_assert_cmpfloat (define->counters[1].value.vdbl, >, 0.49);

  set = (const void *) next_of_type (reader, SONDE_FRAME_CTRSET);
  g_assert_cmpuint (set->n_groups, ==, 1);
  g_assert_cmpuint (set->groups[0].ids[0], ==, 1);
  g_assert_cmpuint (set->groups[0].ids[1], ==, 2);
  g_assert_cmpuint (set->groups[0].ids[2], ==, 0);
  g_assert_cmpint (set->groups[0].values[0].v64, ==, 8);
}

static void
check_other_frames (SondeReader *reader)
{
  const SondeFrameMark *mark;
  const SondeFrameMetadata *metadata;
  const SondeFrameLog *log;
  const SondeFrameFileChunk *chunk;
  const SondeFrameAllocation *allocation;
  const SondeFrameOverlay *overlay;

  mark = (const void *) next_of_type (reader, SONDE_FRAME_MARK);
  g_assert_cmpint (mark->duration_ns, ==, 5);
  g_assert_cmpstr (mark->group, ==, "group");
  g_assert_cmpstr (mark->name, ==, "name");
  g_assert_cmpstr (mark->message, ==, "message");
  metadata = (const void *) next_of_type (reader, SONDE_FRAME_METADATA);
  g_assert_cmpstr (metadata->id, ==, "sonde");
  g_assert_cmpstr (metadata->metadata, ==, "[sonde]\nversion=1\n");
  log = (const void *) next_of_type (reader, SONDE_FRAME_LOG);
  g_assert_cmpuint (log->severity, ==, 16);
  g_assert_cmpstr (log->domain, ==, "sonde");
  g_assert_cmpstr (log->message, ==, "Lost 3 samples");
  chunk = (const void *) next_of_type (reader, SONDE_FRAME_FILE_CHUNK);
  g_assert_cmpuint (chunk->is_last, ==, SONDE_FILE_CHUNK_LAST);
  g_assert_cmpstr (chunk->path, ==, "/proc/cpuinfo");
  g_assert_cmpmem (chunk->data, chunk->data_len, "Processor\t: 0\n", 14);
  allocation = (const void *) next_of_type (reader, SONDE_FRAME_ALLOCATION);
  g_assert_cmpuint (allocation->address, ==, 0x5000);
  g_assert_cmpint (allocation->size_bytes, ==, 64);
  g_assert_cmpint (allocation->tid, ==, 43);
  g_assert_cmpuint (allocation->n_addrs, ==, 2);
  g_assert_cmpuint (allocation->addrs[1], ==, 0x402000);
  overlay = (const void *) next_of_type (reader, SONDE_FRAME_OVERLAY);
  g_assert_cmpuint (sonde_overlay_layer (overlay->layer), ==, 3);
  g_assert_cmpstr (overlay->data, ==, "/lower");
  g_assert_cmpstr (overlay->data + overlay->src_len + 1, ==, "/");
}

static void
reads_all_types_back (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();
  Memory memory = { capture->bytes->data, capture->bytes->len, 0, 4096, 0 };
  SondeReader *reader = open_memory (&memory);
  const SondeFrame *frame;

  check_process_frames (reader);
  check_table_frames (reader);
  check_other_frames (reader);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 0);
  sonde_reader_free (reader);
}

static void
reads_a_byte_at_a_time (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();
  Memory memory = { capture->bytes->data, capture->bytes->len, 0, 1, 0 };
  SondeReader *reader = open_memory (&memory);
  const SondeFrame *frame;

  g_assert_cmpint (sonde_reader_header (reader)->time_ns, ==, 1000);
  g_assert_cmpstr (sonde_reader_header (reader)->capture_time, ==, "1970-01-01T00:00:00Z");
  g_assert_cmpuint (sonde_reader_offset (reader), ==, sizeof (SondeFileHeader));
  for (guint type = 1; type < SONDE_FRAME_LAST; type++)
    {
      g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
      g_assert_cmpuint (frame->type, ==, type);
      g_assert_cmpmem (frame, frame->len, capture->bytes->data + sonde_reader_offset (reader),
                       frame->len);
    }
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 0);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 0);
  sonde_reader_free (reader);
}

/* Frames of all sizes, so that the buffer's end falls anywhere within one. */
static void
reads_captures_larger_than_its_buffer (void)
{
  static const SondeFrameOrigin origin = { 1, -1, -1 };
  static const guint64 addrs[8187] = { 1 };
  g_autoptr (MemoryCapture) capture = memory_capture_new (0);
  Memory memory = { .step = 123457 };
  SondeReader *reader;
  const SondeFrame *frame;
  guint n = 0;

  for (gsize n_addrs = 0; n_addrs <= 8187; n_addrs += 31)
    g_assert_cmpint (sonde_writer_add_sample (capture->writer, &origin, 1, addrs, n_addrs), ==, 0);
  memory_capture_finish (capture);
  g_assert_cmpuint (capture->bytes->len, >, 8 << 20);

  memory.data = capture->bytes->data;
  memory.size = capture->bytes->len;
  reader = open_memory (&memory);
  for (; sonde_reader_next (reader, &frame) == 1; n++)
    g_assert_cmpuint (((const SondeFrameSample *) frame)->n_addrs, ==, n * 31);
  g_assert_cmpuint (n, ==, 8187 / 31 + 1);
  g_assert_cmpint (sonde_reader_fault (reader), ==, SONDE_FRAME_OK);
  sonde_reader_free (reader);
}

static void
reads_from_a_pipe (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();
  SondeReader *reader = NULL;
  guint n_frames;
  int fds[2];

  g_assert_cmpint (pipe (fds), ==, 0);
  g_assert_cmpint (write (fds[1], capture->bytes->data, capture->bytes->len), ==,
                   capture->bytes->len);
  close (fds[1]);
  g_assert_cmpint (sonde_reader_new_fd (fds[0], &reader), ==, 0);
  g_assert_cmpint (read_all (reader, &n_frames), ==, 0);
  g_assert_cmpuint (n_frames, ==, 15);
  sonde_reader_free (reader);

  close (fds[0]);
  reader = NULL;
  g_assert_cmpint (sonde_reader_new_fd (fds[0], &reader), ==, -EBADF);
}

/* No line of an embedded file is expected: on ARM, cpuinfo has no "model name" and no "flags". */
static void
takes_embedded_files_as_they_are (void)
{
  static const SondeFrameOrigin origin = { 1, -1, -1 };
  static const char *const files[][2] = {
    { "/proc/cpuinfo", "Processor\t: AArch64 Processor rev 4 (aarch64)\nHardware\t: BCM2835\n" },
    { "/proc/mounts", "" },
    { "/proc/1/mountinfo", "\n\n\xff\xfe broken\\04" },
    { "__symbols__", "short" },
    { "name\nwith newline\xc3", "x" },
  };
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  Memory memory = { .step = 50 };
  SondeReader *reader;

  for (gsize i = 0; i < G_N_ELEMENTS (files); i++)
    g_assert_cmpint (sonde_writer_add_file_chunk (capture->writer, &origin, files[i][0],
                                                  files[i][1], strlen (files[i][1]), TRUE),
                     ==, 0);
  memory_capture_finish (capture);
  memory.data = capture->bytes->data;
  memory.size = capture->bytes->len;
  reader = open_memory (&memory);
  for (gsize i = 0; i < G_N_ELEMENTS (files); i++)
    {
      const SondeFrame *frame;
      const SondeFrameFileChunk *chunk;

      g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
      chunk = (const SondeFrameFileChunk *) frame;
      g_assert_cmpstr (chunk->path, ==, files[i][0]);
      g_assert_cmpmem (chunk->data, chunk->data_len, files[i][1], strlen (files[i][1]));
    }
  sonde_reader_free (reader);
}

static void
passes_hostile_names_through (void)
{
  static const SondeFrameOrigin origin = { 1, -1, 7 };
  static const char name[] = "a\nb\x1b[31m\xff\xc3\x28\xed\xa0\x80";
  g_autoptr (MemoryCapture) capture = memory_capture_new (0xAA);
  SondeJitName jit = { SONDE_JIT_ADDRESS_BASE, name };
  Memory memory = { .step = 50 };
  SondeReader *reader;
  const SondeFrame *frame;

  g_assert_cmpint (sonde_writer_add_map (capture->writer, &origin, 1, 2, 0, 0, name, NULL), ==, 0);
  g_assert_cmpint (sonde_writer_add_process (capture->writer, &origin, name), ==, 0);
  g_assert_cmpint (sonde_writer_add_jitmap (capture->writer, &origin, &jit, 1), ==, 0);
  memory_capture_finish (capture);
  memory.data = capture->bytes->data;
  memory.size = capture->bytes->len;
  reader = open_memory (&memory);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  g_assert_cmpstr (((const SondeFrameMap *) frame)->path, ==, name);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  g_assert_cmpstr (((const SondeFrameProcess *) frame)->cmdline, ==, name);
  g_assert_cmpint (sonde_reader_next (reader, &frame), ==, 1);
  g_assert_cmpstr ((const char *) ((const SondeFrameJitmap *) frame)->data + 8, ==, name);
  sonde_reader_free (reader);
}

static void
ends_the_time_of_a_foreign_header (void)
{
  g_autoptr (MemoryCapture) capture = new_capture ();
  Memory memory = { capture->bytes->data, capture->bytes->len, 0, 256, 0 };
  SondeReader *reader;

  memset (capture->bytes->data + 8, 'x', 64);
  reader = open_memory (&memory);
  g_assert_cmpuint (strlen (sonde_reader_header (reader)->capture_time), ==, 63);
  sonde_reader_free (reader);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/reader/new/refuses-less-than-a-header", refuses_less_than_a_header);
  g_test_add_func ("/reader/new/refuses-foreign-files-by-name", refuses_foreign_files_by_name);
  g_test_add_func ("/reader/new/refuses-a-source-that-claims-more-than-asked",
                   refuses_a_source_that_claims_more_than_asked);
  g_test_add_func ("/reader/new/ends-the-time-of-a-foreign-header",
                   ends_the_time_of_a_foreign_header);
  g_test_add_func ("/reader/next/passes-on-the-error-of-its-source",
                   passes_on_the_error_of_its_source);
  g_test_add_func ("/reader/next/gives-what-came-before-a-cut-at-every-byte",
                   gives_what_came_before_a_cut_at_every_byte);
  g_test_add_func ("/reader/next/breaks-at-lengths-and-types-that-cannot-be",
                   breaks_at_lengths_and_types_that_cannot_be);
  g_test_add_func ("/reader/next/waits-for-no-more-than-the-next-frame",
                   waits_for_no_more_than_the_next_frame);
  g_test_add_func ("/reader/next/reads-all-types-back", reads_all_types_back);
  g_test_add_func ("/reader/next/reads-a-byte-at-a-time", reads_a_byte_at_a_time);
  g_test_add_func ("/reader/next/reads-captures-larger-than-its-buffer",
                   reads_captures_larger_than_its_buffer);
  g_test_add_func ("/reader/next/reads-from-a-pipe", reads_from_a_pipe);
  g_test_add_func ("/reader/next/takes-embedded-files-as-they-are",
                   takes_embedded_files_as_they_are);
  g_test_add_func ("/reader/next/passes-hostile-names-through", passes_hostile_names_through);

  return g_test_run ();
}
