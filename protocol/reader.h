/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks a capture, a file or a stream, through frame-check. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/frame-check.h"
#include "protocol/frame.h"

/**
 * SondeReaderSource:
 * @user_data: as given to sonde_reader_new()
 * @buffer: where to put bytes
 * @size_bytes: how many at most
 *
 * Returns: bytes read (short reads are fine), 0 at the end, a negative errno on failure
 */
typedef int64_t (*SondeReaderSource) (void *user_data, void *buffer, size_t size_bytes);

typedef struct SondeReader SondeReader;

/**
 * sonde_reader_new:
 *
 * Reads the file header at once. One thread at a time. Memory is constant (one buffer of 1 MiB)
 * whatever the capture's size.
 *
 * Returns: 0 and *@self; -EBADMSG not a capture, -EPROTONOSUPPORT unknown version, -ENOTSUP other
 *   byte order, -ENODATA shorter than a header, -ENOMEM, or the source's error
 */
int sonde_reader_new (SondeReaderSource source, void *user_data, SondeReader **self);

/* Reads from @fd (a file, pipe or socket, in blocking mode); the fd stays the caller's. */
int sonde_reader_new_fd (int fd, SondeReader **self);

/* Accepts NULL. */
void sonde_reader_free (SondeReader *self);

const SondeFileHeader *sonde_reader_header (const SondeReader *self);

/**
 * sonde_reader_next:
 * @frame: (out) (transfer none): the next frame, checked, 8-aligned, valid until the next call
 *
 * Returns: 1 a frame; 0 the clean end; -EBADMSG the capture is broken here (see
 *   sonde_reader_fault(), sonde_reader_offset()); every later call says the same; a source's error
 */
int sonde_reader_next (SondeReader *self, const SondeFrame **frame);

/* Offset in bytes of the frame last returned, or of the broken one. */
uint64_t sonde_reader_offset (const SondeReader *self);

/* Why the capture is broken; SONDE_FRAME_OK if it is not. A capture cut within a frame is
 * SONDE_FRAME_FAULT_SHORT_HEADER or SONDE_FRAME_FAULT_LENGTH_PAST_END. */
SondeFrameFault sonde_reader_fault (const SondeReader *self);

/* A sentence for people: "not a Sonde capture: ...". @error is what sonde_reader_new() returned. */
const char *sonde_reader_strerror (int error);
