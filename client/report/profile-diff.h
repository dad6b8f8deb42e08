/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compares two profiles: what became slower from one to the other. */
#pragma once

#include "client/base/json.h"
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
 * Weights are normalised: each is a share of its own profile, or of the time that this took; a
 * change is the difference of two shares in percentage points. Functions are the same if name and
 * module are; processes are not told apart, since their numbers never are the same.
 */
typedef struct SondeProfileDiff SondeProfileDiff;

/* One of the two. */
typedef struct
{
  const SondeProfile *profile; /* (transfer none): not empty; kept as long as the difference */
  double whole;                /* what weights are shares of; 0: their total */
} SondeProfileSide;

SondeProfileDiff *sonde_profile_diff_new (const SondeProfileSide *before,
                                          const SondeProfileSide *after);
void sonde_profile_diff_free (SondeProfileDiff *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeProfileDiff, sonde_profile_diff_free)

/* The samples of a side by themselves. */
typedef struct
{
  const gint64 *times_ns;
  const guint32 *functions; /* of the profile, that each was in; from n_functions on: none */
  gsize n;
  gint64 from_ns; /* samples from elsewhere count as the first, or the last one in between */
  gint64 to_ns;
  gboolean is_of_time; /* the whole is time, not samples */
} SondeProfileTimes;

typedef enum
{
  SONDE_DIFF_UNKNOWN, /* there are too few samples to tell */
  SONDE_DIFF_EMPTY,   /* no function could have changed by as much as is asked for */
  SONDE_DIFF_KNOWN,
} SondeDiffVerdict;

/**
 * sonde_profile_diff_judge:
 * @percent_limit: the least change that is asked for, so that the intervals of all that could have
 *   it hold together: functions with less than half of it, on average, cannot
 *
 * Tells changes from chance: see chance.h. Of more than SONDE_CHANCE_MAX_ROWS functions the
 * heaviest are judged.
 */
SondeDiffVerdict sonde_profile_diff_judge (SondeProfileDiff *self,
                                           const SondeProfileTimes *before,
                                           const SondeProfileTimes *after,
                                           double percent_limit);

/* Functions that take so many points more, or more of them, but are beyond those that are judged.
 */
guint sonde_profile_diff_count_unjudged (const SondeProfileDiff *self, double percent);

/* Lines on how sure what follows is, or items of a list in Markdown; none before it was judged. */
void sonde_profile_diff_append_chance (GString *out,
                                       const SondeProfileDiff *self,
                                       const SondeProfileStyle *style,
                                       gboolean is_markdown);

/* Functions by the change of their own share, what became slower first; those that changed less
 * than the style's limit are left out, unless that is more than chance. */
void sonde_profile_diff_append_functions (GString *out,
                                          const SondeProfileDiff *self,
                                          const SondeProfileStyle *style);

/* The same as a table in Markdown. */
void sonde_profile_diff_append_markdown (GString *out,
                                         const SondeProfileDiff *self,
                                         const SondeProfileStyle *style);

/* The same for programs: a member "chance", on how sure it is, and "rows". */
void sonde_profile_diff_add_json (SondeJson *json,
                                  const SondeProfileDiff *self,
                                  const SondeProfileStyle *style);

/**
 * sonde_profile_diff_find_slower:
 * @percent: points
 * @change: (out): in points
 *
 * Returns: (nullable): the function that became slower by most, if that is @percent or more, and
 *   more than chance
 */
const SondeFunction *
sonde_profile_diff_find_slower (const SondeProfileDiff *self, double percent, double *change);

/* What change of the heaviest function would be seen in 95 of 100 such pairs, in points; 0: it was
 * not judged. */
double sonde_profile_diff_seen (const SondeProfileDiff *self, const SondeFunction **heaviest);

/* The call tree of both, reduced to the paths that lead to such changes. */
void sonde_profile_diff_append_paths (GString *out,
                                      const SondeProfileDiff *self,
                                      const SondeProfileStyle *style);
