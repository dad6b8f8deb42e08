/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The stages of one session, joined: bytes in rings become frames in sinks. */
#include "daemon/capture/stages.h"

#include <errno.h>
#include <unistd.h>

#include "daemon/capture/description.h"
#include "daemon/capture/lineage.h"
#include "daemon/capture/machine-counters.h"
#include "daemon/capture/perf-decoder.h"
#include "daemon/capture/sampler.h"

#define RECORDS_A_TURN    256
#define LOST_READS_A_TURN 1024
#define MAX_MOUNTINFO     (256u << 10) /* bytes; SONDE_LIMIT_FOREIGN_MOUNTS times */
/* After exit. Still later samples are another process's, as the process table sees it, too. */
#define EXPIRY_NS (2 * G_GINT64_CONSTANT (1000000000))

struct SondeStages
{
  SondeMessageSetup setup;
  SondePerfDecoder decoder;
  SondeTally tally;

  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeJitNames *names;
  SondeStreamState *state;
  SondeRecorder *recorder;
  SondeTracker *tracker;
  SondeUnwinder *unwinder;
  SondeKallsyms *kallsyms; /* until the start */
  SondeKernelNames *kernel_names;
  SondeAddressSet *addresses;
  SondeSampler *sampler;
  SondeRingMerge *merge;
  SondeEventKeeper *events;
  SondeLineage *lineage;
  SondeMachineCounters *machine_counters; /* NULL: not asked for */
  SondeProcessCounters *process_counters;
  SondeInferiors *inferiors;

  SondeInferiorsChanged control_closed;
  gpointer user_data;

  gint64 wait_until_ns;   /* while draining */
  guint64 n_lost_records; /* as LOST records tell, where events do not */
  guint64 n_lost_hardware;
  guint64 n_incomplete; /* samples recorded before all of their process was known */
};

static gint64
now_ns (void)
{
  return g_get_monotonic_time () * 1000;
}

/* --- records --- */

static int64_t
record_time (const struct perf_event_header *record, gpointer user_data)
{
  const SondeStages *self = user_data;

  return sonde_perf_decoder_time (&self->decoder, record);
}

static SondeRingMergeAnswer
take_sample (SondeStages *self, const SondeRecord *record, gboolean pressed)
{
  SondeProcess *process = sonde_tracker_process (self->tracker, record->pid, record->time_ns);

  if (process != NULL && !sonde_tracker_is_complete (process))
    {
      gint64 now = now_ns ();
      gboolean ready = sonde_tracker_is_ready (self->tracker, process, now);

      if (!ready && !pressed && now < self->wait_until_ns)
        return SONDE_RING_MERGE_WAIT;
      self->n_incomplete += !sonde_tracker_is_complete (process);
    }

  sonde_tally_sample_read (&self->tally);
  sonde_sampler_take (self->sampler, process, record);

  return SONDE_RING_MERGE_TAKEN;
}

/* A child begins with its parent's mappings, which nobody can tell any more once it execs. */
static SondeRingMergeAnswer
take_fork (SondeStages *self, const SondeRecord *record, gboolean pressed)
{
  gint64 now = now_ns ();

  if (record->pid != record->task.parent_pid)
    {
      SondeProcess *parent
          = sonde_tracker_process (self->tracker, record->task.parent_pid, record->time_ns);

      if (parent != NULL && !sonde_tracker_is_known (self->tracker, parent, now) && !pressed
          && now < self->wait_until_ns)
        return SONDE_RING_MERGE_WAIT;
    }
  sonde_tracker_take (self->tracker, record);

  return SONDE_RING_MERGE_TAKEN;
}

/* Where a path may not be told any more, control says so when it is asked for the file. */
static SondeRingMergeAnswer
take_map (SondeStages *self, const SondeRecord *record, gboolean pressed)
{
  gint64 now = now_ns ();

  if (sonde_tracker_awaits_map (self->tracker, record, now) && !pressed
      && now < self->wait_until_ns)
    return SONDE_RING_MERGE_WAIT;
  sonde_tracker_take (self->tracker, record);

  return SONDE_RING_MERGE_TAKEN;
}

/* FORK is told by the events of the task that forks. */
static gboolean
is_duplicate (SondeStages *self, const SondeRecord *record)
{
  int32_t tid = record->type == SONDE_RECORD_FORK ? record->task.parent_tid : record->tid;

  if (sonde_lineage_takes (self->lineage, record->id, tid))
    return FALSE;
  if (record->type == SONDE_RECORD_SAMPLE)
    sonde_tally_add (&self->tally, SONDE_STATISTIC_DUPLICATE, 1);
  return TRUE;
}

/* What a process put into its rings is of the program that it is up to then. */
static SondeRingMergeAnswer
take_task (SondeStages *self, const SondeRecord *record, gboolean pressed)
{
  gboolean is_exec = record->type == SONDE_RECORD_COMM && record->comm.exec;
  gboolean is_exit = record->type == SONDE_RECORD_EXIT && record->pid == record->tid;

  if (is_exec || is_exit)
    {
      if (sonde_inferiors_foresee_end (self->inferiors, record->pid, record->time_ns) && !pressed
          && now_ns () < self->wait_until_ns)
        return SONDE_RING_MERGE_WAIT;
      sonde_inferiors_process_ends (self->inferiors, record->pid, record->time_ns);
    }
  if (record->type == SONDE_RECORD_EXIT)
    sonde_lineage_forget (self->lineage, record->tid);
  if (is_exec)
    {
      sonde_event_keeper_exec_seen (self->events);
      sonde_process_counters_exec (self->process_counters, record->pid);
    }
  sonde_tracker_take (self->tracker, record);

  return SONDE_RING_MERGE_TAKEN;
}

static void
lost_records (SondeStages *self)
{
  sonde_tracker_lost_records (self->tracker);
  sonde_process_counters_lost_records (self->process_counters);
}

static void
take_lost (SondeStages *self, const SondeRecord *record, unsigned kind)
{
  if (record->type == SONDE_RECORD_LOST_SAMPLES)
    self->n_lost_hardware += record->n_lost;
  else if (kind == SONDE_EVENT_SAMPLES)
    self->n_lost_records += record->n_lost;
  else
    {
      sonde_tally_add (&self->tally, SONDE_STATISTIC_LOST_SIDEBAND, record->n_lost);
      lost_records (self);
    }
}

static SondeRingMergeAnswer
take_record (const struct perf_event_header *header,
             unsigned kind,
             gboolean pressed,
             gpointer user_data)
{
  SondeStages *self = user_data;
  SondeRecord record;

  if (sonde_perf_decoder_decode (&self->decoder, header, &record) != SONDE_RECORD_OK)
    {
      if (header->type == PERF_RECORD_SAMPLE)
        {
          sonde_tally_sample_read (&self->tally);
          sonde_tally_add (&self->tally, SONDE_LEDGER_LOST_RING, 1);
        }
      return SONDE_RING_MERGE_TAKEN;
    }

  if (is_duplicate (self, &record))
    return SONDE_RING_MERGE_TAKEN;

  switch (record.type)
    {
    case SONDE_RECORD_SAMPLE:
      return take_sample (self, &record, pressed);
    case SONDE_RECORD_FORK:
      return take_fork (self, &record, pressed);
    case SONDE_RECORD_LOST:
    case SONDE_RECORD_LOST_SAMPLES:
      take_lost (self, &record, kind);
      break;
    case SONDE_RECORD_THROTTLE:
      sonde_tally_add (&self->tally, SONDE_STATISTIC_THROTTLED, 1);
      break;
    case SONDE_RECORD_MAP:
      return take_map (self, &record, pressed);
    case SONDE_RECORD_COMM:
    case SONDE_RECORD_EXIT:
      return take_task (self, &record, pressed);
    case SONDE_RECORD_OTHER:
    case SONDE_RECORD_UNTHROTTLE:
    default:
      break;
    }

  return SONDE_RING_MERGE_TAKEN;
}

/* Before the order of time is known: a program may be over by then, and its file out of reach. */
static void
foresee_record (const struct perf_event_header *header, gpointer user_data)
{
  SondeStages *self = user_data;
  SondeRecord record;

  if (sonde_perf_decoder_decode (&self->decoder, header, &record) == SONDE_RECORD_OK
      && record.type == SONDE_RECORD_MAP)
    sonde_tracker_foresee_map (self->tracker, &record);
}

static void
ring_damaged (unsigned kind, gpointer user_data)
{
  SondeStages *self = user_data;

  if (kind == SONDE_EVENT_SIDEBAND)
    lost_records (self);
  sonde_recorder_warn (self->recorder,
                       "A ring held an impossible record; what was in it could not be read");
}

/* --- life --- */

gboolean
sonde_stages_supports (const SondeMessageSetup *setup, const char **why)
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

/* Control refuses no process to root, to a session of the whole machine and for raw data. */
static gboolean
hides_others (const SondeMessageSetup *setup)
{
  return setup->owner_uid != 0 && (setup->flags & (SONDE_SPEC_SYSTEM | SONDE_SPEC_RAW)) == 0;
}

SondeStages *
sonde_stages_new (const SondeMessageSetup *setup,
                  const SondeStagesHandler *handler,
                  gpointer user_data)
{
  static const SondeRingMergeHandler merge_handler
      = { record_time, take_record, ring_damaged, foresee_record };
  SondeStages *self = g_new0 (SondeStages, 1);

  self->setup = *setup;
  self->control_closed = handler->control_closed;
  self->user_data = user_data;
  self->decoder.sample_type = setup->sample_type;
  self->decoder.regs_user = setup->sample_regs_user;
  self->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  self->processes = sonde_process_table_new (self->modules);
  self->names = sonde_jit_names_new ();
  self->state = sonde_stream_state_new (self->processes, self->names);
  self->recorder = sonde_recorder_new (self->state, self->names, &self->tally, handler->sink_closed,
                                       user_data);
  self->tracker = sonde_tracker_new (self->processes, self->modules, self->state, self->recorder,
                                     hides_others (setup), handler->send, user_data);
  if (setup->flags & SONDE_SPEC_SYMBOLS)
    self->addresses = sonde_address_set_new (self->processes);
  self->merge = sonde_ring_merge_new (&merge_handler, self);
  self->events = sonde_event_keeper_new (setup->read_format);
  self->lineage = sonde_lineage_new ();
  self->process_counters
      = sonde_process_counters_new (self->recorder, handler->ask_counters, user_data);
  sonde_stages_describe (self, 0, 0);

  return self;
}

void
sonde_stages_free (SondeStages *self)
{
  if (self == NULL)
    return;

  sonde_ring_merge_free (self->merge);
  sonde_inferiors_free (self->inferiors);
  sonde_sampler_free (self->sampler);
  sonde_kernel_names_free (self->kernel_names);
  sonde_kallsyms_free (self->kallsyms);
  sonde_tracker_free (self->tracker);
  sonde_machine_counters_free (self->machine_counters);
  sonde_process_counters_free (self->process_counters);
  sonde_recorder_free (self->recorder);
  sonde_stream_state_free (self->state);
  sonde_jit_names_free (self->names);
  sonde_address_set_free (self->addresses);
  sonde_unwinder_free (self->unwinder);
  sonde_process_table_free (self->processes);
  sonde_module_store_free (self->modules);
  sonde_event_keeper_free (self->events);
  sonde_lineage_free (self->lineage);
  g_free (self);
}

static GBytes *
read_document (int fd, gsize max_bytes, gboolean *is_cut)
{
  g_autoptr (GByteArray) content = g_byte_array_new ();
  guint8 piece[16384];
  gssize size_bytes;

  while (
      content->len <= max_bytes
      && ((size_bytes = read (fd, piece, sizeof piece)) > 0 || (size_bytes < 0 && errno == EINTR)))
    if (size_bytes > 0)
      g_byte_array_append (content, piece, (guint) size_bytes);

  *is_cut = content->len > max_bytes;
  if (*is_cut)
    g_byte_array_set_size (content, (guint) max_bytes);
  return g_byte_array_free_to_bytes (g_steal_pointer (&content));
}

static char *
dup_document_path (const SondeMessageDocument *message)
{
  switch ((SondeDocumentKind) message->kind)
    {
    case SONDE_DOCUMENT_CPUINFO:
      return g_strdup ("/proc/cpuinfo");
    case SONDE_DOCUMENT_MOUNTS:
      return g_strdup ("/proc/mounts");
    case SONDE_DOCUMENT_MOUNTINFO:
      return g_strdup_printf ("/proc/%d/mountinfo", message->pid);
    case SONDE_DOCUMENT_KALLSYMS:
    default:
      g_assert_not_reached (); /* sonde_message_check() */
    }
}

void
sonde_stages_add_document (SondeStages *self, const SondeMessageDocument *message, int fd)
{
  gsize max_bytes
      = message->kind == SONDE_DOCUMENT_MOUNTINFO ? MAX_MOUNTINFO : SONDE_STREAM_STATE_MAX_DOCUMENT;
  g_autoptr (GBytes) content = NULL;
  g_autofree char *path = NULL;
  gboolean is_cut;

  if (message->kind == SONDE_DOCUMENT_KALLSYMS)
    {
      /* Without it kernel code is one leaf. */
      if ((self->setup.flags & SONDE_SPEC_KERNEL_NAMES) && self->kallsyms == NULL
          && sonde_kallsyms_new (fd, &self->kallsyms) < 0)
        self->kallsyms = NULL;
      return;
    }
  content = read_document (fd, max_bytes, &is_cut);
  path = dup_document_path (message);
  sonde_recorder_document (self->recorder, path, content);
  if (is_cut)
    {
      g_autofree char *text = g_strdup_printf (
          "Of %s the capture has the first %" G_GSIZE_FORMAT " KiB only", path, max_bytes / 1024);

      sonde_recorder_warn (self->recorder, text);
    }
}

void
sonde_stages_add_counters (SondeStages *self, const SondeMessageCounters *message, int fd)
{
  if (message->kind == SONDE_COUNTER_KIND_PROCESS)
    {
      sonde_process_counters_add (self->process_counters, message->pid, fd);
      return;
    }
  if (self->machine_counters == NULL)
    self->machine_counters = sonde_machine_counters_new (self->recorder);
  sonde_machine_counters_add (self->machine_counters, message->kind, fd);
}

gboolean
sonde_stages_add_event (SondeStages *self, const SondeMessageEvent *event, int fd)
{
  sonde_lineage_add (self->lineage, event->id, event->tid, (event->flags & SONDE_EVENT_LATE) != 0);
  return sonde_event_keeper_add (self->events, event, fd);
}

void
sonde_stages_add_ring (SondeStages *self, SondePerfRing *ring, SondeEventKind kind)
{
  sonde_ring_merge_add (self->merge, ring, kind);
  self->tally.values[SONDE_STATISTIC_RING_BYTES] = sonde_ring_merge_size (self->merge);
}

void
sonde_stages_describe (SondeStages *self, gsize sample_ring_bytes, gsize sideband_ring_bytes)
{
  sonde_stream_state_describe (
      self->state, self->setup.start_realtime_ns, self->setup.start_ns,
      sonde_description_new (&self->setup, sample_ring_bytes, sideband_ring_bytes));
}

void
sonde_stages_start (SondeStages *self)
{
  SondeSamplerOptions options = {
    .mode = self->setup.unwind,
    .max_depth = self->setup.max_depth,
    .regs_user = self->setup.sample_regs_user,
  };

  g_assert (self->sampler == NULL);
  self->unwinder = self->setup.unwind == SONDE_UNWIND_LIBDWFL
                       ? sonde_unwinder_new_libdwfl (self->processes)
                       : sonde_unwinder_new_cfi (self->processes);
  self->kernel_names = sonde_kernel_names_new (self->recorder, g_steal_pointer (&self->kallsyms),
                                               (self->setup.flags & SONDE_SPEC_RAW) != 0);
  self->sampler = sonde_sampler_new (&options, self->processes, self->unwinder, self->kernel_names,
                                     self->addresses, self->recorder, &self->tally);
  self->inferiors
      = sonde_inferiors_new (&(SondeInferiorsParts){ &self->setup, self->recorder, self->tracker,
                                                     self->sampler, &self->tally },
                             self->control_closed, self->user_data);
}

SondeRecorder *
sonde_stages_recorder (SondeStages *self)
{
  return self->recorder;
}

SondeTracker *
sonde_stages_tracker (SondeStages *self)
{
  return self->tracker;
}

SondeEventKeeper *
sonde_stages_events (SondeStages *self)
{
  return self->events;
}

SondeInferiors *
sonde_stages_inferiors (SondeStages *self)
{
  return self->inferiors;
}

SondeAddressSet *
sonde_stages_addresses (SondeStages *self)
{
  return self->addresses;
}

/* --- turns --- */

SondeRingMergeState
sonde_stages_drain (SondeStages *self, gboolean draining, gint64 wait_until_ns)
{
  SondeRingMergeState state;
  gboolean is_reading;

  self->wait_until_ns = wait_until_ns;
  sonde_ring_merge_foresee (self->merge, SONDE_EVENT_SIDEBAND, RECORDS_A_TURN);
  is_reading = sonde_module_store_work (self->modules);
  state = sonde_ring_merge_run (self->merge, now_ns (), draining, RECORDS_A_TURN);

  /* At the end nobody wants the files any more. */
  if (draining && state == SONDE_RING_MERGE_EMPTY)
    return state;
  return is_reading ? SONDE_RING_MERGE_BUDGET : state;
}

guint64
sonde_stages_n_records (const SondeStages *self)
{
  return sonde_ring_merge_n_handed_on (self->merge);
}

void
sonde_stages_count (SondeStages *self, gboolean is_shown)
{
  if (self->machine_counters != NULL)
    sonde_machine_counters_read (self->machine_counters, is_shown, now_ns ());
  sonde_process_counters_read (self->process_counters, is_shown, now_ns ());
}

void
sonde_stages_ask_again (SondeStages *self)
{
  sonde_tracker_ask_again (self->tracker);
  sonde_process_counters_ask_again (self->process_counters);
}

void
sonde_stages_read_lost (SondeStages *self, gboolean all)
{
  guint64 n = self->n_lost_records;

  if (sonde_event_keeper_counts_lost (self->events))
    n = sonde_event_keeper_read_lost (self->events, all ? G_MAXUINT : LOST_READS_A_TURN);
  sonde_tally_set_lost_kernel (&self->tally, n + self->n_lost_hardware);
}

void
sonde_stages_expire (SondeStages *self)
{
  sonde_process_table_expire (self->processes, now_ns () - EXPIRY_NS);
  sonde_tracker_retry (self->tracker);
}

static void
warn_of (SondeStages *self, guint64 n, const char *what)
{
  g_autofree char *text = NULL;

  if (n == 0)
    return;
  text = g_strdup_printf ("%" G_GUINT64_FORMAT " %s", n, what);
  sonde_recorder_warn (self->recorder, text);
}

void
sonde_stages_end (SondeStages *self)
{
  sonde_stages_read_lost (self, TRUE);
  sonde_inferiors_end (self->inferiors);
  sonde_recorder_settle_maps (self->recorder);
  warn_of (self, self->n_incomplete,
           "samples were recorded before all files of their process were known");
  if (self->addresses != NULL)
    warn_of (self, sonde_address_set_n_left_out (self->addresses),
             "addresses have no name: there were too many different ones");
}

void
sonde_stages_statistics (const SondeStages *self, SondeMessageStatistics *message)
{
  for (guint i = 0; i < SONDE_N_STATISTICS; i++)
    message->values[i] = self->tally.values[i];
  sonde_recorder_sum (self->recorder, message->values);
  message->values[SONDE_STATISTIC_LATE] = sonde_ring_merge_n_late (self->merge);
  message->values[SONDE_STATISTIC_PROCESSES] = sonde_process_table_n_processes (self->processes);
  message->values[SONDE_STATISTIC_MODULES] = sonde_module_store_n_modules (self->modules);
}
