/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/calls/call-budget.h"

typedef struct
{
  guint64 function;
  guint64 calls;
  guint64 recent; /* of these, since the last choice */
  guint64 timed;
  guint64 total_ticks;
  guint64 self_ticks;
  gboolean is_left_out;
} Function;

struct SondeCallBudget
{
  GHashTable *functions; /* Function, by its first member */
};

SondeCallBudget *
sonde_call_budget_new (void)
{
  SondeCallBudget *self = g_new0 (SondeCallBudget, 1);

  self->functions = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
  return self;
}

void
sonde_call_budget_free (SondeCallBudget *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->functions);
  g_free (self);
}

void
sonde_call_budget_add (SondeCallBudget *self,
                       guint64 function,
                       guint64 calls,
                       const SondeTrieTimes *times)
{
  Function *known = g_hash_table_lookup (self->functions, &function);

  if (known == NULL)
    {
      known = g_new0 (Function, 1);
      known->function = function;
      g_hash_table_insert (self->functions, &known->function, known);
    }
  known->calls += calls;
  known->recent += calls;
  if (times == NULL)
    return;
  known->timed += times->timed;
  known->total_ticks += times->total_ticks;
  known->self_ticks += times->self_ticks;
}

/* How much is won for what is not known any more: calls, and less where these take longer. */
static double
gain (const Function *function, double hook_ticks)
{
  guint64 ticks = function->self_ticks > 0 ? function->self_ticks : function->total_ticks;
  double each = function->timed > 0 ? (double) ticks / (double) function->timed : 0;

  return (double) function->recent / (1 + each / hook_ticks);
}

static gint
compare_gain (gconstpointer a, gconstpointer b, gpointer hook_ticks)
{
  double of_a = gain (*(const Function *const *) a, *(const double *) hook_ticks);
  double of_b = gain (*(const Function *const *) b, *(const double *) hook_ticks);

  return (of_a < of_b) - (of_a > of_b);
}

guint
sonde_call_budget_choose (
    SondeCallBudget *self, guint64 calls, double hook_ticks, SondeCallLeftOut *chosen, guint max)
{
  g_autoptr (GPtrArray) candidates = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer value;
  guint64 won = 0;
  guint n = 0;

  g_hash_table_iter_init (&iter, self->functions);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (!((const Function *) value)->is_left_out && ((const Function *) value)->recent > 0)
      g_ptr_array_add (candidates, value);
  g_ptr_array_sort_with_data (candidates, compare_gain, &hook_ticks);
  for (guint i = 0; i < candidates->len && n < max && won < calls; i++)
    {
      Function *function = g_ptr_array_index (candidates, i);

      function->is_left_out = TRUE;
      won += function->recent;
      chosen[n++] = (SondeCallLeftOut){ function->function, function->calls };
    }
  return n;
}

void
sonde_call_budget_pass (SondeCallBudget *self)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->functions);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    ((Function *) value)->recent = 0;
}
