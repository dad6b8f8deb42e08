/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/worker/flight-recorder.h"

#include <errno.h>

#include "base/fd.h"
#include "daemon/capture/names/symbolizer.h"

#define WAIT_NS (400 * G_GINT64_CONSTANT (1000000)) /* for records that wait for files */

struct SondeFlightRecorder
{
  SondeFlightRecorderParts parts;
  SondeFlightRecorderDone done;
  gpointer user_data;
  SondeSampledAddresses *addresses; /* of the newest segment, which has them; NULL: none are */
  SondeSampledAddresses *kept;      /* of segments that have gone, for who still has frames of them;
                                       NULL: nobody yet */
  GArray *asks;                     /* Ask: not begun */
  GPtrArray *snapshots;             /* Snapshot: being written */
  guint reap_source;
  gboolean is_over;
};

typedef struct
{
  guint64 request_id;
  guint64 max_bytes;
  gint64 asked_ns;
  int fd;
} Ask;

typedef struct
{
  SondeFlightRecorder *owner;
  guint64 request_id;
  SondeTally tally; /* of its moment */
  SondeSinkSource source;
  SondeSink *sink;
  SondeSampledAddresses *addresses; /* NULL: nothing is to be named */
  GArray *late_names;
  SondeSymbolizer *symbolizer;
  gboolean is_told;
} Snapshot;

/* --- names --- */

/* Heap events of a segment refer to nothing before it. */
static void
prepare_segment (gpointer user_data)
{
  SondeFlightRecorder *self = user_data;

  sonde_inferiors_reader_comes (self->parts.inferiors);
}

static gpointer
begin_segment (gpointer user_data)
{
  SondeFlightRecorder *self = user_data;

  if (self->addresses == NULL)
    self->addresses = self->parts.addresses;
  else
    {
      SondeSampledAddresses *before = self->addresses;

      self->addresses = sonde_sampled_addresses_new_beside (before);
      sonde_sampled_addresses_end (before);
      sonde_sampler_set_addresses (self->parts.sampler, self->addresses);
    }
  return self->addresses;
}

static gsize
measure_segment (gpointer item, gpointer user_data)
{
  return item != NULL ? sonde_sampled_addresses_bytes (item) : 0;
}

/* Who reads along has frames of it, and a stack of heap events may be told long before it is meant
 * again. */
static gboolean
needs_all_names (const SondeFlightRecorder *self)
{
  return self->parts.asked->memory != SONDE_MEMORY_OFF
         || sonde_recorder_is_watched (self->parts.recorder);
}

static void
end_segment (gpointer item, gpointer user_data)
{
  SondeFlightRecorder *self = user_data;

  if (item != NULL && self->kept == NULL && !self->is_over && needs_all_names (self))
    self->kept = sonde_sampled_addresses_new_beside (item);
  if (item != NULL && self->kept != NULL && !self->is_over)
    sonde_sampled_addresses_absorb (self->kept, item);
  sonde_sampled_addresses_free (item);
}

static void
absorb_segment (gpointer item, gpointer user_data)
{
  sonde_sampled_addresses_absorb (user_data, item);
}

/* (transfer full) (nullable): all that are known */
static SondeSampledAddresses *
gather_addresses (const SondeFlightRecorder *self)
{
  SondeSampledAddresses *all;

  if (self->addresses == NULL)
    return NULL;
  all = sonde_sampled_addresses_new_beside (self->addresses);
  if (self->kept != NULL)
    sonde_sampled_addresses_absorb (all, self->kept);
  sonde_window_foreach (sonde_recorder_window (self->parts.recorder), absorb_segment, all);
  return all;
}

/* --- snapshots --- */

static void
snapshot_free (gpointer data)
{
  Snapshot *snapshot = data;

  sonde_symbolizer_free (snapshot->symbolizer);
  sonde_sampled_addresses_free (snapshot->addresses);
  g_clear_pointer (&snapshot->late_names, g_array_unref);
  sonde_sink_free (snapshot->sink);
  g_free (snapshot);
}

static void
tell (Snapshot *snapshot, int status)
{
  SondeFlightRecorder *self = snapshot->owner;

  if (!snapshot->is_told)
    self->done (snapshot->request_id, status, self->user_data);
  snapshot->is_told = TRUE;
}

static gboolean
on_reap (gpointer user_data)
{
  SondeFlightRecorder *self = user_data;

  self->reap_source = 0;
  for (guint i = self->snapshots->len; i > 0; i--)
    if (((const Snapshot *) g_ptr_array_index (self->snapshots, i - 1))->is_told)
      g_ptr_array_remove_index (self->snapshots, i - 1);
  return G_SOURCE_REMOVE;
}

/* Called from within the sink. */
static void
on_closed (SondeSink *sink, int reason, gpointer user_data)
{
  Snapshot *snapshot = user_data;
  SondeFlightRecorder *self = snapshot->owner;

  tell (snapshot, reason);
  if (self->reap_source == 0)
    self->reap_source = g_idle_add_full (G_PRIORITY_DEFAULT, on_reap, self, NULL);
}

/* @symbols: (nullable) */
static void
on_named (GBytes *symbols, gpointer user_data)
{
  Snapshot *snapshot = user_data;

  g_clear_pointer (&snapshot->symbolizer, sonde_symbolizer_free);
  sonde_sink_finish (snapshot->sink, symbols);
}

/* @fd: (transfer full) */
static void
begin_snapshot (SondeFlightRecorder *self, guint64 request_id, int fd, guint64 max_bytes)
{
  const SondeMessageSink options = { .sink_id = 1,
                                     .kind = SONDE_SINK_FILE,
                                     .buffer_size_bytes = 2 * SONDE_CHUNK_SIZE,
                                     .frames = SONDE_SINK_FRAMES_ALL,
                                     .max_bytes = max_bytes,
                                     .is_last = TRUE };
  SondeWindow *window = sonde_recorder_window (self->parts.recorder);
  Snapshot *snapshot = g_new0 (Snapshot, 1);

  snapshot->owner = self;
  snapshot->request_id = request_id;
  snapshot->source = *sonde_recorder_source (self->parts.recorder);
  snapshot->tally = *snapshot->source.tally;
  snapshot->source.tally = &snapshot->tally;
  snapshot->source.closed = on_closed;
  snapshot->source.user_data = snapshot;
  snapshot->sink = sonde_sink_new (fd, &options, &snapshot->source);
  g_ptr_array_add (self->snapshots, snapshot);
  if (snapshot->sink == NULL)
    {
      on_closed (NULL, EBADF, snapshot);
      return;
    }
  sonde_sink_give (snapshot->sink, sonde_window_freeze (window, sonde_stream_now_ns ()));
  snapshot->addresses = gather_addresses (self);
  if (snapshot->addresses == NULL)
    {
      sonde_sink_finish (snapshot->sink, NULL);
      return;
    }
  snapshot->late_names = sonde_jit_names_dup_late (self->parts.jit_names);
  snapshot->symbolizer
      = sonde_symbolizer_start (snapshot->addresses, snapshot->late_names, on_named, snapshot);
  sonde_sink_pump (snapshot->sink);
}

static void
clear_ask (gpointer data)
{
  sonde_clear_fd (&((Ask *) data)->fd);
}

void
sonde_flight_recorder_ask (
    SondeFlightRecorder *self, guint64 request_id, int fd, guint64 max_bytes, gint64 now_ns)
{
  const Ask ask
      = { .request_id = request_id, .max_bytes = max_bytes, .asked_ns = now_ns, .fd = fd };

  g_array_append_val (self->asks, ask);
}

gboolean
sonde_flight_recorder_is_asked (const SondeFlightRecorder *self)
{
  return self != NULL && self->asks->len > 0;
}

gboolean
sonde_flight_recorder_is_due (const SondeFlightRecorder *self, gint64 taken_ns, gint64 now_ns)
{
  gint64 asked_ns;

  if (!sonde_flight_recorder_is_asked (self))
    return FALSE;
  asked_ns = g_array_index (self->asks, Ask, 0).asked_ns;
  return taken_ns >= asked_ns || now_ns >= asked_ns + WAIT_NS;
}

void
sonde_flight_recorder_begin (SondeFlightRecorder *self, gint64 taken_ns, gint64 now_ns)
{
  prepare_segment (self);
  sonde_recorder_flush (self->parts.recorder);
  while (sonde_flight_recorder_is_due (self, taken_ns, now_ns))
    {
      Ask *ask = &g_array_index (self->asks, Ask, 0);

      begin_snapshot (self, ask->request_id, sonde_steal_fd (&ask->fd), ask->max_bytes);
      g_array_remove_index (self->asks, 0);
    }
}

/* --- all of it --- */

SondeFlightRecorder *
sonde_flight_recorder_new (const SondeFlightRecorderParts *parts,
                           SondeFlightRecorderDone done,
                           gpointer user_data)
{
  static const SondeWindowHandler handler
      = { prepare_segment, begin_segment, measure_segment, end_segment };
  SondeFlightRecorder *self = g_new0 (SondeFlightRecorder, 1);

  self->parts = *parts;
  self->done = done;
  self->user_data = user_data;
  self->asks = g_array_new (FALSE, FALSE, sizeof (Ask));
  g_array_set_clear_func (self->asks, clear_ask);
  self->snapshots = g_ptr_array_new_with_free_func (snapshot_free);
  sonde_recorder_keep_window (parts->recorder, (gint64) parts->asked->recorder_us * 1000,
                              parts->asked->recorder_bytes, &handler, self);
  return self;
}

void
sonde_flight_recorder_free (SondeFlightRecorder *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->reap_source, g_source_remove);
  self->is_over = TRUE;
  g_ptr_array_unref (self->snapshots);
  g_array_unref (self->asks);
  sonde_recorder_drop_window (self->parts.recorder);
  sonde_sampled_addresses_free (self->kept);
  g_free (self);
}

SondeSampledAddresses *
sonde_flight_recorder_end (SondeFlightRecorder *self)
{
  for (guint i = 0; i < self->snapshots->len; i++)
    tell (g_ptr_array_index (self->snapshots, i), ESHUTDOWN);
  for (guint i = 0; i < self->asks->len; i++)
    self->done (g_array_index (self->asks, Ask, i).request_id, ESHUTDOWN, self->user_data);
  g_array_set_size (self->asks, 0);
  g_ptr_array_set_size (self->snapshots, 0);
  return gather_addresses (self);
}
