/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture summed up: one call tree of functions for each process. */
#pragma once

#include "client/call-tree.h"
#include "client/capture-model.h"
#include "client/symbol-resolver.h"

typedef struct SondeReport SondeReport;

/* Which samples count. */
typedef struct
{
  gint64 pid;       /* -1: all */
  const char *comm; /* NULL: all */
} SondeReportFilter;

typedef struct
{
  const SondeModelProcess *process;
  SondeCallTree *tree; /* ids are numbers of functions; the root's total is the process's */
} SondeReportProcess;

/* @filter: copied; NULL takes every sample */
SondeReport *sonde_report_new (const SondeReportFilter *filter);
void sonde_report_free (SondeReport *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeReport, sonde_report_free)

void sonde_report_add_frame (SondeReport *self, const SondeFrame *frame);

/* Looks up the names. No frame may follow; what is below may be asked only afterwards. */
void sonde_report_finish (SondeReport *self);

/* Processes with samples, heaviest first. */
guint sonde_report_n_processes (const SondeReport *self);
const SondeReportProcess *sonde_report_process (const SondeReport *self, guint process);

guint32 sonde_report_n_functions (const SondeReport *self);
const SondeFunction *sonde_report_function (const SondeReport *self, guint32 function);

const SondeCaptureModel *sonde_report_model (const SondeReport *self);

/* Samples that the filter let through. */
guint64 sonde_report_n_samples (const SondeReport *self);

/* Of these, how many have the outermost frame @name, such as "[stack truncated]". */
guint64 sonde_report_n_outermost (const SondeReport *self, const char *name);
