/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The head of every unwinder, and how samples' registers and addresses are read. */
#pragma once

#include "unwind/unwinder.h"

typedef struct
{
  void (*free) (SondeUnwinder *self);
  /* @state is of this machine's word size; *@n_addrs is 0. */
  SondeUnwindEnd (*unwind) (SondeUnwinder *self,
                            SondeProcess *process,
                            const SondeUserState *state,
                            uint64_t *addrs,
                            size_t max_addrs,
                            size_t *n_addrs);
  /* Unwinds a sample of a 32-bit program on this machine. NULL: such samples end where they begin.
   */
  SondeUnwindEnd (*unwind_32_bit) (SondeUnwinder *self,
                                   SondeProcess *process,
                                   const SondeUserState *state,
                                   uint64_t *addrs,
                                   size_t max_addrs,
                                   size_t *n_addrs);
} SondeUnwinderOps;

struct SondeUnwinder
{
  const SondeUnwinderOps *ops;
};

/* The stack went on above its copy: because that was the size asked for, or because the kernel met
 * a page that was never touched. */
SondeUnwindEnd sonde_user_state_truncation (const SondeUserState *state);
