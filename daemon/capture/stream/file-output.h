/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes a capture file that ends at a whole frame, whatever ends it. */
#pragma once

#include "daemon/capture/stream/span.h"

/**
 * SECTION: file-output
 *
 * Spans go from a queue into a regular file. Frames count as written only when they are whole, at a
 * position of our own: what a full disk cut is overwritten or cut off. The file ends at its limit,
 * when the disk is full, and before the disk holds less than SONDE_LIMIT_CAPTURE_FREE_PERCENT of
 * free room: others write to it as well. A little room is kept back for the last frames, which say
 * so: of the limit, and on the disk itself, where the file system can. Writing may wait for the
 * disk, hence the bound of each call. Main thread only.
 */
typedef struct SondeFileOutput SondeFileOutput;

#define SONDE_FILE_OUTPUT_RESERVE 4096 /* bytes for the last frames; the smallest limit */

/**
 * sonde_file_output_new:
 * @fd: (transfer full): a regular file that is empty, O_WRONLY
 *
 * Returns: NULL if it is anything else
 */
SondeFileOutput *sonde_file_output_new (int fd, guint64 max_bytes);
/* Cuts off what is not whole, and closes the file. Accepts NULL. */
void sonde_file_output_free (SondeFileOutput *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFileOutput, sonde_file_output_free)

/* Writes at most one chunk of @queue and removes it there. Returns its bytes, 0 if nothing waits,
 * or a negative errno: -EFBIG the limit, -ENOSPC the disk; what is in @queue then was not written.
 */
gssize sonde_file_output_write (SondeFileOutput *self, SondeSpanQueue *queue);

/* What is written from now on may use the room that was kept back. */
void sonde_file_output_use_reserve (SondeFileOutput *self);
