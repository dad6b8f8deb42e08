/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Packs what the page of a flame graph knows into compact bytes. */
#pragma once

#include "client/flame/flame-graph.h"

/**
 * SECTION: flame-data
 *
 * Numbers are LEB128 (signed ones zigzag first), texts a number of bytes and UTF-8, times are ns
 * after the first sample, columns stand one after the other, so that they compress well. In this
 * order:
 *
 * - format, always 3
 * - texts: title, subject, event, start (ISO 8601), losses, title of what it is compared with ("":
 * nothing); what a weight is: "sample", "call", or "ns"
 * - duration, samples, samples compared with, threshold
 * - functions: how many; of each the kind, name, what it is shown as ("": the same), module, and
 * source ("file:line", "" unknown)
 * - nodes: how many; column of signed differences of the depth to the node before; column of
 * functions; where it is compared, column of samples of the other capture that end there
 * - processes: how many; of each the name, and the signed pid
 * - threads: how many; of each the process, the signed tid, and the name ("": its process's)
 * - lanes: width and number of the buckets; of each thread the number of points, and of each point
 * the difference of its bucket to the one before (from -1), and samples
 * - stacks: width and number of the buckets; how many (thread, node); columns of differences of the
 * thread, signed differences of the node, points; then, for all points, columns of differences of
 * buckets as above, and samples
 * - counters: how many; of each category, name, description, number of points; then, for each
 * point, the difference of its bucket to the one before (from -1), how long after the begin of the
 * bucket its last value is, and its smallest and largest value, little-endian doubles. The buckets
 * are those of the lanes, the ledger's counters not among them
 * - marks: how many, and how many more there are; of each, by start, signed pid, group, name,
 * message, start and duration
 * - spreads, of nodes whose calls were timed: how many; of each the difference of the node to the
 * one before (from -1), and how many buckets of protocol/calls.h, of ns; of each of these the
 * difference to the one before (from -1), and calls, as they stand for others
 *
 * - runs, of samples of a thread, one after the other, at the same node: how many; ns of a tick;
 * whether they were merged, so that of each tick the node with most samples is there (1, else 0);
 * where there are any, of each thread how many; then columns: ticks from the end of the run before,
 * of a thread's first from the first sample of all; ticks that it lasts; signed differences of
 * nodes
 *
 * Of calls there are no times: each process is one thread, which has one bucket.
 *
 * Source: client/flame/page/data.js reads it.
 */
#define SONDE_FLAME_FORMAT    3
#define SONDE_FLAME_N_BUCKETS 2048
#define SONDE_FLAME_LONE_NS   1000000 /* that samples stand for whose threads have one each */

/* @graph: of @source
 * @max_points: buckets are merged until the stacks need no more points than this, or are in one
 * bucket
 * @max_runs: runs are merged until they are no more than this; of too many threads there are none
 */
GByteArray *sonde_flame_data_new (const SondeFlameSource *source,
                                  const SondeFlameGraph *graph,
                                  guint max_points,
                                  guint max_runs);

/* The packing of one number, and of one text. */
void sonde_flame_data_append_number (GByteArray *out, guint64 number);
void sonde_flame_data_append_signed (GByteArray *out, gint64 number);
void sonde_flame_data_append_text (GByteArray *out, const char *text);
