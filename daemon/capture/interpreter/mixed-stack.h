/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Puts the frames of an interpreted program in the place of those of its interpreter. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/walk.h"

/**
 * SECTION: mixed-stack
 *
 * A native stack has a frame of the interpreter's evaluating function for each *segment* of the
 * interpreter's own list. They are counted from the outermost, for a sample at the begin or the end
 * of that function has one native frame more, which is the innermost; from the leaf on all others
 * would get the frames of their callers. Where either was cut short they are counted from the leaf;
 * a list that was cut has more segments than are known, so it does not fit a whole native stack that
 * has fewer evaluating functions than these.
 */
typedef struct
{
  const uint64_t *addrs; /* native, leaf first; all but the first are return addresses */
  size_t n_addrs;
  bool is_complete;                /* to the outermost frame */
  const uint64_t (*evaluators)[2]; /* ranges of addresses: begin, end */
  size_t n_evaluators;
  const SondeWalkFrame *frames; /* of the interpreter, newest first */
  const uint64_t *names;        /* of each of them what is put there; 0: nothing */
  size_t n_frames;
  uint32_t flags; /* SONDE_WALK_*, of the walk */
  SondeWalkEntry entry;
  bool begins_early; /* the newest segment may be of a function that is about to be evaluated */
  uint64_t apart;    /* put between both stacks if they do not fit */
} SondeMixedStack;

typedef enum
{
  SONDE_MIXED_RIGHT, /* every frame is where it belongs, as far as was to be known */
  SONDE_MIXED_APART, /* they do not fit: the interpreter's are behind the native ones */
} SondeMixedResult;

/* Whether the native stack has the evaluating function. */
bool sonde_mixed_stack_is_interpreted (const SondeMixedStack *self);

/* @out: leaf first; what does not fit is cut off behind. @n_out: (out) */
SondeMixedResult
sonde_mixed_stack_merge (const SondeMixedStack *self, uint64_t *out, size_t max_out, size_t *n_out);
