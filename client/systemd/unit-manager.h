/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The systemd of the machine, or of a user, as commands of sondectl ask it: over D-Bus. */
#pragma once

#include <gio/gio.h>

typedef struct SondeUnitManager SondeUnitManager;

/* All calls block. Errors say which of both it is. */
SondeUnitManager *sonde_unit_manager_open (gboolean is_user, GError **error);
/* Accepts NULL. */
void sonde_unit_manager_free (SondeUnitManager *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeUnitManager, sonde_unit_manager_free)

/**
 * sonde_unit_manager_dup_unit:
 * @unit: of a service; an alias is fine
 *
 * Returns: a{sv}, its properties as a unit and as a service; NULL with @error,
 * %G_IO_ERROR_NOT_FOUND if there is no such unit
 */
GVariant *sonde_unit_manager_dup_unit (SondeUnitManager *self, const char *unit, GError **error);

/**
 * sonde_unit_manager_dup_variable:
 *
 * Returns: (nullable): what programs of all units get as that variable
 */
char *sonde_unit_manager_dup_variable (SondeUnitManager *self, const char *name);

/* The value of @name in "NAME=VALUE" texts, the last one; (nullable). */
const char *sonde_unit_find_variable (GVariant *environment, const char *name);

/* Has it read all units anew. */
gboolean sonde_unit_manager_reload (SondeUnitManager *self, GError **error);

/* Starts the unit anew, and waits until that is done. */
gboolean sonde_unit_manager_restart (SondeUnitManager *self, const char *unit, GError **error);
