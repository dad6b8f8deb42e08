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

/* The address space of one pid. */
typedef struct
{
  guint process;         /* the name it goes by now */
  GPtrArray *mappings;   /* in order of arrival: of two that overlap the newer one holds */
  guint64 vdso;          /* where the kernel put its own code, 0: not known */
  gboolean is_shared;    /* @mappings belongs to another space too: copy before writing */
  guint32 generation;    /* raised by each new mapping */
  SondeIdMap *locations; /* address → location */
  SondeStackMemo *memo;
} Space;

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
