/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lays out a live view on a screen of some size, before it goes to a terminal. */
#pragma once

#include "client/top/top-view.h"

typedef enum
{
  SONDE_TOP_PLAIN,
  SONDE_TOP_TITLE,  /* what the view is of */
  SONDE_TOP_BAR,    /* names of columns, keys */
  SONDE_TOP_HOT,    /* a large share */
  SONDE_TOP_WARM,   /* one of some weight */
  SONDE_TOP_FAINT,  /* modules, sums of what is light */
  SONDE_TOP_CURSOR, /* the row of the cursor */
  SONDE_TOP_ALERT,  /* paused, lost, over */
  SONDE_TOP_N_STYLES,
} SondeTopStyle;

typedef struct
{
  SondeTopStyle style;
  char *text; /* UTF-8 without characters that move the cursor */
} SondeTopSpan;

typedef struct
{
  GArray *spans; /* SondeTopSpan, in order */
  guint width;   /* columns that they take */
} SondeTopLine;

/* Open to be read. No line is wider than the page. */
typedef struct
{
  guint n_lines;
  guint n_columns;
  gboolean is_utf8; /* else other characters than those of ASCII become "?" */
  int caret_line;   /* where text is typed the terminal's cursor stands; -1: none is to be seen */
  int caret_column;
  SondeTopLine *lines;
} SondeTopPage;

SondeTopPage *sonde_top_page_new (guint n_lines, guint n_columns, gboolean is_utf8);
void sonde_top_page_free (SondeTopPage *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTopPage, sonde_top_page_free)

/* Appends to the line @line, in what room it has left: cut off with "…" if that is not enough.
 * @text: what could disturb a terminal is left out */
void sonde_top_page_add (SondeTopPage *self, guint line, SondeTopStyle style, const char *text);

/* Columns that @text takes on a terminal. */
guint sonde_top_text_width (const char *text);

/* How many rows of the view a page of @n_lines has room for; at least 1. */
guint sonde_top_page_n_rows (guint n_lines);

/**
 * sonde_top_page_fill:
 * @n_seen: samples up to now, those of a paused view included
 * @end: (nullable): how the session ended, if it has; safe to print
 */
void sonde_top_page_fill (SondeTopPage *page, SondeTopView *view, guint64 n_seen, const char *end);

/* The lines above the table as text. */
void sonde_top_page_append_header (GString *out, const SondeTopView *view);

/* The table of calls as text. */
void sonde_top_page_append_calls (GString *out, const SondeTopView *view);
