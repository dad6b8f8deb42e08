/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks the stack of the calling thread, from inside a profiled program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: self-unwinder
 *
 * Return addresses by call frame information, in place: no copy of the stack, no frame pointers
 * wanted, no lock, no allocation, about 2 KiB of stack. It remembers the rules of return addresses
 * that it met, and the last stack: a walk that comes to a frame of that one looks whether the words
 * that led on from there are still the same, and needs to do no more. So only what changed is
 * walked.
 *
 * One for each thread, and for it alone; not to be used again while it is in use (by a signal
 * handler). errno is left alone.
 *
 * Functions without such information are walked through by the frame pointer, if that is plausible.
 * A stack that cannot be followed any more ends there.
 */
typedef struct SondeSelfUnwinder SondeSelfUnwinder;

/* Frames of one stack, at most. */
#define SONDE_SELF_UNWINDER_MAX_ADDRS 512

/* In a mapping of its own, of about 200 KiB that are used as needed. NULL: out of memory. */
SondeSelfUnwinder *sonde_self_unwinder_new (void);
void sonde_self_unwinder_free (SondeSelfUnwinder *self); /* accepts NULL */

/* Where a function was called, and with which registers. */
typedef struct
{
  uint64_t pc; /* the return address */
  uint64_t sp; /* as it will be behind the call */
  uint64_t fp;
} SondeCallSite;

/* The call site of the function that says this. */
#define SONDE_CALL_SITE()                                                                          \
  ((SondeCallSite){ (uintptr_t) __builtin_return_address (0), (uintptr_t) __builtin_dwarf_cfa (),  \
                    *(const uintptr_t *) __builtin_frame_address (0) })

/**
 * sonde_self_unwinder_walk:
 * @caller: of a function that has not returned
 * @addrs: (out): its pc, then those above it
 * @max_addrs: 1 to SONDE_SELF_UNWINDER_MAX_ADDRS
 *
 * Returns: how many there are, at least 1
 */
size_t sonde_self_unwinder_walk (SondeSelfUnwinder *self,
                                 const SondeCallSite *caller,
                                 uint64_t *addrs,
                                 size_t max_addrs);

/* A function that has not returned. */
typedef struct
{
  uint64_t function;     /* where its code begins; 0: not known */
  uint64_t sp;           /* behind the call that it has made, as of a call site */
  uint64_t return_place; /* where the address is that it returns to; 0: not known */
  uint64_t returns_to;   /* 0: the walk ends here */
} SondeStandingCall;

/**
 * sonde_self_unwinder_list:
 * @caller: of a function that has not returned
 * @calls: (out): that caller, then those above it
 * @max_calls: 1 to SONDE_SELF_UNWINDER_MAX_ADDRS
 *
 * A walk that remembers nothing of the one before, and tells more.
 *
 * Returns: how many there are, at least 1
 */
size_t sonde_self_unwinder_list (SondeSelfUnwinder *self,
                                 const SondeCallSite *caller,
                                 SondeStandingCall *calls,
                                 size_t max_calls);

/**
 * sonde_self_unwinder_hash:
 * @addrs: of the walk before
 *
 * A number that follows from the stack, and tells it from others: of 100,000 stacks two have the
 * same one in one of about 4,000 million programs. Where the stack is as it was in the walk before
 * that one it costs nothing.
 */
uint64_t
sonde_self_unwinder_hash (const SondeSelfUnwinder *self, const uint64_t *addrs, size_t n_addrs);

/* A module may be gone, or another one may be where it was: to be said in any thread before others
 * can run code of a new module there. For all unwinders. */
void sonde_self_unwinder_forget_modules (void);
