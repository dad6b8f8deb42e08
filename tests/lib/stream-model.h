/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells what each sample of a stream means to a reader that knows nothing else. */
#pragma once

#include <glib.h>
#include <string.h>

#include "protocol/reader.h"
#include "tests/lib/stream-summary.h"

typedef struct
{
  guint64 start;
  guint64 end;
  guint64 offset;
  char path[128];
} StreamMap;

typedef struct
{
  char *name;   /* its last PROCESS frame; NULL: none */
  GArray *maps; /* StreamMap, in order of arrival: the newest that holds an address counts */
  gboolean has_exited;
} StreamProcess;

typedef struct
{
  gint64 time_ns;
  gint32 pid;
  char *meaning; /* name of the process, then for each address its mapping or JIT name */
} StreamSample;

typedef struct
{
  GHashTable *processes; /* pid → StreamProcess */
  GHashTable *names;     /* address → JIT name */
  GPtrArray *samples;    /* StreamSample, in the stream's order */
} StreamModel;

static inline void
stream_process_free (gpointer data)
{
  StreamProcess *process = data;

  g_free (process->name);
  g_array_unref (process->maps);
  g_free (process);
}

static inline void
stream_sample_free (gpointer data)
{
  StreamSample *sample = data;

  g_free (sample->meaning);
  g_free (sample);
}

static inline StreamProcess *
stream_model_process (StreamModel *self, gint32 pid)
{
  StreamProcess *process = g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));

  if (process == NULL)
    {
      process = g_new0 (StreamProcess, 1);
      process->maps = g_array_new (FALSE, FALSE, sizeof (StreamMap));
      g_hash_table_insert (self->processes, GINT_TO_POINTER (pid), process);
    }
  return process;
}

static inline void
stream_model_map (StreamModel *self, const SondeFrameMap *frame)
{
  StreamMap map = { .start = frame->start, .end = frame->end, .offset = frame->offset };

  g_strlcpy (map.path, frame->path, sizeof map.path);
  g_array_append_val (stream_model_process (self, frame->frame.pid)->maps, map);
}

static inline void
stream_model_jitmap (StreamModel *self, const SondeFrameJitmap *frame)
{
  const guint8 *at = frame->data;

  for (guint i = 0; i < frame->n_names; i++)
    {
      const char *name = (const char *) at + sizeof (guint64);
      guint64 address;

      memcpy (&address, at, sizeof address);
      g_hash_table_insert (self->names, g_memdup2 (&address, sizeof address), g_strdup (name));
      at += sizeof address + strlen (name) + 1;
    }
}

static inline void
stream_model_append (const StreamModel *self,
                     const StreamProcess *process,
                     guint64 address,
                     GString *text)
{
  const char *name = g_hash_table_lookup (self->names, &address);

  if (name != NULL)
    {
      g_string_append_printf (text, " %s", name);
      return;
    }
  for (guint i = process->maps->len; i > 0; i--)
    {
      const StreamMap *map = &g_array_index (process->maps, StreamMap, i - 1);

      if (address < map->start || address >= map->end)
        continue;
      g_string_append_printf (text, " %s+%" G_GINT64_MODIFIER "x", map->path,
                              address - map->start + map->offset);
      return;
    }
  g_string_append_printf (text, " ?%" G_GINT64_MODIFIER "x", address);
}

static inline void
stream_model_sample (StreamModel *self, const SondeFrameSample *frame)
{
  const StreamProcess *process = stream_model_process (self, frame->frame.pid);
  StreamSample *sample = g_new0 (StreamSample, 1);
  GString *text = g_string_new (process->name != NULL ? process->name : "?");

  for (guint i = 0; i < frame->n_addrs; i++)
    if (frame->addrs[i] < (guint64) -4095)
      stream_model_append (self, process, frame->addrs[i], text);
  sample->time_ns = frame->frame.time_ns;
  sample->pid = frame->frame.pid;
  sample->meaning = g_string_free (text, FALSE);
  g_ptr_array_add (self->samples, sample);
}

static inline void
stream_model_add (StreamModel *self, const SondeFrame *frame)
{
  StreamProcess *process;

  switch (frame->type)
    {
    case SONDE_FRAME_PROCESS:
      process = stream_model_process (self, frame->pid);
      process->has_exited = FALSE;
      g_free (process->name);
      process->name = g_strdup (((const SondeFrameProcess *) frame)->cmdline);
      break;
    case SONDE_FRAME_FORK:
      stream_model_process (self, ((const SondeFrameFork *) frame)->child)->has_exited = FALSE;
      break;
    case SONDE_FRAME_EXIT:
      stream_model_process (self, frame->pid)->has_exited = TRUE;
      break;
    case SONDE_FRAME_MAP:
      stream_model_map (self, (const SondeFrameMap *) frame);
      break;
    case SONDE_FRAME_JITMAP:
      stream_model_jitmap (self, (const SondeFrameJitmap *) frame);
      break;
    case SONDE_FRAME_SAMPLE:
      stream_model_sample (self, (const SondeFrameSample *) frame);
      break;
    default: /* says nothing about samples */
      break;
    }
}

/* @stream: whole, and kept */
static inline StreamModel *
stream_model_new (const GByteArray *stream)
{
  StreamModel *self = g_new0 (StreamModel, 1);
  g_autoptr (GByteArray) left = g_byte_array_new ();
  SondeReader *reader = NULL;
  const SondeFrame *frame;
  int r;

  self->processes = g_hash_table_new_full (NULL, NULL, NULL, stream_process_free);
  self->names = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, g_free);
  self->samples = g_ptr_array_new_with_free_func (stream_sample_free);
  g_byte_array_append (left, stream->data, stream->len);
  g_assert_cmpint (sonde_reader_new (stream_source, left, &reader), ==, 0);
  while ((r = sonde_reader_next (reader, &frame)) == 1)
    stream_model_add (self, frame);
  g_assert_cmpint (r, ==, 0);
  sonde_reader_free (reader);
  return self;
}

static inline void
stream_model_free (StreamModel *self)
{
  g_hash_table_unref (self->processes);
  g_hash_table_unref (self->names);
  g_ptr_array_unref (self->samples);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (StreamModel, stream_model_free)
