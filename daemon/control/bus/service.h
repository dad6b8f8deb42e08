/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of the members of our interfaces, methods and properties. */
#pragma once

#include "daemon/control/bus/bus.h"

const SondeMember *sonde_service_members (gsize *n_members);

/* NULL if there is none. */
const SondeMember *sonde_service_find_method (const char *interface, const char *name);
/* @name: (nullable): NULL for the first of @interface; all of one interface have the same gate */
const SondeMember *sonde_service_find_property (const char *interface, const char *name);

/* (transfer floating): a{sv}, the property Limits; values of type u or t */
GVariant *sonde_service_limits (const SondeSettings *settings);
