/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What stands above a heap's call trees: its sums, and how far they are to be trusted. */
#pragma once

#include "client/heap/heap.h"

/* @options: those that the heap was made with */
void
sonde_heap_append_header (GString *out, const SondeHeap *heap, const SondeHeapOptions *options);

/* "47,395,000 bytes (45.2 MiB) in 12,345 blocks" */
void sonde_heap_append_amount (GString *out, const SondeHeapAmount *amount);

/* "1.5 us", "10.0 ms", "2.50 s" */
char *sonde_heap_dup_time (gint64 time_ns);
