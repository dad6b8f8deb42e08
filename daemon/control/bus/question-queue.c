/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/control/bus/question-queue.h"

/* Of one uid; it lives as long as it has a place. */
typedef struct
{
  SondeQuestionQueue *queue;
  uid_t uid;
  GQueue waiting; /* SondeQuestionPlace */
  guint n_open;
  gboolean has_turn; /* is in the queue's turns */
} Line;

struct SondeQuestionPlace
{
  Line *line;
  gpointer question;
  gboolean is_open;
};

struct SondeQuestionQueue
{
  guint max_open;
  guint max_open_per_uid;
  void (*put) (gpointer question);
  guint n_open;
  GHashTable *lines; /* uid → Line */
  GQueue turns;      /* Line: those with a question that may be put, whose turn is next first */
};

SondeQuestionQueue *
sonde_question_queue_new (guint max_open, guint max_open_per_uid, void (*put) (gpointer question))
{
  SondeQuestionQueue *self = g_new0 (SondeQuestionQueue, 1);

  self->max_open = max_open;
  self->max_open_per_uid = max_open_per_uid;
  self->put = put;
  self->lines = g_hash_table_new (NULL, NULL);
  return self;
}

void
sonde_question_queue_free (SondeQuestionQueue *self)
{
  if (self == NULL)
    return;
  g_assert (g_hash_table_size (self->lines) == 0);
  g_hash_table_unref (self->lines);
  g_free (self);
}

/* After each change of @line: gives it a turn behind all others, takes its turn back, or frees it.
 */
static void
update_line (Line *line)
{
  SondeQuestionQueue *self = line->queue;
  gboolean may_put = line->waiting.length > 0 && line->n_open < self->max_open_per_uid;

  if (may_put && !line->has_turn)
    g_queue_push_tail (&self->turns, line);
  else if (!may_put && line->has_turn)
    g_queue_remove (&self->turns, line);
  line->has_turn = may_put;

  if (line->waiting.length == 0 && line->n_open == 0)
    {
      g_hash_table_remove (self->lines, GUINT_TO_POINTER (line->uid));
      g_free (line);
    }
}

static Line *
get_line (SondeQuestionQueue *self, uid_t uid)
{
  Line *line = g_hash_table_lookup (self->lines, GUINT_TO_POINTER (uid));

  if (line != NULL)
    return line;
  line = g_new0 (Line, 1);
  line->queue = self;
  line->uid = uid;
  g_hash_table_insert (self->lines, GUINT_TO_POINTER (uid), line);
  return line;
}

SondeQuestionPlace *
sonde_question_queue_enter (SondeQuestionQueue *self, uid_t uid, gpointer question)
{
  SondeQuestionPlace *place = g_new0 (SondeQuestionPlace, 1);

  place->line = get_line (self, uid);
  place->question = question;
  g_queue_push_tail (&place->line->waiting, place);
  update_line (place->line);
  return place;
}

void
sonde_question_queue_advance (SondeQuestionQueue *self)
{
  while (self->n_open < self->max_open && self->turns.length > 0)
    {
      Line *line = g_queue_pop_head (&self->turns);
      SondeQuestionPlace *place = g_queue_pop_head (&line->waiting);

      line->has_turn = FALSE;
      line->n_open++;
      self->n_open++;
      place->is_open = TRUE;
      update_line (line);
      self->put (place->question);
    }
}

gboolean
sonde_question_place_is_open (const SondeQuestionPlace *self)
{
  return self->is_open;
}

void
sonde_question_place_leave (SondeQuestionPlace *self)
{
  Line *line = self->line;

  if (self->is_open)
    {
      line->queue->n_open--;
      line->n_open--;
    }
  else
    g_queue_remove (&line->waiting, self);
  g_free (self);
  update_line (line);
}
