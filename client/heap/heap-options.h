/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The options of sondectl heap. */
#pragma once

#include "client/heap/heap.h"

/* A moment of --diff that is no time. */
#define SONDE_HEAP_MOMENT_PEAK (-1)
#define SONDE_HEAP_MOMENT_END  (-2)

typedef struct
{
  SondeHeapMetric metric;
  gboolean is_view; /* whether one was asked for */
  SondeUnit unit;
  gboolean bottom_up;
  char *callers;
  gboolean flat;
  gboolean graph;
  char *svg;
  gboolean json;
  gboolean no_pager;
  double percent_limit;
  int max_depth;
  const char *path;
  const char *other_path; /* of two captures that are compared the second, else NULL */
  gboolean diff;
  gint64 moments_ns[SONDE_HEAP_N_MOMENTS]; /* of a diff of one capture; as above, or since start */
  SondeHeapOptions heap;
  SondeSymbolOptions symbols;
  char *comm;
} SondeHeapCommand;

/* Fills @self and keeps strings of @argv. FALSE, having complained, if that is no command. */
gboolean sonde_heap_command_parse (SondeHeapCommand *self, int *argc, char ***argv);
void sonde_heap_command_clear (SondeHeapCommand *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeHeapCommand, sonde_heap_command_clear)

/* "Live at the peak" */
const char *sonde_heap_metric_title (SondeHeapMetric metric);
