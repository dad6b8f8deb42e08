/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The processes of a capture, numbered: a pid has a number for each name that it goes by. */
#pragma once

#include "client/base/text-pool.h"

/* One pid under one name: an exec or a rename makes a new one. */
typedef struct
{
  gint32 pid;
  const char *comm;    /* short name; may be invalid UTF-8 */
  const char *cmdline; /* newest PROCESS text of that name; may be invalid UTF-8 */
} SondeModelProcess;

typedef struct SondeProcessList SondeProcessList;

/* @budget: of which SONDE_LIMIT_PROCESSES is taken; @texts: both are kept by the caller as long as
 * the list */
SondeProcessList *sonde_process_list_new (SondeBudget *budget, SondeTextPool *texts);
void sonde_process_list_free (SondeProcessList *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProcessList, sonde_process_list_free)

#define SONDE_PROCESS_NAMELESS "?"

/* The number of @pid under the name that @cmdline begins with. The first name of a process that had
 * none takes its number. Without room it is sonde_process_list_truncated(). */
guint sonde_process_list_ensure (SondeProcessList *self, gint32 pid, const char *cmdline);

/* The number of the process that stands for all that had no room: SONDE_TRUNCATED, pid -1. */
guint sonde_process_list_truncated (SondeProcessList *self);

guint sonde_process_list_size (const SondeProcessList *self);
const SondeModelProcess *sonde_process_list_get (const SondeProcessList *self, guint process);
