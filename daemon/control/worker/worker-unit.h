/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker that is a unit of systemd: its end, by itself or by force. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/control/system/bus-connection.h"

/**
 * SECTION: worker-unit
 *
 * Such a worker is no child of ours and has another uid. A pidfd tells when it has ended, systemd
 * tells why, and only systemd can kill it: we need no capability for that, and it takes the whole
 * control group.
 */
typedef struct SondeWorkerUnit SondeWorkerUnit;

/* Once: the process has ended. @how is a sentence without a full stop. Nothing but
 * sonde_worker_unit_free() may follow. */
typedef void (*SondeWorkerUnitEnded) (const char *how, gpointer user_data);

/**
 * sonde_worker_unit_new:
 * @bus: the system bus; outliving it
 * @pid: a live process, as the kernel vouches for
 *
 * Returns: NULL with @error if there is no such process any more
 * Source: org.freedesktop.systemd1(5)
 */
SondeWorkerUnit *sonde_worker_unit_new (SondeBusConnection *bus,
                                        pid_t pid,
                                        SondeWorkerUnitEnded ended,
                                        gpointer user_data,
                                        GError **error);
/* @ended is not called any more; a kill is still carried out. Accepts NULL. */
void sonde_worker_unit_free (SondeWorkerUnit *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeWorkerUnit, sonde_worker_unit_free)

/* What a unit may have: a session's part of what its owner's uid may. */
typedef struct
{
  guint cpu_weight;     /* beside units of other sessions: 1 … 10,000; 0: this was never set */
  guint cpu_percent;    /* of one processor; 0: no bound */
  guint64 memory_bytes; /* 0: what its file says */
} SondeUnitShare;

/* Has systemd set that from now on. Nothing waits for it: until then the unit has what its file
 * says. Source: systemd.resource-control(5) */
void sonde_worker_unit_set_share (SondeWorkerUnit *self, const SondeUnitShare *share);

/* SIGKILL to all of its processes. */
void sonde_worker_unit_kill (SondeWorkerUnit *self);
