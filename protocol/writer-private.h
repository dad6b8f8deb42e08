/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The parts of the writer that writer.c and writer-tables.c use of each other. */
#pragma once

#include "protocol/writer.h"

/* Entries that fit a frame whose fixed part is @fixed. */
#define SONDE_WRITER_MAX_PER_FRAME(fixed, entry)                                                   \
  ((SONDE_FRAME_MAX_SIZE - sizeof (fixed)) / sizeof (entry))

/**
 * sonde_writer_begin_frame:
 * @fixed_bytes: size of the type's struct
 * @body_bytes: what follows it, without padding
 * @error: (out): set on failure only
 *
 * Makes room for a frame. Its header is set; the rest of its fixed part and its last 8 bytes are
 * zero, so that text copied behind the fixed part ends with a NUL and zero padding. The caller
 * fills in the rest at once.
 *
 * Returns: the frame, or NULL
 * Errors: -EMSGSIZE too large for a frame; -EINVAL the CPU does not fit; -EPIPE the callback
 * failed; what the callback of a writer in place returned
 */
void *sonde_writer_begin_frame (SondeWriter *self,
                                const SondeFrameOrigin *origin,
                                SondeFrameType type,
                                size_t fixed_bytes,
                                size_t body_bytes,
                                int *error);

/* Bytes of @text that fit a frame of this fixed size together with a NUL, no UTF-8 sequence torn.
 */
size_t sonde_writer_tail_length (const char *text, size_t len, size_t fixed_bytes);

/* Into a fixed array that is zero already; the NUL stays inside, no UTF-8 sequence is torn. */
void sonde_writer_set_text (char *array, size_t array_bytes, const char *text);
