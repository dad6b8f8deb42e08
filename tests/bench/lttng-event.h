/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A tracepoint of LTTng-UST with as much as a frame of the ring benchmark, for LTTng's own macros.
 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER sonde_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "tests/bench/lttng-event.h"

#if !defined(SONDE_LTTNG_EVENT_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SONDE_LTTNG_EVENT_H

#include <lttng/tracepoint.h>
#include <stdint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT (sonde_bench, block,
  LTTNG_UST_TP_ARGS (const uint64_t *, words),
  LTTNG_UST_TP_FIELDS (lttng_ust_field_array (uint64_t, words, words, 8)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
