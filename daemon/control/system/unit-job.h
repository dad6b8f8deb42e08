/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Asks systemd about jobs of our own unit, and for a start of it. */
#pragma once

#include "daemon/control/system/bus-connection.h"

/**
 * SECTION: unit-job
 *
 * SIGTERM is the same for `systemctl stop` and `systemctl restart`; the job that systemd carries
 * out tells them apart. Wrong answers do no harm: what is left to a next sonded that does not come
 * ends all the same, since systemd closes the fd store, and workers finish their captures at the
 * end of their connection.
 *
 * Source: org.freedesktop.systemd1(5)
 */

/* @is_restart: we are stopped to be started again at once */
typedef void (*SondeUnitJobAnswer) (gboolean is_restart, gpointer user_data);

/* Answers no after SONDE_LIMIT_UNIT_JOB_MS at the latest. */
void sonde_unit_job_ask (SondeBusConnection *bus, SondeUnitJobAnswer answer, gpointer user_data);

/* Has systemd start our unit again once it has stopped. @answer: whether it will */
void
sonde_unit_job_start_again (SondeBusConnection *bus, SondeUnitJobAnswer answer, gpointer user_data);

/* Takes back that our starts so far count towards StartLimitBurst=: who ends because nothing is to
 * do is started as often as somebody calls. @answer: whether systemd did */
void sonde_unit_job_forget_starts (SondeBusConnection *bus,
                                   SondeUnitJobAnswer answer,
                                   gpointer user_data);
