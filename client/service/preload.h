/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells whether the loader will put a library into a command, which it only warns of when it
 * cannot. */
#pragma once

#include <gio/gio.h>

/**
 * sonde_preload_check:
 * @library: for the command's LD_PRELOAD
 * @command: found through PATH; a script is what its interpreter is
 *
 * A command that is not there, or is no program, is left to exec() to tell.
 *
 * Returns: FALSE with @error if the library would not be loaded: it is not there or none, or the
 *   command is static, of another architecture or C library, or gains rights when it is executed
 * Source: ld.so(8), LD_PRELOAD and "Secure-execution mode"; elf(5)
 */
gboolean sonde_preload_check (const char *library, const char *command, GError **error);
