/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stacks on which two unwinders disagree, by where they part. */
#pragma once

#include "tests/bench/replay.h"

typedef struct Differences Differences;

Differences *differences_new (void);
void differences_free (Differences *self);

/* @replay and @event: whose addresses they are. */
void differences_add (Differences *self,
                      Replay *replay,
                      size_t event,
                      const ReplayStack *ours,
                      const ReplayStack *theirs);
/* Each class once, the most frequent first, with an example of both stacks. */
void differences_print (const Differences *self);
