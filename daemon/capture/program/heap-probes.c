/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/program/heap-probes.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/probe-note.h"
#include "protocol/frame.h"

#define MAX_FILES     4096 /* that were looked through; most have none */
#define MAX_PROCESSES SONDE_PROCESS_TABLE_MAX_PROCESSES
#define MAX_REQUESTS  8 /* of one process: files with probes */
#define MAX_LOGS      256
#define LIBRARY       "libsonde-memory" /* a path's last part begins so */

/* Most children execute another program at once. */
#define CHILD_NS (100 * G_GINT64_CONSTANT (1000000))

typedef struct
{
  gboolean is_alloc;
  guint64 site; /* bytes, into the file */
  guint64 note;
  guint n_operands;
  SondeProbeOperand operands[SONDE_PROBE_MAX_ARGUMENTS];
} KnownProbe;

/* What a file has, by the number of its module. */
typedef struct
{
  guint n_probes; /* 0: none that can be followed */
  KnownProbe *probes;
  const char *fault; /* why there are none though it has some; NULL: it has none, or is fine */
} KnownFile;

/* A file with probes that is mapped somewhere. */
typedef struct
{
  guint64 request_id;
  guint64 start; /* of the mapping */
  guint64 offset;
  guint64 end;
  const KnownFile *file;
  char *name;
} ProbedFile;

typedef struct
{
  guint64 generation; /* of the process */
  guint64 serial;     /* of its mappings, when they were looked at */
  gboolean is_due;    /* to be looked at */
  gint64 due_ns;
  GArray *files; /* ProbedFile */
  gboolean is_counted;
  gboolean is_refused;
  gboolean has_library;  /* of ours */
  guint64 least_bytes;   /* weight; 0: none was told yet */
  gboolean is_told;      /* that it samples too seldom */
  GHashTable *addresses; /* of blocks that were recorded, in boxes */
} ProbedProcess;

struct SondeHeapProbes
{
  SondeHeapProbesParts parts;
  SondeHeapProbesSend send;
  gpointer user_data;
  GHashTable *files; /* number of a module → KnownFile */
  GHashTable *known; /* pid → ProbedProcess */
  guint n_due;
  guint64 n_requests;
  guint n_blocks; /* of all processes */
  guint n_logs;
  gboolean is_full;
  GRand *random;
  union
  {
    SondeFrameAllocation allocation;
    guint64 align;
    guint8 bytes[sizeof (SondeFrameAllocation) + SONDE_SAMPLER_MAX_DEPTH * sizeof (guint64)];
  } frame;
};

static void
known_file_free (gpointer data)
{
  KnownFile *file = data;

  g_free (file->probes);
  g_free (file);
}

static void
clear_file (gpointer data)
{
  g_free (((ProbedFile *) data)->name);
}

static void
probed_process_free (gpointer data)
{
  ProbedProcess *self = data;

  g_array_unref (self->files);
  g_hash_table_unref (self->addresses);
  g_free (self);
}

SondeHeapProbes *
sonde_heap_probes_new (const SondeHeapProbesParts *parts,
                       SondeHeapProbesSend send,
                       gpointer user_data)
{
  SondeHeapProbes *self = g_new0 (SondeHeapProbes, 1);

  self->parts = *parts;
  self->send = send;
  self->user_data = user_data;
  self->files = g_hash_table_new_full (NULL, NULL, NULL, known_file_free);
  self->known = g_hash_table_new_full (NULL, NULL, NULL, probed_process_free);
  self->random = g_rand_new_with_seed ((guint32) parts->setup->start_ns);
  return self;
}

void
sonde_heap_probes_free (SondeHeapProbes *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->known);
  g_hash_table_unref (self->files);
  g_rand_free (self->random);
  g_free (self);
}

/* --- files --- */

/* Returns: NULL, or why it cannot be followed */
static const char *
take_probe (const SondeProbe *found, KnownProbe *probe)
{
  int n = sonde_probe_parse_arguments (found->arguments, probe->operands);

  probe->is_alloc = strcmp (found->name, SONDE_PROBE_ALLOC) == 0;
  if (!probe->is_alloc && strcmp (found->name, SONDE_PROBE_FREE) != 0)
    return "they have other names than alloc and free";
  if (n < (probe->is_alloc ? 3 : 1))
    return "their arguments are not understood";
  for (int i = 0; i < n; i++)
    if (probe->operands[i].kind == SONDE_PROBE_MEMORY
        && probe->operands[i].base == SONDE_PROBE_STACK_POINTER && probe->operands[i].index < 0
        && probe->operands[i].displacement < 0)
      return "an argument is below the stack pointer, where no copy of the stack is";
  probe->n_operands = (guint) n;
  probe->site = found->site;
  probe->note = found->note;
  return NULL;
}

static void
look_through (KnownFile *self, int fd)
{
  SondeProbe found[SONDE_PROBE_MAX_SITES];
  SondeElfFile file;
  gboolean has_alloc = FALSE;
  int n = 0;

  if (sonde_elf_file_load (&file, fd) == 0)
    n = sonde_probes_find (&file, SONDE_PROBE_PROVIDER, found, G_N_ELEMENTS (found));
  if (n > 0 && file.is_32_bit)
    self->fault = "they are of a 32-bit program";
  if (n > 0)
    self->probes = g_new0 (KnownProbe, (guint) n);
  for (int i = 0; i < n && self->fault == NULL; i++)
    {
      self->fault = take_probe (&found[i], &self->probes[i]);
      has_alloc = has_alloc || self->probes[i].is_alloc;
    }
  if (n > 0 && self->fault == NULL && !has_alloc)
    self->fault = "none of them is named alloc";
  self->n_probes = self->fault == NULL ? (guint) MAX (n, 0) : 0;
  sonde_elf_file_clear (&file);
}

/* Each file is read once. NULL: there are too many */
static const KnownFile *
know_file (SondeHeapProbes *self, const SondeUnwindModule *module)
{
  gpointer number = GUINT_TO_POINTER (sonde_module_id (module));
  KnownFile *file = g_hash_table_lookup (self->files, number);
  int fd = sonde_module_fd (module);

  if (file != NULL || fd < 0 || g_hash_table_size (self->files) >= MAX_FILES)
    return file;
  file = g_new0 (KnownFile, 1);
  g_hash_table_insert (self->files, number, file);
  look_through (file, fd);
  return file;
}

/* --- processes --- */

static const char *
last_part (const char *path)
{
  const char *slash = strrchr (path, '/');

  return slash != NULL ? slash + 1 : path;
}

static void
tell_refused (
    SondeHeapProbes *self, int32_t pid, ProbedProcess *known, const char *name, const char *why)
{
  const SondeProcess *process = sonde_process_table_find (self->parts.processes, pid);
  g_autofree char *comm = g_strescape (process != NULL ? sonde_process_comm (process) : "?", NULL);
  g_autofree char *file = g_strescape (name, NULL);
  g_autofree char *text = NULL;

  if (!known->is_refused)
    sonde_tally_add (self->parts.tally, SONDE_STATISTIC_PROBES_REFUSED, 1);
  known->is_refused = TRUE;
  if (self->n_logs++ >= MAX_LOGS)
    return;
  text = g_strdup_printf (SONDE_LEDGER_MISSING
                          "process %d (%s): blocks of the allocator in %s are not recorded, its "
                          "probes are not followed: %s",
                          pid, comm, file, why);
  sonde_recorder_warn (self->parts.recorder, text);
}

static void
ask (SondeHeapProbes *self,
     const SondeProcess *process,
     ProbedProcess *known,
     const SondeProcessMapping *mapping,
     const KnownFile *file)
{
  ProbedFile added = { .request_id = ++self->n_requests,
                       .start = mapping->start,
                       .offset = mapping->offset,
                       .end = mapping->end,
                       .file = file,
                       .name = g_strdup (last_part (mapping->path)) };
  SondeMessageProbes message = { .request_id = added.request_id,
                                 .pid = sonde_process_pid (process),
                                 .n_notes = file->n_probes,
                                 .start_ticks = sonde_process_start_ticks (process),
                                 .start = mapping->start,
                                 .offset = mapping->offset,
                                 .inode = mapping->file.inode,
                                 .dev_major = mapping->file.dev_major,
                                 .dev_minor = mapping->file.dev_minor };

  for (guint i = 0; i < file->n_probes; i++)
    message.notes[i] = file->probes[i].note;
  g_array_append_val (known->files, added);
  if (file->fault != NULL)
    tell_refused (self, message.pid, known, added.name, file->fault);
  else
    self->send (&message, self->user_data);
}

static gboolean
has_file (const ProbedProcess *known, const KnownFile *file)
{
  for (guint i = 0; i < known->files->len; i++)
    if (g_array_index (known->files, ProbedFile, i).file == file)
      return TRUE;
  return FALSE;
}

/* Whether a probe of @file is in it. */
static gboolean
holds_probes (const SondeProcessMapping *mapping, const KnownFile *file)
{
  if (file->fault != NULL)
    return TRUE;
  for (guint i = 0; i < file->n_probes; i++)
    if (file->probes[i].site >= mapping->offset
        && file->probes[i].site - mapping->offset < mapping->end - mapping->start)
      return TRUE;
  return FALSE;
}

static void
look_at (SondeHeapProbes *self, SondeProcess *process, ProbedProcess *known)
{
  size_t n_mappings = 0;
  const SondeProcessMapping *mappings = sonde_process_mappings (process, &n_mappings);

  for (size_t i = 0; i < n_mappings && known->files->len < MAX_REQUESTS; i++)
    {
      const KnownFile *file;

      if (mappings[i].module == NULL || mappings[i].vdso)
        continue;
      /* Its own probes are for others: a session hears of it by its rings. */
      if (g_str_has_prefix (last_part (mappings[i].path), LIBRARY))
        {
          known->has_library = TRUE;
          continue;
        }
      file = know_file (self, mappings[i].module);
      if (file != NULL && (file->n_probes > 0 || file->fault != NULL) && !has_file (known, file)
          && holds_probes (&mappings[i], file))
        ask (self, process, known, &mappings[i], file);
    }
}

static void
forget_blocks (SondeHeapProbes *self, ProbedProcess *known)
{
  self->n_blocks -= g_hash_table_size (known->addresses);
  g_hash_table_remove_all (known->addresses);
}

static void
set_due (SondeHeapProbes *self, ProbedProcess *known, gboolean is_due)
{
  self->n_due += (guint) (is_due != FALSE) - (guint) (known->is_due != FALSE);
  known->is_due = is_due;
}

static ProbedProcess *
ensure (SondeHeapProbes *self, const SondeProcess *process)
{
  gpointer pid = GINT_TO_POINTER (sonde_process_pid (process));
  ProbedProcess *known = g_hash_table_lookup (self->known, pid);

  if (known != NULL && known->generation == sonde_process_generation (process))
    return known;
  if (known != NULL)
    sonde_heap_probes_ended (self, sonde_process_pid (process));
  if (g_hash_table_size (self->known) >= MAX_PROCESSES)
    return NULL;
  known = g_new0 (ProbedProcess, 1);
  known->generation = sonde_process_generation (process);
  known->files = g_array_new (FALSE, FALSE, sizeof (ProbedFile));
  g_array_set_clear_func (known->files, clear_file);
  known->addresses = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  g_hash_table_insert (self->known, pid, known);
  return known;
}

void
sonde_heap_probes_meet (SondeHeapProbes *self, const SondeProcess *process)
{
  ProbedProcess *known;

  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN))
    return;
  known = ensure (self, process);
  if (known != NULL && known->serial != sonde_process_serial (process))
    set_due (self, known, TRUE);
}

void
sonde_heap_probes_forked (SondeHeapProbes *self, int32_t parent, int32_t child)
{
  const ProbedProcess *of_parent = g_hash_table_lookup (self->known, GINT_TO_POINTER (parent));
  const SondeProcess *process = sonde_process_table_find (self->parts.processes, child);
  ProbedProcess *known = process != NULL ? ensure (self, process) : NULL;
  GHashTableIter iter;
  gpointer address;

  if (known == NULL)
    return;
  set_due (self, known, TRUE);
  known->due_ns = sonde_stream_now_ns () + CHILD_NS;
  if (of_parent == NULL)
    return;
  /* It has what its parent has. */
  known->least_bytes = of_parent->least_bytes;
  g_hash_table_iter_init (&iter, of_parent->addresses);
  while (self->n_blocks < SONDE_HEAP_PROBES_MAX_BLOCKS
         && g_hash_table_iter_next (&iter, &address, NULL))
    self->n_blocks += g_hash_table_add (known->addresses, g_memdup2 (address, sizeof (guint64)));
}

void
sonde_heap_probes_ended (SondeHeapProbes *self, int32_t pid)
{
  ProbedProcess *known = g_hash_table_lookup (self->known, GINT_TO_POINTER (pid));
  SondeMessageProbes message = { .pid = pid };

  if (known == NULL)
    return;
  if (known->files->len > 0)
    self->send (&message, self->user_data);
  set_due (self, known, FALSE);
  forget_blocks (self, known);
  g_hash_table_remove (self->known, GINT_TO_POINTER (pid));
}

/* Returns whether there is nothing more to wait for. */
static gboolean
look_once (SondeHeapProbes *self, int32_t pid, ProbedProcess *known, gint64 now_ns)
{
  SondeProcess *process = sonde_process_table_find (self->parts.processes, pid);
  gboolean is_ready;

  if (process == NULL || sonde_process_exited (process)
      || sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN | SONDE_PROCESS_FLAG_CLOSED))
    return TRUE;
  if (now_ns < known->due_ns)
    return FALSE;
  is_ready = sonde_tracker_is_ready (self->parts.tracker, process, now_ns);
  sonde_process_resolve_modules (self->parts.processes, process);
  look_at (self, process, known);
  known->serial = sonde_process_serial (process);
  return is_ready;
}

void
sonde_heap_probes_look (SondeHeapProbes *self)
{
  gint64 now_ns = sonde_stream_now_ns ();
  GHashTableIter iter;
  gpointer pid, known;

  if (self->n_due == 0)
    return;
  g_hash_table_iter_init (&iter, self->known);
  while (g_hash_table_iter_next (&iter, &pid, &known))
    if (((ProbedProcess *) known)->is_due && look_once (self, GPOINTER_TO_INT (pid), known, now_ns))
      set_due (self, known, FALSE);
}

static const char *
explain (int status)
{
  switch (status)
    {
    case EPERM:
      return "the session does not follow that process, or may not look into it";
    case EACCES:
      return "its file is on a file system that the kernel is not asked about";
    case EBADMSG:
      return "its file names impossible places";
    case EILSEQ:
      return "a probe is not an instruction of one byte, as forks need it";
    case EDQUOT:
      return "the session has too many";
    case ENOSYS:
      return "this session has none";
    case ETIMEDOUT:
      return "the kernel does not answer";
    default:
      return g_strerror (status);
    }
}

void
sonde_heap_probes_answer (SondeHeapProbes *self, const SondeMessageProbed *message)
{
  GHashTableIter iter;
  gpointer pid, value;

  g_hash_table_iter_init (&iter, self->known);
  while (g_hash_table_iter_next (&iter, &pid, &value))
    {
      ProbedProcess *known = value;

      for (guint i = 0; i < known->files->len; i++)
        {
          const ProbedFile *file = &g_array_index (known->files, ProbedFile, i);

          if (file->request_id != message->request_id)
            continue;
          /* One that has ended meanwhile has nothing to tell. */
          if (message->status != 0 && message->status != ESRCH)
            tell_refused (self, GPOINTER_TO_INT (pid), known, file->name,
                          explain (message->status));
          if (message->status != 0)
            return;
          sonde_tally_add (self->parts.tally, SONDE_STATISTIC_PROBED_PROGRAMS, !known->is_counted);
          known->is_counted = TRUE;
          sonde_unheard_hear (self->parts.unheard, GPOINTER_TO_INT (pid));
          return;
        }
    }
}

/* --- hits --- */

static const KnownProbe *
find_probe (const ProbedProcess *known, guint64 address)
{
  for (guint i = 0; i < known->files->len; i++)
    {
      const ProbedFile *file = &g_array_index (known->files, ProbedFile, i);
      guint64 at = address - file->start + file->offset;

      if (address < file->start || address >= file->end)
        continue;
      for (guint j = 0; j < file->file->n_probes; j++)
        if (file->file->probes[j].site == at)
          return &file->file->probes[j];
    }
  return NULL;
}

/* Whether the block is one of those that the session's distance of samples would have found. */
static gboolean
is_drawn (SondeHeapProbes *self,
          int32_t pid,
          ProbedProcess *known,
          guint64 size_bytes,
          guint64 weight_bytes)
{
  double wanted = (double) self->parts.setup->asked.memory_interval_bytes;
  double size = (double) size_bytes;
  double own;
  g_autofree char *text = NULL;

  if (known->least_bytes == 0 || weight_bytes < known->least_bytes)
    known->least_bytes = weight_bytes;
  own = (double) known->least_bytes;
  if (own < wanted)
    return g_rand_double (self->random) < expm1 (-size / wanted) / expm1 (-size / own);
  /* A block that is near to its distance weighs somewhat more than that. */
  if (own <= 2 * wanted || known->is_told)
    return TRUE;
  known->is_told = TRUE;
  text = g_strdup_printf ("Process %d samples a byte in %" G_GUINT64_FORMAT
                          " at most, the session one in %" G_GUINT64_FORMAT
                          ": its sums are too small, but with a memory-interval like its own",
                          pid, known->least_bytes, self->parts.setup->asked.memory_interval_bytes);
  if (self->n_logs++ < MAX_LOGS)
    sonde_recorder_warn (self->parts.recorder, text);
  return TRUE;
}

/* Whether its allocator was asked by a function of ours. */
static gboolean
comes_from_library (SondeHeapProbes *self,
                    SondeProcess *process,
                    const guint64 *addrs,
                    size_t n_addrs)
{
  for (size_t i = 1; i < n_addrs; i++)
    {
      const SondeProcessMapping *mapping
          = sonde_process_find_mapping (self->parts.processes, process, addrs[i] - 1);

      if (mapping != NULL && g_str_has_prefix (last_part (mapping->path), LIBRARY))
        return TRUE;
    }
  return FALSE;
}

/* @size_bytes: 0: its end */
static void
record (SondeHeapProbes *self,
        const SondePerfRecord *hit,
        guint64 address,
        guint64 size_bytes,
        size_t n_addrs)
{
  SondeFrameAllocation *allocation = &self->frame.allocation;

  *allocation = (SondeFrameAllocation){
    .frame = { .len = (guint16) (sizeof *allocation + n_addrs * sizeof (guint64)),
               .cpu = (gint16) hit->cpu,
               .pid = hit->pid,
               .time_ns = hit->time_ns,
               .type = SONDE_FRAME_ALLOCATION },
    .address = address,
    .size_bytes = (gint64) MIN (size_bytes, (guint64) G_MAXINT64),
    .tid = hit->tid,
    .n_addrs = (guint16) n_addrs,
  };
  sonde_inferiors_take_allocation (self->parts.inferiors, &allocation->frame);
}

static void
take_alloc (SondeHeapProbes *self,
            SondeProcess *process,
            ProbedProcess *known,
            const SondePerfRecord *hit,
            const guint64 values[3])
{
  guint64 *addrs = (guint64 *) (void *) (self->frame.bytes + sizeof (SondeFrameAllocation));
  size_t n_addrs;

  if (!is_drawn (self, hit->pid, known, values[1], values[2]))
    return;
  n_addrs
      = sonde_sampler_unwind (self->parts.sampler, process, hit, addrs, SONDE_SAMPLER_MAX_DEPTH);
  /* Stacks of heap events have return addresses alone, and the instruction has one byte. */
  if (n_addrs > 0)
    addrs[0]++;
  if (known->has_library && comes_from_library (self, process, addrs, n_addrs))
    return;
  /* Another of that address has no end that was told. */
  if (!g_hash_table_contains (known->addresses, &values[0]))
    {
      if (self->n_blocks >= SONDE_HEAP_PROBES_MAX_BLOCKS)
        {
          sonde_tally_event (self->parts.tally, SONDE_LEDGER_EVENTS_LOST_RING, 1);
          if (!self->is_full)
            sonde_recorder_warn (self->parts.recorder,
                                 "Probes of allocators tell of more live blocks than there is room "
                                 "for: from here on some are lost");
          self->is_full = TRUE;
          return;
        }
      self->n_blocks++;
      g_hash_table_add (known->addresses, g_memdup2 (&values[0], sizeof values[0]));
    }
  record (self, hit, values[0], values[1], n_addrs);
}

void
sonde_heap_probes_take (SondeHeapProbes *self, SondeProcess *process, const SondePerfRecord *hit)
{
  ProbedProcess *known = g_hash_table_lookup (self->known, GINT_TO_POINTER (hit->pid));
  const SondeProbeState state = { .mask = SONDE_PROBE_REGISTERS,
                                  .registers = hit->sample.regs,
                                  .n_registers = hit->sample.n_regs,
                                  .stack = hit->sample.stack,
                                  .stack_size_bytes = hit->sample.stack_size_bytes };
  const KnownProbe *probe;
  guint64 values[3] = { 0 };
  gboolean is_good;

  probe = known != NULL && process != NULL
                  && !sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN)
                  && known->generation == sonde_process_generation (process)
              ? find_probe (known, hit->sample.ip)
              : NULL;
  is_good = probe != NULL;
  for (guint i = 0; is_good && i < (probe->is_alloc ? 3 : 1); i++)
    is_good = sonde_probe_evaluate (&probe->operands[i], &state, &values[i]);
  if (!is_good || values[0] == 0 || (probe->is_alloc && (values[1] == 0 || values[2] == 0)))
    {
      sonde_tally_event (self->parts.tally, SONDE_LEDGER_EVENTS_REFUSED, 1);
      return;
    }
  if (probe->is_alloc)
    take_alloc (self, process, known, hit, values);
  else if (g_hash_table_remove (known->addresses, &values[0]))
    {
      self->n_blocks--;
      record (self, hit, values[0], 0, 0);
    }
}
