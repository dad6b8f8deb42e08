/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A live view from its first frame to its end, on a terminal or as text. */
#pragma once

#include "client/top/top-source.h"
#include "client/top/top-view.h"

typedef struct
{
  SondeTopMode mode;
  double window_s;
  double interval_s;
  int count;        /* blocks of text until the end; 0: any number */
  gboolean is_text; /* not on the terminal */
} SondeTopOptions;

/* Runs until the user has enough, or the capture is over and there is no terminal on which it could
 * still be looked at. Returns: what the program exits with */
int sonde_top_run (SondeTopSource *source, const SondeTopOptions *options);
