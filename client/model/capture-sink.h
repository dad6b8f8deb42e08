/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps the stream of a capture: whole frames, and an account of those that it lacks. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: capture-sink
 *
 * A regular file can be read at any moment: it grows by whole frames. When it cannot take more
 * (full disk, quota, limit, broken device) it is cut at a whole frame, and closed by a LOG frame
 * that says so and by the counters of the ledger, corrected to what the file holds. Room for these
 * is kept where the file system can keep it; elsewhere they take the place of the last frames. The
 * rest of the stream shall be given all the same: it is counted, and its last counters are what the
 * ledger is made of. A stream that ends otherwise, without its last counters, is no reason to make
 * some up: it was cut short, and sondectl verify says so.
 *
 * What is no regular file, or is open for appending, gets the stream as far as it takes it.
 */
typedef struct SondeCaptureSink SondeCaptureSink;

typedef struct
{
  guint64 n_bytes;
  guint64 n_frames;
  guint64 n_samples;
  guint64 n_events; /* as of sonde_ledger_n_events() */
} SondeCaptureCounts;

/**
 * sonde_capture_sink_new:
 * @fd: (transfer none): open for writing, in blocking mode; a regular file begins where it stands,
 *   and loses what it has from there on when the first frame comes
 */
SondeCaptureSink *sonde_capture_sink_new (int fd);
void sonde_capture_sink_free (SondeCaptureSink *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureSink, sonde_capture_sink_free)

/**
 * sonde_capture_sink_add:
 *
 * Takes the next piece of the stream.
 *
 * Returns: FALSE with @error, once: %G_FILE_ERROR if no more can be kept, then the rest shall be
 *   added all the same; %G_IO_ERROR_INVALID_DATA if what came is no capture
 */
gboolean sonde_capture_sink_add (SondeCaptureSink *self,
                                 const guint8 *bytes,
                                 gsize size_bytes,
                                 GError **error);

/**
 * sonde_capture_sink_finish:
 *
 * No more comes. If nothing of what was recorded could be kept, a file is left without a byte.
 */
void sonde_capture_sink_finish (SondeCaptureSink *self);

/* What was kept; after sonde_capture_sink_finish() exactly what a reader of the file finds. */
const SondeCaptureCounts *sonde_capture_sink_kept (const SondeCaptureSink *self);

/* What came, but could not be kept. */
SondeCaptureCounts sonde_capture_sink_lost (const SondeCaptureSink *self);
