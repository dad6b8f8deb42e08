/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of several profiles, equal ones once. */
#pragma once

#include "client/report/profile.h"

/* Functions are equal if name, module and source line are. */
typedef struct SondeFunctionSet SondeFunctionSet;

SondeFunctionSet *sonde_function_set_new (void);
void sonde_function_set_free (SondeFunctionSet *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeFunctionSet, sonde_function_set_free)

/**
 * sonde_function_set_add:
 * @profile: (transfer none): kept by the caller as long as the set
 *
 * Returns: (transfer full): by function of @profile its number in the set
 */
guint32 *sonde_function_set_add (SondeFunctionSet *self, const SondeProfile *profile);

guint32 sonde_function_set_size (const SondeFunctionSet *self);
const SondeFunction *sonde_function_set_get (const SondeFunctionSet *self, guint32 function);
