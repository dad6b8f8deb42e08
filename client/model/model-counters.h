/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The counters that a capture defines, by numbers of our own. */
#pragma once

#include "client/model/capture-model.h"

typedef struct SondeModelCounters SondeModelCounters;

/* @budget: of which SONDE_LIMIT_COUNTERS is taken; kept by the caller as long as the counters */
SondeModelCounters *sonde_model_counters_new (SondeBudget *budget);
void sonde_model_counters_free (SondeModelCounters *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeModelCounters, sonde_model_counters_free)

/* An id that comes again with another name is another counter from then on. */
void sonde_model_counters_define (SondeModelCounters *self, const SondeFrameCounterDefine *frame);

/* Calls @func for each value in @frame; those of counters that nobody defined are left out. */
void sonde_model_counters_set (const SondeModelCounters *self,
                               const SondeFrameCounterSet *frame,
                               void (*func) (const SondeModelValue *value, gpointer user_data),
                               gpointer user_data);

guint sonde_model_counters_size (const SondeModelCounters *self);
const SondeModelCounter *sonde_model_counters_get (const SondeModelCounters *self, guint counter);
