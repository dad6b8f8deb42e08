/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/file-output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/limits.h"
#include "protocol/ledger.h"

#define BYTES_A_DISK_CHECK (4u << 20)
/* Where nothing can be kept back on the disk, the last frames take the place of frames that were
 * written already. */
#define RETREAT_BYTES 1024

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
      part.n_events += !is_header && sonde_ledger_is_event (frame);
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
