/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compares two profiles: what became slower from one to the other. */
#pragma once

#include "client/report/profile-text.h"
#include "client/report/profile.h"

/**
 * sonde_profile_dup_growth:
 * @before, @after: (transfer none): of the same unit; kept by the caller as long as the result
 *
 * The stacks that weigh more in @after, each with the difference; the other way round it is what
 * shrank. Functions are the same if name and module are, processes if their names are.
 *
 * Returns: (transfer full)
 */
SondeProfile *sonde_profile_dup_growth (const SondeProfile *before, const SondeProfile *after);

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
