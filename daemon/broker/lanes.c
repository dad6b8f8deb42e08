/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/broker/lanes.h"

#include <errno.h>
#include <fcntl.h>

#include "daemon/base/limits.h"
#include "daemon/base/proc-text.h"

#define SUBUID_PATH "/etc/subuid"

typedef struct
{
  SondeLanes *lanes;
  uid_t uid; /* folded */
  GCond is_asked;
  GQueue waiting;         /* SondeQuestion */
  GQueue current;         /* SondeQuestion: the first is looked into, the others are of its batch */
  gint64 since_us;        /* when that began; 0: nothing is looked into */
  gint64 no_reading_till; /* µs: monotonic */
  gboolean is_stuck;
  SondeQuestion stuck; /* what it was told with */
  gboolean is_ending;  /* its thread frees it, and nobody else knows it any more */
} Lane;

/* What the main loop is to hear from a lane. */
typedef struct
{
  SondeQuestion *question; /* NULL: it is not stuck any more */
  SondeAnswer *answer;
  uid_t uid;
  pid_t pid;
} Result;

struct SondeLanes
{
  gatomicrefcount refs; /* the owner's, and each lane's */
  GMainContext *context;
  SondeProcBroker *broker;
  const SondeLanesHandler *handler;
  gpointer user_data;
  GArray *subuids; /* SondeUidRange */
  guint look;      /* source, while a lane has something to do */

  GMutex lock;      /* of what follows, and of all lanes; never held across a wait */
  GPtrArray *lanes; /* Lane */
  GQueue results;   /* Result */
  GSource *wakeup;  /* while there are any */
};

/* "USER:FIRST:COUNT" */
static gboolean
parse_range (const char *line, SondeUidRange *range, char **user)
{
  g_auto (GStrv) words = g_strsplit (line, ":", -1);
  guint64 first;
  guint64 n;

  if (g_strv_length (words) != 3
      || !g_ascii_string_to_unsigned (words[1], 10, 0, G_MAXUINT32, &first, NULL)
      || !g_ascii_string_to_unsigned (words[2], 10, 1, G_MAXUINT32, &n, NULL))
    return FALSE;
  *range = (SondeUidRange){ .first = (uid_t) first, .n = (guint32) n };
  *user = g_strdup (words[0]);
  return TRUE;
}

GArray *
sonde_subuid_parse (const char *text)
{
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr (GHashTable) first_of = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GArray *ranges = g_array_new (FALSE, FALSE, sizeof (SondeUidRange));

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      g_autofree char *user = NULL;
      SondeUidRange range;
      gpointer known;

      if (!parse_range (lines[i], &range, &user))
        continue;
      range.uid = range.first;
      if (g_hash_table_lookup_extended (first_of, user, NULL, &known))
        range.uid = GPOINTER_TO_UINT (known);
      else
        g_hash_table_insert (first_of, g_steal_pointer (&user), GUINT_TO_POINTER (range.first));
      g_array_append_val (ranges, range);
    }
  return ranges;
}

uid_t
sonde_subuid_fold (const GArray *ranges, uid_t uid)
{
  for (guint i = 0; i < ranges->len; i++)
    {
      const SondeUidRange *range = &g_array_index (ranges, SondeUidRange, i);

      if (uid >= range->first && uid - range->first < range->n)
        return range->uid;
    }
  return uid;
}

static void
result_free (gpointer data)
{
  Result *result = data;

  sonde_question_free (result->question);
  sonde_answer_free (result->answer);
  g_free (result);
}

static void
unref (SondeLanes *self)
{
  if (!g_atomic_ref_count_dec (&self->refs))
    return;
  g_queue_clear_full (&self->results, result_free);
  g_ptr_array_unref (self->lanes);
  sonde_proc_broker_unref (self->broker);
  g_main_context_unref (self->context);
  g_mutex_clear (&self->lock);
  g_array_unref (self->subuids);
  g_free (self);
}

/* --- in the thread of a lane, with the lock --- */

static gboolean
reads_mappings (const SondeLanes *self, const SondeQuestion *question)
{
  return question->kind == SONDE_QUESTION_FILE && !sonde_proc_broker_has_queries (self->broker);
}

static gboolean on_wakeup (gpointer user_data);

/* @question: (transfer full) (nullable); @answer: (transfer full) */
static void
tell (const Lane *lane, SondeQuestion *question, SondeAnswer *answer)
{
  SondeLanes *self = lane->lanes;
  Result *result = g_new0 (Result, 1);

  *result = (Result){ question, answer, lane->stuck.uid, lane->stuck.pid };
  g_queue_push_tail (&self->results, result);
  if (self->wakeup != NULL)
    return;
  self->wakeup = g_idle_source_new ();
  g_source_set_priority (self->wakeup, G_PRIORITY_DEFAULT);
  g_source_set_callback (self->wakeup, on_wakeup, self, NULL);
  g_source_attach (self->wakeup, self->context);
}

/* Moves what is to be looked into next to @lane->current. FALSE: not before no_reading_till */
static gboolean
pick (Lane *lane)
{
  gboolean may_read = g_get_monotonic_time () >= lane->no_reading_till;
  GList *next = lane->waiting.head;
  const SondeQuestion *first;

  while (next != NULL && !may_read && reads_mappings (lane->lanes, next->data))
    next = next->next;
  if (next == NULL)
    return FALSE;
  first = next->data;
  do
    {
      GList *picked = next;

      next = next->next;
      g_queue_unlink (&lane->waiting, picked);
      g_queue_push_tail_link (&lane->current, picked);
      while (next != NULL
             && (((SondeQuestion *) next->data)->pid != first->pid
                 || !reads_mappings (lane->lanes, next->data)))
        next = next->next;
    }
  while (next != NULL && reads_mappings (lane->lanes, first)
         && g_queue_get_length (&lane->current) < SONDE_LIMIT_LANE_BATCH);
  return TRUE;
}

/* The current question; gives the lock away meanwhile. */
static void
look_into (Lane *lane, SondeProcBatch *batch)
{
  SondeLanes *self = lane->lanes;
  SondeQuestion *asked = g_queue_peek_head (&lane->current);
  const SondeQuestion question = *asked;
  g_autoptr (SondeAnswer) answer = NULL;

  /* This thread's, which may be given up with it. */
  asked->opening = NULL;
  lane->since_us = g_get_monotonic_time ();
  g_mutex_unlock (&self->lock);
  answer = self->handler->look (&question, self->broker, batch);
  g_mutex_lock (&self->lock);
  if (!lane->is_stuck && !lane->is_ending)
    tell (lane, g_queue_pop_head (&lane->current), g_steal_pointer (&answer));
  else
    {
      /* Nobody waits for it any more, and it may hold thousands of events. */
      g_mutex_unlock (&self->lock);
      g_clear_pointer (&answer, sonde_answer_free);
      g_mutex_lock (&self->lock);
    }
  lane->since_us = 0;
  if (lane->is_stuck && !lane->is_ending)
    tell (lane, NULL, NULL);
  lane->is_stuck = FALSE;
}

static gpointer
run (gpointer data)
{
  Lane *lane = data;
  SondeLanes *self = lane->lanes;

  g_mutex_lock (&self->lock);
  while (!lane->is_ending)
    {
      g_autoptr (SondeProcBatch) batch = NULL;
      gint64 begin_us = g_get_monotonic_time ();

      if (!pick (lane))
        {
          if (g_queue_is_empty (&lane->waiting))
            g_cond_wait (&lane->is_asked, &self->lock);
          else
            g_cond_wait_until (&lane->is_asked, &self->lock, lane->no_reading_till);
          continue;
        }
      if (reads_mappings (self, g_queue_peek_head (&lane->current)))
        batch = sonde_proc_batch_new ();
      while (!lane->is_ending && !g_queue_is_empty (&lane->current))
        look_into (lane, batch);
      if (batch != NULL)
        {
          gint64 end_us = g_get_monotonic_time ();

          lane->no_reading_till = end_us + (SONDE_LIMIT_LANE_PART - 1) * (end_us - begin_us);
        }
    }
  g_mutex_unlock (&self->lock);
  g_queue_clear_full (&lane->waiting, (GDestroyNotify) sonde_question_free);
  g_queue_clear_full (&lane->current, (GDestroyNotify) sonde_question_free);
  g_cond_clear (&lane->is_asked);
  g_free (lane);
  unref (self);
  return NULL;
}

/* --- in the main loop --- */

static gboolean
on_wakeup (gpointer user_data)
{
  SondeLanes *self = user_data;
  GQueue results;

  g_mutex_lock (&self->lock);
  results = self->results;
  g_queue_init (&self->results);
  g_clear_pointer (&self->wakeup, g_source_unref);
  g_mutex_unlock (&self->lock);
  while (!g_queue_is_empty (&results))
    {
      Result *result = g_queue_pop_head (&results);

      if (result->question != NULL)
        self->handler->answered (result->question, g_steal_pointer (&result->answer),
                                 self->user_data);
      else
        self->handler->stuck (result->uid, result->pid, TRUE, self->user_data);
      result_free (result);
    }
  return G_SOURCE_REMOVE;
}

static void
refuse (SondeLanes *self, const SondeQuestion *question, int status)
{
  self->handler->answered (question, sonde_question_refuse (question, status), self->user_data);
}

static gboolean
on_look (gpointer user_data)
{
  SondeLanes *self = user_data;
  gint64 overdue_us = g_get_monotonic_time () - SONDE_LIMIT_LANE_MS * G_GINT64_CONSTANT (1000);
  g_autoptr (GArray) stuck = g_array_new (FALSE, FALSE, sizeof (SondeQuestion));
  GQueue refused = G_QUEUE_INIT;
  gboolean is_any_busy = FALSE;
  SondeQuestion *question;

  g_mutex_lock (&self->lock);
  for (guint i = 0; i < self->lanes->len; i++)
    {
      Lane *lane = g_ptr_array_index (self->lanes, i);

      is_any_busy = is_any_busy || lane->since_us != 0 || !g_queue_is_empty (&lane->waiting);
      if (lane->since_us == 0 || lane->since_us > overdue_us || lane->is_stuck)
        continue;
      lane->is_stuck = TRUE;
      lane->stuck = *(const SondeQuestion *) g_queue_peek_head (&lane->current);
      g_array_append_val (stuck, lane->stuck);
      while ((question = g_queue_pop_head (&lane->current)) != NULL
             || (question = g_queue_pop_head (&lane->waiting)) != NULL)
        g_queue_push_tail (&refused, question);
    }
  if (!is_any_busy)
    self->look = 0;
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < stuck->len; i++)
    {
      const SondeQuestion *first = &g_array_index (stuck, SondeQuestion, i);

      self->handler->stuck (first->uid, first->pid, FALSE, self->user_data);
    }
  while ((question = g_queue_pop_head (&refused)) != NULL)
    {
      refuse (self, question, ETIMEDOUT);
      sonde_question_free (question);
    }
  return is_any_busy;
}

/* Its thread ends, once the kernel lets it. */
static void
give_up (SondeLanes *self, Lane *lane)
{
  lane->is_ending = TRUE;
  g_cond_signal (&lane->is_asked);
  g_ptr_array_remove_fast (self->lanes, lane);
}

/* With the lock. Returns: NULL if there is room for no more */
static Lane *
find_or_start (SondeLanes *self, uid_t uid)
{
  Lane *idle = NULL;
  Lane *lane;
  GThread *thread;

  for (guint i = 0; i < self->lanes->len; i++)
    {
      lane = g_ptr_array_index (self->lanes, i);
      if (lane->uid == uid)
        return lane;
      if (lane->since_us == 0 && g_queue_is_empty (&lane->waiting)
          && g_queue_is_empty (&lane->current))
        idle = lane;
    }
  if (self->lanes->len >= SONDE_LIMIT_LANES && idle == NULL)
    return NULL;
  if (self->lanes->len >= SONDE_LIMIT_LANES)
    give_up (self, idle);
  lane = g_new0 (Lane, 1);
  lane->lanes = self;
  lane->uid = uid;
  g_cond_init (&lane->is_asked);
  g_atomic_ref_count_inc (&self->refs);
  thread = g_thread_try_new ("sonde-lane", run, lane, NULL);
  if (thread == NULL)
    {
      g_atomic_ref_count_dec (&self->refs);
      g_cond_clear (&lane->is_asked);
      g_free (lane);
      return NULL;
    }
  g_thread_unref (thread);
  g_ptr_array_add (self->lanes, lane);
  return lane;
}

/* Of targets and of what is opened, only so many are asked about. */
static gboolean
is_of_worker (const SondeQuestion *question)
{
  return question->kind != SONDE_QUESTION_OPEN && question->kind != SONDE_QUESTION_TARGET;
}

static guint
count_of_worker (const Lane *lane)
{
  guint n = 0;

  for (const GList *at = lane->waiting.head; at != NULL; at = at->next)
    n += (guint) is_of_worker (at->data);
  return n;
}

void
sonde_lanes_ask (SondeLanes *self, const SondeQuestion *question)
{
  SondeQuestion *copy = g_memdup2 (question, sizeof *question);
  int status = 0;
  Lane *lane;

  g_mutex_lock (&self->lock);
  lane = find_or_start (self, sonde_subuid_fold (self->subuids, question->uid));
  if (lane == NULL
      || (is_of_worker (question) && count_of_worker (lane) >= SONDE_LIMIT_LANE_QUESTIONS))
    status = EAGAIN;
  else if (lane->is_stuck)
    status = ETIMEDOUT;
  else
    {
      g_queue_push_tail (&lane->waiting, copy);
      g_cond_signal (&lane->is_asked);
      if (self->look == 0)
        self->look = g_timeout_add (SONDE_LIMIT_LANE_LOOK_MS, on_look, self);
    }
  g_mutex_unlock (&self->lock);
  if (status == 0)
    return;
  refuse (self, copy, status);
  sonde_question_free (copy);
}

SondeLanes *
sonde_lanes_new (SondeProcBroker *broker, const SondeLanesHandler *handler, gpointer user_data)
{
  SondeLanes *self = g_new0 (SondeLanes, 1);
  g_autofree char *subuids = sonde_proc_text_read (AT_FDCWD, SUBUID_PATH, SONDE_LIMIT_SUBUID_BYTES);

  g_atomic_ref_count_init (&self->refs);
  self->context = g_main_context_ref_thread_default ();
  self->broker = sonde_proc_broker_ref (broker);
  self->handler = handler;
  self->user_data = user_data;
  self->subuids = sonde_subuid_parse (subuids != NULL ? subuids : "");
  self->lanes = g_ptr_array_new ();
  g_queue_init (&self->results);
  g_mutex_init (&self->lock);
  return self;
}

void
sonde_lanes_free (SondeLanes *self)
{
  GQueue results;

  if (self == NULL)
    return;
  g_clear_handle_id (&self->look, g_source_remove);
  g_mutex_lock (&self->lock);
  while (self->lanes->len > 0)
    give_up (self, g_ptr_array_index (self->lanes, 0));
  if (self->wakeup != NULL)
    {
      g_source_destroy (self->wakeup);
      g_clear_pointer (&self->wakeup, g_source_unref);
    }
  results = self->results;
  g_queue_init (&self->results);
  g_mutex_unlock (&self->lock);
  g_queue_clear_full (&results, result_free);
  unref (self);
}
