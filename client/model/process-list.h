/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The processes of a capture, numbered: a pid has a number for each name that it goes by. */
#pragma once

#include <glib.h>

/* One pid under one name: an exec or a rename makes a new one. */
typedef struct
{
  gint32 pid;
  char *comm;    /* short name; may be invalid UTF-8 */
  char *cmdline; /* newest PROCESS text of that name; may be invalid UTF-8 */
} SondeModelProcess;

typedef struct SondeProcessList SondeProcessList;

SondeProcessList *sonde_process_list_new (void);
void sonde_process_list_free (SondeProcessList *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProcessList, sonde_process_list_free)

#define SONDE_PROCESS_NAMELESS "?"

/* The number of @pid under the name that @cmdline begins with. The first name of a process that had
 * none takes its number. */
guint sonde_process_list_ensure (SondeProcessList *self, gint32 pid, const char *cmdline);

guint sonde_process_list_size (const SondeProcessList *self);
const SondeModelProcess *sonde_process_list_get (const SondeProcessList *self, guint process);
