/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/waits/wait-book.h"

#include <errno.h>

#include "daemon/capture/waits/thread-clock.h"
#include "protocol/number-column.h"

#define LINGER_NS  G_GINT64_CONSTANT (1000000000) /* in which records of one that ended may come */
#define MAX_DUE    SONDE_THREAD_CLOCKS_MAX /* looks that wait for their time; others are missed */
#define N_COUNTERS 3

/* What happens at a time among the records. */
typedef struct
{
  gint64 time_ns;
  gint32 pid;
  enum
  {
    DUE_LOOK,
    DUE_MISS,
    DUE_BREAK,
  } kind;
  gint64 asked_ns; /* of MISS */
  SondeMessageThread thread;
} Due;

/* What was asked for, and has no answer. */
typedef struct
{
  gint32 pid;
  gint64 asked_ns;
  guint n_tids;
  gint32 tids[SONDE_MESSAGE_MAX_ASKED_THREADS]; /* -1: answered */
} Question;

/* SondeThreadClock.told: the counters of a thread. */
typedef struct
{
  guint32 ids[N_COUNTERS];
  guint64 last_ns[N_COUNTERS];
} Counted;

struct SondeWaitBook
{
  SondeRecorder *recorder;
  SondeProcessTable *processes;
  SondeTally *tally;
  gboolean hides_others;
  SondeWaitBookAsk ask;
  gpointer user_data;
  SondeThreadClocks *clocks;
  GQueue due;       /* Due, in the order of time */
  GQueue questions; /* Question */
  guint next;       /* to be looked at */
  guint n_counted;
  guint n_files;
  gint64 begin_ns;
  gint64 told_ns; /* the last file */
  gint64 end_ns;  /* 0: it runs */
};

SondeWaitBook *
sonde_wait_book_new (SondeRecorder *recorder,
                     SondeProcessTable *processes,
                     SondeTally *tally,
                     gboolean hides_others,
                     SondeWaitBookAsk ask,
                     gpointer user_data)
{
  SondeWaitBook *self = g_new0 (SondeWaitBook, 1);

  self->recorder = recorder;
  self->processes = processes;
  self->tally = tally;
  self->hides_others = hides_others;
  self->ask = ask;
  self->user_data = user_data;
  self->clocks = sonde_thread_clocks_new (SONDE_THREAD_CLOCKS_MAX);
  g_queue_init (&self->due);
  g_queue_init (&self->questions);
  self->begin_ns = self->told_ns = sonde_stream_now_ns ();
  return self;
}

void
sonde_wait_book_free (SondeWaitBook *self)
{
  if (self == NULL)
    return;
  sonde_thread_clocks_free (self->clocks);
  g_queue_clear_full (&self->due, g_free);
  g_queue_clear_full (&self->questions, g_free);
  g_free (self);
}

/* --- counters --- */

static Counted *
define_counters (SondeWaitBook *self, const SondeThreadClock *clock, gint64 time_ns)
{
  static const char *const names[N_COUNTERS] = { "On", "Runnable", "Blocked" };
  static const char *const descriptions[N_COUNTERS]
      = { "ns that the thread ran", "ns that it waited for a processor",
          "ns that it waited for something else" };
  const SondeProcess *process = sonde_process_table_find (self->processes, clock->pid);
  const char *comm = process != NULL ? sonde_process_comm (process) : "?";
  SondeCounter counters[N_COUNTERS] = { 0 };
  char texts[N_COUNTERS][64];
  Counted *counted;

  for (guint i = 0; i < N_COUNTERS; i++)
    {
      g_snprintf (texts[i], sizeof texts[i], "%s (%d/%d %s)", names[i], clock->pid, clock->tid,
                  comm);
      counters[i].category = "Waits";
      counters[i].name = texts[i];
      counters[i].description = descriptions[i];
      counters[i].type = SONDE_COUNTER_INT64;
    }
  if (!sonde_recorder_define_counters (self->recorder, clock->pid, counters, N_COUNTERS, time_ns))
    return NULL;
  counted = g_new0 (Counted, 1);
  for (guint i = 0; i < N_COUNTERS; i++)
    counted->ids[i] = counters[i].id;
  return counted;
}

/* A wait that was blocked at the look before may turn out to have been one for a processor. */
static void
set_counters (SondeWaitBook *self, SondeThreadClock *clock, gint64 time_ns)
{
  static const SondeWaitsTime shown[N_COUNTERS]
      = { SONDE_TIME_ON, SONDE_TIME_RUNNABLE, SONDE_TIME_BLOCKED };
  SondeCounterValue values[N_COUNTERS];
  guint64 times[SONDE_N_TIMES];
  Counted *counted = clock->told;

  if (counted == NULL && self->n_counted < SONDE_WAIT_BOOK_MAX_COUNTED)
    {
      self->n_counted++;
      counted = clock->told = define_counters (self, clock, time_ns);
    }
  if (counted == NULL)
    return;
  sonde_thread_clocks_sum (self->clocks, clock, time_ns, times);
  for (guint i = 0; i < N_COUNTERS; i++)
    {
      guint64 ns = times[shown[i]];

      values[i].v64 = (gint64) (ns - MIN (ns, counted->last_ns[i]));
      counted->last_ns[i] = ns;
    }
  sonde_recorder_set_counters (self->recorder, clock->pid, counted->ids, values, N_COUNTERS,
                               time_ns);
}

/* --- what is due --- */

static void
take_due (SondeWaitBook *self, const Due *due)
{
  SondeThreadClock *clock;

  if (due->kind == DUE_BREAK)
    sonde_thread_clocks_interrupt (self->clocks, due->time_ns);
  else if (due->kind == DUE_MISS)
    sonde_thread_clocks_miss (self->clocks, due->pid, due->thread.tid, due->asked_ns);
  else if (self->end_ns != 0 && due->time_ns > self->end_ns)
    sonde_thread_clocks_look_behind (self->clocks, due->pid, &due->thread);
  else if ((clock = sonde_thread_clocks_look (self->clocks, due->pid, &due->thread)) != NULL)
    set_counters (self, clock, due->time_ns);
}

void
sonde_wait_book_advance (SondeWaitBook *self, gint64 time_ns)
{
  const Due *first;

  while ((first = g_queue_peek_head (&self->due)) != NULL && first->time_ns <= time_ns)
    {
      g_autofree Due *due = g_queue_pop_head (&self->due);

      take_due (self, due);
    }
}

/* Nearly all come in their order. */
static void
add_due (SondeWaitBook *self, const Due *due)
{
  GList *before = self->due.tail;

  if (self->due.length >= MAX_DUE)
    return;
  while (before != NULL && ((const Due *) before->data)->time_ns > due->time_ns)
    before = before->prev;
  g_queue_insert_after (&self->due, before, g_memdup2 (due, sizeof *due));
}

/* --- who may know it --- */

/* Of whom records of its processor tell, the kernel does not decide who may know it. */
static gboolean
is_hidden (const SondeWaitBook *self, const SondeThreadClock *clock)
{
  const SondeProcess *process;

  if (!self->hides_others || !clock->is_of_cpu)
    return FALSE;
  process = sonde_process_table_find (self->processes, clock->pid);
  return process == NULL || !sonde_process_flag (process, SONDE_PROCESS_FLAG_COMPLETE)
         || sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN);
}

/* A row means little without its process, which may have no sample. */
static void
tell_process (SondeWaitBook *self, const SondeThreadClock *clock, gint64 time_ns)
{
  SondeProcess *process = sonde_process_table_find (self->processes, clock->pid);

  if (process != NULL)
    sonde_recorder_process (self->recorder, process, time_ns);
}

/* Once, when it has ended: its process is forgotten soon. */
static void
judge (SondeWaitBook *self, SondeThreadClock *clock)
{
  if (clock->verdict != SONDE_THREAD_UNJUDGED)
    return;
  clock->verdict = is_hidden (self, clock) ? SONDE_THREAD_HIDDEN : SONDE_THREAD_SHOWN;
  if (clock->verdict == SONDE_THREAD_SHOWN)
    tell_process (self, clock, clock->end_ns);
}

void
sonde_wait_book_take (SondeWaitBook *self, const SondePerfRecord *record)
{
  SondeThreadClock *clock;

  sonde_wait_book_advance (self, record->time_ns - 1);
  sonde_thread_clocks_take (self->clocks, record);
  if (record->type != SONDE_PERF_RECORD_EXIT)
    return;
  clock = sonde_thread_clocks_find (self->clocks, record->tid);
  if (clock != NULL && clock->end_ns != 0)
    judge (self, clock);
}

/* --- looks --- */

static void
send (SondeWaitBook *self, Question *question)
{
  gsize size_bytes = sizeof (SondeMessageThreadsRequest) + question->n_tids * sizeof (gint32);
  g_autofree SondeMessageThreadsRequest *request = g_malloc0 (size_bytes);

  request->pid = question->pid;
  request->n_threads = question->n_tids;
  for (guint i = 0; i < question->n_tids; i++)
    request->tids[i] = question->tids[i];
  question->asked_ns = sonde_stream_now_ns ();
  if (self->ask (request, size_bytes, self->user_data))
    g_queue_push_tail (&self->questions, question);
  else
    g_free (question);
}

void
sonde_wait_book_meet (SondeWaitBook *self, gint32 pid)
{
  Question *question = g_new0 (Question, 1);

  question->pid = pid;
  send (self, question);
}

/* Those that come next, by their processes. */
static void
look_at_next (SondeWaitBook *self, guint n_looks)
{
  g_autoptr (GPtrArray) questions = g_ptr_array_new ();
  guint n_live = sonde_thread_clocks_n_live (self->clocks);

  for (guint n = MIN (n_looks, n_live); n > 0; n--)
    {
      const SondeThreadClock *clock
          = sonde_thread_clocks_live (self->clocks, self->next++ % n_live);
      Question *question = NULL;

      for (guint i = 0; i < questions->len && question == NULL; i++)
        {
          Question *other = g_ptr_array_index (questions, i);

          if (other->pid == clock->pid && other->n_tids < SONDE_MESSAGE_MAX_ASKED_THREADS)
            question = other;
        }
      if (question == NULL)
        {
          question = g_new0 (Question, 1);
          question->pid = clock->pid;
          g_ptr_array_add (questions, question);
        }
      question->tids[question->n_tids++] = clock->number;
    }
  for (guint i = 0; i < questions->len; i++)
    send (self, g_ptr_array_index (questions, i));
}

/* The lanes of several users answer in any order, that of one in its own. */
static GList *
find_question (SondeWaitBook *self, const SondeMessageThreads *message)
{
  for (GList *at = self->questions.head; at != NULL; at = at->next)
    if (((const Question *) at->data)->pid == message->pid)
      return at;
  return NULL;
}

void
sonde_wait_book_answer (SondeWaitBook *self, const SondeMessageThreads *message)
{
  GList *link = find_question (self, message);
  Question *question = link != NULL ? link->data : NULL;
  Due due = { .pid = message->pid };

  if (question == NULL)
    return;
  for (guint i = 0; i < message->n_threads; i++)
    {
      due.thread = message->threads[i];
      due.time_ns = due.thread.time_ns;
      add_due (self, &due);
      for (guint j = 0; j < question->n_tids; j++)
        if (question->tids[j] == due.thread.tid)
          question->tids[j] = -1;
    }
  if (message->n_more > 0)
    return;
  /* Of what was gone no record can come any more. */
  due.kind = DUE_MISS;
  due.time_ns = sonde_stream_now_ns ();
  due.asked_ns = question->asked_ns;
  for (guint j = 0; j < question->n_tids && (message->status == 0 || message->status == ESRCH); j++)
    if (question->tids[j] >= 0)
      {
        due.thread = (SondeMessageThread){ .tid = question->tids[j] };
        add_due (self, &due);
      }
  g_queue_delete_link (&self->questions, link);
  g_free (question);
}

/* --- the embedded file --- */

static void
put_number (GByteArray *bytes, guint64 number)
{
  guint8 made[SONDE_NUMBER_MAX_BYTES];

  g_byte_array_append (bytes, made, (guint) sonde_number_put (made, number));
}

static void
put_record (GByteArray *file, SondeWaitsKind kind, const guint64 *numbers, gsize n_numbers)
{
  g_autoptr (GByteArray) body = g_byte_array_new ();

  for (gsize i = 0; i < n_numbers; i++)
    put_number (body, numbers[i]);
  put_number (file, kind);
  put_number (file, body->len);
  g_byte_array_append (file, body->data, body->len);
}

typedef struct
{
  GByteArray *file;
  gint64 until_ns;
  guint64 n_others;
  guint64 others[SONDE_N_TIMES];
} WaitsFile;

static void
put_thread (SondeWaitBook *self, WaitsFile *to, const SondeThreadClock *clock)
{
  guint64 row[4 + SONDE_N_TIMES + SONDE_N_WAITS_COUNTS]
      = { (guint64) clock->pid, (guint64) clock->tid, (guint64) clock->begin_ns,
          clock->end_ns != 0 };
  guint64 *times = row + 4;

  sonde_thread_clocks_sum (self->clocks, clock, to->until_ns, times);
  if (clock->end_ns == 0 && is_hidden (self, clock))
    {
      to->n_others++;
      for (guint i = 0; i < SONDE_N_TIMES; i++)
        to->others[i] += times[i];
      return;
    }
  if (clock->end_ns == 0)
    tell_process (self, clock, to->until_ns);
  times[SONDE_N_TIMES + SONDE_WAITS_SWITCHES] = clock->n_on;
  times[SONDE_N_TIMES + SONDE_WAITS_PREEMPTED] = clock->n_ended[SONDE_THREAD_PREEMPTED];
  put_record (to->file, SONDE_WAITS_THREAD, row, G_N_ELEMENTS (row));
}

/* @until_ns: all records from before were taken */
static void
write_file (SondeWaitBook *self, gint64 until_ns)
{
  WaitsFile to = { .file = g_byte_array_new (), .until_ns = until_ns };
  guint64 head[] = { SONDE_WAITS_VERSION, sonde_thread_clocks_switch_ns (self->clocks),
                     (guint64) self->begin_ns, (guint64) until_ns };
  guint64 others[2 + SONDE_N_TIMES];
  g_autofree char *path = g_strdup_printf (SONDE_WAITS_FOLDER "%u", ++self->n_files);
  g_autoptr (GBytes) content = NULL;

  g_byte_array_append (to.file, (const guint8 *) SONDE_WAITS_MAGIC, SONDE_WAITS_MAGIC_BYTES);
  for (guint i = 0; i < G_N_ELEMENTS (head); i++)
    put_number (to.file, head[i]);
  for (const GList *at = sonde_thread_clocks_ended (self->clocks); at != NULL; at = at->next)
    {
      SondeThreadClock *clock = at->data;

      judge (self, clock);
      if (clock->verdict == SONDE_THREAD_SHOWN)
        put_thread (self, &to, clock);
      else if (!clock->is_told)
        sonde_thread_clocks_fold (self->clocks, clock);
      clock->is_told = TRUE;
    }
  for (guint i = 0; i < sonde_thread_clocks_n_live (self->clocks); i++)
    put_thread (self, &to, sonde_thread_clocks_live (self->clocks, i));
  sonde_thread_clocks_add_others (self->clocks, to.others);
  others[0] = to.n_others + sonde_thread_clocks_n_others (self->clocks);
  others[1] = sonde_thread_clocks_n_beyond (self->clocks);
  for (guint i = 0; i < SONDE_N_TIMES; i++)
    others[2 + i] = to.others[i];
  put_record (to.file, SONDE_WAITS_OTHERS, others, G_N_ELEMENTS (others));
  put_record (to.file, SONDE_WAITS_END, (const guint64[]){ to.file->len }, 1);
  content = g_byte_array_free_to_bytes (to.file);
  sonde_recorder_file (self->recorder, path, content);
  sonde_thread_clocks_forget (self->clocks, until_ns - LINGER_NS);
  self->told_ns = until_ns;
}

/* --- time --- */

static void
count (SondeWaitBook *self)
{
  const SondeThreadClocks *clocks = self->clocks;
  guint64 *values = self->tally->values;

  values[SONDE_STATISTIC_SWITCHES] = sonde_thread_clocks_n_switches (clocks);
  values[SONDE_STATISTIC_SWITCHES_LOST] = sonde_thread_clocks_n_lost (clocks);
  values[SONDE_STATISTIC_WAITS_UNKNOWN_US]
      = sonde_thread_clocks_unknown_ns (clocks, self->end_ns) / 1000;
  values[SONDE_STATISTIC_THREADS_BEYOND] = sonde_thread_clocks_n_beyond (clocks);
}

void
sonde_wait_book_tick (SondeWaitBook *self, gint64 taken_ns)
{
  count (self);
  if (self->questions.length == 0)
    look_at_next (self, SONDE_WAIT_BOOK_LOOKS);
  if (taken_ns - self->told_ns >= SONDE_WAIT_BOOK_PERIOD_NS)
    write_file (self, taken_ns);
}

void
sonde_wait_book_pause (SondeWaitBook *self, gint64 now_ns)
{
  const Due due = { .time_ns = now_ns, .kind = DUE_BREAK };

  add_due (self, &due);
}

void
sonde_wait_book_stop (SondeWaitBook *self, gint64 now_ns)
{
  self->end_ns = now_ns;
  look_at_next (self, SONDE_WAIT_BOOK_LAST_LOOKS);
}

void
sonde_wait_book_give_up (SondeWaitBook *self)
{
  g_queue_clear_full (&self->questions, g_free);
}

gboolean
sonde_wait_book_are_awaited (const SondeWaitBook *self)
{
  return self->questions.length > 0;
}

void
sonde_wait_book_end (SondeWaitBook *self, guint64 n_lost)
{
  sonde_wait_book_advance (self, self->end_ns);
  if (n_lost > sonde_thread_clocks_n_lost (self->clocks))
    sonde_thread_clocks_lose_end (self->clocks, n_lost - sonde_thread_clocks_n_lost (self->clocks));
  sonde_wait_book_advance (self, G_MAXINT64);
  write_file (self, self->end_ns);
  count (self);
}
