/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of a profile summed up over all its stacks. */
#pragma once

#include "client/report/profile.h"

typedef struct
{
  const SondeProfile *profile;
  guint32 n_functions;
  guint64 *self;   /* by function: weight where it is the leaf */
  guint64 *total;  /* by function: weight of the stacks that contain it, recursion counted once */
  guint64 *beside; /* as self, in the other unit; 0 in a profile with one unit */
  guint32 *order;  /* functions: heaviest self first, then total, then by name */
} SondeProfileSums;

/* @profile: (transfer none): kept by the caller as long as the sums */
void sonde_profile_sums_init (SondeProfileSums *self, const SondeProfile *profile);
void sonde_profile_sums_clear (SondeProfileSums *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeProfileSums, sonde_profile_sums_clear)

/* By name, then by module. */
int sonde_function_compare (const SondeFunction *left, const SondeFunction *right);

/* The same as GCompareDataFunc for numbers of functions (guint32) of the SondeProfile @user_data.
 */
int sonde_profile_compare_functions (gconstpointer a, gconstpointer b, gpointer user_data);
