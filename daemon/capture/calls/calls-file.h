/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Builds the embedded files that have the calls of a process. */
#pragma once

#include <glib.h>

#include "shared-ring/trie-reader.h"

/**
 * SECTION: calls-file
 *
 * Records are put one behind the other (protocol/calls.h); the file is made of them when it is
 * known up to when it goes. It is the caller's to end it before it is too long: what does not fit
 * any more is not left out. Main thread only.
 */
typedef struct SondeCallsFile SondeCallsFile;

/* When a file has so many bytes it should be ended: no record is longer than what is left then. */
#define SONDE_CALLS_FILE_FULL (1u * 1024 * 1024)

/* What a file begins with. */
typedef struct
{
  guint64 ticks_per_s; /* 0: not known yet */
  SondeTrieMode mode;
  guint32 sample_every;
  gint64 begin_ns;
  gint64 end_ns;
} SondeCallsHead;

SondeCallsFile *sonde_calls_file_new (void);
void sonde_calls_file_free (SondeCallsFile *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCallsFile, sonde_calls_file_free)

/* Bytes of its records by now. */
gsize sonde_calls_file_size (const SondeCallsFile *self);
/* What was put is not to be told. */
void sonde_calls_file_clear (SondeCallsFile *self);

void
sonde_calls_file_put_path (SondeCallsFile *self, guint32 path, guint32 parent, guint64 address);
void sonde_calls_file_put_calls (SondeCallsFile *self, guint32 path, guint64 calls);
void sonde_calls_file_put_times (SondeCallsFile *self, guint32 path, const SondeTrieTimes *times);
void
sonde_calls_file_put_account (SondeCallsFile *self, const SondeTrieCounts *counts, guint32 n_paths);
void sonde_calls_file_put_uncounted (SondeCallsFile *self,
                                     guint64 address,
                                     gint64 since_ns,
                                     guint64 calls);
void sonde_calls_file_put_words (SondeCallsFile *self, gint32 tid, guint32 path);
void sonde_calls_file_put_told (SondeCallsFile *self,
                                guint32 n_functions,
                                guint32 n_patched,
                                guint32 n_refused,
                                guint32 reason);
void sonde_calls_file_put_refused (SondeCallsFile *self, const char *why);

/* (transfer full): the file; @self is empty again. */
GBytes *sonde_calls_file_end (SondeCallsFile *self, const SondeCallsHead *head);
