/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which event is believed about a task that more than one of them watches. */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/**
 * SECTION: lineage
 *
 * A task inherits the events of the task that made it. One that was found while events were being
 * opened, or that is added to a running session, may have inherited some and has its own as well;
 * the kernel cannot tell beforehand. So does all that it makes. Each of its records then comes once
 * for each line of descent, and those of one line are taken: the first that was heard of.
 *
 * Inherited events carry the number of the one they descend from, so a record's line is known by
 * it. Costs nothing until the first late event. Main thread only.
 *
 * Source: perf_event_open(2), "inherit" and PERF_SAMPLE_IDENTIFIER
 */
#define SONDE_LINEAGE_MAX_TASKS 65536 /* remembered; beyond, all is forgotten and learned again */

typedef struct SondeLineage SondeLineage;

SondeLineage *sonde_lineage_new (void);
void sonde_lineage_free (SondeLineage *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeLineage, sonde_lineage_free)

/* An event with number @id that was opened on @tid; -1: on whole CPUs. @is_late: see above */
void sonde_lineage_add (SondeLineage *self, uint64_t id, int32_t tid, bool is_late);

/* Whether a record of @tid that event @id told is to be taken. Numbers not heard of are. */
bool sonde_lineage_takes (SondeLineage *self, uint64_t id, int32_t tid);

/* @tid has exited. */
void sonde_lineage_forget (SondeLineage *self, int32_t tid);
