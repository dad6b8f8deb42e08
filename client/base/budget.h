/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Counts down the limits of one capture, and counts what was cut off. */
#pragma once

#include <glib.h>

#include "client/base/limits.h"

typedef enum
{
#define SONDE_LIMIT(name, most, one, many) SONDE_LIMIT_##name,
  SONDE_LIMITS
#undef SONDE_LIMIT
      SONDE_N_LIMITS,
} SondeLimit;

typedef struct
{
  guint64 left[SONDE_N_LIMITS];
  guint64 n_cut[SONDE_N_LIMITS];
} SondeBudget;

void sonde_budget_init (SondeBudget *self);

/* Whether there was room for @n more. If not, that is counted as one that was cut off. */
static inline gboolean
sonde_budget_take (SondeBudget *self, SondeLimit limit, guint64 n)
{
  if (n > self->left[limit])
    {
      self->n_cut[limit]++;
      return FALSE;
    }
  self->left[limit] -= n;
  return TRUE;
}

static inline gboolean
sonde_budget_has (const SondeBudget *self, SondeLimit limit)
{
  return self->left[limit] > 0;
}

/* "function-text": as programs know it; (transfer full). */
char *sonde_limit_dup_name (SondeLimit limit);

/* "1,234 stacks, 1 mapping": what was cut off; NULL: nothing */
char *sonde_budget_describe (const SondeBudget *self);
