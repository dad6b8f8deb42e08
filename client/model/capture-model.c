/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/capture-model.h"

#include <string.h>

#include "client/base/id-map.h"
#include "client/base/text-pool.h"
#include "client/base/text.h"
#include "client/model/frame-parts.h"
#include "client/model/ledger.h"
#include "client/model/mapping-tree.h"
#include "client/model/stack-cache.h"
#include "client/model/task-list.h"

#define COMM_MAX         15 /* bytes, as TASK_COMM_LEN without the NUL */
#define PROCESS_NAMELESS "?"

/* The address space of one pid. A forked child begins with the mappings that its parent had by
 * then. */
typedef struct
{
  guint process;     /* the name it goes by now; G_MAXUINT: none yet */
  guint named_after; /* and by then the one of its parent's; G_MAXUINT: none */
  SondeMappingRoot maps;
  gboolean is_mapped;    /* something was, by itself or by a parent */
  gboolean is_cut;       /* something was that had no room: what lies where is not known any more */
  guint64 vdso;          /* where the kernel put its own code, 0: not known */
  guint32 generation;    /* raised by each new mapping */
  SondeIdMap *locations; /* address → location; NULL: none yet */
  SondeStackMemo *memo;  /* NULL: not sampled yet, or the one that many share */
} Space;

typedef struct
{
  SondeLocation location;
  guint32 generation; /* of the space when the mapping was looked up last */
} Location;

typedef struct
{
  guint64 address;  /* made up */
  const char *name; /* of texts */
} JitName;

struct SondeCaptureModel
{
  SondeModelFuncs funcs;
  gpointer user_data;

  SondeBudget *budget;
  SondeTextPool *texts;
  GPtrArray *processes;        /* SondeModelProcess, its texts of the pool */
  GHashTable *numbers_by_name; /* "PID COMM" → number of a process */
  guint truncated;             /* number of a process; G_MAXUINT: none */
  GHashTable *spaces;          /* pid → Space */
  Space beyond;                /* of all pids that had no room */
  SondeMappingTree *maps;
  GPtrArray *mappings;  /* owns every SondeModelMapping */
  GArray *locations;    /* Location; the first one stands for those that had no room */
  SondeIdMap *shared;   /* address → location, for JIT names and the kernel */
  GArray *jit_names;    /* JitName */
  SondeIdMap *jit_ids;  /* address → index of jit_names */
  GHashTable *metadata; /* id → text */
  gsize metadata_bytes;
  SondeStackMemo *memo; /* of processes that have none of their own, */
  const Space *memo_of; /* and of which one */
  guint n_memos;
  SondeEmbeddedFiles *files;
  SondeTaskList *tasks;
  SondeHeapLogReader *heap_log;
  SondeLedgerCounters ledger;
  GPtrArray *counters;         /* SondeModelCounter */
  SondeIdMap *counter_numbers; /* id in the capture → number in counters */
  GArray *stack;               /* guint32: the sample at hand */
  SondeStackCache *stacks;     /* of allocations */
  guint64 n_samples;
  guint64 n_allocations;
  gint64 first_ns;
  gint64 last_ns;
};

static void
space_free (gpointer data)
{
  Space *space = data;

  sonde_id_map_free (space->locations);
  sonde_stack_memo_free (space->memo);
  g_free (space);
}

static void
counter_free (gpointer data)
{
  SondeModelCounter *counter = data;

  g_free (counter->category);
  g_free (counter->name);
  g_free (counter->description);
  g_free (counter);
}

static void
take_logged (const SondeFrameAllocation *event, SondeHeapLogStack *stack, gpointer user_data)
{
  sonde_capture_model_add_logged (user_data, event, stack);
}

SondeCaptureModel *
sonde_capture_model_new (const SondeModelFuncs *funcs, gpointer user_data)
{
  SondeCaptureModel *self = g_new0 (SondeCaptureModel, 1);
  const Location truncated = { .location = { .pid = -1 } };

  self->funcs = *funcs;
  self->user_data = user_data;
  self->budget = g_new (SondeBudget, 1);
  sonde_budget_init (self->budget);
  self->texts = sonde_text_pool_new (self->budget);
  self->processes = g_ptr_array_new_with_free_func (g_free);
  self->numbers_by_name = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->truncated = G_MAXUINT;
  self->spaces = g_hash_table_new_full (NULL, NULL, NULL, space_free);
  self->beyond.process = self->beyond.named_after = G_MAXUINT;
  self->maps = sonde_mapping_tree_new (self->budget);
  self->mappings = g_ptr_array_new_with_free_func (g_free);
  self->locations = g_array_new (FALSE, FALSE, sizeof (Location));
  g_array_append_val (self->locations, truncated);
  self->memo = sonde_stack_memo_new ();
  self->shared = sonde_id_map_new ();
  self->jit_names = g_array_new (FALSE, FALSE, sizeof (JitName));
  self->jit_ids = sonde_id_map_new ();
  self->metadata = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, g_free);
  self->files = sonde_embedded_files_new (self->budget);
  self->tasks = sonde_task_list_new (self->budget);
  self->heap_log = sonde_heap_log_reader_new (take_logged, self);
  self->stack = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->stacks = sonde_stack_cache_new ();
  sonde_ledger_counters_init (&self->ledger);
  self->counters = g_ptr_array_new_with_free_func (counter_free);
  self->counter_numbers = sonde_id_map_new ();
  return self;
}

void
sonde_capture_model_free (SondeCaptureModel *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->processes);
  g_hash_table_unref (self->numbers_by_name);
  g_hash_table_unref (self->spaces);
  g_ptr_array_unref (self->mappings);
  sonde_mapping_tree_free (self->maps);
  sonde_stack_memo_free (self->memo);
  g_array_unref (self->locations);
  sonde_id_map_free (self->shared);
  g_array_unref (self->jit_names);
  sonde_id_map_free (self->jit_ids);
  g_hash_table_unref (self->metadata);
  g_array_unref (self->stack);
  sonde_stack_cache_free (self->stacks);
  sonde_embedded_files_free (self->files);
  sonde_task_list_free (self->tasks);
  sonde_heap_log_reader_free (self->heap_log);
  sonde_ledger_counters_clear (&self->ledger);
  g_ptr_array_unref (self->counters);
  sonde_id_map_free (self->counter_numbers);
  sonde_text_pool_free (self->texts);
  g_free (self->budget);
  g_free (self);
}

/* --- processes: a pid has a number for each name that it goes by --- */

/* "/usr/bin/python3 work.py" and the kernel's own "python3" are one name. */
static char *
dup_comm (const char *cmdline)
{
  const char *word = cmdline;
  gsize len = strcspn (cmdline, " ");

  if (*cmdline == '/' || *cmdline == '.')
    {
      const char *slash = memrchr (cmdline, '/', len);

      if (slash != NULL && slash + 1 < cmdline + len)
        word = slash + 1;
    }
  len -= (gsize) (word - cmdline);
  return g_strndup (word, MIN (len, COMM_MAX));
}

static guint
add_process (SondeCaptureModel *self, gint32 pid)
{
  SondeModelProcess *process = g_new0 (SondeModelProcess, 1);

  process->pid = pid;
  g_ptr_array_add (self->processes, process);
  return self->processes->len - 1;
}

/* The number of a process whose names are still to be filled in: of one without, or a new one;
 * G_MAXUINT: there is no room. */
static guint
take_nameless (SondeCaptureModel *self, gint32 pid)
{
  g_autofree char *key = g_strdup_printf ("%d %s", pid, PROCESS_NAMELESS);
  gpointer found;

  if (g_hash_table_lookup_extended (self->numbers_by_name, key, NULL, &found))
    {
      g_hash_table_remove (self->numbers_by_name, key);
      return GPOINTER_TO_UINT (found);
    }
  if (!sonde_budget_take (self->budget, SONDE_LIMIT_PROCESSES, 1))
    return G_MAXUINT;
  return add_process (self, pid);
}

/* The number of the process that stands for all that had no room: SONDE_TRUNCATED, pid -1. */
static guint
ensure_truncated (SondeCaptureModel *self)
{
  SondeModelProcess *process;

  if (self->truncated == G_MAXUINT)
    {
      self->truncated = add_process (self, -1);
      process = g_ptr_array_index (self->processes, self->truncated);
      process->comm = process->cmdline = SONDE_TRUNCATED;
    }
  return self->truncated;
}

/* The number of @pid under the name that @cmdline begins with. The first name of a process that had
 * none takes its number. */
static guint
ensure_named (SondeCaptureModel *self, gint32 pid, const char *cmdline)
{
  g_autofree char *comm = dup_comm (cmdline);
  g_autofree char *key = g_strdup_printf ("%d %s", pid, comm);
  gpointer found;
  SondeModelProcess *process;
  guint number;

  if (g_hash_table_lookup_extended (self->numbers_by_name, key, NULL, &found))
    {
      process = g_ptr_array_index (self->processes, GPOINTER_TO_UINT (found));
      if (strlen (cmdline) > strlen (process->comm))
        process->cmdline = sonde_text_pool_add (self->texts, cmdline, SONDE_MAX_PATH_BYTES);
      return GPOINTER_TO_UINT (found);
    }

  number = take_nameless (self, pid);
  if (number == G_MAXUINT)
    return ensure_truncated (self);
  process = g_ptr_array_index (self->processes, number);
  process->comm = sonde_text_pool_add (self->texts, comm, COMM_MAX);
  process->cmdline = sonde_text_pool_add (self->texts, cmdline, SONDE_MAX_PATH_BYTES);
  g_hash_table_insert (self->numbers_by_name, g_steal_pointer (&key), GUINT_TO_POINTER (number));
  return number;
}

static Space *
find_space (SondeCaptureModel *self, gint32 pid)
{
  return g_hash_table_lookup (self->spaces, GINT_TO_POINTER (pid));
}

/* self->beyond if there is no room for one more. */
static Space *
ensure_space (SondeCaptureModel *self, gint32 pid)
{
  Space *space = find_space (self, pid);

  if (space != NULL)
    return space;
  if (!sonde_budget_take (self->budget, SONDE_LIMIT_SPACES, 1))
    return &self->beyond;
  space = g_new0 (Space, 1);
  space->process = space->named_after = G_MAXUINT;
  g_hash_table_insert (self->spaces, GINT_TO_POINTER (pid), space);
  return space;
}

/* The newest mapping that holds @address, or NULL. */
static SondeModelMapping *
find_mapping (const SondeCaptureModel *self, const Space *space, guint64 address)
{
  return space->is_cut ? NULL : sonde_mapping_tree_find (self->maps, &space->maps, address);
}

/* --- stacks --- */

static guint32
add_location (SondeCaptureModel *self,
              guint64 address,
              gint32 pid,
              gboolean in_kernel,
              const SondeModelMapping *mapping,
              guint32 generation)
{
  Location location = {
    .location = { .address = address, .pid = pid, .in_kernel = in_kernel, .mapping = mapping },
    .generation = generation,
  };

  if (!sonde_budget_take (self->budget, SONDE_LIMIT_ADDRESSES, 1))
    return SONDE_LOCATION_TRUNCATED;
  g_array_append_val (self->locations, location);
  return self->locations->len - 1;
}

static guint32
locate_user (SondeCaptureModel *self, Space *space, gint32 pid, guint64 address)
{
  const SondeModelMapping *mapping;
  guint32 number;

  if (space->locations == NULL)
    space->locations = sonde_id_map_new ();
  if (sonde_id_map_lookup (space->locations, address, &number))
    {
      Location *known = &g_array_index (self->locations, Location, number);

      if (known->generation == space->generation)
        return number;
      mapping = find_mapping (self, space, address);
      if (mapping == known->location.mapping)
        {
          known->generation = space->generation;
          return number;
        }
    }
  else
    mapping = find_mapping (self, space, address);

  number = add_location (self, address, pid, FALSE, mapping, space->generation);
  if (number != SONDE_LOCATION_TRUNCATED)
    sonde_id_map_set (space->locations, address, number);
  return number;
}

typedef struct
{
  SondeCaptureModel *model;
  Space *space;
  gint32 pid;
} Locator;

/* A return address is looked up one byte lower, inside the call: the next instruction may belong to
 * another function. */
static guint32
locate (guint64 address, gboolean in_kernel, gboolean is_caller, gpointer user_data)
{
  const Locator *self = user_data;

  if (sonde_is_jit_address (address) || in_kernel || self->space == &self->model->beyond)
    {
      guint32 number;

      if (!sonde_id_map_lookup (self->model->shared, address, &number))
        {
          number = add_location (self->model, address, -1, in_kernel, NULL, 0);
          if (number != SONDE_LOCATION_TRUNCATED)
            sonde_id_map_set (self->model->shared, address, number);
        }
      return number;
    }
  return locate_user (self->model, self->space, self->pid,
                      is_caller && address > 0 ? address - 1 : address);
}

/* Most processes remember their last stack, those that come very late share one. */
static SondeStackMemo *
ensure_memo (SondeCaptureModel *self, Space *space)
{
  if (space->memo == NULL && space != &self->beyond && self->n_memos < SONDE_MAX_MEMOS)
    {
      space->memo = sonde_stack_memo_new ();
      self->n_memos++;
    }
  if (space->memo != NULL)
    return space->memo;
  if (self->memo_of != space)
    sonde_stack_memo_forget (self->memo);
  self->memo_of = space;
  return self->memo;
}

/* Fills self->stack, outermost first. Frames without room that follow each other are one. */
static void
locate_stack (SondeCaptureModel *self, Space *space, gint32 pid, const SondeFrameStack *stack)
{
  Locator locator = { self, space, pid };
  guint32 *numbers;
  guint n = 0;

  sonde_stack_memo_locate (ensure_memo (self, space), stack, locate, &locator, self->stack);
  if (sonde_budget_has (self->budget, SONDE_LIMIT_ADDRESSES))
    return;
  numbers = (guint32 *) (void *) self->stack->data;
  for (guint i = 0; i < self->stack->len; i++)
    if (i == 0 || numbers[i] != SONDE_LOCATION_TRUNCATED
        || numbers[n - 1] != SONDE_LOCATION_TRUNCATED)
      numbers[n++] = numbers[i];
  g_array_set_size (self->stack, n);
}

/* --- frames --- */

static void
tell_life (SondeCaptureModel *self, SondeModelTurn turn, const SondeFrame *frame, gint32 child)
{
  if (self->funcs.life != NULL)
    self->funcs.life (&(SondeModelLife){ turn, frame->pid, child, frame->time_ns },
                      self->user_data);
}

/* The state of a process may be told more than once, and build ids only later. */
static gboolean
is_told_again (SondeCaptureModel *self,
               SondeModelMapping *old,
               const SondeFrameMap *frame,
               const char *build_id)
{
  if (old->start != frame->start || old->end != frame->end || old->offset != frame->offset
      || old->inode != frame->inode || strncmp (old->path, frame->path, SONDE_MAX_PATH_BYTES) != 0)
    return FALSE;
  if (old->build_id == NULL && build_id != NULL)
    old->build_id = sonde_text_pool_add (self->texts, build_id, SONDE_MAX_PATH_BYTES);
  return build_id == NULL || strncmp (old->build_id, build_id, SONDE_MAX_PATH_BYTES) == 0;
}

static void
add_map (SondeCaptureModel *self, const SondeFrameMap *frame)
{
  const char *build_id = sonde_frame_build_id (frame);
  Space *space = ensure_space (self, frame->frame.pid);
  SondeModelMapping *old = find_mapping (self, space, frame->start);
  SondeModelMapping *mapping;

  if (space == &self->beyond || (old != NULL && is_told_again (self, old, frame, build_id)))
    return;
  /* No frame says exec. But it moves this mapping, and nothing else does. Of a child that is told
   * for the first time it is not known when it did that, and it has nothing of its own yet. */
  if (g_str_equal (frame->path, "[vdso]"))
    {
      if (space->vdso != 0 && space->vdso != frame->start)
        tell_life (self, SONDE_MODEL_EXECUTED, &frame->frame, 0);
      space->vdso = frame->start;
    }
  space->generation++;
  if (!sonde_budget_take (self->budget, SONDE_LIMIT_MAPPINGS, 1))
    {
      space->is_cut = TRUE;
      return;
    }
  mapping = g_new0 (SondeModelMapping, 1);
  mapping->start = frame->start;
  mapping->end = frame->end;
  mapping->offset = frame->offset;
  mapping->inode = frame->inode;
  mapping->time_ns = frame->frame.time_ns;
  mapping->path = sonde_text_pool_add (self->texts, frame->path, SONDE_MAX_PATH_BYTES);
  if (build_id != NULL)
    mapping->build_id = sonde_text_pool_add (self->texts, build_id, SONDE_MAX_PATH_BYTES);
  g_ptr_array_add (self->mappings, mapping);
  space->is_mapped = TRUE;
  space->is_cut
      |= !sonde_mapping_tree_add (self->maps, &space->maps, frame->start, frame->end, mapping);
}

/* The numbers in FORK are thread ids; a thread's space is never asked for, but it may fork in turn.
 */
static void
add_fork (SondeCaptureModel *self, const SondeFrameFork *frame)
{
  Space *parent = find_space (self, frame->frame.pid);
  Space *child;

  if (parent == NULL || frame->child == frame->frame.pid)
    return;
  child = ensure_space (self, frame->child);
  if (child == &self->beyond || child->is_mapped || child->is_cut)
    return;

  child->maps = sonde_mapping_tree_fork (self->maps, &parent->maps);
  child->is_mapped = parent->is_mapped;
  child->is_cut = parent->is_cut;
  child->generation++;
  child->named_after = parent->process != G_MAXUINT ? parent->process : parent->named_after;
}

/* The number of the process that @pid is now. Children have their parent's name until they get one
 * of their own; most are threads, which nobody asks for. */
static guint
ensure_process (SondeCaptureModel *self, Space *space, gint32 pid)
{
  const char *name = PROCESS_NAMELESS;

  if (space == &self->beyond)
    return ensure_truncated (self);
  if (space->process == G_MAXUINT)
    {
      if (space->named_after != G_MAXUINT)
        name = ((const SondeModelProcess *) g_ptr_array_index (self->processes, space->named_after))
                   ->cmdline;
      space->process = ensure_named (self, pid, name);
    }
  return space->process;
}

static void
add_sample (SondeCaptureModel *self, const SondeFrameSample *frame)
{
  Space *space = ensure_space (self, frame->frame.pid);
  SondeModelSample sample
      = { .process = ensure_process (self, space, frame->frame.pid), .tid = frame->tid };
  SondeFrameStack stack
      = { (const guint8 *) frame + sizeof *frame, frame->n_addrs, FALSE, space->generation };

  if (self->n_samples++ == 0)
    self->first_ns = self->last_ns = frame->frame.time_ns;
  self->first_ns = MIN (self->first_ns, frame->frame.time_ns);
  self->last_ns = MAX (self->last_ns, frame->frame.time_ns);
  if (self->funcs.sample == NULL)
    return;

  locate_stack (self, space, frame->frame.pid, &stack);
  sample.time_ns = frame->frame.time_ns;
  sample.locations = (const guint32 *) (void *) self->stack->data;
  sample.n_locations = self->stack->len;
  self->funcs.sample (&sample, self->user_data);
}

/* Returns: whether the stack is met for the first time, or as if it were */
static gboolean
find_stack (SondeCaptureModel *self,
            Space *space,
            const SondeModelAllocation *allocation,
            const SondeFrameStack *stack,
            SondeCachedStack *known)
{
  if (sonde_stack_cache_lookup (self->stacks, allocation->process, stack, known))
    return FALSE;
  locate_stack (self, space, allocation->pid, stack);
  sonde_stack_cache_add (self->stacks, allocation->process, stack, self->stack, known);
  return TRUE;
}

/* @place: (nullable): of the stack */
static void
add_allocation (SondeCaptureModel *self,
                const SondeFrameAllocation *frame,
                const guint8 *addrs,
                guint n_addrs,
                SondeStackPlace *place)
{
  Space *space = ensure_space (self, frame->frame.pid);
  SondeModelAllocation allocation = {
    .process = ensure_process (self, space, frame->frame.pid),
    .pid = frame->frame.pid,
    .tid = frame->tid,
    .time_ns = frame->frame.time_ns,
    .address = frame->address,
    .size_bytes = frame->size_bytes,
  };

  self->n_allocations++;
  if (self->funcs.allocation == NULL)
    return;
  if (frame->size_bytes > 0)
    {
      const SondeFrameStack stack = { addrs, n_addrs, TRUE, space->generation };
      SondeCachedStack known;

      if (place == NULL
          || !sonde_stack_cache_recall (self->stacks, allocation.process, space->generation, place,
                                        &known))
        {
          allocation.is_new_stack = find_stack (self, space, &allocation, &stack, &known);
          if (place != NULL)
            *place = sonde_stack_cache_place (self->stacks, allocation.process, space->generation,
                                              &known);
        }
      allocation.stack = known.number;
      allocation.locations = known.locations;
      allocation.n_locations = known.n_locations;
    }
  self->funcs.allocation (&allocation, self->user_data);
}

void
sonde_capture_model_add_logged (SondeCaptureModel *self,
                                const SondeFrameAllocation *event,
                                SondeHeapLogStack *stack)
{
  if (stack != NULL)
    add_allocation (self, event, (const guint8 *) stack->addrs, stack->n_addrs, &stack->place);
  else
    add_allocation (self, event, NULL, 0, NULL);
}

/* A name replaces the older one of the same address. */
static void
add_jit_name (SondeCaptureModel *self, guint64 address, const char *name)
{
  const char *old = sonde_capture_model_jit_name (self, address);
  JitName added = { .address = address };
  guint32 index;

  if ((old != NULL && g_str_equal (old, name))
      || !sonde_budget_take (self->budget, SONDE_LIMIT_NAMES, 1))
    return;
  added.name = sonde_text_pool_add (self->texts, name, SONDE_MAX_PATH_BYTES);
  if (sonde_id_map_lookup (self->jit_ids, address, &index))
    {
      g_array_index (self->jit_names, JitName, index) = added;
      return;
    }
  sonde_id_map_set (self->jit_ids, address, self->jit_names->len);
  g_array_append_val (self->jit_names, added);
}

static void
add_metadata (SondeCaptureModel *self, const SondeFrameMetadata *frame)
{
  const char *old = g_hash_table_lookup (self->metadata, frame->id);
  gsize size_bytes = strlen (frame->metadata);
  gsize old_bytes = old != NULL ? strlen (old) : 0;

  if (self->metadata_bytes - old_bytes + size_bytes > SONDE_MAX_METADATA_BYTES)
    self->budget->n_cut[SONDE_LIMIT_METADATA]++;
  else if (old != NULL || sonde_budget_take (self->budget, SONDE_LIMIT_METADATA, 1))
    {
      self->metadata_bytes += size_bytes - old_bytes;
      g_hash_table_replace (self->metadata, g_strdup (frame->id), g_strdup (frame->metadata));
    }
}

/* An id that comes again with another name is another counter from then on. */
static void
define_counters (SondeCaptureModel *self, const SondeFrameCounterDefine *frame)
{
  for (guint i = 0; i < frame->n_counters; i++)
    {
      const SondeCounterDefinition *definition = &frame->counters[i];
      gboolean is_double = sonde_counter_type (definition->id_type) == SONDE_COUNTER_DOUBLE;
      guint32 id = sonde_counter_id (definition->id_type);
      SondeModelCounter *counter = NULL;
      guint32 number;

      if (sonde_id_map_lookup (self->counter_numbers, id, &number))
        counter = g_ptr_array_index (self->counters, number);
      if (counter != NULL && counter->is_double == is_double
          && g_str_equal (counter->category, definition->category)
          && g_str_equal (counter->name, definition->name))
        continue;
      if (!sonde_budget_take (self->budget, SONDE_LIMIT_COUNTERS, 1))
        continue;

      counter = g_new0 (SondeModelCounter, 1);
      counter->category = g_strdup (definition->category);
      counter->name = g_strdup (definition->name);
      counter->description = g_strdup (definition->description);
      counter->is_double = is_double;
      sonde_id_map_set (self->counter_numbers, id, self->counters->len);
      g_ptr_array_add (self->counters, counter);
    }
}

/* Values of counters that nobody defined are left out. */
static void
set_counters (const SondeCaptureModel *self, const SondeFrameCounterSet *frame)
{
  SondeFrameValue set = { 0 };
  guint32 number;

  while (sonde_frame_next_value (frame, &set))
    if (sonde_id_map_lookup (self->counter_numbers, set.id, &number))
      self->funcs.value (&(SondeModelValue){ .counter = number,
                                             .pid = frame->frame.pid,
                                             .time_ns = frame->frame.time_ns,
                                             .value = set.value },
                         self->user_data);
}

void
sonde_capture_model_add_frame (SondeCaptureModel *self, const SondeFrame *frame)
{
  SondeFrameName name = { 0 };

  switch (frame->type)
    {
    case SONDE_FRAME_SAMPLE:
      add_sample (self, (const SondeFrameSample *) frame);
      break;
    case SONDE_FRAME_ALLOCATION:
      add_allocation (self, (const SondeFrameAllocation *) frame,
                      (const guint8 *) frame + sizeof (SondeFrameAllocation),
                      ((const SondeFrameAllocation *) frame)->n_addrs, NULL);
      break;
    case SONDE_FRAME_MAP:
      add_map (self, (const SondeFrameMap *) frame);
      break;
    case SONDE_FRAME_PROCESS:
      {
        const SondeFrameProcess *process = (const SondeFrameProcess *) frame;
        Space *space = ensure_space (self, frame->pid);

        if (space != &self->beyond)
          space->process = ensure_named (self, frame->pid, process->cmdline);
        break;
      }
    case SONDE_FRAME_FORK:
      add_fork (self, (const SondeFrameFork *) frame);
      sonde_task_list_fork (self->tasks, frame->pid, ((const SondeFrameFork *) frame)->child);
      tell_life (self, SONDE_MODEL_FORKED, frame, ((const SondeFrameFork *) frame)->child);
      break;
    case SONDE_FRAME_EXIT:
      tell_life (self, SONDE_MODEL_EXITED, frame, 0);
      break;
    case SONDE_FRAME_JITMAP:
      while (sonde_frame_next_name ((const SondeFrameJitmap *) frame, &name))
        add_jit_name (self, name.address, name.name);
      break;
    case SONDE_FRAME_CTRDEF:
      sonde_ledger_counters_define (&self->ledger, (const SondeFrameCounterDefine *) frame);
      define_counters (self, (const SondeFrameCounterDefine *) frame);
      break;
    case SONDE_FRAME_CTRSET:
      sonde_ledger_counters_set (&self->ledger, (const SondeFrameCounterSet *) frame);
      if (self->funcs.value != NULL)
        set_counters (self, (const SondeFrameCounterSet *) frame);
      break;
    case SONDE_FRAME_MARK:
      if (self->funcs.mark != NULL)
        {
          const SondeFrameMark *mark = (const SondeFrameMark *) frame;

          self->funcs.mark (&(SondeModelMark){ .pid = frame->pid,
                                               .time_ns = frame->time_ns,
                                               .duration_ns = mark->duration_ns,
                                               .group = mark->group,
                                               .name = mark->name,
                                               .message = mark->message },
                            self->user_data);
        }
      break;
    case SONDE_FRAME_METADATA:
      add_metadata (self, (const SondeFrameMetadata *) frame);
      break;
    case SONDE_FRAME_FILE_CHUNK:
      sonde_heap_log_reader_add (self->heap_log, frame);
      sonde_embedded_files_add (self->files, (const SondeFrameFileChunk *) frame);
      sonde_task_list_add (self->tasks, (const SondeFrameFileChunk *) frame);
      break;
    default: /* says nothing that is modelled */
      break;
    }
}

guint
sonde_capture_model_n_processes (const SondeCaptureModel *self)
{
  return self->processes->len;
}

const SondeModelProcess *
sonde_capture_model_process (const SondeCaptureModel *self, guint process)
{
  return g_ptr_array_index (self->processes, process);
}

const char *
sonde_capture_model_cgroup (const SondeCaptureModel *self, gint32 pid)
{
  return sonde_task_list_cgroup (self->tasks, pid);
}

const char *
sonde_capture_model_own_thread_name (const SondeCaptureModel *self, gint32 pid, gint32 tid)
{
  return tid != pid ? sonde_task_list_name (self->tasks, tid) : NULL;
}

const char *
sonde_capture_model_thread_name (const SondeCaptureModel *self,
                                 const SondeModelProcess *process,
                                 gint32 tid)
{
  const char *name = sonde_capture_model_own_thread_name (self, process->pid, tid);

  return name != NULL ? name : process->comm;
}

guint
sonde_capture_model_n_mappings (const SondeCaptureModel *self)
{
  return self->mappings->len;
}

guint32
sonde_capture_model_n_locations (const SondeCaptureModel *self)
{
  return self->locations->len;
}

const SondeLocation *
sonde_capture_model_location (const SondeCaptureModel *self, guint32 location)
{
  return &g_array_index (self->locations, Location, location).location;
}

void
sonde_capture_model_settle (SondeCaptureModel *self)
{
  g_clear_pointer (&self->stacks, sonde_stack_cache_free);
  for (guint32 i = 0; i < self->locations->len; i++)
    {
      SondeLocation *location = &g_array_index (self->locations, Location, i).location;
      const Space *space = find_space (self, location->pid);

      if (location->mapping == NULL && location->pid >= 0 && space != NULL)
        location->mapping = find_mapping (self, space, location->address);
    }
}

SondeBudget *
sonde_capture_model_budget (const SondeCaptureModel *self)
{
  return self->budget;
}

guint
sonde_capture_model_n_counters (const SondeCaptureModel *self)
{
  return self->counters->len;
}

const SondeModelCounter *
sonde_capture_model_counter (const SondeCaptureModel *self, guint counter)
{
  return g_ptr_array_index (self->counters, counter);
}

const char *
sonde_capture_model_jit_name (const SondeCaptureModel *self, guint64 address)
{
  guint32 index;

  if (!sonde_id_map_lookup (self->jit_ids, address, &index))
    return NULL;
  return g_array_index (self->jit_names, JitName, index).name;
}

const SondeEmbeddedFiles *
sonde_capture_model_files (const SondeCaptureModel *self)
{
  return self->files;
}

GKeyFile *
sonde_capture_model_dup_settings (const SondeCaptureModel *self)
{
  const char *text = g_hash_table_lookup (self->metadata, SONDE_CAPTURE_SETTINGS);
  g_autoptr (GKeyFile) settings = g_key_file_new ();

  if (text == NULL
      || !g_key_file_load_from_data (settings, text, strlen (text), G_KEY_FILE_NONE, NULL))
    return NULL;
  return g_steal_pointer (&settings);
}

gboolean
sonde_capture_model_ledger (const SondeCaptureModel *self, SondeLedger entry, guint64 *value)
{
  if ((self->ledger.set & 1u << entry) == 0)
    return FALSE;
  *value = (guint64) MAX (self->ledger.values[entry], 0);
  return TRUE;
}

guint64
sonde_capture_model_n_samples (const SondeCaptureModel *self)
{
  return self->n_samples;
}

const SondeHeapLogCounts *
sonde_capture_model_heap_log (const SondeCaptureModel *self)
{
  return sonde_heap_log_reader_counts (self->heap_log);
}

guint64
sonde_capture_model_n_allocations (const SondeCaptureModel *self)
{
  return self->n_allocations;
}

gint64
sonde_capture_model_duration_ns (const SondeCaptureModel *self)
{
  gint64 duration_ns;

  /* Times of foreign frames: any. */
  if (__builtin_sub_overflow (self->last_ns, self->first_ns, &duration_ns))
    return G_MAXINT64;
  return duration_ns;
}

/* --- the present without the past --- */

typedef struct
{
  const SondeCaptureModel *from;
  SondeCaptureModel *to;
  GHashTable *copies;   /* root of a space of @from → the Space of @to with all of it */
  GHashTable *mappings; /* mapping of the space at hand → its copy */
  Space *space;         /* that is being filled */
} PresentCopy;

static SondeModelMapping *
ensure_mapping (PresentCopy *self, const SondeModelMapping *mapping)
{
  SondeModelMapping *copy = g_hash_table_lookup (self->mappings, mapping);

  if (copy != NULL || !sonde_budget_take (self->to->budget, SONDE_LIMIT_MAPPINGS, 1))
    return copy;
  copy = g_memdup2 (mapping, sizeof *mapping);
  copy->path = sonde_text_pool_add (self->to->texts, mapping->path, SONDE_MAX_PATH_BYTES);
  if (mapping->build_id != NULL)
    copy->build_id = sonde_text_pool_add (self->to->texts, mapping->build_id, SONDE_MAX_PATH_BYTES);
  g_ptr_array_add (self->to->mappings, copy);
  g_hash_table_insert (self->mappings, (gpointer) mapping, copy);
  return copy;
}

/* What newer ones hide is not among the pieces: a program that maps and unmaps all day has few. */
static void
copy_piece (guint64 start, guint64 end, const SondeModelMapping *mapping, gpointer user_data)
{
  PresentCopy *self = user_data;
  SondeModelMapping *copy = ensure_mapping (self, mapping);

  self->space->is_cut
      |= copy == NULL
         || !sonde_mapping_tree_add (self->to->maps, &self->space->maps, start, end, copy);
}

/* What spaces share stays shared. */
static void
copy_space (PresentCopy *self, gint32 pid, const Space *space)
{
  Space *copy = ensure_space (self->to, pid);
  gpointer root = GUINT_TO_POINTER (space->maps.root);
  Space *same = g_hash_table_lookup (self->copies, root);
  guint named = space->process != G_MAXUINT ? space->process : space->named_after;
  guint *name = space->process != G_MAXUINT ? &copy->process : &copy->named_after;

  if (copy == &self->to->beyond)
    return;
  copy->is_mapped = space->is_mapped;
  copy->is_cut = space->is_cut;
  copy->vdso = space->vdso;
  if (same != NULL)
    {
      copy->maps = sonde_mapping_tree_fork (self->to->maps, &same->maps);
      copy->is_cut |= same->is_cut;
    }
  else
    {
      self->space = copy;
      g_hash_table_remove_all (self->mappings);
      sonde_mapping_tree_foreach (self->from->maps, &space->maps, copy_piece, self);
      g_hash_table_insert (self->copies, root, copy);
    }
  if (named != G_MAXUINT)
    {
      const SondeModelProcess *process = g_ptr_array_index (self->from->processes, named);

      *name = ensure_named (self->to, process->pid, process->cmdline);
    }
}

SondeCaptureModel *
sonde_capture_model_new_present (const SondeCaptureModel *before,
                                 SondeModelIsAlive is_alive,
                                 const SondeModelFuncs *funcs,
                                 gpointer user_data)
{
  SondeCaptureModel *self = sonde_capture_model_new (funcs, user_data);
  g_autoptr (GHashTable) copies = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) mappings = g_hash_table_new (NULL, NULL);
  PresentCopy copy = { before, self, copies, mappings, NULL };
  GHashTableIter iter;
  gpointer pid, space, id, text;

  g_hash_table_iter_init (&iter, before->spaces);
  while (g_hash_table_iter_next (&iter, &pid, &space))
    if (is_alive (GPOINTER_TO_INT (pid)))
      copy_space (&copy, GPOINTER_TO_INT (pid), space);
  g_hash_table_iter_init (&iter, before->metadata);
  while (g_hash_table_iter_next (&iter, &id, &text))
    g_hash_table_insert (self->metadata, g_strdup (id), g_strdup (text));
  self->metadata_bytes = before->metadata_bytes;
  sonde_embedded_files_copy_mountinfos (self->files, before->files);
  sonde_task_list_copy (self->tasks, before->tasks);
  for (guint i = 0; i < before->jit_names->len; i++)
    {
      const JitName *name = &g_array_index (before->jit_names, JitName, i);

      add_jit_name (self, name->address, name->name);
    }
  sonde_ledger_counters_clear (&self->ledger);
  sonde_ledger_counters_copy (&self->ledger, &before->ledger);
  return self;
}
