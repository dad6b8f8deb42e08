/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/interpreter/interpreters.h"

#include <errno.h>
#include <string.h>

#include "daemon/capture/interpreter/code-table.h"
#include "daemon/capture/interpreter/mixed-stack.h"
#include "daemon/capture/interpreter/python-finder.h"
#include "daemon/capture/interpreter/runtime.h"
#include "daemon/capture/interpreter/walk-pairs.h"
#include "protocol/ledger.h"

#define MAX_PROCESSES SONDE_PROCESS_TABLE_MAX_PROCESSES
#define MAX_FILES     1024       /* of those names */
#define MUSL_PREFIX   "ld-musl-" /* its C library is the linker */
#define UNNAMED       "[unnamed function]"
#define APART         "[interpreter]"

/* What a file is, by the number of its module. */
typedef enum
{
  FILE_OTHER,
  FILE_RUNTIME,
  FILE_UNKNOWN_RUNTIME,
  FILE_LIBC,
  FILE_MUSL,
  FILE_BEYOND, /* there are too many */
} FileKind;

typedef struct
{
  FileKind kind;
  SondeRuntime runtime;
  SondeWalkLayout threads; /* of LIBC */
} KnownFile;

static const KnownFile runtime_beyond = { .kind = FILE_BEYOND };
static const KnownFile libc_beyond = { .kind = FILE_BEYOND };

typedef struct
{
  uint64_t generation;   /* of the process, see sonde_process_generation() */
  uint64_t serial;       /* of its mappings, when they were looked at */
  uint64_t place;        /* generation of the walk's place; 0: it is not walked */
  const KnownFile *file; /* of the interpreter */
  const KnownFile *libc;
  gboolean is_counted; /* as one that is not walked */
  uint64_t bias;       /* of file */
  uint64_t evaluators[SONDE_RUNTIME_MAX_EVALUATORS][2];
} KnownProcess;

struct SondeInterpreters
{
  SondeProcessTable *processes;
  SondeRecorder *recorder;
  SondeTally *tally;
  SondeInterpretersSend send;
  gpointer user_data;
  GHashTable *files; /* number of a module → KnownFile */
  GHashTable *known; /* pid → KnownProcess */
  SondeCodeTable *codes;
  SondeWalkPairs *pairs;
  uint64_t last_place;
  guint n_places;     /* of KNOWN that are walked */
  gboolean is_walked; /* else nothing is */
  gboolean has_told_full;
  uint64_t names[SONDE_WALK_MAX_FRAMES];
  uint64_t merged[SONDE_INTERPRETERS_MAX_DEPTH];
};

/* Of what closes itself, names stop as mappings do. */
static gboolean
is_shut (const SondeProcess *process)
{
  return sonde_process_flag (process, SONDE_PROCESS_FLAG_CLOSED | SONDE_PROCESS_FLAG_HIDDEN);
}

static void
take_code (const SondeWalkCode *code, gpointer user_data)
{
  SondeInterpreters *self = user_data;
  const KnownProcess *known
      = g_hash_table_lookup (self->known, GINT_TO_POINTER ((int32_t) code->pid));
  const SondeProcess *process
      = known != NULL ? sonde_process_table_find (self->processes, (int32_t) code->pid) : NULL;

  if (process == NULL || is_shut (process) || known->place != code->generation)
    return;
  if (sonde_code_table_add (self->codes, code) || self->has_told_full)
    return;
  self->has_told_full = TRUE;
  sonde_recorder_warn (self->recorder, "There are too many functions of interpreted programs: new "
                                       "ones have no name");
}

SondeInterpreters *
sonde_interpreters_new (SondeProcessTable *processes,
                        SondeRecorder *recorder,
                        SondeTally *tally,
                        SondeInterpretersSend send,
                        gpointer user_data)
{
  SondeInterpreters *self = g_new0 (SondeInterpreters, 1);

  self->processes = processes;
  self->recorder = recorder;
  self->tally = tally;
  self->send = send;
  self->user_data = user_data;
  self->files = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->known = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->codes = sonde_code_table_new ();
  self->pairs = sonde_walk_pairs_new (take_code, self);
  return self;
}

void
sonde_interpreters_free (SondeInterpreters *self)
{
  if (self == NULL)
    return;
  sonde_walk_pairs_free (self->pairs);
  sonde_code_table_free (self->codes);
  g_hash_table_unref (self->known);
  g_hash_table_unref (self->files);
  g_free (self);
}

void
sonde_interpreters_set_walked (SondeInterpreters *self)
{
  self->is_walked = TRUE;
}

/* --- files --- */

static void
tell_unknown (SondeInterpreters *self, SondeWalkKind kind, const char *file_name, const char *why)
{
  g_autofree char *text
      = g_strdup_printf ("Functions of %s programs are not shown where %s runs them: %s",
                         sonde_runtime_kinds[kind].language, file_name, why);

  sonde_recorder_warn (self->recorder, text);
}

/* The evaluating function is large: a compiler may have split it. */
static void
add_parts (SondeRuntime *runtime, const SondeUnwindModule *module)
{
  uint64_t begin = runtime->evaluators[0][0];
  uint64_t end;

  while (runtime->n_evaluators < SONDE_RUNTIME_MAX_EVALUATORS
         && sonde_module_find_part (module, begin, &begin, &end))
    {
      runtime->evaluators[runtime->n_evaluators][0] = begin;
      runtime->evaluators[runtime->n_evaluators++][1] = end;
    }
}

/* Each file is read once. NULL: it is neither an interpreter nor the C library. */
static const KnownFile *
know_file (SondeInterpreters *self, const SondeProcessMapping *mapping)
{
  gpointer number = GUINT_TO_POINTER (sonde_module_id (mapping->module));
  KnownFile *file = g_hash_table_lookup (self->files, number);
  const char *slash = strrchr (mapping->path, '/');
  const char *name = slash != NULL ? slash + 1 : mapping->path;
  SondeWalkKind kind = sonde_runtime_guess (name);
  int fd = sonde_module_fd (mapping->module);
  const char *why = NULL;
  int result;

  if (file != NULL)
    return file;
  if (fd < 0
      || (kind == SONDE_WALK_NONE && !sonde_python_has_name_of_libc (name)
          && !g_str_has_prefix (name, MUSL_PREFIX)))
    return NULL;
  if (g_hash_table_size (self->files) >= MAX_FILES)
    return kind != SONDE_WALK_NONE ? &runtime_beyond : &libc_beyond;
  file = g_new0 (KnownFile, 1);
  g_hash_table_insert (self->files, number, file);
  if (kind != SONDE_WALK_NONE)
    {
      result = sonde_runtime_find (kind, fd, name, &file->runtime, &why);
      if (result == 0 && sonde_runtime_kinds[kind].find_evaluator != NULL)
        result
            = sonde_runtime_kinds[kind].find_evaluator (fd, mapping->module, &file->runtime, &why);
      file->kind = result == 0          ? FILE_RUNTIME
                   : result == -ENOTSUP ? FILE_UNKNOWN_RUNTIME
                                        : FILE_OTHER;
      if (result == 0)
        add_parts (&file->runtime, mapping->module);
      else if (result == -ENOTSUP)
        tell_unknown (self, kind, name, why);
    }
  else if (g_str_has_prefix (name, MUSL_PREFIX))
    file->kind = FILE_MUSL;
  else
    file->kind = sonde_python_find_threads (fd, &file->threads) == 0 ? FILE_LIBC : FILE_OTHER;
  return file;
}

/* --- processes --- */

static void
forget_place (SondeInterpreters *self, KnownProcess *known)
{
  self->n_places -= known->place != 0;
  known->place = 0;
}

static void
stop_walk (SondeInterpreters *self, int32_t pid, KnownProcess *known)
{
  SondeMessageInterpreter message = { .pid = pid, .place.kind = SONDE_WALK_NONE };

  if (known->place != 0)
    self->send (&message, self->user_data);
  forget_place (self, known);
}

static void
start_walk (SondeInterpreters *self,
            SondeProcess *process,
            KnownProcess *known,
            const SondeProcessMapping *mapping)
{
  const SondeRuntime *runtime = &known->file->runtime;
  SondeMessageInterpreter message = {
    .pid = sonde_process_pid (process),
    .start_ticks = sonde_process_start_ticks (process),
    .start = mapping->start,
    .offset = mapping->offset,
    .inode = mapping->file.inode,
    .dev_major = mapping->file.dev_major,
    .dev_minor = mapping->file.dev_minor,
    .place = { .generation = ++self->last_place,
               .key = runtime->key + mapping->bias,
               .code_type = runtime->code_type != 0 ? runtime->code_type + mapping->bias : 0,
               .text_type = runtime->text_type != 0 ? runtime->text_type + mapping->bias : 0,
               .kind = runtime->kind,
               .layout = runtime->layout },
  };

  if (known->libc != NULL)
    {
      const SondeWalkLayout *threads = &known->libc->threads;

      message.place.layout.thread_data = threads->thread_data;
      message.place.layout.thread_data_size = threads->thread_data_size;
      message.place.layout.thread_data_value = threads->thread_data_value;
    }
  self->n_places += known->place == 0;
  known->place = message.place.generation;
  known->bias = mapping->bias;
  for (size_t i = 0; i < runtime->n_evaluators; i++)
    for (size_t end = 0; end < 2; end++)
      known->evaluators[i][end] = runtime->evaluators[i][end] + mapping->bias;
  sonde_code_table_forget (self->codes, message.pid);
  self->send (&message, self->user_data);
}

/* Once for each process. */
static void
count_unwalked (SondeInterpreters *self, KnownProcess *known, SondeStatistic why)
{
  if (!known->is_counted)
    sonde_tally_add (self->tally, why, 1);
  known->is_counted = TRUE;
}

/* Whether its mappings have an interpreter, and the same one. */
static void
look_at (SondeInterpreters *self, SondeProcess *process, KnownProcess *known)
{
  size_t n_mappings = 0;
  const SondeProcessMapping *mappings = sonde_process_mappings (process, &n_mappings);
  const SondeProcessMapping *found = NULL;
  const KnownFile *runtime = NULL;
  const KnownFile *libc = NULL;
  gboolean has_unknown = FALSE;
  gboolean has_musl = FALSE;
  gboolean is_libc_beyond = FALSE;
  gboolean is_beyond = FALSE;
  gboolean needs_libc;
  gboolean is_ready;

  for (size_t i = 0; i < n_mappings; i++)
    {
      const KnownFile *file = mappings[i].module != NULL ? know_file (self, &mappings[i]) : NULL;

      if (file != NULL && file->kind == FILE_RUNTIME && runtime == NULL)
        {
          runtime = file;
          found = &mappings[i];
        }
      else if (file != NULL && file->kind == FILE_LIBC)
        libc = file;
      has_unknown = has_unknown || (file != NULL && file->kind == FILE_UNKNOWN_RUNTIME);
      has_musl = has_musl || (file != NULL && file->kind == FILE_MUSL);
      is_libc_beyond = is_libc_beyond || file == &libc_beyond;
      is_beyond = is_beyond || file == &runtime_beyond;
    }
  needs_libc = runtime != NULL && sonde_runtime_kinds[runtime->runtime.kind].needs_libc;
  if (!needs_libc)
    libc = NULL;
  is_ready = runtime != NULL && (libc != NULL || !needs_libc);
  is_beyond = is_beyond || (is_libc_beyond && needs_libc && libc == NULL)
              || (is_ready && known->place == 0 && self->n_places >= SONDE_WALK_MAX_PROCESSES);
  is_ready = is_ready && !is_beyond;
  if (has_unknown)
    count_unwalked (self, known, SONDE_STATISTIC_INTERPRETERS_UNKNOWN);
  else if (needs_libc && has_musl)
    count_unwalked (self, known, SONDE_STATISTIC_INTERPRETERS_MUSL);
  else if (is_ready && !self->is_walked)
    count_unwalked (self, known, SONDE_STATISTIC_INTERPRETERS_CLOSED);
  else if (is_beyond)
    count_unwalked (self, known, SONDE_STATISTIC_INTERPRETERS_BEYOND);
  if (known->place != 0 && runtime == known->file && libc == known->libc
      && found->bias == known->bias)
    return;
  known->file = runtime;
  known->libc = libc;
  if (is_ready)
    start_walk (self, process, known, found);
  else
    stop_walk (self, sonde_process_pid (process), known);
}

static gboolean
is_gone (gpointer pid, gpointer known, gpointer user_data)
{
  SondeInterpreters *self = user_data;

  if (sonde_process_table_has (self->processes, GPOINTER_TO_INT (pid)))
    return FALSE;
  sonde_code_table_forget (self->codes, GPOINTER_TO_INT (pid));
  forget_place (self, known);
  return TRUE;
}

/* Those whose end nobody has told. */
static void
forget_gone (SondeInterpreters *self)
{
  g_hash_table_foreach_remove (self->known, is_gone, self);
}

void
sonde_interpreters_meet (SondeInterpreters *self, SondeProcess *process)
{
  gpointer pid = GINT_TO_POINTER (sonde_process_pid (process));
  KnownProcess *known = g_hash_table_lookup (self->known, pid);
  uint64_t serial = sonde_process_resolve_modules (self->processes, process);

  if (known != NULL && known->generation == sonde_process_generation (process)
      && known->serial == serial)
    return;
  if (is_shut (process))
    return;
  if (known == NULL && g_hash_table_size (self->known) >= MAX_PROCESSES)
    forget_gone (self);
  if (known == NULL && g_hash_table_size (self->known) >= MAX_PROCESSES)
    return;
  if (known == NULL)
    {
      known = g_new0 (KnownProcess, 1);
      g_hash_table_insert (self->known, pid, known);
    }
  if (known->generation != sonde_process_generation (process))
    {
      forget_place (self, known);
      *known = (KnownProcess){ .generation = sonde_process_generation (process) };
    }
  known->serial = serial;
  look_at (self, process, known);
}

void
sonde_interpreters_forget (SondeInterpreters *self, int32_t pid)
{
  KnownProcess *known = g_hash_table_lookup (self->known, GINT_TO_POINTER (pid));

  if (known == NULL)
    return;
  stop_walk (self, pid, known);
  sonde_code_table_forget (self->codes, pid);
  g_hash_table_remove (self->known, GINT_TO_POINTER (pid));
}

/* --- walks --- */

void
sonde_interpreters_take_walk (SondeInterpreters *self, const SondePerfRecord *record)
{
  guint64 n_before = sonde_walk_pairs_n_unpaired (self->pairs);

  sonde_walk_pairs_add (self->pairs, record->cpu, record->time_ns, record->walk.bytes,
                        record->walk.size_bytes);
  sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS_UNPAIRED,
                   sonde_walk_pairs_n_unpaired (self->pairs) - n_before);
}

void
sonde_interpreters_end_sample (SondeInterpreters *self, int cpu)
{
  guint64 n_before = sonde_walk_pairs_n_unpaired (self->pairs);

  sonde_walk_pairs_end (self->pairs, cpu);
  sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS_UNPAIRED,
                   sonde_walk_pairs_n_unpaired (self->pairs) - n_before);
}

gboolean
sonde_interpreters_check_losses (SondeInterpreters *self, guint64 n_lost)
{
  guint64 n_missing = sonde_walk_pairs_n_missing (self->pairs);
  g_autofree char *text = NULL;

  if (n_missing <= n_lost)
    return TRUE;
  text = g_strdup_printf (SONDE_LEDGER_MISSING
                          "%" G_GUINT64_FORMAT " walks and names of interpreted programs did not "
                          "come, and the kernel says that it lost %" G_GUINT64_FORMAT,
                          n_missing, n_lost);
  sonde_recorder_warn (self->recorder, text);
  return FALSE;
}

/* Bytes of code before the instruction; or what else its lines are found by. */
static int64_t
instruction_of (const SondeRuntime *runtime, const SondeCode *code, const SondeWalkFrame *frame)
{
  int64_t at = (int32_t) (frame->at - code->first_instruction);

  return runtime->first_instruction != 0 ? at - (int64_t) runtime->first_instruction
                                         : at * runtime->instruction_bytes;
}

static uint64_t
name_tagged (SondeInterpreters *self, const SondeRuntime *runtime, const char *name, gint64 time_ns)
{
  char text[64];

  g_snprintf (text, sizeof text, "%s%s", name, sonde_runtime_kinds[runtime->kind].tag);
  return sonde_recorder_name (self->recorder, text, time_ns);
}

/* The address that stands for a frame; 0: for none */
static uint64_t
name_frame (SondeInterpreters *self,
            const SondeRuntime *runtime,
            const SondePerfRecord *sample,
            const SondeWalkFrame *frame,
            gboolean *is_unnamed)
{
  SondeCode *code;
  SondeCodePlace *place;
  g_autofree char *text = NULL;

  if (frame->code == 0)
    return 0;
  code = sonde_code_table_find (self->codes, sample->pid, frame->code);
  if (code == NULL)
    {
      *is_unnamed = TRUE;
      return name_tagged (self, runtime, UNNAMED, sample->time_ns);
    }
  place = &code->recent[frame->at >> 1 & (SONDE_CODE_RECENT - 1)];
  if (!place->is_set || place->at != frame->at)
    {
      text = sonde_code_describe (code, runtime, instruction_of (runtime, code, frame));
      *place = (SondeCodePlace){ .at = frame->at,
                                 .is_set = TRUE,
                                 .made_up
                                 = sonde_recorder_name (self->recorder, text, sample->time_ns) };
    }
  return place->made_up;
}

size_t
sonde_interpreters_merge (SondeInterpreters *self,
                          SondeProcess *process,
                          const SondePerfRecord *sample,
                          uint64_t *addrs,
                          size_t n_addrs,
                          gboolean is_complete)
{
  const SondeWalkRecord *walk = sonde_walk_pairs_find (self->pairs, sample);
  const KnownProcess *known = g_hash_table_lookup (self->known, GINT_TO_POINTER (sample->pid));
  const SondeRuntime *runtime;
  gboolean is_unnamed = FALSE;
  SondeMixedStack stack;
  SondeMixedResult result;
  size_t n_merged;

  if (known == NULL || known->place == 0 || known->generation != sonde_process_generation (process)
      || is_shut (process))
    return n_addrs;
  runtime = &known->file->runtime;
  stack = (SondeMixedStack){
    .addrs = addrs,
    .n_addrs = n_addrs,
    .is_complete = is_complete,
    .evaluators = known->evaluators,
    .n_evaluators = runtime->n_evaluators,
  };
  if (walk == NULL || walk->generation != known->place)
    {
      sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS_ABSENT,
                       sonde_mixed_stack_is_interpreted (&stack));
      return n_addrs;
    }
  for (uint32_t i = 0; i < walk->n_frames; i++)
    self->names[i] = name_frame (self, runtime, sample, &walk->frames[i], &is_unnamed);
  stack.frames = walk->frames;
  stack.names = self->names;
  stack.n_frames = walk->n_frames;
  stack.flags = walk->flags;
  stack.entry = (SondeWalkEntry) runtime->layout.entry;
  stack.begins_early = sonde_runtime_kinds[runtime->kind].begins_early;
  stack.apart = name_tagged (self, runtime, APART, sample->time_ns);
  result = sonde_mixed_stack_merge (&stack, self->merged, G_N_ELEMENTS (self->merged), &n_merged);
  memcpy (addrs, self->merged, n_merged * sizeof addrs[0]);
  sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS, 1);
  sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS_TORN, (walk->flags & SONDE_WALK_TORN) != 0);
  sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS_DEEP, (walk->flags & SONDE_WALK_DEEP) != 0);
  sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS_APART, result == SONDE_MIXED_APART);
  sonde_tally_add (self->tally, SONDE_STATISTIC_WALKS_UNNAMED, is_unnamed);
  return n_merged;
}
