/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts what a session makes and loses, and writes the ledger of it into captures. */
#pragma once

#include <glib.h>

#include "daemon/base/message.h"
#include "protocol/writer.h"

/* One per session. The stream entries of @values are sums over sinks, filled in for messages only.
 */
typedef struct
{
  guint64 values[SONDE_N_STATISTICS];
} SondeTally;

static inline void
sonde_tally_add (SondeTally *self, unsigned statistic, guint64 n)
{
  self->values[statistic] += n;
}

/* A SAMPLE record came out of a ring. Exactly one of RECORDED, LOST_RING and LOST_QUEUE grows with
 * it, which keeps produced = recorded + lost-kernel + lost-ring + lost-queue. */
void sonde_tally_sample_read (SondeTally *self);
/* The kernel's own count of samples that never came into a ring; it never shrinks. */
void sonde_tally_set_lost_kernel (SondeTally *self, guint64 n);
/* @n events of profiled programs. @fate: SONDE_LEDGER_EVENTS_RECORDED, _LOST_RING or _REFUSED */
void sonde_tally_event (SondeTally *self, SondeLedger fate, guint64 n);

/* Adds the CTRDEF frame of the ledger. */
void sonde_tally_write_definitions (SondeWriter *writer, const SondeFrameOrigin *origin);
/* Adds one CTRSET frame with all of them. */
void sonde_tally_write_values (SondeWriter *writer,
                               const SondeFrameOrigin *origin,
                               const guint64 values[SONDE_N_LEDGER]);

/**
 * sonde_tally_describe_losses:
 * @before: the tally when this was asked last
 *
 * Returns: (nullable): a sentence on the samples and records lost since @before, by stage; NULL if
 *   there are none
 */
char *sonde_tally_describe_losses (const SondeTally *self,
                                   const SondeTally *before,
                                   gint64 from_ns,
                                   gint64 to_ns);
