/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Turns a sample's registers and stack copy into return addresses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/process-table.h"

/* How an unwind ended; every one says. */
typedef enum
{
  SONDE_UNWIND_END_COMPLETE = 0,   /* return address undefined or zero, or the entry point */
  SONDE_UNWIND_END_TRUNCATED_DUMP, /* needs bytes above the copy, which has the size asked for */
  SONDE_UNWIND_END_TRUNCATED_PAGE, /* needs bytes above the copy, which the kernel cut short */
  SONDE_UNWIND_END_NO_CFI,         /* module without rules for this pc */
  SONDE_UNWIND_END_BAD_CFI,        /* rules that make no sense, wild reads, no progress possible */
  SONDE_UNWIND_END_NO_MODULE,      /* pc in no mapping, or its file could not be had */
  SONDE_UNWIND_END_DEPTH_LIMIT,
  SONDE_UNWIND_END_LOOP,           /* the CFA did not rise */
  SONDE_UNWIND_END_CHAIN_COMPLETE, /* outermost frame reached by the kernel's chain, above the copy
                                    */
  SONDE_UNWIND_END_CHAIN_SHORT,    /* followed above the copy, to code without frame pointer */
  SONDE_N_UNWIND_ENDS,
} SondeUnwindEnd;

/* "complete", "truncated-dump", ... */
const char *sonde_unwind_end_name (SondeUnwindEnd end);

/* The user part of one sample, in the ring or a copy of it. All of it is hostile. */
typedef struct
{
  uint64_t abi;         /* PERF_SAMPLE_REGS_ABI_NONE, _32 or _64 */
  uint64_t regs_mask;   /* perf_event_attr.sample_regs_user */
  const uint64_t *regs; /* one per bit of the mask, lowest bit first */
  size_t n_regs;
  const uint8_t *stack;    /* from the stack pointer upwards; 8-aligned */
  size_t stack_size_bytes; /* valid bytes (dyn_size) */
  size_t dump_size_bytes;  /* bytes asked for (size) */
  const uint64_t *chain;   /* of the kernel, by frame pointers: the pc, then return addresses */
  size_t n_chain;          /* 0: there is none */
} SondeUserState;

/* The registers an unwinder wants in perf_event_attr.sample_regs_user on this architecture. */
uint64_t sonde_unwinder_regs_mask (void);

/* Instruction and stack pointer of @state. False if they are not among its registers. */
bool sonde_user_state_pc (const SondeUserState *state, uint64_t *pc, uint64_t *sp);

typedef struct SondeUnwinder SondeUnwinder;

/* One for all processes of the table. NULL on ENOMEM. The first is ours: it allocates nothing while
 * it unwinds. The second is libdwfl's, slower by more than an order of magnitude and for 64-bit
 * programs only: the reference. */
SondeUnwinder *sonde_unwinder_new_cfi (SondeProcessTable *processes);
SondeUnwinder *sonde_unwinder_new_libdwfl (SondeProcessTable *processes);
void sonde_unwinder_free (SondeUnwinder *self);

/* Whether @address, which is in no module, lies in one of the trampolines through which CPython
 * runs its functions for profilers; @begin: (out): of its code. Allocates nothing. */
typedef bool (*SondeTrampolineTest) (SondeProcess *process,
                                     uint64_t address,
                                     uint64_t *begin,
                                     void *user_data);
/* NULL, as in the beginning: there are none. Of 64-bit programs on x86-64, for the first unwinder.
 */
void
sonde_unwinder_set_trampolines (SondeUnwinder *self, SondeTrampolineTest test, void *user_data);

/**
 * sonde_unwinder_unwind:
 * @addrs: (out): the sampled pc, then return addresses, leaf first
 * @max_addrs: at least 1
 * @n_addrs: (out): how many were stored; at least 1 if the state has a pc
 *
 * Never blocks, never opens a file, uses what the table knows now.
 */
SondeUnwindEnd sonde_unwinder_unwind (SondeUnwinder *self,
                                      SondeProcess *process,
                                      const SondeUserState *state,
                                      uint64_t *addrs,
                                      size_t max_addrs,
                                      size_t *n_addrs);
