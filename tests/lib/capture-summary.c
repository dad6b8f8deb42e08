/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/lib/capture-summary.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Counter ids follow the order of SondeLedger, from 1 (protocol/ledger.h). */
static gboolean
read_counters (CaptureSummary *self, const SondeFrame *frame)
{
  const SondeFrameCounterSet *set = (const SondeFrameCounterSet *) frame;
  gboolean seen[SONDE_N_LEDGER] = { FALSE };

  for (guint group = 0; group < set->n_groups; group++)
    for (guint slot = 0; slot < 8; slot++)
      {
        guint32 id = set->groups[group].ids[slot];

        if (id < 1 || id > SONDE_N_LEDGER)
          continue;
        self->ledger[id - 1] = set->groups[group].values[slot].v64;
        seen[id - 1] = TRUE;
      }

  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    if (!seen[i])
      return FALSE;
  return TRUE;
}

void
capture_summary_read (CaptureSummary *self, int fd, int pid)
{
  SondeReader *reader = NULL;
  const SondeFrame *frame;

  memset (self, 0, sizeof *self);
  fcntl (fd, F_SETFL, fcntl (fd, F_GETFL) & ~O_NONBLOCK);
  self->status = sonde_reader_new_fd (fd, &reader);
  if (self->status == 0)
    {
      while ((self->status = sonde_reader_next (reader, &frame)) == 1)
        {
          g_assert_cmpint (frame->type, <, SONDE_FRAME_LAST);
          self->n_frames[frame->type]++;
          self->is_closed = frame->type == SONDE_FRAME_CTRSET && read_counters (self, frame);
          if (frame->type == SONDE_FRAME_SAMPLE && frame->pid == pid)
            self->n_samples_of_pid++;
        }
      self->fault = sonde_reader_fault (reader);
    }
  sonde_reader_free (reader);
  close (fd);
}

static gint64
total_frames (const CaptureSummary *self)
{
  gint64 total = 0;

  for (guint type = 0; type < SONDE_FRAME_LAST; type++)
    total += (gint64) self->n_frames[type];
  return total;
}

void
capture_summary_assert_whole (const CaptureSummary *self)
{
  const gint64 *ledger = self->ledger;

  g_assert_cmpint (self->status, ==, 0);
  g_assert_true (self->is_closed);
  g_assert_cmpuint (self->n_samples_of_pid, >, 0);
  g_assert_cmpuint (self->n_frames[SONDE_FRAME_METADATA], >, 0);
  g_assert_cmpuint (self->n_frames[SONDE_FRAME_PROCESS], >, 0);
  g_assert_cmpuint (self->n_frames[SONDE_FRAME_MAP], >, 0);
  g_assert_cmpint (ledger[SONDE_LEDGER_PRODUCED], ==,
                   ledger[SONDE_LEDGER_RECORDED] + ledger[SONDE_LEDGER_LOST_KERNEL]
                       + ledger[SONDE_LEDGER_LOST_RING] + ledger[SONDE_LEDGER_LOST_QUEUE]);
  g_assert_cmpint (ledger[SONDE_LEDGER_STREAM_RECORDED] + ledger[SONDE_LEDGER_STREAM_RESENT], ==,
                   ledger[SONDE_LEDGER_STREAM_DELIVERED] + ledger[SONDE_LEDGER_STREAM_LOST]
                       + ledger[SONDE_LEDGER_STREAM_FILTERED]);
  g_assert_cmpint (ledger[SONDE_LEDGER_STREAM_DELIVERED], ==, total_frames (self));
  g_assert_cmpint (ledger[SONDE_LEDGER_STREAM_SAMPLES], ==, self->n_frames[SONDE_FRAME_SAMPLE]);
}
