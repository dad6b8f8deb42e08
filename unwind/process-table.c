/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/process-table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/mapping-list.h"
#include "unwind/module-private.h"

enum
{
  MAX_COMM = 16, /* bytes, with the final NUL: TASK_COMM_LEN */
};

/* Long enough for events that come late; a process that still runs then was not the one that
 * exited. */
#define MAX_LATE_NS INT64_C (1000000000)

struct SondeProcess
{
  SondeProcessTable *table;
  int32_t pid;
  uint64_t generation;
  uint64_t start_ticks;
  SondeProcessState state;
  char comm[MAX_COMM];
  unsigned flags;
  bool exited;
  bool used_since_exit;
  int64_t exit_ns;
  SondeMappingList *list; /* NULL: none */
  uint64_t serial;
  void *unwind_data;
  void (*destroy_unwind_data) (void *);

  SondeProcess *newer; /* in the queue of its kind */
  SondeProcess *older;
};

typedef struct
{
  SondeProcess *newest;
  SondeProcess *oldest;
} Queue;

struct SondeProcessTable
{
  SondeModuleStore *modules;
  SondeItemTable processes;
  Queue live;   /* by last use */
  Queue exited; /* by exit */
  SondeMappingPool pool;
  uint64_t last_generation;
  uint64_t n_refused;
  uint32_t epoch; /* rises when records were lost */
};

SondeProcessTable *
sonde_process_table_new (SondeModuleStore *modules)
{
  SondeProcessTable *self = calloc (1, sizeof *self);

  if (self != NULL)
    self->modules = modules;
  return self;
}

static uint64_t
hash_pid (int32_t pid)
{
  return sonde_hash_bytes (&pid, sizeof pid);
}

static bool
has_pid (const void *item, const void *key)
{
  return ((const SondeProcess *) item)->pid == *(const int32_t *) key;
}

static Queue *
queue_of (SondeProcess *process)
{
  return process->exited ? &process->table->exited : &process->table->live;
}

static void
dequeue (SondeProcess *process)
{
  Queue *queue = queue_of (process);

  *(process->newer != NULL ? &process->newer->older : &queue->newest) = process->older;
  *(process->older != NULL ? &process->older->newer : &queue->oldest) = process->newer;
}

static void
enqueue (SondeProcess *process)
{
  Queue *queue = queue_of (process);

  process->newer = NULL;
  process->older = queue->newest;
  *(process->older != NULL ? &process->older->newer : &queue->oldest) = process;
  queue->newest = process;
}

static void
note_use (SondeProcess *process)
{
  if (process->exited)
    process->used_since_exit = true;
  else if (process->table->live.newest != process)
    {
      dequeue (process);
      enqueue (process);
    }
}

static void
bump_serial (SondeProcess *process)
{
  process->serial = ++process->table->pool.last_serial;
}

static void
drop_image (SondeProcess *process)
{
  sonde_process_set_unwind_data (process, NULL, NULL);
  sonde_mapping_list_unref (process->list);
  process->list = NULL;
  bump_serial (process);
}

/* Processes that are over go first. */
static SondeProcess *
longest_idle (SondeProcessTable *self)
{
  return self->exited.oldest != NULL ? self->exited.oldest : self->live.oldest;
}

static void
drop_process (SondeProcess *process)
{
  SondeProcessTable *table = process->table;

  drop_image (process);
  dequeue (process);
  sonde_item_table_remove (&table->processes, hash_pid (process->pid), process);
  free (process);
}

void
sonde_process_table_free (SondeProcessTable *self)
{
  if (self == NULL)
    return;
  for (SondeProcess *process; (process = longest_idle (self)) != NULL;)
    drop_process (process);
  sonde_table_clear (&self->processes);
  sonde_table_clear (&self->pool.paths);
  free (self);
}

size_t
sonde_process_table_n_processes (const SondeProcessTable *self)
{
  return self->processes.n_used;
}

size_t
sonde_process_table_bytes (const SondeProcessTable *self)
{
  return self->pool.n_bytes + self->pool.n_path_bytes;
}

uint64_t
sonde_process_table_n_refused (const SondeProcessTable *self)
{
  return self->n_refused;
}

static SondeProcess *
find (const SondeProcessTable *self, int32_t pid)
{
  return sonde_item_table_find (&self->processes, hash_pid (pid), has_pid, &pid);
}

static SondeProcess *
add (SondeProcessTable *self, int32_t pid)
{
  SondeProcess *process;

  if (self->processes.n_used >= SONDE_PROCESS_TABLE_MAX_PROCESSES)
    drop_process (longest_idle (self));
  process = calloc (1, sizeof *process);
  if (process == NULL)
    return NULL;
  process->table = self;
  process->pid = pid;
  process->generation = ++self->last_generation;
  if (sonde_item_table_add (&self->processes, hash_pid (pid), process) < 0)
    {
      free (process);
      return NULL;
    }
  enqueue (process);
  bump_serial (process);
  return process;
}

/* Makes the process a new one: another one has this pid now. */
static void
start_over (SondeProcess *process)
{
  dequeue (process);
  process->exited = false;
  process->used_since_exit = false;
  enqueue (process);
  drop_image (process);
  process->generation = ++process->table->last_generation;
  process->start_ticks = 0;
  process->state = SONDE_PROCESS_UNKNOWN;
  process->comm[0] = '\0';
  process->flags = 0;
}

SondeProcess *
sonde_process_table_find (SondeProcessTable *self, int32_t pid)
{
  SondeProcess *process = self->live.newest;

  if (process == NULL || process->pid != pid) /* samples come in runs of one process */
    process = find (self, pid);
  if (process != NULL)
    note_use (process);
  return process;
}

bool
sonde_process_table_has (const SondeProcessTable *self, int32_t pid)
{
  return find (self, pid) != NULL;
}

SondeProcess *
sonde_process_table_ensure (SondeProcessTable *self, int32_t pid, int64_t time_ns)
{
  SondeProcess *process = find (self, pid);

  if (process == NULL)
    return add (self, pid);
  if (process->exited && time_ns > process->exit_ns && time_ns - process->exit_ns > MAX_LATE_NS)
    start_over (process);
  note_use (process);
  return process;
}

SondeProcess *
sonde_process_table_fork (SondeProcessTable *self, int32_t parent, int32_t child, int64_t time_ns)
{
  SondeProcess *from;
  SondeProcess *process = find (self, child);

  if (process != NULL)
    start_over (process);
  else
    process = add (self, child);
  /* Looked for only now: making room may have dropped it. */
  from = parent != child ? find (self, parent) : NULL;
  if (process == NULL || from == NULL)
    return process;

  note_use (from);
  if (from->list != NULL)
    process->list = sonde_mapping_list_ref (from->list);
  process->state = from->state == SONDE_PROCESS_KNOWN ? SONDE_PROCESS_KNOWN : SONDE_PROCESS_UNKNOWN;
  memcpy (process->comm, from->comm, sizeof process->comm);
  return process;
}

static void
set_comm (SondeProcess *process, const char *comm)
{
  size_t length = strnlen (comm, MAX_COMM - 1);

  memcpy (process->comm, comm, length);
  process->comm[length] = '\0';
}

void
sonde_process_table_exec (SondeProcessTable *self, int32_t pid, const char *comm, int64_t time_ns)
{
  SondeProcess *process = sonde_process_table_ensure (self, pid, time_ns);

  if (process == NULL)
    return;
  drop_image (process);
  process->state = SONDE_PROCESS_KNOWN;
  set_comm (process, comm);
}

void
sonde_process_table_set_comm (SondeProcessTable *self, int32_t pid, const char *comm)
{
  SondeProcess *process = find (self, pid);

  if (process != NULL)
    set_comm (process, comm);
}

void
sonde_process_table_exit (SondeProcessTable *self, int32_t pid, int64_t time_ns)
{
  SondeProcess *process = find (self, pid);

  if (process == NULL || process->exited)
    return;
  dequeue (process);
  process->exited = true;
  process->exit_ns = time_ns;
  enqueue (process);
}

void
sonde_process_table_set_stale (SondeProcessTable *self)
{
  SondeProcess *process;
  size_t position = 0;

  self->epoch++;
  while ((process = sonde_item_table_next (&self->processes, &position)) != NULL)
    if (process->state == SONDE_PROCESS_KNOWN)
      process->state = SONDE_PROCESS_UNKNOWN;
}

void
sonde_process_table_expire (SondeProcessTable *self, int64_t time_ns)
{
  SondeProcess *newer;

  for (SondeProcess *process = self->exited.oldest; process != NULL; process = newer)
    {
      newer = process->newer;
      if (process->exit_ns >= time_ns)
        break;
      if (process->used_since_exit)
        process->used_since_exit = false;
      else
        drop_process (process);
    }
}

int
sonde_process_add_mapping (SondeProcessTable *self,
                           SondeProcess *process,
                           const SondeProcessMapping *mapping,
                           SondeMapOrigin origin)
{
  SondeProcessMapping wanted = *mapping;
  int r;

  if (mapping->start >= mapping->end || mapping->path == NULL
      || strnlen (mapping->path, SONDE_PROCESS_MAX_PATH + 1) > SONDE_PROCESS_MAX_PATH)
    return -EINVAL;
  if (process->list != NULL && sonde_mapping_list_has_equal (process->list, mapping))
    return 0;
  while (sonde_process_table_bytes (self) > SONDE_PROCESS_TABLE_MAX_BYTES)
    {
      SondeProcess *idle = longest_idle (self);

      if (idle == process)
        idle = idle->newer;
      if (idle == NULL)
        {
          self->n_refused++;
          return -ENOSPC;
        }
      drop_process (idle);
    }
  r = sonde_mapping_list_make_own (&process->list, &self->pool);
  if (r < 0)
    return r;

  wanted.vdso = mapping->file.inode == 0 && strcmp (mapping->path, "[vdso]") == 0;
  if (origin == SONDE_MAP_FROM_EVENT)
    r = sonde_mapping_list_replace (process->list, &self->pool, &wanted, self->epoch);
  else
    r = sonde_mapping_list_fill (process->list, &self->pool, &wanted, self->epoch);
  if (r == -ENOSPC)
    self->n_refused++;
  if (r != 0)
    bump_serial (process);
  return r;
}

void
sonde_process_begin_snapshot (SondeProcessTable *self, SondeProcess *process)
{
  if (!sonde_mapping_list_has_older (process->list, self->epoch)
      || sonde_mapping_list_make_own (&process->list, &self->pool) < 0)
    return;
  sonde_mapping_list_drop_older (process->list, &self->pool, self->epoch);
  bump_serial (process);
}

int32_t
sonde_process_pid (const SondeProcess *self)
{
  return self->pid;
}

uint64_t
sonde_process_generation (const SondeProcess *self)
{
  return self->generation;
}

uint64_t
sonde_process_start_ticks (const SondeProcess *self)
{
  return self->start_ticks;
}

void
sonde_process_set_start_ticks (SondeProcess *self, uint64_t start_ticks)
{
  if (self->start_ticks != 0 && self->start_ticks != start_ticks)
    start_over (self);
  self->start_ticks = start_ticks;
}

SondeProcessState
sonde_process_state (const SondeProcess *self)
{
  return self->state;
}

void
sonde_process_set_state (SondeProcess *self, SondeProcessState state)
{
  self->state = state;
}

const char *
sonde_process_comm (const SondeProcess *self)
{
  return self->comm;
}

bool
sonde_process_exited (const SondeProcess *self)
{
  return self->exited;
}

static void
resolve (SondeProcessTable *self, SondeMappingList *list, SondeProcessMapping *mapping)
{
  SondeUnwindModule *module = NULL;
  uint64_t low;
  uint64_t high;

  if (mapping->module != NULL)
    return;
  if (mapping->vdso)
    {
      module = sonde_module_store_vdso (self->modules);
      if (module != NULL)
        sonde_module_extent (module, &low, &high);
      if (module != NULL
          && (mapping->start <= UINT32_MAX || high - low > mapping->end - mapping->start))
        module = NULL;
    }
  else if (mapping->file.inode != 0)
    sonde_module_store_lookup (self->modules, &mapping->file, &module);
  if (module == NULL
      || !sonde_module_bias (module, mapping->start, mapping->vdso ? 0 : mapping->offset,
                             &mapping->bias))
    return;
  mapping->module = sonde_module_ref (module);
  list->modules_serial = ++self->pool.last_serial;
}

const SondeProcessMapping *
sonde_process_find_mapping (SondeProcessTable *self, SondeProcess *process, uint64_t address)
{
  SondeProcessMapping *mapping = sonde_mapping_list_find (process->list, address);

  if (mapping != NULL)
    resolve (self, process->list, mapping);
  return mapping;
}

void
sonde_process_set_unreachable (SondeProcess *process, uint64_t start)
{
  SondeProcessMapping *mapping;

  /* A relative by fork has the same mapping, and may still be there. */
  if (process->list == NULL
      || sonde_mapping_list_make_own (&process->list, &process->table->pool) < 0)
    return;
  mapping = sonde_mapping_list_find (process->list, start);
  if (mapping != NULL && mapping->start == start)
    mapping->unreachable = true;
}

SondeMappingList *
sonde_process_mapping_list (const SondeProcess *self)
{
  return self->list;
}

uint64_t
sonde_process_serial (const SondeProcess *self)
{
  return self->serial;
}

uint64_t
sonde_process_resolve_modules (SondeProcessTable *self, SondeProcess *process)
{
  SondeMappingList *list = process->list;
  uint64_t store_serial = sonde_module_store_serial (self->modules);

  if (list == NULL)
    return process->serial;
  if (list->store_serial != store_serial)
    {
      for (size_t i = 0; i < list->n_mappings; i++)
        resolve (self, list, &list->mappings[i]);
      list->store_serial = store_serial;
    }
  return list->modules_serial > process->serial ? list->modules_serial : process->serial;
}

void
sonde_process_set_flag (SondeProcess *self, unsigned flags, bool on)
{
  self->flags = on ? self->flags | flags : self->flags & ~flags;
}

bool
sonde_process_flag (const SondeProcess *self, unsigned flags)
{
  return (self->flags & flags) != 0;
}

void
sonde_process_set_unwind_data (SondeProcess *self, void *data, void (*destroy) (void *))
{
  void *old = self->unwind_data;
  void (*destroy_old) (void *) = self->destroy_unwind_data;

  self->unwind_data = data;
  self->destroy_unwind_data = destroy;
  if (old != NULL && old != data && destroy_old != NULL)
    destroy_old (old);
}

void *
sonde_process_unwind_data (const SondeProcess *self)
{
  return self->unwind_data;
}

void
sonde_process_table_foreach (SondeProcessTable *self,
                             void (*visit) (SondeProcess *process, void *user_data),
                             void *user_data)
{
  SondeProcess *process;
  size_t position = 0;

  while ((process = sonde_item_table_next (&self->processes, &position)) != NULL)
    visit (process, user_data);
}
