/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bounds of what readers keep of a capture: captures come from anywhere. */
#pragma once

/*
 * Together they hold a command within 1 GiB and a capture of 50 MB within seconds. What goes beyond
 * is counted, and told where the result is shown (budget.h); sums stay exact, for what was cut off
 * is accounted for under SONDE_TRUNCATED. An honest capture of a busy machine reaches none of them.
 *
 * SONDE_LIMIT (name, most, what is counted when it is cut off: one, many)
 */
#define SONDE_LIMITS                                                                               \
  /* numbers with a name; 300 bytes each. A storm of forks has 200,000 */                          \
  SONDE_LIMIT (PROCESSES, 1u << 18, "event of a further process", "events of further processes")   \
  /* pids, threads that were forked among them; 100 bytes each */                                  \
  SONDE_LIMIT (SPACES, 1u << 19, "event of a further pid", "events of further pids")               \
  /* processes × threads with samples or allocations; 100 bytes each */                           \
  SONDE_LIMIT (THREADS, 1u << 18, "sample of a further thread", "samples of further threads")      \
  /* 100 bytes each. 200,000 processes have about five that are executable */                      \
  SONDE_LIMIT (MAPPINGS, 1u << 20, "mapping", "mappings")                                          \
  /* pieces of address spaces, which forks share until one of them maps; 40 bytes each */          \
  SONDE_LIMIT (PIECES, 1u << 22, "mapping of a fork", "mappings of forks")                         \
  /* distinct ones of each process; 350 bytes each with a name. A browser has 100,000 */           \
  SONDE_LIMIT (ADDRESSES, 1u << 20, "frame at a further address", "frames at further addresses")   \
  /* nodes of call trees; 50 bytes each, twice while a report is made. Five million random walks   \
   * have half of them */                                                                          \
  SONDE_LIMIT (NODES, 1u << 22, "stack", "stacks")                                                 \
  /* that make call trees larger than stacks are */                                                \
  SONDE_LIMIT (INLINED, 1u << 21, "set of inlined functions", "sets of inlined functions")         \
  /* with their times, for the page; 24 bytes each: 4 hours at 1 kHz */                            \
  SONDE_LIMIT (SAMPLES, 1u << 24, "sample with its time", "samples with their times")              \
  SONDE_LIMIT (MARKS, 1u << 21, "mark", "marks")                             /* 64 bytes each */   \
  SONDE_LIMIT (VALUES, 1u << 22, "value of a counter", "values of counters") /* 32 bytes each */   \
  SONDE_LIMIT (COUNTERS, 1u << 17, "counter", "counters")                    /* 250 bytes each */  \
  SONDE_LIMIT (METADATA, 1u << 10, "description", "descriptions")            /* Sysprof has 25 */  \
  SONDE_LIMIT (NAMES, 1u << 18, "name of code", "names of code")             /* 60 bytes each */   \
  /* bytes of paths, names, command lines and messages */                                          \
  SONDE_LIMIT (TEXT, 96u << 20, "text", "texts")                                                   \
  /* bytes of functions as they are shown, 100 more each */                                        \
  SONDE_LIMIT (FUNCTION_TEXT, 96u << 20, "place whose name has no room",                           \
               "places whose names have no room")                                                  \
  /* of allocations; 140 bytes each */                                                             \
  SONDE_LIMIT (STACKS, 1u << 19, "allocation with a further stack",                                \
               "allocations with further stacks")                                                  \
  /* live at a time; 64 bytes each */                                                              \
  SONDE_LIMIT (BLOCKS, 6u << 20, "block", "blocks")

/* What a frame, a process and a thread are called that stand for all that was cut off. */
#define SONDE_TRUNCATED          "[truncated]"

#define SONDE_MAX_PATH_BYTES     4096 /* PATH_MAX: no file has a longer one; of command lines, too */
#define SONDE_MAX_MODULE_BYTES   255  /* NAME_MAX */
#define SONDE_MAX_NAME_BYTES     1024 /* of a function as it is shown; some of C++ are that long */
#define SONDE_MAX_METADATA_BYTES (8u << 20) /* of all: a frame has up to 64 KiB */
#define SONDE_MAX_LINES          (1u << 18) /* of a report; 1,024 frames deep one has 3 KiB */
#define SONDE_MAX_REMEMBERED     1024 /* addresses of a stack whose next one is compared with it */
#define SONDE_MAX_MEMOS          1024 /* processes whose last stack is remembered: 50 MiB */
