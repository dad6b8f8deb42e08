/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A sink that passes what its reader asked for: state always, the rest by kind and process. */
#include "tests/unit/sink-fixture.h"

#include "tests/lib/memory-capture.h"

/* The pid of memory_capture_add_all(). */
#define PID 42

/* A span that waits for the reader. */
typedef struct
{
  guint n_types[SONDE_FRAME_LAST];
  SondeSpan span;
  gboolean is_shared; /* the one that was pushed, not a copy */
} Passed;

static Passed
push (Fixture *fixture, const void *frames, gsize size_bytes, guint n_frames, guint n_samples)
{
  SondeChunk *chunk = sonde_chunk_pool_get (fixture->source.pool);
  const SondeSpan span = {
    .chunk = chunk, .end = (uint32_t) size_bytes, .n_frames = n_frames, .n_samples = n_samples
  };
  Passed passed = { 0 };

  memcpy (chunk->bytes, frames, size_bytes);
  sonde_sink_push (fixture->sink, &span);
  g_assert_cmpuint (fixture->sink->live->n_chunks, <=, 1);
  if (fixture->sink->live->n_chunks == 1)
    passed.span = *sonde_span_queue_at (fixture->sink->live, 0);
  for (uint32_t at = passed.span.start; at < passed.span.end;)
    {
      const SondeFrame *frame = (const void *) (passed.span.chunk->bytes + at);

      passed.n_types[frame->type]++;
      at += frame->len;
    }
  passed.is_shared = passed.span.chunk == chunk;
  sonde_chunk_unref (chunk);
  return passed;
}

/* One frame of each type. */
static Passed
push_all (Fixture *fixture)
{
  g_autoptr (MemoryCapture) capture = memory_capture_new (0);
  const GByteArray *bytes;

  memory_capture_add_all (capture);
  bytes = memory_capture_finish (capture);
  return push (fixture, bytes->data + sizeof (SondeFileHeader),
               bytes->len - sizeof (SondeFileHeader), SONDE_FRAME_LAST - 1, 1);
}

static void
assert_left_out (const Fixture *fixture, guint n_frames, guint n_samples)
{
  const guint64 *counters = fixture->sink->counters;

  g_assert_cmpuint (counters[SONDE_LEDGER_STREAM_FILTERED], ==, n_frames);
  g_assert_cmpuint (counters[SONDE_LEDGER_STREAM_SAMPLES_FILTERED], ==, n_samples);
}

/* The state, whatever else passes. TIMESTAMP is of no kind and costs nothing. */
static void
assert_state_passed (const Passed *passed)
{
  static const SondeFrameType types[]
      = { SONDE_FRAME_TIMESTAMP, SONDE_FRAME_MAP,       SONDE_FRAME_PROCESS, SONDE_FRAME_FORK,
          SONDE_FRAME_EXIT,      SONDE_FRAME_JITMAP,    SONDE_FRAME_CTRDEF,  SONDE_FRAME_METADATA,
          SONDE_FRAME_OVERLAY,   SONDE_FRAME_FILE_CHUNK };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    g_assert_cmpuint (passed->n_types[types[i]], ==, 1);
  g_assert_true (passed->span.has_state);
}

/* --- cases --- */

#define OPTIONS .sink_id = 7, .kind = SONDE_SINK_STREAM, .buffer_size_bytes = BUFFER_SIZE

static const SondeMessageSink everything = { OPTIONS, .frames = SONDE_SINK_FRAMES_ALL };
static const SondeMessageSink state_only = { OPTIONS, .frames = 0 };
static const SondeMessageSink samples_and_marks
    = { OPTIONS, .frames = SONDE_SINK_FRAMES_SAMPLES | SONDE_SINK_FRAMES_MARKS };
static const SondeMessageSink its_process
    = { OPTIONS, .frames = SONDE_SINK_FRAMES_ALL, .n_pids = 3, .pids = { 99, PID, 7 } };
static const SondeMessageSink other_process
    = { OPTIONS, .frames = SONDE_SINK_FRAMES_ALL, .n_pids = 2, .pids = { PID + 1, PID - 1 } };

/* It costs no look at frames. */
static void
is_none_for_everything (Fixture *fixture, gconstpointer data)
{
  g_assert_null (fixture->sink->passed);
}

static void
leaves_all_but_the_state_out (Fixture *fixture, gconstpointer data)
{
  Passed passed = push_all (fixture);

  assert_state_passed (&passed);
  g_assert_cmpuint (passed.span.n_frames, ==, 10);
  g_assert_cmpuint (passed.span.n_samples, ==, 0);
  assert_left_out (fixture, 5, 1);
}

static void
passes_the_kinds_that_were_asked_for (Fixture *fixture, gconstpointer data)
{
  Passed passed = push_all (fixture);

  assert_state_passed (&passed);
  g_assert_cmpuint (passed.n_types[SONDE_FRAME_SAMPLE], ==, 1);
  g_assert_cmpuint (passed.n_types[SONDE_FRAME_MARK], ==, 1);
  g_assert_cmpuint (passed.n_types[SONDE_FRAME_ALLOCATION], ==, 0);
  g_assert_cmpuint (passed.span.n_samples, ==, 1);
  assert_left_out (fixture, 3, 0);
}

static void
leaves_other_processes_out (Fixture *fixture, gconstpointer data)
{
  Passed passed = push_all (fixture);

  assert_state_passed (&passed);
  assert_left_out (fixture, 5, 1);
}

static void
hands_on_a_span_that_passes_whole_as_it_is (Fixture *fixture, gconstpointer data)
{
  Passed passed = push_all (fixture);

  assert_left_out (fixture, 0, 0);
  g_assert_cmpuint (passed.span.n_frames, ==, SONDE_FRAME_LAST - 1);
  g_assert_true (passed.is_shared);
}

static void
hands_on_nothing_of_a_span_that_does_not_pass (Fixture *fixture, gconstpointer data)
{
  const SondeFrame frame = { .len = sizeof frame, .pid = PID, .type = SONDE_FRAME_LOG };
  Passed passed = push (fixture, &frame, sizeof frame, 1, 0);

  assert_left_out (fixture, 1, 0);
  g_assert_null (passed.span.chunk);
}

#define ADD(name, options, function)                                                               \
  g_test_add ("/sink-filter/" name, Fixture, &(options), set_up, function, tear_down)

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
