/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/waits/thread-clock.h"

#define MAX_BEYOND    65536  /* threads that are told apart */
#define MAX_CPU       8191   /* Linux knows no more */
#define SHORT_RUN_NS  100000 /* in which time that is stolen from the machine is little */
#define MIN_SHORT     100    /* runs, from which the constant is told */
#define MAX_SWITCH_NS 10000

struct SondeThreadClocks
{
  guint max;
  GHashTable *numbers; /* number → SondeThreadClock */
  GPtrArray *live;     /* SondeThreadClock */
  GQueue ended;        /* SondeThreadClock: the same, once they are over */
  GArray *last_ns;     /* gint64: of each CPU, of its last record */
  GHashTable *beyond;  /* numbers that there is no room for */
  guint64 n_others;
  guint64 others[SONDE_N_TIMES];
  gint64 short_ns; /* that the kernel counted more than we did, */
  guint64 n_short; /* in so many short runs */
  guint64 unknown_ns;
  guint64 n_switches;
  guint64 n_lost;
};

static void
clock_free (gpointer data)
{
  SondeThreadClock *clock = data;

  g_free (clock->told);
  g_free (clock);
}

SondeThreadClocks *
sonde_thread_clocks_new (guint max)
{
  SondeThreadClocks *self = g_new0 (SondeThreadClocks, 1);

  self->max = max;
  self->numbers = g_hash_table_new (NULL, NULL);
  self->live = g_ptr_array_new ();
  g_queue_init (&self->ended);
  self->last_ns = g_array_new (FALSE, TRUE, sizeof (gint64));
  self->beyond = g_hash_table_new (NULL, NULL);
  return self;
}

void
sonde_thread_clocks_free (SondeThreadClocks *self)
{
  if (self == NULL)
    return;
  g_ptr_array_foreach (self->live, (GFunc) (void (*) (void)) clock_free, NULL);
  g_ptr_array_unref (self->live);
  g_queue_clear_full (&self->ended, clock_free);
  g_hash_table_unref (self->numbers);
  g_array_unref (self->last_ns);
  g_hash_table_unref (self->beyond);
  g_free (self);
}

/* --- one thread --- */

/* What is open up to @time_ns is over. */
static void
book (SondeThreadClocks *self, SondeThreadClock *clock, gint64 time_ns)
{
  guint64 ns = (guint64) MAX (time_ns - clock->since_ns, 0);

  clock->sums_ns[clock->state] += ns;
  clock->since_ns = MAX (clock->since_ns, time_ns);
  if (clock->state == SONDE_THREAD_UNKNOWN)
    self->unknown_ns += ns;
}

static void
enter (SondeThreadClocks *self, SondeThreadClock *clock, SondeThreadState state, gint64 time_ns)
{
  book (self, clock, time_ns);
  clock->state = state;
}

static gboolean
is_off (const SondeThreadClock *clock)
{
  return clock->state == SONDE_THREAD_PREEMPTED || clock->state == SONDE_THREAD_BLOCKED;
}

/* --- which threads --- */

static void
end (SondeThreadClocks *self, SondeThreadClock *clock, gint64 time_ns)
{
  SondeThreadClock *last = g_ptr_array_index (self->live, self->live->len - 1);

  book (self, clock, time_ns);
  clock->end_ns = clock->since_ns;
  g_ptr_array_index (self->live, clock->index) = last;
  last->index = clock->index;
  g_ptr_array_set_size (self->live, (gint) self->live->len - 1);
  g_queue_push_tail (&self->ended, clock);
}

/* Of one that ended. */
static void
drop (SondeThreadClocks *self, GList *link)
{
  SondeThreadClock *clock = link->data;

  if (g_hash_table_lookup (self->numbers, GINT_TO_POINTER (clock->number)) == clock)
    g_hash_table_remove (self->numbers, GINT_TO_POINTER (clock->number));
  g_queue_delete_link (&self->ended, link);
  clock_free (clock);
}

static gboolean
make_room (SondeThreadClocks *self, gint32 number)
{
  SondeThreadClock *oldest = g_queue_peek_head (&self->ended);

  if (self->live->len + self->ended.length < self->max)
    return TRUE;
  if (oldest != NULL && !oldest->is_told)
    sonde_thread_clocks_fold (self, oldest);
  if (oldest != NULL)
    drop (self, self->ended.head);
  else if (g_hash_table_size (self->beyond) < MAX_BEYOND)
    g_hash_table_add (self->beyond, GINT_TO_POINTER (number));
  return oldest != NULL;
}

/* NULL: there is no room. */
static SondeThreadClock *
add (SondeThreadClocks *self, gint32 pid, gint32 tid, SondeThreadState state, gint64 time_ns)
{
  SondeThreadClock *clock;

  if (pid <= 0 || tid <= 0 || !make_room (self, tid))
    return NULL;
  clock = g_new0 (SondeThreadClock, 1);
  clock->pid = pid;
  clock->tid = clock->number = tid;
  clock->state = state;
  clock->begin_ns = clock->since_ns = time_ns;
  clock->index = self->live->len;
  g_ptr_array_add (self->live, clock);
  g_hash_table_insert (self->numbers, GINT_TO_POINTER (tid), clock);
  return clock;
}

SondeThreadClock *
sonde_thread_clocks_find (SondeThreadClocks *self, gint32 number)
{
  return g_hash_table_lookup (self->numbers, GINT_TO_POINTER (number));
}

/* A thread that executes a program takes the number of its process's first one, which has ended;
 * all others have. NULL: there is none. */
static SondeThreadClock *
take_over (SondeThreadClocks *self, gint32 pid)
{
  for (guint i = 0; i < self->live->len; i++)
    {
      SondeThreadClock *clock = g_ptr_array_index (self->live, i);

      if (clock->pid != pid)
        continue;
      g_hash_table_remove (self->numbers, GINT_TO_POINTER (clock->number));
      clock->number = pid;
      g_hash_table_insert (self->numbers, GINT_TO_POINTER (pid), clock);
      return clock;
    }
  return NULL;
}

/* --- records --- */

static void
take_fork (SondeThreadClocks *self, const SondePerfRecord *record)
{
  SondeThreadClock *clock = sonde_thread_clocks_find (self, record->tid);

  /* Nobody told of its end. */
  if (clock != NULL && clock->end_ns == 0)
    end (self, clock, clock->since_ns);
  clock = add (self, record->pid, record->tid, SONDE_THREAD_PREEMPTED, record->time_ns);
  if (clock != NULL)
    clock->delay_mark.is_set = clock->on_mark.is_set = clock->slices_mark.is_set = TRUE; /* 0 */
}

static void
take_exec (SondeThreadClocks *self, const SondePerfRecord *record)
{
  SondeThreadClock *clock = sonde_thread_clocks_find (self, record->tid);

  if (clock != NULL && clock->end_ns != 0)
    clock = take_over (self, record->pid);
  if (clock == NULL)
    add (self, record->pid, record->tid, SONDE_THREAD_ON, record->time_ns);
  else
    enter (self, clock, SONDE_THREAD_ON, record->time_ns);
}

static void
take_exit (SondeThreadClocks *self, const SondePerfRecord *record)
{
  SondeThreadClock *clock = sonde_thread_clocks_find (self, record->tid);

  if (clock == NULL || clock->end_ns != 0)
    return;
  if (clock->state == SONDE_THREAD_READY)
    clock->state = SONDE_THREAD_ON;
  end (self, clock, record->time_ns);
}

/* How often it was put on a processor is not known any more once records came behind others that
 * are lost. */
static void
leave_unknown (SondeThreadClock *clock)
{
  if (clock->state == SONDE_THREAD_UNKNOWN)
    clock->slices_mark.is_set = FALSE;
}

static void
put_on (SondeThreadClocks *self, SondeThreadClock *clock, gint64 time_ns)
{
  if (clock->state == SONDE_THREAD_ON)
    return;
  leave_unknown (clock);
  if (clock->state == SONDE_THREAD_READY)
    clock->state = SONDE_THREAD_PREEMPTED;
  clock->n_ended[clock->state]++;
  clock->n_on++;
  enter (self, clock, SONDE_THREAD_ON, time_ns);
}

static void
take_off (SondeThreadClocks *self, SondeThreadClock *clock, SondeThreadState state, gint64 time_ns)
{
  leave_unknown (clock);
  if (clock->state == SONDE_THREAD_READY)
    clock->state = SONDE_THREAD_ON;
  enter (self, clock, state, time_ns);
}

static void
note_time (SondeThreadClocks *self, const SondePerfRecord *record)
{
  if (record->cpu < 0 || record->cpu > MAX_CPU)
    return;
  if ((guint) record->cpu >= self->last_ns->len)
    g_array_set_size (self->last_ns, (guint) record->cpu + 1);
  g_array_index (self->last_ns, gint64, record->cpu) = record->time_ns;
}

static void
take_switch (SondeThreadClocks *self, const SondePerfRecord *record)
{
  const SondePerfRecordSwitch *of = &record->switched;
  SondeThreadState off = of->is_preempted ? SONDE_THREAD_PREEMPTED : SONDE_THREAD_BLOCKED;
  SondeThreadClock *clock = sonde_thread_clocks_find (self, record->tid);

  self->n_switches++;
  note_time (self, record);
  /* Events of a task end before its EXIT: another thread has its number, since an exec. Those of a
   * processor tell how it goes. */
  if (clock != NULL && clock->end_ns != 0)
    clock = !of->is_of_cpu && record->tid == record->pid ? take_over (self, record->pid) : NULL;
  else if (clock == NULL)
    {
      clock = add (self, record->pid, record->tid, of->is_out ? off : SONDE_THREAD_ON,
                   record->time_ns);
      if (clock != NULL)
        clock->is_of_cpu = of->is_of_cpu;
      return;
    }
  if (clock == NULL)
    return;
  clock->is_of_cpu = of->is_of_cpu;
  if (of->is_out)
    take_off (self, clock, off, record->time_ns);
  else
    put_on (self, clock, record->time_ns);
}

/* From @from_ns on nobody knows. */
static void
lose (SondeThreadClocks *self, gint64 from_ns)
{
  for (guint i = 0; i < self->live->len; i++)
    {
      SondeThreadClock *clock = g_ptr_array_index (self->live, i);

      clock->delay_mark.is_set = clock->on_mark.is_set = FALSE;
      if (clock->state == SONDE_THREAD_UNKNOWN)
        continue;
      clock->before = clock->state;
      enter (self, clock, SONDE_THREAD_UNKNOWN, from_ns);
    }
}

/* It is written as soon as there is room again, on the processor whose records they are. */
static void
take_lost (SondeThreadClocks *self, const SondePerfRecord *record)
{
  gint64 from_ns = 0;

  if (record->cpu >= 0 && (guint) record->cpu < self->last_ns->len)
    from_ns = g_array_index (self->last_ns, gint64, record->cpu);
  self->n_lost += record->n_lost;
  lose (self, from_ns);
  note_time (self, record);
}

void
sonde_thread_clocks_take (SondeThreadClocks *self, const SondePerfRecord *record)
{
  if (record->type == SONDE_PERF_RECORD_SWITCH)
    take_switch (self, record);
  else if (record->type == SONDE_PERF_RECORD_FORK)
    take_fork (self, record);
  else if (record->type == SONDE_PERF_RECORD_COMM && record->comm.exec)
    take_exec (self, record);
  else if (record->type == SONDE_PERF_RECORD_EXIT)
    take_exit (self, record);
  else if (record->type == SONDE_PERF_RECORD_LOST)
    take_lost (self, record);
}

void
sonde_thread_clocks_lose_end (SondeThreadClocks *self, guint64 n_lost)
{
  gint64 from_ns = G_MAXINT64;

  for (guint i = 0; i < self->last_ns->len; i++)
    if (g_array_index (self->last_ns, gint64, i) != 0)
      from_ns = MIN (from_ns, g_array_index (self->last_ns, gint64, i));
  self->n_lost += n_lost;
  lose (self, from_ns == G_MAXINT64 ? 0 : from_ns);
}

void
sonde_thread_clocks_interrupt (SondeThreadClocks *self, gint64 time_ns)
{
  lose (self, time_ns);
}

/* --- looks --- */

static gboolean
was_not_put_on (const SondeThreadClock *clock, const SondeMessageThread *thread)
{
  return clock->slices_mark.is_set
         && thread->slices - clock->slices_mark.kernel == clock->n_on - clock->slices_mark.n_on;
}

/* Waits for a processor since the mark, and what we have of the same time. */
static void
look_at_delay (SondeThreadClock *clock, const SondeMessageThread *thread)
{
  if (clock->delay_mark.is_set && thread->delay_ns >= clock->delay_mark.kernel_ns)
    {
      clock->looked.is_set = TRUE;
      clock->looked.kernel_ns += thread->delay_ns - clock->delay_mark.kernel_ns;
      clock->looked.preempted_ns
          += clock->sums_ns[SONDE_THREAD_PREEMPTED] - clock->delay_mark.preempted_ns;
      clock->looked.n_preempted
          += clock->n_ended[SONDE_THREAD_PREEMPTED] - clock->delay_mark.n_preempted;
      clock->looked.blocked_ns
          += clock->sums_ns[SONDE_THREAD_BLOCKED] - clock->delay_mark.blocked_ns;
    }
  clock->delay_mark.is_set = clock->state != SONDE_THREAD_UNKNOWN;
  clock->delay_mark.kernel_ns = thread->delay_ns;
  clock->delay_mark.preempted_ns = clock->sums_ns[SONDE_THREAD_PREEMPTED];
  clock->delay_mark.n_preempted = clock->n_ended[SONDE_THREAD_PREEMPTED];
  clock->delay_mark.blocked_ns = clock->sums_ns[SONDE_THREAD_BLOCKED];
}

/* The kernel counts the time on of one that is off exactly, of others up to its last tick. */
static void
look_at_on (SondeThreadClocks *self, SondeThreadClock *clock, const SondeMessageThread *thread)
{
  guint64 kernel_ns = thread->on_ns - clock->on_mark.kernel_ns;
  guint64 on_ns = clock->sums_ns[SONDE_THREAD_ON] - clock->on_mark.on_ns;
  guint64 n_on = clock->n_on - clock->on_mark.n_on;

  if (!is_off (clock) || !was_not_put_on (clock, thread))
    return;
  if (clock->on_mark.is_set && thread->on_ns >= clock->on_mark.kernel_ns)
    {
      clock->looked_on.kernel_ns += kernel_ns;
      clock->looked_on.on_ns += on_ns;
      clock->looked_on.n_on += n_on;
      if (n_on > 0 && on_ns / n_on < SHORT_RUN_NS)
        {
          self->short_ns += (gint64) kernel_ns - (gint64) on_ns;
          self->n_short += n_on;
        }
    }
  clock->on_mark.is_set = TRUE;
  clock->on_mark.kernel_ns = thread->on_ns;
  clock->on_mark.on_ns = clock->sums_ns[SONDE_THREAD_ON];
  clock->on_mark.n_on = clock->n_on;
}

static SondeThreadClock *
begin_by_look (SondeThreadClocks *self, gint32 pid, const SondeMessageThread *thread)
{
  SondeThreadState state = thread->state == 'R' ? SONDE_THREAD_READY : SONDE_THREAD_BLOCKED;

  /* Of those that end no record may come any more. */
  if (thread->state == 0 || thread->state == 'X' || thread->state == 'Z')
    return NULL;
  return add (self, pid, thread->tid, state, thread->time_ns);
}

SondeThreadClock *
sonde_thread_clocks_look (SondeThreadClocks *self, gint32 pid, const SondeMessageThread *thread)
{
  SondeThreadClock *clock = sonde_thread_clocks_find (self, thread->tid);

  if (clock == NULL)
    clock = begin_by_look (self, pid, thread);
  if (clock == NULL || clock->pid != pid || clock->end_ns != 0)
    return NULL;
  if (clock->state == SONDE_THREAD_UNKNOWN && was_not_put_on (clock, thread)
      && (clock->before == SONDE_THREAD_PREEMPTED || clock->before == SONDE_THREAD_BLOCKED))
    clock->state = clock->before;
  /* It has run all the time. */
  if (clock->state == SONDE_THREAD_READY && clock->slices_mark.is_set
      && thread->slices == clock->slices_mark.kernel && thread->on_ns > clock->ready_ns)
    clock->state = SONDE_THREAD_ON;
  clock->ready_ns = thread->on_ns;
  look_at_delay (clock, thread);
  look_at_on (self, clock, thread);
  clock->slices_mark.is_set = clock->state != SONDE_THREAD_UNKNOWN;
  clock->slices_mark.kernel = thread->slices;
  clock->slices_mark.n_on = clock->n_on;
  return clock;
}

void
sonde_thread_clocks_look_behind (SondeThreadClocks *self,
                                 gint32 pid,
                                 const SondeMessageThread *thread)
{
  const SondeThreadClock *clock = sonde_thread_clocks_find (self, thread->tid);

  if (clock != NULL && was_not_put_on (clock, thread))
    sonde_thread_clocks_look (self, pid, thread);
}

void
sonde_thread_clocks_miss (SondeThreadClocks *self, gint32 pid, gint32 number, gint64 asked_ns)
{
  SondeThreadClock *clock = sonde_thread_clocks_find (self, number);

  if (clock != NULL && clock->pid == pid && clock->end_ns == 0 && clock->since_ns < asked_ns)
    end (self, clock, clock->since_ns);
}

/* --- sums --- */

guint64
sonde_thread_clocks_switch_ns (const SondeThreadClocks *self)
{
  if (self->n_short < MIN_SHORT || self->short_ns <= 0)
    return 0;
  return MIN ((guint64) self->short_ns / self->n_short, MAX_SWITCH_NS);
}

static guint64
less (guint64 from, guint64 what)
{
  return from - MIN (from, what);
}

/* Of one thread. */
static guint64
switch_ns_of (const SondeThreadClocks *self, const SondeThreadClock *clock)
{
  if (clock->looked_on.n_on == 0)
    return sonde_thread_clocks_switch_ns (self);
  return less (clock->looked_on.kernel_ns, clock->looked_on.on_ns) / clock->looked_on.n_on;
}

void
sonde_thread_clocks_sum (const SondeThreadClocks *self,
                         const SondeThreadClock *clock,
                         gint64 until_ns,
                         guint64 times[SONDE_N_TIMES])
{
  guint64 switch_ns = switch_ns_of (self, clock);
  guint64 states[SONDE_N_THREAD_STATES];
  guint64 preempted, blocked, woken, stolen;

  for (guint i = 0; i < SONDE_N_THREAD_STATES; i++)
    states[i] = clock->sums_ns[i];
  if (clock->end_ns == 0)
    states[clock->state] += (guint64) MAX (until_ns - clock->since_ns, 0);
  states[SONDE_THREAD_PREEMPTED] += states[SONDE_THREAD_READY];
  /* Each wait ends with a switch. */
  preempted = MIN (clock->n_ended[SONDE_THREAD_PREEMPTED] * switch_ns,
                   clock->sums_ns[SONDE_THREAD_PREEMPTED]);
  blocked = MIN (clock->n_ended[SONDE_THREAD_BLOCKED] * switch_ns,
                 clock->sums_ns[SONDE_THREAD_BLOCKED]);
  /* What the kernel counted and no record shows was between waking and running. */
  woken = less (clock->looked.kernel_ns,
                less (clock->looked.preempted_ns, clock->looked.n_preempted * switch_ns));
  woken = MIN (woken, less (clock->looked.blocked_ns, blocked));
  stolen = MIN (less (clock->looked_on.on_ns, clock->looked_on.kernel_ns),
                clock->sums_ns[SONDE_THREAD_ON]);
  times[SONDE_TIME_LIFE] = states[SONDE_THREAD_ON] + states[SONDE_THREAD_PREEMPTED]
                           + states[SONDE_THREAD_BLOCKED] + states[SONDE_THREAD_UNKNOWN];
  times[SONDE_TIME_ON] = states[SONDE_THREAD_ON] - stolen;
  times[SONDE_TIME_RUNNABLE] = states[SONDE_THREAD_PREEMPTED] - preempted + woken;
  times[SONDE_TIME_BLOCKED] = states[SONDE_THREAD_BLOCKED] - blocked - woken;
  times[SONDE_TIME_SWITCHING] = preempted + blocked + stolen;
  times[SONDE_TIME_UNKNOWN] = states[SONDE_THREAD_UNKNOWN];
  times[SONDE_TIME_UNSPLIT]
      = MIN (less (clock->sums_ns[SONDE_THREAD_BLOCKED], clock->looked.blocked_ns),
             times[SONDE_TIME_BLOCKED]);
}

/* --- all of them --- */

guint
sonde_thread_clocks_n_live (const SondeThreadClocks *self)
{
  return self->live->len;
}

SondeThreadClock *
sonde_thread_clocks_live (const SondeThreadClocks *self, guint index)
{
  return g_ptr_array_index (self->live, index);
}

const GList *
sonde_thread_clocks_ended (const SondeThreadClocks *self)
{
  return self->ended.head;
}

void
sonde_thread_clocks_forget (SondeThreadClocks *self, gint64 time_ns)
{
  const SondeThreadClock *oldest;

  while ((oldest = g_queue_peek_head (&self->ended)) != NULL && oldest->is_told
         && oldest->end_ns < time_ns)
    drop (self, self->ended.head);
}

void
sonde_thread_clocks_fold (SondeThreadClocks *self, SondeThreadClock *clock)
{
  guint64 times[SONDE_N_TIMES];

  g_assert (clock->end_ns != 0);
  sonde_thread_clocks_sum (self, clock, clock->end_ns, times);
  for (guint i = 0; i < SONDE_N_TIMES; i++)
    self->others[i] += times[i];
  self->n_others++;
  clock->is_told = TRUE;
}

guint64
sonde_thread_clocks_n_others (const SondeThreadClocks *self)
{
  return self->n_others;
}

void
sonde_thread_clocks_add_others (const SondeThreadClocks *self, guint64 times[SONDE_N_TIMES])
{
  for (guint i = 0; i < SONDE_N_TIMES; i++)
    times[i] += self->others[i];
}

guint64
sonde_thread_clocks_n_beyond (const SondeThreadClocks *self)
{
  return g_hash_table_size (self->beyond);
}

guint64
sonde_thread_clocks_unknown_ns (const SondeThreadClocks *self, gint64 until_ns)
{
  guint64 ns = self->unknown_ns;

  for (guint i = 0; i < self->live->len && until_ns != 0; i++)
    {
      const SondeThreadClock *clock = g_ptr_array_index (self->live, i);

      if (clock->state == SONDE_THREAD_UNKNOWN)
        ns += (guint64) MAX (until_ns - clock->since_ns, 0);
    }
  return ns;
}

guint64
sonde_thread_clocks_n_switches (const SondeThreadClocks *self)
{
  return self->n_switches;
}

guint64
sonde_thread_clocks_n_lost (const SondeThreadClocks *self)
{
  return self->n_lost;
}
