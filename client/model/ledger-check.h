/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recomputes from a capture what its loss ledger claims. */
#pragma once

#include <glib.h>

#include "protocol/frame.h"

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
