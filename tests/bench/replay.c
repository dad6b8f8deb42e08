/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/bench/replay.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "tests/bench/allocations.h"

enum
{
  /* Samples are copied to a hot place first, as if the kernel had just written them; both fit into
   * a second-level cache. */
  MAX_BATCH = 16,
  BATCH_BYTES = 256 << 10,
};

struct Replay
{
  const Recording *recording;
  const GArray *events;
  SondeModuleStore *modules;
  SondeProcessTable *processes;
  SondeUnwinder *unwinder;
  guint8 *hot;
};

/* --- lives --- */

static gint32
life_of (GHashTable *lives, gint32 pid, gint32 *last)
{
  gpointer life;

  if (!g_hash_table_lookup_extended (lives, GINT_TO_POINTER (pid), NULL, &life))
    {
      life = GINT_TO_POINTER (++*last);
      g_hash_table_insert (lives, GINT_TO_POINTER (pid), life);
    }
  return GPOINTER_TO_INT (life);
}

static void
begin_life (GHashTable *lives, gint32 pid, gint32 *last)
{
  g_hash_table_insert (lives, GINT_TO_POINTER (pid), GINT_TO_POINTER (++*last));
}

GArray *
replay_events_new (const Recording *recording)
{
  g_autoptr (GHashTable) lives = g_hash_table_new (NULL, NULL);
  GArray *events = g_array_new (FALSE, FALSE, sizeof (ReplayEvent));
  gint32 last = 0;

  for (guint i = 0; i < recording->order->len; i++)
    {
      ReplayEvent event = { .at = g_array_index (recording->order, gsize, i) };
      SondePerfRecord record;

      sonde_perf_decoder_decode (&recording->decoder, recording_get (recording, i), &record);
      if (record.type == SONDE_PERF_RECORD_FORK && record.pid != record.task.parent_pid)
        {
          event.parent = life_of (lives, record.task.parent_pid, &last);
          begin_life (lives, record.pid, &last);
        }
      if (record.type == SONDE_PERF_RECORD_COMM && record.comm.exec)
        begin_life (lives, record.pid, &last);
      event.pid = life_of (lives, record.pid, &last);
      g_array_append_val (events, event);
    }
  return events;
}

/* --- the table --- */

Replay *
replay_new (const Recording *recording, const GArray *events, ReplayUnwinderNew unwinder_new)
{
  Replay *self = g_new0 (Replay, 1);

  self->recording = recording;
  self->events = events;
  self->modules = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
  self->processes = sonde_process_table_new (self->modules);
  self->unwinder = unwinder_new (self->processes);
  self->hot = g_malloc (BATCH_BYTES);

  return self;
}

void
replay_free (Replay *self)
{
  if (self == NULL)
    return;
  sonde_unwinder_free (self->unwinder);
  sonde_process_table_free (self->processes);
  sonde_module_store_free (self->modules);
  g_free (self->hot);
  g_free (self);
}

/* The files are this machine's own and just ran: they may be opened by name. */
static void
add_mapping (Replay *self, gint32 pid, gint64 time_ns, const SondePerfRecordMap *map)
{
  SondeProcess *process = sonde_process_table_ensure (self->processes, pid, time_ns);
  SondeProcessMapping mapping = {
    .start = map->start,
    .end = map->end,
    .offset = map->offset,
    .file = { map->inode, map->inode_generation, map->dev_major, map->dev_minor },
    .path = map->path,
  };
  SondeUnwindModule *module;
  int fd;

  sonde_process_add_mapping (self->processes, process, &mapping, SONDE_MAP_FROM_EVENT);
  if (map->inode == 0
      || sonde_module_store_lookup (self->modules, &mapping.file, &module) != SONDE_MODULE_UNKNOWN)
    return;
  fd = open (map->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    sonde_module_store_set_failed (self->modules, &mapping.file, ENOENT);
  else
    sonde_module_store_load (self->modules, &mapping.file, fd);
}

static void
feed_other (Replay *self, const ReplayEvent *event, const SondePerfRecord *record)
{
  switch (record->type)
    {
    case SONDE_PERF_RECORD_MAP:
      if (record->map.executable)
        add_mapping (self, event->pid, record->time_ns, &record->map);
      break;
    case SONDE_PERF_RECORD_COMM:
      if (record->comm.exec)
        {
          sonde_process_table_ensure (self->processes, event->pid, record->time_ns);
          sonde_process_table_exec (self->processes, event->pid, record->comm.name,
                                    record->time_ns);
        }
      break;
    case SONDE_PERF_RECORD_FORK:
      if (event->parent != 0)
        sonde_process_table_fork (self->processes, event->parent, event->pid, record->time_ns);
      break;
    case SONDE_PERF_RECORD_OTHER:
    case SONDE_PERF_RECORD_SAMPLE:
    case SONDE_PERF_RECORD_EXIT: /* all lives stay, see above */
    case SONDE_PERF_RECORD_LOST:
    case SONDE_PERF_RECORD_LOST_SAMPLES:
    case SONDE_PERF_RECORD_THROTTLE:
    case SONDE_PERF_RECORD_UNTHROTTLE:
    default:
      break;
    }
}

/* --- samples --- */

static gint64
now_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

/* All that a worker does for the user part of a sample, from the bytes of its record. */
static SondeUnwindEnd
unwind (Replay *self,
        const struct perf_event_header *header,
        gint32 pid,
        uint64_t *addrs,
        size_t *n_addrs)
{
  SondePerfRecord record;
  SondeUserState state;
  SondeProcess *process;

  *n_addrs = 0;
  if (sonde_perf_decoder_decode (&self->recording->decoder, header, &record)
      != SONDE_PERF_RECORD_OK)
    return SONDE_UNWIND_END_BAD_CFI;
  process = sonde_process_table_find (self->processes, pid);
  if (process == NULL)
    return SONDE_UNWIND_END_NO_MODULE;
  state = (SondeUserState){
    .abi = record.sample.abi,
    .regs_mask = self->recording->decoder.regs_user,
    .regs = record.sample.regs,
    .n_regs = record.sample.n_regs,
    .stack = record.sample.stack,
    .stack_size_bytes = record.sample.stack_size_bytes,
    .dump_size_bytes = record.sample.dump_size_bytes,
  };

  return sonde_unwinder_unwind (self->unwinder, process, &state, addrs, REPLAY_MAX_FRAMES, n_addrs);
}

gboolean
replay_feed (Replay *self, size_t i, ReplayStack *stack)
{
  const ReplayEvent *event = &g_array_index (self->events, ReplayEvent, i);
  const struct perf_event_header *header
      = (const void *) (self->recording->bytes->data + event->at);
  SondePerfRecord record;
  gint64 begin_ns;

  if (header->type != PERF_RECORD_SAMPLE)
    {
      if (sonde_perf_decoder_decode (&self->recording->decoder, header, &record)
          == SONDE_PERF_RECORD_OK)
        feed_other (self, event, &record);
      return FALSE;
    }
  sonde_process_table_ensure (self->processes, event->pid, 0);
  memcpy (self->hot, header, header->size);
  __atomic_thread_fence (__ATOMIC_SEQ_CST);
  begin_ns = now_ns ();
  stack->end = unwind (self, (const void *) self->hot, event->pid, stack->addrs, &stack->n_addrs);
  stack->duration_ns = now_ns () - begin_ns;

  return TRUE;
}

char *
replay_describe (Replay *self, size_t i, uint64_t address)
{
  const ReplayEvent *event = &g_array_index (self->events, ReplayEvent, i);
  SondeProcess *process = sonde_process_table_find (self->processes, event->pid);
  const SondeProcessMapping *mapping
      = process != NULL ? sonde_process_find_mapping (self->processes, process, address) : NULL;
  g_autofree char *name = NULL;

  if (mapping == NULL)
    return g_strdup_printf ("?%#" G_GINT64_MODIFIER "x", address);
  name = g_path_get_basename (mapping->vdso ? "[vdso]" : mapping->path);
  if (mapping->module == NULL)
    return g_strdup_printf ("%s?%#" G_GINT64_MODIFIER "x", name, address);

  return g_strdup_printf ("%s+%#" G_GINT64_MODIFIER "x", name, address - mapping->bias);
}

/* Some samples at a time, so that reading the clock costs little. */
typedef struct
{
  const struct perf_event_header *headers[MAX_BATCH];
  gint32 pids[MAX_BATCH];
  size_t n;
  size_t n_bytes;
} Batch;

/* The kernel leaves out what of the dump is above the stack, and so do we. */
static void
copy_sample (const SondePerfDecoder *decoder, guint8 *to, const struct perf_event_header *header)
{
  const guint8 *bytes = (const guint8 *) header;
  SondePerfRecord record;
  size_t valid_end, dump_end;

  if (sonde_perf_decoder_decode (decoder, header, &record) != SONDE_PERF_RECORD_OK)
    g_error ("A record that was kept has become malformed");
  valid_end = (size_t) (record.sample.stack - bytes) + record.sample.stack_size_bytes;
  dump_end = (size_t) (record.sample.stack - bytes) + record.sample.dump_size_bytes;
  memcpy (to, bytes, valid_end);
  memcpy (to + dump_end, bytes + dump_end, header->size - dump_end);
}

static gboolean
batch_add (Batch *batch, Replay *self, const ReplayEvent *event)
{
  const struct perf_event_header *header
      = (const void *) (self->recording->bytes->data + event->at);
  guint8 *to = self->hot + batch->n_bytes;

  if (batch->n == MAX_BATCH || BATCH_BYTES - batch->n_bytes < header->size)
    return FALSE;
  copy_sample (&self->recording->decoder, to, header);
  batch->headers[batch->n] = (const void *) to;
  batch->pids[batch->n++] = event->pid;
  batch->n_bytes += header->size;

  return TRUE;
}

static void
batch_run (Batch *batch, Replay *self, ReplayPass *pass)
{
  uint64_t addrs[REPLAY_MAX_FRAMES];
  guint64 n_allocations = allocations_count ();
  gint64 begin_ns, duration_ns;

  __atomic_thread_fence (__ATOMIC_SEQ_CST); /* the copies shall have arrived */
  begin_ns = now_ns ();
  for (size_t i = 0; i < batch->n; i++)
    {
      size_t n_addrs;

      unwind (self, batch->headers[i], batch->pids[i], addrs, &n_addrs);
      pass->n_frames += n_addrs;
    }
  duration_ns = now_ns () - begin_ns;
  pass->n_allocations += allocations_count () - n_allocations;
  pass->n_samples += batch->n;
  g_array_append_val (pass->durations_ns, duration_ns);
  batch->n = batch->n_bytes = 0;
}

ReplayPass
replay_run (Replay *self)
{
  ReplayPass pass = { .durations_ns = g_array_new (FALSE, FALSE, sizeof (gint64)) };
  Batch batch = { .n = 0 };

  for (guint i = 0; i < self->events->len; i++)
    {
      const ReplayEvent *event = &g_array_index (self->events, ReplayEvent, i);
      const guint8 *bytes = self->recording->bytes->data + event->at;

      if (((const struct perf_event_header *) (const void *) bytes)->type != PERF_RECORD_SAMPLE)
        continue;
      if (!batch_add (&batch, self, event))
        {
          batch_run (&batch, self, &pass);
          batch_add (&batch, self, event);
        }
    }
  batch_run (&batch, self, &pass);

  return pass;
}

void
replay_pass_clear (ReplayPass *pass)
{
  g_array_unref (pass->durations_ns);
}
