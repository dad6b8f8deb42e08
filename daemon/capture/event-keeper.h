/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The perf events of a session, kept open for all of its life. */
#pragma once

#include <gio/gio.h>

#include "daemon/base/message.h"

/* Closing the event of a thread that exited would end the events its children inherited, so none of
 * a task is closed before the session is over. */
#define SONDE_EVENT_KEEPER_MAX 65536 /* descriptors */

typedef struct SondeEventKeeper SondeEventKeeper;

/* @read_format: of the sampling events */
SondeEventKeeper *sonde_event_keeper_new (guint64 read_format);
void sonde_event_keeper_free (SondeEventKeeper *self); /* accepts NULL; closes all */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeEventKeeper, sonde_event_keeper_free)

/**
 * sonde_event_keeper_add:
 * @fd: (transfer full)
 *
 * That of a whole processor replaces the one of its kind which the processor had: that one has
 * stood still since the processor was off, or would tell everything twice.
 *
 * Returns: FALSE: too many
 */
gboolean sonde_event_keeper_add (SondeEventKeeper *self, const SondeMessageEvent *event, int fd);
/* Those that wait for an exec stay off until one was seen. */
void sonde_event_keeper_enable (SondeEventKeeper *self, gboolean enable);
/* A task has executed a program: what the kernel enabled by that is disabled again if all is. */
void sonde_event_keeper_exec_seen (SondeEventKeeper *self);

/* Whether the kernel counts per event what it lost (Linux 6.0). */
gboolean sonde_event_keeper_counts_lost (const SondeEventKeeper *self);
/* Reads up to @budget sampling events further round and returns the sum of what all of them lost,
 * as last read. */
guint64 sonde_event_keeper_read_lost (SondeEventKeeper *self, guint budget);
