/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/top/top-calls.h"

#include <string.h>

typedef struct
{
  gint64 time_ns; /* when it was read */
  SondeFrame *frame;
} Kept;

struct SondeTopCalls
{
  SondeCallsReader *now;
  SondeCallsReader *before; /* all but what is in the queue */
  SondeCallsReader *reset;  /* as it was then; NULL: it knows what was called before the view */
  GHashTable *known;        /* folders, as "sonde/calls/PID-START/", whose first file has come */
  GQueue queue;             /* Kept: the oldest first */
  gsize queue_bytes;
  gint64 begin_ns;
  gint64 before_ns; /* @before is what was known then */
  gint64 reset_ns;
};

SondeTopCalls *
sonde_top_calls_new (gint64 now_ns)
{
  SondeTopCalls *self = g_new0 (SondeTopCalls, 1);

  self->now = sonde_calls_reader_new_small (SONDE_TOP_CALLS_MAX_PATHS);
  self->before = sonde_calls_reader_new_small (SONDE_TOP_CALLS_MAX_PATHS);
  self->reset = sonde_calls_reader_new_small (SONDE_TOP_CALLS_MAX_PATHS);
  self->known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_queue_init (&self->queue);
  self->begin_ns = self->before_ns = self->reset_ns = now_ns;
  return self;
}

static void
kept_free (Kept *kept)
{
  g_free (kept->frame);
  g_free (kept);
}

void
sonde_top_calls_free (SondeTopCalls *self)
{
  if (self == NULL)
    return;
  sonde_calls_reader_free (self->now);
  sonde_calls_reader_free (self->before);
  sonde_calls_reader_free (self->reset);
  g_hash_table_unref (self->known);
  while (!g_queue_is_empty (&self->queue))
    kept_free (g_queue_pop_head (&self->queue));
  g_free (self);
}

static void
pass_oldest (SondeTopCalls *self)
{
  Kept *kept = g_queue_pop_head (&self->queue);

  sonde_calls_reader_add (self->before, kept->frame);
  self->before_ns = kept->time_ns;
  self->queue_bytes -= kept->frame->len;
  kept_free (kept);
}

static const char *
path_of (const SondeFrame *frame)
{
  return ((const SondeFrameFileChunk *) frame)->path;
}

/* The first file of a program that was traced before the view began has all until then. */
static void
take_past (SondeTopCalls *self, const char *folder)
{
  GList *next;

  for (GList *at = self->queue.head; at != NULL; at = next)
    {
      Kept *kept = at->data;

      next = at->next;
      if (!g_str_has_prefix (path_of (kept->frame), folder))
        continue;
      sonde_calls_reader_add (self->before, kept->frame);
      sonde_calls_reader_add (self->reset, kept->frame);
      self->queue_bytes -= kept->frame->len;
      kept_free (kept);
      g_queue_delete_link (&self->queue, at);
    }
}

void
sonde_top_calls_add_frame (SondeTopCalls *self, const SondeFrame *frame, gint64 now_ns)
{
  const char *path = path_of (frame);
  const char *name = strrchr (path, '/');
  const SondeCallsProgram *program;
  Kept *kept;

  sonde_calls_reader_add (self->now, frame);
  program = sonde_calls_reader_program_of (self->now, path);
  if (program == NULL)
    return;
  kept = g_new (Kept, 1);
  *kept = (Kept){ now_ns, g_memdup2 (frame, frame->len) };
  g_queue_push_tail (&self->queue, kept);
  self->queue_bytes += frame->len;
  if (program->begin_ns >= 0)
    {
      g_autofree char *folder = g_strndup (path, (gsize) (name + 1 - path));

      if (!g_hash_table_contains (self->known, folder) && program->begin_ns < self->begin_ns)
        take_past (self, folder);
      g_hash_table_add (self->known, g_steal_pointer (&folder));
    }
  while (self->queue_bytes > SONDE_TOP_CALLS_MAX_BYTES)
    pass_oldest (self);
}

void
sonde_top_calls_reset (SondeTopCalls *self, gint64 now_ns)
{
  while (!g_queue_is_empty (&self->queue))
    pass_oldest (self);
  sonde_calls_reader_free (self->reset);
  self->reset = sonde_calls_reader_new_since (self->now, NULL);
  self->before_ns = self->reset_ns = now_ns;
}

SondeCallsReader *
sonde_top_calls_select (
    SondeTopCalls *self, gint64 from_ns, gboolean is_all, gint64 now_ns, gint64 *covered_ns)
{
  const Kept *oldest;

  while ((oldest = g_queue_peek_head (&self->queue)) != NULL && oldest->time_ns <= from_ns)
    pass_oldest (self);
  if (sonde_calls_reader_n_programs (self->now) == 0)
    return NULL;
  *covered_ns = now_ns - (is_all ? self->reset_ns : MAX (from_ns, self->before_ns));
  return sonde_calls_reader_new_since (self->now, is_all ? self->reset : self->before);
}
