/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Recognizes interpreters among processes, has them walked, and shows what their programs call. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/perf/perf-decoder.h"
#include "daemon/capture/stream/recorder.h"
#include "unwind/process-table.h"

/**
 * SECTION: interpreters
 *
 * A process that has the code of CPython mapped is told to the broker, with the place of its
 * frames; from then on walks come before its samples (walk-pairs), with what its functions are
 * called (code-table). A sample's native stack gets them in the place of the interpreter's own
 * functions (mixed-stack), as made-up addresses whose names have the function, its file and line.
 * Main thread only.
 */
#define SONDE_INTERPRETERS_MAX_DEPTH 1024 /* frames of a stack, at most */

typedef struct SondeInterpreters SondeInterpreters;

/* FALSE: the peer is gone. */
typedef gboolean (*SondeInterpretersSend) (SondeMessageInterpreter *message, gpointer user_data);

/* All borrowed, and outliving it. */
SondeInterpreters *sonde_interpreters_new (SondeProcessTable *processes,
                                           SondeRecorder *recorder,
                                           SondeTally *tally,
                                           SondeInterpretersSend send,
                                           gpointer user_data);
void sonde_interpreters_free (SondeInterpreters *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeInterpreters, sonde_interpreters_free)

/* The session has a program that walks them, before their first sample. */
void sonde_interpreters_set_walked (SondeInterpreters *self);
/* Before a sample of it is taken: costs one look-up as long as its mappings stay what they are. */
void sonde_interpreters_meet (SondeInterpreters *self, SondeProcess *process);
/* It has executed another program, or ended. */
void sonde_interpreters_forget (SondeInterpreters *self, int32_t pid);

/* A record of type WALK, as soon as it is at the front of its ring. */
void sonde_interpreters_take_walk (SondeInterpreters *self, const SondePerfRecord *record);

/**
 * sonde_interpreters_merge:
 * @process: met
 * @sample: the oldest record of its ring
 * @addrs: (inout): leaf first; room for SONDE_INTERPRETERS_MAX_DEPTH
 * @is_complete: to the outermost frame
 *
 * Returns: how many there are now
 */
size_t sonde_interpreters_merge (SondeInterpreters *self,
                                 SondeProcess *process,
                                 const SondePerfRecord *sample,
                                 uint64_t *addrs,
                                 size_t n_addrs,
                                 gboolean is_complete);
/* A sample was taken, in whatever way. */
void sonde_interpreters_end_sample (SondeInterpreters *self, int cpu);

/* At the end. @n_lost: records, by the kernel's count. FALSE: more did not come, of which a LOG
 * warns */
gboolean sonde_interpreters_check_losses (SondeInterpreters *self, guint64 n_lost);
