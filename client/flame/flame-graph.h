/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The frames of a flame graph: one tree of functions below the processes of one or two captures. */
#pragma once

#include "client/calls/calls.h"
#include "client/model/samples.h"
#include "client/report/folding.h"

typedef enum
{
  SONDE_FLAME_SAMPLES,
  SONDE_FLAME_CALLS,
  SONDE_FLAME_SELF, /* ns of calls' own time */
} SondeFlameUnit;

/* What a flame graph is drawn of. */
typedef struct
{
  const SondeSampleLog *log; /* with at least one sample; NULL: of calls */
  const SondeCalls *calls;   /* with at least one; NULL: of samples */
  SondeFlameUnit unit;
  const SondeSampleLog *other;       /* to compare with; NULL: nothing */
  const SondeSymbolOptions *symbols; /* how to look up the names; NULL: the default */
  SondeBy by;                        /* which processes are one */
  const SondeFolding *folding;       /* what is left out of stacks; NULL: nothing */
  gboolean full_names;
  const char *title;       /* UTF-8 */
  const char *other_title; /* NULL without @other */
  const char *start;       /* ISO 8601, of foreign origin */
} SondeFlameSource;

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
  char *shown;  /* the same, as short as it can be told from the others */
  char *module; /* escaped; "" if unknown */
  char *source; /* "adler32.c:82", the line with most samples; "" if unknown */
  SondeFlameKind kind;
} SondeFlameFunction;

/* Weights are samples, or the unit of calls: [0] of the capture, [1] of the one that it is compared with. */
typedef struct
{
  guint32 function; /* number of the function */
  guint32 depth;    /* 0: process */
  guint64 self[2];  /* that end here */
  guint64 total[2]; /* self and all below */
} SondeFlameNode;

/* Open to be read, as far as it says what of. */
typedef struct
{
  GPtrArray *functions; /* SondeFlameFunction: those that nodes have */
  GArray *nodes;        /* SondeFlameNode: depth first, siblings heaviest first */
  guint64 total[2];     /* samples in all */
  guint64 threshold;    /* nodes lighter than this were summed up; 1: none */

  gboolean full_names;
  GPtrArray *all; /* SondeFlameFunction, also of frames that are summed up */
  guint32 light_function;
  SondeCallTree *tree;            /* of all of them, processes being the outermost */
  struct SondeFlameDraft *drafts; /* by node of that tree */
  GPtrArray *places; /* guint32[] or NULL, by tree of the log: its node → that of @tree; or by
                      program of the calls' reader, and of its paths */
} SondeFlameGraph;

/**
 * sonde_flame_graph_new:
 * @source: its logs, options and folding; where two are compared, processes go by names alone
 * @max_nodes: the lightest frames are summed up by their callers until no more than this, and one
 *   for the sum below each, are left
 *
 * Looks up the names of both. The graph does not refer to the logs afterwards.
 */
SondeFlameGraph *sonde_flame_graph_new (const SondeFlameSource *source, guint32 max_nodes);

/* "1,000 samples", "1 call", "3.02 s" */
char *sonde_flame_unit_dup_text (SondeFlameUnit unit, guint64 weight);

/* The same with another number of nodes. */
void sonde_flame_graph_limit (SondeFlameGraph *self, guint32 max_nodes);
void sonde_flame_graph_free (SondeFlameGraph *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFlameGraph, sonde_flame_graph_free)

const SondeFlameFunction *sonde_flame_graph_function (const SondeFlameGraph *self,
                                                      guint32 function);

const SondeFlameNode *sonde_flame_graph_node (const SondeFlameGraph *self, guint32 node);

/* Of calls that took no time. */
#define SONDE_FLAME_NOWHERE G_MAXUINT32

/* The node at which samples of the log that end at @node of its tree @tree count. */
guint32 sonde_flame_graph_locate (const SondeFlameGraph *self, guint tree, guint32 node);
