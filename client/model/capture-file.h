/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture opened for reading: a file, or standard input. */
#pragma once

#include <gio/gio.h>

#include "client/base/progress.h"
#include "protocol/reader.h"

typedef struct SondeCaptureFile SondeCaptureFile;

/**
 * sonde_capture_file_open:
 * @path: "-" is standard input
 *
 * Returns: (transfer full): NULL with @error if it cannot be opened or is not a capture
 */
SondeCaptureFile *sonde_capture_file_open (const char *path, GError **error);
void sonde_capture_file_free (SondeCaptureFile *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureFile, sonde_capture_file_free)

/**
 * sonde_capture_file_show:
 * @progress: (nullable) (transfer none): outlives the reading
 *
 * Has @progress tell how far this file is read.
 */
void sonde_capture_file_show (SondeCaptureFile *self, SondeProgress *progress);

const SondeFileHeader *sonde_capture_file_header (const SondeCaptureFile *self);

/**
 * sonde_capture_file_next:
 * @frame: (out) (transfer none): the next frame, valid until the next call
 *
 * Returns: FALSE at the end; @error is set if that end is a break, and says where and why
 */
gboolean sonde_capture_file_next (SondeCaptureFile *self, const SondeFrame **frame, GError **error);

/* Of the frame that came last, in bytes. */
guint64 sonde_capture_file_offset (const SondeCaptureFile *self);

/* Whether @path is a regular file that begins like a capture. */
gboolean sonde_capture_file_probe (const char *path);
