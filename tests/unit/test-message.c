/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tests of the judge of messages between front, broker and worker. */
#include "daemon/base/limits.h"
#include "daemon/base/message.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

#include "daemon/base/error.h"

/* One of the ways that it may go. */
static SondeMessageWay
way_of (const void *bytes)
{
  uint32_t ways = sonde_message_shape (((const SondeMessageHeader *) bytes)->type)->ways;

  return (SondeMessageWay) (ways & -ways);
}

static void
assert_refused_from (
    SondeMessageWay way, const void *bytes, uint64_t size, unsigned n_fds, const char *expected)
{
  const char *why = NULL;

  g_assert_cmpint (sonde_message_check (bytes, size, n_fds, way, &why), ==, -EBADMSG);
  g_assert_cmpstr (why, ==, expected);
}

static void
assert_refused (const void *bytes, uint64_t size, unsigned n_fds, const char *expected)
{
  assert_refused_from (way_of (bytes), bytes, size, n_fds, expected);
}

static void
assert_taken (const void *bytes, uint64_t size, unsigned n_fds)
{
  const char *why = NULL;

  sonde_message_check (bytes, size, n_fds, way_of (bytes), &why);
  g_assert_cmpstr (why, ==, NULL);
}

static SondeMessageSetup
good_setup (void)
{
  SondeMessageSetup setup = {
    .header = { SONDE_MESSAGE_SETUP, sizeof setup },
    .version = SONDE_MESSAGE_VERSION,
    .asked.stack_size_bytes = 16384,
    .asked.max_depth = 256,
    .asked.unwind = SONDE_UNWIND_DWARF,
    .event = "cpu-clock",
  };

  return setup;
}

static void
accepts_setup (void)
{
  SondeMessageSetup setup = good_setup ();

  assert_taken (&setup, sizeof setup, 0);
}

static void
refuses_every_truncation (void)
{
  SondeMessageSetup setup = good_setup ();
  const char *why = NULL;

  for (size_t size = 0; size < sizeof setup; size++)
    {
      g_assert_cmpint (sonde_message_check (&setup, size, 0, SONDE_WAY_FRONT_TO_WORKER, &why), ==,
                       -EBADMSG);
      setup.header.size = (uint32_t) size;
      g_assert_cmpint (sonde_message_check (&setup, size, 0, SONDE_WAY_FRONT_TO_WORKER, &why), ==,
                       -EBADMSG);
      setup.header.size = sizeof setup;
    }
}

static SondeMessageSink
good_sink (SondeSinkKind kind)
{
  SondeMessageSink sink = { .header = { SONDE_MESSAGE_SINK, sizeof sink },
                            .sink_id = 1,
                            .kind = kind,
                            .buffer_size_bytes = 65536,
                            .frames = SONDE_SINK_FRAMES_SAMPLES,
                            .max_bytes = kind == SONDE_SINK_FILE ? 4096 : 0,
                            .n_pids = 2,
                            .pids = { 1, 2 } };

  return sink;
}

static void
refuses_documents_that_cannot_be (void)
{
  SondeMessageDocument document
      = { .header = { SONDE_MESSAGE_DOCUMENT, sizeof document }, .kind = SONDE_DOCUMENT_MOUNTINFO };

  assert_refused (&document, sizeof document, 1, "impossible process");
  document.pid = -1;
  assert_refused (&document, sizeof document, 1, "impossible process");
  document.pid = 7;
  assert_taken (&document, sizeof document, 1);
  document.kind = SONDE_DOCUMENT_MOUNTS;
  assert_refused (&document, sizeof document, 1, "impossible process");
  document.kind = SONDE_DOCUMENT_MOUNTINFO + 1;
  assert_refused (&document, sizeof document, 1, "unknown document");
}

static void
refuses_sinks_that_cannot_be (void)
{
  SondeMessageSink sink;

#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    sink = good_sink (SONDE_SINK_STREAM);                                                          \
    change;                                                                                        \
    assert_refused (&sink, sizeof sink, 1, expected);                                              \
  }                                                                                                \
  G_STMT_END
  REFUSE (sink.sink_id = 0, "impossible sink");
  REFUSE (sink.buffer_size_bytes = 0, "impossible sink");
  REFUSE (sink.is_last = 2, "impossible sink");
  REFUSE (sink.kind = 0, "unknown kind of sink");
  REFUSE (sink.kind = 3, "unknown kind of sink");
  REFUSE (sink.max_bytes = 1, "size limit does not fit the kind of sink");
  REFUSE (sink.kind = SONDE_SINK_FILE, "size limit does not fit the kind of sink");
  REFUSE (sink.frames = SONDE_SINK_FRAMES_ALL + 1, "unknown kinds of frames");
  REFUSE (sink.n_pids = SONDE_MESSAGE_SINK_MAX_PIDS + 1, "too many processes");
  REFUSE ((sink.is_last = 1, sink.frames = 1), "a part of what is kept");
  REFUSE ((sink.is_last = 1, sink.n_pids = 1, sink.pids[0] = 1), "a part of what is kept");
  REFUSE (sink.n_pids = 3, "impossible process");
  REFUSE (sink.n_pids = 1, "impossible process");
  REFUSE (sink.pids[1] = -2, "impossible process");
#undef REFUSE
  for (SondeSinkKind kind = SONDE_SINK_STREAM; kind <= SONDE_SINK_FILE; kind++)
    {
      sink = good_sink (kind);
      assert_taken (&sink, sizeof sink, 1);
    }
}

static void
refuses_setup_fields_out_of_range (void)
{
  SondeMessageSetup setup = good_setup ();

  setup.version++;
  assert_refused (&setup, sizeof setup, 0, "another version of the protocol");
  setup = good_setup ();
  setup.flags = 1u << 31;
  assert_refused (&setup, sizeof setup, 0, "unknown flags");
  setup = good_setup ();
  setup.asked.unwind = 4;
  assert_refused (&setup, sizeof setup, 0, "unknown unwind mode");
  setup = good_setup ();
  setup.asked.stack_size_bytes = 12;
  assert_refused (&setup, sizeof setup, 0, "stack size out of range");
  setup = good_setup ();
  setup.asked.max_depth = 0;
  assert_refused (&setup, sizeof setup, 0, "depth out of range");
  setup = good_setup ();
  memset (setup.event, 'x', sizeof setup.event);
  assert_refused (&setup, sizeof setup, 0, "a text without its end");
}

static void
refuses_the_other_sides_messages (void)
{
  SondeMessageSetup setup = good_setup ();
  SondeMessageHello hello
      = { .header = { SONDE_MESSAGE_HELLO, sizeof hello }, .version = SONDE_MESSAGE_VERSION };

  assert_refused_from (SONDE_WAY_WORKER_TO_FRONT, &setup, sizeof setup, 0,
                       "not this side's to send");
  assert_refused_from (SONDE_WAY_FRONT_TO_WORKER, &hello, sizeof hello, 0,
                       "not this side's to send");
}

static void
refuses_foreign_types (void)
{
  static const uint32_t types[] = { 0, 99, 100, 199, 200, 255, 300, 399, UINT32_MAX };

  for (size_t i = 0; i < G_N_ELEMENTS (types); i++)
    {
      SondeMessageHeader header = { types[i], sizeof header };

      for (unsigned way = 1; way <= SONDE_WAY_WORKER_TO_BROKER; way <<= 1)
        assert_refused_from ((SondeMessageWay) way, &header, sizeof header, 0, "unknown type");
    }
}

static void
refuses_descriptors_that_do_not_belong (void)
{
  SondeMessageSetup setup = good_setup ();
  SondeMessageFile file = { .header = { SONDE_MESSAGE_FILE, sizeof file }, .request_id = 1 };
  SondeMessageProcess process = { .header = { SONDE_MESSAGE_PROCESS, sizeof process },
                                  .pid = 1,
                                  .fds = SONDE_PROCESS_FD_MAPS };

  assert_refused (&setup, sizeof setup, 1, "wrong number of descriptors");
  assert_refused (&file, sizeof file, 0, "descriptor does not fit the status");
  file.status = ENOENT;
  assert_refused (&file, sizeof file, 1, "descriptor does not fit the status");
  assert_refused (&process, sizeof process, 0, "descriptors do not fit their flags");
  assert_refused (&process, sizeof process, 2, "descriptors do not fit their flags");
  process.fds = 1u << 7;
  assert_refused (&process, sizeof process, 1, "unknown descriptors");
}

static void
refuses_event_counts_that_lie (void)
{
  union
  {
    SondeMessageEvents events;
    char bytes[sizeof (SondeMessageEvents) + 2 * sizeof (SondeMessageEvent)];
  } message = { .events = { .header = { SONDE_MESSAGE_EVENTS, sizeof message }, .n_events = 2 } };

  for (unsigned i = 0; i < 2; i++)
    message.events.events[i]
        = (SondeMessageEvent){ .cpu = 0, .tid = -1, .kind = SONDE_EVENT_SAMPLES };
  assert_taken (&message, sizeof message, 2);
  assert_refused (&message, sizeof message, 1, "not one descriptor per event");
  message.events.n_more = 1;
  assert_refused (&message, sizeof message, 2, "number of further events out of range");
  message.events.header.type = SONDE_MESSAGE_RINGS;
  assert_taken (&message, sizeof message, 2);
  message.events.n_more = SONDE_MESSAGE_MAX_RINGS + 1;
  assert_refused (&message, sizeof message, 2, "number of further events out of range");
  message.events.header.type = SONDE_MESSAGE_EVENTS;
  message.events.n_more = 0;
  message.events.n_events = 3;
  assert_refused (&message, sizeof message, 3, "size does not fit the number of events");
  message.events.n_events = 0;
  assert_refused (&message, sizeof message, 2, "number of events out of range");
  message.events.n_events = 2;
  message.events.events[1].kind = 9;
  assert_refused (&message, sizeof message, 2, "unknown kind of event");
  message.events.events[1].kind = SONDE_EVENT_SIDEBAND;
  message.events.events[1].cpu = -1;
  assert_refused (&message, sizeof message, 2, "impossible event");
}

static void
refuses_requests_without_a_process (void)
{
  SondeMessageFileRequest request
      = { .header = { SONDE_MESSAGE_FILE_REQUEST, sizeof request }, .request_id = 1 };

  assert_refused (&request, sizeof request, 0, "impossible request");
  request.pid = -5;
  assert_refused (&request, sizeof request, 0, "impossible request");
}

static SondeMessageInterpreter
good_interpreter (void)
{
  SondeMessageInterpreter message
      = { .header = { SONDE_MESSAGE_INTERPRETER, sizeof message },
          .pid = 7,
          .place = { .kind = SONDE_WALK_PYTHON,
                     .layout = { .frame_size = 72,
                                 .frame_at = 56,
                                 .frame_entry = 69,
                                 .code_lines = SONDE_WALK_MAX_OFFSET - 1 } } };

  return message;
}

/* Room behind for entries. */
typedef union
{
  SondeMessageThreadsRequest request;
  struct
  {
    guint8 head[sizeof (SondeMessageThreadsRequest)];
    gint32 tids[SONDE_MESSAGE_MAX_ASKED_THREADS + 1];
  };
} ThreadsRequest;

static void
refuses_requests_for_threads_that_cannot_be (void)
{
  ThreadsRequest message
      = { .request
          = { .header = { SONDE_MESSAGE_THREADS_REQUEST, sizeof (SondeMessageThreadsRequest) },
              .pid = 7 } };
  const guint32 size_bytes = sizeof message.request + 2 * sizeof (gint32);

  memset (message.tids, 0, sizeof message.tids);
  message.tids[0] = 7;
  message.tids[1] = 8;
  assert_taken (&message, sizeof message.request, 0); /* all threads */
  message.request.header.size = size_bytes;
  message.request.n_threads = 2;
  assert_taken (&message, size_bytes, 0);
  message.request.n_threads = 1;
  assert_refused (&message, size_bytes, 0, "size does not fit the number of threads");
  message.request.n_threads = 2;
  message.tids[1] = 0;
  assert_refused (&message, size_bytes, 0, "impossible thread");
  message.tids[1] = 8;
  message.request.pid = 0;
  assert_refused (&message, size_bytes, 0, "impossible request");
  message.request.pid = 7;
  message.request.n_threads = SONDE_MESSAGE_MAX_ASKED_THREADS + 1;
  message.request.header.size = sizeof message;
  assert_refused (&message, sizeof message, 0, "number of threads out of range");
}

static void
refuses_threads_that_cannot_be (void)
{
  union
  {
    SondeMessageThreads message;
    struct
    {
      guint8 head[sizeof (SondeMessageThreads)];
      SondeMessageThread threads[2];
    };
  } told, good;

  memset (&good, 0, sizeof good);
  good.message.header = (SondeMessageHeader){ SONDE_MESSAGE_THREADS, sizeof good };
  good.message.pid = 7;
  good.message.n_threads = 2;
  good.threads[0] = (SondeMessageThread){ .tid = 7, .state = 'S' };
  good.threads[1] = (SondeMessageThread){ .tid = 8 };
  told = good;
  assert_taken (&told, sizeof told, 0);
#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    told = good;                                                                                   \
    change;                                                                                        \
    assert_refused (&told, sizeof told, 0, expected);                                              \
  }                                                                                                \
  G_STMT_END
  REFUSE (told.message.pid = 0, "impossible process");
  REFUSE (told.message.status = -1, "impossible process");
  REFUSE (told.message.n_threads = SONDE_MESSAGE_MAX_THREADS + 1, "number of threads out of range");
  REFUSE (told.message.n_threads = 1, "size does not fit the number of threads");
  REFUSE (told.threads[1].tid = 0, "impossible thread");
  REFUSE (told.threads[1].state = 0x80, "impossible thread");
  REFUSE (told.threads[1].time_ns = -1, "impossible thread");
#undef REFUSE
}

static void
refuses_interpreters_that_cannot_be (void)
{
  SondeMessageInterpreter message = good_interpreter ();

  assert_taken (&message, sizeof message, 0);
#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    message = good_interpreter ();                                                                 \
    change;                                                                                        \
    assert_refused (&message, sizeof message, 0, expected);                                        \
  }                                                                                                \
  G_STMT_END
  REFUSE (message.pid = 0, "impossible process");
  REFUSE (message.padding = 1, "impossible process");
  REFUSE (message.place.kind = SONDE_N_WALK_KINDS, "impossible process");
  REFUSE (message.place.kind = SONDE_WALK_NONE, "a place of what is no interpreter");
  REFUSE (message.place.layout.is_indirect = 2, "neither yes nor no");
  REFUSE (message.place.layout.is_at_index = 2, "neither yes nor no");
  REFUSE (message.place.layout.is_code_tagged = 2, "neither yes nor no");
  REFUSE (message.place.layout.entry = SONDE_N_WALK_ENTRIES, "impossible layout");
  REFUSE (message.place.layout.state_chunk = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.frame_size = SONDE_WALK_FRAME_BYTES + 1, "a field beyond its frame");
  REFUSE (message.place.layout.frame_size = 69, "a field beyond its frame");
  /* There it is a byte, here it is more. */
  REFUSE (message.place.kind = SONDE_WALK_PHP, "a field beyond its frame");
  REFUSE (message.place.kind = SONDE_WALK_RUBY, "a field beyond its frame");
  REFUSE (message.place.layout.frame_entry = UINT32_MAX, "a field beyond its frame");
  message = good_interpreter ();
  message.place.kind = SONDE_WALK_RUBY;
  message.place.layout.frame_entry = 64;
  assert_taken (&message, sizeof message, 0);
  REFUSE (message.place.layout.frame_code = 69, "a field beyond its frame");
  REFUSE (message.place.layout.frame_caller = UINT32_MAX, "a field beyond its frame");
  REFUSE (message.place.layout.frame_at = 100, "a field beyond its frame");
  REFUSE (message.place.layout.thread_data = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.state_frame = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.text_other = UINT32_MAX, "a field out of range");
  REFUSE (message.place.layout.code_scope = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.scope_name = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.code_n_lines = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.instruction_line = UINT32_MAX, "a field out of range");
  REFUSE (message.place.layout.state_chunk_size = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.code_body = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.code_instructions = UINT32_MAX, "a field out of range");
  REFUSE (message.place.layout.code_size = SONDE_WALK_MAX_OFFSET, "a field out of range");
  REFUSE (message.place.layout.code_index = SONDE_WALK_MAX_OFFSET, "a field out of range");
#undef REFUSE
  message = (SondeMessageInterpreter){ .header = message.header, .pid = 7 };
  assert_taken (&message, sizeof message, 0);
}

static void
refuses_impossible_probes (void)
{
  const SondeMessageProbes good = { .header = { SONDE_MESSAGE_PROBES, sizeof good },
                                    .request_id = 1,
                                    .pid = 7,
                                    .n_notes = 2,
                                    .start = 4096,
                                    .notes = { 5, 6 } };
  SondeMessageProbed answer = { .header = { SONDE_MESSAGE_PROBED, sizeof answer } };
  SondeMessageProbes message = good;

  assert_taken (&message, sizeof message, 0);
#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    message = good;                                                                                \
    change;                                                                                        \
    assert_refused (&message, sizeof message, 0, expected);                                        \
  }                                                                                                \
  G_STMT_END
  REFUSE (message.pid = 0, "impossible process");
  REFUSE (message.request_id = 0, "impossible request");
  REFUSE (message.n_notes = SONDE_PROBE_MAX_SITES + 1, "number of probes out of range");
  REFUSE (message.n_notes = 1, "number of probes out of range");
  REFUSE (message.n_notes = UINT32_MAX, "number of probes out of range");
  REFUSE ((message.n_notes = 0, memset (message.notes, 0, sizeof message.notes)),
          "a place without probes");
#undef REFUSE
  message = (SondeMessageProbes){ .header = good.header, .pid = 7 };
  assert_taken (&message, sizeof message, 0);

  assert_refused (&answer, sizeof answer, 0, "impossible answer");
  answer.request_id = 1;
  assert_taken (&answer, sizeof answer, 0);
  answer.status = -1;
  assert_refused (&answer, sizeof answer, 0, "impossible answer");
  answer.status = 0;
  answer.padding = 1;
  assert_refused (&answer, sizeof answer, 0, "impossible answer");
}

static void
refuses_requests_for_files_of_no_kind (void)
{
  SondeMessageFileRequest request
      = { .header = { SONDE_MESSAGE_FILE_REQUEST, sizeof request }, .request_id = 1, .pid = 5 };

  request.kind = SONDE_N_FILES;
  assert_refused (&request, sizeof request, 0, "unknown kind of file");
  request.kind = SONDE_FILE_PERF_MAP;
  request.start = 0x1000;
  assert_refused (&request, sizeof request, 0, "a mapping of what is not mapped");
}

static void
refuses_failure_texts_that_could_forge_a_log_line (void)
{
  SondeMessageFailed failed = { .header = { SONDE_MESSAGE_FAILED, sizeof failed } };

  g_strlcpy (failed.text, "bad\nroot: all is well", sizeof failed.text);
  assert_refused (&failed, sizeof failed, 0, "text is not printable");
}

static void
refuses_lists_of_sinks_that_cannot_be (void)
{
  SondeMessageSinks sinks
      = { .header = { SONDE_MESSAGE_SINKS, sizeof sinks }, .n_sinks = 1, .sink_ids = { 7 } };

  assert_taken (&sinks, sizeof sinks, 0);
  sinks.n_sinks = SONDE_MESSAGE_MAX_SINKS + 1;
  assert_refused (&sinks, sizeof sinks, 0, "impossible sinks");
  sinks.n_sinks = 2;
  assert_refused (&sinks, sizeof sinks, 0, "impossible sinks");
  sinks.n_sinks = 0;
  assert_refused (&sinks, sizeof sinks, 0, "impossible sinks");
  sinks.n_sinks = 1;
  sinks.padding = 1;
  assert_refused (&sinks, sizeof sinks, 0, "impossible sinks");
}

static void
refuses_counters_that_cannot_be (void)
{
  SondeMessageCounters counters
      = { .header = { SONDE_MESSAGE_COUNTERS, sizeof counters }, .kind = SONDE_COUNTER_KIND_CPU };
  SondeMessageCountersRequest request
      = { .header = { SONDE_MESSAGE_COUNTERS_REQUEST, sizeof request }, .pid = 1 };

  assert_taken (&counters, sizeof counters, 1);
  assert_refused (&counters, sizeof counters, 0, "wrong number of descriptors");
  assert_refused (&counters, sizeof counters, 2, "wrong number of descriptors");
  counters.pid = 1;
  assert_refused (&counters, sizeof counters, 1, "impossible process");
  counters.kind = SONDE_COUNTER_KIND_PROCESS;
  assert_taken (&counters, sizeof counters, 1);
  assert_taken (&counters, sizeof counters, 0);
  counters.pid = 0;
  assert_refused (&counters, sizeof counters, 1, "impossible process");
  counters.kind = SONDE_COUNTER_KIND_PROCESS + 1;
  assert_refused (&counters, sizeof counters, 1, "unknown kind of counters");
  counters.kind = 0;
  assert_refused (&counters, sizeof counters, 1, "unknown kind of counters");

  assert_taken (&request, sizeof request, 0);
  request.padding = 1;
  assert_refused (&request, sizeof request, 0, "impossible request");
  request.padding = 0;
  request.pid = 0;
  assert_refused (&request, sizeof request, 0, "impossible request");
}

static void
refuses_snapshots_that_cannot_be (void)
{
  SondeMessageSnapshot snapshot = { .header = { SONDE_MESSAGE_SNAPSHOT, sizeof snapshot },
                                    .request_id = 1,
                                    .max_bytes = 4096 };
  SondeMessageSnapped snapped
      = { .header = { SONDE_MESSAGE_SNAPPED, sizeof snapped }, .request_id = 1 };

  assert_taken (&snapshot, sizeof snapshot, 1);
  assert_refused (&snapshot, sizeof snapshot, 0, "wrong number of descriptors");
  snapshot.max_bytes = 0;
  assert_refused (&snapshot, sizeof snapshot, 1, "impossible request");
  snapshot.max_bytes = 4096;
  snapshot.request_id = 0;
  assert_refused (&snapshot, sizeof snapshot, 1, "impossible request");

  assert_taken (&snapped, sizeof snapped, 0);
  snapped.status = -1;
  assert_refused (&snapped, sizeof snapped, 0, "impossible answer");
  snapped.status = 0;
  snapped.padding = 1;
  assert_refused (&snapped, sizeof snapped, 0, "impossible answer");
  snapped.padding = 0;
  snapped.request_id = 0;
  assert_refused (&snapped, sizeof snapped, 0, "impossible answer");
}

static void
refuses_recorders_out_of_range (void)
{
  SondeMessageSetup setup = good_setup ();

#define REFUSE(us, bytes)                                                                          \
  G_STMT_START                                                                                     \
  {                                                                                                \
    setup.asked.recorder_us = (us);                                                                \
    setup.asked.recorder_bytes = (bytes);                                                          \
    assert_refused (&setup, sizeof setup, 0, "recorder out of range");                             \
  }                                                                                                \
  G_STMT_END
  REFUSE (SONDE_LIMIT_RECORDER_US + 1, SONDE_LIMIT_RECORDER_BYTES);
  REFUSE (1000000, 0);
  REFUSE (0, SONDE_LIMIT_RECORDER_BYTES_MIN - 1);
  REFUSE (0, SONDE_LIMIT_RECORDER_BYTES_MAX + 1);
#undef REFUSE
  setup.asked.recorder_us = 0;
  setup.asked.recorder_bytes = SONDE_LIMIT_RECORDER_BYTES_MIN;
  assert_taken (&setup, sizeof setup, 0);
}

/* --- between front and broker --- */

static SondeMessageAsk
good_ask (void)
{
  SondeMessageAsk ask = { .header = { SONDE_MESSAGE_ASK, sizeof ask },
                          .version = SONDE_MESSAGE_VERSION,
                          .owner_uid = 1000,
                          .owner_pid = 77,
                          .asked = { .scope = SONDE_SCOPE_UNIT,
                                     .event = SONDE_EVENT_CPU_CLOCK,
                                     .frequency_hz = 99,
                                     .children = 1,
                                     .unwind = SONDE_UNWIND_DWARF,
                                     .stack_size_bytes = 16384,
                                     .max_depth = 256,
                                     .counters = SONDE_COUNTERS_CPU | SONDE_COUNTERS_PROCESS,
                                     .unit = "a.service" } };

  return ask;
}

static void
refuses_to_be_asked_for_what_cannot_be (void)
{
  SondeMessageAsk ask = good_ask ();

  assert_taken (&ask, sizeof ask, 0);
  ask.asked.event = SONDE_EVENT_TRACEPOINT;
  assert_taken (&ask, sizeof ask, 0);
#define REFUSE(change, expected)                                                                   \
  G_STMT_START                                                                                     \
  {                                                                                                \
    ask = good_ask ();                                                                             \
    change;                                                                                        \
    assert_refused (&ask, sizeof ask, 0, expected);                                                \
  }                                                                                                \
  G_STMT_END
  REFUSE (ask.version++, "another version of the protocol");
  REFUSE (ask.owner_pid = -1, "impossible owner");
  REFUSE (ask.padding = 1, "impossible owner");
  REFUSE (ask.asked.memory_detail = SONDE_N_MEMORY_DETAILS, "unknown memory detail");
  REFUSE (ask.asked.trace = SONDE_TRIE_EXACT + 1, "unknown trace mode");
  REFUSE ((ask.asked.trace = SONDE_TRIE_AUTO, ask.asked.trace_depth = 0),
          "trace depth out of range");
  REFUSE ((ask.asked.trace = SONDE_TRIE_AUTO, ask.asked.trace_depth = SONDE_TRIE_MAX_DEPTH + 1),
          "trace depth out of range");
  REFUSE (ask.asked.trace_memory_bytes = SONDE_LIMIT_TRACE_MEMORY_BYTES + 1,
          "trace memory out of range");
  REFUSE (ask.asked.trace_slow_us = SONDE_LIMIT_TRACE_SLOW_US + 1, "slow calls out of range");
  REFUSE (ask.asked.trace_budget = 100 * SONDE_LIMIT_TRACE_BUDGET + 1, "trace budget out of range");
  REFUSE (ask.asked.interpreters = 2, "neither yes nor no");
  REFUSE (ask.asked.waits = SONDE_N_WAITS, "unknown waits");
  REFUSE (ask.asked.padding = 1, "unknown waits");
  REFUSE (memset (ask.asked.trace_filter, 'x', sizeof ask.asked.trace_filter),
          "a filter without its end");
  REFUSE (ask.asked.scope = SONDE_N_SCOPES, "unknown scope");
  REFUSE (ask.asked.event = SONDE_EVENT_TRACEPOINT + 1, "unknown event");
  REFUSE ((ask.asked.event = SONDE_EVENT_TRACEPOINT, ask.asked.tracepoint = 1000),
          "unknown tracepoint");
  REFUSE (ask.asked.kernel = 2, "neither yes nor no");
  REFUSE (ask.asked.raw = -1, "neither yes nor no");
  REFUSE (ask.asked.children = 2, "neither yes nor no");
  REFUSE (ask.asked.start_on_exec = 2, "neither yes nor no");
  REFUSE (ask.asked.symbols = 2, "neither yes nor no");
  REFUSE (ask.asked.unwind = SONDE_UNWIND_LIBDWFL + 1, "unknown unwind mode");
  REFUSE (ask.asked.stack_size_bytes = 12, "stack size out of range");
  REFUSE (ask.asked.stack_size_bytes = 65536, "stack size out of range");
  REFUSE (ask.asked.max_depth = 0, "depth out of range");
  REFUSE (ask.asked.max_depth = 4097, "depth out of range");
  REFUSE (ask.asked.memory = SONDE_MEMORY_ALL, "memory interval out of range");
  REFUSE (ask.asked.memory_wait_us = 1000001, "memory wait out of range");
  REFUSE (ask.asked.memory = SONDE_MEMORY_SAMPLED + 1, "unknown memory mode");
  REFUSE (ask.asked.counters = SONDE_COUNTERS_PROCESS << 1, "unknown counters");
  REFUSE (memset (ask.asked.unit, 'x', sizeof ask.asked.unit), "a text without its end");
#undef REFUSE
}

static void
refuses_targets_that_cannot_be (void)
{
  static const uint32_t types[] = { SONDE_MESSAGE_PROVE, SONDE_MESSAGE_ADD };
  union
  {
    SondeMessageTargets targets;
    char bytes[sizeof (SondeMessageTargets) + 2 * sizeof (SondeMessageTarget)];
  } message = { .targets = { .header.size = sizeof message } };
  SondeMessageTarget *last = &message.targets.targets[1];

  for (size_t i = 0; i < G_N_ELEMENTS (types); i++)
    {
      SondeMessageTargets none = { .header = { types[i], sizeof none } };

      assert_taken (&none, sizeof none, 0);
      message.targets.header.type = types[i];
      message.targets.n_targets = 2;
      message.targets.targets[0]
          = (SondeMessageTarget){ 1, SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS
                                         | SONDE_TARGET_HAS_PIDFD };
      *last = (SondeMessageTarget){ 2, SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_PIDFD };
      assert_taken (&message, sizeof message, 3);
      assert_refused (&message, sizeof message, 2, "descriptors do not fit their flags");
      assert_refused (&message, sizeof message, 4, "descriptors do not fit their flags");
      last->flags = 1u << 3;
      assert_refused (&message, sizeof message, 2, "impossible target");
      last->flags = 0;
      last->pid = 0;
      assert_refused (&message, sizeof message, 2, "impossible target");
      last->pid = -2;
      assert_refused (&message, sizeof message, 2, "impossible target");
      message.targets.n_targets = 3;
      assert_refused (&message, sizeof message, 2, "size does not fit the number of targets");
      message.targets.n_targets = 1;
      assert_refused (&message, sizeof message, 2, "size does not fit the number of targets");
      message.targets.n_targets = SONDE_MESSAGE_MAX_TARGETS + 1;
      assert_refused (&message, sizeof message, 2, "number of targets out of range");
      none.padding = 1;
      assert_refused (&none, sizeof none, 0, "number of targets out of range");
    }
}

static void
refuses_paths_of_groups_without_their_end (void)
{
  SondeMessageOpen open = { .header = { SONDE_MESSAGE_OPEN, sizeof open } };

  assert_taken (&open, sizeof open, 0);
  memset (open.group, 'x', sizeof open.group);
  assert_refused (&open, sizeof open, 0, "a text without its end");
}

static void
refuses_results_that_cannot_be (void)
{
  static const uint32_t types[]
      = { SONDE_MESSAGE_PROVED, SONDE_MESSAGE_OPENED, SONDE_MESSAGE_ADDED, SONDE_MESSAGE_BROKEN };

  for (size_t i = 0; i < G_N_ELEMENTS (types); i++)
    {
      SondeMessageResult result
          = { .header = { types[i], sizeof result }, .error = SONDE_MESSAGE_NO_ERROR };

      assert_taken (&result, sizeof result, 0);
      result.padding = 1;
      assert_refused (&result, sizeof result, 0, "impossible result");
      result.padding = 0;
      result.text[0] = 'x'; /* says why, but not what */
      assert_refused (&result, sizeof result, 0, "impossible result");
      result.error = SONDE_N_ERRORS - 1;
      assert_taken (&result, sizeof result, 0);
      result.error = SONDE_N_ERRORS;
      assert_refused (&result, sizeof result, 0, "impossible result");
      result.error = 0;
      result.text[0] = '\0';
      assert_refused (&result, sizeof result, 0, "impossible result");
      memset (result.text, 'x', sizeof result.text);
      assert_refused (&result, sizeof result, 0, "a text without its end");
    }
}

static void
refuses_what_a_broker_cannot_know (void)
{
  SondeMessageSheet sheet
      = { .header = { SONDE_MESSAGE_SHEET, sizeof sheet }, .version = SONDE_MESSAGE_VERSION + 1 };
  SondeMessageStuck stuck
      = { .header = { SONDE_MESSAGE_STUCK, sizeof stuck }, .pid = 7, .is_over = 1 };

  assert_taken (&sheet, sizeof sheet, 0); /* who hears it decides */
  sheet.padding = 1;
  assert_refused (&sheet, sizeof sheet, 0, "impossible sheet");
  assert_taken (&stuck, sizeof stuck, 0);
  stuck.is_over = 2;
  assert_refused (&stuck, sizeof stuck, 0, "impossible process");
  stuck.is_over = 0;
  stuck.padding = 1;
  assert_refused (&stuck, sizeof stuck, 0, "impossible process");
  stuck.padding = 0;
  stuck.pid = 0;
  assert_refused (&stuck, sizeof stuck, 0, "impossible process");
}

static void
names_every_statistic_once (void)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);

  for (int i = 0; i < SONDE_N_STATISTICS; i++)
    {
      const char *name = sonde_statistic_name ((SondeStatistic) i);

      g_assert_nonnull (name);
      g_assert_true (g_hash_table_add (seen, (char *) name));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/message/refuses-documents-that-cannot-be", refuses_documents_that_cannot_be);
  g_test_add_func ("/message/refuses-sinks-that-cannot-be", refuses_sinks_that_cannot_be);
  g_test_add_func ("/message/accepts-setup", accepts_setup);
  g_test_add_func ("/message/refuses-every-truncation", refuses_every_truncation);
  g_test_add_func ("/message/refuses-setup-fields-out-of-range", refuses_setup_fields_out_of_range);
  g_test_add_func ("/message/refuses-the-other-sides-messages", refuses_the_other_sides_messages);
  g_test_add_func ("/message/refuses-foreign-types", refuses_foreign_types);
  g_test_add_func ("/message/refuses-descriptors-that-do-not-belong",
                   refuses_descriptors_that_do_not_belong);
  g_test_add_func ("/message/refuses-event-counts-that-lie", refuses_event_counts_that_lie);
  g_test_add_func ("/message/refuses-requests-without-a-process",
                   refuses_requests_without_a_process);
  g_test_add_func ("/message/refuses-requests-for-files-of-no-kind",
                   refuses_requests_for_files_of_no_kind);
  g_test_add_func ("/message/refuses-requests-for-threads-that-cannot-be",
                   refuses_requests_for_threads_that_cannot_be);
  g_test_add_func ("/message/refuses-threads-that-cannot-be", refuses_threads_that_cannot_be);
  g_test_add_func ("/message/refuses-interpreters-that-cannot-be",
                   refuses_interpreters_that_cannot_be);
  g_test_add_func ("/message/refuses-impossible-probes", refuses_impossible_probes);
  g_test_add_func ("/message/refuses-failure-texts-that-could-forge-a-log-line",
                   refuses_failure_texts_that_could_forge_a_log_line);
  g_test_add_func ("/message/refuses-lists-of-sinks-that-cannot-be",
                   refuses_lists_of_sinks_that_cannot_be);
  g_test_add_func ("/message/refuses-snapshots-that-cannot-be", refuses_snapshots_that_cannot_be);
  g_test_add_func ("/message/refuses-recorders-out-of-range", refuses_recorders_out_of_range);
  g_test_add_func ("/message/refuses-counters-that-cannot-be", refuses_counters_that_cannot_be);
  g_test_add_func ("/message/refuses-to-be-asked-for-what-cannot-be",
                   refuses_to_be_asked_for_what_cannot_be);
  g_test_add_func ("/message/refuses-targets-that-cannot-be", refuses_targets_that_cannot_be);
  g_test_add_func ("/message/refuses-paths-of-groups-without-their-end",
                   refuses_paths_of_groups_without_their_end);
  g_test_add_func ("/message/refuses-results-that-cannot-be", refuses_results_that_cannot_be);
  g_test_add_func ("/message/refuses-what-a-broker-cannot-know", refuses_what_a_broker_cannot_know);
  g_test_add_func ("/message/names-every-statistic-once", names_every_statistic_once);
  return g_test_run ();
}
