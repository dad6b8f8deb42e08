/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fires probes at sampled blocks, for tracers other than a Sonde session. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: memory-probes
 *
 * Static probes as systemtap's sys/sdt.h makes them, notes in `.note.stapsdt` of this library:
 *
 * - otel_memory:alloc (block, size, weight): a block that was sampled; @weight: the bytes that it
 *   stands for
 * - otel_memory:free (block): its end
 *
 * In programs that no session wants, and where SONDE_MEMORY_PROBES says how many bytes lie between
 * two samples, on average. Each has a semaphore, a word that is 0 while nobody traces: then no
 * block is remembered, and a probe is not reached. Without the variable there is nothing of this
 * but the notes.
 *
 * Any thread, and signal handlers; nothing is locked, allocated or asked of the kernel.
 *
 * Source: sys/sdt.h of systemtap; OpenTelemetry eBPF profiler, design document 00003, "USDT
 * contract"
 */

/* Once, and before any thread looks: nobody of ours listens to this process. Reads the environment.
 * Whether probes are wanted. */
bool sonde_memory_probes_begin (void);

/* Whether blocks are sampled for probes. */
bool sonde_memory_probes_are_on (void);

/**
 * sonde_memory_probes_reach:
 * @block: allocated, not NULL
 * @bytes_left: (inout): of the calling thread, until there is a sampled byte; 0: not drawn yet
 *
 * While probes are on.
 */
void sonde_memory_probes_reach (const void *block, size_t size_bytes, uint64_t *bytes_left);

/* The end of a block that was sampled, and is not in the set of those any more. */
void sonde_memory_probes_free (const void *block);
