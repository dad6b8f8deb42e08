/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What passes a reader's filter: state always, the rest by kind and process. */
#include "daemon/capture/stream/frame-filter.h"

#include <string.h>

#include "tests/lib/memory-capture.h"

/* The pid of memory_capture_add_all(). */
#define PID 42

typedef struct
{
  SondeChunkPool *pool;
  SondeFrameFilter *filter;
  SondeLeftOut left_out;
  guint n_types[SONDE_FRAME_LAST];
  guint n_frames;
  guint n_samples;
  guint n_spans;
  gboolean has_state;
  const SondeChunk *chunk; /* of the last span */
} Fixture;

static void
count_frames (const SondeSpan *span, gpointer user_data)
{
  Fixture *fixture = user_data;

  for (uint32_t at = span->start; at < span->end;)
    {
      const SondeFrame *frame = (const void *) (span->chunk->bytes + at);

      fixture->n_types[frame->type]++;
      at += frame->len;
    }
  fixture->n_frames += span->n_frames;
  fixture->n_samples += span->n_samples;
  fixture->n_spans++;
  fixture->has_state |= span->has_state;
  fixture->chunk = span->chunk;
}

static void
set_up (Fixture *fixture, gconstpointer data)
{
  fixture->pool = sonde_chunk_pool_new ();
  fixture->filter = sonde_frame_filter_new (data, fixture->pool, count_frames, fixture);
}

static void
tear_down (Fixture *fixture, gconstpointer data)
{
  sonde_frame_filter_free (fixture->filter);
  sonde_chunk_pool_unref (fixture->pool);
}

/* One frame of each type. */
static SondeChunk *
push_all (Fixture *fixture)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0);
  SondeChunk *chunk = sonde_chunk_pool_get (fixture->pool);
  SondeSpan span = { .chunk = chunk, .n_frames = SONDE_FRAME_LAST - 1, .n_samples = 1 };
  const GByteArray *bytes;

  memory_capture_add_all (capture);
  bytes = memory_capture_finish (capture);
  span.end = bytes->len - sizeof (SondeFileHeader);
  memcpy (chunk->bytes, bytes->data + sizeof (SondeFileHeader), span.end);
  fixture->left_out = sonde_frame_filter_push (fixture->filter, &span);
  return chunk;
}

/* The state, whatever else passes. TIMESTAMP is of no kind and costs nothing. */
static void
assert_state_passed (const Fixture *fixture)
{
  static const SondeFrameType types[]
      = { SONDE_FRAME_TIMESTAMP, SONDE_FRAME_MAP,       SONDE_FRAME_PROCESS, SONDE_FRAME_FORK,
          SONDE_FRAME_EXIT,      SONDE_FRAME_JITMAP,    SONDE_FRAME_CTRDEF,  SONDE_FRAME_METADATA,
          SONDE_FRAME_OVERLAY,   SONDE_FRAME_FILE_CHUNK };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    g_assert_cmpuint (fixture->n_types[types[i]], ==, 1);
  g_assert_true (fixture->has_state);
}

/* --- cases --- */

static const SondeMessageSink everything = { .frames = SONDE_SINK_FRAMES_ALL };
static const SondeMessageSink state_only = { .frames = 0 };
static const SondeMessageSink samples_and_marks
    = { .frames = SONDE_SINK_FRAMES_SAMPLES | SONDE_SINK_FRAMES_MARKS };
static const SondeMessageSink its_process
    = { .frames = SONDE_SINK_FRAMES_ALL, .n_pids = 3, .pids = { 99, PID, 7 } };
static const SondeMessageSink other_process
    = { .frames = SONDE_SINK_FRAMES_ALL, .n_pids = 2, .pids = { PID + 1, PID - 1 } };

static void
is_none_for_everything (Fixture *fixture, gconstpointer data)
{
  g_assert_null (fixture->filter);
}

static void
leaves_all_but_the_state_out (Fixture *fixture, gconstpointer data)
{
  SondeChunk *chunk = push_all (fixture);

  assert_state_passed (fixture);
  g_assert_cmpuint (fixture->n_frames, ==, 10);
  g_assert_cmpuint (fixture->n_samples, ==, 0);
  g_assert_cmpuint (fixture->left_out.n_frames, ==, 5);
  g_assert_cmpuint (fixture->left_out.n_samples, ==, 1);
  sonde_chunk_unref (chunk);
}

static void
passes_the_kinds_that_were_asked_for (Fixture *fixture, gconstpointer data)
{
  SondeChunk *chunk = push_all (fixture);

  assert_state_passed (fixture);
  g_assert_cmpuint (fixture->n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (fixture->n_types[SONDE_FRAME_MARK], ==, 1);
  g_assert_cmpuint (fixture->n_types[SONDE_FRAME_ALLOCATION], ==, 0);
  g_assert_cmpuint (fixture->n_samples, ==, 1);
  g_assert_cmpuint (fixture->left_out.n_frames, ==, 3);
  g_assert_cmpuint (fixture->left_out.n_samples, ==, 0);
  sonde_chunk_unref (chunk);
}

static void
leaves_other_processes_out (Fixture *fixture, gconstpointer data)
{
  SondeChunk *chunk = push_all (fixture);

  assert_state_passed (fixture);
  g_assert_cmpuint (fixture->left_out.n_frames, ==, 5);
  sonde_chunk_unref (chunk);
}

static void
hands_on_a_span_that_passes_whole_as_it_is (Fixture *fixture, gconstpointer data)
{
  SondeChunk *chunk = push_all (fixture);

  g_assert_cmpuint (fixture->left_out.n_frames, ==, 0);
  g_assert_cmpuint (fixture->n_spans, ==, 1);
  g_assert_true (fixture->chunk == chunk);
  sonde_chunk_unref (chunk);
}

static void
hands_on_nothing_of_a_span_that_does_not_pass (Fixture *fixture, gconstpointer data)
{
  SondeChunk *chunk = sonde_chunk_pool_get (fixture->pool);
  SondeFrame frame = { .len = sizeof frame, .pid = PID, .type = SONDE_FRAME_LOG };
  SondeSpan span = { .chunk = chunk, .end = sizeof frame, .n_frames = 1 };

  memcpy (chunk->bytes, &frame, sizeof frame);
  g_assert_cmpuint (sonde_frame_filter_push (fixture->filter, &span).n_frames, ==, 1);
  g_assert_cmpuint (fixture->n_spans, ==, 0);
  sonde_chunk_unref (chunk);
}

#define ADD(name, options, function)                                                               \
  g_test_add ("/frame-filter/" name, Fixture, &(options), set_up, function, tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("is-none-for-everything", everything, is_none_for_everything);
  ADD ("leaves-all-but-the-state-out", state_only, leaves_all_but_the_state_out);
  ADD ("passes-the-kinds-that-were-asked-for", samples_and_marks,
       passes_the_kinds_that_were_asked_for);
  ADD ("leaves-other-processes-out", other_process, leaves_other_processes_out);
  ADD ("hands-on-a-span-that-passes-whole-as-it-is", its_process,
       hands_on_a_span_that_passes_whole_as_it_is);
  ADD ("hands-on-nothing-of-a-span-that-does-not-pass", state_only,
       hands_on_nothing_of_a_span_that_does_not_pass);
  return g_test_run ();
}
