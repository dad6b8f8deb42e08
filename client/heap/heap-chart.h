/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The heap over time, drawn with characters or as an SVG. */
#pragma once

#include "client/heap/heap.h"

/* A whole document that needs nothing else. @title: may be of foreign origin */
void sonde_heap_append_svg (GString *out, const SondeHeap *heap, const char *title);

/* @n_columns: of the whole picture; @utf8: blocks of eighths instead of # */
void sonde_heap_append_chart (GString *out, const SondeHeap *heap, guint n_columns, gboolean utf8);
