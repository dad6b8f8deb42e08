/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/worker/dispatch.h"

#define RECORDS_A_TURN    256
#define LOST_READS_A_TURN 1024
/* After exit. Still later samples are another process's, as the process table sees it, too. */
#define EXPIRY_NS (2 * G_GINT64_CONSTANT (1000000000))

gboolean
sonde_dispatch_supports (const SondeMessageSetup *setup, const char **why)
{
  const guint64 wanted = PERF_SAMPLE_TID | PERF_SAMPLE_TIME;

  if (!sonde_perf_decoder_supports (setup->sample_type))
    *why = "samples have fields that this worker cannot read";
  else if ((setup->sample_type & wanted) != wanted)
    *why = "samples lack thread or time";
  else
    return TRUE;

  return FALSE;
}

static int64_t
record_time (const struct perf_event_header *record, gpointer user_data)
{
  const SondeWorkerSession *self = user_data;

  return sonde_perf_decoder_time (&self->decoder, record);
}

/* @pressed: the kernel would lose records */
static gboolean
may_wait (const SondeWorkerSession *self, gboolean pressed)
{
  return !pressed && sonde_stream_now_ns () < self->wait_until_ns;
}

/* Whatever became of it: what a walk told before it is its own. */
static void
end_sample (SondeWorkerSession *self, int cpu)
{
  if (self->interpreters != NULL)
    sonde_interpreters_end_sample (self->interpreters, cpu);
}

/* Of a sample, or a hit of a probe: whether more of its process will be known soon. */
static gboolean
awaits_process (SondeWorkerSession *self, SondeProcess *process, gboolean pressed)
{
  if (process == NULL || sonde_process_flag (process, SONDE_PROCESS_FLAG_COMPLETE))
    return FALSE;
  if (!sonde_tracker_is_ready (self->tracker, process, sonde_stream_now_ns ())
      && may_wait (self, pressed))
    return TRUE;
  self->n_incomplete += !sonde_process_flag (process, SONDE_PROCESS_FLAG_COMPLETE);
  return FALSE;
}

static SondeRingsAnswer
take_hit (SondeWorkerSession *self, const SondePerfRecord *record, gboolean pressed)
{
  SondeProcess *process = sonde_tracker_process (self->tracker, record->pid, record->time_ns);

  if (awaits_process (self, process, pressed))
    return SONDE_RINGS_WAIT;
  if (self->heap_probes != NULL)
    sonde_heap_probes_take (self->heap_probes, process, record);
  return SONDE_RINGS_TAKEN;
}

static SondeRingsAnswer
take_sample (SondeWorkerSession *self, const SondePerfRecord *record, gboolean pressed)
{
  SondeProcess *process = sonde_tracker_process (self->tracker, record->pid, record->time_ns);

  if (awaits_process (self, process, pressed))
    return SONDE_RINGS_WAIT;
  if (process != NULL && self->interpreters != NULL)
    sonde_interpreters_meet (self->interpreters, process);
  if (process != NULL && self->heap_probes != NULL)
    sonde_heap_probes_meet (self->heap_probes, process);
  sonde_tally_sample_read (&self->tally);
  sonde_sampler_record (self->sampler, process, record);
  end_sample (self, record->cpu);

  return SONDE_RINGS_TAKEN;
}

/* Of a MAP, COMM, FORK or EXIT record: what has to be known before the tracker takes it. Asks for
 * it. */
static gboolean
awaits_answer (SondeWorkerSession *self, const SondePerfRecord *record, gboolean ends_program)
{
  SondeProcess *parent;

  /* What a process put into its rings is of the program that it is up to then. */
  if (ends_program)
    return sonde_inferiors_foresee_end (self->inferiors, record->pid, record->time_ns);
  /* Where a path may not be told any more, the broker says so when it is asked for the file. */
  if (record->type == SONDE_PERF_RECORD_MAP)
    return sonde_tracker_awaits_map (self->tracker, record, sonde_stream_now_ns ());
  /* A child begins with its parent's mappings, which nobody can tell any more once it execs. */
  if (record->type != SONDE_PERF_RECORD_FORK || record->pid == record->task.parent_pid)
    return FALSE;
  parent = sonde_tracker_process (self->tracker, record->task.parent_pid, record->time_ns);
  return parent != NULL && !sonde_tracker_is_known (self->tracker, parent, sonde_stream_now_ns ());
}

/* Whether it maps a file where another one, or another part, is executed from: what was there is
 * unmapped, of which there is no record. */
static gboolean
replaces_code (const SondeWorkerSession *self, const SondePerfRecord *record)
{
  const SondePerfRecordMap *map = &record->map;
  const SondeProcess *process;
  const SondeProcessMapping *mappings;
  size_t n = 0;

  if (record->type != SONDE_PERF_RECORD_MAP || !map->executable)
    return FALSE;
  process = sonde_process_table_find (self->processes, record->pid);
  mappings = process != NULL ? sonde_process_mappings (process, &n) : NULL;
  for (size_t i = 0; i < n; i++)
    if (mappings[i].start < map->end && map->start < mappings[i].end
        && (mappings[i].file.inode != map->inode
            || mappings[i].start - mappings[i].offset != map->start - map->offset))
      return TRUE;
  return FALSE;
}

/* A process that is made, but not followed. */
static gboolean
is_left_out (const SondeWorkerSession *self, const SondePerfRecord *record)
{
  return record->type == SONDE_PERF_RECORD_FORK && record->pid != record->task.parent_pid
         && !self->setup.asked.children && self->setup.asked.scope != SONDE_SCOPE_SYSTEM
         && !sonde_scope_is_group (self->setup.asked.scope);
}

static SondeRingsAnswer
take_sideband (SondeWorkerSession *self, const SondePerfRecord *record, gboolean pressed)
{
  gboolean is_exec = record->type == SONDE_PERF_RECORD_COMM && record->comm.exec;
  gboolean is_exit = record->type == SONDE_PERF_RECORD_EXIT && record->pid == record->tid;
  gboolean is_urgent = self->state == SONDE_WORKER_STATE_DRAINING
                           ? sonde_stream_now_ns () >= self->urgent_ns
                           : pressed;

  if ((is_exec || is_exit)
      && !sonde_inferiors_take_rest (self->inferiors, record->pid, record->time_ns, is_urgent))
    return SONDE_RINGS_WAIT;
  if (awaits_answer (self, record, is_exec || is_exit) && may_wait (self, pressed))
    return SONDE_RINGS_WAIT;
  if (is_exec || is_exit)
    sonde_inferiors_process_ends (self->inferiors, record->pid, record->time_ns);
  if (record->type == SONDE_PERF_RECORD_FORK)
    sonde_inferiors_forked (self->inferiors, record->task.parent_pid, record->pid, record->time_ns);
  if (replaces_code (self, record))
    sonde_inferiors_remapped (self->inferiors, record->pid, record->time_ns);
  if (record->type == SONDE_PERF_RECORD_EXIT)
    sonde_rings_forget_task (self->rings, record->tid);
  if (is_exec)
    {
      sonde_rings_exec_seen (self->rings);
      sonde_counters_exec (self->counters, record->pid);
    }
  if ((is_exec || is_exit) && self->interpreters != NULL)
    sonde_interpreters_forget (self->interpreters, record->pid);
  if ((is_exec || is_exit) && self->heap_probes != NULL)
    sonde_heap_probes_ended (self->heap_probes, record->pid);
  if (self->waits != NULL && !is_left_out (self, record))
    sonde_wait_book_take (self->waits, record);
  sonde_tracker_follow (self->tracker, record);
  if (record->type == SONDE_PERF_RECORD_MAP && record->map.executable)
    sonde_dispatch_meet (self, record->pid);
  if (record->type == SONDE_PERF_RECORD_FORK && record->pid != record->task.parent_pid
      && self->heap_probes != NULL)
    sonde_heap_probes_forked (self->heap_probes, record->task.parent_pid, record->pid);
  if (self->unheard != NULL)
    {
      const SondeProcess *process = sonde_process_table_find (self->processes, record->pid);

      sonde_unheard_follow (self->unheard, record,
                            process != NULL
                                && sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN));
    }

  return SONDE_RINGS_TAKEN;
}

static void
lost_sideband (SondeWorkerSession *self)
{
  sonde_tracker_lost_records (self->tracker);
  sonde_counters_lost_records (self->counters);
  sonde_unheard_lost_records (self->unheard);
}

static SondeRingsAnswer
take_record (const struct perf_event_header *header,
             unsigned kind,
             gboolean pressed,
             gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  SondePerfRecord record;

  if (sonde_perf_decoder_decode (&self->decoder, header, &record) != SONDE_PERF_RECORD_OK)
    {
      /* A processor that comes back may walk before the worker hears of its event. */
      if (header->type == PERF_RECORD_SAMPLE && self->decoder.n_walk_ids > 0)
        self->n_early_walks++;
      else if (header->type == PERF_RECORD_SAMPLE)
        {
          sonde_tally_sample_read (&self->tally);
          sonde_tally_add (&self->tally, SONDE_LEDGER_LOST_RING, 1);
        }
      return SONDE_RINGS_TAKEN;
    }
  /* FORK is told by the events of the task that forks. */
  if (sonde_rings_is_duplicate (self->rings, record.id,
                                record.type == SONDE_PERF_RECORD_FORK ? record.task.parent_tid
                                                                      : record.tid))
    {
      sonde_tally_add (&self->tally, SONDE_STATISTIC_DUPLICATE,
                       record.type == SONDE_PERF_RECORD_SAMPLE);
      if (record.type == SONDE_PERF_RECORD_SAMPLE)
        end_sample (self, record.cpu);
      return SONDE_RINGS_TAKEN;
    }

  switch (record.type)
    {
    case SONDE_PERF_RECORD_SAMPLE:
      return take_sample (self, &record, pressed);
    case SONDE_PERF_RECORD_PROBE:
      return take_hit (self, &record, pressed);
    case SONDE_PERF_RECORD_WALK:
      if (self->interpreters != NULL)
        sonde_interpreters_take_walk (self->interpreters, &record);
      break;
    case SONDE_PERF_RECORD_MAP:
    case SONDE_PERF_RECORD_COMM:
    case SONDE_PERF_RECORD_FORK:
    case SONDE_PERF_RECORD_EXIT:
      return take_sideband (self, &record, pressed);
    case SONDE_PERF_RECORD_SWITCH:
      if (self->waits != NULL)
        sonde_wait_book_take (self->waits, &record);
      break;
    case SONDE_PERF_RECORD_LOST:
      if (kind == SONDE_EVENT_SAMPLES)
        self->n_lost_records += record.n_lost;
      else if (kind == SONDE_EVENT_SWITCHES)
        {
          if (self->waits != NULL)
            sonde_wait_book_take (self->waits, &record);
        }
      else
        {
          sonde_tally_add (&self->tally, SONDE_STATISTIC_LOST_SIDEBAND, record.n_lost);
          lost_sideband (self);
        }
      break;
    case SONDE_PERF_RECORD_LOST_SAMPLES:
      self->n_lost_hardware += record.n_lost;
      break;
    case SONDE_PERF_RECORD_THROTTLE:
      sonde_tally_add (&self->tally, SONDE_STATISTIC_THROTTLED, 1);
      break;
    case SONDE_PERF_RECORD_OTHER:
    case SONDE_PERF_RECORD_CHAIN: /* foreseen */
    case SONDE_PERF_RECORD_UNTHROTTLE:
    default:
      break;
    }

  return SONDE_RINGS_TAKEN;
}

/* Before the order of time is known: a program may be over by then, and its file out of reach. */
static void
foresee_record (const struct perf_event_header *header, gpointer user_data)
{
  SondeWorkerSession *self = user_data;
  SondePerfRecord record;

  if (header->type == PERF_RECORD_SAMPLE
      || sonde_perf_decoder_decode (&self->decoder, header, &record) != SONDE_PERF_RECORD_OK)
    return;
  if (record.type == SONDE_PERF_RECORD_MAP)
    sonde_tracker_foresee_map (self->tracker, &record);
  /* It is behind the samples that want it. */
  if (record.type == SONDE_PERF_RECORD_CHAIN)
    sonde_sampler_take_chain (self->sampler, &record);
}

static void
ring_damaged (unsigned kind, gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  if (kind == SONDE_EVENT_SIDEBAND)
    lost_sideband (self);
  if (kind == SONDE_EVENT_SWITCHES && self->waits != NULL)
    sonde_wait_book_pause (self->waits, sonde_stream_now_ns ());
  sonde_recorder_warn (self->recorder,
                       "A ring held an impossible record; what was in it could not be read");
}

static void
ring_filled (gpointer user_data)
{
  SondeWorkerSession *self = user_data;

  if (self->state & (SONDE_WORKER_STATE_RUNNING | SONDE_WORKER_STATE_PAUSED))
    g_source_set_ready_time (self->drain, 0);
}

void
sonde_dispatch_set_up (SondeWorkerSession *self)
{
  static const SondeRingsHandler handler
      = { record_time, take_record, ring_damaged, foresee_record, ring_filled };

  self->decoder.sample_type = self->setup.sample_type;
  self->decoder.regs_user = self->setup.sample_regs_user;
  self->walk_ids = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  self->probe_ids = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  self->rings = sonde_rings_new (&self->setup, &handler, self);
}

static int
compare_ids (gconstpointer first, gconstpointer second)
{
  uint64_t a = *(const uint64_t *) first;
  uint64_t b = *(const uint64_t *) second;

  return (a > b) - (a < b);
}

gboolean
sonde_dispatch_add_walks (SondeWorkerSession *self, uint64_t id)
{
  if (self->walk_ids->len >= SONDE_MESSAGE_MAX_RINGS)
    return FALSE;
  if (self->interpreters != NULL)
    sonde_interpreters_set_walked (self->interpreters);
  g_array_append_val (self->walk_ids, id);
  g_array_sort (self->walk_ids, compare_ids);
  self->decoder.walk_ids = (const uint64_t *) (const void *) self->walk_ids->data;
  self->decoder.n_walk_ids = self->walk_ids->len;
  return TRUE;
}

gboolean
sonde_dispatch_add_probes (SondeWorkerSession *self, uint64_t id)
{
  if (self->probe_ids->len >= SONDE_MESSAGE_MAX_RINGS)
    return FALSE;
  g_array_append_val (self->probe_ids, id);
  g_array_sort (self->probe_ids, compare_ids);
  self->decoder.probe_ids = (const uint64_t *) (const void *) self->probe_ids->data;
  self->decoder.n_probe_ids = self->probe_ids->len;
  return TRUE;
}

void
sonde_dispatch_meet (SondeWorkerSession *self, int32_t pid)
{
  const SondeProcess *process = sonde_process_table_find (self->processes, pid);

  if (process != NULL && self->heap_probes != NULL)
    sonde_heap_probes_meet (self->heap_probes, process);
}

SondeRingsState
sonde_dispatch_run (SondeWorkerSession *self)
{
  gboolean draining = self->state == SONDE_WORKER_STATE_DRAINING;
  SondeRingsState result;
  gint64 now_ns;
  gboolean is_reading;

  sonde_rings_foresee (self->rings, SONDE_EVENT_SIDEBAND, RECORDS_A_TURN);
  if ((self->setup.flags & SONDE_SPEC_DEFERRED) != 0)
    sonde_rings_foresee (self->rings, SONDE_EVENT_SAMPLES, RECORDS_A_TURN);
  is_reading = sonde_module_store_work (self->modules);
  is_reading = sonde_jit_names_work (self->jit_names) || is_reading;
  if (self->heap_probes != NULL && !draining)
    sonde_heap_probes_look (self->heap_probes);
  now_ns = sonde_stream_now_ns ();
  result = sonde_rings_run (self->rings, now_ns, draining, RECORDS_A_TURN);
  if (result == SONDE_RINGS_EMPTY || result == SONDE_RINGS_YOUNG)
    {
      self->taken_ns = now_ns - SONDE_RINGS_WINDOW_NS;
      if (self->waits != NULL && !draining)
        sonde_wait_book_advance (self->waits, self->taken_ns);
      sonde_inferiors_records_taken (self->inferiors, self->taken_ns);
    }

  /* At the end nobody wants the files any more. */
  if (draining && result == SONDE_RINGS_EMPTY)
    return result;
  return is_reading ? SONDE_RINGS_BUDGET : result;
}

void
sonde_dispatch_count (SondeWorkerSession *self)
{
  gboolean is_shown = self->state == SONDE_WORKER_STATE_RUNNING;

  sonde_counters_read (self->counters, is_shown, sonde_stream_now_ns ());
}

/* The kernel's count of lost samples, of up to @budget events. */
static void
read_lost (SondeWorkerSession *self, guint budget)
{
  guint64 n = sonde_rings_counts_lost (self->rings) ? sonde_rings_read_lost (self->rings, budget)
                                                    : self->n_lost_records;

  sonde_tally_set_lost_kernel (&self->tally, n + self->n_lost_hardware);
  self->tally.values[SONDE_STATISTIC_WALKS_LOST]
      = sonde_rings_n_walks_lost (self->rings) + self->n_early_walks;
  sonde_tally_event (&self->tally, SONDE_LEDGER_EVENTS_LOST_RING,
                     sonde_rings_n_probes_lost (self->rings) - self->n_probes_lost);
  self->n_probes_lost = sonde_rings_n_probes_lost (self->rings);
}

void
sonde_dispatch_tick (SondeWorkerSession *self, gboolean reads_lost, gboolean reports)
{
  sonde_inferiors_settle (self->inferiors);
  sonde_recorder_settle_maps (self->recorder);
  sonde_recorder_settle_names (self->recorder, FALSE);
  sonde_tracker_ask_for_names (self->tracker, FALSE);
  sonde_dispatch_count (self);
  if (self->waits != NULL)
    sonde_wait_book_tick (self->waits, self->taken_ns);
  if (reads_lost)
    read_lost (self, LOST_READS_A_TURN);
  if (!reports)
    {
      sonde_recorder_flush (self->recorder);
      return;
    }
  sonde_worker_session_look_at_clocks (self);
  sonde_process_table_expire (self->processes, sonde_stream_now_ns () - EXPIRY_NS);
  sonde_tracker_retry (self->tracker);
  sonde_inferiors_count (self->inferiors);
  sonde_unheard_settle (self->unheard, self->taken_ns);
  sonde_recorder_report (self->recorder);
}

/* What programs and the kernel have told by now is in it, with its losses. */
void
sonde_dispatch_snap (SondeWorkerSession *self)
{
  sonde_inferiors_drain (self->inferiors, FALSE);
  sonde_dispatch_tick (self, TRUE, TRUE);
  sonde_flight_recorder_begin (self->flight_recorder, self->taken_ns, sonde_stream_now_ns ());
}

static void
warn_of (SondeWorkerSession *self, guint64 n, const char *what)
{
  g_autofree char *text = NULL;

  if (n == 0)
    return;
  text = g_strdup_printf ("%" G_GUINT64_FORMAT " %s", n, what);
  sonde_recorder_warn (self->recorder, text);
}

void
sonde_dispatch_end (SondeWorkerSession *self)
{
  sonde_rings_unwatch (self->rings);
  read_lost (self, G_MAXUINT);
  if (self->interpreters != NULL)
    sonde_interpreters_check_losses (self->interpreters,
                                     self->tally.values[SONDE_STATISTIC_WALKS_LOST]);
  if (self->waits != NULL)
    sonde_wait_book_end (self->waits, sonde_rings_n_switches_lost (self->rings));
  sonde_inferiors_end (self->inferiors);
  sonde_unheard_end (self->unheard);
  sonde_recorder_settle_maps (self->recorder);
  sonde_recorder_settle_names (self->recorder, TRUE);
  if (self->flight_recorder != NULL)
    self->addresses = sonde_flight_recorder_end (self->flight_recorder);
  warn_of (self, self->n_incomplete,
           "samples were recorded before all files of their process were known");
  warn_of (self, self->tally.values[SONDE_STATISTIC_TARGET_STUCK],
           "questions about processes and their files had no answer from the kernel in time");
  if (self->addresses != NULL)
    warn_of (self, sonde_sampled_addresses_n_left_out (self->addresses),
             "addresses have no name: there were too many different ones");
}

void
sonde_dispatch_sum (const SondeWorkerSession *self, guint64 values[SONDE_N_STATISTICS])
{
  SondeTally tally = self->tally;

  /* Recorded, though those who watch have to wait for the next sums. */
  if (self->inferiors != NULL)
    sonde_tally_event (&tally, SONDE_LEDGER_EVENTS_RECORDED,
                       sonde_inferiors_n_untold (self->inferiors));
  for (guint i = 0; i < SONDE_N_STATISTICS; i++)
    values[i] = tally.values[i];
  sonde_recorder_sum (self->recorder, values);
  values[SONDE_STATISTIC_LATE] = sonde_rings_n_late (self->rings);
  values[SONDE_STATISTIC_RING_BYTES] = sonde_rings_size (self->rings);
  values[SONDE_STATISTIC_PROCESSES] = sonde_process_table_n_processes (self->processes);
  values[SONDE_STATISTIC_MODULES] = sonde_module_store_n_modules (self->modules);
}
