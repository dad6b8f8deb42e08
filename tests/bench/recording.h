/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps in memory what the kernel says of one command while it runs, in the order of time. */
#pragma once

#include <glib.h>
#include <linux/perf_event.h>

#include "daemon/capture/perf/perf-decoder.h"

typedef struct
{
  SondePerfDecoder decoder;
  GByteArray *bytes;      /* the records, one behind the other */
  GArray *order;          /* of gsize: where each record begins in bytes, oldest first */
  size_t n_samples;       /* with user registers */
  size_t dump_size_bytes; /* of each sample's stack copy */
  guint64 n_lost;         /* records that did not fit into the rings */
} Recording;

/**
 * recording_new:
 * @argv: run from its first instruction; its output is dropped
 * @max_samples: after these the command is killed
 *
 * Returns: NULL and *@reason if this kernel or user may not record
 */
Recording *
recording_new (const char *const *argv, size_t max_samples, size_t dump_size_bytes, char **reason);
void recording_free (Recording *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Recording, recording_free)

/* The @i-th record in time. */
const struct perf_event_header *recording_get (const Recording *self, size_t i);
