/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A frame writer over pooled chunks that hands on spans of them. */
#pragma once

#include "daemon/capture/stream/chunk.h"
#include "protocol/writer.h"

/* Now, by the clock of all frames: CLOCK_MONOTONIC. */
static inline gint64
sonde_stream_now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

/* @span is borrowed: take a reference to its chunk to keep it. */
typedef void (*SondeSpanHandler) (const SondeSpan *span, gpointer user_data);

typedef struct SondeSpanWriter SondeSpanWriter;

SondeSpanWriter *
sonde_span_writer_new (SondeChunkPool *pool, SondeSpanHandler handler, gpointer user_data);
/* What was not published is dropped. Accepts NULL. */
void sonde_span_writer_free (SondeSpanWriter *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSpanWriter, sonde_span_writer_free)

/* The writer for frames that others do not depend on: LOG, CTRSET, EXIT. */
SondeWriter *sonde_span_writer_plain (SondeSpanWriter *self);
/* The writer for frames that later ones need to decode. Call it again for each frame. */
SondeWriter *sonde_span_writer_state (SondeSpanWriter *self);

/* Adds a SAMPLE frame and counts it. */
int sonde_span_writer_add_sample (SondeSpanWriter *self,
                                  const SondeFrameOrigin *origin,
                                  int32_t tid,
                                  const uint64_t *addrs,
                                  size_t n_addrs);

/* Adds CTRSET frames. Returns how many of them are events. */
guint sonde_span_writer_add_counter_set (SondeSpanWriter *self,
                                         const SondeFrameOrigin *origin,
                                         const uint32_t *ids,
                                         const SondeCounterValue *values,
                                         size_t n_counters);

/* Adds a LOG frame of the session's own, of now. */
void sonde_span_writer_add_log (SondeSpanWriter *self, GLogLevelFlags severity, const char *text);

/* Copies a whole frame that is valid. @is_state: as for sonde_span_writer_state() */
int sonde_span_writer_add_frame (SondeSpanWriter *self, const SondeFrame *frame, gboolean is_state);

/* Hands on what was written since the last time, without ending the chunk. */
void sonde_span_writer_publish (SondeSpanWriter *self);
