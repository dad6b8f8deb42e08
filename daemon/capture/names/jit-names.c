/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/names/jit-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/jit-file.h"

#define SLICE_BYTES   (256u << 10)
#define LAST_SLICES   32 /* of a process that ends */
#define FIRST_WAIT_NS (G_GINT64_CONSTANT (100000000))
#define MAX_WAIT_NS   (G_GINT64_CONSTANT (10000000000))
#define MAX_TOLD      64 /* refusals, each of one process */

typedef struct
{
  SondeJitFile *file;     /* NULL: it is not here */
  gint64 read_ns;         /* when it was last */
  gint64 next_ask_ns;     /* 0: it was not asked for */
  gint64 wait_ns;         /* between the last two times */
  gboolean is_over;       /* it is not to be asked for again */
  gboolean is_first;      /* it was not read to its end yet */
  gboolean is_unfinished; /* there is more: sonde_jit_names_work() */
} JitSource;

typedef struct
{
  int32_t pid;
  SondeJitMap *map; /* NULL: no file has come */
  gsize n_bytes;    /* of it, as far as they were counted */
  JitSource dump;
  JitSource text;
  gboolean has_missed; /* an address without a name */
  GHashTable *unnamed; /* uint64_t, in boxes: address and whether it is a return → samples in it */
} JitProcess;

struct SondeJitNames
{
  SondeRecorder *recorder;
  SondeTally *tally;
  gboolean keeps_late;
  GHashTable *processes; /* pid → JitProcess */
  gsize n_bytes;         /* of all maps */
  guint n_files;
  guint n_unfinished;
  guint n_told;
  gboolean is_full; /* of processes; that was said */
  GArray *late;     /* SondeLateName */
  gsize n_late_bytes;
};

static void
clear_late (gpointer data)
{
  g_free (((SondeLateName *) data)->name);
}

static void
process_free (gpointer data)
{
  JitProcess *process = data;

  sonde_jit_file_free (process->dump.file);
  sonde_jit_file_free (process->text.file);
  sonde_jit_map_free (process->map);
  g_clear_pointer (&process->unnamed, g_hash_table_unref);
  g_free (process);
}

SondeJitNames *
sonde_jit_names_new (SondeRecorder *recorder, SondeTally *tally, gboolean keeps_late)
{
  SondeJitNames *self = g_new0 (SondeJitNames, 1);

  self->recorder = recorder;
  self->tally = tally;
  self->keeps_late = keeps_late;
  self->processes = g_hash_table_new_full (NULL, NULL, NULL, process_free);
  self->late = g_array_new (FALSE, FALSE, sizeof (SondeLateName));
  g_array_set_clear_func (self->late, clear_late);
  return self;
}

void
sonde_jit_names_free (SondeJitNames *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->processes);
  g_array_unref (self->late);
  g_free (self);
}

static JitProcess *
find_process (const SondeJitNames *self, int32_t pid)
{
  return g_hash_table_lookup (self->processes, GINT_TO_POINTER (pid));
}

static JitSource *
source_of (JitProcess *process, SondeFileKind kind)
{
  return kind == SONDE_FILE_JIT_DUMP ? &process->dump : &process->text;
}

SondeFileKind
sonde_jit_names_kind (const SondeProcessMapping *mapping)
{
  const char *path = mapping->path;
  const char *slash = strrchr (path, '/');

  if (mapping->vdso || mapping->module != NULL)
    return SONDE_FILE_PROGRAM;
  if (mapping->file.inode == 0)
    return g_str_has_prefix (path, "[v") || g_str_has_prefix (path, "[uprobes")
               ? SONDE_FILE_PROGRAM
               : SONDE_FILE_PERF_MAP;
  if (slash != NULL && g_str_has_prefix (slash, "/jit-") && g_str_has_suffix (slash, ".dump"))
    return SONDE_FILE_JIT_DUMP;
  /* Memory that a program has twice, once to write to, and memory that it shares with others. */
  return g_str_has_prefix (path, "/memfd:") || g_str_has_prefix (path, "/dev/zero")
             ? SONDE_FILE_PERF_MAP
             : SONDE_FILE_PROGRAM;
}

/* --- files --- */

static const char *
reason_of (int status)
{
  switch (status)
    {
    case EACCES:
      return "their file is on none of the file systems whose files are opened";
    case ELOOP:
      return "their file is a link, or behind one";
    case ENODEV:
      return "their file is no regular one";
    case EREMOTE:
      return "their file is another user's";
    case EMLINK:
      return "their file has several names";
    case ENOEXEC:
      return "their file is no jitdump of this machine";
    case EBADMSG:
      return "a record of their jitdump is shorter than its header";
    case EFBIG:
      return "their file is too long";
    case ENOSPC:
      return "there are too many";
    case EMFILE:
      return "too many programs have such files";
    default:
      return g_strerror (status);
    }
}

static void
close_source (SondeJitNames *self, JitSource *source)
{
  if (source->file == NULL)
    return;
  g_clear_pointer (&source->file, sonde_jit_file_free);
  self->n_files--;
  self->n_unfinished -= source->is_unfinished;
  source->is_unfinished = source->is_first = FALSE;
}

/* For good. What is known stays. */
static void
refuse (SondeJitNames *self, JitProcess *process, JitSource *source, int status)
{
  g_autofree char *text = NULL;

  close_source (self, source);
  source->is_over = TRUE;
  sonde_tally_add (self->tally, SONDE_STATISTIC_JIT_REFUSED, 1);
  if (self->n_told > MAX_TOLD)
    return;
  if (self->n_told++ == MAX_TOLD)
    text = g_strdup_printf ("More than %d programs have names of made code that are missing: those "
                            "that follow are not told of",
                            MAX_TOLD);
  else
    text = g_strdup_printf ("Names of code that process %d makes are missing: %s", process->pid,
                            reason_of (status));
  sonde_recorder_tell (self->recorder, text);
}

static void
set_unfinished (SondeJitNames *self, JitSource *source, gboolean is_unfinished)
{
  self->n_unfinished += (guint) is_unfinished - (guint) source->is_unfinished;
  source->is_unfinished = is_unfinished;
}

/* A slice. Returns: whether there is more */
static gboolean
read_source (SondeJitNames *self, JitProcess *process, JitSource *source)
{
  gint64 now_ns = sonde_stream_now_ns ();
  int r = sonde_jit_file_read (source->file, process->map, SLICE_BYTES, now_ns);

  self->n_bytes -= process->n_bytes;
  process->n_bytes = sonde_jit_map_bytes (process->map);
  self->n_bytes += process->n_bytes;
  source->read_ns = now_ns;
  set_unfinished (self, source, r > 0);
  source->is_first = source->is_first && r > 0;
  if (r >= 0 && self->n_bytes >= SONDE_JIT_MAX_BYTES)
    r = -ENOSPC;
  if (r < 0)
    refuse (self, process, source, -r);
  else if (r == 0 && sonde_jit_file_is_removed (source->file))
    close_source (self, source);
  return r > 0;
}

gboolean
sonde_jit_names_wants (SondeJitNames *self, int32_t pid, SondeFileKind kind, gint64 now_ns)
{
  JitProcess *process = find_process (self, pid);
  JitSource *source;

  if (process == NULL && g_hash_table_size (self->processes) >= SONDE_JIT_MAX_PROCESSES)
    {
      if (!self->is_full)
        sonde_recorder_tell (self->recorder,
                             "Too many programs make code at a time: names of it are missing");
      sonde_tally_add (self->tally, SONDE_STATISTIC_JIT_REFUSED, !self->is_full);
      self->is_full = TRUE;
      return FALSE;
    }
  if (process == NULL)
    {
      process = g_new0 (JitProcess, 1);
      process->pid = pid;
      g_hash_table_insert (self->processes, GINT_TO_POINTER (pid), process);
    }
  source = source_of (process, kind);
  return source->file == NULL && !source->is_over && now_ns >= source->next_ask_ns;
}

void
sonde_jit_names_set_asked (SondeJitNames *self, int32_t pid, SondeFileKind kind, gint64 now_ns)
{
  JitProcess *process = find_process (self, pid);
  JitSource *source;

  if (process == NULL)
    return;
  source = source_of (process, kind);
  source->wait_ns = source->wait_ns == 0 ? FIRST_WAIT_NS : MIN (source->wait_ns * 2, MAX_WAIT_NS);
  source->next_ask_ns = now_ns + source->wait_ns;
}

void
sonde_jit_names_take (SondeJitNames *self, int32_t pid, SondeFileKind kind, int status, int fd)
{
  JitProcess *process = find_process (self, pid);
  JitSource *source = process != NULL ? source_of (process, kind) : NULL;

  if (source == NULL || source->file != NULL || source->is_over)
    {
      if (fd >= 0)
        close (fd);
      return;
    }
  switch (status)
    {
    case 0:
      break;
    case ENOENT: /* not yet, perhaps */
    case ESRCH:
    case ESTALE:
    case EAGAIN:
    case ETIMEDOUT:
      return;
    case EPERM:
      source->is_over = TRUE;
      return;
    default:
      refuse (self, process, source, status);
      return;
    }
  if (process->map == NULL)
    process->map = sonde_jit_map_new (SONDE_JIT_MAX_PROCESS_BYTES);
  if (self->n_files >= SONDE_JIT_MAX_FILES || process->map == NULL)
    {
      close (fd);
      refuse (self, process, source, process->map == NULL ? ENOMEM : EMFILE);
      return;
    }
  source->file = sonde_jit_file_new (
      fd, kind == SONDE_FILE_JIT_DUMP ? SONDE_JIT_FILE_DUMP : SONDE_JIT_FILE_MAP,
      SONDE_JIT_MAX_FILE_BYTES);
  if (source->file == NULL)
    return;
  self->n_files++;
  source->is_first = TRUE;
  read_source (self, process, source);
}

void
sonde_jit_names_foreach_missing (SondeJitNames *self,
                                 gint64 now_ns,
                                 void (*visit) (int32_t pid, gpointer user_data),
                                 gpointer user_data)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->processes);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const JitProcess *process = value;

      if (process->has_missed && process->text.file == NULL && !process->text.is_over
          && now_ns >= process->text.next_ask_ns)
        visit (process->pid, user_data);
    }
}

gboolean
sonde_jit_names_work (SondeJitNames *self)
{
  GHashTableIter iter;
  gpointer value;

  if (self->n_unfinished == 0)
    return FALSE;
  g_hash_table_iter_init (&iter, self->processes);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      JitProcess *process = value;
      JitSource *source = process->dump.is_unfinished ? &process->dump : &process->text;

      if (source->is_unfinished)
        {
          read_source (self, process, source);
          break;
        }
    }
  return self->n_unfinished > 0;
}

gboolean
sonde_jit_names_is_reading (const SondeJitNames *self, int32_t pid)
{
  const JitProcess *process = find_process (self, pid);

  return process != NULL && (process->dump.is_first || process->text.is_first);
}

gboolean
sonde_jit_names_has (const SondeJitNames *self, int32_t pid)
{
  return find_process (self, pid) != NULL;
}

/* --- addresses --- */

/* What the program has told of by @time_ns. */
static void
catch_up (SondeJitNames *self, JitProcess *process, JitSource *source, gint64 time_ns)
{
  if (source->file != NULL && !source->is_unfinished && source->read_ns < time_ns)
    read_source (self, process, source);
}

static gboolean
find_code (
    SondeJitNames *self, JitProcess *process, uint64_t address, gint64 time_ns, SondeJitCode *code)
{
  catch_up (self, process, &process->dump, time_ns);
  catch_up (self, process, &process->text, time_ns);
  return process->map != NULL && sonde_jit_map_lookup (process->map, address, time_ns, code);
}

/* Source: CPython, Python/perf_trampoline.c */
gboolean
sonde_jit_names_is_trampoline (
    SondeJitNames *self, int32_t pid, uint64_t address, gint64 time_ns, uint64_t *begin)
{
  JitProcess *process = find_process (self, pid);
  SondeJitCode code;

  if (process == NULL || !find_code (self, process, address, time_ns, &code)
      || !g_str_has_prefix (code.name, "py::"))
    return FALSE;
  *begin = code.begin;
  return TRUE;
}

uint64_t
sonde_jit_names_find (SondeJitNames *self, int32_t pid, uint64_t address, gint64 time_ns)
{
  JitProcess *process = find_process (self, pid);
  SondeJitCode code;

  if (process == NULL)
    return 0;
  if (!find_code (self, process, address, time_ns, &code))
    {
      process->has_missed = TRUE;
      return 0;
    }
  if (*code.mark == 0)
    *code.mark = sonde_recorder_name_code (self->recorder, code.name, time_ns);
  return *code.mark;
}

static void
count_unnamed (SondeJitNames *self, guint n_samples)
{
  sonde_tally_add (self->tally, SONDE_STATISTIC_JIT_UNNAMED, n_samples);
}

void
sonde_jit_names_note (SondeJitNames *self, int32_t pid, uint64_t address, gboolean is_return)
{
  JitProcess *process = find_process (self, pid);
  uint64_t key = address << 1 | (uint64_t) is_return;
  gpointer n_samples = NULL;
  gboolean is_known;

  if (process != NULL)
    process->has_missed = TRUE;
  if (process != NULL && self->keeps_late && process->unnamed == NULL)
    process->unnamed = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  if (process == NULL || process->unnamed == NULL)
    {
      count_unnamed (self, !is_return);
      return;
    }
  is_known = g_hash_table_lookup_extended (process->unnamed, &key, NULL, &n_samples);
  if (!is_known && g_hash_table_size (process->unnamed) >= SONDE_JIT_MAX_UNNAMED)
    count_unnamed (self, !is_return);
  else if (!is_known || !is_return)
    g_hash_table_insert (process->unnamed, g_memdup2 (&key, sizeof key),
                         GUINT_TO_POINTER (GPOINTER_TO_UINT (n_samples) + !is_return));
}

/* --- ends --- */

static int
compare_keys (const void *a, const void *b)
{
  uint64_t left = *(const uint64_t *) *(const gpointer *) a;
  uint64_t right = *(const uint64_t *) *(const gpointer *) b;

  return (left > right) - (left < right);
}

/* Returns: whether there is a name now */
static gboolean
add_late (SondeJitNames *self, JitProcess *process, uint64_t key)
{
  uint64_t address = key >> 1;
  SondeLateName *last = self->late->len > 0
                            ? &g_array_index (self->late, SondeLateName, self->late->len - 1)
                            : NULL;
  SondeLateName added = { .pid = process->pid };
  SondeJitCode code;

  if (last != NULL && last->pid == process->pid && address < last->end)
    return TRUE;
  if (process->map == NULL
      || !sonde_jit_map_lookup (process->map, address - (key & 1), G_MAXINT64, &code)
      || self->late->len >= SONDE_JIT_MAX_LATE
      || strlen (code.name) >= SONDE_JIT_MAX_LATE_BYTES - self->n_late_bytes)
    return FALSE;
  added.begin = code.begin;
  /* A call that never returns may be the last instruction. */
  added.end = MAX (code.end, address + 1);
  added.name = g_strdup (code.name);
  self->n_late_bytes += strlen (code.name);
  g_array_append_val (self->late, added);
  return TRUE;
}

static void
end_process (SondeJitNames *self, JitProcess *process)
{
  g_autofree gpointer *keys = NULL;
  guint n_keys = 0;

  for (guint i = 0; i < LAST_SLICES && process->dump.file != NULL; i++)
    if (!read_source (self, process, &process->dump))
      break;
  for (guint i = 0; i < LAST_SLICES && process->text.file != NULL; i++)
    if (!read_source (self, process, &process->text))
      break;
  close_source (self, &process->dump);
  close_source (self, &process->text);
  self->n_bytes -= process->n_bytes;
  if (process->unnamed == NULL)
    return;
  keys = g_hash_table_get_keys_as_array (process->unnamed, &n_keys);
  qsort (keys, n_keys, sizeof *keys, compare_keys);
  for (guint i = 0; i < n_keys; i++)
    if (!add_late (self, process, *(const uint64_t *) keys[i]))
      count_unnamed (self, GPOINTER_TO_UINT (g_hash_table_lookup (process->unnamed, keys[i])));
}

void
sonde_jit_names_close (SondeJitNames *self, int32_t pid)
{
  JitProcess *process = find_process (self, pid);

  if (process == NULL)
    return;
  close_source (self, &process->dump);
  close_source (self, &process->text);
  process->dump.is_over = process->text.is_over = TRUE;
}

void
sonde_jit_names_end (SondeJitNames *self, int32_t pid)
{
  JitProcess *process = find_process (self, pid);

  if (process == NULL)
    return;
  end_process (self, process);
  g_hash_table_remove (self->processes, GINT_TO_POINTER (pid));
}

void
sonde_jit_names_expire (SondeJitNames *self, const SondeProcessTable *processes)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->processes);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (!sonde_process_table_has (processes, ((const JitProcess *) value)->pid))
      {
        end_process (self, value);
        g_hash_table_iter_remove (&iter);
      }
}

static int
compare_late (gconstpointer a, gconstpointer b)
{
  const SondeLateName *left = a;
  const SondeLateName *right = b;

  if (left->pid != right->pid)
    return left->pid < right->pid ? -1 : 1;
  return (left->begin > right->begin) - (left->begin < right->begin);
}

const GArray *
sonde_jit_names_finish (SondeJitNames *self)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->processes);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      end_process (self, value);
      g_hash_table_iter_remove (&iter);
    }
  g_array_sort (self->late, compare_late);
  return self->late;
}

GArray *
sonde_jit_names_dup_late (const SondeJitNames *self)
{
  GArray *copy;

  if (self->late->len == 0)
    return NULL;
  copy = g_array_copy (self->late);
  for (guint i = 0; i < copy->len; i++)
    {
      SondeLateName *late = &g_array_index (copy, SondeLateName, i);

      late->name = g_strdup (late->name);
    }
  g_array_sort (copy, compare_late);
  return copy;
}
