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
} SondeProfileStyle;

#define SONDE_PROFILE_PERCENT_LIMIT 0.5 /* what commands use unless told */
#define SONDE_PROFILE_MAX_DEPTH     512

void sonde_profile_append_tree (GString *out,
                                const SondeProfile *profile,
                                const SondeProfileStyle *style);
void sonde_profile_append_flat (GString *out,
                                const SondeProfile *profile,
                                const SondeProfileStyle *style);
