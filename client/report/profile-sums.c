/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/report/profile-sums.h"

#include <string.h>

int
sonde_function_compare (const SondeFunction *left, const SondeFunction *right)
{
  int order = strcmp (left->name, right->name);

  return order != 0 ? order : strcmp (left->module, right->module);
}

int
sonde_profile_compare_functions (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfile *profile = user_data;

  return sonde_function_compare (sonde_profile_function (profile, *(const guint32 *) a),
                                 sonde_profile_function (profile, *(const guint32 *) b));
}

static int
compare_weights (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const SondeProfileSums *self = user_data;
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  if (self->self[left] != self->self[right])
    return self->self[left] > self->self[right] ? -1 : 1;
  if (self->total[left] != self->total[right])
    return self->total[left] > self->total[right] ? -1 : 1;
  return sonde_profile_compare_functions (a, b, (gpointer) self->profile);
}

void
sonde_profile_sums_init (SondeProfileSums *self, const SondeProfile *profile)
{
  guint32 n = sonde_profile_n_functions (profile);
  g_autofree guint64 *beside_total = g_new0 (guint64, n);
  g_autofree guint32 *on_path = g_new0 (guint32, n);

  self->profile = profile;
  self->n_functions = n;
  self->self = g_new0 (guint64, n);
  self->total = g_new0 (guint64, n);
  self->beside = g_new0 (guint64, n);
  self->order = g_new (guint32, n);
  for (guint i = 0; i < sonde_profile_n_processes (profile); i++)
    {
      const SondeProfileProcess *process = sonde_profile_process (profile, i);

      sonde_call_tree_sum_flat (process->tree, self->self, self->total, on_path, n);
      if (process->beside != NULL)
        sonde_call_tree_sum_flat (process->beside, self->beside, beside_total, on_path, n);
    }
  for (guint32 i = 0; i < n; i++)
    self->order[i] = i;
  g_qsort_with_data (self->order, (int) n, sizeof *self->order, compare_weights, self);
}

void
sonde_profile_sums_clear (SondeProfileSums *self)
{
  g_clear_pointer (&self->self, g_free);
  g_clear_pointer (&self->total, g_free);
  g_clear_pointer (&self->beside, g_free);
  g_clear_pointer (&self->order, g_free);
}
