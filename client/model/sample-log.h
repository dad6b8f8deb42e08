/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A capture with the time and thread of each sample kept, for pictures along a time line. */
#pragma once

#include "client/base/text-pool.h"
#include "client/model/samples.h"

/* Open to be read. Unlike a report it grows with the samples: 16 bytes each, their stacks being
 * shared. */
typedef struct
{
  SondeCaptureModel *model;
  SondeSamples samples; /* of locations, with places; */
  GArray *marks;        /* SondeModelMark, and */
  GArray *values;       /* SondeModelValue: each in the order of the capture, which need not be
                           that of time */
  SondeTextPool *texts; /* of marks */
} SondeSampleLog;

SondeSampleLog *sonde_sample_log_new (void);
void sonde_sample_log_free (SondeSampleLog *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSampleLog, sonde_sample_log_free)

/* Times of the first and of the last sample; FALSE if there is none. */
gboolean sonde_sample_log_range (const SondeSampleLog *self, gint64 *first_ns, gint64 *last_ns);
