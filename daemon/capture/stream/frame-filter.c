/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/frame-filter.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/ledger.h"

struct SondeFrameFilter
{
  guint32 frames; /* SONDE_SINK_FRAMES_* */
  guint n_pids;
  gint32 pids[SONDE_MESSAGE_SINK_MAX_PIDS]; /* sorted */
  SondeSpanWriter *writer;
  SondeSpanHandler handler;
  gpointer user_data;
};

static int
compare_pids (const void *a, const void *b)
{
  gint32 x = *(const gint32 *) a;
  gint32 y = *(const gint32 *) b;

  return (x > y) - (x < y);
}

SondeFrameFilter *
sonde_frame_filter_new (const SondeMessageSink *options,
                        SondeChunkPool *pool,
                        SondeSpanHandler handler,
                        gpointer user_data)
{
  SondeFrameFilter *self;

  if (options->frames == SONDE_SINK_FRAMES_ALL && options->n_pids == 0)
    return NULL;

  self = g_new0 (SondeFrameFilter, 1);
  self->frames = options->frames;
  self->n_pids = options->n_pids;
  memcpy (self->pids, options->pids, sizeof self->pids);
  qsort (self->pids, self->n_pids, sizeof self->pids[0], compare_pids);
  self->writer = sonde_span_writer_new (pool, handler, user_data);
  self->handler = handler;
  self->user_data = user_data;

  return self;
}

void
sonde_frame_filter_free (SondeFrameFilter *self)
{
  if (self == NULL)
    return;

  sonde_span_writer_free (self->writer);
  g_free (self);
}

/* 0: state */
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
    default:
      return 0;
    }
}

static gboolean
passes (const SondeFrameFilter *self, const SondeFrame *frame)
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

SondeLeftOut
sonde_frame_filter_push (SondeFrameFilter *self, const SondeSpan *span)
{
  SondeLeftOut left_out = { 0 };

  for (uint32_t at = span->start; at < span->end; at += frame_at (span, at)->len)
    if (!passes (self, frame_at (span, at)))
      {
        left_out.n_frames++;
        left_out.n_samples += frame_at (span, at)->type == SONDE_FRAME_SAMPLE;
        left_out.n_events += sonde_ledger_is_event (frame_at (span, at));
      }

  if (left_out.n_frames == 0)
    {
      self->handler (span, self->user_data);
      return left_out;
    }
  if (left_out.n_frames == span->n_frames)
    return left_out;

  for (uint32_t at = span->start; at < span->end; at += frame_at (span, at)->len)
    {
      const SondeFrame *frame = frame_at (span, at);

      /* Nothing that follows needs an EXIT. */
      if (passes (self, frame))
        sonde_span_writer_add_frame (self->writer, frame,
                                     kind_of (frame) == 0 && frame->type != SONDE_FRAME_EXIT);
    }
  sonde_span_writer_publish (self->writer);

  return left_out;
}
