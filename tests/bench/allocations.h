/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts what this program asks of the heap. */
#pragma once

#include <stdint.h>

/* Calls of malloc() and its like so far, of all libraries. */
uint64_t allocations_count (void);
