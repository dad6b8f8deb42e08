/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copies out of what all readers get what one of them asked for. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/stream/span-writer.h"

/**
 * SECTION: frame-filter
 *
 * State passes always: processes, mappings, forks, exits, names, counter definitions and embedded
 * files of all processes, as any frame may need them. Samples, allocations, marks, counters and
 * logs pass if their kind was asked for and they are of one of the processes, or of none (pid -1).
 * A span that passes whole is handed on as it is; of others what passes is copied into chunks of
 * the reader's own. Main thread only.
 */
typedef struct SondeFrameFilter SondeFrameFilter;

/* NULL if @options leave nothing out. */
SondeFrameFilter *sonde_frame_filter_new (const SondeMessageSink *options,
                                          SondeChunkPool *pool,
                                          SondeSpanHandler handler,
                                          gpointer user_data);
void sonde_frame_filter_free (SondeFrameFilter *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFrameFilter, sonde_frame_filter_free)

typedef struct
{
  guint32 n_frames;
  guint32 n_samples;
  guint32 n_events;
} SondeLeftOut;

/* Hands on what passes of @span, at once. */
SondeLeftOut sonde_frame_filter_push (SondeFrameFilter *self, const SondeSpan *span);
