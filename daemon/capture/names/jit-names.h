/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Names code that programs make at run time by the files in which they tell of it. */
#pragma once

#include "daemon/base/message.h"
#include "daemon/capture/stream/recorder.h"
#include "daemon/capture/stream/tally.h"

/**
 * SECTION: jit-names
 *
 * A process that executes memory of no file may say in perf's map file, or in a jitdump that it has
 * mapped, what is where. Both are read on while it runs: up to now before the first address of a
 * sample is looked up that is younger than the last reading. An address is named by what was there
 * at its time, and recorded as the made-up address of that name. What has none by then is kept, and
 * looked up once more when its process or the session ends: some programs write late.
 *
 * Everything in the files is the program's word, about itself alone. Main thread only.
 */
#define SONDE_JIT_MAX_PROCESSES     4096
#define SONDE_JIT_MAX_FILES         256          /* open at a time */
#define SONDE_JIT_MAX_FILE_BYTES    (128u << 20) /* ever read of one */
#define SONDE_JIT_MAX_PROCESS_BYTES (32u << 20)  /* of memory, here and below */
#define SONDE_JIT_MAX_BYTES         (96u << 20)
#define SONDE_JIT_MAX_UNNAMED       4096 /* addresses of one process without a name */
#define SONDE_JIT_MAX_LATE          65536
#define SONDE_JIT_MAX_LATE_BYTES    (8u << 20)

typedef struct SondeJitNames SondeJitNames;

/* @recorder, @tally: borrowed; @keeps_late: names may come when a session ends */
SondeJitNames *
sonde_jit_names_new (SondeRecorder *recorder, SondeTally *tally, gboolean keeps_late);
void sonde_jit_names_free (SondeJitNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeJitNames, sonde_jit_names_free)

/* What may tell of an executable mapping: PERF_MAP if its code is of no file, JIT_DUMP if it is the
 * sign of a jitdump, else PROGRAM. */
SondeFileKind sonde_jit_names_kind (const SondeProcessMapping *mapping);

/* Whether that file of a process is to be asked for at that time: less and less often while there
 * is none. */
gboolean
sonde_jit_names_wants (SondeJitNames *self, int32_t pid, SondeFileKind kind, gint64 now_ns);
void
sonde_jit_names_set_asked (SondeJitNames *self, int32_t pid, SondeFileKind kind, gint64 now_ns);
/* The answer. @status: as in SondeMessageFile; @fd: (transfer full): -1 unless it is 0 */
void
sonde_jit_names_take (SondeJitNames *self, int32_t pid, SondeFileKind kind, int status, int fd);

/* Calls @visit for each process that has samples in code without a name, and whose map file is to
 * be asked for. @now_ns: G_MAXINT64: also before it is time again. */
void sonde_jit_names_foreach_missing (SondeJitNames *self,
                                      gint64 now_ns,
                                      void (*visit) (int32_t pid, gpointer user_data),
                                      gpointer user_data);

/* Reads a slice of what is long. Returns: whether there is more */
gboolean sonde_jit_names_work (SondeJitNames *self);
/* Whether a file that has come was not read to its end yet. */
gboolean sonde_jit_names_is_reading (const SondeJitNames *self, int32_t pid);

/* Whether anything is known of code of the process: else the other functions need not be asked. */
gboolean sonde_jit_names_has (const SondeJitNames *self, int32_t pid);

/**
 * sonde_jit_names_find:
 * @address: in a mapping that is PERF_MAP
 *
 * Allocates nothing unless the program has told of something since the last time.
 *
 * Returns: the made-up address of the code that was there then; 0: there is no name
 */
uint64_t sonde_jit_names_find (SondeJitNames *self, int32_t pid, uint64_t address, gint64 time_ns);
/* Whether a trampoline of CPython is there, as the program says; @begin: (out): of its code. */
gboolean sonde_jit_names_is_trampoline (
    SondeJitNames *self, int32_t pid, uint64_t address, gint64 time_ns, uint64_t *begin);
/* It stands in the capture without a name. @is_return: the call before it is what ran */
void sonde_jit_names_note (SondeJitNames *self, int32_t pid, uint64_t address, gboolean is_return);

/* The process is not for this session any more: what is known stays. */
void sonde_jit_names_close (SondeJitNames *self, int32_t pid);
/* It executes another program, or is over. */
void sonde_jit_names_end (SondeJitNames *self, int32_t pid);
/* Those that are not in the table any more are over. */
void sonde_jit_names_expire (SondeJitNames *self, const SondeProcessTable *processes);

typedef struct
{
  int32_t pid;
  uint64_t begin;
  uint64_t end; /* first address behind */
  char *name;
} SondeLateName;

/* All are over. Returns: (transfer none) (element-type SondeLateName): in the order of pids */
const GArray *sonde_jit_names_finish (SondeJitNames *self);
/* (transfer full) (nullable) (element-type SondeLateName): those known so far, in the same order */
GArray *sonde_jit_names_dup_late (const SondeJitNames *self);
