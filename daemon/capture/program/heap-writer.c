/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/heap-writer.h"

/* What times are rounded down to; and how long a segment may be in the worker alone. */
#define TICK_NS    100000
#define SEGMENT_NS G_GINT64_CONSTANT (1000000000)

struct SondeHeapWriter
{
  SondeRecorder *recorder;
  SondeHeapBook *book;
  const char *path;
  guint64 n_missed; /* frames, by readers, when it began anew for that */
  gint64 restarted_ns;
  gint64 restart_ns; /* so long it does not begin anew again: all sums are much to tell */
  gboolean is_cut_told;
  gboolean is_lack_told;
};

static void
take_segment (const uint8_t *bytes, gsize size_bytes, guint n_events, gpointer user_data)
{
  SondeHeapWriter *self = user_data;

  sonde_recorder_segment (self->recorder, self->path, bytes, size_bytes, n_events);
}

SondeHeapWriter *
sonde_heap_writer_new (SondeRecorder *recorder, const SondeAsked *asked)
{
  SondeHeapWriter *self = g_new0 (SondeHeapWriter, 1);

  self->recorder = recorder;
  if (asked->memory_detail == SONDE_MEMORY_DETAIL_SUMS)
    {
      self->path = SONDE_HEAP_SUMS_PATH;
      self->book = sonde_heap_book_new_sums (
          asked->memory == SONDE_MEMORY_SAMPLED ? asked->memory_interval_bytes : 0, take_segment,
          self);
      self->restart_ns = SONDE_HEAP_SUMS_INTERVAL_NS;
    }
  else
    {
      self->path = SONDE_HEAP_LOG_PATH;
      self->book = sonde_heap_book_new (TICK_NS, take_segment, self);
    }
  return self;
}

void
sonde_heap_writer_free (SondeHeapWriter *self)
{
  if (self == NULL)
    return;
  sonde_heap_book_free (self->book);
  g_free (self);
}

SondeHeapBook *
sonde_heap_writer_book (SondeHeapWriter *self)
{
  return self->book;
}

static void
write_old (SondeHeapWriter *self, gint64 now_ns)
{
  guint64 n_missed = sonde_recorder_n_missed (self->recorder);

  sonde_heap_book_flush (self->book, now_ns - SEGMENT_NS);
  if (n_missed == self->n_missed || now_ns - self->restarted_ns < self->restart_ns)
    return;
  sonde_heap_book_restart (self->book, now_ns);
  self->n_missed = n_missed;
  self->restarted_ns = now_ns;
}

static void
tell_losses (SondeHeapWriter *self)
{
  SondeHeapBookLosses losses = sonde_heap_book_losses (self->book);

  if (losses.n_cut > 0 && !self->is_cut_told)
    sonde_recorder_warn (self->recorder, "What is kept of heap events has no room for more stacks: "
                                         "from here on some lack frames");
  if (losses.n_not_followed > 0 && !self->is_lack_told)
    sonde_recorder_warn (self->recorder, "What is kept of heap events has no room for more live "
                                         "blocks: from here on it is not seen that some are freed");
  self->is_cut_told = losses.n_cut > 0;
  self->is_lack_told = losses.n_not_followed > 0;
}

void
sonde_heap_writer_turn (SondeHeapWriter *self, gint64 before_ns, gint64 now_ns)
{
  sonde_heap_book_turn (self->book, before_ns);
  write_old (self, now_ns);
}

gboolean
sonde_heap_writer_count (SondeHeapWriter *self, gint64 now_ns)
{
  write_old (self, now_ns);
  tell_losses (self);
  return sonde_heap_book_has_waiting (self->book);
}

void
sonde_heap_writer_end (SondeHeapWriter *self)
{
  sonde_heap_book_turn (self->book, G_MAXINT64);
  /* The last sums are right for whoever can read them. */
  if (self->restart_ns > 0 && sonde_recorder_n_missed (self->recorder) != self->n_missed)
    sonde_heap_book_restart (self->book, sonde_stream_now_ns ());
  sonde_heap_book_flush (self->book, G_MAXINT64);
  tell_losses (self);
}
