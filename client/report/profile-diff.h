/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What became slower from one profile to another. */
#pragma once

#include "client/report/profile-text.h"

/**
 * SECTION: profile-diff
 *
 * Weights are normalised: each is a share of its own profile, a change the difference of two shares
 * in percentage points. Functions are the same if name and module are; processes are not told
 * apart, since their numbers never are the same.
 */
typedef struct SondeProfileDiff SondeProfileDiff;

/* @before, @after: (transfer none): both not empty; kept by the caller as long as the result */
SondeProfileDiff *sonde_profile_diff_new (const SondeProfile *before, const SondeProfile *after);
void sonde_profile_diff_free (SondeProfileDiff *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProfileDiff, sonde_profile_diff_free)

/* Functions by the change of their own share, what became slower first; those that changed less
 * than the style's limit are left out. */
void sonde_profile_diff_append_functions (GString *out,
                                          const SondeProfileDiff *self,
                                          const SondeProfileStyle *style);

/* The call tree of both, reduced to the paths that lead to such changes. */
void sonde_profile_diff_append_paths (GString *out,
                                      const SondeProfileDiff *self,
                                      const SondeProfileStyle *style);
