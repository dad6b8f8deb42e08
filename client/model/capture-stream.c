/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/capture-stream.h"

#include <errno.h>
#include <string.h>

#include "protocol/reader.h"

struct SondeCaptureStream
{
  SondeCaptureStreamFunc func;
  gpointer user_data;
  GByteArray *pending; /* come, not yet read */
  SondeReader *reader; /* NULL before the header is there */
  gboolean is_over;    /* no more comes */
};

SondeCaptureStream *
sonde_capture_stream_new (SondeCaptureStreamFunc func, gpointer user_data)
{
  SondeCaptureStream *self = g_new0 (SondeCaptureStream, 1);

  self->func = func;
  self->user_data = user_data;
  self->pending = g_byte_array_new ();
  return self;
}

void
sonde_capture_stream_free (SondeCaptureStream *self)
{
  if (self == NULL)
    return;
  sonde_reader_free (self->reader);
  g_byte_array_unref (self->pending);
  g_free (self);
}

/* What came so far; then the reader shall try again later. */
static int64_t
read_pending (void *user_data, void *buffer, size_t size_bytes)
{
  SondeCaptureStream *self = user_data;
  gsize size = MIN (size_bytes, self->pending->len);

  if (size == 0)
    return self->is_over ? 0 : -EAGAIN;
  memcpy (buffer, self->pending->data, size);
  g_byte_array_remove_range (self->pending, 0, (guint) size);
  return (int64_t) size;
}

static gboolean
open_reader (SondeCaptureStream *self, GError **error)
{
  int result = sonde_reader_new (read_pending, self, &self->reader);

  if (result == 0)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "The service's stream is %s",
               sonde_reader_strerror (result));
  return FALSE;
}

/* Always returns FALSE. */
static gboolean
set_broken (const SondeCaptureStream *self, GError **error)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "The service's stream is broken: %s",
               sonde_frame_fault_to_string (sonde_reader_fault (self->reader)));
  return FALSE;
}

gboolean
sonde_capture_stream_add (SondeCaptureStream *self,
                          const guint8 *bytes,
                          gsize size_bytes,
                          GError **error)
{
  const SondeFrame *frame;
  int result;

  g_byte_array_append (self->pending, bytes, (guint) size_bytes);
  if (self->reader == NULL && self->pending->len < sizeof (SondeFileHeader))
    return TRUE;
  if (self->reader == NULL && !open_reader (self, error))
    return FALSE;

  while ((result = sonde_reader_next (self->reader, &frame)) == 1)
    self->func (frame, self->user_data);
  return result == -EAGAIN || set_broken (self, error);
}

gboolean
sonde_capture_stream_has_begun (const SondeCaptureStream *self)
{
  return self->reader != NULL || self->pending->len > 0;
}

gboolean
sonde_capture_stream_end (SondeCaptureStream *self, GError **error)
{
  const SondeFrame *frame;

  self->is_over = TRUE;
  if (self->reader == NULL && self->pending->len > 0)
    return open_reader (self, error);
  return self->reader == NULL || sonde_reader_next (self->reader, &frame) == 0
         || set_broken (self, error);
}
