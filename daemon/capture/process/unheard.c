/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/process/unheard.h"

#include <string.h>

/* Programs that run at a time; further ones are not looked at, which is said. */
#define MAX_PROGRAMS 8192

/* LOG frames of a session; what they would have said is counted. */
#define MAX_LOGS 256

/* By then a program has its libraries. */
#define SETTLED_NS G_GINT64_CONSTANT (1000000000)

/* By then the kernel has mapped the file that a program names as its dynamic linker. */
#define STARTED_NS    (100 * G_GINT64_CONSTANT (1000000))

#define LIBRARY       "libsonde-memory" /* a path's last part begins so */
#define END_OF_32_BIT (UINT64_C (1) << 32)
#define ENOUGH_FILES  3 /* itself, its dynamic linker, and what comes behind preloaded libraries */

typedef struct
{
  gint64 since_ns; /* it was executed */
  char comm[16];
  guint64 end;   /* of its code */
  guint n_files; /* with code, up to ENOUGH_FILES */
  guint64 inodes[ENOUGH_FILES];
  guint64 devices[ENOUGH_FILES];
  gboolean has_library;
  gboolean is_hidden;
  gboolean is_cut; /* for a time it was not told what it maps */
} Program;

struct SondeUnheard
{
  SondeRecorder *recorder;
  SondeTally *tally;
  GHashTable *programs; /* pid: Program, not judged yet */
  gint64 stopped_ns;    /* the kernel told nothing from then on, for a time or for ever; 0: never */
  guint n_logs;
  guint n_left_out; /* messages */
  guint n_unseen;   /* programs */
};

SondeUnheard *
sonde_unheard_new (SondeRecorder *recorder, SondeTally *tally)
{
  SondeUnheard *self = g_new0 (SondeUnheard, 1);

  self->recorder = recorder;
  self->tally = tally;
  self->programs = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return self;
}

void
sonde_unheard_free (SondeUnheard *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->programs);
  g_free (self);
}

/* --- what a program has mapped --- */

static void
begin_program (SondeUnheard *self, const SondePerfRecord *record)
{
  Program *program;

  if (g_hash_table_size (self->programs) >= MAX_PROGRAMS)
    {
      self->n_unseen++;
      return;
    }
  program = g_new0 (Program, 1);
  program->since_ns = record->time_ns;
  g_strlcpy (program->comm, record->comm.name, sizeof program->comm);
  g_hash_table_replace (self->programs, GINT_TO_POINTER (record->pid), program);
}

static void
add_map (Program *program, const SondePerfRecordMap *map)
{
  const char *slash = strrchr (map->path, '/');
  guint64 device = (guint64) map->dev_major << 32 | map->dev_minor;

  if (!map->executable)
    return;
  program->end = MAX (program->end, map->end);
  /* The kernel's own, and what a program makes for itself. */
  if (map->inode == 0)
    return;
  if (slash != NULL && g_str_has_prefix (slash + 1, LIBRARY))
    program->has_library = TRUE;
  for (guint i = 0; i < program->n_files; i++)
    if (program->inodes[i] == map->inode && program->devices[i] == device)
      return;
  if (program->n_files < ENOUGH_FILES)
    {
      program->inodes[program->n_files] = map->inode;
      program->devices[program->n_files] = device;
      program->n_files++;
    }
}

/* --- the verdict --- */

static void
tell (SondeUnheard *self, gint32 pid, const Program *program, SondeStatistic kind, const char *why)
{
  g_autofree char *name = g_strescape (program->comm, NULL);
  g_autofree char *text = NULL;

  sonde_tally_add (self->tally, kind, 1);
  if (self->n_logs++ >= MAX_LOGS)
    {
      self->n_left_out++;
      return;
    }
  text = g_strdup_printf (SONDE_LEDGER_MISSING "process %d%s%s%s %s: its heap is not recorded", pid,
                          program->is_hidden ? "" : " (", program->is_hidden ? "" : name,
                          program->is_hidden ? "" : ")", why);
  sonde_recorder_warn (self->recorder, text);
}

/* Of what was only just executed when records ended its dynamic linker may have been the next. */
static gboolean
is_unfinished (const SondeUnheard *self, const Program *program)
{
  return program->n_files == 1 && program->since_ns < self->stopped_ns
         && self->stopped_ns - program->since_ns < STARTED_NS;
}

/* @has_ended: it maps no more, and that was told in time */
static void
judge (SondeUnheard *self, gint32 pid, const Program *program, gboolean has_ended)
{
  if (program->has_library)
    return;
  if (program->is_cut || (!has_ended && is_unfinished (self, program)))
    self->n_unseen++;
  else if (program->n_files == 1)
    tell (self, pid, program, SONDE_STATISTIC_PROGRAMS_STATIC,
          "is statically linked, and loads no library");
  else if (program->n_files == ENOUGH_FILES && program->end <= END_OF_32_BIT)
    tell (self, pid, program, SONDE_STATISTIC_PROGRAMS_32_BIT,
          "is a 32-bit program, and loaded no libsonde-memory.so for those");
  else if (program->n_files == ENOUGH_FILES)
    tell (self, pid, program, SONDE_STATISTIC_PROGRAMS_WITHOUT_LIBRARY,
          "loaded no libsonde-memory.so (it had no LD_PRELOAD, has gained rights, or needs another "
          "C library)");
}

static void
end_program (SondeUnheard *self, gint32 pid)
{
  const Program *program = g_hash_table_lookup (self->programs, GINT_TO_POINTER (pid));

  if (program == NULL)
    return;
  judge (self, pid, program, TRUE);
  g_hash_table_remove (self->programs, GINT_TO_POINTER (pid));
}

void
sonde_unheard_follow (SondeUnheard *self, const SondePerfRecord *record, gboolean is_hidden)
{
  Program *program;

  if (self == NULL || record->pid <= 0)
    return;
  program = g_hash_table_lookup (self->programs, GINT_TO_POINTER (record->pid));
  if (program != NULL && program->since_ns < self->stopped_ns && record->time_ns > self->stopped_ns)
    program->is_cut = TRUE;
  if (record->type == SONDE_PERF_RECORD_EXIT && record->pid == record->tid)
    end_program (self, record->pid);
  else if (record->type == SONDE_PERF_RECORD_COMM && record->comm.exec)
    {
      end_program (self, record->pid);
      begin_program (self, record);
    }
  program = g_hash_table_lookup (self->programs, GINT_TO_POINTER (record->pid));
  if (program == NULL)
    return;
  program->is_hidden = program->is_hidden || is_hidden;
  if (record->type == SONDE_PERF_RECORD_MAP)
    add_map (program, &record->map);
}

void
sonde_unheard_hear (SondeUnheard *self, gint32 pid)
{
  if (self != NULL)
    g_hash_table_remove (self->programs, GINT_TO_POINTER (pid));
}

void
sonde_unheard_lost_records (SondeUnheard *self)
{
  if (self == NULL)
    return;
  self->n_unseen += g_hash_table_size (self->programs);
  g_hash_table_remove_all (self->programs);
}

void
sonde_unheard_stop (SondeUnheard *self, gint64 now_ns)
{
  if (self != NULL)
    self->stopped_ns = now_ns;
}

void
sonde_unheard_settle (SondeUnheard *self, gint64 taken_ns)
{
  GHashTableIter iter;
  gpointer pid, program;

  if (self == NULL)
    return;
  g_hash_table_iter_init (&iter, self->programs);
  while (g_hash_table_iter_next (&iter, &pid, &program))
    if (taken_ns - ((const Program *) program)->since_ns > SETTLED_NS)
      {
        judge (self, GPOINTER_TO_INT (pid), program, FALSE);
        g_hash_table_iter_remove (&iter);
      }
}

void
sonde_unheard_end (SondeUnheard *self)
{
  if (self == NULL)
    return;
  sonde_unheard_settle (self, G_MAXINT64);
  if (self->n_left_out > 0)
    {
      g_autofree char *text = g_strdup_printf (
          SONDE_LEDGER_MISSING "%u more programs without libsonde-memory.so are not named here",
          self->n_left_out);

      sonde_recorder_warn (self->recorder, text);
    }
  if (self->n_unseen > 0)
    {
      g_autofree char *text = g_strdup_printf (
          "Of %u programs it is not known whether they loaded libsonde-memory.so: "
          "there were too many at a time, records of their files were lost, or the session was "
          "paused or over just then",
          self->n_unseen);

      sonde_recorder_warn (self->recorder, text);
    }
  self->n_left_out = self->n_unseen = 0;
}
