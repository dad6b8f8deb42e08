/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Declares what every fuzz target implements. */
#pragma once

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Source: https://llvm.org/docs/LibFuzzer.html#fuzz-target. Aborts when an invariant breaks. */
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

/* How many descriptors are open: the same before and after an input, unless some leak. */
static inline unsigned
fuzz_count_fds (void)
{
  enum
  {
    MAX_FDS = 512,
  };
  struct pollfd fds[MAX_FDS] = { { .fd = 0 } };
  unsigned n_open = 0;

  for (int fd = 0; fd < MAX_FDS; fd++)
    fds[fd].fd = fd;
  poll (fds, MAX_FDS, 0);
  for (int fd = 0; fd < MAX_FDS; fd++)
    n_open += (fds[fd].revents & POLLNVAL) == 0;

  return n_open;
}

/* A thread may be about to close what came with the input. */
static inline void
fuzz_await_fds (unsigned n_open)
{
  for (unsigned i = 0; fuzz_count_fds () != n_open; i++)
    {
      if (i == 100000)
        abort ();
      usleep (100);
    }
}
