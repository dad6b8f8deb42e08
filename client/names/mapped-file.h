/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Opens the file of a mapping, if it is still the one that was recorded. */
#pragma once

#include "client/model/capture-model.h"

/**
 * sonde_mapped_file_open:
 * @path: where it may be; comes out of the capture, so only a regular file is opened for reading
 * @mapping: what the capture says of it
 * @changed_ns: wall clock: it must not have been changed since; G_MAXINT64: not known
 * @problem: (out) (nullable): why not, to complete the sentence "FILE …"
 *
 * With a build id in the capture, the file must have that. Without one it must have the inode and
 * must not have been changed, since a program that is built again may get the old one's inode.
 *
 * Returns: a descriptor, or -1
 */
int sonde_mapped_file_open (const char *path,
                            const SondeMapping *mapping,
                            gint64 changed_ns,
                            char **problem);
