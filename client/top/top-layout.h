/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Lays out a live view on a screen of some size. */
#pragma once

#include "client/top/top-page.h"
#include "client/top/top-view.h"

/* How many rows of the view a page of @n_lines has room for; at least 1. */
guint sonde_top_layout_rows (guint n_lines);

/**
 * sonde_top_layout_fill:
 * @n_seen: samples up to now, those of a paused view included
 * @end: (nullable): how the session ended, if it has; safe to print
 */
void
sonde_top_layout_fill (SondeTopPage *page, SondeTopView *view, guint64 n_seen, const char *end);

/* The two lines above the table as text. */
void sonde_top_layout_append_header (GString *out, const SondeTopSnapshot *snapshot);
