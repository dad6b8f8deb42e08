/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The perf events of a unit: of its control group in the kernel, else of its members. */
#pragma once

#include "daemon/broker/control-group.h"
#include "daemon/broker/event-set.h"

/**
 * sonde_unit_events_open:
 * @unit: its name, for errors
 * @owner_uid: whose share of the machine the events are
 * @note: (out) (nullable): a sentence for the capture if members are watched, NULL if the kernel
 * watches the group
 *
 * Errors: SONDE_ERROR_NO_SUCH_PROCESS if nobody is in it, LIMIT_EXCEEDED, and those of
 * sonde_event_set_open_process()
 */
gboolean sonde_unit_events_open (SondeEventSet *events,
                                 const SondeControlGroup *group,
                                 const char *unit,
                                 uid_t owner_uid,
                                 char **note,
                                 GError **error);
