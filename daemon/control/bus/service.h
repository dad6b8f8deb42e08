/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The members of our interfaces: one table each for methods and properties. */
#pragma once

#include "daemon/control/bus/bus.h"

const SondeMethod *sonde_service_methods (gsize *n_methods);
const SondeProperty *sonde_service_properties (gsize *n_properties);

/* NULL if there is none. */
const SondeMethod *sonde_service_find_method (const char *interface, const char *name);
/* @name: (nullable): NULL for the first of @interface; all of one interface have the same gate */
const SondeProperty *sonde_service_find_property (const char *interface, const char *name);

/* (transfer floating): a{sv}, the property Limits; values of type u or t */
GVariant *sonde_service_limits (const SondeSettings *settings);
