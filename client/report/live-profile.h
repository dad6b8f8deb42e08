/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Call trees of functions that follow a capture while it grows. */
#pragma once

#include "client/model/samples.h"
#include "client/names/symbol-resolver.h"

/**
 * SECTION: live-profile
 *
 * A tree for each process. Nodes are added and stay: the number of one means the same function in
 * the same place until the end. A stack enters the tree when its functions have names; until then
 * it counts as the root's own. What an update costs depends on the samples that came since.
 */
typedef struct SondeLiveProfile SondeLiveProfile;

/* @samples: of locations, not by thread; both are kept by the caller, and grow */
SondeLiveProfile *sonde_live_profile_new (const SondeCaptureModel *model,
                                          const SondeSamples *samples);
void sonde_live_profile_free (SondeLiveProfile *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeLiveProfile, sonde_live_profile_free)

/* Tells of a sample that was added to the samples. */
void sonde_live_profile_add (SondeLiveProfile *self, const SondeSamplePlace *place);

/* Takes what has come. @end_us: of the monotonic clock: until then names are looked up. Returns:
 * whether all were found */
gboolean sonde_live_profile_update (SondeLiveProfile *self, gint64 end_us);

/* By number of the process. NULL: it has no samples. */
guint sonde_live_profile_n_trees (const SondeLiveProfile *self);
const SondeCallTree *sonde_live_profile_tree (const SondeLiveProfile *self, guint process);

/* Of a node's id. */
const SondeFunction *sonde_live_profile_function (const SondeLiveProfile *self, guint32 function);
