/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of the members of our interfaces, methods and properties. */
#pragma once

#include "daemon/control/bus/bus.h"

const SondeMember *sonde_service_members (gsize *n_members);

/* A method, or a property. @name: (nullable): NULL for the first of @interface; all properties of
 * one interface have the same gate. Returns: NULL if there is none */
const SondeMember *sonde_service_find (const char *interface, const char *name, gboolean is_method);

/* (transfer floating): a{sv}, the property Limits; values of type u or t */
GVariant *sonde_service_limits (const SondeSettings *settings);
