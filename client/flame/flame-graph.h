/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The frames of a flame graph: one tree of functions below the processes of one or two captures. */
#pragma once

#include "client/model/samples.h"
#include "client/names/symbol-resolver.h"

typedef struct SondeFlameGraph SondeFlameGraph;

typedef enum
{
  SONDE_FLAME_USER,
  SONDE_FLAME_KERNEL,
  SONDE_FLAME_PROCESS,    /* not a function: the process below which it was called */
  SONDE_FLAME_INCOMPLETE, /* "[stack truncated]" and its like */
  SONDE_FLAME_LIGHT,      /* stands for frames that were left out */
} SondeFlameKind;

typedef struct
{
  char *name;   /* escaped, safe to show */
  char *module; /* escaped; "" if unknown */
  char *source; /* "adler32.c:82", the line with most samples; "" if unknown */
  SondeFlameKind kind;
} SondeFlameFunction;

/* Weights are samples: [0] of the capture, [1] of the one that it is compared with. */
typedef struct
{
  guint32 function; /* number of the function */
  guint32 depth;    /* 0: process */
  guint64 self[2];  /* that end here */
  guint64 total[2]; /* self and all below */
} SondeFlameNode;

/**
 * sonde_flame_graph_new:
 * @other: (nullable): the capture to compare with; processes then go by their names alone
 * @symbols: (nullable): how to look up the names
 * @max_nodes: the lightest frames are summed up by their callers until no more than this, and one
 *   for the sum below each, are left
 *
 * Looks up the names of both. The graph does not refer to the logs afterwards.
 */
SondeFlameGraph *sonde_flame_graph_new (const SondeSampleLog *log,
                                        const SondeSampleLog *other,
                                        const SondeSymbolOptions *symbols,
                                        guint32 max_nodes);

/* The same with another number of nodes. */
void sonde_flame_graph_limit (SondeFlameGraph *self, guint32 max_nodes);
void sonde_flame_graph_free (SondeFlameGraph *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFlameGraph, sonde_flame_graph_free)

guint32 sonde_flame_graph_n_functions (const SondeFlameGraph *self);
const SondeFlameFunction *sonde_flame_graph_function (const SondeFlameGraph *self,
                                                      guint32 function);

/* Depth first, siblings heaviest first. */
guint32 sonde_flame_graph_n_nodes (const SondeFlameGraph *self);
const SondeFlameNode *sonde_flame_graph_node (const SondeFlameGraph *self, guint32 node);

/* Samples in all: @which is 0 or 1. */
guint64 sonde_flame_graph_total (const SondeFlameGraph *self, guint which);

/* The node at which samples of @log that end at @node of the tree of @process count. */
guint32 sonde_flame_graph_locate (const SondeFlameGraph *self, guint process, guint32 node);

/* Nodes lighter than this were summed up; 1: none. */
guint64 sonde_flame_graph_threshold (const SondeFlameGraph *self);
