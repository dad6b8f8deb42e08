/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Translates paths of another mount namespace to ours. */
#pragma once

#include <glib.h>

/**
 * SECTION: mount-paths
 *
 * A process in a container names its files as it sees them. Its mountinfo says which part of which
 * file system is mounted where; the same file system may be mounted here, at another place, and the
 * layers of an overlay are folders here. What comes out are places to look at, of foreign origin:
 * whether the file there is the one that was meant is for the caller to find out.
 *
 * Source: proc_pid_mountinfo(5); the kernel's filesystems/overlayfs.rst
 */
#define SONDE_MOUNT_PATHS_MAX 32 /* places for one path */

typedef struct SondeMountPaths SondeMountPaths;

/* @mountinfo: the text of a /proc/PID/mountinfo, hostile: lines that make no sense are left out */
SondeMountPaths *sonde_mount_paths_new (const char *mountinfo);
void sonde_mount_paths_free (SondeMountPaths *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMountPaths, sonde_mount_paths_free)

/**
 * sonde_mount_paths_find:
 * @self: the mounts as the process saw them
 * @here: the mounts as this process sees them
 * @path: absolute, as the process saw it
 *
 * Returns: (transfer full) (element-type filename): places where it may be here, likely ones first
 */
GPtrArray *
sonde_mount_paths_find (const SondeMountPaths *self, const SondeMountPaths *here, const char *path);
