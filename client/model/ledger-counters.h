/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The counters of the ledger as a capture carries them. */
#pragma once

#include <glib.h>

#include "client/base/id-map.h"
#include "protocol/frame.h"
#include "protocol/ledger.h"

/* Which counter id stands for which entry is read from the definitions, never assumed. */
typedef struct
{
  SondeIdMap *entries;           /* counter id → SondeLedger */
  guint defined;                 /* bit per entry */
  guint set;                     /* bit per entry: has had a value */
  gint64 values[SONDE_N_LEDGER]; /* newest */
} SondeLedgerCounters;

#define SONDE_LEDGER_ALL ((1u << SONDE_N_LEDGER) - 1)

void sonde_ledger_counters_init (SondeLedgerCounters *self);
void sonde_ledger_counters_copy (SondeLedgerCounters *self, const SondeLedgerCounters *source);
void sonde_ledger_counters_clear (SondeLedgerCounters *self);

void sonde_ledger_counters_define (SondeLedgerCounters *self, const SondeFrameCounterDefine *frame);

/* Adds @difference to the value of @entry, if @frame has it. */
void sonde_ledger_counters_adjust (const SondeLedgerCounters *self,
                                   SondeFrameCounterSet *frame,
                                   SondeLedger entry,
                                   gint64 difference);

/* Takes the values of @frame. Returns: the entries that were in it, a bit each */
guint sonde_ledger_counters_set (SondeLedgerCounters *self, const SondeFrameCounterSet *frame);
