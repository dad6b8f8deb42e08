/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Accounts every nanosecond of each thread to what it did, from records of switches. */
#pragma once

#include <glib.h>

#include "daemon/base/message.h"
#include "daemon/capture/perf/perf-decoder.h"
#include "protocol/waits.h"

/**
 * SECTION: thread-clock
 *
 * A state for each thread, which a record changes; the time between is the state's. There is no
 * gap, so what a thread has in its states is its life, to the nanosecond. A life begins where the
 * thread was forked or, of one that existed before, where it was first heard of: by a record, or a
 * look at /proc. It ends at EXIT.
 *
 * Records do not say when a blocked thread was woken. How long threads waited for a processor
 * altogether the kernel counts (`schedstat`), and a look at that divides the time off: what is more
 * than records show of waits for a processor alone was in front of it blocked. What came behind the
 * last look is not divided (SONDE_TIME_UNSPLIT).
 *
 * The kernel counts the switch itself as time that the thread runs which it puts on, and writes
 * that one's record at the end of it. So looks at a thread that is off tell how long its switches
 * took: that is taken off the waits which they ended, as time switching. Where the kernel counted
 * less time on than there was, an interrupt or the hypervisor had the processor: that is taken off
 * the time on, the same. A thread that nobody looked at has switches as long as those of others.
 *
 * Where records are lost, what was open becomes unknown from the last record of that processor on,
 * up to the thread's next one; or nothing does, if a look tells that it was not put on a processor
 * since.
 *
 * Calls come in the order of time. Allocates for a thread, never for a record. Main thread only.
 */
typedef struct SondeThreadClocks SondeThreadClocks;

#define SONDE_THREAD_CLOCKS_MAX 16384 /* threads: 350 bytes each; those that ended go first */

typedef enum
{
  SONDE_THREAD_UNKNOWN,
  SONDE_THREAD_ON,
  SONDE_THREAD_PREEMPTED, /* or new: it waits for a processor and nothing else */
  SONDE_THREAD_BLOCKED,   /* or woken */
  SONDE_THREAD_READY,     /* it existed, and is on or preempted: its first record tells */
  SONDE_N_THREAD_STATES,
} SondeThreadState;

/* Open to be read. */
typedef struct
{
  gint32 pid;
  gint32 tid;    /* that it began with */
  gint32 number; /* that it has now: an exec gives it its process's */
  SondeThreadState state;
  SondeThreadState before; /* of UNKNOWN: what it was */
  gint64 begin_ns;
  gint64 since_ns;                        /* of the state */
  gint64 end_ns;                          /* 0: it lives */
  guint64 sums_ns[SONDE_N_THREAD_STATES]; /* of what is over */
  guint64 n_ended[SONDE_N_THREAD_STATES]; /* by being put on a processor */
  guint64 n_on;                           /* times that it was */

  /* What looks told since the first of them, or since records were lost, is added up from mark to
   * mark. Sums of ours are of what is over. */
  struct
  {
    gboolean is_set;
    guint64 kernel_ns; /* waits for a processor */
    guint64 preempted_ns;
    guint64 n_preempted;
    guint64 blocked_ns;
  } delay_mark, looked;
  /* The same of time on, as of looks at a thread that is off. */
  struct
  {
    gboolean is_set;
    guint64 kernel_ns;
    guint64 on_ns;
    guint64 n_on;
  } on_mark, looked_on;
  struct
  {
    gboolean is_set;
    guint64 kernel; /* how often it was put on a processor */
    guint64 n_on;
  } slices_mark;

  guint64 ready_ns; /* time on, as the kernel told last */

  guint index;        /* of it among those that live */
  gboolean is_of_cpu; /* records of whole processors tell of it */
  gboolean is_told;   /* since it ended; whoever tells of it says so, and has what is next */
  enum
  {
    SONDE_THREAD_UNJUDGED,
    SONDE_THREAD_SHOWN,
    SONDE_THREAD_HIDDEN,
  } verdict;     /* once it has ended */
  gpointer told; /* freed with it by g_free() */
} SondeThreadClock;

/* @max: of SONDE_THREAD_CLOCKS_MAX or, in tests, less */
SondeThreadClocks *sonde_thread_clocks_new (guint max);
void sonde_thread_clocks_free (SondeThreadClocks *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeThreadClocks, sonde_thread_clocks_free)

/* @record: a SWITCH, FORK, COMM of an exec, EXIT, or a LOST of the ring of switches; others are
 * nothing. */
void sonde_thread_clocks_take (SondeThreadClocks *self, const SondePerfRecord *record);
/* What the kernel said of a thread of @pid. One that was not known begins with it, if its state is
 * told. Returns: the clock, or NULL */
SondeThreadClock *
sonde_thread_clocks_look (SondeThreadClocks *self, gint32 pid, const SondeMessageThread *thread);
/* The same after the last record: nothing if it has been put on a processor since. */
void sonde_thread_clocks_look_behind (SondeThreadClocks *self,
                                      gint32 pid,
                                      const SondeMessageThread *thread);
/* It was gone when it was looked for, at @asked_ns or later, and no EXIT came: its life is up to
 * where it was last heard of. */
void sonde_thread_clocks_miss (SondeThreadClocks *self, gint32 pid, gint32 number, gint64 asked_ns);
/* Nobody tells of any thread from then on, until records come again. */
void sonde_thread_clocks_interrupt (SondeThreadClocks *self, gint64 time_ns);
/* Records are missing of which no LOST told, as none came behind them. */
void sonde_thread_clocks_lose_end (SondeThreadClocks *self, guint64 n_lost);

/* Times up to @until_ns, or its end. */
void sonde_thread_clocks_sum (const SondeThreadClocks *self,
                              const SondeThreadClock *clock,
                              gint64 until_ns,
                              guint64 times[SONDE_N_TIMES]);

/* NULL: it is not known. */
SondeThreadClock *sonde_thread_clocks_find (SondeThreadClocks *self, gint32 number);
/* Those that live. */
guint sonde_thread_clocks_n_live (const SondeThreadClocks *self);
SondeThreadClock *sonde_thread_clocks_live (const SondeThreadClocks *self, guint index);
/* Those that ended, oldest first (element-type SondeThreadClock). */
const GList *sonde_thread_clocks_ended (const SondeThreadClocks *self);
/* Frees what ended before @time_ns and was told. */
void sonde_thread_clocks_forget (SondeThreadClocks *self, gint64 time_ns);

/* One that has ended has no row of its own: it is one of the others for good. */
void sonde_thread_clocks_fold (SondeThreadClocks *self, SondeThreadClock *clock);
/* These, and those that had to make room before they were told. */
guint64 sonde_thread_clocks_n_others (const SondeThreadClocks *self);
void sonde_thread_clocks_add_others (const SondeThreadClocks *self, guint64 times[SONDE_N_TIMES]);
/* Those that there was no room for at all. */
guint64 sonde_thread_clocks_n_beyond (const SondeThreadClocks *self);
/* ns; 0: not known */
guint64 sonde_thread_clocks_switch_ns (const SondeThreadClocks *self);
/* Of all threads, and what is open up to @until_ns; 0: what is over */
guint64 sonde_thread_clocks_unknown_ns (const SondeThreadClocks *self, gint64 until_ns);
guint64 sonde_thread_clocks_n_switches (const SondeThreadClocks *self);
guint64 sonde_thread_clocks_n_lost (const SondeThreadClocks *self);
