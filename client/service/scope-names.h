/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the processes and the unit that people mean by other names: a command's, a container's. */
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

/**
 * sonde_scope_names_dup_unit:
 * @folder: where control groups are
 * @container: the first digits of an id, or the name of a machine
 *
 * Returns: (transfer full): the systemd unit that it runs in; NULL with @error if there is none of
 *   its own, no such container, or several
 */
char *sonde_scope_names_dup_unit (const char *folder, const char *container, GError **error);
