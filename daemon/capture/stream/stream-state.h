/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps what a stream must hold before its first sample so that it decodes alone. */
#pragma once

#include "daemon/capture/stream/span.h"
#include "unwind/process-table.h"

/**
 * SECTION: stream-state
 *
 * The file header, METADATA, embedded documents, counter definitions, processes with their
 * mappings, and the names of addresses that no file has. Each sink gets all of it when it opens
 * and, when it had to miss a part, again: in pieces of about 64 KiB, as its socket takes them. A
 * snapshot is of the moment when its cursor was made, however long it takes to be written: a
 * process that execs meanwhile is told as it was, and what the session records from that moment on
 * tells of the exec. The struct is open to this folder alone. Main thread only.
 */
#define SONDE_STREAM_STATE_MAX_DOCUMENT (4u << 20) /* bytes of one embedded file */
/* Counters of a session; each is 136 bytes here and 128 in every snapshot. */
#define SONDE_STREAM_STATE_MAX_COUNTERS 4096
/* Threads with a name, and processes with a control group, that later readers are told of: some
 * 100 bytes each, but groups may have long ones. */
#define SONDE_STREAM_STATE_MAX_TASKS      65536
#define SONDE_STREAM_STATE_MAX_TASK_BYTES (16u << 20)
/* Names of one session: bounds memory, and every reader's. Later ones share one address. */
#define SONDE_STREAM_STATE_MAX_NAMES      65536
#define SONDE_STREAM_STATE_MAX_NAME_BYTES (32u << 20)

typedef struct
{
  SondeProcessTable *processes; /* borrowed */
  GArray *counters;             /* StreamCounter; ids in order, from SONDE_N_LEDGER + 1 */
  gint64 realtime_ns;
  gint64 start_ns;
  char *metadata;
  GArray *documents;    /* StreamDocument */
  GHashTable *cmdlines; /* pid → GRefString */
  GHashTable *tasks;    /* gint64 pid << 32 | tid, in boxes → StreamTask */
  GArray *untold_tasks; /* gint64: those that are not written yet, or have gone */
  gsize n_task_bytes;
  GArray *names; /* SondeJitName, in the order in which they came */
  gsize n_name_bytes;
  GHashTable *made_up;   /* name → index + 1, of made-up addresses */
  GHashTable *made_code; /* the same, of those for code that programs make */
  GHashTable *given;     /* uint64_t address, in boxes: those outside of the made-up ones */
} SondeStreamState;

SondeStreamState *sonde_stream_state_new (SondeProcessTable *processes);
void sonde_stream_state_free (SondeStreamState *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeStreamState, sonde_stream_state_free)

/* @metadata: (transfer full): a key file */
void sonde_stream_state_describe (SondeStreamState *self,
                                  gint64 realtime_ns,
                                  gint64 start_ns,
                                  char *metadata);
void sonde_stream_state_add_document (SondeStreamState *self, const char *path, GBytes *content);

/* Bounded; NULL forgets it, as after exec and exit. */
void sonde_stream_state_set_cmdline (SondeStreamState *self, int32_t pid, const char *cmdline);

/**
 * sonde_stream_state_set_task:
 * @tid: 0: it is of the process
 * @line: (transfer full): of the embedded file "sonde/tasks", with its newline
 *
 * In the place of what was said of the same task before. It is written later, so that a program
 * that changes its name a million times a second has some lines of the stream, and no more.
 *
 * Returns: FALSE: there are SONDE_STREAM_STATE_MAX_TASKS, or their bytes, or the line is too long
 */
gboolean sonde_stream_state_set_task (SondeStreamState *self, int32_t pid, int32_t tid, char *line);
/* Writes what was set and is not written yet, of up to @max_tasks. */
void sonde_stream_state_write_tasks (SondeStreamState *self,
                                     guint max_tasks,
                                     gint64 time_ns,
                                     SondeSpanWriter *out);
/* The same of one task: before what says something of it. */
void sonde_stream_state_write_task (
    SondeStreamState *self, int32_t pid, int32_t tid, gint64 time_ns, SondeSpanWriter *out);
/* It has exited; of the first thread all that is of its process. */
void sonde_stream_state_forget_task (SondeStreamState *self, int32_t pid, int32_t tid);

/* The PROCESS frame, from the command line if known, else the name. */
void sonde_stream_state_write_process (const SondeStreamState *self,
                                       const SondeProcess *process,
                                       gint64 time_ns,
                                       SondeSpanWriter *out);
/* The MAP frame, with the build id of the file if @mapping has its module. */
void sonde_stream_state_write_map (int32_t pid,
                                   const SondeProcessMapping *mapping,
                                   gint64 time_ns,
                                   SondeSpanWriter *out);

/**
 * sonde_stream_state_add_counters:
 * @pid: whose they are; -1: the machine's
 * @counters: (inout): their ids are filled in, the first free ones behind the ledger's
 * @out: gets their CTRDEF frames, as do snapshots from then on
 *
 * An id is never given back: what it meant stands in streams.
 *
 * Returns: FALSE if not all of them have room, and none was added
 */
gboolean sonde_stream_state_add_counters (SondeStreamState *self,
                                          gint32 pid,
                                          SondeCounter *counters,
                                          guint n_counters,
                                          gint64 time_ns,
                                          SondeSpanWriter *out);
/* One embedded file, for streams that have the state before it. */
void sonde_stream_state_write_document (const SondeStreamState *self,
                                        const char *path,
                                        GBytes *content,
                                        SondeSpanWriter *out);

/* The made-up address that stands for @name; @out gets its JITMAP frame if it is a new one. */
uint64_t sonde_stream_state_name (SondeStreamState *self,
                                  const char *name,
                                  gint64 time_ns,
                                  SondeSpanWriter *out);
/* The same for code that a program made and has called so: whatever that is, it shares its address
 * with other such code alone. */
uint64_t sonde_stream_state_name_code (SondeStreamState *self,
                                       const char *name,
                                       gint64 time_ns,
                                       SondeSpanWriter *out);
/* @name for an @address outside of the made-up ones, with its JITMAP frame. FALSE: it has one, or
 * there are too many. */
gboolean sonde_stream_state_name_address (SondeStreamState *self,
                                          uint64_t address,
                                          const char *name,
                                          gint64 time_ns,
                                          SondeSpanWriter *out);

/* The state at one moment, which later changes leave as it was: it shares the mappings of processes
 * with the process table until they change. Lives no longer than the state and the table. */
typedef struct SondeStateBase SondeStateBase;

/* The state as it is now. @realtime_ns, @start_ns: when what is behind it begins */
SondeStateBase *sonde_state_base_new (SondeStreamState *state, gint64 realtime_ns, gint64 start_ns);
SondeStateBase *sonde_state_base_ref (SondeStateBase *self);
void sonde_state_base_unref (SondeStateBase *self); /* accepts NULL */
gint64 sonde_state_base_start_ns (const SondeStateBase *self);
/* What it takes, its part of what it shares with others among it. */
gsize sonde_state_base_bytes (const SondeStateBase *self);

/* How much of a base is written. */
typedef struct SondeStateCursor SondeStateCursor;

/* Of the state as it is now. @with_header: begin with the capture's file header. */
SondeStateCursor *sonde_state_cursor_new (SondeStreamState *state, gboolean with_header);
/* With the header. @more: (nullable): lines that the METADATA frame has besides */
SondeStateCursor *sonde_state_cursor_over (SondeStateBase *base, const char *more);
void sonde_state_cursor_free (SondeStateCursor *self); /* accepts NULL */
/* Writes the next piece. Returns FALSE when that was the last. */
gboolean sonde_state_cursor_write (SondeStateCursor *self, SondeSpanWriter *out);
