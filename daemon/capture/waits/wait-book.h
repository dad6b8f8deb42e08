/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has the clocks of threads follow records and looks, and writes what they say into the capture. */
#pragma once

#include "daemon/capture/perf/perf-decoder.h"
#include "daemon/capture/stream/recorder.h"
#include "unwind/process-table.h"

/**
 * SECTION: waits
 *
 * Threads are looked at in turn, at most SONDE_WAIT_BOOK_LOOKS of them every 100 ms, and each ten
 * times a second at most: the broker reads what the kernel accounts to them. A look counts at its
 * time among the records, so it waits until those before it were taken.
 *
 * The capture gets counters of the first SONDE_WAIT_BOOK_MAX_COUNTED threads (ns on, runnable and
 * blocked since the look before), and every ten seconds and at the end an embedded file with a row
 * for each thread (protocol/waits.h). Threads of processes that are not for the owner are among the
 * others of it, without a name. Main thread only.
 */
typedef struct SondeWaitBook SondeWaitBook;

#define SONDE_WAIT_BOOK_LOOKS       26 /* a processor's time for 1,000 looks is some 5 ms */
#define SONDE_WAIT_BOOK_LAST_LOOKS  512
#define SONDE_WAIT_BOOK_MAX_COUNTED 64
#define SONDE_WAIT_BOOK_PERIOD_NS   (10 * G_GINT64_CONSTANT (1000000000)) /* of files */

/* Sends a THREADS_REQUEST, all but the header's type and size. FALSE: nobody answers. */
typedef gboolean (*SondeWaitBookAsk) (SondeMessageThreadsRequest *request,
                                      gsize size_bytes,
                                      gpointer user_data);

/* All borrowed, and outliving it. @hides_others: of processes that are not known to be the owner's
 * nothing is told, where records of whole processors tell of their threads */
SondeWaitBook *sonde_wait_book_new (SondeRecorder *recorder,
                                    SondeProcessTable *processes,
                                    SondeTally *tally,
                                    gboolean hides_others,
                                    SondeWaitBookAsk ask,
                                    gpointer user_data);
void sonde_wait_book_free (SondeWaitBook *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWaitBook, sonde_wait_book_free)

/* A SWITCH, FORK, COMM, EXIT, or a LOST of the ring of switches. */
void sonde_wait_book_take (SondeWaitBook *self, const SondePerfRecord *record);
/* All records from before @time_ns were taken. */
void sonde_wait_book_advance (SondeWaitBook *self, gint64 time_ns);
/* A process of which the threads are to be looked at: those that exist already. */
void sonde_wait_book_meet (SondeWaitBook *self, gint32 pid);
void sonde_wait_book_answer (SondeWaitBook *self, const SondeMessageThreads *message);
/* Nobody answers any more. */
void sonde_wait_book_give_up (SondeWaitBook *self);
/* About ten times a second. @taken_ns: as for sonde_wait_book_advance() */
void sonde_wait_book_tick (SondeWaitBook *self, gint64 taken_ns);
/* Events are off, or will be on again. */
void sonde_wait_book_pause (SondeWaitBook *self, gint64 now_ns);
/* Events are off for good: looks a last time. */
void sonde_wait_book_stop (SondeWaitBook *self, gint64 now_ns);
gboolean sonde_wait_book_are_awaited (const SondeWaitBook *self);
/* @n_lost: records of switches that the kernel dropped in all */
void sonde_wait_book_end (SondeWaitBook *self, guint64 n_lost);
