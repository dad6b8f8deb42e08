/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chooses samples by process, thread, unit, container and time: the options that all commands share
 * which show captures. */
#pragma once

#include <math.h>

#include "client/model/capture-model.h"

/* Texts are as options give them; NULL, -1: all. */
typedef struct
{
  gint64 pid;
  gint64 tid;
  char *comm;
  char *thread; /* as threads are called */
  char *unit;   /* "cron" is "cron.service", too */
  char *container;
  double from_s; /* seconds since the capture began */
  double to_s;
} SondeSampleFilter;

/* Takes every sample. */
#define SONDE_SAMPLE_FILTER_INIT                                                                   \
  {                                                                                                \
    .pid = -1, .tid = -1, .to_s = INFINITY                                                         \
  }

void sonde_sample_filter_clear (SondeSampleFilter *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeSampleFilter, sonde_sample_filter_clear)

/* Rows of tables of options that fill @filter, a pointer: of processes, of what is within them, and
 * of time. @what: "samples". @unit_option: "in-unit" where --unit says what is counted, else
 * "unit". */
#define SONDE_SAMPLE_FILTER_PROCESSES(filter, unit_option)                                          \
  { "pid", 'p', 0, G_OPTION_ARG_INT64, &(filter)->pid, "Only this process", "PID" },                \
      { "comm", 'c', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &(filter)->comm, "", "NAME" },      \
      { unit_option, 'u', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &(filter)->unit, "", "UNIT" }, \
  {                                                                                                 \
    "container", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &(filter)->container, "", "ID"       \
  }
#define SONDE_SAMPLE_FILTER_THREADS(filter)                                                        \
  { "tid", 't', G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT64, &(filter)->tid, "", "TID" },             \
  {                                                                                                \
    "thread", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &(filter)->thread, "", "NAME"          \
  }
#define SONDE_SAMPLE_FILTER_TIME(filter, what)                                                     \
  {                                                                                                \
    "from", 0, 0, G_OPTION_ARG_DOUBLE, &(filter)->from_s, "Only " what " from then on", "SECONDS"  \
  },                                                                                               \
  {                                                                                                \
    "to", 0, 0, G_OPTION_ARG_DOUBLE, &(filter)->to_s, "Only " what " before", "SECONDS"            \
  }
/* All of them. */
#define SONDE_SAMPLE_FILTER_OPTIONS(filter, unit_option)                                           \
  SONDE_SAMPLE_FILTER_PROCESSES (filter, unit_option), SONDE_SAMPLE_FILTER_THREADS (filter),       \
      SONDE_SAMPLE_FILTER_TIME (filter, "samples")
/* What --help says of those that it does not list. */
#define SONDE_SAMPLE_FILTER_HELP                                                                   \
  "Samples are chosen by --tid, --comm, --thread, -u UNIT and --container, too."

/* Whether the times are possible; complains if not. */
gboolean sonde_sample_filter_check (const SondeSampleFilter *self);

/* @start_ns: of the capture, CLOCK_MONOTONIC: its file header's */
void sonde_sample_filter_range (const SondeSampleFilter *self,
                                gint64 start_ns,
                                gint64 *from_ns,
                                gint64 *to_ns);

/**
 * sonde_sample_filter_matches:
 * @tid: of a thread of it; -1: any
 *
 * Whether the process, and the thread, are wanted, as far as @model knows them by now.
 */
gboolean sonde_sample_filter_matches (const SondeSampleFilter *self,
                                      const SondeCaptureModel *model,
                                      const SondeModelProcess *process,
                                      gint32 tid);
