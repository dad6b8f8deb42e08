/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/tally.h"

#define NS_PER_SECOND 1e9
#define MAX_EVENTS    ((guint64) G_MAXINT64)

static const char *const descriptions[SONDE_N_LEDGER] = {
  "samples the kernel made",
  "samples that became frames",
  "samples lost: the kernel's ring was full",
  "samples lost: malformed in the ring",
  "samples lost: a later stage could not take them",
  "events the profiled programs made",
  "events that became frames",
  "events lost: a program's ring was full",
  "events the session does not take",
  "frames recorded while this stream was open",
  "frames made for this stream alone",
  "frames put into this stream",
  "frames lost: this stream's queue was full",
  "frames this stream did not ask for",
  "samples put into this stream",
  "samples lost: this stream's queue was full",
  "samples this stream did not ask for",
  "samples recorded before this stream was opened",
  "events put into this stream",
  "events lost: this stream's queue was full",
  "events this stream did not ask for",
  "events recorded before this stream was opened",
};

void
sonde_tally_sample_read (SondeTally *self)
{
  self->values[SONDE_LEDGER_PRODUCED]++;
}

void
sonde_tally_set_lost_kernel (SondeTally *self, guint64 n)
{
  guint64 *lost = &self->values[SONDE_LEDGER_LOST_KERNEL];

  if (n <= *lost)
    return;
  self->values[SONDE_LEDGER_PRODUCED] += n - *lost;
  *lost = n;
}

void
sonde_tally_event (SondeTally *self, SondeLedger fate, guint64 n)
{
  /* Programs may claim to have lost anything; sums stay sums. */
  n = MIN (n, MAX_EVENTS - MIN (self->values[SONDE_LEDGER_EVENTS_PRODUCED], MAX_EVENTS));
  self->values[SONDE_LEDGER_EVENTS_PRODUCED] += n;
  self->values[fate] += n;
}

void
sonde_tally_write_definitions (SondeWriter *writer, const SondeFrameOrigin *origin)
{
  SondeCounter counters[SONDE_N_LEDGER] = { 0 };

  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    {
      counters[i].category = SONDE_LEDGER_CATEGORY;
      counters[i].name = sonde_ledger_name ((SondeLedger) i);
      counters[i].description = descriptions[i];
      counters[i].id = i + 1;
      counters[i].type = SONDE_COUNTER_INT64;
    }
  sonde_writer_add_counter_define (writer, origin, counters, SONDE_N_LEDGER);
}

void
sonde_tally_write_values (SondeWriter *writer,
                          const SondeFrameOrigin *origin,
                          const guint64 values[SONDE_N_LEDGER])
{
  uint32_t ids[SONDE_N_LEDGER];
  SondeCounterValue set[SONDE_N_LEDGER];

  for (guint i = 0; i < SONDE_N_LEDGER; i++)
    {
      ids[i] = i + 1;
      set[i].v64 = (int64_t) values[i];
    }
  sonde_writer_add_counter_set (writer, origin, ids, set, SONDE_N_LEDGER);
}

char *
sonde_tally_describe_losses (const SondeTally *self,
                             const SondeTally *before,
                             gint64 from_ns,
                             gint64 to_ns)
{
  static const struct
  {
    unsigned statistic;
    const char *what;
  } kinds[] = {
    { SONDE_LEDGER_LOST_KERNEL, "samples in the kernel's ring" },
    { SONDE_LEDGER_LOST_RING, "samples refused by the decoder" },
    { SONDE_LEDGER_LOST_QUEUE, "samples before the recorder" },
    { SONDE_LEDGER_EVENTS_LOST_RING, "events in rings of programs" },
    { SONDE_LEDGER_EVENTS_REFUSED, "events that this session does not take" },
    { SONDE_STATISTIC_RINGS_REFUSED, "threads' events, all of each, which got no ring" },
    { SONDE_STATISTIC_WALKS_LOST, "walks and names of interpreted programs in the kernel's ring" },
    { SONDE_STATISTIC_LOST_SIDEBAND, "records of mappings in the kernel's ring (read again)" },
  };
  guint64 n_throttled
      = self->values[SONDE_STATISTIC_THROTTLED] - before->values[SONDE_STATISTIC_THROTTLED];
  g_autoptr (GString) text = NULL; /* asked for each second, and nearly always without an answer */

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      guint64 n = self->values[kinds[i].statistic] - before->values[kinds[i].statistic];

      if (n == 0)
        continue;
      if (text == NULL)
        text = g_string_new ("Lost ");
      else
        g_string_append (text, ", ");
      g_string_append_printf (text, "%" G_GUINT64_FORMAT " %s", n, kinds[i].what);
    }
  /* What was not counted then nobody knows. */
  if (n_throttled != 0)
    {
      if (text == NULL)
        text = g_string_new ("The kernel held events back ");
      else
        g_string_append (text, ", and the kernel held events back ");
      g_string_append_printf (text, "%" G_GUINT64_FORMAT " times, as too frequent,", n_throttled);
    }
  if (text == NULL)
    return NULL;

  g_string_append_printf (text, " between %.3f s and %.3f s", (double) from_ns / NS_PER_SECOND,
                          (double) to_ns / NS_PER_SECOND);
  return g_string_free (g_steal_pointer (&text), FALSE);
}
