/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Walks what a capture tells of each thread, in the order of time. */
#pragma once

#include "client/base/text-pool.h"
#include "client/model/call-tree.h"
#include "client/export/export-source.h"

/* Of a sample, or of an allocation. */
typedef struct
{
  gint64 time_ns;
  gint64 size_bytes; /* allocated; 0 of a sample */
  guint32 stack;     /* node of the thread's stacks; 0: none */
} SondeExportMoment;

typedef struct
{
  gint64 time_ns;
  gint64 duration_ns; /* 0: an instant */
  const char *group;  /* this and what follows may be invalid UTF-8 */
  const char *name;
  const char *message;
} SondeExportMark;

typedef struct
{
  gint32 pid;
  gint32 tid;
  guint process;    /* number of its process when it was seen last, G_MAXUINT if there is none */
  const char *comm; /* of that process; may be invalid UTF-8 */
  SondeCallTree *stacks; /* ids are numbers of functions */
  GArray *samples;       /* SondeExportMoment, by time */
  GArray *allocations;   /* SondeExportMoment, by time */
  GArray *marks;         /* SondeExportMark; of the process, in its first thread */
} SondeExportThread;

typedef struct
{
  gint64 time_ns;
  SondeCounterValue value;
} SondeExportValue;

typedef struct
{
  guint counter;  /* number of the counter */
  gint32 pid;     /* -1: the machine */
  GArray *values; /* SondeExportValue, by time */
} SondeExportSeries;

/* For formats that want all of a thread in one place: 24 bytes for each sample are held. Threads
 * that have no room are one, whose pid and tid are -1. It must be freed before its source. */
typedef struct
{
  GPtrArray
      *threads;      /* SondeExportThread; those of a process stand together, its first one first */
  GPtrArray *series; /* SondeExportSeries */
  SondeTextPool *texts; /* of marks */
} SondeExportThreads;

/* (transfer full): NULL with @error */
SondeExportThreads *sonde_export_threads_new (SondeExportSource *source, GError **error);
void sonde_export_threads_free (SondeExportThreads *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeExportThreads, sonde_export_threads_free)

/* Index of the first thread of @pid, or of any; 0 if there is none of it. */
guint sonde_export_threads_find (const SondeExportThreads *self, gint32 pid);
