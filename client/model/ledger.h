/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The ledger as a capture carries it: reads its counters, and recomputes what they claim. */
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

/* --- whether they are true --- */

typedef struct SondeLedgerCheck SondeLedgerCheck;

typedef enum
{
  SONDE_VERDICT_PASSED,
  SONDE_VERDICT_WARNING, /* does not make the capture false */
  SONDE_VERDICT_FAILED,
  SONDE_VERDICT_OPEN, /* cannot be said: the capture was cut short */
} SondeVerdict;

/* "ok", "warning", "FAILED", "open" */
const char *sonde_verdict_to_string (SondeVerdict verdict);

typedef struct
{
  SondeVerdict verdict;
  const char *subject; /* "session", "stream", ... */
  char *text;          /* one line */
} SondeFinding;

SondeLedgerCheck *sonde_ledger_check_new (void);
void sonde_ledger_check_free (SondeLedgerCheck *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeLedgerCheck, sonde_ledger_check_free)

/* Every frame of the capture in its order, accepted by sonde_frame_check(). */
void sonde_ledger_check_add_frame (SondeLedgerCheck *self, const SondeFrame *frame);

guint64 sonde_ledger_check_n_frames (const SondeLedgerCheck *self);

/* (element-type SondeFinding): what was checked, once all frames were added. */
GPtrArray *sonde_ledger_check_dup_findings (const SondeLedgerCheck *self);
