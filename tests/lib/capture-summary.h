/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts the frames of a capture and does the sums of its ledger. */
#pragma once

#include <glib.h>

#include "protocol/frame.h"
#include "protocol/ledger.h"
#include "protocol/reader.h"

typedef struct
{
  int status;                         /* 0 read to a clean end; else as sonde_reader_next() */
  SondeFrameFault fault;              /* why it is broken, if it is */
  guint64 n_frames[SONDE_FRAME_LAST]; /* by type */
  guint64 n_samples_of_pid;           /* SAMPLE frames of the pid asked for */
  gint64 ledger[SONDE_N_LEDGER];      /* the latest values */
  gboolean is_closed;                 /* the last frame is a CTRSET that sets the whole ledger */
} CaptureSummary;

/* Reads @fd to its end, waiting for it, and closes it. */
void capture_summary_read (CaptureSummary *self, int fd, int pid);

/* Fails the test unless the capture is whole, has samples of its pid, and its ledger adds up. */
void capture_summary_assert_whole (const CaptureSummary *self);
