/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The layout of the messages, held to the number of their version: whoever meets a peer of the same
 * number takes its messages for what they are here. */
#include "daemon/base/message.h"

#include <glib.h>
#include <stddef.h>

#include "daemon/base/error.h"

/* Of the text below. When it changes raise SONDE_MESSAGE_VERSION and write the new pair here; what
 * has been released keeps its own. */
#define VERSION 6
#define DIGEST  "3b44d9204cdd0d78117ba191915684cabaf912f218b2b71653d360269871f678"

typedef struct
{
  const char *name;
  size_t offset;
  size_t size_bytes;
} Field;

#define FIELD(type, member)                                                                        \
  {                                                                                                \
#member, offsetof(type, member), sizeof(((type *) NULL)->member)                               \
  }
#define MAX_FIELDS 40

/* Every member, in its order: nothing is left between them, or behind the last one. */
static const struct
{
  const char *name;
  size_t size_bytes;
  Field fields[MAX_FIELDS];
} layouts[] = {
  { "SondeMessageHeader",
    sizeof (SondeMessageHeader),
    {
        FIELD (SondeMessageHeader, type),
        FIELD (SondeMessageHeader, size),
    } },
  { "SondeMessageSetup",
    sizeof (SondeMessageSetup),
    {
        FIELD (SondeMessageSetup, header),
        FIELD (SondeMessageSetup, version),
        FIELD (SondeMessageSetup, flags),
        FIELD (SondeMessageSetup, session_id),
        FIELD (SondeMessageSetup, owner_uid),
        FIELD (SondeMessageSetup, padding),
        FIELD (SondeMessageSetup, asked),
        FIELD (SondeMessageSetup, sample_type),
        FIELD (SondeMessageSetup, sample_regs_user),
        FIELD (SondeMessageSetup, read_format),
        FIELD (SondeMessageSetup, start_realtime_ns),
        FIELD (SondeMessageSetup, start_ns),
        FIELD (SondeMessageSetup, event),
        FIELD (SondeMessageSetup, sonde_version),
    } },
  { "SondeMessageDocument",
    sizeof (SondeMessageDocument),
    {
        FIELD (SondeMessageDocument, header),
        FIELD (SondeMessageDocument, kind),
        FIELD (SondeMessageDocument, pid),
    } },
  { "SondeMessageCounters",
    sizeof (SondeMessageCounters),
    {
        FIELD (SondeMessageCounters, header),
        FIELD (SondeMessageCounters, kind),
        FIELD (SondeMessageCounters, pid),
    } },
  { "SondeMessageEvent",
    sizeof (SondeMessageEvent),
    {
        FIELD (SondeMessageEvent, id),
        FIELD (SondeMessageEvent, cpu),
        FIELD (SondeMessageEvent, tid),
        FIELD (SondeMessageEvent, kind),
        FIELD (SondeMessageEvent, flags),
    } },
  { "SondeMessageEvents",
    sizeof (SondeMessageEvents),
    {
        FIELD (SondeMessageEvents, header),
        FIELD (SondeMessageEvents, n_events),
        FIELD (SondeMessageEvents, n_more),
    } },
  { "SondeMessageNote",
    sizeof (SondeMessageNote),
    {
        FIELD (SondeMessageNote, header),
        FIELD (SondeMessageNote, text),
    } },
  { "SondeMessageSink",
    sizeof (SondeMessageSink),
    {
        FIELD (SondeMessageSink, header),
        FIELD (SondeMessageSink, sink_id),
        FIELD (SondeMessageSink, kind),
        FIELD (SondeMessageSink, buffer_size_bytes),
        FIELD (SondeMessageSink, frames),
        FIELD (SondeMessageSink, max_bytes),
        FIELD (SondeMessageSink, n_pids),
        FIELD (SondeMessageSink, is_last),
        FIELD (SondeMessageSink, pids),
    } },
  { "SondeMessageSnapshot",
    sizeof (SondeMessageSnapshot),
    {
        FIELD (SondeMessageSnapshot, header),
        FIELD (SondeMessageSnapshot, request_id),
        FIELD (SondeMessageSnapshot, max_bytes),
    } },
  { "SondeMessageSnapped",
    sizeof (SondeMessageSnapped),
    {
        FIELD (SondeMessageSnapped, header),
        FIELD (SondeMessageSnapped, request_id),
        FIELD (SondeMessageSnapped, status),
        FIELD (SondeMessageSnapped, padding),
    } },
  { "SondeMessageProcess",
    sizeof (SondeMessageProcess),
    {
        FIELD (SondeMessageProcess, header),
        FIELD (SondeMessageProcess, request_id),
        FIELD (SondeMessageProcess, pid),
        FIELD (SondeMessageProcess, status),
        FIELD (SondeMessageProcess, start_ticks),
        FIELD (SondeMessageProcess, fds),
        FIELD (SondeMessageProcess, padding),
        FIELD (SondeMessageProcess, comm),
    } },
  { "SondeMessageFile",
    sizeof (SondeMessageFile),
    {
        FIELD (SondeMessageFile, header),
        FIELD (SondeMessageFile, request_id),
        FIELD (SondeMessageFile, status),
        FIELD (SondeMessageFile, padding),
    } },
  { "SondeMessageHello",
    sizeof (SondeMessageHello),
    {
        FIELD (SondeMessageHello, header),
        FIELD (SondeMessageHello, version),
        FIELD (SondeMessageHello, pid),
    } },
  { "SondeMessageRingsMapped",
    sizeof (SondeMessageRingsMapped),
    {
        FIELD (SondeMessageRingsMapped, header),
        FIELD (SondeMessageRingsMapped, status),
        FIELD (SondeMessageRingsMapped, n_rings),
        FIELD (SondeMessageRingsMapped, sample_ring_bytes),
        FIELD (SondeMessageRingsMapped, sideband_ring_bytes),
    } },
  { "SondeMessageProcessRequest",
    sizeof (SondeMessageProcessRequest),
    {
        FIELD (SondeMessageProcessRequest, header),
        FIELD (SondeMessageProcessRequest, request_id),
        FIELD (SondeMessageProcessRequest, pid),
        FIELD (SondeMessageProcessRequest, padding),
    } },
  { "SondeMessageCountersRequest",
    sizeof (SondeMessageCountersRequest),
    {
        FIELD (SondeMessageCountersRequest, header),
        FIELD (SondeMessageCountersRequest, pid),
        FIELD (SondeMessageCountersRequest, padding),
    } },
  { "SondeMessageFileRequest",
    sizeof (SondeMessageFileRequest),
    {
        FIELD (SondeMessageFileRequest, header),
        FIELD (SondeMessageFileRequest, request_id),
        FIELD (SondeMessageFileRequest, pid),
        FIELD (SondeMessageFileRequest, dev_major),
        FIELD (SondeMessageFileRequest, dev_minor),
        FIELD (SondeMessageFileRequest, kind),
        FIELD (SondeMessageFileRequest, start_ticks),
        FIELD (SondeMessageFileRequest, start),
        FIELD (SondeMessageFileRequest, offset),
        FIELD (SondeMessageFileRequest, inode),
    } },
  { "SondeMessageProbes",
    sizeof (SondeMessageProbes),
    {
        FIELD (SondeMessageProbes, header),
        FIELD (SondeMessageProbes, request_id),
        FIELD (SondeMessageProbes, pid),
        FIELD (SondeMessageProbes, n_notes),
        FIELD (SondeMessageProbes, start_ticks),
        FIELD (SondeMessageProbes, start),
        FIELD (SondeMessageProbes, offset),
        FIELD (SondeMessageProbes, inode),
        FIELD (SondeMessageProbes, dev_major),
        FIELD (SondeMessageProbes, dev_minor),
        FIELD (SondeMessageProbes, notes),
    } },
  { "SondeMessageProbed",
    sizeof (SondeMessageProbed),
    {
        FIELD (SondeMessageProbed, header),
        FIELD (SondeMessageProbed, request_id),
        FIELD (SondeMessageProbed, status),
        FIELD (SondeMessageProbed, padding),
    } },
  { "SondeMessageThreadsRequest",
    sizeof (SondeMessageThreadsRequest),
    {
        FIELD (SondeMessageThreadsRequest, header),
        FIELD (SondeMessageThreadsRequest, pid),
        FIELD (SondeMessageThreadsRequest, n_threads),
    } },
  { "SondeMessageThread",
    sizeof (SondeMessageThread),
    {
        FIELD (SondeMessageThread, tid),
        FIELD (SondeMessageThread, state),
        FIELD (SondeMessageThread, on_ns),
        FIELD (SondeMessageThread, delay_ns),
        FIELD (SondeMessageThread, slices),
        FIELD (SondeMessageThread, time_ns),
    } },
  { "SondeMessageThreads",
    sizeof (SondeMessageThreads),
    {
        FIELD (SondeMessageThreads, header),
        FIELD (SondeMessageThreads, pid),
        FIELD (SondeMessageThreads, n_threads),
        FIELD (SondeMessageThreads, n_more),
        FIELD (SondeMessageThreads, status),
    } },
  { "SondeMessageInterpreter",
    sizeof (SondeMessageInterpreter),
    {
        FIELD (SondeMessageInterpreter, header),
        FIELD (SondeMessageInterpreter, pid),
        FIELD (SondeMessageInterpreter, padding),
        FIELD (SondeMessageInterpreter, start_ticks),
        FIELD (SondeMessageInterpreter, start),
        FIELD (SondeMessageInterpreter, offset),
        FIELD (SondeMessageInterpreter, inode),
        FIELD (SondeMessageInterpreter, dev_major),
        FIELD (SondeMessageInterpreter, dev_minor),
        FIELD (SondeMessageInterpreter, place),
    } },
  { "SondeWalkPlace",
    sizeof (SondeWalkPlace),
    {
        FIELD (SondeWalkPlace, generation),
        FIELD (SondeWalkPlace, key),
        FIELD (SondeWalkPlace, code_type),
        FIELD (SondeWalkPlace, text_type),
        FIELD (SondeWalkPlace, kind),
        FIELD (SondeWalkPlace, layout),
    } },
  { "SondeWalkLayout",
    sizeof (SondeWalkLayout),
    {
        FIELD (SondeWalkLayout, thread_data),
        FIELD (SondeWalkLayout, thread_data_size),
        FIELD (SondeWalkLayout, thread_data_value),
        FIELD (SondeWalkLayout, state_frame),
        FIELD (SondeWalkLayout, holder_frame),
        FIELD (SondeWalkLayout, is_indirect),
        FIELD (SondeWalkLayout, frame_size),
        FIELD (SondeWalkLayout, frame_code),
        FIELD (SondeWalkLayout, frame_caller),
        FIELD (SondeWalkLayout, frame_at),
        FIELD (SondeWalkLayout, is_at_index),
        FIELD (SondeWalkLayout, frame_entry),
        FIELD (SondeWalkLayout, entry),
        FIELD (SondeWalkLayout, is_code_tagged),
        FIELD (SondeWalkLayout, code_line),
        FIELD (SondeWalkLayout, code_file),
        FIELD (SondeWalkLayout, code_name),
        FIELD (SondeWalkLayout, code_lines),
        FIELD (SondeWalkLayout, text_length),
        FIELD (SondeWalkLayout, text_hash),
        FIELD (SondeWalkLayout, text_state),
        FIELD (SondeWalkLayout, text_ascii),
        FIELD (SondeWalkLayout, text_other),
        FIELD (SondeWalkLayout, state_chunk),
        FIELD (SondeWalkLayout, code_scope),
        FIELD (SondeWalkLayout, scope_name),
        FIELD (SondeWalkLayout, instruction_line),
        FIELD (SondeWalkLayout, code_n_lines),
        FIELD (SondeWalkLayout, state_chunk_size),
        FIELD (SondeWalkLayout, code_body),
        FIELD (SondeWalkLayout, code_instructions),
        FIELD (SondeWalkLayout, code_size),
        FIELD (SondeWalkLayout, code_index),
    } },
  { "SondeMessageStatistics",
    sizeof (SondeMessageStatistics),
    {
        FIELD (SondeMessageStatistics, header),
        FIELD (SondeMessageStatistics, values),
    } },
  { "SondeMessageSinkClosed",
    sizeof (SondeMessageSinkClosed),
    {
        FIELD (SondeMessageSinkClosed, header),
        FIELD (SondeMessageSinkClosed, sink_id),
        FIELD (SondeMessageSinkClosed, reason),
    } },
  { "SondeMessageSinks",
    sizeof (SondeMessageSinks),
    {
        FIELD (SondeMessageSinks, header),
        FIELD (SondeMessageSinks, n_sinks),
        FIELD (SondeMessageSinks, sink_ids),
        FIELD (SondeMessageSinks, padding),
    } },
  { "SondeMessageControls",
    sizeof (SondeMessageControls),
    {
        FIELD (SondeMessageControls, header),
        FIELD (SondeMessageControls, n_taken),
        FIELD (SondeMessageControls, n_open),
    } },
  { "SondeMessageFailed",
    sizeof (SondeMessageFailed),
    {
        FIELD (SondeMessageFailed, header),
        FIELD (SondeMessageFailed, error),
        FIELD (SondeMessageFailed, padding),
        FIELD (SondeMessageFailed, text),
    } },
  { "SondeAsked",
    sizeof (SondeAsked),
    {
        FIELD (SondeAsked, scope),
        FIELD (SondeAsked, event),
        FIELD (SondeAsked, period),
        FIELD (SondeAsked, frequency_hz),
        FIELD (SondeAsked, tracepoint),
        FIELD (SondeAsked, kernel),
        FIELD (SondeAsked, raw),
        FIELD (SondeAsked, children),
        FIELD (SondeAsked, start_on_exec),
        FIELD (SondeAsked, symbols),
        FIELD (SondeAsked, unwind),
        FIELD (SondeAsked, stack_size_bytes),
        FIELD (SondeAsked, max_depth),
        FIELD (SondeAsked, duration_us),
        FIELD (SondeAsked, memory_interval_bytes),
        FIELD (SondeAsked, trace_memory_bytes),
        FIELD (SondeAsked, recorder_us),
        FIELD (SondeAsked, recorder_bytes),
        FIELD (SondeAsked, trace_slow_us),
        FIELD (SondeAsked, memory),
        FIELD (SondeAsked, memory_wait_us),
        FIELD (SondeAsked, counters),
        FIELD (SondeAsked, memory_detail),
        FIELD (SondeAsked, trace),
        FIELD (SondeAsked, trace_depth),
        FIELD (SondeAsked, trace_budget),
        FIELD (SondeAsked, interpreters),
        FIELD (SondeAsked, waits),
        FIELD (SondeAsked, padding),
        FIELD (SondeAsked, trace_filter),
        FIELD (SondeAsked, unit),
    } },
  { "SondeMessageAsk",
    sizeof (SondeMessageAsk),
    {
        FIELD (SondeMessageAsk, header),
        FIELD (SondeMessageAsk, version),
        FIELD (SondeMessageAsk, owner_uid),
        FIELD (SondeMessageAsk, owner_pid),
        FIELD (SondeMessageAsk, padding),
        FIELD (SondeMessageAsk, asked),
    } },
  { "SondeMessageTarget",
    sizeof (SondeMessageTarget),
    {
        FIELD (SondeMessageTarget, pid),
        FIELD (SondeMessageTarget, flags),
    } },
  { "SondeMessageTargets",
    sizeof (SondeMessageTargets),
    {
        FIELD (SondeMessageTargets, header),
        FIELD (SondeMessageTargets, n_targets),
        FIELD (SondeMessageTargets, padding),
    } },
  { "SondeMessageServe",
    sizeof (SondeMessageServe),
    {
        FIELD (SondeMessageServe, header),
        FIELD (SondeMessageServe, session_id),
    } },
  { "SondeMessageOpen",
    sizeof (SondeMessageOpen),
    {
        FIELD (SondeMessageOpen, header),
        FIELD (SondeMessageOpen, group),
    } },
  { "SondeMessageSheet",
    sizeof (SondeMessageSheet),
    {
        FIELD (SondeMessageSheet, header),
        FIELD (SondeMessageSheet, version),
        FIELD (SondeMessageSheet, padding),
        FIELD (SondeMessageSheet, events),
        FIELD (SondeMessageSheet, tracepoints),
    } },
  { "SondeMessageResult",
    sizeof (SondeMessageResult),
    {
        FIELD (SondeMessageResult, header),
        FIELD (SondeMessageResult, error),
        FIELD (SondeMessageResult, padding),
        FIELD (SondeMessageResult, text),
    } },
  { "SondeMessageStuck",
    sizeof (SondeMessageStuck),
    {
        FIELD (SondeMessageStuck, header),
        FIELD (SondeMessageStuck, uid),
        FIELD (SondeMessageStuck, pid),
        FIELD (SondeMessageStuck, is_over),
        FIELD (SondeMessageStuck, padding),
    } },
  { "SondeMessageJoin",
    sizeof (SondeMessageJoin),
    {
        FIELD (SondeMessageJoin, header),
        FIELD (SondeMessageJoin, request_id),
        FIELD (SondeMessageJoin, pid),
        FIELD (SondeMessageJoin, is_called),
    } },
  { "SondeMessageJoined",
    sizeof (SondeMessageJoined),
    {
        FIELD (SondeMessageJoined, header),
        FIELD (SondeMessageJoined, request_id),
        FIELD (SondeMessageJoined, status),
        FIELD (SondeMessageJoined, padding),
    } },
};

#define VALUE(name)                                                                                \
  {                                                                                                \
#name, name                                                                                    \
  }

static const struct
{
  const char *name;
  int value;
} values[] = {
  VALUE (SONDE_UNWIND_NONE),
  VALUE (SONDE_UNWIND_FRAME_POINTER),
  VALUE (SONDE_UNWIND_DWARF),
  VALUE (SONDE_UNWIND_LIBDWFL),
  VALUE (SONDE_SPEC_KERNEL_TIME),
  VALUE (SONDE_SPEC_USER_STACK),
  VALUE (SONDE_SPEC_CALLCHAIN),
  VALUE (SONDE_SPEC_DEFERRED),
  VALUE (SONDE_DOCUMENT_KALLSYMS),
  VALUE (SONDE_DOCUMENT_CPUINFO),
  VALUE (SONDE_DOCUMENT_MOUNTS),
  VALUE (SONDE_DOCUMENT_MOUNTINFO),
  VALUE (SONDE_COUNTER_KIND_CPU),
  VALUE (SONDE_COUNTER_KIND_MEMORY),
  VALUE (SONDE_COUNTER_KIND_NETWORK),
  VALUE (SONDE_COUNTER_KIND_DISK),
  VALUE (SONDE_COUNTER_KIND_PROCESS),
  VALUE (SONDE_EVENT_SAMPLES),
  VALUE (SONDE_EVENT_SIDEBAND),
  VALUE (SONDE_EVENT_WALKS),
  VALUE (SONDE_EVENT_LATE),
  VALUE (SONDE_EVENT_ON_EXEC),
  VALUE (SONDE_SINK_STREAM),
  VALUE (SONDE_SINK_FILE),
  VALUE (SONDE_SINK_FRAMES_SAMPLES),
  VALUE (SONDE_SINK_FRAMES_ALLOCATIONS),
  VALUE (SONDE_SINK_FRAMES_MARKS),
  VALUE (SONDE_SINK_FRAMES_COUNTERS),
  VALUE (SONDE_SINK_FRAMES_LOGS),
  VALUE (SONDE_SINK_FRAMES_ALL),
  VALUE (SONDE_PROCESS_FD_MAPS),
  VALUE (SONDE_PROCESS_FD_CMDLINE),
  VALUE (SONDE_PROCESS_FD_CGROUP),
  VALUE (SONDE_SCOPE_TARGETS),
  VALUE (SONDE_SCOPE_LAUNCH),
  VALUE (SONDE_SCOPE_PIDS),
  VALUE (SONDE_SCOPE_UNIT),
  VALUE (SONDE_SCOPE_SYSTEM),
  VALUE (SONDE_EVENT_AUTO),
  VALUE (SONDE_EVENT_CYCLES),
  VALUE (SONDE_EVENT_INSTRUCTIONS),
  VALUE (SONDE_EVENT_CPU_CLOCK),
  VALUE (SONDE_EVENT_NONE),
  VALUE (SONDE_EVENT_TRACEPOINT),
  VALUE (SONDE_COUNTERS_CPU),
  VALUE (SONDE_COUNTERS_MEMORY),
  VALUE (SONDE_COUNTERS_NETWORK),
  VALUE (SONDE_COUNTERS_DISK),
  VALUE (SONDE_COUNTERS_PROCESS),
  VALUE (SONDE_MEMORY_OFF),
  VALUE (SONDE_MEMORY_ALL),
  VALUE (SONDE_MEMORY_SAMPLED),
  VALUE (SONDE_TARGET_HAS_PROOF),
  VALUE (SONDE_TARGET_HAS_MAPS),
  VALUE (SONDE_TARGET_HAS_PIDFD),
  VALUE (SONDE_ERROR_INVALID_OPTION),
  VALUE (SONDE_ERROR_NOT_AUTHORIZED),
  VALUE (SONDE_ERROR_NO_SUCH_PROCESS),
  VALUE (SONDE_ERROR_NO_SUCH_SESSION),
  VALUE (SONDE_ERROR_LIMIT_EXCEEDED),
  VALUE (SONDE_ERROR_NOT_SUPPORTED),
  VALUE (SONDE_ERROR_INVALID_STATE),
  VALUE (SONDE_ERROR_FAILED),
  VALUE (SONDE_N_ERRORS),
  VALUE (SONDE_STATISTIC_LEDGER),
  VALUE (SONDE_STATISTIC_UNWIND_COMPLETE),
  VALUE (SONDE_STATISTIC_UNWIND_TRUNCATED_DUMP),
  VALUE (SONDE_STATISTIC_UNWIND_TRUNCATED_PAGE),
  VALUE (SONDE_STATISTIC_UNWIND_NO_CFI),
  VALUE (SONDE_STATISTIC_UNWIND_BAD_CFI),
  VALUE (SONDE_STATISTIC_UNWIND_NO_MODULE),
  VALUE (SONDE_STATISTIC_UNWIND_DEPTH_LIMIT),
  VALUE (SONDE_STATISTIC_UNWIND_LOOP),
  VALUE (SONDE_STATISTIC_UNWIND_CHAIN_COMPLETE),
  VALUE (SONDE_STATISTIC_UNWIND_CHAIN_SHORT),
  VALUE (SONDE_STATISTIC_KERNEL_ONLY),
  VALUE (SONDE_STATISTIC_LATE),
  VALUE (SONDE_STATISTIC_THROTTLED),
  VALUE (SONDE_STATISTIC_DUPLICATE),
  VALUE (SONDE_STATISTIC_LOST_SIDEBAND),
  VALUE (SONDE_STATISTIC_RING_BYTES),
  VALUE (SONDE_STATISTIC_PROCESSES),
  VALUE (SONDE_STATISTIC_MODULES),
  VALUE (SONDE_STATISTIC_BYTES),
  VALUE (SONDE_STATISTIC_SHARED_RINGS),
  VALUE (SONDE_STATISTIC_SHARED_RING_BYTES),
  VALUE (SONDE_STATISTIC_EVENTS_WAITED),
  VALUE (SONDE_STATISTIC_EVENTS_WAITED_US),
  VALUE (SONDE_STATISTIC_TARGET_STUCK),
  VALUE (SONDE_STATISTIC_RINGS_REFUSED),
  VALUE (SONDE_STATISTIC_PROGRAMS_32_BIT),
  VALUE (SONDE_STATISTIC_PROGRAMS_STATIC),
  VALUE (SONDE_STATISTIC_PROGRAMS_WITHOUT_LIBRARY),
  VALUE (SONDE_N_STATISTICS),
};

static void
append_table (GString *text)
{
  for (uint32_t type = 0; type < 1024; type++)
    {
      const SondeMessageShape *shape = sonde_message_shape (type);

      if (shape != NULL)
        g_string_append_printf (
            text, "%u %s %u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %u %u\n", type, shape->name,
            shape->ways, shape->size_bytes, shape->entry_bytes, shape->min_fds, shape->max_fds);
    }
}

static void
append_layouts (GString *text)
{
  for (gsize i = 0; i < G_N_ELEMENTS (layouts); i++)
    {
      g_string_append_printf (text, "%s %zu\n", layouts[i].name, layouts[i].size_bytes);
      for (const Field *field = layouts[i].fields; field->name != NULL; field++)
        g_string_append_printf (text, " %s %zu %zu\n", field->name, field->offset,
                                field->size_bytes);
    }
}

static void
append_values (GString *text)
{
  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    g_string_append_printf (text, "%s %d\n", values[i].name, values[i].value);
  for (int i = 0; i < SONDE_N_STATISTICS; i++)
    g_string_append_printf (text, "%s %d\n", sonde_statistic_name ((SondeStatistic) i), i);
  for (guint i = 0; sonde_tracepoint_name (i) != NULL; i++)
    g_string_append_printf (text, "%s %u\n", sonde_tracepoint_name (i), i);
}

static void
changes_with_its_number_alone (void)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *digest = NULL;

  append_table (text);
  append_layouts (text);
  append_values (text);
  digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize) text->len);
  if (g_test_verbose ())
    g_test_message ("%s", text->str);
  g_assert_cmpint (SONDE_MESSAGE_VERSION, ==, VERSION);
  g_assert_cmpstr (digest, ==, DIGEST);
}

static void
leaves_no_byte_unnamed (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (layouts); i++)
    {
      size_t end = 0;

      for (const Field *field = layouts[i].fields; field->name != NULL; field++)
        {
          g_assert_cmpuint (field->offset, ==, end);
          end += field->size_bytes;
        }
      g_assert_cmpuint (end, ==, layouts[i].size_bytes);
    }
}

static void
assert_refused (SondeMessageHeader *message,
                uint64_t size_bytes,
                unsigned n_fds,
                SondeMessageWay way,
                const char *expected)
{
  const char *why = NULL;

  message->size = (uint32_t) size_bytes;
  g_assert_cmpint (sonde_message_check (message, size_bytes, n_fds, way, &why), <, 0);
  g_assert_cmpstr (why, ==, expected);
}

/* What a row says is what the judge takes; it may want more than that. */
static void
takes_no_other_size_or_way (void)
{
  for (uint32_t type = 0; type < 1024; type++)
    {
      const SondeMessageShape *shape = sonde_message_shape (type);
      g_autofree SondeMessageHeader *message = g_malloc0 (SONDE_MESSAGE_MAX_SIZE);

      message->type = type;
      if (shape == NULL)
        continue;
      g_assert_cmpuint (shape->ways, !=, 0);
      g_assert_cmpuint (shape->ways, <, 2 * SONDE_WAY_WORKER_TO_BROKER);
      for (unsigned bit = 1; bit <= SONDE_WAY_WORKER_TO_BROKER; bit <<= 1)
        {
          SondeMessageWay way = (SondeMessageWay) bit;

          if ((shape->ways & bit) == 0)
            {
              assert_refused (message, shape->size_bytes, shape->min_fds, way,
                              "not this side's to send");
              continue;
            }
          assert_refused (message, shape->size_bytes - 4, shape->min_fds, way,
                          shape->size_bytes - 4 < sizeof *message ? "size out of range"
                                                                  : "size is not the type's");
          if (shape->entry_bytes == 0)
            assert_refused (message, shape->size_bytes + 4, shape->min_fds, way,
                            "size is not the type's");
          assert_refused (message, shape->size_bytes, shape->max_fds + 1, way,
                          "wrong number of descriptors");
        }
    }
}

/* A worker is given descriptors and has none to give. */
static void
takes_no_descriptor_of_a_worker (void)
{
  for (uint32_t type = 0; type < 1024; type++)
    {
      const SondeMessageShape *shape = sonde_message_shape (type);

      if (shape != NULL
          && (shape->ways & (SONDE_WAY_WORKER_TO_FRONT | SONDE_WAY_WORKER_TO_BROKER)) != 0)
        g_assert_cmpuint (shape->max_fds, ==, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/message-layout/changes-with-its-number-alone", changes_with_its_number_alone);
  g_test_add_func ("/message-layout/leaves-no-byte-unnamed", leaves_no_byte_unnamed);
  g_test_add_func ("/message-layout/takes-no-other-size-or-way", takes_no_other_size_or_way);
  g_test_add_func ("/message-layout/takes-no-descriptor-of-a-worker",
                   takes_no_descriptor_of_a_worker);
  return g_test_run ();
}
