/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A broker or worker that is a unit of systemd: its end, by itself or by force. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

#include "daemon/control/peer/peer-launcher.h"

/**
 * SECTION: peer-unit
 *
 * Such a process is no child of ours and has another uid. A pidfd tells when it has ended, systemd
 * tells why, and only systemd can kill it: we need no capability for that, and it takes the whole
 * control group.
 */
typedef struct SondePeerUnit SondePeerUnit;

/* Once: the process has ended. @how is a sentence without a full stop. Nothing but
 * sonde_peer_unit_free() may follow. */
typedef void (*SondePeerUnitEnded) (const char *how, gpointer user_data);

/**
 * sonde_peer_unit_new:
 * @bus: the system bus; outliving it
 * @kind: for sentences
 * @pid: a live process, as the kernel vouches for
 *
 * Returns: NULL with @error if there is no such process any more
 * Source: org.freedesktop.systemd1(5)
 */
SondePeerUnit *sonde_peer_unit_new (SondeBusConnection *bus,
                                    SondePeerKind kind,
                                    pid_t pid,
                                    SondePeerUnitEnded ended,
                                    gpointer user_data,
                                    GError **error);
/* @ended is not called any more; a kill is still carried out. */
void sonde_peer_unit_free (SondePeerUnit *self);

int sonde_peer_unit_pidfd (const SondePeerUnit *self);

/* What a unit may have: a session's part of what its owner's uid may. */
typedef struct
{
  guint cpu_weight;     /* beside units of other sessions: 1 … 10,000; 0: this was never set */
  guint cpu_percent;    /* of one processor; 0: no bound */
  guint64 memory_bytes; /* 0: what its file says */
} SondeUnitShare;

/* Has systemd set that from now on. Nothing waits for it: until then the unit has what its file
 * says. Source: systemd.resource-control(5) */
void sonde_peer_unit_set_share (SondePeerUnit *self, const SondeUnitShare *share);

/* SIGKILL to all of its processes. */
void sonde_peer_unit_kill (SondePeerUnit *self);
