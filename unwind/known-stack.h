/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The last stack that was walked, and the words in memory that it was found by. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfi-rule.h"

/**
 * SECTION: known-stack
 *
 * What a frame's caller is follows from where the frame goes on (pc), its stack pointer, for some
 * frames its frame pointer, and a few words in memory, whose places follow from those. So if a walk
 * comes to a frame that the last one met, too, and these words still say the same, frame by frame,
 * then the rest of the stack is that of the last one. A word is looked at only when all inner ones
 * were the same: it is then as readable as it was.
 *
 * A frame that is found in another way (through other registers, or a signal's) is not kept, nor
 * are the frames inside of it.
 */
#define SONDE_KNOWN_STACK_MAX_FRAMES 1024

typedef struct
{
  uint64_t pc;
  uint64_t sp;
  uint64_t fp;
  uint64_t pc_place; /* of the caller's pc; 0: there is no caller */
  uint64_t fp_place; /* of the caller's fp; 0: it is the same, or does not matter */
  uint64_t sp_place; /* of the caller's sp; 0: it follows */
  bool needs_fp;     /* a caller is found through it */
  bool is_opaque;    /* not to be kept */
} SondeKnownFrame;

typedef struct
{
  size_t n_frames;  /* kept */
  size_t candidate; /* frames that the walk may still come to */
  bool is_cut;      /* the first one has a caller that is not kept */
  SondeKnownFrame frames[SONDE_KNOWN_STACK_MAX_FRAMES]; /* outermost first */
} SondeKnownStack;

/* How the caller of @frame was found: by @rule, at @caller_sp. */
void sonde_known_frame_learn (SondeKnownFrame *frame,
                              const SondeRule *rule,
                              uint64_t caller_sp,
                              const SondeStackCopy *stack);
/* No caller was found. @rule: the frame's, or NULL; only one that says so makes it the outermost
 * for sure. */
void sonde_known_frame_end (SondeKnownFrame *frame, const SondeRule *rule);

void sonde_known_stack_clear (SondeKnownStack *self);
/* Of a walk. */
void sonde_known_stack_begin (SondeKnownStack *self);

/* Whether the stack goes on from @index as it did; then the callers' pcs are stored. */
bool sonde_known_stack_follow_from (
    SondeKnownStack *self, size_t index, uint64_t *addrs, size_t max_addrs, size_t *n_addrs);

/* Whether the rest of the stack is known from the frame at @pc, @sp, @fp on; then its pcs, but
 * for the frame's own, are stored, and counted in @n_addrs. */
static inline bool
sonde_known_stack_follow (SondeKnownStack *self,
                          uint64_t pc,
                          uint64_t sp,
                          uint64_t fp,
                          uint64_t *addrs,
                          size_t max_addrs,
                          size_t *n_addrs)
{
  const SondeKnownFrame *frame;

  while (self->candidate > 0 && self->frames[self->candidate - 1].sp < sp)
    self->candidate--;
  if (self->candidate == 0)
    return false;
  frame = &self->frames[self->candidate - 1];
  return frame->sp == sp && frame->pc == pc && (!frame->needs_fp || frame->fp == fp)
         && sonde_known_stack_follow_from (self, self->candidate - 1, addrs, max_addrs, n_addrs);
}

/**
 * sonde_known_stack_add:
 * @walked: frames of the walk, innermost first, up to that from which sonde_known_stack_follow()
 *   was successful; @n_walked of them
 *
 * What the walk did not come to is forgotten.
 */
void sonde_known_stack_add (SondeKnownStack *self, const SondeKnownFrame *walked, size_t n_walked);
