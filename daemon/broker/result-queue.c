/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a broker's results from the main loop, in their order. */
#include "daemon/broker/result-queue.h"

#include <string.h>

#include "base/fd.h"

typedef struct
{
  SondeResultKind kind;
  GError *error;
  gpointer bytes; /* a message, or a text */
  gsize size_bytes;
  unsigned n_fds;
  int fds[]; /* -1: taken */
} Result;

struct SondeResultQueue
{
  const SondeBrokerResults *results;
  gpointer user_data;
  GQueue waiting; /* Result */
  guint source;
  guint n_refs; /* the broker's, and one while something is told */
};

static void
result_free (gpointer data)
{
  Result *result = data;

  g_clear_error (&result->error);
  for (unsigned i = 0; i < result->n_fds; i++)
    sonde_clear_fd (&result->fds[i]);
  g_free (result->bytes);
  g_free (result);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Result, result_free)

SondeResultQueue *
sonde_result_queue_new (const SondeBrokerResults *results, gpointer user_data)
{
  SondeResultQueue *self = g_new0 (SondeResultQueue, 1);

  self->results = results;
  self->user_data = user_data;
  self->n_refs = 1;
  g_queue_init (&self->waiting);
  return self;
}

static void
unref (SondeResultQueue *self)
{
  if (--self->n_refs == 0)
    g_free (self);
}

void
sonde_result_queue_free (SondeResultQueue *self)
{
  if (self == NULL)
    return;
  g_clear_handle_id (&self->source, g_source_remove);
  g_queue_clear_full (&self->waiting, result_free);
  unref (self);
}

/* @self may be freed in here. */
static void
tell (SondeResultQueue *self, Result *result)
{
  const SondeBrokerResults *results = self->results;
  unsigned n_fds = result->n_fds;

  switch (result->kind)
    {
    case SONDE_RESULT_PROVED:
      results->proved (result->error, self->user_data);
      break;
    case SONDE_RESULT_OPENED:
      results->opened (result->error, self->user_data);
      break;
    case SONDE_RESULT_ADDED:
      results->added (result->error, self->user_data);
      break;
    case SONDE_RESULT_FAILED:
      results->failed (result->error, self->user_data);
      break;
    case SONDE_RESULT_ALL_ENDED:
      results->all_ended (self->user_data);
      break;
    case SONDE_RESULT_CHANGED:
      results->changed (FALSE, self->user_data);
      break;
    case SONDE_RESULT_RINGS_CHANGED:
      results->changed (TRUE, self->user_data);
      break;
    case SONDE_RESULT_MESSAGE:
      result->n_fds = 0;
      results->message (result->bytes, result->size_bytes, result->fds, n_fds, self->user_data);
      break;
    case SONDE_RESULT_NOTE:
      results->note (result->bytes, self->user_data);
      break;
    default:
      g_assert_not_reached ();
    }
}

/* What is told may bring more: that is told at once, too, so that it cannot pile up. */
static gboolean
on_waiting (gpointer user_data)
{
  SondeResultQueue *self = user_data;

  self->n_refs++;
  while (!g_queue_is_empty (&self->waiting))
    {
      g_autoptr (Result) result = g_queue_pop_head (&self->waiting);

      tell (self, result);
    }
  self->source = 0;
  unref (self);
  return G_SOURCE_REMOVE;
}

static void
append (SondeResultQueue *self, Result *result)
{
  g_queue_push_tail (&self->waiting, result);
  if (self->source == 0)
    self->source = g_idle_add_full (G_PRIORITY_DEFAULT, on_waiting, self, NULL);
}

void
sonde_result_queue_message (
    SondeResultQueue *self, gpointer message, gsize size_bytes, const int *fds, unsigned n_fds)
{
  Result *result = g_malloc0 (sizeof *result + n_fds * sizeof fds[0]);

  ((SondeMessageHeader *) message)->size = (guint32) size_bytes;
  result->kind = SONDE_RESULT_MESSAGE;
  result->bytes = g_memdup2 (message, size_bytes);
  result->size_bytes = size_bytes;
  result->n_fds = n_fds;
  for (unsigned i = 0; i < n_fds; i++)
    result->fds[i] = fds[i];
  append (self, result);
}

void
sonde_result_queue_note (SondeResultQueue *self, const char *text)
{
  Result *result = g_new0 (Result, 1);

  result->kind = SONDE_RESULT_NOTE;
  result->bytes = g_strdup (text);
  append (self, result);
}

void
sonde_result_queue_push (SondeResultQueue *self, SondeResultKind kind, GError *error)
{
  Result *result = g_new0 (Result, 1);

  result->kind = kind;
  result->error = error;
  append (self, result);
}
