/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a session counts, and the counters that carry it in a capture. */
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
gboolean sonde_tally_adds_up (const SondeTally *self);

/* Adds the CTRDEF frame of the ledger. */
int sonde_ledger_define (SondeWriter *writer, const SondeFrameOrigin *origin);
/* Adds one CTRSET frame with the first @n_values entries of @values. */
int sonde_ledger_set (SondeWriter *writer,
                      const SondeFrameOrigin *origin,
                      const guint64 *values,
                      guint n_values);

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
