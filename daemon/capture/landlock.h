/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* No file and no network address by name, where the kernel has Landlock. */
#pragma once

#include <gio/gio.h>

/**
 * sonde_landlock_restrict:
 *
 * From here on this process opens no file, makes none, removes none, connects to nobody and signals
 * nobody outside. Descriptors that it has, and those that it is handed, stay what they are. Needs
 * no_new_privs.
 *
 * Returns: FALSE with @error if the kernel has Landlock and refuses; without Landlock nothing is
 *   done and that is no error
 * Source: landlock(7), linux/landlock.h
 */
gboolean sonde_landlock_restrict (GError **error);
