/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "protocol/ledger.h"

#define SENDS_A_TURN       16 /* of up to 512 KiB, or a file's 64 KiB; then others get their turn */
#define STATE_CHUNKS       64 /* one piece of state is a few chunks at most */
#define BYTES_A_DISK_CHECK (4u << 20)
/* Where nothing can be kept back on the disk, the last frames take the place of frames that were
 * written already. */
#define RETREAT_BYTES 1024

/* --- a file --- */

struct SondeFileOutput
{
  int fd;
  guint64 max_bytes;
  guint64 end;      /* bytes of whole frames in the file */
  guint64 check_at; /* bytes at which to look at the disk again */
  gboolean uses_reserve;
};

SondeFileOutput *
sonde_file_output_new (int fd, guint64 max_bytes)
{
  sonde_autofd int owned = fd;
  SondeFileOutput *self;
  struct stat st;

  if (fstat (fd, &st) < 0 || !S_ISREG (st.st_mode) || st.st_size != 0)
    return NULL;

  self = g_new0 (SondeFileOutput, 1);
  self->fd = sonde_steal_fd (&owned);
  self->max_bytes = max_bytes;

  return self;
}

void
sonde_file_output_free (SondeFileOutput *self)
{
  if (self == NULL)
    return;

  /* A failure leaves a frame cut at the end, which every reader has to expect. */
  if (ftruncate (self->fd, (off_t) self->end) < 0)
    g_debug ("Cannot cut a capture file: %s", g_strerror (errno));
  sonde_clear_fd (&self->fd);
  g_free (self);
}

void
sonde_file_output_use_reserve (SondeFileOutput *self)
{
  self->uses_reserve = TRUE;
}

/* Has the disk keep room for @size_bytes more, and for the last frames behind them: what was
 * written before may end where its block does. Returns: 0 or a negative errno; then the room is
 * there that was kept before. Source: fallocate(2) */
static int
keep_room (const SondeFileOutput *self, gsize size_bytes)
{
  int result;

  if (self->uses_reserve)
    return 0;
  do
    result = fallocate (self->fd, FALLOC_FL_KEEP_SIZE, (off_t) self->end,
                        (off_t) (size_bytes + SONDE_FILE_OUTPUT_RESERVE));
  while (result < 0 && errno == EINTR);
  /* Not every file system can; another reason is for write() to tell, and tmpfs goes by the largest
   * size of a file here as well. */
  return result < 0 && (errno == ENOSPC || errno == EDQUOT) ? -errno : 0;
}

/* The front part of @span, of whole frames, that @size_bytes hold. */
static SondeSpan
whole_part (const SondeFileOutput *self, const SondeSpan *span, guint64 size_bytes)
{
  SondeSpan part = { .chunk = span->chunk, .start = span->start, .end = span->start };

  while (part.end < span->end)
    {
      const SondeFrame *frame = (const void *) (span->chunk->bytes + part.end);
      gboolean is_header = self->end == 0 && part.end == part.start;
      uint32_t length = is_header ? sizeof (SondeFileHeader) : frame->len;

      if (part.end - part.start + length > size_bytes)
        break;
      part.end += length;
      part.n_frames += !is_header;
      part.n_samples += !is_header && frame->type == SONDE_FRAME_SAMPLE;
      part.n_events += is_header ? 0 : sonde_ledger_n_events (frame);
    }

  return part;
}

gssize
sonde_file_output_write (SondeFileOutput *self, SondeSpanQueue *queue)
{
  const SondeSpan *span = queue->n_chunks > 0 ? sonde_span_queue_at (queue, 0) : NULL;
  guint64 kept = self->end + (self->uses_reserve ? 0 : SONDE_FILE_OUTPUT_RESERVE);
  int error = 0;
  struct statvfs disk;
  SondeSpan part;
  gsize written = 0;
  gsize size_bytes;

  if (span == NULL)
    return 0;
  if (!self->uses_reserve && self->end >= self->check_at)
    {
      self->check_at = self->end + BYTES_A_DISK_CHECK;
      if (fstatvfs (self->fd, &disk) == 0
          && disk.f_bavail < disk.f_blocks / 100 * SONDE_LIMIT_CAPTURE_FREE_PERCENT)
        return -ENOSPC;
    }
  part = whole_part (self, span, self->max_bytes > kept ? self->max_bytes - kept : 0);
  if (part.end == part.start)
    return -EFBIG;

  size_bytes = part.end - part.start;
  error = keep_room (self, size_bytes);
  if (error < 0)
    return error;
  while (written < size_bytes && error == 0)
    {
      gssize n = pwrite (self->fd, span->chunk->bytes + part.start + written, size_bytes - written,
                         (off_t) (self->end + written));

      if (n > 0)
        written += (gsize) n;
      else if (n == 0 || errno != EINTR)
        error = n < 0 ? errno : ENOSPC;
    }
  if (written < size_bytes && !self->uses_reserve)
    part = whole_part (self, span, written > RETREAT_BYTES ? written - RETREAT_BYTES : 0);
  else if (written < size_bytes)
    part = whole_part (self, span, written);
  size_bytes = part.end - part.start;
  sonde_span_queue_remove (queue, (uint32_t) size_bytes, part.n_frames, part.n_samples,
                           part.n_events);
  self->end += size_bytes;

  return error != 0 ? -error : (gssize) size_bytes;
}

/* --- a sink --- */

static SondeFrameOrigin
origin_now (void)
{
  return (SondeFrameOrigin){ sonde_stream_now_ns (), -1, -1 };
}

void
sonde_backlog_free (SondeBacklog *self)
{
  if (self == NULL)
    return;
  sonde_state_base_unref (self->base);
  g_free (self->metadata);
  g_free (self->warning);
  g_ptr_array_unref (self->spans);
  g_free (self);
}

/* Takes note of what the next part of the backlog has. */
static void
count_backlog (SondeSink *self, const SondePackedSpan *span, gboolean is_lost)
{
  guint64 *counters = self->counters;

  counters[SONDE_LEDGER_STREAM_RECORDED] += span->n_frames;
  counters[is_lost ? SONDE_LEDGER_STREAM_LOST : SONDE_LEDGER_STREAM_DELIVERED] += span->n_frames;
  counters[is_lost ? SONDE_LEDGER_STREAM_SAMPLES_LOST : SONDE_LEDGER_STREAM_SAMPLES]
      += span->n_samples;
  counters[is_lost ? SONDE_LEDGER_STREAM_EVENTS_LOST : SONDE_LEDGER_STREAM_EVENTS]
      += span->n_events;
}

/* Of what is left nothing will be delivered. */
static void
forfeit_backlog (SondeSink *self)
{
  for (SondeBacklog *backlog = self->backlog;
       backlog != NULL && backlog->next < backlog->spans->len; backlog->next++)
    count_backlog (self, g_ptr_array_index (backlog->spans, backlog->next), TRUE);
  g_clear_pointer (&self->backlog, sonde_backlog_free);
}

/* What still waits will not be delivered. */
static void
forfeit_queue (SondeSink *self, SondeSpanQueue **queue)
{
  guint64 n_frames, n_samples, n_events;

  sonde_span_queue_count (*queue, &n_frames, &n_samples, &n_events);
  self->counters[SONDE_LEDGER_STREAM_DELIVERED] -= n_frames;
  self->counters[SONDE_LEDGER_STREAM_LOST] += n_frames;
  self->counters[SONDE_LEDGER_STREAM_SAMPLES] -= n_samples;
  self->counters[SONDE_LEDGER_STREAM_SAMPLES_LOST] += n_samples;
  self->counters[SONDE_LEDGER_STREAM_EVENTS] -= n_events;
  self->counters[SONDE_LEDGER_STREAM_EVENTS_LOST] += n_events;
  g_clear_pointer (queue, sonde_span_queue_free);
}

/* Gives up what the sink holds: it is closed, or about to be freed. */
static void
release (SondeSink *self)
{
  g_clear_handle_id (&self->hup_source, g_source_remove);
  g_clear_handle_id (&self->out_source, g_source_remove);
  g_clear_pointer (&self->cursor, sonde_state_cursor_free);
  sonde_clear_fd (&self->fd);
  g_clear_pointer (&self->file, sonde_file_output_free);
  g_clear_pointer (&self->passed, sonde_span_writer_free);
  g_clear_pointer (&self->live, sonde_span_queue_free);
  g_clear_pointer (&self->own, sonde_span_queue_free);
  g_clear_pointer (&self->writer, sonde_span_writer_free);
  g_clear_pointer (&self->symbols, g_bytes_unref);
  g_clear_pointer (&self->backlog, sonde_backlog_free);
}

static void
close_sink (SondeSink *self, int reason)
{
  if (self->phase == SONDE_SINK_PHASE_CLOSED)
    return;

  forfeit_queue (self, &self->live);
  forfeit_queue (self, &self->own);
  forfeit_backlog (self);
  self->phase = SONDE_SINK_PHASE_CLOSED;
  if (self->fd >= 0)
    shutdown (self->fd, SHUT_WR);
  release (self);
  self->source->closed (self, reason, self->source->user_data);
}

/* Frames made for this stream alone. */
static void
own_span (const SondeSpan *span, gpointer user_data)
{
  SondeSink *self = user_data;
  gboolean queued = sonde_span_queue_push (self->target, span);

  self->counters[SONDE_LEDGER_STREAM_RESENT] += span->n_frames;
  self->counters[queued ? SONDE_LEDGER_STREAM_DELIVERED : SONDE_LEDGER_STREAM_LOST]
      += span->n_frames;
}

static gboolean
on_hup (gint fd, GIOCondition condition, gpointer user_data)
{
  SondeSink *self = user_data;

  self->hup_source = 0;
  close_sink (self, EPIPE);

  return G_SOURCE_REMOVE;
}

static gboolean
on_idle (gpointer user_data)
{
  SondeSink *self = user_data;

  /* Adds the source again while something waits. */
  self->out_source = 0;
  sonde_sink_pump (self);

  return G_SOURCE_REMOVE;
}

static gboolean
on_writable (gint fd, GIOCondition condition, gpointer user_data)
{
  return on_idle (user_data);
}

void
sonde_sink_close_if_stuck (SondeSink *self, gint64 now_us)
{
  gint64 since_us = MAX (self->last_taken_us, self->source->awaited_us);
  gboolean is_full;

  if (self->phase == SONDE_SINK_PHASE_CLOSED || self->file != NULL)
    return;

  /* Behind a state that is not taken, the queue only fills when something happens; and what the
   * session's end waits for is put into none that is half full. */
  is_full = self->phase == SONDE_SINK_PHASE_STATE || self->missed_frames > 0 || self->finishing
            || self->live->n_chunks == self->live->max_chunks
            || (self->source->awaited_us != 0 && !sonde_sink_has_room (self));
  if (is_full && now_us - since_us > SONDE_SINK_STUCK_US)
    close_sink (self, ETIMEDOUT);
}

static int
compare_pids (const void *a, const void *b)
{
  gint32 x = *(const gint32 *) a;
  gint32 y = *(const gint32 *) b;

  return (x > y) - (x < y);
}

static void queue_span (const SondeSpan *span, gpointer user_data);

SondeSink *
sonde_sink_new (int fd, const SondeMessageSink *options, const SondeSinkSource *source)
{
  gsize max_chunks = CLAMP (options->buffer_size_bytes / SONDE_CHUNK_SIZE, 2, 1024);
  gboolean is_file = options->kind == SONDE_SINK_FILE;
  SondeFileOutput *file = is_file ? sonde_file_output_new (fd, options->max_bytes) : NULL;
  SondeSink *self;

  if (is_file && file == NULL)
    return NULL;

  self = g_new0 (SondeSink, 1);
  self->fd = is_file ? -1 : fd;
  self->file = file;
  self->id = options->sink_id;
  self->source = source;
  self->frames = options->frames;
  self->n_pids = options->n_pids;
  memcpy (self->pids, options->pids, sizeof self->pids);
  qsort (self->pids, self->n_pids, sizeof self->pids[0], compare_pids);
  if (self->frames != SONDE_SINK_FRAMES_ALL || self->n_pids > 0)
    self->passed = sonde_span_writer_new (source->pool, queue_span, self);
  self->live = sonde_span_queue_new ((guint) max_chunks);
  self->own = sonde_span_queue_new (STATE_CHUNKS);
  self->target = self->own;
  self->writer = sonde_span_writer_new (source->pool, own_span, self);
  self->phase = options->is_last ? SONDE_SINK_PHASE_WAITING : SONDE_SINK_PHASE_STATE;
  self->counters[SONDE_LEDGER_STREAM_SAMPLES_BEFORE] = source->tally->values[SONDE_LEDGER_RECORDED];
  self->counters[SONDE_LEDGER_STREAM_EVENTS_BEFORE]
      = source->tally->values[SONDE_LEDGER_EVENTS_RECORDED];
  self->last_taken_us = g_get_monotonic_time ();
  if (!is_file)
    self->hup_source = g_unix_fd_add (fd, G_IO_HUP | G_IO_ERR, on_hup, self);

  return self;
}

void
sonde_sink_free (SondeSink *self)
{
  if (self == NULL)
    return;

  release (self);
  g_free (self);
}

static void
write_warning (SondeSink *self, SondeSpanQueue *target, const char *text)
{
  self->target = target;
  sonde_span_writer_add_log (self->writer, G_LOG_LEVEL_WARNING, text);
  sonde_span_writer_publish (self->writer);
}

/* Says what the reader did not get, once. */
static void
write_notice (SondeSink *self, SondeSpanQueue *target)
{
  g_autofree char *text = NULL;

  if (self->missed_frames == 0)
    return;

  text = g_strdup_printf (
      "This reader was too slow: %" G_GUINT64_FORMAT " frames, %" G_GUINT64_FORMAT
      " of them samples, were dropped between %.3f s and %.3f s",
      self->missed_frames, self->missed_samples, (double) self->missed_since_us / G_USEC_PER_SEC,
      (double) g_get_monotonic_time () / G_USEC_PER_SEC);
  write_warning (self, target, text);
  self->missed_frames = self->missed_samples = 0;
}

static void
write_counters (SondeSink *self, SondeSpanQueue *target)
{
  SondeFrameOrigin origin = origin_now ();
  guint64 values[SONDE_N_LEDGER];

  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    values[i] = self->source->tally->values[i];
  for (guint i = SONDE_LEDGER_STREAM_RECORDED; i < SONDE_N_LEDGER; i++)
    values[i] = self->counters[i];
  /* The frame of counters counts itself. */
  values[SONDE_LEDGER_STREAM_RESENT]++;
  values[SONDE_LEDGER_STREAM_DELIVERED]++;

  self->target = target;
  sonde_tally_write_values (sonde_span_writer_plain (self->writer), &origin, values);
  sonde_span_writer_publish (self->writer);
}

/* What is for this stream. */
static void
queue_span (const SondeSpan *span, gpointer user_data)
{
  SondeSink *self = user_data;
  gboolean is_lost = self->lost_state || self->phase == SONDE_SINK_PHASE_CUT;

  if (self->phase == SONDE_SINK_PHASE_LIVE && !is_lost
      && self->live->n_chunks + 1 < self->live->max_chunks)
    write_notice (self, self->live);

  if (is_lost || !sonde_span_queue_push (self->live, span))
    {
      self->counters[SONDE_LEDGER_STREAM_LOST] += span->n_frames;
      self->counters[SONDE_LEDGER_STREAM_SAMPLES_LOST] += span->n_samples;
      self->counters[SONDE_LEDGER_STREAM_EVENTS_LOST] += span->n_events;
      if (self->missed_frames == 0)
        self->missed_since_us = g_get_monotonic_time ();
      self->missed_frames += span->n_frames;
      self->missed_samples += span->n_samples;
      self->lost_state = self->lost_state || span->has_state;
      return;
    }
  self->counters[SONDE_LEDGER_STREAM_DELIVERED] += span->n_frames;
  self->counters[SONDE_LEDGER_STREAM_SAMPLES] += span->n_samples;
  self->counters[SONDE_LEDGER_STREAM_EVENTS] += span->n_events;
}

/* The bit of its kind among SONDE_SINK_FRAMES_*; 0: state. */
static guint32
kind_of (const SondeFrame *frame)
{
  switch (frame->type)
    {
    case SONDE_FRAME_SAMPLE:
      return SONDE_SINK_FRAMES_SAMPLES;
    case SONDE_FRAME_ALLOCATION:
      return SONDE_SINK_FRAMES_ALLOCATIONS;
    case SONDE_FRAME_MARK:
      return SONDE_SINK_FRAMES_MARKS;
    case SONDE_FRAME_CTRSET:
      return SONDE_SINK_FRAMES_COUNTERS;
    case SONDE_FRAME_LOG:
      return SONDE_SINK_FRAMES_LOGS;
    case SONDE_FRAME_FILE_CHUNK:
      return sonde_heap_log_is_chunk (frame) || sonde_heap_sums_is_chunk (frame)
                 ? SONDE_SINK_FRAMES_ALLOCATIONS
                 : 0;
    default:
      return 0;
    }
}

static gboolean
passes (const SondeSink *self, const SondeFrame *frame)
{
  guint32 kind = kind_of (frame);
  gint32 pid = frame->pid;

  if (kind == 0)
    return TRUE;
  if ((self->frames & kind) == 0)
    return FALSE;

  return self->n_pids == 0 || pid == -1
         || bsearch (&pid, self->pids, self->n_pids, sizeof pid, compare_pids) != NULL;
}

static const SondeFrame *
frame_at (const SondeSpan *span, uint32_t offset)
{
  return (const void *) (span->chunk->bytes + offset);
}

void
sonde_sink_give (SondeSink *self, SondeBacklog *backlog)
{
  if (self->phase == SONDE_SINK_PHASE_CLOSED)
    {
      sonde_backlog_free (backlog);
      return;
    }
  self->phase = SONDE_SINK_PHASE_STATE;
  self->backlog = backlog;
  self->last_taken_us = g_get_monotonic_time ();
  if (backlog == NULL)
    return;
  self->had_state = TRUE;
  self->counters[SONDE_LEDGER_STREAM_SAMPLES_BEFORE] = backlog->n_samples_before;
  self->counters[SONDE_LEDGER_STREAM_EVENTS_BEFORE] = backlog->n_events_before;
}

void
sonde_sink_push (SondeSink *self, const SondeSpan *span)
{
  guint32 n_left_out = 0;

  if (self->phase == SONDE_SINK_PHASE_CLOSED || self->phase == SONDE_SINK_PHASE_WAITING
      || self->finishing)
    return;

  self->counters[SONDE_LEDGER_STREAM_RECORDED] += span->n_frames;
  for (uint32_t at = span->start; self->passed != NULL && at < span->end;
       at += frame_at (span, at)->len)
    if (!passes (self, frame_at (span, at)))
      {
        n_left_out++;
        self->counters[SONDE_LEDGER_STREAM_SAMPLES_FILTERED]
            += frame_at (span, at)->type == SONDE_FRAME_SAMPLE;
        self->counters[SONDE_LEDGER_STREAM_EVENTS_FILTERED]
            += sonde_ledger_n_events (frame_at (span, at));
      }
  self->counters[SONDE_LEDGER_STREAM_FILTERED] += n_left_out;

  if (n_left_out == 0)
    {
      queue_span (span, self);
      return;
    }
  if (n_left_out == span->n_frames)
    return;
  for (uint32_t at = span->start; at < span->end; at += frame_at (span, at)->len)
    {
      const SondeFrame *frame = frame_at (span, at);

      /* Nothing that follows needs an EXIT. */
      if (passes (self, frame))
        sonde_span_writer_add_frame (self->passed, frame,
                                     kind_of (frame) == 0 && frame->type != SONDE_FRAME_EXIT);
    }
  sonde_span_writer_publish (self->passed);
}

void
sonde_sink_push_counters (SondeSink *self)
{
  if (self->phase == SONDE_SINK_PHASE_LIVE && !self->finishing
      && self->live->n_chunks < self->live->max_chunks - self->live->n_chunks)
    write_counters (self, self->live);
}

void
sonde_sink_finish (SondeSink *self, GBytes *symbols)
{
  if (self->phase == SONDE_SINK_PHASE_CLOSED || self->finishing)
    return;

  self->finishing = TRUE;
  self->symbols = symbols != NULL ? g_bytes_ref (symbols) : NULL;
  self->last_taken_us = g_get_monotonic_time ();
  sonde_sink_pump (self);
}

/* The next part of the backlog waits to be sent, if there is one. */
static void
send_backlog (SondeSink *self)
{
  SondeBacklog *backlog = self->backlog;
  const SondePackedSpan *packed;
  SondeSpan span;

  if (backlog->next == backlog->spans->len)
    {
      g_clear_pointer (&self->backlog, sonde_backlog_free);
      self->phase = SONDE_SINK_PHASE_LIVE;
      return;
    }
  packed = g_ptr_array_index (backlog->spans, backlog->next++);
  span = sonde_packed_span_open (packed, self->source->pool);
  sonde_span_queue_push (self->own, &span); /* it is empty */
  sonde_chunk_unref (span.chunk);
  count_backlog (self, packed, FALSE);
}

/* Nothing waits: makes the next thing to send. Returns whether there is one. */
static gboolean
refill (SondeSink *self)
{
  SondeFrameOrigin origin;
  const guint8 *symbols;
  gsize size_bytes = 0;
  gboolean has_more;
  gsize piece;

  switch (self->phase)
    {
    case SONDE_SINK_PHASE_STATE:
      if (self->cursor == NULL && self->backlog != NULL)
        self->cursor = sonde_state_cursor_over (self->backlog->base, self->backlog->metadata);
      else if (self->cursor == NULL)
        {
          /* What was recorded before is told by the state, and would contradict it. */
          sonde_span_writer_publish (self->source->writer);
          self->cursor = sonde_state_cursor_new (self->source->state, !self->had_state);
          self->had_state = TRUE;
          self->lost_state = FALSE;
        }
      self->target = self->own;
      has_more = sonde_state_cursor_write (self->cursor, self->writer);
      sonde_span_writer_publish (self->writer);
      if (!has_more)
        {
          g_clear_pointer (&self->cursor, sonde_state_cursor_free);
          write_notice (self, self->own);
          if (self->backlog != NULL && self->backlog->warning != NULL)
            write_warning (self, self->own, self->backlog->warning);
          self->phase = self->backlog != NULL ? SONDE_SINK_PHASE_BACKLOG : SONDE_SINK_PHASE_LIVE;
        }
      return TRUE;
    case SONDE_SINK_PHASE_BACKLOG:
      send_backlog (self);
      return TRUE;
    case SONDE_SINK_PHASE_LIVE:
      if (self->finishing)
        self->phase = SONDE_SINK_PHASE_SYMBOLS;
      else if (self->lost_state)
        self->phase = SONDE_SINK_PHASE_STATE;
      return self->phase != SONDE_SINK_PHASE_LIVE;
    case SONDE_SINK_PHASE_SYMBOLS:
      write_notice (self, self->own);
      symbols = self->symbols != NULL ? g_bytes_get_data (self->symbols, &size_bytes) : NULL;
      if (size_bytes > 0)
        {
          origin = origin_now ();
          piece = MIN (size_bytes - self->symbols_sent, SONDE_WRITER_MAX_CHUNK);
          self->target = self->own;
          sonde_writer_add_file_chunk (sonde_span_writer_state (self->writer), &origin,
                                       "__symbols__", symbols + self->symbols_sent, piece,
                                       self->symbols_sent + piece == size_bytes);
          sonde_span_writer_publish (self->writer);
          self->symbols_sent += piece;
          if (self->symbols_sent == size_bytes)
            g_clear_pointer (&self->symbols, g_bytes_unref);
        }
      else
        {
          write_counters (self, self->own);
          self->phase = SONDE_SINK_PHASE_LAST;
        }
      return TRUE;
    case SONDE_SINK_PHASE_LAST:
      close_sink (self, 0);
      return FALSE;
    case SONDE_SINK_PHASE_WAITING:
    case SONDE_SINK_PHASE_CUT:
    case SONDE_SINK_PHASE_CLOSED:
    default:
      return FALSE;
    }
}

/* The file cannot take more. It ends here, and says so where there is room. */
static void
cut_file (SondeSink *self, int reason)
{
  g_autofree char *text = NULL;

  self->phase = SONDE_SINK_PHASE_CUT;
  sonde_span_writer_publish (self->source->writer);
  forfeit_queue (self, &self->live);
  forfeit_queue (self, &self->own);
  forfeit_backlog (self);
  self->live = sonde_span_queue_new (1);
  self->own = sonde_span_queue_new (STATE_CHUNKS);
  sonde_file_output_use_reserve (self->file);

  text = g_strdup_printf ("This file ends before the session does: %s", g_strerror (reason));
  write_warning (self, self->own, text);
  write_counters (self, self->own);
  while (sonde_file_output_write (self->file, self->own) > 0)
    ;
  close_sink (self, reason);
}

void
sonde_sink_pump (SondeSink *self)
{
  guint sends = 0;

  while (self->phase != SONDE_SINK_PHASE_CLOSED && sends < SENDS_A_TURN)
    {
      SondeSpanQueue *queue = self->own;
      gssize sent;

      if (queue->n_chunks == 0)
        {
          queue = self->live;
          if (self->phase == SONDE_SINK_PHASE_STATE || queue->n_chunks == 0)
            {
              if (!refill (self))
                return;
              continue;
            }
        }
      sent = self->file != NULL ? sonde_file_output_write (self->file, queue)
                                : sonde_span_queue_send (queue, self->fd);
      if (sent == -EAGAIN)
        break;
      if (sent < 0)
        {
          if (self->file != NULL)
            cut_file (self, (int) -sent);
          else
            close_sink (self, (int) -sent);
          return;
        }
      self->last_taken_us = g_get_monotonic_time ();
      self->n_bytes += (guint64) sent;
      sends++;
    }

  /* A file is always ready, but others get their turn. */
  if (self->phase != SONDE_SINK_PHASE_CLOSED && self->out_source == 0)
    self->out_source = self->file != NULL ? g_idle_add (on_idle, self)
                                          : g_unix_fd_add (self->fd, G_IO_OUT, on_writable, self);
}

gboolean
sonde_sink_has_room (const SondeSink *self)
{
  return self->phase != SONDE_SINK_PHASE_CLOSED && !self->lost_state
         && self->live->n_chunks < self->live->max_chunks - self->live->n_chunks;
}
