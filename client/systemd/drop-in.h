/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes for systemd, and takes back: a drop-in of a unit, or a user's environment. */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: drop-in
 *
 * Files of one name, 50-sonde.conf, in a folder of their own: /run/systemd/system/UNIT.d, of the
 * user's systemd $XDG_RUNTIME_DIR/systemd/user/UNIT.d, and of his whole session
 * ~/.config/environment.d. Each is there as a whole or not at all; what somebody else wrote under
 * that name is left alone, and a folder that is a link is not followed.
 */
typedef enum
{
  SONDE_DROP_IN_SYSTEM,
  SONDE_DROP_IN_USER,
  SONDE_DROP_IN_SESSION, /* no unit */
  SONDE_N_DROP_INS,
} SondeDropInKind;

/* Whether systemd can have a unit of that name, and it is a service's without escapes. Errors:
 * %G_IO_ERROR_INVALID_ARGUMENT, which names what is wrong */
gboolean sonde_drop_in_check_unit (const char *unit, GError **error);

/* Of the file, whether or not it is there. @unit: (nullable): as checked */
char *sonde_drop_in_dup_path (SondeDropInKind kind, const char *unit, GError **error);

/* @text: of the file, below a line that says whose it is */
gboolean
sonde_drop_in_write (SondeDropInKind kind, const char *unit, const char *text, GError **error);

/* Takes the file back, and the folder if that came with it and is empty. Returns FALSE with @error,
 * %G_IO_ERROR_NOT_FOUND: there is none */
gboolean sonde_drop_in_remove (SondeDropInKind kind, const char *unit, GError **error);

/* Names of units that have one, in order; of a session "", if it has. Where nothing can be read
 * there is none. */
GStrv sonde_drop_in_list (SondeDropInKind kind);
