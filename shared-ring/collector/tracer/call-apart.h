/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls what may use any register from hooks that must leave all as they are. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * SECTION: call-apart
 *
 * A hook where a function begins or ends comes between it and its caller, who have arguments and
 * results in registers that a called function may use otherwise. Our own code is built to use the
 * general ones alone, which the stub keeps; what calls libc goes through here.
 */

/* Whether there may be such hooks: else none that asks for the time must call apart. */
extern bool sonde_call_apart_is_needed __attribute__ ((visibility ("hidden")));

/* Once, before the first call. */
void sonde_call_apart_init (void);

/* With all vector and floating point registers as they were before. Signal handlers, too; it takes
 * up to 3 KiB of stack. */
uint64_t sonde_call_apart (uint64_t (*function) (uint64_t a, uint64_t b), uint64_t a, uint64_t b);
