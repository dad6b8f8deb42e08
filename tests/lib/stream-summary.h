/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts what a stream of the worker holds, once it has ended. */
#pragma once

#include <glib.h>
#include <string.h>
#include <sys/socket.h>

#include "protocol/ledger.h"
#include "protocol/reader.h"

#define STREAM_SUMMARY_ADDRS 8

typedef struct
{
  guint n_frames;
  guint n_events;
  guint n_types[SONDE_FRAME_LAST];
  uint8_t last_type;
  guint n_addrs; /* of the last sample */
  uint64_t addrs[STREAM_SUMMARY_ADDRS];
  guint n_metadata_before_last_sample;
  GHashTable *names; /* JIT address → name, as far as the stream told */
  char *last_name;   /* of the last address of the last sample, when it was read */
  char *log;         /* the last one */
  GByteArray *file;  /* the embedded files, one behind the other */
  gint64 ledger[SONDE_N_LEDGER];
} StreamSummary;

/* Takes what is in the socket; returns whether the stream has ended. */
static inline gboolean
stream_receive (int fd, GByteArray *stream)
{
  guint8 bytes[65536];
  gssize size_bytes;

  while ((size_bytes = recv (fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
    g_byte_array_append (stream, bytes, (guint) size_bytes);

  return size_bytes == 0;
}

static inline int64_t
stream_source (void *user_data, void *buffer, size_t size_bytes)
{
  GByteArray *left = user_data;
  gsize taken = MIN (size_bytes, left->len);

  memcpy (buffer, left->data, taken);
  g_byte_array_remove_range (left, 0, (guint) taken);

  return (int64_t) taken;
}

static inline void
stream_read_jitmap (StreamSummary *self, const SondeFrame *frame)
{
  const SondeFrameJitmap *jitmap = (const void *) frame;
  const uint8_t *at = jitmap->data;

  for (guint i = 0; i < jitmap->n_names; i++)
    {
      uint64_t address;

      memcpy (&address, at, sizeof address);
      g_hash_table_insert (self->names, g_memdup2 (&address, sizeof address),
                           g_strdup ((const char *) at + sizeof address));
      at += sizeof address + strlen ((const char *) at + sizeof address) + 1;
    }
}

static inline void
stream_read_sample (StreamSummary *self, const SondeFrame *frame)
{
  const SondeFrameSample *sample = (const void *) frame;
  uint64_t last;

  self->n_addrs = sample->n_addrs;
  memcpy (self->addrs, sample->addrs, MIN (self->n_addrs, STREAM_SUMMARY_ADDRS) * sizeof last);
  memcpy (&last, &sample->addrs[sample->n_addrs - 1], sizeof last);
  g_free (self->last_name);
  self->last_name = g_strdup (g_hash_table_lookup (self->names, &last));
  self->n_metadata_before_last_sample = self->n_types[SONDE_FRAME_METADATA];
}

static inline void
stream_read_counters (StreamSummary *self, const SondeFrame *frame)
{
  const SondeFrameCounterSet *set = (const void *) frame;

  for (guint i = 0; i < set->n_groups; i++)
    for (guint j = 0; j < 8; j++)
      if (set->groups[i].ids[j] != 0 && set->groups[i].ids[j] <= SONDE_N_LEDGER)
        self->ledger[set->groups[i].ids[j] - 1] = set->groups[i].values[j].v64;
}

static inline void
stream_read_frame (StreamSummary *self, const SondeFrame *frame)
{
  self->n_frames++;
  self->n_types[frame->type]++;
  self->n_events += sonde_ledger_n_events (frame);
  self->last_type = frame->type;
  if (frame->type == SONDE_FRAME_JITMAP)
    stream_read_jitmap (self, frame);
  if (frame->type == SONDE_FRAME_SAMPLE)
    stream_read_sample (self, frame);
  if (frame->type == SONDE_FRAME_CTRSET)
    stream_read_counters (self, frame);
  if (frame->type == SONDE_FRAME_LOG)
    {
      g_free (self->log);
      self->log = g_strdup (((const SondeFrameLog *) (const void *) frame)->message);
    }
  if (frame->type == SONDE_FRAME_FILE_CHUNK)
    {
      const SondeFrameFileChunk *chunk = (const void *) frame;

      g_byte_array_append (self->file, chunk->data, chunk->data_len);
    }
}

/* Reads a stream that has ended. It must be whole, end with a CTRSET, and its ledger must add up.
 */
static inline StreamSummary *
stream_summary_new (GByteArray *stream)
{
  StreamSummary *self = g_new0 (StreamSummary, 1);
  const gint64 *v = self->ledger;
  SondeReader *reader = NULL;
  const SondeFrame *frame;
  int r;

  self->names = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
  self->file = g_byte_array_new ();
  g_assert_cmpint (sonde_reader_new (stream_source, stream, &reader), ==, 0);
  while ((r = sonde_reader_next (reader, &frame)) == 1)
    stream_read_frame (self, frame);
  g_assert_cmpint (r, ==, 0);
  sonde_reader_free (reader);

  g_assert_cmpuint (self->last_type, ==, SONDE_FRAME_CTRSET);
  g_assert_cmpint (v[SONDE_LEDGER_PRODUCED], ==,
                   v[SONDE_LEDGER_RECORDED] + v[SONDE_LEDGER_LOST_KERNEL]
                       + v[SONDE_LEDGER_LOST_RING] + v[SONDE_LEDGER_LOST_QUEUE]);
  g_assert_cmpint (v[SONDE_LEDGER_STREAM_RECORDED] + v[SONDE_LEDGER_STREAM_RESENT], ==,
                   v[SONDE_LEDGER_STREAM_DELIVERED] + v[SONDE_LEDGER_STREAM_LOST]
                       + v[SONDE_LEDGER_STREAM_FILTERED]);
  g_assert_cmpint (v[SONDE_LEDGER_STREAM_DELIVERED], ==, self->n_frames);
  g_assert_cmpint (v[SONDE_LEDGER_EVENTS_PRODUCED], ==,
                   v[SONDE_LEDGER_EVENTS_RECORDED] + v[SONDE_LEDGER_EVENTS_LOST_RING]
                       + v[SONDE_LEDGER_EVENTS_REFUSED]);
  g_assert_cmpint (v[SONDE_LEDGER_EVENTS_RECORDED], ==,
                   v[SONDE_LEDGER_STREAM_EVENTS] + v[SONDE_LEDGER_STREAM_EVENTS_LOST]
                       + v[SONDE_LEDGER_STREAM_EVENTS_FILTERED]
                       + v[SONDE_LEDGER_STREAM_EVENTS_BEFORE]);
  g_assert_cmpint (v[SONDE_LEDGER_STREAM_EVENTS], ==, self->n_events);
  g_assert_cmpint (v[SONDE_LEDGER_STREAM_SAMPLES], ==, self->n_types[SONDE_FRAME_SAMPLE]);
  g_assert_cmpint (v[SONDE_LEDGER_RECORDED], ==,
                   v[SONDE_LEDGER_STREAM_SAMPLES] + v[SONDE_LEDGER_STREAM_SAMPLES_LOST]
                       + v[SONDE_LEDGER_STREAM_SAMPLES_FILTERED]
                       + v[SONDE_LEDGER_STREAM_SAMPLES_BEFORE]);

  return self;
}

static inline void
stream_summary_free (StreamSummary *self)
{
  g_hash_table_unref (self->names);
  g_byte_array_unref (self->file);
  g_free (self->last_name);
  g_free (self->log);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (StreamSummary, stream_summary_free)
