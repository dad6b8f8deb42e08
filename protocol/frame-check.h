/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Checks a frame that somebody else wrote; nothing else judges one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/frame.h"

/* Why a frame is refused. Each has one sentence in sonde_frame_fault_to_string(). */
typedef enum
{
  SONDE_FRAME_OK = 0,
  SONDE_FRAME_FAULT_SHORT_HEADER,    /* fewer than 24 bytes are there */
  SONDE_FRAME_FAULT_LENGTH_SMALL,    /* len < 24, or smaller than the type's fixed part */
  SONDE_FRAME_FAULT_LENGTH_ALIGN,    /* len % 8 != 0 */
  SONDE_FRAME_FAULT_LENGTH_PAST_END, /* len > bytes available */
  SONDE_FRAME_FAULT_TYPE,            /* type 0 or >= SONDE_FRAME_N_READ */
  SONDE_FRAME_FAULT_COUNT,           /* addresses, counters, groups, names or data do not fit len */
  SONDE_FRAME_FAULT_TERMINATION,     /* a string lacks its NUL */
  SONDE_FRAME_FAULT_VALUE,           /* counter type, MAP range or allocation size impossible */
  SONDE_N_FRAME_FAULTS,
} SondeFrameFault;

/**
 * sonde_frame_check:
 * @bytes: a private copy of the bytes, at least 8-aligned; nobody else may change it meanwhile
 * @size_bytes: how many bytes are there
 *
 * Judges the frame at the start of @bytes: length, type, inner counts against the length, string
 * termination. Never reads past @size_bytes.
 *
 * Returns: SONDE_FRAME_OK, or the first fault found
 * Source: docs/protocol.md, "What a reader refuses"
 */
SondeFrameFault sonde_frame_check (const void *bytes, size_t size_bytes);

/* A static sentence fragment for messages: "its length is not a multiple of 8". */
const char *sonde_frame_fault_to_string (SondeFrameFault fault);

/* "SAMPLE", ...; "?" for a foreign type. */
const char *sonde_frame_type_to_string (unsigned type);

/**
 * sonde_file_header_check:
 *
 * Returns: 0; -EBADMSG: not a capture (magic), -EPROTONOSUPPORT: version unknown,
 *   -ENOTSUP: written by a machine of the other byte order
 */
int sonde_file_header_check (const SondeFileHeader *header);

/* Number of bytes of the frame's fixed part for @type; 0 for a foreign type. */
size_t sonde_frame_fixed_size (unsigned type);
