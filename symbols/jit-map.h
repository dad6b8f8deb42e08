/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A tree of the code that one program made, by address, with the time from which on it is there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: jit-map
 *
 * Code is moved and its memory used again: new code cuts what it overlaps, from its own time on.
 * Who asks does so in the order of time, roughly; what comes with a later time than any that was
 * asked for waits until then, so that a sample is named by what was there when it was taken.
 * Everything that is added is of foreign origin.
 */
#define SONDE_JIT_MAP_MAX_NAME 4096 /* bytes; more are cut */

typedef struct SondeJitMap SondeJitMap;

typedef struct
{
  uint64_t begin;
  uint64_t end;     /* first address behind */
  const char *name; /* may be invalid UTF-8; never empty */
  uint64_t *mark;   /* the caller's, of this code; 0 in the beginning */
} SondeJitCode;

/* @max_bytes: of memory, for all that it keeps. NULL: out of memory. */
SondeJitMap *sonde_jit_map_new (size_t max_bytes);
void sonde_jit_map_free (SondeJitMap *self); /* accepts NULL */

/**
 * sonde_jit_map_add:
 * @name: of @length bytes, without a NUL
 * @since_ns: from when on it is there; not before what was added before
 *
 * Returns: 0, -EINVAL for what cannot be code or has no name, -ENOSPC over the bound, -ENOMEM
 */
int sonde_jit_map_add (SondeJitMap *self,
                       uint64_t begin,
                       uint64_t size,
                       const char *name,
                       size_t length,
                       int64_t since_ns);
/* The code that is at @from then is at @begin, too. Does nothing if there is none. The same
 * returns. */
int sonde_jit_map_move (
    SondeJitMap *self, uint64_t from, uint64_t begin, uint64_t size, int64_t since_ns);

/* Allocates nothing. @code: (out): valid until something is added. */
bool
sonde_jit_map_lookup (SondeJitMap *self, uint64_t address, int64_t time_ns, SondeJitCode *code);

size_t sonde_jit_map_n_entries (const SondeJitMap *self); /* what waits included */
size_t sonde_jit_map_bytes (const SondeJitMap *self);     /* of memory that is used */
