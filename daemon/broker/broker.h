/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens for one session what needs rights: its targets, their perf events, what its worker asks. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: broker
 *
 * Driven by the messages of the front, and then of the worker, in the order that
 * daemon/base/message.h has: prove (the targets are proven, the rings' events are open) → serve
 * (the worker hears what it needs before it maps them) → open (events on) → announce (the worker
 * hears of the targets) → add and answer, as often as wanted → close (events off our hands).
 * Nothing is enabled before every target was confirmed (see target.h). What was refused once is
 * over: the next try is another broker's.
 *
 * No process and no file system can keep a session that runs waiting. Until then this thread may
 * wait for the targets, which nobody else does. From `open` on it asks the kernel for nothing that
 * they can delay: whose a directory in /proc is, who is in a control group, which processors are
 * on, and for events of whole processors or groups; it polls pidfds. Events of processes, and what
 * /proc tells of them, are the lanes' (lanes.h), and what strangers sent the closer closes.
 *
 * Neither side is trusted. Who sends what has no place in this order hears BROKEN; of the front,
 * which decides how long a broker lives, nothing more is heard after that. Main loop only.
 */
typedef struct SondeBroker SondeBroker;

/* What the kernel refuses, or the front does wrong, is @status EXIT_FAILURE. */
typedef void (*SondeBrokerDone) (int status, gpointer user_data);

/* @fd: (transfer full): our end of the connection with the front, which hears at once what the
 * machine has; @done: once, at its end: it may free this */
SondeBroker *sonde_broker_new (int fd, SondeBrokerDone done, gpointer user_data);
/* Accepts NULL. */
void sonde_broker_free (SondeBroker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeBroker, sonde_broker_free)
