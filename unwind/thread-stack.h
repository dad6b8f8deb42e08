/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which memory above the stack pointer the calling thread may read. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * SECTION: thread-stack
 *
 * Wrong unwind data must not make a program fault, so a walk reads nothing that is not known to be
 * readable. A thread's own stack reaches from its stack pointer up to its control block, the main
 * thread's up to the name of the program; that it does is asked of the kernel, once for each page.
 * Nothing lasts of other stacks (of coroutines, or of signal handlers): they may be unmapped any
 * time, so their pages are asked for at each walk.
 *
 * No locks and no allocations; errno is left alone. Any thread for itself, and signal handlers.
 */
typedef struct
{
  uint64_t low;  /* the thread's own stack is readable from here */
  uint64_t high; /* to here; 0: not looked for, or not found */
} SondeThreadStack;

/* Whether the kernel lets us read the page that holds @address: a system call. */
bool sonde_thread_stack_is_readable (uint64_t address);

/* The same as sonde_thread_stack_holds(), if @sp is below what is known. */
bool sonde_thread_stack_reaches (SondeThreadStack *self, uint64_t sp);

/* Whether @sp is on the thread's own stack, whose bounds @self learns. */
static inline bool
sonde_thread_stack_holds (SondeThreadStack *self, uint64_t sp)
{
  if (__builtin_expect (sp >= self->low && sp < self->high, true))
    return true;
  return sonde_thread_stack_reaches (self, sp);
}

/* The end of the page that holds @address. */
uint64_t sonde_thread_stack_page_end (uint64_t address);
