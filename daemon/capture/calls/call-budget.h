/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Chooses the functions of a process that are not counted any more, as that costs too much. */
#pragma once

#include <glib.h>

#include "shared-ring/trie-reader.h"

/**
 * SECTION: call-budget
 *
 * Few functions make most calls, and what is known of a call that takes less than its hooks is
 * worth little. So those go first whose calls are many and short. Of a function that takes part in
 * other calls only its whole time may be known: then it is taken for longer than it is, and stays.
 * Main thread only.
 */
typedef struct SondeCallBudget SondeCallBudget;

SondeCallBudget *sonde_call_budget_new (void);
void sonde_call_budget_free (SondeCallBudget *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCallBudget, sonde_call_budget_free)

/* More calls of a function. @times: NULL: none of them was timed */
void sonde_call_budget_add (SondeCallBudget *self,
                            guint64 function,
                            guint64 calls,
                            const SondeTrieTimes *times);

/* A function that is left out from now on, and all its calls until then. */
typedef struct
{
  guint64 function;
  guint64 calls;
} SondeCallLeftOut;

/**
 * sonde_call_budget_choose:
 * @calls: how many fewer there should have been since the last choice
 * @hook_ticks: what the hooks of a call take
 * @chosen: (out): has room for @max, which were never chosen before
 *
 * Returns: how many: 0 if no function has been called since then
 */
guint sonde_call_budget_choose (
    SondeCallBudget *self, guint64 calls, double hook_ticks, SondeCallLeftOut *chosen, guint max);
/* Calls until now are of the past: the next choice is by those to come. */
void sonde_call_budget_pass (SondeCallBudget *self);
