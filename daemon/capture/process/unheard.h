/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds programs of a session that cannot tell of their heap, by what they have mapped. */
#pragma once

#include "daemon/capture/perf/perf-decoder.h"
#include "daemon/capture/stream/recorder.h"
#include "daemon/capture/stream/tally.h"

/**
 * SECTION: unheard
 *
 * What a command of `record --memory` executes has libsonde-memory.so in its environment. A program
 * that does not map it makes no event, and nobody else counts what it does: so it is told of by
 * name, once, with the reason, as far as the kernel's records show one:
 *
 * - static: it maps one file with code, itself; the kernel would have mapped a dynamic linker.
 * - 32-bit: it has other libraries, and no code above 4 GiB.
 * - other: it has other libraries. The environment was not passed on, or not believed, since the
 *   program gained rights; or its C library is another.
 *
 * Preloaded libraries are mapped before all others. A program that ended before it had mapped any
 * other made no event.
 */
typedef struct SondeUnheard SondeUnheard;

/* @recorder, @tally: (transfer none): outlive it */
SondeUnheard *sonde_unheard_new (SondeRecorder *recorder, SondeTally *tally);
void sonde_unheard_free (SondeUnheard *self); /* accepts NULL */

/* A MAP, COMM, FORK or EXIT record, in the order of time. @is_hidden: whose name and file are not
 * for this session. Accepts NULL, as do the others. */
void sonde_unheard_follow (SondeUnheard *self, const SondePerfRecord *record, gboolean is_hidden);

/* A program of which something else tells: it is not judged. */
void sonde_unheard_hear (SondeUnheard *self, gint32 pid);

/* Records were lost: of what runs now it is not known what it has mapped. */
void sonde_unheard_lost_records (SondeUnheard *self);

/* The kernel makes no records from @now_ns on: a pause, or the end. What it was told of before may
 * still come. */
void sonde_unheard_stop (SondeUnheard *self, gint64 now_ns);

/* Now and then: tells of programs that have run for a while. @taken_ns: up to which time all
 * records were followed. */
void sonde_unheard_settle (SondeUnheard *self, gint64 taken_ns);

/* The session ends: tells of all that run, and of what it left out. */
void sonde_unheard_end (SondeUnheard *self);
