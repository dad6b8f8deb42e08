/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stands in for the hook that -pg -mfentry has functions call as they begin, and is what we write
 * into those of -fpatchable-function-entry. */
#pragma once

#include <stdint.h>

/* @function: an address that any hook tells, where code is. Returns: where the function begins,
 * which is a little before if it was __fentry__() that was called. */
uint64_t sonde_fentry_begin (uint64_t function);
