/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A profile as text for a terminal or a file. */
#pragma once

#include "client/report/profile.h"

typedef struct
{
  double percent_limit; /* of the whole profile: lighter subtrees are summed up in one line */
  guint max_depth;      /* frames below a process */
  gboolean utf8;        /* lines drawn with box characters instead of ASCII */
  gboolean colours;     /* of a terminal: heavy shares in red, others in green */
  gboolean full_names;  /* not shortened */
  guint width;          /* columns that no row is wider than; 0: any */
} SondeProfileStyle;

#define SONDE_PROFILE_PERCENT_LIMIT 0.5 /* unless told */
#define SONDE_PROFILE_MAX_DEPTH     512
#define SONDE_PROFILE_HOT_PERCENT   5.0  /* what is as heavy is red, */
#define SONDE_PROFILE_WARM_PERCENT  0.5  /* and from here on green */
#define SONDE_PROFILE_ASIDE_PERCENT 0.05 /* a sum that would be shown as 0.0% is left out */

/* How commands begin: the limits that they have unless told, and what standard output can show. */
void sonde_profile_style_init (SondeProfileStyle *self);

/* Whether the limits that were asked for are possible; complains if not. */
gboolean sonde_profile_style_check (const SondeProfileStyle *self);

void sonde_profile_append_tree (GString *out,
                                const SondeProfile *profile,
                                const SondeProfileStyle *style);
void sonde_profile_append_flat (GString *out,
                                const SondeProfile *profile,
                                const SondeProfileStyle *style);
