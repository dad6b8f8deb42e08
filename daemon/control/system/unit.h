/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Asks systemd about units: which control group is theirs, and about jobs of our own. */
#pragma once

#include "daemon/control/system/bus-connection.h"

/**
 * SECTION: unit
 *
 * SIGTERM is the same for `systemctl stop` and `systemctl restart`; the job that systemd carries
 * out tells them apart. Wrong answers do no harm: what is left to a next sonded that does not come
 * ends all the same, since systemd closes the fd store, and workers finish their captures at the
 * end of their connection.
 *
 * Source: org.freedesktop.systemd1(5)
 */

/* A whole name of the characters [A-Za-z0-9:_.\@-], at most 255, that ends with ".service",
 * ".scope" or ".slice". Source: systemd.unit(5) */
gboolean sonde_unit_is_name (const char *text);
/* The root of all slices. */
gboolean sonde_unit_is_everything (const char *name);

/* Asked, and not answered yet. */
typedef struct SondeGroupQuestion SondeGroupQuestion;

/* Once, from the main loop. @group: a path such as "/system.slice/cron.service"; NULL with @error
 */
typedef void (*SondeGroupFound) (const char *group, const GError *error, gpointer user_data);

/**
 * sonde_unit_find_group:
 * @name: sonde_unit_is_name()
 *
 * Asks the system's systemd for the control group of a running unit, over the system bus and for at
 * most SONDE_LIMIT_UNIT_MS.
 *
 * Returns: the question, which ends with its answer; NULL with @error: nobody can be asked
 * Errors: SONDE_ERROR_NO_SUCH_PROCESS if the unit is not known or runs nothing, NOT_SUPPORTED if
 * systemd does not answer, FAILED
 * Source: org.freedesktop.systemd1(5)
 */
SondeGroupQuestion *
sonde_unit_find_group (const char *name, SondeGroupFound found, gpointer user_data, GError **error);
/* Of one that is not answered: it will not be. */
void sonde_group_question_free (SondeGroupQuestion *self);

/* What systemd is asked about our own unit. */
typedef enum
{
  SONDE_UNIT_IS_RESTARTED,  /* whether we are stopped to be started again at once */
  SONDE_UNIT_START_AGAIN,   /* to start it again once it has stopped */
  SONDE_UNIT_FORGET_STARTS, /* that our starts so far do not count towards StartLimitBurst=: who
                               ends because nothing is to do is started as often as somebody calls
                             */
} SondeUnitWish;

/* @is_so: it is, or will be done */
typedef void (*SondeUnitAnswer) (gboolean is_so, gpointer user_data);

/* Answers no after SONDE_LIMIT_UNIT_JOB_MS at the latest. */
void sonde_unit_ask_own (SondeBusConnection *bus,
                         SondeUnitWish wish,
                         SondeUnitAnswer answer,
                         gpointer user_data);
