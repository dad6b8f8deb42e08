/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the processes and the control group that people mean by other names: a command's, a
 * container's. */
#pragma once

#include <gio/gio.h>

/**
 * sonde_scope_names_add_processes:
 * @folder: "/proc"
 * @name: of a command, of which the kernel keeps 15 bytes
 * @pids: (inout): GPid: those of that name that run now are added, without us: those that the
 *   caller may read, if there are any
 *
 * Returns: FALSE with @error if there is none
 */
gboolean sonde_scope_names_add_processes (const char *folder,
                                          const char *name,
                                          GArray *pids,
                                          GError **error);

/* @folder: where control groups are; @path: of one of them
 * (transfer full): its path in the hierarchy that systemd keeps; NULL: it is in none */
char *sonde_scope_names_dup_cgroup (const char *folder, const char *path);

/**
 * sonde_scope_names_find_container:
 * @folder: where control groups are
 * @container: the first digits of an id, or the name of a machine
 * @unit: (out) (transfer full) (nullable): the systemd unit that it is
 * @cgroup: (out) (transfer full) (nullable): else its path in the hierarchy that systemd keeps
 *
 * Returns: FALSE with @error if there is no such container, if there are several, or if it is only
 *   in hierarchies of other programs
 */
gboolean sonde_scope_names_find_container (
    const char *folder, const char *container, char **unit, char **cgroup, GError **error);
