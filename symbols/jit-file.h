/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Follows a file in which a program tells of code that it makes: perf's map file, or jitdump. */
#pragma once

#include "symbols/jit-map.h"

/**
 * SECTION: jit-file
 *
 * The program goes on writing meanwhile, and may write anything. So what is whole counts, and a
 * file is read from where the last reading ended, in parts of a size that the caller names. One
 * that has become shorter, or in which other bytes stand where it was read last, is read anew.
 *
 * A map file tells of no times: what is new in it is taken to be there since the file was read to
 * its end before; what a file has when it is read for the first time, since ever. A jitdump has
 * times of CLOCK_MONOTONIC; where its program says that they are of another clock they are not
 * used.
 *
 * Source: the kernel's tools/perf/Documentation/jit-interface.txt, jitdump-specification.txt
 */
typedef enum
{
  SONDE_JIT_FILE_MAP, /* lines of "BEGIN SIZE NAME", numbers in hexadecimal */
  SONDE_JIT_FILE_DUMP,
} SondeJitFileKind;

typedef struct SondeJitFile SondeJitFile;

/* @fd: (transfer full): of a regular file, on which reading does not wait
 * @max_bytes: that are ever read of it
 * NULL: out of memory. */
SondeJitFile *sonde_jit_file_new (int fd, SondeJitFileKind kind, uint64_t max_bytes);
void sonde_jit_file_free (SondeJitFile *self); /* accepts NULL */

/**
 * sonde_jit_file_read:
 * @map: gets what is new
 * @max_bytes: about as many are read
 * @now_ns: CLOCK_MONOTONIC
 *
 * Lines and records that make no sense are passed over.
 *
 * Returns: 1 there is more, 0 that was all there is; else it is not to be read any more
 * Errors: -ENOEXEC no jitdump of this machine's byte order, -EBADMSG a record in it is shorter than
 * its header, -EFBIG as many bytes as may be were read, -ENOSPC @map is full, -ENOMEM, or what
 * pread() said
 */
int sonde_jit_file_read (SondeJitFile *self, SondeJitMap *map, size_t max_bytes, int64_t now_ns);

/* Whether it had no name any more at the last reading: another one may have it. */
bool sonde_jit_file_is_removed (const SondeJitFile *self);
