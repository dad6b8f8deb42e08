/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a capture says: processes, mappings over time, names; samples and allocations in these
 * terms. */
#include "client/model/capture-model.h"

#include <string.h>

#include "client/model/capture-model-private.h"
#include "client/model/frame-text.h"

static void
space_free (gpointer data)
{
  Space *space = data;

  g_ptr_array_unref (space->mappings);
  sonde_id_map_free (space->locations);
  sonde_stack_memo_free (space->memo);
  g_free (space);
}

SondeCaptureModel *
sonde_capture_model_new (const SondeModelFuncs *funcs, gpointer user_data)
{
  SondeCaptureModel *self = g_new0 (SondeCaptureModel, 1);

  self->funcs = *funcs;
  self->user_data = user_data;
  self->processes = sonde_process_list_new ();
  self->spaces = g_hash_table_new_full (NULL, NULL, NULL, space_free);
  self->mappings = g_ptr_array_new_with_free_func (g_free);
  self->paths = g_string_chunk_new (4096);
  self->locations = g_array_new (FALSE, FALSE, sizeof (Location));
  self->shared = sonde_id_map_new ();
  self->jit_names = sonde_jit_names_new ();
  self->metadata = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->files = sonde_embedded_files_new ();
  self->stack = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->stacks = sonde_stack_cache_new ();
  sonde_ledger_counters_init (&self->ledger);
  self->counters = sonde_model_counters_new ();
  return self;
}

void
sonde_capture_model_free (SondeCaptureModel *self)
{
  if (self == NULL)
    return;
  sonde_process_list_free (self->processes);
  g_hash_table_unref (self->spaces);
  g_ptr_array_unref (self->mappings);
  g_string_chunk_free (self->paths);
  g_array_unref (self->locations);
  sonde_id_map_free (self->shared);
  sonde_jit_names_free (self->jit_names);
  g_hash_table_unref (self->metadata);
  g_array_unref (self->stack);
  sonde_stack_cache_free (self->stacks);
  sonde_embedded_files_free (self->files);
  sonde_ledger_counters_clear (&self->ledger);
  sonde_model_counters_free (self->counters);
  g_free (self);
}

static Space *
find_space (SondeCaptureModel *self, gint32 pid)
{
  return g_hash_table_lookup (self->spaces, GINT_TO_POINTER (pid));
}

Space *
sonde_capture_model_ensure_space (SondeCaptureModel *self, gint32 pid)
{
  Space *space = find_space (self, pid);

  if (space != NULL)
    return space;
  space = g_new0 (Space, 1);
  space->process = G_MAXUINT;
  space->mappings = g_ptr_array_new ();
  space->locations = sonde_id_map_new ();
  space->memo = sonde_stack_memo_new ();
  g_hash_table_insert (self->spaces, GINT_TO_POINTER (pid), space);
  return space;
}

/* The newest mapping that holds @address. */
static SondeMapping *
find_mapping (const Space *space, guint64 address)
{
  guint n = space->mappings->len;

  for (; space != NULL; n = space->n_inherited, space = space->parent)
    for (guint i = n; i > 0; i--)
      {
        SondeMapping *mapping = g_ptr_array_index (space->mappings, i - 1);

        if (address >= mapping->start && address < mapping->end)
          return mapping;
      }
  return NULL;
}

static void
tell_life (SondeCaptureModel *self, SondeModelTurn turn, const SondeFrame *frame, gint32 child)
{
  if (self->funcs.life != NULL)
    self->funcs.life (&(SondeModelLife){ turn, frame->pid, child, frame->time_ns },
                      self->user_data);
}

/* No frame says exec. But it moves this mapping, and nothing else does. Of a child that is told for
 * the first time it is not known when it did that, and it has nothing of its own yet. */
static void
notice_exec (SondeCaptureModel *self, Space *space, const SondeFrameMap *frame)
{
  if (!g_str_equal (frame->path, "[vdso]"))
    return;
  if (space->vdso != 0 && space->vdso != frame->start)
    tell_life (self, SONDE_MODEL_EXECUTED, &frame->frame, 0);
  space->vdso = frame->start;
}

/* The state of a process may be told more than once, and build ids only later. */
static gboolean
is_told_again (SondeCaptureModel *self,
               SondeMapping *old,
               const SondeFrameMap *frame,
               const char *build_id)
{
  if (old->start != frame->start || old->end != frame->end || old->offset != frame->offset
      || old->inode != frame->inode || !g_str_equal (old->path, frame->path))
    return FALSE;
  if (old->build_id == NULL && build_id != NULL)
    old->build_id = g_string_chunk_insert_const (self->paths, build_id);
  return build_id == NULL || g_str_equal (old->build_id, build_id);
}

static void
add_map (SondeCaptureModel *self, const SondeFrameMap *frame)
{
  const char *build_id = sonde_frame_build_id (frame);
  Space *space = sonde_capture_model_ensure_space (self, frame->frame.pid);
  SondeMapping *old = find_mapping (space, frame->start);
  SondeMapping *mapping;

  if (old != NULL && is_told_again (self, old, frame, build_id))
    return;
  notice_exec (self, space, frame);
  mapping = g_new0 (SondeMapping, 1);
  mapping->start = frame->start;
  mapping->end = frame->end;
  mapping->offset = frame->offset;
  mapping->inode = frame->inode;
  mapping->time_ns = frame->frame.time_ns;
  mapping->path = g_string_chunk_insert_const (self->paths, frame->path);
  if (build_id != NULL)
    mapping->build_id = g_string_chunk_insert_const (self->paths, build_id);
  g_ptr_array_add (self->mappings, mapping);
  g_ptr_array_add (space->mappings, mapping);
  space->generation++;
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
  child = sonde_capture_model_ensure_space (self, frame->child);
  if (child->mappings->len > 0 || child->n_inherited > 0)
    return;

  /* only from those that have some of their own, so that nobody is his own ancestor */
  child->parent = parent->mappings->len > 0 ? parent : parent->parent;
  child->n_inherited = parent->mappings->len > 0 ? parent->mappings->len : parent->n_inherited;
  child->generation++;
  if (child->process == G_MAXUINT && parent->process != G_MAXUINT)
    {
      const SondeModelProcess *process = sonde_process_list_get (self->processes, parent->process);
      g_autofree char *cmdline = g_strdup (process->cmdline);

      child->process = sonde_process_list_ensure (self->processes, frame->child, cmdline);
    }
}

static guint32
add_location (SondeCaptureModel *self,
              guint64 address,
              gint32 pid,
              gboolean in_kernel,
              const SondeMapping *mapping,
              guint32 generation)
{
  Location location = {
    .location = { .address = address, .pid = pid, .in_kernel = in_kernel, .mapping = mapping },
    .generation = generation,
  };

  g_array_append_val (self->locations, location);
  return self->locations->len - 1;
}

static guint32
locate_shared (SondeCaptureModel *self, guint64 address, gboolean in_kernel)
{
  guint32 number;

  if (!sonde_id_map_lookup (self->shared, address, &number))
    {
      number = add_location (self, address, -1, in_kernel, NULL, 0);
      sonde_id_map_set (self->shared, address, number);
    }
  return number;
}

static guint32
locate_user (SondeCaptureModel *self, Space *space, gint32 pid, guint64 address)
{
  const SondeMapping *mapping;
  guint32 number;

  if (sonde_id_map_lookup (space->locations, address, &number))
    {
      Location *known = &g_array_index (self->locations, Location, number);

      if (known->generation == space->generation)
        return number;
      mapping = find_mapping (space, address);
      if (mapping == known->location.mapping)
        {
          known->generation = space->generation;
          return number;
        }
    }
  else
    mapping = find_mapping (space, address);

  number = add_location (self, address, pid, FALSE, mapping, space->generation);
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

  if (sonde_jit_names_cover (address) || in_kernel)
    return locate_shared (self->model, address, in_kernel);
  return locate_user (self->model, self->space, self->pid,
                      is_caller && address > 0 ? address - 1 : address);
}

/* Fills self->stack, outermost first. */
static void
locate_stack (SondeCaptureModel *self, gint32 pid, const SondeFrameStack *stack)
{
  Locator locator = { self, find_space (self, pid), pid };

  sonde_stack_memo_locate (locator.space->memo, stack, locate, &locator, self->stack);
}

/* The number of the process that @pid is now. */
static guint
current_process (SondeCaptureModel *self, gint32 pid)
{
  Space *space = sonde_capture_model_ensure_space (self, pid);

  if (space->process == G_MAXUINT)
    space->process = sonde_process_list_ensure (self->processes, pid, SONDE_PROCESS_NAMELESS);
  return space->process;
}

static void
add_sample (SondeCaptureModel *self, const SondeFrameSample *frame)
{
  SondeModelSample sample
      = { .process = current_process (self, frame->frame.pid), .tid = frame->tid };
  SondeFrameStack stack = { (const guint8 *) frame + sizeof *frame, frame->n_addrs, FALSE,
                            find_space (self, frame->frame.pid)->generation };

  if (self->n_samples++ == 0)
    self->first_ns = self->last_ns = frame->frame.time_ns;
  self->first_ns = MIN (self->first_ns, frame->frame.time_ns);
  self->last_ns = MAX (self->last_ns, frame->frame.time_ns);
  if (self->funcs.sample == NULL)
    return;

  locate_stack (self, frame->frame.pid, &stack);
  sample.time_ns = frame->frame.time_ns;
  sample.locations = (const guint32 *) (void *) self->stack->data;
  sample.n_locations = self->stack->len;
  self->funcs.sample (&sample, self->user_data);
}

static void
find_stack (SondeCaptureModel *self,
            const SondeFrameAllocation *frame,
            SondeModelAllocation *allocation)
{
  SondeFrameStack stack = { (const guint8 *) frame + sizeof *frame, frame->n_addrs, TRUE,
                            find_space (self, frame->frame.pid)->generation };
  SondeKnownStack known;

  allocation->is_new_stack
      = !sonde_stack_cache_lookup (self->stacks, allocation->process, &stack, &known);
  if (allocation->is_new_stack)
    {
      locate_stack (self, frame->frame.pid, &stack);
      sonde_stack_cache_add (self->stacks, allocation->process, &stack, self->stack, &known);
    }
  allocation->stack = known.number;
  allocation->locations = known.locations;
  allocation->n_locations = known.n_locations;
}

static void
add_allocation (SondeCaptureModel *self, const SondeFrameAllocation *frame)
{
  SondeModelAllocation allocation = {
    .process = current_process (self, frame->frame.pid),
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
    find_stack (self, frame, &allocation);
  self->funcs.allocation (&allocation, self->user_data);
}

static void
add_mark (SondeCaptureModel *self, const SondeFrameMark *frame)
{
  SondeModelMark mark = { .pid = frame->frame.pid,
                          .time_ns = frame->frame.time_ns,
                          .duration_ns = frame->duration_ns,
                          .group = frame->group,
                          .name = frame->name,
                          .message = frame->message };

  if (self->funcs.mark != NULL)
    self->funcs.mark (&mark, self->user_data);
}

static void
add_metadata (SondeCaptureModel *self, const SondeFrameMetadata *frame)
{
  g_hash_table_replace (self->metadata, g_strndup (frame->id, sizeof frame->id),
                        g_strdup (frame->metadata));
}

void
sonde_capture_model_add_frame (SondeCaptureModel *self, const SondeFrame *frame)
{
  switch (frame->type)
    {
    case SONDE_FRAME_SAMPLE:
      add_sample (self, (const SondeFrameSample *) frame);
      break;
    case SONDE_FRAME_ALLOCATION:
      add_allocation (self, (const SondeFrameAllocation *) frame);
      break;
    case SONDE_FRAME_MAP:
      add_map (self, (const SondeFrameMap *) frame);
      break;
    case SONDE_FRAME_PROCESS:
      {
        const SondeFrameProcess *process = (const SondeFrameProcess *) frame;

        sonde_capture_model_ensure_space (self, frame->pid)->process
            = sonde_process_list_ensure (self->processes, frame->pid, process->cmdline);
        break;
      }
    case SONDE_FRAME_FORK:
      add_fork (self, (const SondeFrameFork *) frame);
      tell_life (self, SONDE_MODEL_FORKED, frame, ((const SondeFrameFork *) frame)->child);
      break;
    case SONDE_FRAME_EXIT:
      tell_life (self, SONDE_MODEL_EXITED, frame, 0);
      break;
    case SONDE_FRAME_JITMAP:
      sonde_jit_names_add (self->jit_names, (const SondeFrameJitmap *) frame);
      break;
    case SONDE_FRAME_CTRDEF:
      sonde_ledger_counters_define (&self->ledger, (const SondeFrameCounterDefine *) frame);
      sonde_model_counters_define (self->counters, (const SondeFrameCounterDefine *) frame);
      break;
    case SONDE_FRAME_CTRSET:
      sonde_ledger_counters_set (&self->ledger, (const SondeFrameCounterSet *) frame);
      if (self->funcs.value != NULL)
        sonde_model_counters_set (self->counters, (const SondeFrameCounterSet *) frame,
                                  self->funcs.value, self->user_data);
      break;
    case SONDE_FRAME_MARK:
      add_mark (self, (const SondeFrameMark *) frame);
      break;
    case SONDE_FRAME_METADATA:
      add_metadata (self, (const SondeFrameMetadata *) frame);
      break;
    case SONDE_FRAME_FILE_CHUNK:
      sonde_embedded_files_add (self->files, (const SondeFrameFileChunk *) frame);
      break;
    default: /* says nothing that is modelled */
      break;
    }
}

guint
sonde_capture_model_n_processes (const SondeCaptureModel *self)
{
  return sonde_process_list_size (self->processes);
}

const SondeModelProcess *
sonde_capture_model_process (const SondeCaptureModel *self, guint process)
{
  return sonde_process_list_get (self->processes, process);
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
  for (guint32 i = 0; i < self->locations->len; i++)
    {
      SondeLocation *location = &g_array_index (self->locations, Location, i).location;
      const Space *space = find_space (self, location->pid);

      if (location->mapping == NULL && location->pid >= 0 && space != NULL)
        location->mapping = find_mapping (space, location->address);
    }
}

guint
sonde_capture_model_n_counters (const SondeCaptureModel *self)
{
  return sonde_model_counters_size (self->counters);
}

const SondeModelCounter *
sonde_capture_model_counter (const SondeCaptureModel *self, guint counter)
{
  return sonde_model_counters_get (self->counters, counter);
}

const char *
sonde_capture_model_jit_name (const SondeCaptureModel *self, guint64 address)
{
  return sonde_jit_names_lookup (self->jit_names, address);
}

const SondeEmbeddedSymbols *
sonde_capture_model_symbols (const SondeCaptureModel *self)
{
  return sonde_embedded_files_symbols (self->files);
}

const SondeEmbeddedFiles *
sonde_capture_model_files (const SondeCaptureModel *self)
{
  return self->files;
}

const char *
sonde_capture_model_metadata (const SondeCaptureModel *self, const char *id)
{
  return g_hash_table_lookup (self->metadata, id);
}

GKeyFile *
sonde_capture_model_dup_settings (const SondeCaptureModel *self)
{
  const char *text = sonde_capture_model_metadata (self, SONDE_CAPTURE_SETTINGS);
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
