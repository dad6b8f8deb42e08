/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/recorder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "daemon/capture/stream/tally.h"

#define STUCK_CHECK_SECONDS 5
#define MAX_UNREAD_MAPS     4096
#define NAMES_A_TURN        512 /* of processes, and of threads */
#define UNREAD_WAIT_NS      (G_GINT64_CONSTANT (10) * 1000000000)

/* A mapping that was told before its file was read. A MAP frame says which build of a file is
 * mapped, but it has to come before the samples in it, and those wait for a file only so long. So
 * it is told again, then with its build id, once the file is known. */
typedef struct
{
  int32_t pid;
  uint64_t start;  /* bytes */
  gint64 until_ns; /* then it is given up */
} UnreadMap;

struct SondeRecorder
{
  SondeSinkSource source; /* what is recorded, for us and the sinks */
  SondeRecorderSinkClosed closed;
  gpointer user_data;

  GArray *unread_maps; /* UnreadMap, oldest first */
  GArray *renamed; /* int32_t: pids of processes that are, or were, SONDE_PROCESS_FLAG_RENAMED */
  gboolean has_told_full;
  GPtrArray *sinks;
  SondeWindow *window; /* NULL: nothing is kept */
  guint reap_source;
  guint stuck_source;
  gboolean finished;
  guint64 past[SONDE_N_STATISTICS]; /* of sinks that are gone */

  SondeTally told; /* as of the last warning about losses */
  gint64 told_ns;
};

static gboolean
on_stuck_check (gpointer user_data)
{
  sonde_recorder_close_stuck (user_data, g_get_monotonic_time ());
  return G_SOURCE_CONTINUE;
}

static void
push_span (const SondeSpan *span, gpointer user_data)
{
  SondeRecorder *self = user_data;

  for (guint i = 0; i < self->sinks->len; i++)
    sonde_sink_push (g_ptr_array_index (self->sinks, i), span);
  if (self->window != NULL)
    sonde_window_push (self->window, span);
}

static void
add_up (guint64 values[SONDE_N_STATISTICS], const SondeSink *sink)
{
  for (guint i = SONDE_LEDGER_STREAM_RECORDED; i < SONDE_N_LEDGER; i++)
    values[i] += sink->counters[i];
  values[SONDE_STATISTIC_BYTES] += sink->n_bytes;
}

static gboolean
reap_sinks (gpointer user_data)
{
  SondeRecorder *self = user_data;

  self->reap_source = 0;
  for (guint i = self->sinks->len; i > 0; i--)
    {
      const SondeSink *sink = g_ptr_array_index (self->sinks, i - 1);

      if (sink->phase != SONDE_SINK_PHASE_CLOSED)
        continue;
      add_up (self->past, sink);
      g_ptr_array_remove_index (self->sinks, i - 1);
    }

  return G_SOURCE_REMOVE;
}

/* Called from within the sink: it is freed later, from the main loop. */
static void
sink_closed (SondeSink *sink, int reason, gpointer user_data)
{
  SondeRecorder *self = user_data;

  if (self->reap_source == 0)
    self->reap_source = g_idle_add_full (G_PRIORITY_DEFAULT, reap_sinks, self, NULL);
  self->closed (sink->id, reason, self->user_data);
}

SondeRecorder *
sonde_recorder_new (SondeStreamState *state,
                    SondeTally *tally,
                    SondeRecorderSinkClosed closed,
                    gpointer user_data)
{
  SondeRecorder *self = g_new0 (SondeRecorder, 1);

  self->closed = closed;
  self->user_data = user_data;
  self->source.pool = sonde_chunk_pool_new ();
  self->source.state = state;
  self->source.writer = sonde_span_writer_new (self->source.pool, push_span, self);
  self->source.tally = tally;
  self->source.closed = sink_closed;
  self->source.user_data = self;
  self->unread_maps = g_array_sized_new (FALSE, FALSE, sizeof (UnreadMap), MAX_UNREAD_MAPS);
  self->renamed = g_array_new (FALSE, FALSE, sizeof (int32_t));
  self->sinks = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_sink_free);
  self->told_ns = sonde_stream_now_ns ();
  self->stuck_source = g_timeout_add_seconds (STUCK_CHECK_SECONDS, on_stuck_check, self);

  return self;
}

void
sonde_recorder_free (SondeRecorder *self)
{
  if (self == NULL)
    return;

  if (self->reap_source != 0)
    g_source_remove (self->reap_source);
  g_source_remove (self->stuck_source);
  g_ptr_array_unref (self->sinks);
  sonde_window_free (self->window);
  g_array_unref (self->unread_maps);
  g_array_unref (self->renamed);
  sonde_span_writer_free (self->source.writer);
  sonde_chunk_pool_unref (self->source.pool);
  g_free (self);
}

int
sonde_recorder_add_sink (SondeRecorder *self, int fd, const SondeMessageSink *options)
{
  sonde_autofd int owned = fd;
  SondeSink *sink;

  if (self->finished)
    return ESHUTDOWN;
  if (sonde_recorder_n_sinks (self) >= SONDE_LIMIT_SINKS)
    return EMFILE;

  /* What was recorded before it came is not its. */
  sonde_recorder_flush (self);
  sink = sonde_sink_new (sonde_steal_fd (&owned), options, &self->source);
  if (sink == NULL)
    return EBADF;
  g_ptr_array_add (self->sinks, sink);
  sonde_sink_pump (sink);

  return 0;
}

void
sonde_recorder_keep_window (SondeRecorder *self,
                            gint64 length_ns,
                            gsize max_bytes,
                            const SondeWindowHandler *handler,
                            gpointer user_data)
{
  g_assert (self->window == NULL);
  /* What was recorded before is told by the state. */
  sonde_recorder_flush (self);
  self->window = sonde_window_new (&self->source, length_ns, max_bytes, handler, user_data);
}

void
sonde_recorder_drop_window (SondeRecorder *self)
{
  g_clear_pointer (&self->window, sonde_window_free);
}

SondeWindow *
sonde_recorder_window (const SondeRecorder *self)
{
  return self->window;
}

const SondeSinkSource *
sonde_recorder_source (const SondeRecorder *self)
{
  return &self->source;
}

void
sonde_recorder_close_stuck (SondeRecorder *self, gint64 now_us)
{
  for (guint i = 0; i < self->sinks->len; i++)
    sonde_sink_close_if_stuck (g_ptr_array_index (self->sinks, i), now_us);
}

void
sonde_recorder_await_readers (SondeRecorder *self)
{
  self->source.awaited_us = g_get_monotonic_time ();
}

guint
sonde_recorder_n_sinks (const SondeRecorder *self)
{
  guint n_open = 0;

  for (guint i = 0; i < self->sinks->len; i++)
    {
      const SondeSink *sink = g_ptr_array_index (self->sinks, i);

      n_open += sink->phase != SONDE_SINK_PHASE_CLOSED;
    }

  return n_open;
}

void
sonde_recorder_list_sinks (const SondeRecorder *self, SondeMessageSinks *message)
{
  G_STATIC_ASSERT (SONDE_MESSAGE_MAX_SINKS == SONDE_LIMIT_SINKS);

  for (guint i = 0; i < self->sinks->len; i++)
    {
      const SondeSink *sink = g_ptr_array_index (self->sinks, i);

      if (sink->phase != SONDE_SINK_PHASE_CLOSED)
        message->sink_ids[message->n_sinks++] = sink->id;
    }
}

/* --- frames --- */

static void
write_map (SondeRecorder *self,
           SondeProcess *process,
           const SondeProcessMapping *mapping,
           gint64 time_ns)
{
  UnreadMap unread
      = { sonde_process_pid (process), mapping->start, sonde_stream_now_ns () + UNREAD_WAIT_NS };

  sonde_stream_state_write_map (unread.pid, mapping, time_ns, self->source.writer);
  if (mapping->module == NULL && mapping->file.inode != 0
      && self->unread_maps->len < MAX_UNREAD_MAPS)
    g_array_append_val (self->unread_maps, unread);
}

static void
settle_process (SondeRecorder *self, SondeProcess *process, gint64 time_ns)
{
  if (process == NULL || !sonde_process_flag (process, SONDE_PROCESS_FLAG_RENAMED))
    return;
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_RENAMED, false);
  sonde_recorder_rename (self, process, time_ns);
}

void
sonde_recorder_process (SondeRecorder *self, SondeProcess *process, gint64 time_ns)
{
  const SondeProcessMapping *mappings;
  size_t n_mappings = 0;

  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_WRITTEN | SONDE_PROCESS_FLAG_HIDDEN))
    {
      settle_process (self, process, time_ns);
      return;
    }

  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_WRITTEN, true);
  sonde_stream_state_write_process (self->source.state, process, time_ns, self->source.writer);
  sonde_process_resolve_modules (self->source.state->processes, process);
  mappings = sonde_process_mappings (process, &n_mappings);
  for (size_t i = 0; i < n_mappings; i++)
    write_map (self, process, &mappings[i], time_ns);
}

void
sonde_recorder_map (SondeRecorder *self,
                    SondeProcess *process,
                    const SondeProcessMapping *mapping,
                    gint64 time_ns)
{
  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_WRITTEN))
    write_map (self, process, mapping, time_ns);
}

void
sonde_recorder_settle_maps (SondeRecorder *self)
{
  SondeProcessTable *processes = self->source.state->processes;
  gint64 now = sonde_stream_now_ns ();
  guint n_left = 0;

  for (guint i = 0; i < self->unread_maps->len; i++)
    {
      UnreadMap unread = g_array_index (self->unread_maps, UnreadMap, i);
      SondeProcess *process = sonde_process_table_find (processes, unread.pid);
      /* What the process has there now is what matters: after an exec that is another file. */
      const SondeProcessMapping *mapping
          = process != NULL ? sonde_process_find_mapping (processes, process, unread.start) : NULL;

      if (mapping != NULL && mapping->module != NULL)
        sonde_recorder_map (self, process, mapping, now);
      else if (mapping != NULL && now < unread.until_ns)
        g_array_index (self->unread_maps, UnreadMap, n_left++) = unread;
    }
  g_array_set_size (self->unread_maps, n_left);
}

void
sonde_recorder_rename (SondeRecorder *self, SondeProcess *process, gint64 time_ns)
{
  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_WRITTEN))
    sonde_stream_state_write_process (self->source.state, process, time_ns, self->source.writer);
}

void
sonde_recorder_fork (
    SondeRecorder *self, int32_t parent_tid, int32_t child_tid, int cpu, gint64 time_ns)
{
  SondeFrameOrigin origin = { time_ns, cpu, parent_tid };

  sonde_writer_add_fork (sonde_span_writer_state (self->source.writer), &origin, child_tid);
}

void
sonde_recorder_renamed (SondeRecorder *self, SondeProcess *process)
{
  int32_t pid = sonde_process_pid (process);

  if (!sonde_process_flag (process, SONDE_PROCESS_FLAG_WRITTEN)
      || sonde_process_flag (process, SONDE_PROCESS_FLAG_RENAMED))
    return;
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_RENAMED, true);
  g_array_append_val (self->renamed, pid);
}

/* @line: (transfer full) */
static void
set_task (SondeRecorder *self, int32_t pid, int32_t tid, char *line)
{
  if (sonde_stream_state_set_task (self->source.state, pid, tid, line) || self->has_told_full)
    return;
  self->has_told_full = TRUE;
  sonde_recorder_warn (self, "Names of threads or control groups are missing: there are too many, "
                             "or one is too long");
}

void
sonde_recorder_thread (
    SondeRecorder *self, int32_t pid, int32_t tid, const char *name, gint64 time_ns)
{
  g_autofree char *escaped = g_strescape (name, NULL);

  set_task (self, pid, tid,
            g_strdup_printf ("thread %d %d %" G_GINT64_FORMAT " %s\n", pid, tid, time_ns, escaped));
}

void
sonde_recorder_cgroup (SondeRecorder *self, int32_t pid, const char *path)
{
  g_autofree char *escaped = g_strescape (path, NULL);

  set_task (self, pid, 0, g_strdup_printf ("cgroup %d %s\n", pid, escaped));
}

void
sonde_recorder_settle_names (SondeRecorder *self, gboolean is_urgent)
{
  SondeStreamState *state = self->source.state;
  guint max = is_urgent ? G_MAXUINT : NAMES_A_TURN;
  gint64 now = sonde_stream_now_ns ();
  guint n = MIN (max, self->renamed->len);

  for (guint i = 0; i < n; i++)
    settle_process (
        self,
        sonde_process_table_find (state->processes, g_array_index (self->renamed, int32_t, i)),
        now);
  g_array_remove_range (self->renamed, 0, n);
  sonde_stream_state_write_tasks (state, max, now, self->source.writer);
}

void
sonde_recorder_settle_task (SondeRecorder *self, int32_t pid, int32_t tid, gint64 time_ns)
{
  if (pid == tid)
    settle_process (self, sonde_process_table_find (self->source.state->processes, pid), time_ns);
  sonde_stream_state_write_task (self->source.state, pid, tid, time_ns, self->source.writer);
  if (pid == tid)
    sonde_stream_state_write_task (self->source.state, pid, 0, time_ns, self->source.writer);
}

void
sonde_recorder_exit (SondeRecorder *self, int32_t pid, int cpu, gint64 time_ns)
{
  SondeFrameOrigin origin = { time_ns, cpu, pid };

  sonde_writer_add_exit (sonde_span_writer_plain (self->source.writer), &origin);
}

uint64_t
sonde_recorder_name (SondeRecorder *self, const char *name, gint64 time_ns)
{
  return sonde_stream_state_name (self->source.state, name, time_ns, self->source.writer);
}

uint64_t
sonde_recorder_name_code (SondeRecorder *self, const char *name, gint64 time_ns)
{
  return sonde_stream_state_name_code (self->source.state, name, time_ns, self->source.writer);
}

gboolean
sonde_recorder_name_address (SondeRecorder *self,
                             uint64_t address,
                             const char *name,
                             gint64 time_ns)
{
  return sonde_stream_state_name_address (self->source.state, address, name, time_ns,
                                          self->source.writer);
}

/* @frame has been a valid one, so that it fits. */
void
sonde_recorder_event (SondeRecorder *self, const SondeFrame *frame)
{
  int r = sonde_span_writer_add_frame (self->source.writer, frame, FALSE);

  if (frame->type == SONDE_FRAME_SAMPLE)
    {
      sonde_tally_sample_read (self->source.tally);
      sonde_tally_add (self->source.tally, r == 0 ? SONDE_LEDGER_RECORDED : SONDE_LEDGER_LOST_QUEUE,
                       1);
    }
  else
    sonde_tally_event (self->source.tally,
                       r == 0 ? SONDE_LEDGER_EVENTS_RECORDED : SONDE_LEDGER_EVENTS_REFUSED, 1);
}

void
sonde_recorder_segment (
    SondeRecorder *self, const char *path, const guint8 *bytes, gsize size_bytes, guint n_events)
{
  const guint32 magic = GUINT32_TO_LE (SONDE_HEAP_LABEL_MAGIC);
  const gint64 now = sonde_stream_now_ns ();

  for (gsize at = 0, piece; at < size_bytes; at += piece)
    {
      union
      {
        SondeFrameFileChunk chunk;
        guint64 words[(sizeof (SondeFrameFileChunk) + SONDE_WRITER_MAX_CHUNK) / 8 + 1];
      } made = { .words = { 0 } };

      piece = MIN (size_bytes - at, SONDE_WRITER_MAX_CHUNK);
      /* What goes on does not look as if it began. */
      if (size_bytes - at - piece >= sizeof magic
          && memcmp (bytes + at + piece, &magic, sizeof magic) == 0)
        piece--;
      made.chunk.frame.len = (uint16_t) ((sizeof made.chunk + piece + 7) / 8 * 8);
      made.chunk.frame.cpu = -1;
      made.chunk.frame.pid = -1;
      made.chunk.frame.time_ns = now;
      made.chunk.frame.type = SONDE_FRAME_FILE_CHUNK;
      made.chunk.data_len = (uint16_t) piece;
      g_strlcpy (made.chunk.path, path, sizeof made.chunk.path);
      memcpy (made.chunk.data, bytes + at, piece);
      sonde_span_writer_add_frame (self->source.writer, &made.chunk.frame, FALSE);
    }
  sonde_tally_event (self->source.tally, SONDE_LEDGER_EVENTS_RECORDED, n_events);
}

void
sonde_recorder_file (SondeRecorder *self, const char *path, GBytes *content)
{
  const SondeFrameOrigin origin = { sonde_stream_now_ns (), -1, -1 };
  gsize size_bytes;
  const guint8 *bytes = g_bytes_get_data (content, &size_bytes);

  for (gsize at = 0, piece; at < size_bytes; at += piece)
    {
      piece = MIN (size_bytes - at, SONDE_WRITER_MAX_CHUNK);
      sonde_writer_add_file_chunk (sonde_span_writer_plain (self->source.writer), &origin, path,
                                   bytes + at, piece, at + piece == size_bytes);
    }
}

gboolean
sonde_recorder_is_watched (const SondeRecorder *self)
{
  for (guint i = 0; i < self->sinks->len; i++)
    {
      const SondeSink *sink = g_ptr_array_index (self->sinks, i);

      if (sink->file == NULL && sink->phase != SONDE_SINK_PHASE_WAITING
          && sink->phase != SONDE_SINK_PHASE_CLOSED)
        return TRUE;
    }
  return FALSE;
}

guint64
sonde_recorder_n_missed (const SondeRecorder *self)
{
  guint64 values[SONDE_N_STATISTICS] = { 0 };

  sonde_recorder_sum (self, values);
  return values[SONDE_LEDGER_STREAM_LOST] - values[SONDE_LEDGER_STREAM_SAMPLES_LOST];
}

gboolean
sonde_recorder_has_room (const SondeRecorder *self)
{
  gboolean has_reader = FALSE;

  for (guint i = 0; i < self->sinks->len; i++)
    {
      const SondeSink *sink = g_ptr_array_index (self->sinks, i);

      if (sonde_sink_has_room (sink))
        return TRUE;
      has_reader = has_reader || sink->phase != SONDE_SINK_PHASE_CLOSED;
    }
  return !has_reader;
}

void
sonde_recorder_document (SondeRecorder *self, const char *path, int fd, gsize max_bytes)
{
  GByteArray *bytes = g_byte_array_new ();
  g_autoptr (GBytes) content = NULL;
  guint8 piece[16384];
  gssize size_bytes;
  gboolean is_cut;

  while (
      bytes->len <= max_bytes
      && ((size_bytes = read (fd, piece, sizeof piece)) > 0 || (size_bytes < 0 && errno == EINTR)))
    if (size_bytes > 0)
      g_byte_array_append (bytes, piece, (guint) size_bytes);
  is_cut = bytes->len > max_bytes;
  if (is_cut)
    g_byte_array_set_size (bytes, (guint) max_bytes);

  content = g_byte_array_free_to_bytes (bytes);
  sonde_stream_state_add_document (self->source.state, path, content);
  if (self->sinks->len > 0 || self->window != NULL)
    sonde_stream_state_write_document (self->source.state, path, content, self->source.writer);
  if (is_cut)
    {
      g_autofree char *text = g_strdup_printf (
          "Of %s the capture has the first %" G_GSIZE_FORMAT " KiB only", path, max_bytes / 1024);

      sonde_recorder_warn (self, text);
    }
}

gboolean
sonde_recorder_define_counters (
    SondeRecorder *self, gint32 pid, SondeCounter *counters, guint n_counters, gint64 time_ns)
{
  return sonde_stream_state_add_counters (self->source.state, pid, counters, n_counters, time_ns,
                                          self->source.writer);
}

void
sonde_recorder_set_counters (SondeRecorder *self,
                             gint32 pid,
                             const guint32 *ids,
                             const SondeCounterValue *values,
                             guint n_counters,
                             gint64 time_ns)
{
  SondeFrameOrigin origin = { time_ns, -1, pid };

  if (n_counters > 0)
    sonde_tally_event (
        self->source.tally, SONDE_LEDGER_EVENTS_RECORDED,
        sonde_span_writer_add_counter_set (self->source.writer, &origin, ids, values, n_counters));
}

void
sonde_recorder_sample (SondeRecorder *self, const SondeStack *stack)
{
  SondeFrameOrigin origin = { stack->time_ns, stack->cpu, stack->pid };
  int r = sonde_span_writer_add_sample (self->source.writer, &origin, stack->tid, stack->addrs,
                                        stack->n_addrs);

  sonde_tally_add (self->source.tally, r == 0 ? SONDE_LEDGER_RECORDED : SONDE_LEDGER_LOST_QUEUE, 1);
}

void
sonde_recorder_warn (SondeRecorder *self, const char *text)
{
  sonde_span_writer_add_log (self->source.writer, G_LOG_LEVEL_WARNING, text);
}

void
sonde_recorder_tell (SondeRecorder *self, const char *text)
{
  sonde_span_writer_add_log (self->source.writer, G_LOG_LEVEL_INFO, text);
}

/* --- turns --- */

void
sonde_recorder_flush (SondeRecorder *self)
{
  sonde_span_writer_publish (self->source.writer);
  if (self->window != NULL)
    sonde_window_turn (self->window, sonde_stream_now_ns ());
  for (guint i = 0; i < self->sinks->len; i++)
    sonde_sink_pump (g_ptr_array_index (self->sinks, i));
}

static void
warn_of_losses (SondeRecorder *self)
{
  gint64 now = sonde_stream_now_ns ();
  g_autofree char *text
      = sonde_tally_describe_losses (self->source.tally, &self->told, self->told_ns, now);

  if (text != NULL)
    sonde_recorder_warn (self, text);
  self->told = *self->source.tally;
  self->told_ns = now;
}

void
sonde_recorder_report (SondeRecorder *self)
{
  warn_of_losses (self);
  sonde_span_writer_publish (self->source.writer);
  for (guint i = 0; i < self->sinks->len; i++)
    {
      SondeSink *sink = g_ptr_array_index (self->sinks, i);

      sonde_sink_push_counters (sink);
      sonde_sink_pump (sink);
    }
}

void
sonde_recorder_finish (SondeRecorder *self, GBytes *symbols)
{
  if (self->finished)
    return;

  warn_of_losses (self);
  sonde_span_writer_publish (self->source.writer);
  self->finished = TRUE;
  for (guint i = 0; i < self->sinks->len; i++)
    {
      SondeSink *sink = g_ptr_array_index (self->sinks, i);

      if (sink->phase == SONDE_SINK_PHASE_WAITING)
        sonde_sink_give (sink, self->window != NULL
                                   ? sonde_window_freeze (self->window, sonde_stream_now_ns ())
                                   : NULL);
      sonde_sink_finish (sink, symbols);
    }
}

void
sonde_recorder_sum (const SondeRecorder *self, guint64 values[SONDE_N_STATISTICS])
{
  for (guint i = SONDE_LEDGER_STREAM_RECORDED; i < SONDE_N_LEDGER; i++)
    values[i] = self->past[i];
  values[SONDE_STATISTIC_BYTES] = self->past[SONDE_STATISTIC_BYTES];
  if (self->window != NULL)
    {
      gint64 length_ns = sonde_stream_now_ns () - sonde_window_begin_ns (self->window);

      values[SONDE_STATISTIC_RECORDER_US] = (guint64) length_ns / 1000;
      values[SONDE_STATISTIC_RECORDER_BYTES] = sonde_window_bytes (self->window);
      values[SONDE_STATISTIC_RECORDER_GONE] = sonde_window_n_gone (self->window);
    }
  for (guint i = 0; i < self->sinks->len; i++)
    add_up (values, g_ptr_array_index (self->sinks, i));
}

guint64
sonde_recorder_n_chunks (const SondeRecorder *self)
{
  return sonde_chunk_pool_n_allocated (self->source.pool);
}
