/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Other ways to look at a profile: from the leaves, from one function, by larger groups. */
#pragma once

#include "client/report/profile.h"

/*
 * Each returns a profile of its own that may use functions of @profile: the caller keeps that as
 * long.
 */

/* One tree: functions in which the time was spent, below them their callers. */
SondeProfile *sonde_profile_view_bottom_up (const SondeProfile *profile);

/**
 * sonde_profile_view_callers:
 * @name: a function as it is shown, with or without its parameters; may have * and ? in it
 *
 * One tree: the functions of that name, below them their callers. A stack counts once.
 *
 * Returns: NULL if no function has that name
 */
SondeProfile *sonde_profile_view_callers (const SondeProfile *profile, const char *name);

/* Modules, lines or processes take the place of functions. What has no line is one for each module.
 */
SondeProfile *sonde_profile_view_by_line (const SondeProfile *profile);
SondeProfile *sonde_profile_view_by_module (const SondeProfile *profile);
SondeProfile *sonde_profile_view_by_process (const SondeProfile *profile);

/* The same by their names alone, as two captures have them in common. */
SondeProfile *sonde_profile_view_by_name (const SondeProfile *profile);

/* (transfer full): the row of a function by @by: module or line */
char *sonde_profile_dup_row_name (const SondeFunction *function, SondeBy by);

/* Adds a thread of @process, with its @n_samples, to a profile whose functions are threads. */
void sonde_profile_add_thread (SondeProfile *view,
                               const SondeModelProcess *process,
                               gint32 tid,
                               const char *thread_name,
                               guint64 n_samples);

/* What --by shows as rows; NULL: the functions of @profile itself. */
SondeProfile *sonde_profile_view_by (const SondeProfile *profile, SondeBy by);
