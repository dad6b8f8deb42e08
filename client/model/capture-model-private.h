/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a model is made of: for the files that implement it. */
#pragma once

#include "client/base/id-map.h"
#include "client/model/capture-model.h"
#include "client/model/jit-names.h"
#include "client/model/ledger-counters.h"
#include "client/model/model-counters.h"
#include "client/model/stack-cache.h"
#include "client/model/stack-memo.h"

/* The address space of one pid. A forked child begins with the mappings that its parent had by
 * then: however many there are, nothing is copied. */
typedef struct Space Space;
struct Space
{
  guint process;         /* the name it goes by now */
  GPtrArray *mappings;   /* its own SondeMapping in order of arrival: newer ones hide older ones */
  const Space *parent;   /* NULL: nothing is inherited */
  guint n_inherited;     /* of the parent's own; after these what that one has inherited */
  guint64 vdso;          /* where the kernel put its own code, 0: not known */
  guint32 generation;    /* raised by each new mapping */
  SondeIdMap *locations; /* address → location */
  SondeStackMemo *memo;
};

typedef struct
{
  SondeLocation location;
  guint32 generation; /* of the space when the mapping was looked up last */
} Location;

struct SondeCaptureModel
{
  SondeModelFuncs funcs;
  gpointer user_data;

  SondeProcessList *processes;
  GHashTable *spaces;  /* pid → Space */
  GPtrArray *mappings; /* owns every SondeMapping */
  GStringChunk *paths;
  GArray *locations;  /* Location */
  SondeIdMap *shared; /* address → location, for JIT names and the kernel */
  SondeJitNames *jit_names;
  GHashTable *metadata; /* id → text */
  SondeEmbeddedFiles *files;
  SondeLedgerCounters ledger;
  SondeModelCounters *counters;
  GArray *stack;           /* guint32: the sample at hand */
  SondeStackCache *stacks; /* of allocations */
  guint64 n_samples;
  guint64 n_allocations;
  gint64 first_ns;
  gint64 last_ns;
};

Space *sonde_capture_model_ensure_space (SondeCaptureModel *self, gint32 pid);
