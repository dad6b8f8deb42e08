/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Events of an application in its profile: marks, counters, log lines, allocations, stacks. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: sonde-collector
 *
 * An application linked with libsonde-collector puts events of its own next to the samples of its
 * profile. They go through memory that the application shares with the profiler, one ring for each
 * thread: no locks, and no system call for an event. Where there are more threads than rings some
 * share one, at which they take turns.
 *
 *     int64_t start_ns = sonde_collector_now ();
 *     draw ();
 *     sonde_collector_mark (start_ns, sonde_collector_now () - start_ns, "ui", "draw", NULL);
 *
 * Nobody listening: every function returns -ENODEV within a few ns, and
 * sonde_collector_is_wanted() says so before anything is done for an event. A profiler listens if
 * it started the program (`sondectl record`; any profiler that speaks the protocol of GNOME's
 * profiler, too): the environment says so, and is read once. Or a session with the option
 * `collectors` calls it while it runs (docs/heap.md, "Programs that run already"), and lets it go
 * again. Set-user-ID programs never have a listener.
 *
 * Threads: any function, from any thread. A thread's first event makes its ring, which takes some
 * system calls and up to five seconds if the profiler hangs; sonde_collector_prepare_thread() does
 * it ahead of time.
 *
 * Where there is a beacon a thread that made an event is followed by one that sleeps. A program
 * that gives up capabilities of one thread by capset() and then becomes another user by setuid()
 * does so before its first event: libc ends it if its threads may do different things.
 *
 * Signal handlers: where it says so, if the thread is prepared. An event in a handler that
 * interrupts another event of the same thread is refused with -EBUSY and counted as lost.
 *
 * Fork: the child gets rings of its own with its first event. Its counters are its parent's, with
 * the same ids. A child of vfork() must not record; one of a plain clone() cannot.
 *
 * errno is never changed. Nothing is ever printed, and no event ends or stops the program; if the
 * session asked for it, an event waits for room as long as the session said (sondectl(1)).
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Text is UTF-8; what does not fit is cut.
 *
 * Errors, of all functions that return int:
 *   -ENODEV nobody listens, or the profiler had no ring for this thread, nor one to share;
 *   -EAGAIN the session is paused;
 *   -ENOBUFS the ring is full: the event is lost, which the profile will say;
 *   -EBUSY see above;
 *   -EINVAL an argument is impossible;
 *   -EMSGSIZE it can never fit an event, of about 64 KiB;
 *   -EPIPE the profiler is gone.
 */

#ifdef __cplusplus
extern "C"
{
#endif

#define SONDE_COLLECTOR_API __attribute__ ((visibility ("default")))

  /* Whether somebody listens to this process, for the price of some loads: while not, every
   * function returns -ENODEV for the same price. Signal handlers, once it was asked elsewhere. */
  SONDE_COLLECTOR_API bool sonde_collector_is_wanted (void);

  /* Whether events of this thread are wanted: to be asked before work is done for one. Signal
   * handlers. */
  SONDE_COLLECTOR_API bool sonde_collector_is_active (void);

  /* Makes this thread's ring. 0 or an error. */
  SONDE_COLLECTOR_API int sonde_collector_prepare_thread (void);

  /* The time, in ns. Signal handlers. */
  SONDE_COLLECTOR_API int64_t sonde_collector_now (void);

  /**
   * sonde_collector_mark:
   * @start_ns: when it began
   * @duration_ns: how long it took; 0: a point in time
   * @group: marks of one kind of work stand together; up to 23 bytes
   * @name: up to 39 bytes
   * @message: details, or NULL
   *
   * Signal handlers.
   */
  SONDE_COLLECTOR_API int sonde_collector_mark (int64_t start_ns,
                                                int64_t duration_ns,
                                                const char *group,
                                                const char *name,
                                                const char *message);

  /* The same with a message of printf(3), up to 1,023 bytes. */
  SONDE_COLLECTOR_API int sonde_collector_mark_printf (int64_t start_ns,
                                                       int64_t duration_ns,
                                                       const char *group,
                                                       const char *name,
                                                       const char *format,
                                                       ...) __attribute__ ((format (printf, 5, 6)));

  /**
   * sonde_collector_log:
   * @severity: bits of GLib's GLogLevelFlags: 4 error, 8 critical, 16 warning, 32 message, 64 info,
   *   128 debug
   * @domain: what part of the program says it; up to 31 bytes
   *
   * Signal handlers.
   */
  SONDE_COLLECTOR_API int
  sonde_collector_log (unsigned severity, const char *domain, const char *message);

  typedef enum
  {
    SONDE_COLLECTOR_INT64 = 0,
    SONDE_COLLECTOR_DOUBLE = 1
  } SondeCollectorType;

  typedef union
  {
    int64_t v64;
    double vdbl;
  } SondeCollectorValue;

/* Counters that a process can define. */
#define SONDE_COLLECTOR_MAX_COUNTERS 256

  /**
   * sonde_collector_define_counter:
   * @category: counters that belong together; up to 31 bytes
   * @name: up to 31 bytes
   * @description: up to 51 bytes
   *
   * Every thread and every child may set it. Nobody needs to listen. There is no way to take it
   * back.
   *
   * Returns: its id, from 1; -EINVAL; -ENOSPC SONDE_COLLECTOR_MAX_COUNTERS are defined
   */
  SONDE_COLLECTOR_API int sonde_collector_define_counter (SondeCollectorType type,
                                                          const char *category,
                                                          const char *name,
                                                          const char *description);

  /* A counter's value from now on. Signal handlers, if this thread set it before. */
  SONDE_COLLECTOR_API int sonde_collector_set_int64 (int id, int64_t value);
  SONDE_COLLECTOR_API int sonde_collector_set_double (int id, double value);
  /* Several at the same time, at most SONDE_COLLECTOR_MAX_COUNTERS. */
  SONDE_COLLECTOR_API int sonde_collector_set_counters (const int *ids,
                                                        const SondeCollectorValue *values,
                                                        size_t n_counters);

  /**
   * sonde_collector_allocation:
   * @address: of the memory
   * @size_bytes: above 0: it was allocated; 0: it is about to be freed
   * @addrs: the stack, leaf first: return addresses of this process
   * @n_addrs: at most 8,000; 0: no stack
   *
   * For allocators of an application's own; libsonde-memory does it for malloc(). Signal handlers.
   */
  SONDE_COLLECTOR_API int sonde_collector_allocation (uint64_t address,
                                                      int64_t size_bytes,
                                                      const uint64_t *addrs,
                                                      size_t n_addrs);

  /**
   * sonde_collector_sample:
   * @addrs: the stack, leaf first: addresses of this process, or of sonde_collector_name_address()
   * @n_addrs: at most 8,000
   *
   * A stack of this thread, for interpreters that know their own. Signal handlers.
   */
  SONDE_COLLECTOR_API int sonde_collector_sample (const uint64_t *addrs, size_t n_addrs);

  /**
   * sonde_collector_name_address:
   * @name: of a function that has no symbol, such as one of an interpreted program
   * @address: (out): a made-up one that stands for it in stacks of this process
   *
   * A name that is given twice gets two addresses. Another thread may use the address once this
   * function has returned.
   */
  SONDE_COLLECTOR_API int sonde_collector_name_address (const char *name, uint64_t *address);

  /* What this thread's ring took and lost, by its own account. Zero without a ring. */
  SONDE_COLLECTOR_API void sonde_collector_count (uint64_t *n_events, uint64_t *n_lost);

#ifdef __cplusplus
}
#endif
