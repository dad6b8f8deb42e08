/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads what the embedded file "sonde/tasks" says of threads and processes: names and control
 * groups. */
#pragma once

#include <glib.h>

#include "client/base/budget.h"
#include "protocol/frame.h"

#define SONDE_TASK_LIST_PATH "sonde/tasks"

/**
 * SECTION: task-list
 *
 * FILE_CHUNK frames go in; each holds whole lines, as docs/protocol.md has them, and counts at
 * once. A line that is none is left out. What comes out is of foreign origin. A forked task has the
 * name and the control group of the one that forked it until it gets its own.
 */
typedef struct SondeTaskList SondeTaskList;

/* @budget: whose SONDE_LIMIT_NAMES counts what had no room; kept by the caller as long as the list
 */
SondeTaskList *sonde_task_list_new (SondeBudget *budget);
void sonde_task_list_free (SondeTaskList *self); /* accepts NULL */

/* Whether it is of that file. */
gboolean sonde_task_list_is_chunk (const SondeFrameFileChunk *frame);

/* @frame: accepted by sonde_frame_check(); any but those of that file is left alone. */
void sonde_task_list_add (SondeTaskList *self, const SondeFrameFileChunk *frame);

void sonde_task_list_fork (SondeTaskList *self, gint32 parent, gint32 child);

/* Adds all of @from. */
void sonde_task_list_copy (SondeTaskList *self, const SondeTaskList *from);

/* NULL: it has none that is known. */
const char *sonde_task_list_name (const SondeTaskList *self, gint32 tid);
const char *sonde_task_list_cgroup (const SondeTaskList *self, gint32 pid);
