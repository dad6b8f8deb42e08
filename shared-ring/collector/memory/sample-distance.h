/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Draws at random how many bytes it is until the next heap sample. */
#pragma once

#include <stdint.h>

/* A state that differs between threads, children and runs. */
uint64_t sonde_sample_distance_seed (void);

/**
 * sonde_sample_distance_draw:
 * @state: (inout): of sonde_sample_distance_seed(); not 0
 * @mean_bytes: at least 1
 *
 * From the exponential distribution, rounded up: so each byte is as likely to be sampled as any
 * other, whatever was before it. A block of n bytes, counted off from the distance, is reached with
 * the probability 1 - exp (-n / @mean_bytes), exactly.
 *
 * Returns: 1 or more
 */
uint64_t sonde_sample_distance_draw (uint64_t *state, uint64_t mean_bytes);
