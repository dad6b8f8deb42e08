/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/process/tracker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "daemon/base/proc-maps.h"

#define FLAGS_OF_MAPPINGS (SONDE_PROCESS_FLAG_COMPLETE | SONDE_PROCESS_FLAG_SETTLED)
#define MAX_CMDLINE       4096 /* bytes read of /proc/PID/cmdline */
#define MAX_COMM          15   /* bytes, as TASK_COMM_LEN without the NUL */
#define MAX_REQUESTS      1024 /* unanswered at a time; what is needed then is asked for again */
#define REQUEST_WAIT_NS   250000000 /* samples wait this long for an answer */
#define MAX_FILE_TRIES    4         /* processes asked about one file, as they may exit meanwhile */
#define MAX_TOLD_FILES    64        /* whose refusal is told, each once */
#define MAX_TOLD_PATH     1024      /* bytes */

typedef struct
{
  SondeMessageFileRequest file;
  int status;
} Refusal;

struct SondeTracker
{
  SondeProcessTable *processes;
  SondeModuleStore *modules;
  SondeStreamState *state;
  SondeRecorder *recorder;
  SondeJitNames *jit_names;
  SondeRequestSend send;
  gpointer user_data;
  guint64 last_request;
  GHashTable *requests;         /* SondeRequest by id, owned: unanswered */
  GHashTable *process_requests; /* of them, those for processes by pid */
  GHashTable *file_requests;    /* and those for files by file */
  gboolean has_failed;          /* a file could not be had */
  GHashTable *told_files;       /* paths, owned: whose refusal was told */
  GArray *untold;               /* Refusal: of files that no record was followed of yet */
  GHashTable *stuck;            /* pids of processes that could not be looked at in time */
  gboolean hides_others;
  gint64 asked_ns; /* the MAP record that waits, or waited last: its time and place */
  guint64 asked_start;
};

/* The generation of an inode is not part of a request, so not of its key. What names made code is
 * that of one process. */
static guint
hash_file (gconstpointer data)
{
  const SondeRequest *request = data;

  return (guint) (request->file.inode * 31 + request->file.dev_major * 257 + request->file.dev_minor
                  + request->file.kind * (guint) request->file.pid);
}

static gboolean
same_file (gconstpointer first, gconstpointer second)
{
  const SondeRequest *a = first;
  const SondeRequest *b = second;

  return a->file.inode == b->file.inode && a->file.dev_major == b->file.dev_major
         && a->file.dev_minor == b->file.dev_minor && a->file.kind == b->file.kind
         && (a->file.kind == SONDE_FILE_PROGRAM || a->file.pid == b->file.pid);
}

SondeTracker *
sonde_tracker_new (SondeProcessTable *processes,
                   SondeModuleStore *modules,
                   SondeStreamState *state,
                   SondeRecorder *recorder,
                   SondeJitNames *jit_names,
                   gboolean hides_others,
                   SondeRequestSend send,
                   gpointer user_data)
{
  SondeTracker *self = g_new0 (SondeTracker, 1);

  self->processes = processes;
  self->modules = modules;
  self->state = state;
  self->recorder = recorder;
  self->jit_names = jit_names;
  self->hides_others = hides_others;
  self->send = send;
  self->user_data = user_data;
  self->requests = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
  self->process_requests = g_hash_table_new (NULL, NULL);
  self->file_requests = g_hash_table_new (hash_file, same_file);
  self->stuck = g_hash_table_new (NULL, NULL);
  self->told_files = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->untold = g_array_new (FALSE, FALSE, sizeof (Refusal));

  return self;
}

void
sonde_tracker_free (SondeTracker *self)
{
  if (self == NULL)
    return;

  g_hash_table_unref (self->process_requests);
  g_hash_table_unref (self->file_requests);
  g_hash_table_unref (self->requests);
  g_hash_table_unref (self->stuck);
  g_hash_table_unref (self->told_files);
  g_array_unref (self->untold);
  g_free (self);
}

/* --- requests that the broker has not answered yet --- */

static SondeRequest *
add_request (SondeTracker *self, int32_t pid, gint64 now_ns)
{
  SondeRequest *request;

  if (g_hash_table_size (self->requests) >= MAX_REQUESTS)
    return NULL;

  request = g_new0 (SondeRequest, 1);
  request->id = ++self->last_request;
  request->pid = pid;
  request->sent_ns = now_ns;
  g_hash_table_insert (self->requests, &request->id, request);

  return request;
}

/* Removes the request that was answered; FALSE: there is none of this kind. */
static gboolean
remove_request (SondeTracker *self, guint64 id, gboolean is_file, SondeRequest *request)
{
  SondeRequest *found = g_hash_table_lookup (self->requests, &id);

  if (found == NULL || found->is_file != is_file)
    return FALSE;
  *request = *found;
  if (is_file)
    g_hash_table_remove (self->file_requests, found);
  else
    g_hash_table_remove (self->process_requests, GINT_TO_POINTER (found->pid));
  g_hash_table_remove (self->requests, &id);

  return TRUE;
}

/* What cannot be sent is not waited for. */
static gboolean
send_request (SondeTracker *self, const SondeRequest *request)
{
  SondeRequest removed;

  if (self->send (request, self->user_data))
    return TRUE;
  remove_request (self, request->id, request->is_file, &removed);
  return FALSE;
}

/* FALSE: too many wait, or the peer is gone. Asking for what is asked for already does nothing. */
static gboolean
ask_process (SondeTracker *self, int32_t pid, gint64 now_ns)
{
  SondeRequest *request;

  if (g_hash_table_contains (self->process_requests, GINT_TO_POINTER (pid)))
    return TRUE;
  request = add_request (self, pid, now_ns);
  if (request == NULL)
    return FALSE;

  g_hash_table_insert (self->process_requests, GINT_TO_POINTER (pid), request);
  return send_request (self, request);
}

/* @file: pid, start_ticks, start, offset and the file's identity */
static gboolean
ask_file (SondeTracker *self, const SondeMessageFileRequest *file, guint n_tries, gint64 now_ns)
{
  SondeRequest *request;

  if (g_hash_table_contains (self->file_requests, &(SondeRequest){ .file = *file }))
    return TRUE;
  request = add_request (self, file->pid, now_ns);
  if (request == NULL)
    return FALSE;

  request->is_file = TRUE;
  request->n_tries = n_tries;
  request->file = *file;
  request->file.request_id = request->id;
  g_hash_table_add (self->file_requests, request);

  return send_request (self, request);
}

/* Whether an answer can still be waited for. */
static gboolean
is_young (const SondeRequest *request, gint64 now_ns)
{
  return request != NULL && now_ns - request->sent_ns < REQUEST_WAIT_NS;
}

static gboolean
waits_for_process (const SondeTracker *self, int32_t pid, gint64 now_ns)
{
  return is_young (g_hash_table_lookup (self->process_requests, GINT_TO_POINTER (pid)), now_ns);
}

static gboolean
waits_for_file (const SondeTracker *self, const SondeFileId *file, gint64 now_ns)
{
  SondeRequest key
      = { .file
          = { .inode = file->inode, .dev_major = file->dev_major, .dev_minor = file->dev_minor } };

  return is_young (g_hash_table_lookup (self->file_requests, &key), now_ns);
}

/* --- files --- */

/* Whether the store still lacks the file; asks for it when nobody did. */
static gboolean
lacks_file (SondeTracker *self,
            int32_t pid,
            guint64 start_ticks,
            const SondeProcessMapping *mapping,
            gint64 now)
{
  SondeMessageFileRequest request = { 0 };
  SondeUnwindModule *module;

  switch (sonde_module_store_lookup (self->modules, &mapping->file, &module))
    {
    case SONDE_MODULE_READY:
    case SONDE_MODULE_FAILED:
      return FALSE;
    case SONDE_MODULE_ASKED:
    case SONDE_MODULE_READING:
      return TRUE;
    case SONDE_MODULE_UNKNOWN:
    default:
      break;
    }

  request.pid = pid;
  request.start_ticks = start_ticks;
  request.start = mapping->start;
  request.offset = mapping->offset;
  request.inode = mapping->file.inode;
  request.dev_major = mapping->file.dev_major;
  request.dev_minor = mapping->file.dev_minor;
  if (ask_file (self, &request, 1, now))
    sonde_module_store_set_asked (self->modules, &mapping->file);

  return TRUE;
}

static gboolean
lacks_module (SondeTracker *self,
              SondeProcess *process,
              const SondeProcessMapping *mapping,
              gint64 now)
{
  if (mapping->module != NULL || mapping->vdso || mapping->file.inode == 0 || mapping->unreachable)
    return FALSE;

  return lacks_file (self, sonde_process_pid (process), sonde_process_start_ticks (process),
                     mapping, now);
}

/* --- names of code that programs make --- */

static SondeMessageFileRequest
names_request (int32_t pid,
               guint64 start_ticks,
               SondeFileKind kind,
               const SondeProcessMapping *mapping)
{
  SondeMessageFileRequest request = { .pid = pid, .start_ticks = start_ticks, .kind = kind };

  if (kind != SONDE_FILE_JIT_DUMP)
    return request;
  request.start = mapping->start;
  request.offset = mapping->offset;
  request.inode = mapping->file.inode;
  request.dev_major = mapping->file.dev_major;
  request.dev_minor = mapping->file.dev_minor;
  return request;
}

/* Whether the file that names the code of @mapping is awaited and young enough to wait for; asks
 * for it when it is time to. */
static gboolean
awaits_names (SondeTracker *self,
              int32_t pid,
              guint64 start_ticks,
              const SondeProcessMapping *mapping,
              gint64 now)
{
  SondeFileKind kind = sonde_jit_names_kind (mapping);
  SondeMessageFileRequest request;

  if (kind == SONDE_FILE_PROGRAM)
    return FALSE;
  request = names_request (pid, start_ticks, kind, mapping);
  if (sonde_jit_names_wants (self->jit_names, pid, kind, now) && ask_file (self, &request, 1, now))
    sonde_jit_names_set_asked (self->jit_names, pid, kind, now);
  return is_young (g_hash_table_lookup (self->file_requests, &(SondeRequest){ .file = request }),
                   now)
         || sonde_jit_names_is_reading (self->jit_names, pid);
}

static void
ask_for_map (int32_t pid, gpointer user_data)
{
  SondeTracker *self = user_data;
  const SondeProcess *process = sonde_process_table_find (self->processes, pid);
  SondeMessageFileRequest request = names_request (
      pid, process != NULL ? sonde_process_start_ticks (process) : 0, SONDE_FILE_PERF_MAP, NULL);
  gint64 now = sonde_stream_now_ns ();

  if (ask_file (self, &request, 1, now))
    sonde_jit_names_set_asked (self->jit_names, pid, SONDE_FILE_PERF_MAP, now);
}

void
sonde_tracker_ask_for_names (SondeTracker *self, gboolean at_last)
{
  sonde_jit_names_foreach_missing (self->jit_names, at_last ? G_MAXINT64 : sonde_stream_now_ns (),
                                   ask_for_map, self);
}

gboolean
sonde_tracker_awaits_names (const SondeTracker *self)
{
  gint64 now = sonde_stream_now_ns ();
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->requests);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const SondeRequest *request = value;

      if (request->is_file && request->file.kind != SONDE_FILE_PROGRAM && is_young (request, now))
        return TRUE;
    }
  return FALSE;
}

/* Returns the number of mappings whose file is still awaited and young enough to wait for. */
static guint
ask_for_files (SondeTracker *self, SondeProcess *process, gint64 now, gboolean *lacks_any)
{
  size_t n_mappings = 0;
  const SondeProcessMapping *mappings = sonde_process_mappings (process, &n_mappings);
  guint n_waiting = 0;

  *lacks_any = FALSE;
  for (size_t i = 0; i < n_mappings; i++)
    {
      const SondeFileId *file = &mappings[i].file;
      SondeUnwindModule *module;

      if (awaits_names (self, sonde_process_pid (process), sonde_process_start_ticks (process),
                        &mappings[i], now))
        {
          *lacks_any = TRUE;
          n_waiting++;
        }
      if (!lacks_module (self, process, &mappings[i], now))
        continue;
      *lacks_any = TRUE;
      /* A file that is here already is waited for as long as it takes to read, which is bounded. */
      n_waiting += sonde_module_store_lookup (self->modules, file, &module) == SONDE_MODULE_READING
                   || waits_for_file (self, file, now);
    }

  return n_waiting;
}

/* --- records --- */

static SondeProcessMapping
mapping_of (const SondePerfRecordMap *map)
{
  return (SondeProcessMapping){
    .start = map->start,
    .end = map->end,
    .offset = map->offset,
    .file = { map->inode, map->inode_generation, map->dev_major, map->dev_minor },
    .path = map->path,
  };
}

void
sonde_tracker_foresee_map (SondeTracker *self, const SondePerfRecord *record)
{
  SondeProcessMapping mapping = mapping_of (&record->map);

  if (record->map.executable && record->pid > 0 && mapping.file.inode != 0)
    lacks_file (self, record->pid, 0, &mapping, sonde_stream_now_ns ());
}

/* The broker looks at the process whenever it is asked for a file. A file that is known already
 * came from a process that the owner may see. */
gboolean
sonde_tracker_awaits_map (SondeTracker *self, const SondePerfRecord *record, gint64 now)
{
  const SondePerfRecordMap *map = &record->map;
  SondeProcessMapping mapping = mapping_of (map);
  gboolean was_asked = self->asked_ns == record->time_ns && self->asked_start == map->start;
  SondeUnwindModule *module;

  if (!self->hides_others || !map->executable || record->pid <= 0 || mapping.file.inode == 0)
    return FALSE;
  self->asked_ns = record->time_ns;
  self->asked_start = map->start;
  if (!was_asked)
    lacks_file (self, record->pid, 0, &mapping, now);

  return sonde_module_store_lookup (self->modules, &mapping.file, &module) == SONDE_MODULE_ASKED
         && waits_for_file (self, &mapping.file, now);
}

static gboolean
is_shut (const SondeProcess *process)
{
  return sonde_process_flag (process, SONDE_PROCESS_FLAG_CLOSED | SONDE_PROCESS_FLAG_HIDDEN);
}

static const char *
reason_of (int status)
{
  switch (status)
    {
    case EACCES:
      return "it is on none of the file systems whose files are opened, for it may ask other "
             "programs";
    case ENOEXEC:
      return "it is no program or library";
    default:
      return g_strerror (status);
    }
}

/* Stacks end in such a file, and somebody will want to know why. Its path stands in the stream
 * anyway, unless the process is not for this session. What the broker had no time for says nothing
 * of the file, which is asked for again in a second. A file that was asked for as its record came
 * waits for that to be followed. */
static void
tell_refused (SondeTracker *self, const SondeMessageFileRequest *file, int status)
{
  SondeProcess *process = sonde_process_table_find (self->processes, file->pid);
  const SondeProcessMapping *mapping = NULL;
  const Refusal refusal = { *file, status };
  g_autofree char *cut = NULL;
  g_autofree char *path = NULL;
  g_autofree char *text = NULL;

  if (status == EAGAIN || status == ETIMEDOUT)
    return;
  if (process != NULL
      && !sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN | SONDE_PROCESS_FLAG_CLOSED))
    mapping = sonde_process_find_mapping (self->processes, process, file->start);
  /* What is asked for like any other, since its path may be told only then, is no program. */
  if (mapping != NULL && status == ENOEXEC && sonde_jit_names_kind (mapping) == SONDE_FILE_JIT_DUMP)
    return;
  if (mapping == NULL || mapping->file.inode != file->inode)
    {
      /* Some records never are: their process was hidden, or ended. */
      if (self->untold->len == MAX_TOLD_FILES)
        g_array_remove_index (self->untold, 0);
      g_array_append_val (self->untold, refusal);
      return;
    }
  if (g_hash_table_size (self->told_files) > MAX_TOLD_FILES)
    return;
  cut = g_strndup (mapping->path, MAX_TOLD_PATH);
  path = g_strescape (cut, NULL);
  if (g_hash_table_contains (self->told_files, path))
    return;
  if (g_hash_table_size (self->told_files) == MAX_TOLD_FILES)
    text = g_strdup_printf ("More than %d files could not be read for unwind data and names: those "
                            "that follow are not told of",
                            MAX_TOLD_FILES);
  else
    text = g_strdup_printf ("Unwind data and names of %s are missing (process %d): %s", path,
                            file->pid, reason_of (status));
  g_hash_table_add (self->told_files, g_steal_pointer (&path));
  sonde_recorder_tell (self->recorder, text);
}

/* Of a file that was refused before @mapping was followed. */
static void
tell_untold (SondeTracker *self, int32_t pid, const SondeProcessMapping *mapping)
{
  for (guint i = 0; i < self->untold->len; i++)
    {
      Refusal refusal = g_array_index (self->untold, Refusal, i);

      if (refusal.file.pid == pid && refusal.file.start == mapping->start
          && refusal.file.inode == mapping->file.inode)
        {
          g_array_remove_index_fast (self->untold, i);
          tell_refused (self, &refusal.file, refusal.status);
          return;
        }
    }
}

static void
add_map (SondeTracker *self, const SondePerfRecord *record)
{
  const SondePerfRecordMap *map = &record->map;
  SondeProcessMapping mapping = mapping_of (map);
  SondeProcess *process;
  const SondeProcessMapping *added;

  if (!map->executable || record->pid <= 0)
    return;
  process = sonde_process_table_ensure (self->processes, record->pid, record->time_ns);
  if (process == NULL || is_shut (process)
      || sonde_process_add_mapping (self->processes, process, &mapping, SONDE_MAP_FROM_EVENT) != 1)
    return;

  sonde_process_set_flag (process, FLAGS_OF_MAPPINGS, false);
  added = sonde_process_find_mapping (self->processes, process, map->start);
  if (added == NULL)
    return;
  sonde_recorder_map (self->recorder, process, added, record->time_ns);
  tell_untold (self, record->pid, added);
  /* Early, since a short-lived process takes the way to its files with it. */
  lacks_module (self, process, added, sonde_stream_now_ns ());
  awaits_names (self, record->pid, sonde_process_start_ticks (process), added,
                sonde_stream_now_ns ());
}

/* Of a thread that is not its process's first one, whose name is that of the process. Whose it is
 * has to be known where not everybody may be seen: what is written now is not taken back. */
static void
rename_thread (SondeTracker *self, const SondePerfRecord *record)
{
  const SondeProcess *process = sonde_process_table_find (self->processes, record->pid);
  gboolean is_known = process != NULL && sonde_process_state (process) == SONDE_PROCESS_KNOWN;

  if (process != NULL && is_shut (process))
    return;
  if (is_known || !self->hides_others)
    sonde_recorder_thread (self->recorder, record->pid, record->tid, record->comm.name,
                           record->time_ns);
}

static void
rename_process (SondeTracker *self, const SondePerfRecord *record)
{
  SondeProcess *process;

  if (record->pid <= 0)
    return;
  if (record->pid != record->tid && !record->comm.exec)
    {
      rename_thread (self, record);
      return;
    }
  process = sonde_process_table_ensure (self->processes, record->pid, record->time_ns);
  if (process == NULL)
    return;

  if (record->comm.exec)
    {
      sonde_jit_names_end (self->jit_names, record->pid);
      sonde_process_table_exec (self->processes, record->pid, record->comm.name, record->time_ns);
      sonde_stream_state_set_cmdline (self->state, record->pid, NULL);
      sonde_process_set_flag (process, FLAGS_OF_MAPPINGS | SONDE_PROCESS_FLAG_CLOSED, false);
      /* An exec tells the name alone. Of those that the session saw being made that is enough: they
       * may be many, and short-lived. */
      if (!sonde_process_flag (process, SONDE_PROCESS_FLAG_FORKED))
        ask_process (self, record->pid, sonde_stream_now_ns ());
    }
  else
    {
      if (is_shut (process))
        return;
      sonde_process_table_set_comm (self->processes, record->pid, record->comm.name);
      sonde_recorder_renamed (self->recorder, process);
      return;
    }
  sonde_recorder_rename (self->recorder, process, record->time_ns);
}

void
sonde_tracker_follow (SondeTracker *self, const SondePerfRecord *record)
{
  const int32_t parent = record->task.parent_pid; /* of a FORK */
  const SondeProcess *process;
  SondeProcess *child;
  gboolean hidden;

  switch (record->type)
    {
    case SONDE_PERF_RECORD_MAP:
      add_map (self, record);
      break;
    case SONDE_PERF_RECORD_COMM:
      rename_process (self, record);
      break;
    case SONDE_PERF_RECORD_FORK:
      process = sonde_process_table_find (self->processes, parent);
      hidden = process != NULL && sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN);
      if (record->pid > 0 && record->pid != parent)
        {
          sonde_stream_state_set_cmdline (self->state, record->pid, NULL);
          sonde_jit_names_end (self->jit_names, record->pid);
          child = sonde_process_table_fork (self->processes, parent, record->pid, record->time_ns);
          if (child != NULL)
            sonde_process_set_flag (
                child, hidden ? SONDE_PROCESS_FLAG_HIDDEN : SONDE_PROCESS_FLAG_FORKED, true);
        }
      if (!hidden)
        {
          sonde_recorder_settle_task (self->recorder, parent, record->task.parent_tid,
                                      record->time_ns);
          sonde_recorder_fork (self->recorder, record->task.parent_tid, record->tid, record->cpu,
                               record->time_ns);
        }
      break;
    case SONDE_PERF_RECORD_EXIT:
      sonde_recorder_settle_task (self->recorder, record->pid, record->tid, record->time_ns);
      sonde_stream_state_forget_task (self->state, record->pid, record->tid);
      if (record->pid != record->tid)
        break;
      process = sonde_process_table_find (self->processes, record->pid);
      hidden = process != NULL && sonde_process_flag (process, SONDE_PROCESS_FLAG_HIDDEN);
      sonde_jit_names_end (self->jit_names, record->pid);
      sonde_process_table_exit (self->processes, record->pid, record->time_ns);
      sonde_stream_state_set_cmdline (self->state, record->pid, NULL);
      if (!hidden)
        sonde_recorder_exit (self->recorder, record->pid, record->cpu, record->time_ns);
      break;
    case SONDE_PERF_RECORD_OTHER:
    case SONDE_PERF_RECORD_SAMPLE:
    case SONDE_PERF_RECORD_LOST:
    case SONDE_PERF_RECORD_LOST_SAMPLES:
    case SONDE_PERF_RECORD_THROTTLE:
    case SONDE_PERF_RECORD_UNTHROTTLE:
    default:
      break;
    }
}

static void
forget_completeness (SondeProcess *process, void *user_data)
{
  sonde_process_set_flag (process, SONDE_PROCESS_FLAG_COMPLETE, false);
}

void
sonde_tracker_lost_records (SondeTracker *self)
{
  sonde_process_table_set_stale (self->processes);
  sonde_process_table_foreach (self->processes, forget_completeness, NULL);
}

static gboolean
forget_stuck (gpointer pid, gpointer value, gpointer user_data)
{
  SondeTracker *self = user_data;
  SondeProcess *process = sonde_process_table_find (self->processes, GPOINTER_TO_INT (pid));

  if (process != NULL && sonde_process_state (process) == SONDE_PROCESS_GONE)
    {
      sonde_process_set_state (process, SONDE_PROCESS_UNKNOWN);
      sonde_process_set_flag (process, SONDE_PROCESS_FLAG_COMPLETE, false);
    }
  return TRUE;
}

void
sonde_tracker_retry (SondeTracker *self)
{
  g_hash_table_foreach_remove (self->stuck, forget_stuck, self);
  sonde_jit_names_expire (self->jit_names, self->processes);
  if (self->has_failed)
    sonde_process_table_foreach (self->processes, forget_completeness, NULL);
}

/* --- samples --- */

SondeProcess *
sonde_tracker_process (SondeTracker *self, int32_t pid, gint64 time_ns)
{
  return pid > 0 ? sonde_process_table_ensure (self->processes, pid, time_ns) : NULL;
}

gboolean
sonde_tracker_is_known (SondeTracker *self, SondeProcess *process, gint64 now)
{
  int32_t pid = sonde_process_pid (process);

  if (sonde_process_state (process) == SONDE_PROCESS_UNKNOWN && ask_process (self, pid, now))
    sonde_process_set_state (process, SONDE_PROCESS_ASKED);
  return sonde_process_state (process) != SONDE_PROCESS_ASKED
         || !waits_for_process (self, pid, now);
}

gboolean
sonde_tracker_is_ready (SondeTracker *self, SondeProcess *process, gint64 now)
{
  gboolean lacks_any;
  guint n_waiting;

  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_COMPLETE))
    return TRUE;
  if (!sonde_tracker_is_known (self, process, now))
    return FALSE;
  if (sonde_process_state (process) == SONDE_PROCESS_ASKED)
    return TRUE;

  n_waiting = ask_for_files (self, process, now, &lacks_any);
  if (!lacks_any && sonde_process_state (process) != SONDE_PROCESS_UNKNOWN)
    sonde_process_set_flag (process, SONDE_PROCESS_FLAG_COMPLETE, true);

  return n_waiting == 0;
}

/* --- answers --- */

static void
add_snapshot (SondeTracker *self, SondeProcess *process, int maps_fd)
{
  g_autofree char *path = g_malloc (SONDE_PROCESS_MAX_PATH);
  char *text = NULL;
  int64_t size_bytes = sonde_proc_maps_read (maps_fd, SONDE_TRACKER_MAX_MAPS, &text);
  const char *at = text;
  size_t left = size_bytes > 0 ? (size_t) size_bytes : 0;
  SondeProcMap line;
  int r;

  sonde_process_begin_snapshot (self->processes, process);
  while (left > 0 && (r = sonde_proc_maps_next (&at, &left, &line)) != 0)
    {
      SondeProcessMapping mapping = { .path = path };

      if (r < 0 || !line.executable || line.path_len >= SONDE_PROCESS_MAX_PATH)
        continue;
      if (line.path_len > 0)
        memcpy (path, line.path, line.path_len);
      path[line.path_len] = '\0';
      mapping.start = line.start;
      mapping.end = line.end;
      mapping.offset = line.offset;
      mapping.file = (SondeFileId){ line.inode, 0, line.dev_major, line.dev_minor };
      if (sonde_process_add_mapping (self->processes, process, &mapping, SONDE_MAP_FROM_SNAPSHOT)
          == -ENOSPC)
        break;
    }
  free (text);
}

/* @comm: NULL: whatever name it has */
static gboolean
read_cmdline (SondeTracker *self, int32_t pid, int fd, const char *comm)
{
  char text[MAX_CMDLINE + 1];
  gssize size_bytes = fd >= 0 ? pread (fd, text, MAX_CMDLINE, 0) : 0;

  if (size_bytes <= 0)
    return FALSE;
  /* Readers take a process by the name that its command line begins with: "./script a" of an
   * interpreter would make it another one. */
  if (comm != NULL)
    {
      gsize length = strnlen (text, (gsize) size_bytes);
      gboolean is_path = text[0] == '/' || text[0] == '.';
      const char *slash = is_path ? memrchr (text, '/', length) : NULL;
      gsize skipped = slash != NULL ? (gsize) (slash + 1 - text) : 0;
      gsize comm_length = strlen (comm);

      if (MIN (length - skipped, MAX_COMM) != comm_length
          || strncmp (text + skipped, comm, comm_length) != 0)
        return FALSE;
    }
  /* Arguments end with a NUL each. */
  while (size_bytes > 0 && text[size_bytes - 1] == '\0')
    size_bytes--;
  for (gssize i = 0; i < size_bytes; i++)
    if (text[i] == '\0')
      text[i] = ' ';
  text[size_bytes] = '\0';
  sonde_stream_state_set_cmdline (self->state, pid, text);
  return TRUE;
}

/* The group that systemd or a container's runtime made: of version 2, else the named one. Source:
 * cgroups(7) */
static void
tell_cgroup (SondeTracker *self, int32_t pid, int fd)
{
  char text[MAX_CMDLINE + 1];
  gssize size_bytes = fd >= 0 ? pread (fd, text, MAX_CMDLINE, 0) : 0;
  char *path;

  if (size_bytes <= 0)
    return;
  text[size_bytes] = '\0';
  path = strstr (text, "0::/");
  if (path != NULL && (path == text || path[-1] == '\n'))
    path += strlen ("0::");
  else if ((path = strstr (text, ":name=systemd:/")) != NULL)
    path += strlen (":name=systemd:");
  else
    return;
  path[strcspn (path, "\n")] = '\0';
  sonde_recorder_cgroup (self->recorder, pid, path);
}

void
sonde_tracker_answer_process (SondeTracker *self,
                              const SondeMessageProcess *answer,
                              int maps_fd,
                              int cmdline_fd,
                              int cgroup_fd)
{
  gint64 now = sonde_stream_now_ns ();
  gboolean lacks_any;
  SondeProcess *process;
  SondeRequest request;

  if (answer->pid <= 0)
    return;
  if (answer->request_id != 0
      && (!remove_request (self, answer->request_id, FALSE, &request)
          || request.pid != answer->pid))
    return;

  process = answer->request_id == 0 ? sonde_process_table_ensure (self->processes, answer->pid, now)
                                    : sonde_process_table_find (self->processes, answer->pid);
  if (process == NULL)
    return;
  /* An exec seen meanwhile told all but the arguments; what else the answer has may be older. */
  if (sonde_process_state (process) == SONDE_PROCESS_KNOWN)
    {
      if (answer->status == 0 && !is_shut (process))
        tell_cgroup (self, answer->pid, cgroup_fd);
      if (answer->status == 0 && !is_shut (process)
          && read_cmdline (self, answer->pid, cmdline_fd, sonde_process_comm (process)))
        sonde_recorder_rename (self->recorder, process, now);
      return;
    }
  if (answer->status != 0)
    {
      /* Nothing of it was told yet, but perhaps that it was forked. */
      if (answer->status == EPERM && self->hides_others
          && !sonde_process_flag (process, SONDE_PROCESS_FLAG_WRITTEN))
        sonde_process_set_flag (process, SONDE_PROCESS_FLAG_HIDDEN, true);
      /* The kernel does not answer, or too much is asked. */
      if (answer->status == ETIMEDOUT || answer->status == EAGAIN)
        g_hash_table_add (self->stuck, GINT_TO_POINTER (answer->pid));
      sonde_process_set_state (process, SONDE_PROCESS_GONE);
      sonde_process_set_flag (process, SONDE_PROCESS_FLAG_COMPLETE, false);
      return;
    }

  sonde_process_set_start_ticks (process, answer->start_ticks);
  sonde_process_table_set_comm (self->processes, answer->pid, answer->comm);
  read_cmdline (self, answer->pid, cmdline_fd, NULL);
  tell_cgroup (self, answer->pid, cgroup_fd);
  if (maps_fd >= 0)
    add_snapshot (self, process, maps_fd);
  sonde_process_set_state (process, SONDE_PROCESS_KNOWN);
  sonde_process_set_flag (process, FLAGS_OF_MAPPINGS, false);
  /* Its frames are written again with all mappings: at once if they were before. */
  if (sonde_process_flag (process, SONDE_PROCESS_FLAG_WRITTEN) || answer->request_id == 0)
    {
      sonde_process_set_flag (process, SONDE_PROCESS_FLAG_WRITTEN, false);
      sonde_recorder_process (self->recorder, process, now);
    }
  ask_for_files (self, process, now, &lacks_any);
}

typedef struct
{
  const SondeMessageFileRequest *asked;
  SondeMessageFileRequest found; /* pid 0: none */
} OtherOwner;

/* Another mapping of the file in a live process. */
static void
find_other_owner (SondeProcess *process, void *user_data)
{
  OtherOwner *search = user_data;
  const SondeMessageFileRequest *asked = search->asked;
  size_t n_mappings = 0;
  const SondeProcessMapping *mappings;

  if (search->found.pid != 0 || sonde_process_exited (process))
    return;

  mappings = sonde_process_mappings (process, &n_mappings);
  for (size_t i = 0; i < n_mappings; i++)
    {
      const SondeFileId *file = &mappings[i].file;

      if (file->inode != asked->inode || file->dev_major != asked->dev_major
          || file->dev_minor != asked->dev_minor || mappings[i].unreachable)
        continue;
      if (sonde_process_pid (process) == asked->pid && mappings[i].start == asked->start)
        continue;
      search->found = *asked;
      search->found.pid = sonde_process_pid (process);
      search->found.start_ticks = sonde_process_start_ticks (process);
      search->found.start = mappings[i].start;
      search->found.offset = mappings[i].offset;
      return;
    }
}

static gboolean
ask_another (SondeTracker *self, const SondeRequest *request)
{
  OtherOwner search = { .asked = &request->file };

  if (request->n_tries >= MAX_FILE_TRIES)
    return FALSE;
  sonde_process_table_foreach (self->processes, find_other_owner, &search);

  return search.found.pid != 0
         && ask_file (self, &search.found, request->n_tries + 1, sonde_stream_now_ns ());
}

/* The broker would not show it any more. */
static void
close_process (SondeTracker *self, int32_t pid)
{
  SondeProcess *process = sonde_process_table_find (self->processes, pid);

  if (process != NULL)
    sonde_process_set_flag (process, SONDE_PROCESS_FLAG_CLOSED, true);
  sonde_jit_names_close (self->jit_names, pid);
}

void
sonde_tracker_answer_file (SondeTracker *self, const SondeMessageFile *answer, int fd)
{
  sonde_autofd int owned = fd;
  SondeRequest request;
  SondeFileId id = { 0 };
  int status = answer->status;

  if (!remove_request (self, answer->request_id, TRUE, &request))
    return;

  if (status == EPERM && self->hides_others)
    close_process (self, request.file.pid);
  if (request.file.kind != SONDE_FILE_PROGRAM)
    {
      sonde_jit_names_take (self->jit_names, request.file.pid, request.file.kind, status,
                            sonde_steal_fd (&owned));
      return;
    }
  id.inode = request.file.inode;
  id.dev_major = request.file.dev_major;
  id.dev_minor = request.file.dev_minor;
  if (status == 0 && owned >= 0)
    /* A file that makes no sense is FAILED then, and its samples say so. */
    (void) sonde_module_store_begin (self->modules, &id, sonde_steal_fd (&owned));
  else if (status == ESRCH || status == ENOENT || status == ESTALE || status == EPERM)
    {
      /* The process or the mapping was gone when the broker looked, or not for this session any
       * more: an exec, dlclose() or exit that its records will tell of, or told of already. It says
       * nothing of the file, which the new image may map just as well. */
      SondeProcess *process = sonde_process_table_find (self->processes, request.file.pid);

      if (process != NULL)
        sonde_process_set_unreachable (process, request.file.start);
      if (!ask_another (self, &request))
        sonde_module_store_set_unknown (self->modules, &id);
    }
  else if (!ask_another (self, &request))
    {
      sonde_module_store_set_failed (self->modules, &id, status);
      self->has_failed = TRUE;
      tell_refused (self, &request.file, status);
    }
}

void
sonde_tracker_give_up (SondeTracker *self)
{
  g_hash_table_remove_all (self->process_requests);
  g_hash_table_remove_all (self->file_requests);
  g_hash_table_remove_all (self->requests);
}
