/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The heap over time as an SVG. */
#pragma once

#include "client/heap/heap.h"

/* A whole document that needs nothing else. @title: may be of foreign origin */
void sonde_heap_append_svg (GString *out, const SondeHeap *heap, const char *title);
