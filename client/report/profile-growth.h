/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What weighs more in one profile than in another, in their unit. */
#pragma once

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
