/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each thread of a traced program the writer of its calls, when it first calls. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared-ring/fork-guard.h"
#include "shared-ring/trie-writer.h"

/**
 * SECTION: tracer
 *
 * The region of the process is asked for over the control link, as rings are: when the process
 * starts, if its environment names a session; and whenever the beacon calls, by a thread that
 * sleeps on it. Then all threads begin anew in the new region, and the one before stays mapped, as
 * a hook may be in it. A child of fork() asks for its own with its first call. Where the
 * environment variable SONDE_TRACE_FD has the number of a region that was inherited it is that, for
 * the first process that takes it, and none else.
 *
 * Who calls before the region is there is not counted; who calls while a thread gets its writer, or
 * behind its thread's end, is counted as lost.
 */
typedef struct
{
  SondeTrieWriter *writer; /* NULL: none */
  uint32_t generation;     /* of the process that it is of */
  uint32_t is_busy;        /* it is being made, or the thread has ended */
  SondeTrieWriter *parked; /* while a child of vfork() is in its place */
  int32_t parent;          /* the process that it is of, then; 0: there is no such child */
} SondeTracerThread;

extern _Thread_local SondeTracerThread sonde_tracer_thread
    __attribute__ ((visibility ("hidden"), tls_model ("initial-exec")));

/* Whether this process may have a region. */
extern bool sonde_tracer_is_on __attribute__ ((visibility ("hidden")));

/* The program is about to close itself by seccomp: no system call is made from here on. What would
 * need one, as a thread's first call, is counted as lost. @is_clockless: the calling thread may not
 * read the time either, so that its calls are lost, too. */
void sonde_tracer_confine (bool is_clockless);

/* The calling thread is about to call vfork(): what its child calls is not traced. */
void sonde_tracer_begin_vfork (void);

/* The calling thread's, which has called vfork(), once the child has gone; NULL: we are that child,
 * or there is none. */
SondeTrieWriter *sonde_tracer_end_vfork (void);

/* One of the program's threads is about to change what it may do, for itself alone: there are no
 * threads of ours any more, up to the next exec() or fork(), and who calls by the beacon is not
 * heard. Not from signal handlers. */
void sonde_tracer_leave_alone (void);

/* The calling thread's, whatever must be done for it. NULL: the call is not traced. */
SondeTrieWriter *sonde_tracer_start_thread (uint64_t sp);
/* The same for hooks that must leave all registers as they are. */
SondeTrieWriter *sonde_tracer_start_thread_apart (uint64_t sp);

/* The calling thread's, if there is one: a child of fork() or clone() has none of its parent's. */
static inline SondeTrieWriter *
sonde_tracer_get (void)
{
  SondeTrieWriter *writer = sonde_tracer_thread.writer;

  if (__builtin_expect (writer == NULL, 0)
      || __builtin_expect (sonde_tracer_thread.generation != sonde_fork_guard_generation (), 0))
    return NULL;
  return writer;
}
