/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table of processes and their file mappings, as the event stream tells them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/module.h"

/**
 * SECTION: process-table
 *
 * Processes by pid, with the start time as generation, and their executable mappings, sorted. Calls
 * come in time order. A new mapping cuts what it overlaps, fork shares the parent's mappings
 * copy-on-write, exec clears them, exit leaves the entry until it is idle (queued samples may still
 * want it), pid reuse starts over. Everything is bounded: over a cap the longest idle process goes,
 * over a process's mapping cap new mappings are refused and counted. Main thread only.
 */
#define SONDE_PROCESS_TABLE_MAX_PROCESSES 8192
#define SONDE_PROCESS_MAX_MAPPINGS        4096
#define SONDE_PROCESS_MAX_PATH            4096 /* bytes */
#define SONDE_PROCESS_TABLE_MAX_BYTES                                                              \
  (128u << 20) /* of mappings and paths; shared ones count once */

typedef struct SondeProcessTable SondeProcessTable;
typedef struct SondeProcess SondeProcess;

typedef struct
{
  uint64_t start;            /* bytes */
  uint64_t end;              /* bytes, first address behind */
  uint64_t offset;           /* bytes into the file */
  SondeFileId file;          /* inode 0: not a file ([vdso], anonymous, JIT) */
  const char *path;          /* interned, the table's; never NULL; hostile text */
  SondeUnwindModule *module; /* owned reference; NULL until known */
  uint64_t bias;             /* valid with module */
  bool vdso;
  bool unreachable; /* the file cannot be had through this mapping any more */
} SondeProcessMapping;

/* How much the table knows of a process's mappings. */
typedef enum
{
  SONDE_PROCESS_UNKNOWN, /* only its pid: ask control for it */
  SONDE_PROCESS_ASKED,   /* an answer is awaited */
  SONDE_PROCESS_KNOWN,   /* complete: snapshot, fork of a known one, or exec seen */
  SONDE_PROCESS_GONE,    /* control could not tell; use what is there */
} SondeProcessState;

/* What the layers above note of a process, one bit each; all are off when a pid starts over. */
typedef enum
{
  /* Its PROCESS and MAP frames are in the shared stream; those of others come there before their
   * first sample and are left out of snapshots. */
  SONDE_PROCESS_FLAG_WRITTEN = 1 << 0,
  /* Nothing is missing for an unwind. */
  SONDE_PROCESS_FLAG_COMPLETE = 1 << 1,
  /* CONTESTED is right; to be cleared when its mappings change. */
  SONDE_PROCESS_FLAG_SETTLED = 1 << 2,
  /* A mapping of it is where its pid had another file. */
  SONDE_PROCESS_FLAG_CONTESTED = 1 << 3,
  /* Its FORK frame is in the shared stream: a snapshot names it, if nothing more. */
  SONDE_PROCESS_FLAG_FORKED = 1 << 4,
  /* Control would not show it any more, until it executes a program. */
  SONDE_PROCESS_FLAG_CLOSED = 1 << 5,
  /* Not for the session's owner to see: nothing of it is written but how much time it took. */
  SONDE_PROCESS_FLAG_HIDDEN = 1 << 6,
  /* It has another name than its PROCESS frame in the shared stream says. */
  SONDE_PROCESS_FLAG_RENAMED = 1 << 7,
} SondeProcessFlag;

SondeProcessTable *sonde_process_table_new (SondeModuleStore *modules);
void sonde_process_table_free (SondeProcessTable *self);
size_t sonde_process_table_n_processes (const SondeProcessTable *self);
size_t sonde_process_table_bytes (const SondeProcessTable *self);
/* Mappings that did not fit under a cap. */
uint64_t sonde_process_table_n_refused (const SondeProcessTable *self);

/* NULL if the pid is not in the table. */
SondeProcess *sonde_process_table_find (SondeProcessTable *self, int32_t pid);
/* The same, but it is no use that would keep the process. */
bool sonde_process_table_has (const SondeProcessTable *self, int32_t pid);
/* Finds or makes it (state UNKNOWN); NULL only on ENOMEM. */
SondeProcess *sonde_process_table_ensure (SondeProcessTable *self, int32_t pid, int64_t time_ns);

/* FORK record of a new process (not of a thread). */
SondeProcess *
sonde_process_table_fork (SondeProcessTable *self, int32_t parent, int32_t child, int64_t time_ns);
/* COMM record with the exec flag: mappings are cleared, what follows is complete. */
void
sonde_process_table_exec (SondeProcessTable *self, int32_t pid, const char *comm, int64_t time_ns);
void sonde_process_table_set_comm (SondeProcessTable *self, int32_t pid, const char *comm);
void sonde_process_table_exit (SondeProcessTable *self, int32_t pid, int64_t time_ns);
/* LOST side-band records: every KNOWN process becomes UNKNOWN again, mappings stay meanwhile. */
void sonde_process_table_set_stale (SondeProcessTable *self);
/* Drops processes that exited before @time_ns and were not used since. */
void sonde_process_table_expire (SondeProcessTable *self, int64_t time_ns);

typedef enum
{
  SONDE_MAP_FROM_EVENT,    /* an MMAP2 record: cuts what it overlaps */
  SONDE_MAP_FROM_SNAPSHOT, /* /proc text: fills only what no event has told */
} SondeMapOrigin;

/**
 * sonde_process_add_mapping:
 * @mapping: copied; path may be any NUL-terminated text up to SONDE_PROCESS_MAX_PATH; module, bias
 * and vdso are ignored and found out here
 *
 * Returns: 1 added, 0 an equal mapping was there already (or, of a snapshot, nothing was left to
 * fill), -ENOSPC over a cap, -EINVAL start >= end or too long a path, -ENOMEM
 */
int sonde_process_add_mapping (SondeProcessTable *self,
                               SondeProcess *process,
                               const SondeProcessMapping *mapping,
                               SondeMapOrigin origin);
/* The mapping that begins at @start is gone in the living process, so its file is not to be asked
 * for there again; another mapping of the same file may still lead to it. */
void sonde_process_set_unreachable (SondeProcess *process, uint64_t start);
/* Before a snapshot after SONDE_PROCESS_UNKNOWN that replaces a stale list: what events told since
 * the loss stays. */
void sonde_process_begin_snapshot (SondeProcessTable *self, SondeProcess *process);

int32_t sonde_process_pid (const SondeProcess *self);
/* Unique for (pid, start): changes when the pid is reused. */
uint64_t sonde_process_generation (const SondeProcess *self);
uint64_t sonde_process_start_ticks (const SondeProcess *self); /* 0 unknown */
/* A value other than the known one means that the pid was reused unnoticed: the process starts
 * over. */
void sonde_process_set_start_ticks (SondeProcess *self, uint64_t start_ticks);
SondeProcessState sonde_process_state (const SondeProcess *self);
void sonde_process_set_state (SondeProcess *self, SondeProcessState state);
const char *sonde_process_comm (const SondeProcess *self);
bool sonde_process_exited (const SondeProcess *self);

/* The mapping that holds @address, its module looked up in the store if it became ready; or NULL.
 * Valid until the table changes. */
const SondeProcessMapping *
sonde_process_find_mapping (SondeProcessTable *self, SondeProcess *process, uint64_t address);
/* All of them, sorted by start; valid until the table changes. Changes of the list bump the serial.
 */
const SondeProcessMapping *sonde_process_mappings (const SondeProcess *self, size_t *n_mappings);
uint64_t sonde_process_serial (const SondeProcess *self);
/* Looks for all modules that became ready; rises with the serial and whenever one was found. */
uint64_t sonde_process_resolve_modules (SondeProcessTable *self, SondeProcess *process);

/* @flags: of SondeProcessFlag. Returns: whether one of them is on */
bool sonde_process_flag (const SondeProcess *self, unsigned flags);
void sonde_process_set_flag (SondeProcess *self, unsigned flags, bool on);
/* Room for an unwinder's own state, which @destroy frees when the process goes or execs. */
void sonde_process_set_unwind_data (SondeProcess *self, void *data, void (*destroy) (void *));
void *sonde_process_unwind_data (const SondeProcess *self);

/* Calls @visit for each process in no order; it must not change the table. */
void sonde_process_table_foreach (SondeProcessTable *self,
                                  void (*visit) (SondeProcess *process, void *user_data),
                                  void *user_data);
