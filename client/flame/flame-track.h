/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The counters and marks above a flame graph's time line. */
#pragma once

#include "client/model/sample-log.h"

#define SONDE_FLAME_MAX_MARKS         20000 /* the longest are shown: more are not told apart by eye */
#define SONDE_FLAME_MAX_MESSAGE_BYTES 300 /* of a mark; what is longer ends in "…" */

/**
 * sonde_flame_track_append:
 * @out: see flame-data.h
 * @log: with at least one sample
 *
 * What lies before the first sample or after the last one is left out. Counters: how many; of each
 * category, name, description, number of points; then, for each point, the difference of its bucket
 * to the one before (from -1) and its smallest and largest value, little-endian doubles. The
 * buckets are those of the lanes. Marks: how many, and how many more there are; of each, by start,
 * signed pid, group, name, message, start and duration. The ledger's counters are not among them.
 */
void sonde_flame_track_append (GByteArray *out, const SondeSampleLog *log);
