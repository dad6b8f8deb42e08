/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fields of hits of allocators' own probes, as broker and worker agree on them. */
#pragma once

#include <linux/perf_event.h>

/**
 * SECTION: probe
 *
 * An allocator that samples its blocks may have probes: otel_memory:alloc (block, size, weight) and
 * otel_memory:free (block). At each hit a BPF program of the broker writes a record into the
 * session's ring of samples, which has the registers and a copy of the stack.
 *
 * Source: docs/heap.md, "Probes of other allocators"; OpenTelemetry eBPF profiler, design document
 * 00003, "USDT contract"
 */
#define SONDE_PROBE_PROVIDER "otel_memory"
#define SONDE_PROBE_ALLOC    "alloc"
#define SONDE_PROBE_FREE     "free"

/* Of one file: compilers copy a function with a probe to where it is called. */
#define SONDE_PROBE_MAX_SITES 16

/* The instruction that a probe has to be: where it is the longer one that does nothing, kernels
 * since 6.18 make it a call, which children of the program die of. */
#define SONDE_PROBE_INSTRUCTION 0x90

/* Of x86-64: AX BX CX DX SI DI BP SP IP, R8 to R15. Source: asm/perf_regs.h */
#define SONDE_PROBE_REGISTERS 0xff01ffULL

#define SONDE_PROBE_SAMPLE_TYPE                                                                    \
  (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU  \
   | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
