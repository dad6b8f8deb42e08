/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Holds the view that a user looks at, and does what keys ask of it. */
#pragma once

#include "client/top/top-history.h"

typedef enum
{
  SONDE_TOP_FLAT,
  SONDE_TOP_TREE,
  SONDE_TOP_BOTTOM_UP,
  SONDE_TOP_PROCESSES,
  SONDE_TOP_THREADS,
  SONDE_TOP_MODULES,
  SONDE_TOP_CALLS, /* of functions that are traced; their weights are calls */
} SondeTopMode;

/* Keys that are no character; the others are their Unicode value. */
typedef enum
{
  SONDE_TOP_KEY_UP = 0x110000,
  SONDE_TOP_KEY_DOWN,
  SONDE_TOP_KEY_LEFT,
  SONDE_TOP_KEY_RIGHT,
  SONDE_TOP_KEY_PAGE_UP,
  SONDE_TOP_KEY_PAGE_DOWN,
  SONDE_TOP_KEY_HOME,
  SONDE_TOP_KEY_END,
  SONDE_TOP_KEY_ENTER,
  SONDE_TOP_KEY_BACKSPACE,
  SONDE_TOP_KEY_ESCAPE,
} SondeTopKey;

/* What the owner of the view has to do after a key. */
typedef enum
{
  SONDE_TOP_SHOW,     /* show the view again */
  SONDE_TOP_SNAPSHOT, /* first give it a new snapshot */
  SONDE_TOP_RESET,    /* first forget the samples, then that */
  SONDE_TOP_QUIT,
} SondeTopAction;

/* A function, or what is expanded of a call tree. */
typedef struct
{
  guint64 key;      /* the same function, or path, has the same one at any moment */
  const char *name; /* safe to print, as long as the rows and the profile */
  const char *module;
  guint64 self;
  guint64 total;
  const SondeCallsRow *calls; /* NULL but in that mode */
  guint indent;               /* steps, not columns */
  gboolean has_children;
  gboolean is_expanded;
  gboolean is_rest; /* sums up what is too light to be shown */
} SondeTopRow;

/* The lines of the view, open to be read. */
typedef struct
{
  GArray *list;        /* SondeTopRow */
  GStringChunk *texts; /* of rows */
  gboolean *is_match;  /* by function: the filter wants it */
  guint64 matched;     /* weight of the stacks with something in them that the filter wants, or
                          calls of such functions; all without one */
} SondeTopRows;

/* Open to be read. */
typedef struct
{
  SondeTopMode mode;
  gboolean by_total; /* lists have the heaviest total first instead of self */
  gboolean is_paused;
  gboolean is_all; /* all since the last reset is wanted, not the last seconds */
  gboolean is_help;
  gboolean is_typing;   /* keys are taken for the filter's text */
  GString *filter;      /* rows whose name or module contains it, as it was typed */
  GHashTable *expanded; /* set of keys (guint64 *): what is open below the processes, and of these
                           what is closed */
  guint cursor;         /* its row, which stays with its function from snapshot to snapshot */
  guint64 cursor_key;
  guint scroll;
  SondeTopSnapshot *snapshot; /* NULL before the first one, as are the rows */
  SondeProfile *derived;      /* of the snapshot's profile; NULL: it is shown as it is */
  SondeTopRows *rows;
} SondeTopView;

SondeTopView *sonde_top_view_new (SondeTopMode mode);
void sonde_top_view_free (SondeTopView *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopView, sonde_top_view_free)

/* @snapshot: (transfer full): what is seen from now on, unless the view is paused */
void sonde_top_view_take (SondeTopView *self, SondeTopSnapshot *snapshot);

/* @page_rows: how many rows can be seen at a time */
SondeTopAction sonde_top_view_press (SondeTopView *self, guint key, guint page_rows);

/* Of what is shown; NULL before the first snapshot. */
const SondeProfile *sonde_top_view_profile (const SondeTopView *self);

gboolean sonde_top_view_is_tree (const SondeTopView *self);

/* Of all that rows are of: samples, or calls. */
guint64 sonde_top_view_total (const SondeTopView *self);

/* The first row that is seen when @page_rows are: those around the cursor. */
guint sonde_top_view_scroll (SondeTopView *self, guint page_rows);

const SondeTopRow *sonde_top_rows_get (const SondeTopRows *self, guint row);
