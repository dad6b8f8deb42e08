/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Models what a capture says: processes, mappings over time, names; samples and allocations in
 * these terms. */
#pragma once

#include <glib.h>

#include "client/base/budget.h"
#include "client/model/embedded-files.h"
#include "client/model/heap-log-reader.h"
#include "protocol/frame.h"
#include "protocol/ledger.h"

/* One pid under one name: an exec or a rename makes a new one. */
typedef struct
{
  gint32 pid;
  const char *comm;    /* short name; may be invalid UTF-8 */
  const char *cmdline; /* newest PROCESS text of that name; may be invalid UTF-8 */
} SondeModelProcess;

/**
 * SECTION: capture-model
 *
 * Frames go in, in the order of the capture; samples, allocations, marks and values of counters
 * come out at once, the addresses of stacks replaced by numbers of locations. A location is an
 * address within the mapping that held it at that time, so a mapping that replaces another one
 * makes new locations. Names are looked up later (symbol-resolver.h), because a capture brings most
 * of them at its end. Memory grows with processes, mappings and distinct addresses, not with
 * samples, and has limits (limits.h): locations, processes and threads that have no room are one
 * that stands for all of them.
 */
typedef struct SondeCaptureModel SondeCaptureModel;

typedef struct
{
  guint64 start; /* bytes, virtual address */
  guint64 end;
  guint64 offset; /* bytes into the file */
  guint64 inode;
  gint64 time_ns;       /* CLOCK_MONOTONIC: it was there then */
  const char *path;     /* may be invalid UTF-8 */
  const char *build_id; /* as the capture has it, should be hexadecimal; NULL: it has none */
} SondeModelMapping;

typedef struct
{
  guint64 address;    /* callers: the byte before the return address, inside the call */
  gint32 pid;         /* -1: a JIT name or a kernel address, the same in every process */
  gboolean in_kernel; /* stood behind the kernel marker */
  const SondeModelMapping *mapping; /* NULL: none known */
} SondeLocation;

/* The location of frames that had no room; the functions of names are numbered so, too. */
#define SONDE_LOCATION_TRUNCATED 0u

/* The thread that stands for those of its process that had no room. */
#define SONDE_TID_TRUNCATED (-1)
#define SONDE_TID_ALL       (-2) /* no thread, but all of its process */

typedef struct
{
  guint process; /* number of the process */
  gint32 tid;
  gint64 time_ns;           /* CLOCK_MONOTONIC */
  const guint32 *locations; /* outermost first */
  gsize n_locations;
} SondeModelSample;

typedef struct
{
  guint process; /* number of the process */
  gint32 pid;
  gint32 tid;
  gint64 time_ns; /* CLOCK_MONOTONIC; a later frame may have an earlier time */
  guint64 address;
  gint64 size_bytes;        /* above 0: allocated; 0: freed */
  const guint32 *locations; /* outermost first; none for what was freed */
  gsize n_locations;
  guint32 stack;         /* number of process and locations together, of what was allocated */
  gboolean is_new_stack; /* that number was not told before, or of another stack */
} SondeModelAllocation;

typedef enum
{
  SONDE_MODEL_FORKED,
  SONDE_MODEL_EXECUTED,
  SONDE_MODEL_EXITED,
} SondeModelTurn;

typedef struct
{
  SondeModelTurn turn;
  gint32 pid;   /* of FORKED: id of the thread that did it */
  gint32 child; /* of FORKED: id of a thread, of this process or the first of a new one */
  gint64 time_ns;
} SondeModelLife;

typedef struct
{
  gint32 pid; /* -1: of no process */
  gint64 time_ns;
  gint64 duration_ns; /* any value: of foreign origin */
  const char *group;  /* this and what follows may be invalid UTF-8 */
  const char *name;
  const char *message;
} SondeModelMark;

/* One definition; the same one again is the same counter. */
typedef struct
{
  char *category; /* this and what follows may be invalid UTF-8 */
  char *name;
  char *description;
  gboolean is_double;
} SondeModelCounter;

typedef struct
{
  guint counter; /* number of the counter */
  gint32 pid;    /* -1: of no process */
  gint64 time_ns;
  SondeCounterValue value; /* as the counter's is_double says */
} SondeModelValue;

/* What is told as it comes; NULL: not wanted. The arguments are valid during the call. */
typedef struct
{
  void (*sample) (const SondeModelSample *sample, gpointer user_data);
  void (*allocation) (const SondeModelAllocation *allocation, gpointer user_data);
  void (*life) (const SondeModelLife *life, gpointer user_data);
  void (*mark) (const SondeModelMark *mark, gpointer user_data);
  void (*value) (const SondeModelValue *value, gpointer user_data);
} SondeModelFuncs;

/* @funcs: copied */
SondeCaptureModel *sonde_capture_model_new (const SondeModelFuncs *funcs, gpointer user_data);

/* Whether there still is a process (or a thread) of that number. */
typedef gboolean (*SondeModelIsAlive) (gint32 pid);

/**
 * sonde_capture_model_new_present:
 * @before: (transfer none): of the same capture, as far as it has come
 *
 * A model that goes on where @before is, but knows the present only: processes that are alive, the
 * mappings that hold, names of made-up addresses, metadata and the ledger. Numbers of processes and
 * locations begin anew. With it, who reads a capture that does not end forgets what is over.
 *
 * Returns: (transfer full)
 */
SondeCaptureModel *sonde_capture_model_new_present (const SondeCaptureModel *before,
                                                    SondeModelIsAlive is_alive,
                                                    const SondeModelFuncs *funcs,
                                                    gpointer user_data);
void sonde_capture_model_free (SondeCaptureModel *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCaptureModel, sonde_capture_model_free)

/* @frame: accepted by sonde_frame_check() */
void sonde_capture_model_add_frame (SondeCaptureModel *self, const SondeFrame *frame);

/* An event of a heap log that was kept back: as an ALLOCATION frame with that stack. */
void sonde_capture_model_add_logged (SondeCaptureModel *self,
                                     const SondeFrameAllocation *event,
                                     SondeHeapLogStack *stack);

/* What is left of the limits; who keeps things of the model takes of it, too. */
SondeBudget *sonde_capture_model_budget (const SondeCaptureModel *self);

/* Gives locations that no mapping held when they were met one that was told later: a worker tells
 * of a process when it is sampled, which may be after it allocated. Before names are looked up; no
 * allocation may follow. */
void sonde_capture_model_settle (SondeCaptureModel *self);

guint sonde_capture_model_n_processes (const SondeCaptureModel *self);
const SondeModelProcess *sonde_capture_model_process (const SondeCaptureModel *self, guint process);

/* The path of the control group of @pid, or of who forked it; NULL: the capture does not say. May
 * be invalid UTF-8, as may the name of the thread, which is its process's if it has none of its
 * own.
 */
const char *sonde_capture_model_cgroup (const SondeCaptureModel *self, gint32 pid);
const char *sonde_capture_model_thread_name (const SondeCaptureModel *self,
                                             const SondeModelProcess *process,
                                             gint32 tid);

/* NULL: it has none of its own. */
const char *
sonde_capture_model_own_thread_name (const SondeCaptureModel *self, gint32 pid, gint32 tid);

/* Of all processes, those that others have replaced included. */
guint sonde_capture_model_n_mappings (const SondeCaptureModel *self);
guint32 sonde_capture_model_n_locations (const SondeCaptureModel *self);
const SondeLocation *sonde_capture_model_location (const SondeCaptureModel *self, guint32 location);

/* Counters that were defined, the ledger's included. */
guint sonde_capture_model_n_counters (const SondeCaptureModel *self);
const SondeModelCounter *sonde_capture_model_counter (const SondeCaptureModel *self, guint counter);

/* The JITMAP name of @address, or NULL. */
const char *sonde_capture_model_jit_name (const SondeCaptureModel *self, guint64 address);

/* What else it carries. */
const SondeEmbeddedFiles *sonde_capture_model_files (const SondeCaptureModel *self);

/* What the last METADATA frame "sonde" says, whose keys are in docs/protocol.md; NULL if there is
 * none.
 */
GKeyFile *sonde_capture_model_dup_settings (const SondeCaptureModel *self);

#define SONDE_CAPTURE_SETTINGS "sonde" /* that frame's id, and the group of its keys */

/* FALSE if the capture never set that counter of the ledger. */
gboolean
sonde_capture_model_ledger (const SondeCaptureModel *self, SondeLedger entry, guint64 *value);

guint64 sonde_capture_model_n_samples (const SondeCaptureModel *self);

/* What its log of heap events had, whose events are told as ALLOCATION frames are. */
const SondeHeapLogCounts *sonde_capture_model_heap_log (const SondeCaptureModel *self);

/* Frames that tell of memory that was allocated or freed, and events of that log. */
guint64 sonde_capture_model_n_allocations (const SondeCaptureModel *self);

/* From the first sample to the last, in ns; G_MAXINT64 if that is longer. */
gint64 sonde_capture_model_duration_ns (const SondeCaptureModel *self);
