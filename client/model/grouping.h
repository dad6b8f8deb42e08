/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each process, or thread, of a capture the group that it is shown in: the levels of --by. */
#pragma once

#include "client/model/capture-model.h"

/* The levels, largest groups first; then what takes the place of functions. */
typedef enum
{
  SONDE_BY_NONE, /* all processes are one */
  SONDE_BY_CONTAINER,
  SONDE_BY_UNIT,
  SONDE_BY_COMMAND, /* processes of one name */
  SONDE_BY_PROCESS, /* pids, each under each of its names */
  SONDE_BY_THREAD,
  SONDE_BY_MODULE,
  SONDE_BY_FUNCTION,
  SONDE_BY_LINE,
} SondeBy;

/* As words of options, by level; NULL ends them. */
extern const char *const sonde_by_words[];

/* Whether @by says what is shown of functions, not of processes. */
gboolean sonde_by_is_of_functions (SondeBy by);

typedef struct SondeGrouping SondeGrouping;

/* @model: (transfer none): kept by the caller as long as the grouping */
SondeGrouping *sonde_grouping_new (SondeBy by, const SondeCaptureModel *model);
void sonde_grouping_free (SondeGrouping *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeGrouping, sonde_grouping_free)

/**
 * sonde_grouping_find:
 * @tid: or SONDE_TID_ALL
 *
 * Returns: the number of the group of @process, counted from 0 in the order in which they are met
 */
guint sonde_grouping_find (SondeGrouping *self, const SondeModelProcess *process, gint32 tid);

/* What group @group is called if it has several processes; of foreign origin. */
const char *sonde_grouping_name (const SondeGrouping *self, guint group);
