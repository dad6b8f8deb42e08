/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/capture-sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "client/base/write-all.h"
#include "client/model/ledger.h"
#include "protocol/frame-check.h"
#include "protocol/writer.h"

#define END_BYTES        4096u        /* more than the last two frames take */
#define AHEAD_BYTES      (256u << 10) /* asked of the file system at a time */
#define READ_BYTES       (1u << 20)

#define N_OWN_FRAMES     2  /* that end a file which was cut */
#define SEVERITY_WARNING 16 /* G_LOG_LEVEL_WARNING, as LOG frames have it */

struct SondeCaptureSink
{
  int fd;
  gboolean is_file;    /* that can be cut */
  guint64 start;       /* offset of the capture in the file */
  guint64 room_end;    /* offset to which the file system has room for the file, of whole pages */
  gboolean keeps_room; /* the file system can */
  GByteArray *pending; /* come, not a whole frame yet */
  gboolean is_broken;  /* no capture: nothing is looked at any more */
  int error_number;    /* of the first write that failed */
  SondeCaptureCounts seen;
  SondeCaptureCounts kept;
  guint n_own_frames; /* of those that were kept */
  SondeLedgerCounters ledger;
  guint8 *last_set;     /* copy of the newest frame with the whole ledger */
  gboolean is_last;     /* no frame came after it */
  gint64 last_ns;       /* of the newest frame */
  gint64 first_lost_ns; /* of the first one that was not kept */
};

SondeCaptureSink *
sonde_capture_sink_new (int fd)
{
  SondeCaptureSink *self = g_new0 (SondeCaptureSink, 1);
  struct stat st;

  self->fd = fd;
  self->is_file
      = fstat (fd, &st) == 0 && S_ISREG (st.st_mode) && (fcntl (fd, F_GETFL) & O_APPEND) == 0;
  self->start = self->is_file ? (guint64) MAX (lseek (fd, 0, SEEK_CUR), 0) : 0;
  self->keeps_room = self->is_file;
  self->pending = g_byte_array_new ();
  sonde_ledger_counters_init (&self->ledger);
  return self;
}

void
sonde_capture_sink_free (SondeCaptureSink *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->pending);
  sonde_ledger_counters_clear (&self->ledger);
  g_free (self->last_set);
  g_free (self);
}

/* Counts the whole frames, of those that were found good, that lie within @size_bytes. */
static void
count (SondeCaptureCounts *counts, const guint8 *bytes, gsize size_bytes)
{
  gsize at = 0;

  if (counts->n_bytes == 0 && size_bytes >= sizeof (SondeFileHeader))
    at = sizeof (SondeFileHeader);
  while (counts->n_bytes + at > 0 && size_bytes - at >= sizeof (SondeFrame))
    {
      const SondeFrame *frame = (const void *) (bytes + at);

      if (frame->len > size_bytes - at)
        break;
      counts->n_frames++;
      counts->n_samples += frame->type == SONDE_FRAME_SAMPLE;
      counts->n_events += sonde_ledger_n_events (frame);
      at += frame->len;
    }
  counts->n_bytes += at;
}

/* Returns how much of what is pending are whole frames. */
static gsize
check (SondeCaptureSink *self, GError **error)
{
  const guint8 *bytes = self->pending->data;
  gsize size_bytes = self->pending->len;
  SondeFrameFault fault = SONDE_FRAME_OK;
  gsize at = 0;

  if (self->seen.n_bytes == 0)
    {
      if (size_bytes < sizeof (SondeFileHeader))
        return 0;
      if (sonde_file_header_check ((const void *) bytes) < 0)
        {
          self->is_broken = TRUE;
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                       "The service's stream is no capture");
          return 0;
        }
      at = sizeof (SondeFileHeader);
    }
  while (size_bytes - at >= sizeof (SondeFrame))
    {
      const SondeFrame *frame = (const void *) (bytes + at);

      fault = sonde_frame_check (frame, size_bytes - at);
      if (fault != SONDE_FRAME_OK)
        break;
      /* The ledger needs the counters and the time of the last frame. */
      self->is_last = FALSE;
      self->last_ns = frame->time_ns;
      if (frame->type == SONDE_FRAME_CTRDEF)
        sonde_ledger_counters_define (&self->ledger, (const SondeFrameCounterDefine *) frame);
      if (frame->type == SONDE_FRAME_CTRSET && frame->len <= END_BYTES / 2
          && sonde_ledger_counters_set (&self->ledger, (const SondeFrameCounterSet *) frame)
                 == SONDE_LEDGER_ALL)
        {
          g_free (self->last_set);
          self->last_set = g_memdup2 (frame, frame->len);
          self->is_last = TRUE;
        }
      at += frame->len;
    }
  if (fault != SONDE_FRAME_OK && fault != SONDE_FRAME_FAULT_LENGTH_PAST_END)
    {
      self->is_broken = TRUE;
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                   "The service's stream is broken at offset %" G_GUINT64_FORMAT ": %s",
                   self->seen.n_bytes + at, sonde_frame_fault_to_string (fault));
    }
  return at;
}

/* Has the file keep room for @size_bytes more, and for the end behind them. Returns how many of
 * them there is room for. */
static gsize
keep_room (SondeCaptureSink *self, gsize size_bytes)
{
  const guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  guint64 end = self->start + self->kept.n_bytes;
  guint64 wanted = end + size_bytes + END_BYTES;
  guint64 n_pages = (MAX (wanted, self->room_end) + AHEAD_BYTES - self->room_end + page - 1) / page;

  /* No page is asked for twice: a failure may take with it what there was. */
  while (self->keeps_room && wanted > self->room_end && n_pages > 0)
    if (fallocate (self->fd, FALLOC_FL_KEEP_SIZE, (off_t) self->room_end, (off_t) (n_pages * page))
        == 0)
      self->room_end += n_pages * page;
    else if (errno == ENOSPC || errno == EDQUOT)
      {
        self->error_number = errno;
        n_pages /= 2;
      }
    else
      self->keeps_room = FALSE; /* it cannot, or for a reason that writing tells */
  if (!self->keeps_room || wanted <= self->room_end)
    {
      self->error_number = 0;
      return size_bytes;
    }
  return self->room_end > end + END_BYTES ? self->room_end - end - END_BYTES : 0;
}

/* The first @size_bytes of what is pending are whole frames. */
static void
keep (SondeCaptureSink *self, gsize size_bytes)
{
  const guint8 *bytes = self->pending->data;
  guint64 end = self->start + self->kept.n_bytes;
  SondeCaptureCounts whole = self->kept;
  gsize n_written = 0;
  int error_number;

  if (self->is_file && self->kept.n_bytes == 0 && ftruncate (self->fd, (off_t) self->start) < 0)
    {
      self->error_number = errno;
      return;
    }
  count (&whole, bytes, keep_room (self, size_bytes));
  error_number = sonde_write_all (self->fd, bytes, whole.n_bytes - self->kept.n_bytes,
                                  self->is_file ? (off_t) end : -1, &n_written);
  if (error_number != 0)
    self->error_number = error_number;
  count (&self->kept, bytes, n_written);
}

gboolean
sonde_capture_sink_add (SondeCaptureSink *self,
                        const guint8 *bytes,
                        gsize size_bytes,
                        GError **error)
{
  gboolean could_write = self->error_number == 0;
  guint64 n_seen = self->seen.n_bytes;
  gsize whole_bytes;
  GError *failure = NULL;

  if (self->is_broken)
    return TRUE;
  g_byte_array_append (self->pending, bytes, (guint) size_bytes);
  whole_bytes = check (self, &failure);
  if (could_write && whole_bytes > 0)
    keep (self, whole_bytes);
  count (&self->seen, self->pending->data, whole_bytes);
  if (could_write && self->error_number != 0)
    {
      const guint8 *lost = self->pending->data + (self->kept.n_bytes - n_seen);

      if (self->kept.n_bytes > 0)
        self->first_lost_ns = ((const SondeFrame *) (const void *) lost)->time_ns;
      g_clear_error (&failure);
      g_set_error (&failure, G_FILE_ERROR, g_file_error_from_errno (self->error_number),
                   "Cannot write the capture: %s", g_strerror (self->error_number));
    }
  g_byte_array_remove_range (self->pending, 0, (guint) whole_bytes);
  if (failure != NULL)
    g_propagate_error (error, failure);
  return failure == NULL;
}

/* Goes back to the last whole frame within @max_bytes, which the file itself tells. */
static void
retreat (SondeCaptureSink *self, guint64 max_bytes)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", self->fd);
  g_autofree guint8 *bytes = g_malloc (READ_BYTES);
  sonde_autofd int fd = open (path, O_RDONLY | O_CLOEXEC);
  guint64 n_before;
  SondeFrame next;

  if (fd < 0)
    return;
  self->kept = (SondeCaptureCounts){ 0 };
  do
    {
      gsize size_bytes = MIN (READ_BYTES, max_bytes - self->kept.n_bytes);
      gssize n = pread (fd, bytes, size_bytes, (off_t) (self->start + self->kept.n_bytes));

      n_before = self->kept.n_bytes;
      count (&self->kept, bytes, (gsize) MAX (n, 0));
    }
  while (self->kept.n_bytes > n_before);
  if (pread (fd, &next, sizeof next, (off_t) (self->start + self->kept.n_bytes)) == sizeof next)
    self->first_lost_ns = next.time_ns;
}

static void
correct (SondeCaptureSink *self, SondeFrameCounterSet *frame, SondeLedger entry, guint64 value)
{
  sonde_ledger_counters_adjust (&self->ledger, frame, entry,
                                (gint64) (value - (guint64) self->ledger.values[entry]));
  self->ledger.values[entry] = (gint64) value;
}

/* Makes the newest counters the last ones of what was kept and the two frames of our own. Counters
 * that were not the stream's last ones know nothing of what came after them: then the session ends
 * where the stream did. */
static void
correct_ledger (SondeCaptureSink *self, SondeFrameCounterSet *set)
{
  SondeCaptureCounts lost = sonde_capture_sink_lost (self);

  sonde_ledger_counters_set (&self->ledger, set);
#define CORRECT(entry, value) correct (self, set, SONDE_LEDGER_##entry, value)
#define VALUE(entry)          ((guint64) self->ledger.values[SONDE_LEDGER_##entry])
  CORRECT (STREAM_RESENT, VALUE (STREAM_RESENT) + 1);
  CORRECT (STREAM_DELIVERED, self->kept.n_frames);
  CORRECT (STREAM_LOST, VALUE (STREAM_LOST) + lost.n_frames);
  CORRECT (STREAM_SAMPLES, self->kept.n_samples);
  CORRECT (STREAM_SAMPLES_LOST, VALUE (STREAM_SAMPLES_LOST) + lost.n_samples);
  CORRECT (STREAM_EVENTS, self->kept.n_events);
  CORRECT (STREAM_EVENTS_LOST, VALUE (STREAM_EVENTS_LOST) + lost.n_events);
  if (self->is_last)
    return;
  CORRECT (STREAM_RECORDED, VALUE (STREAM_DELIVERED) + VALUE (STREAM_LOST) + VALUE (STREAM_FILTERED)
                                - VALUE (STREAM_RESENT));
  CORRECT (RECORDED, VALUE (STREAM_SAMPLES) + VALUE (STREAM_SAMPLES_LOST)
                         + VALUE (STREAM_SAMPLES_FILTERED) + VALUE (STREAM_SAMPLES_BEFORE));
  CORRECT (PRODUCED,
           VALUE (RECORDED) + VALUE (LOST_KERNEL) + VALUE (LOST_RING) + VALUE (LOST_QUEUE));
  CORRECT (EVENTS_RECORDED, VALUE (STREAM_EVENTS) + VALUE (STREAM_EVENTS_LOST)
                                + VALUE (STREAM_EVENTS_FILTERED) + VALUE (STREAM_EVENTS_BEFORE));
  CORRECT (EVENTS_PRODUCED,
           VALUE (EVENTS_RECORDED) + VALUE (EVENTS_LOST_RING) + VALUE (EVENTS_REFUSED));
#undef VALUE
#undef CORRECT
}

static int
place_frame (void *user_data, size_t size_bytes, void **place)
{
  GByteArray *end = user_data;

  if (size_bytes > END_BYTES - end->len)
    return -ENOSPC;
  *place = end->data + end->len;
  end->len += (guint) size_bytes;
  return 0;
}

/* Writes the last two frames behind what was kept. */
static gboolean
write_end (SondeCaptureSink *self)
{
  SondeFrameOrigin origin = { self->last_ns, -1, -1 };
  SondeCaptureCounts kept = self->kept;
  SondeCaptureCounts lost = sonde_capture_sink_lost (self);
  g_autofree SondeFrameCounterSet *set
      = g_memdup2 (self->last_set, ((const SondeFrame *) (void *) self->last_set)->len);
  g_autoptr (GByteArray) end = g_byte_array_sized_new (END_BYTES);
  g_autofree char *text = g_strdup_printf (
      "This file ends before the session does: %s; %" G_GUINT64_FORMAT " frames, %" G_GUINT64_FORMAT
      " of them samples, from %.3f s to %.3f s, are not in it",
      g_strerror (self->error_number), lost.n_frames - self->is_last, lost.n_samples,
      (double) self->first_lost_ns / 1e9, (double) self->last_ns / 1e9);
  SondeWriter writer;

  sonde_writer_init_in_place (&writer, place_frame, end);
  self->kept.n_frames += N_OWN_FRAMES;
  self->n_own_frames = N_OWN_FRAMES;
  correct_ledger (self, set);
  if (sonde_writer_add_log (&writer, &origin, SEVERITY_WARNING, "sonde", text) == 0
      && sonde_writer_add_frame (&writer, &set->frame) == 0
      && sonde_write_all (self->fd, end->data, end->len, (off_t) (self->start + kept.n_bytes), NULL)
             == 0)
    {
      self->kept.n_bytes += end->len;
      return TRUE;
    }
  self->kept = kept;
  self->n_own_frames = 0;
  return FALSE;
}

static gboolean
is_worth_keeping (const SondeCaptureSink *self)
{
  return self->kept.n_samples + self->kept.n_events > 0;
}

void
sonde_capture_sink_finish (SondeCaptureSink *self)
{
  SondeCaptureCounts whole = self->kept;

  if (!self->is_file)
    return;
  if (self->error_number != 0 && self->last_set != NULL && is_worth_keeping (self)
      && !write_end (self))
    {
      retreat (self, whole.n_bytes - MIN (whole.n_bytes, END_BYTES));
      if (is_worth_keeping (self) && !write_end (self))
        retreat (self, whole.n_bytes);
    }
  if (self->error_number != 0 && !is_worth_keeping (self))
    self->kept = (SondeCaptureCounts){ 0 };
  if (ftruncate (self->fd, (off_t) (self->start + self->kept.n_bytes)) < 0)
    g_debug ("Cannot cut the capture: %s", g_strerror (errno));
  lseek (self->fd, (off_t) (self->start + self->kept.n_bytes), SEEK_SET);
}

const SondeCaptureCounts *
sonde_capture_sink_kept (const SondeCaptureSink *self)
{
  return &self->kept;
}

SondeCaptureCounts
sonde_capture_sink_lost (const SondeCaptureSink *self)
{
  /* the session's own last counters are replaced by ours */
  gboolean is_replaced = self->is_last && self->n_own_frames > 0;

  return (SondeCaptureCounts){
    .n_bytes = self->seen.n_bytes - MIN (self->seen.n_bytes, self->kept.n_bytes),
    .n_frames = self->seen.n_frames - (self->kept.n_frames - self->n_own_frames) - is_replaced,
    .n_samples = self->seen.n_samples - self->kept.n_samples,
    .n_events = self->seen.n_events - self->kept.n_events,
  };
}
