/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* One control group of the machine, and who is in it or below it. */
#pragma once

#include <gio/gio.h>
#include <sys/types.h>

/**
 * SECTION: control-group
 *
 * The path comes from systemd, or from a caller who may record others' processes. It is looked up
 * below the hierarchy that systemd keeps, never outside of it and through no link. That hierarchy
 * is /sys/fs/cgroup on a machine with version 2 alone, else /sys/fs/cgroup/unified, else the named
 * one of version 1, /sys/fs/cgroup/systemd.
 *
 * Source: cgroups(7), https://systemd.io/CGROUP_DELEGATION
 */
typedef struct SondeControlGroup SondeControlGroup;

/* @path: from the hierarchy's root, "/system.slice/cron.service"; @unit: whose it is, "" if the
 * path was asked for
 * Errors: naming the option that led here: SONDE_ERROR_NO_SUCH_PROCESS if there is no such group,
 * NOT_SUPPORTED if this machine has no hierarchy, FAILED if it is the root or leads out of it */
SondeControlGroup *sonde_control_group_open (const char *path, const char *unit, GError **error);
void sonde_control_group_free (SondeControlGroup *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeControlGroup, sonde_control_group_free)

/* For messages: "Unit cron.service", "Control group /machine.slice". */
const char *sonde_control_group_name (const SondeControlGroup *self);

/* A descriptor of its directory for PERF_FLAG_PID_CGROUP, ours; -1 if its hierarchy is of version
 * 1, whose groups have no perf events. */
int sonde_control_group_fd (const SondeControlGroup *self);

/**
 * sonde_control_group_list:
 *
 * The processes in it and below it, as they are now; at most SONDE_LIMIT_EVENTS of them, found in
 * at most SONDE_LIMIT_UNIT_GROUPS groups.
 *
 * Returns: (transfer full) (element-type pid_t), or NULL
 * Errors: SONDE_ERROR_LIMIT_EXCEEDED, naming the limit
 */
GArray *sonde_control_group_list (const SondeControlGroup *self, GError **error);

/* Whether nobody is in it or below it, or it is gone. */
gboolean sonde_control_group_is_empty (const SondeControlGroup *self);
/* @text: of /proc/PID/cgroup: whether that process is in it or below it */
gboolean sonde_control_group_contains (const SondeControlGroup *self, const char *text);

/* Tells when the last process has left a group. */
typedef struct SondeGroupWatch SondeGroupWatch;

/* @group: outlives it; somebody is in it; @emptied: once, from the main loop: it may free this */
SondeGroupWatch *sonde_group_watch_new (const SondeControlGroup *group,
                                        void (*emptied) (gpointer user_data),
                                        gpointer user_data);
void sonde_group_watch_free (SondeGroupWatch *self);
