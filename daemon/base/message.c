/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config.h"

#include "daemon/base/message.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "daemon/base/error.h"

/* What a worker of protocol 2 and before says of counts ends here. */
#define OLD_STATISTICS offsetof (SondeMessageStatistics, values[SONDE_STATISTIC_TARGET_STUCK])

/* The front hands on what the broker says to the worker. */
#define OVER_FRONT (SONDE_WAY_BROKER_TO_FRONT | SONDE_WAY_FRONT_TO_WORKER)

/* A worker of protocol 2 and before asks the front, and gets no answer. */
#define ASKED (SONDE_WAY_WORKER_TO_BROKER | SONDE_WAY_WORKER_TO_FRONT)

static const SondeMessageShape shapes[] = {
  [SONDE_MESSAGE_SETUP] = { "setup", OVER_FRONT, sizeof (SondeMessageSetup), 0, 0, 0 },
  [SONDE_MESSAGE_DOCUMENT] = { "document", OVER_FRONT | SONDE_WAY_BROKER_TO_WORKER, sizeof (SondeMessageDocument), 0, 1, 1 },
  [SONDE_MESSAGE_RINGS] = { "rings", OVER_FRONT, sizeof (SondeMessageEvents), sizeof (SondeMessageEvent), 1, SONDE_MESSAGE_MAX_FDS },
  [SONDE_MESSAGE_EVENTS] = { "events", OVER_FRONT, sizeof (SondeMessageEvents), sizeof (SondeMessageEvent), 1, SONDE_MESSAGE_MAX_FDS },
  [SONDE_MESSAGE_SINK] = { "sink", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageSink), 0, 1, 1 },
  [SONDE_MESSAGE_START] = { "start", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_PROCESS] = { "process", OVER_FRONT | SONDE_WAY_BROKER_TO_WORKER, sizeof (SondeMessageProcess), 0, 0, 3 },
  [SONDE_MESSAGE_FILE] = { "file", SONDE_WAY_BROKER_TO_WORKER, sizeof (SondeMessageFile), 0, 0, 1 },
  [SONDE_MESSAGE_STOP] = { "stop", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_PAUSE] = { "pause", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_RESUME] = { "resume", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_REPORT] = { "report", SONDE_WAY_FRONT_TO_WORKER | SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_NOTE] = { "note", OVER_FRONT | SONDE_WAY_BROKER_TO_WORKER, sizeof (SondeMessageNote), 0, 0, 0 },
  [SONDE_MESSAGE_COUNTERS] = { "counters", OVER_FRONT | SONDE_WAY_BROKER_TO_WORKER, sizeof (SondeMessageCounters), 0, 0, 1 },
  [SONDE_MESSAGE_LEAVE] = { "leave", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_CONTROL] = { "control", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 1, 1 },
  [SONDE_MESSAGE_LINK] = { "link", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 1, 1 },
  [SONDE_MESSAGE_PROGRAM] = { "program", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageHeader), 0, 1, 1 },
  [SONDE_MESSAGE_PROBED] = { "probed", SONDE_WAY_BROKER_TO_WORKER, sizeof (SondeMessageProbed), 0, 0, 0 },
  [SONDE_MESSAGE_SNAPSHOT] = { "snapshot", SONDE_WAY_FRONT_TO_WORKER, sizeof (SondeMessageSnapshot), 0, 1, 1 },
  [SONDE_MESSAGE_THREADS] = { "threads", SONDE_WAY_BROKER_TO_WORKER, sizeof (SondeMessageThreads), sizeof (SondeMessageThread), 0, 0 },
  [SONDE_MESSAGE_HELLO] = { "hello", SONDE_WAY_WORKER_TO_FRONT, sizeof (SondeMessageHello), 0, 0, 0 },
  [SONDE_MESSAGE_RINGS_MAPPED] = { "rings-mapped", SONDE_WAY_WORKER_TO_FRONT | SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageRingsMapped), 0, 0, 0 },
  [SONDE_MESSAGE_PROCESS_REQUEST] = { "process-request", ASKED, sizeof (SondeMessageProcessRequest), 0, 0, 0 },
  [SONDE_MESSAGE_FILE_REQUEST] = { "file-request", ASKED, sizeof (SondeMessageFileRequest), 0, 0, 0 },
  [SONDE_MESSAGE_STATISTICS] = { "statistics", SONDE_WAY_WORKER_TO_FRONT, OLD_STATISTICS, sizeof (uint64_t), 0, 0 },
  [SONDE_MESSAGE_DRAINED] = { "drained", SONDE_WAY_WORKER_TO_FRONT, OLD_STATISTICS, sizeof (uint64_t), 0, 0 },
  [SONDE_MESSAGE_SINK_CLOSED] = { "sink-closed", SONDE_WAY_WORKER_TO_FRONT, sizeof (SondeMessageSinkClosed), 0, 0, 0 },
  [SONDE_MESSAGE_FINISHED] = { "finished", SONDE_WAY_WORKER_TO_FRONT, OLD_STATISTICS, sizeof (uint64_t), 0, 0 },
  [SONDE_MESSAGE_FAILED] = { "failed", SONDE_WAY_WORKER_TO_FRONT, sizeof (SondeMessageFailed), 0, 0, 0 },
  [SONDE_MESSAGE_SINKS] = { "sinks", SONDE_WAY_WORKER_TO_FRONT, sizeof (SondeMessageSinks), 0, 0, 0 },
  [SONDE_MESSAGE_CONTROLS] = { "controls", SONDE_WAY_WORKER_TO_FRONT, sizeof (SondeMessageControls), 0, 0, 0 },
  [SONDE_MESSAGE_COUNTERS_REQUEST] = { "counters-request", ASKED, sizeof (SondeMessageCountersRequest), 0, 0, 0 },
  [SONDE_MESSAGE_INTERPRETER] = { "interpreter", SONDE_WAY_WORKER_TO_BROKER, sizeof (SondeMessageInterpreter), 0, 0, 0 },
  [SONDE_MESSAGE_PROBES] = { "probes", SONDE_WAY_WORKER_TO_BROKER, sizeof (SondeMessageProbes), 0, 0, 0 },
  [SONDE_MESSAGE_SNAPPED] = { "snapped", SONDE_WAY_WORKER_TO_FRONT, sizeof (SondeMessageSnapped), 0, 0, 0 },
  [SONDE_MESSAGE_THREADS_REQUEST] = { "threads-request", SONDE_WAY_WORKER_TO_BROKER, sizeof (SondeMessageThreadsRequest), sizeof (int32_t), 0, 0 },
  [SONDE_MESSAGE_ASK] = { "ask", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageAsk), 0, 0, 0 },
  [SONDE_MESSAGE_PROVE] = { "prove", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageTargets), sizeof (SondeMessageTarget), 0, 2 * SONDE_MESSAGE_MAX_TARGETS },
  [SONDE_MESSAGE_SERVE] = { "serve", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageServe), 0, 1, 1 },
  [SONDE_MESSAGE_OPEN] = { "open", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageOpen), 0, 0, 0 },
  [SONDE_MESSAGE_ANNOUNCE] = { "announce", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_ADD] = { "add", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageTargets), sizeof (SondeMessageTarget), 0, 2 * SONDE_MESSAGE_MAX_TARGETS },
  [SONDE_MESSAGE_CLOSE] = { "close", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_JOIN] = { "join", SONDE_WAY_FRONT_TO_BROKER, sizeof (SondeMessageJoin), 0, 0, 0 },
  [SONDE_MESSAGE_SHEET] = { "sheet", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageSheet), 0, 0, 0 },
  [SONDE_MESSAGE_PROVED] = { "proved", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageResult), 0, 0, 0 },
  [SONDE_MESSAGE_OPENED] = { "opened", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageResult), 0, 0, 0 },
  [SONDE_MESSAGE_ADDED] = { "added", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageResult), 0, 0, 0 },
  [SONDE_MESSAGE_BROKEN] = { "broken", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageResult), 0, 0, 0 },
  [SONDE_MESSAGE_TARGETS_ENDED] = { "targets-ended", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageHeader), 0, 0, 0 },
  [SONDE_MESSAGE_STUCK] = { "stuck", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageStuck), 0, 0, 0 },
  [SONDE_MESSAGE_JOINED] = { "joined", SONDE_WAY_BROKER_TO_FRONT, sizeof (SondeMessageJoined), 0, 0, 0 },
};

const SondeMessageShape *
sonde_message_shape (uint32_t type)
{
  const SondeMessageShape *shape = type < sizeof shapes / sizeof shapes[0] ? &shapes[type] : NULL;

  return shape != NULL && shape->name != NULL ? shape : NULL;
}

static bool
is_terminated (const char *text, size_t size_bytes)
{
  return memchr (text, '\0', size_bytes) != NULL;
}

static const char *
check_setup (const SondeMessageSetup *setup)
{
  const uint32_t known_flags
      = SONDE_SPEC_KERNEL_TIME | SONDE_SPEC_USER_STACK | SONDE_SPEC_CALLCHAIN | SONDE_SPEC_DEFERRED;

  if (setup->version != SONDE_MESSAGE_VERSION)
    return "another version of the protocol";
  if ((setup->flags & ~known_flags) != 0 || setup->padding != 0)
    return "unknown flags";
  if (!is_terminated (setup->event, sizeof setup->event)
      || !is_terminated (setup->sonde_version, sizeof setup->sonde_version))
    return "a text without its end";
  return sonde_asked_check (&setup->asked);
}

static const char *
check_events (const SondeMessageEvents *events, unsigned n_fds)
{
  if (events->n_events == 0 || events->n_events > SONDE_MESSAGE_MAX_FDS)
    return "number of events out of range";
  if (events->n_events != n_fds)
    return "not one descriptor per event";
  if (events->header.size != sizeof *events + events->n_events * sizeof events->events[0])
    return "size does not fit the number of events";
  if (events->n_more > (events->header.type == SONDE_MESSAGE_RINGS ? SONDE_MESSAGE_MAX_RINGS : 0))
    return "number of further events out of range";
  for (uint32_t i = 0; i < events->n_events; i++)
    {
      const SondeMessageEvent *event = &events->events[i];

      if (event->kind != SONDE_EVENT_SAMPLES && event->kind != SONDE_EVENT_SIDEBAND
          && event->kind != SONDE_EVENT_SWITCHES
          && ((event->kind != SONDE_EVENT_WALKS && event->kind != SONDE_EVENT_PROBES)
              || events->header.type != SONDE_MESSAGE_EVENTS))
        return "unknown kind of event";
      if (event->cpu < 0 || event->tid < -1
          || (event->flags & ~(uint32_t) (SONDE_EVENT_LATE | SONDE_EVENT_ON_EXEC)) != 0)
        return "impossible event";
    }
  return NULL;
}

static const char *
check_process (const SondeMessageProcess *process, unsigned n_fds)
{
  const uint32_t known_fds
      = SONDE_PROCESS_FD_MAPS | SONDE_PROCESS_FD_CMDLINE | SONDE_PROCESS_FD_CGROUP;

  if ((process->fds & ~known_fds) != 0)
    return "unknown descriptors";
  if ((unsigned) __builtin_popcount (process->fds) != n_fds)
    return "descriptors do not fit their flags";
  if (process->pid < 0 || process->status < 0 || process->padding != 0)
    return "impossible process";
  if (!is_terminated (process->comm, sizeof process->comm))
    return "a text without its end";
  return NULL;
}

static const char *
check_document (const SondeMessageDocument *document)
{
  if (document->kind < SONDE_DOCUMENT_KALLSYMS || document->kind > SONDE_DOCUMENT_MOUNTINFO)
    return "unknown document";
  if (document->kind == SONDE_DOCUMENT_MOUNTINFO ? document->pid <= 0 : document->pid != 0)
    return "impossible process";
  return NULL;
}

static const char *
check_counters (const SondeMessageCounters *counters, unsigned n_fds)
{
  if (counters->kind < SONDE_COUNTER_KIND_CPU || counters->kind > SONDE_COUNTER_KIND_PROCESS)
    return "unknown kind of counters";
  if (counters->kind == SONDE_COUNTER_KIND_PROCESS ? counters->pid <= 0 : counters->pid != 0)
    return "impossible process";
  if (counters->kind != SONDE_COUNTER_KIND_PROCESS && n_fds == 0)
    return "wrong number of descriptors";
  return NULL;
}

static const char *
check_counters_request (const SondeMessageCountersRequest *request)
{
  return request->pid > 0 && request->padding == 0 ? NULL : "impossible request";
}

static const char *
check_file (const SondeMessageFile *file, unsigned n_fds)
{
  if (file->status < 0 || file->padding != 0)
    return "impossible file";
  if ((file->status == 0) != (n_fds == 1))
    return "descriptor does not fit the status";
  return NULL;
}

static const char *
check_sink (const SondeMessageSink *sink)
{
  if (sink->sink_id == 0 || sink->buffer_size_bytes == 0 || sink->is_last > 1)
    return "impossible sink";
  if (sink->kind != SONDE_SINK_STREAM && sink->kind != SONDE_SINK_FILE)
    return "unknown kind of sink";
  if ((sink->kind == SONDE_SINK_FILE) != (sink->max_bytes != 0))
    return "size limit does not fit the kind of sink";
  if ((sink->frames & ~(uint32_t) SONDE_SINK_FRAMES_ALL) != 0)
    return "unknown kinds of frames";
  if (sink->is_last && (sink->frames != SONDE_SINK_FRAMES_ALL || sink->n_pids > 0))
    return "a part of what is kept";
  if (sink->n_pids > SONDE_MESSAGE_SINK_MAX_PIDS)
    return "too many processes";
  for (uint32_t i = 0; i < SONDE_MESSAGE_SINK_MAX_PIDS; i++)
    if (i < sink->n_pids ? sink->pids[i] <= 0 : sink->pids[i] != 0)
      return "impossible process";
  return NULL;
}

static const char *
check_snapshot (const SondeMessageSnapshot *snapshot)
{
  return snapshot->request_id > 0 && snapshot->max_bytes > 0 ? NULL : "impossible request";
}

static const char *
check_snapped (const SondeMessageSnapped *snapped)
{
  return snapped->request_id > 0 && snapped->status >= 0 && snapped->padding == 0
             ? NULL
             : "impossible answer";
}

static const char *
check_file_request (const SondeMessageFileRequest *request)
{
  if (request->request_id == 0 || request->pid <= 0)
    return "impossible request";
  if (request->kind >= SONDE_N_FILES)
    return "unknown kind of file";
  if (request->kind == SONDE_FILE_PERF_MAP
      && (request->start != 0 || request->offset != 0 || request->inode != 0
          || request->dev_major != 0 || request->dev_minor != 0))
    return "a mapping of what is not mapped";
  return NULL;
}

/* Fields of 8 bytes that are read of a frame have to be in it. What tells of an entry is a byte of
 * CPython's. */
static const char *
check_layout (const SondeWalkPlace *place)
{
  const SondeWalkLayout *layout = &place->layout;
  const uint32_t entry_bytes = place->kind == SONDE_WALK_PYTHON ? 1 : sizeof (uint64_t);
  const uint32_t booleans[] = { layout->is_indirect, layout->is_at_index, layout->is_code_tagged };
  const uint32_t in_frame[] = { layout->frame_code, layout->frame_caller, layout->frame_at };
  const uint32_t offsets[]
      = { layout->thread_data, layout->thread_data_size, layout->thread_data_value,
          layout->state_frame, layout->holder_frame,     layout->code_line,
          layout->code_file,   layout->code_name,        layout->code_lines,
          layout->text_length, layout->text_hash,        layout->text_state,
          layout->text_ascii,  layout->text_other,      layout->state_chunk,
          layout->code_scope,  layout->scope_name,      layout->code_n_lines,
          layout->code_body,   layout->code_size,       layout->code_index,
          layout->instruction_line, layout->state_chunk_size, layout->code_instructions };

  for (size_t i = 0; i < sizeof booleans / sizeof booleans[0]; i++)
    if (booleans[i] > 1)
      return "neither yes nor no";
  if (layout->frame_size > SONDE_WALK_FRAME_BYTES || layout->frame_entry > layout->frame_size
      || layout->frame_size - layout->frame_entry < entry_bytes)
    return "a field beyond its frame";
  for (size_t i = 0; i < sizeof in_frame / sizeof in_frame[0]; i++)
    if (in_frame[i] > layout->frame_size || layout->frame_size - in_frame[i] < sizeof (uint32_t))
      return "a field beyond its frame";
  for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++)
    if (offsets[i] >= SONDE_WALK_MAX_OFFSET)
      return "a field out of range";
  return layout->entry < SONDE_N_WALK_ENTRIES ? NULL : "impossible layout";
}

static const char *
check_interpreter (const SondeMessageInterpreter *message)
{
  static const SondeMessageInterpreter none;
  SondeMessageInterpreter rest = *message;

  if (message->pid <= 0 || message->padding != 0 || message->place.kind >= SONDE_N_WALK_KINDS)
    return "impossible process";
  if (message->place.kind != SONDE_WALK_NONE)
    return check_layout (&message->place);
  rest.header = none.header;
  rest.pid = 0;
  return memcmp (&rest, &none, sizeof none) == 0 ? NULL : "a place of what is no interpreter";
}

static const char *
check_probes (const SondeMessageProbes *message)
{
  static const SondeMessageProbes none;
  SondeMessageProbes rest = *message;

  if (message->pid <= 0)
    return "impossible process";
  if (message->n_notes > SONDE_PROBE_MAX_SITES)
    return "number of probes out of range";
  if (message->n_notes > 0 && message->request_id == 0)
    return "impossible request";
  for (uint32_t i = message->n_notes; i < SONDE_PROBE_MAX_SITES; i++)
    if (message->notes[i] != 0)
      return "number of probes out of range";
  if (message->n_notes > 0)
    return NULL;
  rest.header = none.header;
  rest.pid = 0;
  return memcmp (&rest, &none, sizeof none) == 0 ? NULL : "a place without probes";
}

static const char *
check_probed (const SondeMessageProbed *probed)
{
  return probed->request_id > 0 && probed->status >= 0 && probed->padding == 0
             ? NULL
             : "impossible answer";
}

static const char *
check_threads_request (const SondeMessageThreadsRequest *request)
{
  if (request->pid <= 0)
    return "impossible request";
  if (request->n_threads > SONDE_MESSAGE_MAX_ASKED_THREADS)
    return "number of threads out of range";
  if (request->header.size != sizeof *request + request->n_threads * sizeof request->tids[0])
    return "size does not fit the number of threads";
  for (uint32_t i = 0; i < request->n_threads; i++)
    if (request->tids[i] <= 0)
      return "impossible thread";
  return NULL;
}

static const char *
check_threads (const SondeMessageThreads *message)
{
  if (message->pid <= 0 || message->status < 0)
    return "impossible process";
  if (message->n_threads > SONDE_MESSAGE_MAX_THREADS)
    return "number of threads out of range";
  if (message->header.size != sizeof *message + message->n_threads * sizeof message->threads[0])
    return "size does not fit the number of threads";
  for (uint32_t i = 0; i < message->n_threads; i++)
    if (message->threads[i].tid <= 0 || message->threads[i].state > 0x7F
        || message->threads[i].time_ns < 0)
      return "impossible thread";
  return NULL;
}

static const char *
check_process_request (const SondeMessageProcessRequest *request)
{
  if (request->request_id == 0 || request->pid <= 0 || request->padding != 0)
    return "impossible request";
  return NULL;
}

static const char *
check_sinks (const SondeMessageSinks *sinks)
{
  if (sinks->n_sinks > SONDE_MESSAGE_MAX_SINKS || sinks->padding != 0)
    return "impossible sinks";
  for (uint32_t i = 0; i < SONDE_MESSAGE_MAX_SINKS; i++)
    if ((i < sinks->n_sinks) != (sinks->sink_ids[i] != 0))
      return "impossible sinks";
  return NULL;
}

static const char *
check_controls (const SondeMessageControls *controls)
{
  return controls->n_open <= controls->n_taken ? NULL : "impossible controls";
}

static const char *
check_sentence (const char *text, size_t size_bytes)
{
  if (!is_terminated (text, size_bytes))
    return "a text without its end";
  for (; *text != '\0'; text++)
    if (*text < ' ' || *text > '~')
      return "text is not printable";
  return NULL;
}

static const char *
check_failed (const SondeMessageFailed *failed)
{
  if (failed->padding != 0 || failed->error < 0)
    return "impossible failure";
  return check_sentence (failed->text, sizeof failed->text);
}

static const char *
check_ask (const SondeMessageAsk *ask)
{
  if (ask->version != SONDE_MESSAGE_VERSION)
    return "another version of the protocol";
  if (ask->owner_pid < 0 || ask->padding != 0)
    return "impossible owner";
  return sonde_asked_check (&ask->asked);
}

static const char *
check_targets (const SondeMessageTargets *message, unsigned n_fds)
{
  unsigned n_flagged = 0;

  if (message->n_targets > SONDE_MESSAGE_MAX_TARGETS || message->padding != 0)
    return "number of targets out of range";
  if (message->header.size != sizeof *message + message->n_targets * sizeof message->targets[0])
    return "size does not fit the number of targets";
  for (uint32_t i = 0; i < message->n_targets; i++)
    {
      uint32_t flags = message->targets[i].flags;

      if (message->targets[i].pid <= 0
          || (flags & ~(uint32_t) (SONDE_TARGET_HAS_PROOF | SONDE_TARGET_HAS_MAPS
                                   | SONDE_TARGET_HAS_PIDFD))
                 != 0)
        return "impossible target";
      n_flagged += (unsigned) __builtin_popcount (
          flags & (SONDE_TARGET_HAS_MAPS | SONDE_TARGET_HAS_PIDFD));
    }
  return n_flagged == n_fds ? NULL : "descriptors do not fit their flags";
}

static const char *
check_statistics (const SondeMessageStatistics *statistics)
{
  return statistics->header.size <= sizeof *statistics && statistics->header.size % 8 == 0
             ? NULL
             : "size is not the type's";
}

static const char *
check_sheet (const SondeMessageSheet *sheet)
{
  return sheet->padding == 0 ? NULL : "impossible sheet";
}

static const char *
check_result (const SondeMessageResult *result)
{
  if (!is_terminated (result->text, sizeof result->text))
    return "a text without its end";
  if (result->padding != 0
      || (result->error != SONDE_MESSAGE_NO_ERROR && result->error >= SONDE_N_ERRORS)
      || (result->error == SONDE_MESSAGE_NO_ERROR) != (result->text[0] == '\0'))
    return "impossible result";
  return NULL;
}

static const char *
check_stuck (const SondeMessageStuck *stuck)
{
  return stuck->pid > 0 && stuck->is_over <= 1 && stuck->padding == 0 ? NULL : "impossible process";
}

static const char *
check_join (const SondeMessageJoin *join)
{
  return join->request_id > 0 && join->pid > 0 && (join->is_called == 0 || join->is_called == 1)
             ? NULL
             : "impossible request";
}

static const char *
check_joined (const SondeMessageJoined *joined)
{
  return joined->request_id > 0 && joined->status >= 0 && joined->padding == 0
             ? NULL
             : "impossible answer";
}

/* What is particular to one type; size and way hold already. */
static const char *
check_content (const SondeMessageHeader *header, unsigned n_fds)
{
  const void *message = header;

  switch ((SondeMessageType) header->type)
    {
    case SONDE_MESSAGE_SETUP:
      return check_setup (message);
    case SONDE_MESSAGE_DOCUMENT:
      return check_document (message);
    case SONDE_MESSAGE_COUNTERS:
      return check_counters (message, n_fds);
    case SONDE_MESSAGE_COUNTERS_REQUEST:
      return check_counters_request (message);
    case SONDE_MESSAGE_INTERPRETER:
      return check_interpreter (message);
    case SONDE_MESSAGE_PROBES:
      return check_probes (message);
    case SONDE_MESSAGE_PROBED:
      return check_probed (message);
    case SONDE_MESSAGE_THREADS_REQUEST:
      return check_threads_request (message);
    case SONDE_MESSAGE_THREADS:
      return check_threads (message);
    case SONDE_MESSAGE_RINGS:
    case SONDE_MESSAGE_EVENTS:
      return check_events (message, n_fds);
    case SONDE_MESSAGE_SINK:
      return check_sink (message);
    case SONDE_MESSAGE_SNAPSHOT:
      return check_snapshot (message);
    case SONDE_MESSAGE_SNAPPED:
      return check_snapped (message);
    case SONDE_MESSAGE_PROCESS:
      return check_process (message, n_fds);
    case SONDE_MESSAGE_FILE:
      return check_file (message, n_fds);
    case SONDE_MESSAGE_PROCESS_REQUEST:
      return check_process_request (message);
    case SONDE_MESSAGE_FILE_REQUEST:
      return check_file_request (message);
    case SONDE_MESSAGE_ASK:
      return check_ask (message);
    case SONDE_MESSAGE_PROVE:
    case SONDE_MESSAGE_ADD:
      return check_targets (message, n_fds);
    case SONDE_MESSAGE_OPEN:
      return is_terminated (((const SondeMessageOpen *) message)->group, SONDE_MESSAGE_GROUP_BYTES)
                 ? NULL
                 : "a text without its end";
    case SONDE_MESSAGE_SHEET:
      return check_sheet (message);
    case SONDE_MESSAGE_PROVED:
    case SONDE_MESSAGE_OPENED:
    case SONDE_MESSAGE_ADDED:
    case SONDE_MESSAGE_BROKEN:
      return check_result (message);
    case SONDE_MESSAGE_STUCK:
      return check_stuck (message);
    case SONDE_MESSAGE_JOIN:
      return check_join (message);
    case SONDE_MESSAGE_JOINED:
      return check_joined (message);
    case SONDE_MESSAGE_STATISTICS:
    case SONDE_MESSAGE_DRAINED:
    case SONDE_MESSAGE_FINISHED:
      return check_statistics (message);
    case SONDE_MESSAGE_FAILED:
      return check_failed (message);
    case SONDE_MESSAGE_NOTE:
      return check_sentence (((const SondeMessageNote *) message)->text,
                             sizeof ((const SondeMessageNote *) message)->text);
    case SONDE_MESSAGE_SINKS:
      return check_sinks (message);
    case SONDE_MESSAGE_CONTROLS:
      return check_controls (message);
    case SONDE_MESSAGE_HELLO:
      return ((const SondeMessageHello *) message)->version > 0 ? NULL : "no version";
    case SONDE_MESSAGE_START:
    case SONDE_MESSAGE_STOP:
    case SONDE_MESSAGE_PAUSE:
    case SONDE_MESSAGE_RESUME:
    case SONDE_MESSAGE_REPORT:
    case SONDE_MESSAGE_LEAVE:
    case SONDE_MESSAGE_CONTROL:
    case SONDE_MESSAGE_LINK:
    case SONDE_MESSAGE_PROGRAM:
    case SONDE_MESSAGE_SERVE:
    case SONDE_MESSAGE_ANNOUNCE:
    case SONDE_MESSAGE_CLOSE:
    case SONDE_MESSAGE_TARGETS_ENDED:
    case SONDE_MESSAGE_RINGS_MAPPED:
    case SONDE_MESSAGE_SINK_CLOSED:
      return NULL;
    default:
      return "unknown type";
    }
}

static const char *
check_message (const void *bytes, uint64_t size_bytes, unsigned n_fds, SondeMessageWay way)
{
  const SondeMessageHeader *header = bytes;
  const SondeMessageShape *shape;

  if (size_bytes < sizeof *header || size_bytes > SONDE_MESSAGE_MAX_SIZE)
    return "size out of range";
  if (header->size != size_bytes)
    return "size is not the packet's";
  shape = sonde_message_shape (header->type);
  if (shape == NULL)
    return "unknown type";
  if ((shape->ways & (uint32_t) way) == 0)
    return "not this side's to send";
  if (shape->entry_bytes > 0 ? size_bytes < shape->size_bytes : size_bytes != shape->size_bytes)
    return "size is not the type's";
  if (n_fds < shape->min_fds || n_fds > shape->max_fds)
    return "wrong number of descriptors";
  return check_content (header, n_fds);
}

int
sonde_message_check (
    const void *bytes, uint64_t size_bytes, unsigned n_fds, SondeMessageWay way, const char **why)
{
  const char *fault = check_message (bytes, size_bytes, n_fds, way);

  if (fault == NULL)
    return 0;
  *why = fault;
  return -EBADMSG;
}

const char *
sonde_message_type_to_string (uint32_t type)
{
  const SondeMessageShape *shape = sonde_message_shape (type);

  return shape != NULL ? shape->name : "?";
}

const char *
sonde_statistic_name (SondeStatistic statistic)
{
  static const char *const names[SONDE_N_STATISTICS - SONDE_N_LEDGER] = {
    "unwind-complete",
    "unwind-truncated-dump",
    "unwind-truncated-page",
    "unwind-no-cfi",
    "unwind-bad-cfi",
    "unwind-no-module",
    "unwind-depth-limit",
    "unwind-loop",
    "unwind-chain-complete",
    "unwind-chain-short",
    "kernel-only",
    "late",
    "throttled",
    "duplicate",
    "lost-sideband",
    "ring-bytes",
    "processes",
    "modules",
    "bytes",
    "shared-rings",
    "shared-ring-bytes",
    "events-waited",
    "events-waited-us",
    "target-stuck",
    "rings-refused",
    "programs-32-bit",
    "programs-static",
    "programs-without-library",
    "traced-processes",
    "calls",
    "calls-lost",
    "traces-refused",
    "traces-empty",
    "jit-refused",
    "jit-unnamed",
    "walks",
    "walks-lost",
    "walks-unpaired",
    "walks-torn",
    "walks-deep",
    "walks-apart",
    "walks-unnamed",
    "walks-absent",
    "interpreters-closed",
    "interpreters-musl",
    "interpreters-unknown",
    "interpreters-beyond",
    "probed-programs",
    "probes-refused",
    "recorder-us",
    "recorder-bytes",
    "recorder-gone",
    "switches",
    "switches-lost",
    "waits-unknown-us",
    "threads-beyond",
  };

  if ((unsigned) statistic < SONDE_N_LEDGER)
    return sonde_ledger_name ((SondeLedger) statistic);
  return (unsigned) statistic < SONDE_N_STATISTICS ? names[statistic - SONDE_N_LEDGER] : "?";
}
