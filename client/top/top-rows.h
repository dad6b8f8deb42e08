/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The lines of a live view: functions, or what is expanded of call trees. */
#pragma once

#include "client/report/profile.h"

typedef struct
{
  guint64 key;      /* the same function, or path, has the same one at any moment */
  const char *name; /* safe to print, as long as the rows and the profile */
  const char *module;
  guint64 self;
  guint64 total;
  guint indent; /* steps, not columns */
  gboolean has_children;
  gboolean is_expanded;
  gboolean is_rest; /* sums up what is too light to be shown */
} SondeTopRow;

/* What decides which rows there are. */
typedef struct
{
  gboolean by_total;          /* rows of lists, heaviest total first instead of self */
  const char *filter;         /* rows whose name or module contains it; "": all */
  const GHashTable *expanded; /* set of keys (guint64 *): what is open below the processes, and of
                                 these what is closed */
} SondeTopRowOptions;

/* Open to be read. */
typedef struct
{
  const SondeProfile *profile;
  SondeTopRowOptions options;
  GArray *list; /* SondeTopRow */
  GStringChunk *texts;
  gboolean *is_match; /* by function */
  guint64 matched;    /* weight of the stacks with something in them that the filter wants; all
                         without one */
} SondeTopRows;

/* Functions by weight. @profile: (transfer none): kept by the caller as long as the rows */
SondeTopRows *sonde_top_rows_new_list (const SondeProfile *profile,
                                       const SondeTopRowOptions *options);

/* Call trees; what is lighter than %SONDE_PROFILE_PERCENT_LIMIT is summed up, unless filtered. With
 * one process of no pid, as views have it, functions are the first level. */
SondeTopRows *sonde_top_rows_new_tree (const SondeProfile *profile,
                                       const SondeTopRowOptions *options);
void sonde_top_rows_free (SondeTopRows *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopRows, sonde_top_rows_free)

const SondeTopRow *sonde_top_rows_get (const SondeTopRows *self, guint row);
