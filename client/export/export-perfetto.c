/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Perfetto's trace of protobuf packets, one behind the other: samples as of its own perf data
 * source, marks and counters as track events. Packets of one type that follow each other are one
 * message to protobuf, so nothing is kept but what stacks are made of. */
#include "client/export/export.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "client/base/text.h"
#include "perfetto.pb-c.h"

#define SEQUENCE_ID        1
#define STATE_CLEARED      1
#define STATE_NEEDED       2
#define CLOCK_REALTIME_ID  1
#define CLOCK_MONOTONIC_ID 3
/* Numbers of tracks: of processes, of counters, of marks. */
#define PROCESS_TRACKS (G_GUINT64_CONSTANT (1) << 40)
#define COUNTER_TRACKS (G_GUINT64_CONSTANT (2) << 40)
#define MARK_TRACKS    (G_GUINT64_CONSTANT (3) << 40)
#define THREAD_TRACKS  (G_GUINT64_CONSTANT (4) << 40)

enum
{
  EVENT_BEGIN = 1,
  EVENT_END = 2,
  EVENT_INSTANT = 3,
  EVENT_COUNTER = 4,
};

typedef struct
{
  SondeExportSource *source;
  SondeExportOutput *output;
  GByteArray *packed;
  SondeCallTree *stacks;      /* its nodes are the numbers of call stacks */
  gboolean *is_function_told; /* by function */
  GHashTable *modules;        /* name → number of its mapping */
  GHashTable *counters;       /* pid << 32 | counter, in boxes: whose track is told */
  GHashTable *threads;        /* set of tids whose name is told */
  guint64 n_marks;
} PerfettoTrace;

static void
write_packet (PerfettoTrace *self, Sonde__Perfetto__TracePacket *packet)
{
  Sonde__Perfetto__TracePacket *packets[] = { packet };
  Sonde__Perfetto__Trace trace = SONDE__PERFETTO__TRACE__INIT;

  packet->has_trusted_packet_sequence_id = TRUE;
  packet->trusted_packet_sequence_id = SEQUENCE_ID;
  trace.n_packet = 1;
  trace.packet = packets;
  g_byte_array_set_size (self->packed, (guint) sonde__perfetto__trace__get_packed_size (&trace));
  sonde__perfetto__trace__pack (&trace, self->packed->data);
  sonde_export_output_bytes (self->output, self->packed->data, self->packed->len);
}

static void
set_time (Sonde__Perfetto__TracePacket *packet, gint64 time_ns)
{
  packet->has_timestamp = packet->has_timestamp_clock_id = packet->has_sequence_flags = TRUE;
  packet->timestamp = (guint64) MAX (time_ns, 0);
  packet->timestamp_clock_id = CLOCK_MONOTONIC_ID;
  packet->sequence_flags = STATE_NEEDED;
}

/* --- what stacks are made of, told before its first use --- */

static void
write_interned (PerfettoTrace *self, Sonde__Perfetto__InternedData *interned)
{
  Sonde__Perfetto__TracePacket packet = SONDE__PERFETTO__TRACE_PACKET__INIT;

  packet.has_sequence_flags = TRUE;
  packet.sequence_flags = STATE_NEEDED;
  packet.interned_data = interned;
  write_packet (self, &packet);
}

static void
fill_text (Sonde__Perfetto__InternedString *text, guint64 iid, const char *name)
{
  text->has_iid = text->has_str = TRUE;
  text->iid = iid;
  text->str.data = (uint8_t *) name;
  text->str.len = strlen (name);
}

/* A mapping that holds everything: addresses would say no more than names. */
static guint64
tell_module (PerfettoTrace *self, const char *module)
{
  const char *name = module[0] != '\0' ? module : "[unknown]";
  guint known = GPOINTER_TO_UINT (g_hash_table_lookup (self->modules, name));
  Sonde__Perfetto__InternedString path = SONDE__PERFETTO__INTERNED_STRING__INIT;
  Sonde__Perfetto__InternedString *paths[] = { &path };
  Sonde__Perfetto__Mapping mapping = SONDE__PERFETTO__MAPPING__INIT;
  Sonde__Perfetto__Mapping *mappings[] = { &mapping };
  Sonde__Perfetto__InternedData interned = SONDE__PERFETTO__INTERNED_DATA__INIT;
  guint64 iid;

  if (known > 0)
    return known;
  iid = g_hash_table_size (self->modules) + 1;
  g_hash_table_insert (self->modules, (gpointer) name, GUINT_TO_POINTER ((guint) iid));
  fill_text (&path, iid, name);
  mapping.has_iid = mapping.has_end = TRUE;
  mapping.iid = iid;
  mapping.end = G_MAXINT64;
  mapping.n_path_string_ids = 1;
  mapping.path_string_ids = &iid;
  interned.n_mapping_paths = interned.n_mappings = 1;
  interned.mapping_paths = paths;
  interned.mappings = mappings;
  write_interned (self, &interned);
  return iid;
}

static void
tell_function (PerfettoTrace *self, guint32 function)
{
  const SondeFunction *named = sonde_export_source_function (self->source, function);
  Sonde__Perfetto__InternedString name = SONDE__PERFETTO__INTERNED_STRING__INIT;
  Sonde__Perfetto__InternedString *names[] = { &name };
  Sonde__Perfetto__Frame frame = SONDE__PERFETTO__FRAME__INIT;
  Sonde__Perfetto__Frame *frames[] = { &frame };
  Sonde__Perfetto__InternedData interned = SONDE__PERFETTO__INTERNED_DATA__INIT;

  if (self->is_function_told[function])
    return;
  self->is_function_told[function] = TRUE;
  frame.has_iid = frame.has_function_name_id = frame.has_mapping_id = frame.has_rel_pc = TRUE;
  frame.iid = frame.function_name_id = (guint64) function + 1;
  frame.mapping_id = tell_module (self, named->module);
  frame.rel_pc = (guint64) function;
  fill_text (&name, frame.iid, named->name);
  interned.n_function_names = interned.n_frames = 1;
  interned.function_names = names;
  interned.frames = frames;
  write_interned (self, &interned);
}

/* One that nothing has ended at before is new. Returns its number. */
static guint64
tell_stack (PerfettoTrace *self, const SondeExportStack *stack)
{
  guint32 node = sonde_call_tree_add (self->stacks, stack->functions, stack->n_frames, 1);
  g_autofree guint64 *ids = NULL;
  Sonde__Perfetto__Callstack callstack = SONDE__PERFETTO__CALLSTACK__INIT;
  Sonde__Perfetto__Callstack *callstacks[] = { &callstack };
  Sonde__Perfetto__InternedData interned = SONDE__PERFETTO__INTERNED_DATA__INIT;

  if (sonde_call_tree_node (self->stacks, node)->self > 1)
    return (guint64) node + 1;
  ids = g_new (guint64, stack->n_frames);
  for (gsize i = 0; i < stack->n_frames; i++)
    {
      tell_function (self, stack->functions[i]);
      ids[i] = (guint64) stack->functions[i] + 1;
    }
  callstack.has_iid = TRUE;
  callstack.iid = (guint64) node + 1;
  callstack.n_frame_ids = stack->n_frames;
  callstack.frame_ids = ids;
  interned.n_callstacks = 1;
  interned.callstacks = callstacks;
  write_interned (self, &interned);
  return callstack.iid;
}

/* --- events --- */

static guint64
process_track (gint32 pid)
{
  return PROCESS_TRACKS + (guint32) MAX (pid, 0);
}

static void
write_track (PerfettoTrace *self, Sonde__Perfetto__TrackDescriptor *track, guint64 uuid)
{
  Sonde__Perfetto__TracePacket packet = SONDE__PERFETTO__TRACE_PACKET__INIT;

  track->has_uuid = TRUE;
  track->uuid = uuid;
  packet.track_descriptor = track;
  write_packet (self, &packet);
}

/* Threads that have a name of their own; the first one of a process has the process's. */
static void
tell_thread (PerfettoTrace *self, const SondeExportStack *sample)
{
  const SondeCaptureModel *model = self->source->model;
  const SondeModelProcess *process = sonde_capture_model_process (model, sample->process);
  const char *name = sonde_capture_model_thread_name (model, process, sample->tid);
  g_autofree char *shown = NULL;
  Sonde__Perfetto__ThreadDescriptor descriptor = SONDE__PERFETTO__THREAD_DESCRIPTOR__INIT;
  Sonde__Perfetto__TrackDescriptor track = SONDE__PERFETTO__TRACK_DESCRIPTOR__INIT;

  if (name == process->comm || !g_hash_table_add (self->threads, GINT_TO_POINTER (sample->tid)))
    return;
  shown = sonde_text_escape (name, -1);
  descriptor.has_pid = descriptor.has_tid = TRUE;
  descriptor.pid = sample->pid;
  descriptor.tid = sample->tid;
  descriptor.thread_name = shown;
  track.thread = &descriptor;
  track.has_parent_uuid = TRUE;
  track.parent_uuid = process_track (sample->pid);
  write_track (self, &track, THREAD_TRACKS + (guint32) sample->tid);
}

static void
write_sample (const SondeExportStack *sample, gpointer user_data)
{
  PerfettoTrace *self = user_data;
  Sonde__Perfetto__PerfSample message = SONDE__PERFETTO__PERF_SAMPLE__INIT;
  Sonde__Perfetto__TracePacket packet = SONDE__PERFETTO__TRACE_PACKET__INIT;

  tell_thread (self, sample);
  message.has_pid = message.has_tid = message.has_callstack_iid = TRUE;
  message.pid = (guint32) sample->pid;
  message.tid = (guint32) sample->tid;
  message.callstack_iid = tell_stack (self, sample);
  set_time (&packet, sample->time_ns);
  packet.perf_sample = &message;
  write_packet (self, &packet);
}

static void
write_event (
    PerfettoTrace *self, Sonde__Perfetto__TrackEvent *event, int type, guint64 track, gint64 ns)
{
  Sonde__Perfetto__TracePacket packet = SONDE__PERFETTO__TRACE_PACKET__INIT;

  event->has_type = event->has_track_uuid = TRUE;
  event->type = type;
  event->track_uuid = track;
  set_time (&packet, ns);
  packet.track_event = event;
  write_packet (self, &packet);
}

/* With its bytes; a stack has no place there. */
static void
write_allocation (const SondeExportStack *allocation, gpointer user_data)
{
  Sonde__Perfetto__DebugAnnotation bytes = SONDE__PERFETTO__DEBUG_ANNOTATION__INIT;
  Sonde__Perfetto__DebugAnnotation *annotations[] = { &bytes };
  Sonde__Perfetto__TrackEvent event = SONDE__PERFETTO__TRACK_EVENT__INIT;

  bytes.name = (char *) "bytes";
  bytes.has_int_value = TRUE;
  bytes.int_value = allocation->size_bytes;
  event.name = (char *) "allocation";
  event.n_debug_annotations = 1;
  event.debug_annotations = annotations;
  write_event (user_data, &event, EVENT_INSTANT, process_track (allocation->pid),
               allocation->time_ns);
}

/* Marks may overlap in any way, events of a track may not: each lasting one has a track. */
static void
write_mark (const SondeModelMark *mark, gpointer user_data)
{
  PerfettoTrace *self = user_data;
  g_autofree char *name = sonde_text_escape (mark->name, -1);
  g_autofree char *group = sonde_text_escape (mark->group, -1);
  g_autofree char *message = sonde_text_escape (mark->message, -1);
  char *categories[] = { group };
  Sonde__Perfetto__DebugAnnotation text = SONDE__PERFETTO__DEBUG_ANNOTATION__INIT;
  Sonde__Perfetto__DebugAnnotation *annotations[] = { &text };
  Sonde__Perfetto__TrackEvent event = SONDE__PERFETTO__TRACK_EVENT__INIT;
  Sonde__Perfetto__TrackEvent end = SONDE__PERFETTO__TRACK_EVENT__INIT;
  Sonde__Perfetto__TrackDescriptor track = SONDE__PERFETTO__TRACK_DESCRIPTOR__INIT;
  gint64 end_ns;

  text.name = (char *) "message";
  text.string_value = message;
  event.name = name;
  event.n_categories = 1;
  event.categories = categories;
  event.n_debug_annotations = mark->message[0] != '\0';
  event.debug_annotations = annotations;
  if (mark->duration_ns <= 0 || __builtin_add_overflow (mark->time_ns, mark->duration_ns, &end_ns))
    {
      write_event (self, &event, EVENT_INSTANT, process_track (mark->pid), mark->time_ns);
      return;
    }
  track.name = group;
  track.has_parent_uuid = TRUE;
  track.parent_uuid = process_track (mark->pid);
  write_track (self, &track, MARK_TRACKS + self->n_marks);
  write_event (self, &event, EVENT_BEGIN, MARK_TRACKS + self->n_marks, mark->time_ns);
  write_event (self, &end, EVENT_END, MARK_TRACKS + self->n_marks, end_ns);
  self->n_marks++;
}

/* Returns the number of the track of a counter of a process. */
static guint64
tell_counter (PerfettoTrace *self, const SondeModelValue *value, const SondeModelCounter *counter)
{
  gint64 key = (gint64) ((guint64) (guint32) value->pid << 32 | value->counter);
  gpointer known = g_hash_table_lookup (self->counters, &key);
  g_autofree char *title = g_strdup_printf ("%s/%s", counter->category, counter->name);
  g_autofree char *name = sonde_text_escape (title, -1);
  g_autofree char *unit = sonde_text_escape (counter->description, -1);
  Sonde__Perfetto__CounterDescriptor descriptor = SONDE__PERFETTO__COUNTER_DESCRIPTOR__INIT;
  Sonde__Perfetto__TrackDescriptor track = SONDE__PERFETTO__TRACK_DESCRIPTOR__INIT;
  guint64 uuid;

  if (known != NULL)
    return COUNTER_TRACKS + GPOINTER_TO_UINT (known);
  uuid = COUNTER_TRACKS + g_hash_table_size (self->counters) + 1;
  g_hash_table_insert (self->counters, g_memdup2 (&key, sizeof key),
                       GUINT_TO_POINTER (g_hash_table_size (self->counters) + 1));
  descriptor.unit_name = unit;
  track.name = name;
  track.counter = &descriptor;
  track.has_parent_uuid = value->pid >= 0;
  track.parent_uuid = process_track (value->pid);
  write_track (self, &track, uuid);
  return uuid;
}

static void
write_value (const SondeModelValue *value, gpointer user_data)
{
  PerfettoTrace *self = user_data;
  const SondeModelCounter *counter
      = sonde_capture_model_counter (self->source->model, value->counter);
  Sonde__Perfetto__TrackEvent event = SONDE__PERFETTO__TRACK_EVENT__INIT;

  if (counter->is_double && !isfinite (value->value.vdbl))
    return;
  event.has_double_counter_value = counter->is_double;
  event.has_counter_value = !counter->is_double;
  if (counter->is_double)
    event.double_counter_value = value->value.vdbl;
  else
    event.counter_value = value->value.v64;
  write_event (self, &event, EVENT_COUNTER, tell_counter (self, value, counter), value->time_ns);
}

/* --- the beginning --- */

static void
write_clocks (PerfettoTrace *self)
{
  g_autofree char *start = sonde_export_source_describe (self->source, "start-realtime", "0");
  Sonde__Perfetto__ClockSnapshot__Clock realtime = SONDE__PERFETTO__CLOCK_SNAPSHOT__CLOCK__INIT;
  Sonde__Perfetto__ClockSnapshot__Clock monotonic = SONDE__PERFETTO__CLOCK_SNAPSHOT__CLOCK__INIT;
  Sonde__Perfetto__ClockSnapshot__Clock *clocks[] = { &realtime, &monotonic };
  Sonde__Perfetto__ClockSnapshot snapshot = SONDE__PERFETTO__CLOCK_SNAPSHOT__INIT;
  Sonde__Perfetto__TracePacket packet = SONDE__PERFETTO__TRACE_PACKET__INIT;

  realtime.has_clock_id = monotonic.has_clock_id = TRUE;
  realtime.has_timestamp = monotonic.has_timestamp = TRUE;
  realtime.clock_id = CLOCK_REALTIME_ID;
  realtime.timestamp = g_ascii_strtoull (start, NULL, 10);
  monotonic.clock_id = CLOCK_MONOTONIC_ID;
  monotonic.timestamp = (guint64) MAX (self->source->start_ns, 0);
  snapshot.n_clocks = G_N_ELEMENTS (clocks);
  snapshot.clocks = clocks;
  snapshot.has_primary_trace_clock = packet.has_sequence_flags = TRUE;
  snapshot.primary_trace_clock = CLOCK_MONOTONIC_ID;
  packet.sequence_flags = STATE_CLEARED;
  packet.clock_snapshot = &snapshot;
  write_packet (self, &packet);
}

gboolean
sonde_export_perfetto (SondeExportSource *source,
                       SondeUnit unit,
                       SondeExportOutput *output,
                       GError **error)
{
  static const SondeExportFuncs funcs = {
    .sample = write_sample, .allocation = write_allocation, .mark = write_mark, .value = write_value
  };
  g_autoptr (GByteArray) packed = g_byte_array_new ();
  g_autoptr (SondeCallTree) stacks
      = sonde_call_tree_new (sonde_capture_model_budget (source->model));
  g_autoptr (GHashTable) modules = g_hash_table_new (sonde_text_hash, g_str_equal);
  g_autoptr (GHashTable) threads = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) counters
      = g_hash_table_new_full (sonde_hash_number, g_int64_equal, g_free, NULL);
  g_autofree gboolean *is_function_told = g_new0 (gboolean, source->n_functions);
  PerfettoTrace trace = { .source = source,
                          .output = output,
                          .packed = packed,
                          .stacks = stacks,
                          .is_function_told = is_function_told,
                          .modules = modules,
                          .threads = threads,
                          .counters = counters };
  const SondeCaptureModel *model;

  write_clocks (&trace);
  /* The last name that a process goes by stays. */
  model = trace.source->model;
  for (guint i = 0; i < sonde_capture_model_n_processes (model); i++)
    {
      const SondeModelProcess *process = sonde_capture_model_process (model, i);
      g_autofree char *comm = sonde_text_escape (process->comm, -1);
      g_autofree char *cmdline = sonde_text_escape (process->cmdline, -1);
      Sonde__Perfetto__ProcessDescriptor descriptor = SONDE__PERFETTO__PROCESS_DESCRIPTOR__INIT;
      Sonde__Perfetto__TrackDescriptor track = SONDE__PERFETTO__TRACK_DESCRIPTOR__INIT;

      descriptor.has_pid = TRUE;
      descriptor.pid = process->pid;
      descriptor.process_name = comm;
      descriptor.n_cmdline = 1;
      descriptor.cmdline = &cmdline;
      track.process = &descriptor;
      write_track (&trace, &track, process_track (process->pid));
    }
  return sonde_export_source_run (source, &funcs, &trace, error);
}
