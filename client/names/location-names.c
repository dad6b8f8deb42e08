/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/location-names.h"

#define FUNCTION(self, i) (g_array_index ((self)->functions, guint32, (i)))

void
sonde_location_names_init (SondeLocationNames *self,
                           const SondeCaptureModel *model,
                           const SondeSymbolOptions *options)
{
  self->resolver = sonde_symbol_resolver_new (model, options);
  self->functions = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->starts = NULL;
}

void
sonde_location_names_forget (SondeLocationNames *self)
{
  g_clear_pointer (&self->functions, g_array_unref);
  g_clear_pointer (&self->starts, g_free);
}

void
sonde_location_names_clear (SondeLocationNames *self)
{
  sonde_location_names_forget (self);
  g_clear_pointer (&self->resolver, sonde_symbol_resolver_free);
}

void
sonde_location_names_find_all (SondeLocationNames *self)
{
  guint32 n_locations = sonde_symbol_resolver_n_locations (self->resolver);

  if (sonde_symbol_resolver_has_inlines (self->resolver))
    self->starts = g_new (guint32, n_locations + 1);
  for (guint32 i = 0; i < n_locations; i++)
    {
      if (self->starts != NULL)
        self->starts[i] = self->functions->len;
      sonde_symbol_resolver_resolve_all (self->resolver, i, self->functions);
    }
  if (self->starts != NULL)
    self->starts[n_locations] = self->functions->len;
}

void
sonde_location_names_find_some (SondeLocationNames *self, const SondeCallTree *tree, gint64 end_us)
{
  const guint32 unnamed = SONDE_FUNCTION_UNNAMED;

  while (self->functions->len < sonde_symbol_resolver_n_locations (self->resolver))
    g_array_append_val (self->functions, unnamed);
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    {
      guint32 location = sonde_call_tree_node (tree, i)->id;

      if (FUNCTION (self, location) != SONDE_FUNCTION_UNNAMED)
        continue;
      if (g_get_monotonic_time () >= end_us)
        return;
      FUNCTION (self, location) = sonde_symbol_resolver_resolve (self->resolver, location);
    }
}

guint32 *
sonde_location_names_get (const SondeLocationNames *self, guint32 location, guint32 *n)
{
  *n = self->starts != NULL ? self->starts[location + 1] - self->starts[location] : 1;
  return &FUNCTION (self, self->starts != NULL ? self->starts[location] : location);
}

void
sonde_location_names_make_room (SondeLocationNames *self,
                                const SondeCallTree *tree,
                                SondeBudget *budget)
{
  guint32 n_locations = sonde_symbol_resolver_n_locations (self->resolver);
  guint64 n_inlined = 0;

  if (self->functions->len == n_locations)
    return;
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    {
      guint32 location = sonde_call_tree_node (tree, i)->id;

      n_inlined += self->starts[location + 1] - self->starts[location] - 1;
    }
  if (sonde_budget_take (budget, SONDE_LIMIT_INLINED, n_inlined))
    return;
  for (guint32 i = 0; i < n_locations; i++)
    FUNCTION (self, i) = FUNCTION (self, self->starts[i]);
  g_array_set_size (self->functions, n_locations);
  g_clear_pointer (&self->starts, g_free);
}

SondeCallTree *
sonde_location_names_expand (const SondeLocationNames *self, const SondeCallTree *tree)
{
  const guint32 *functions = (const guint32 *) (void *) self->functions->data;

  return self->starts != NULL ? sonde_call_tree_expand (tree, self->starts, functions)
                              : sonde_call_tree_remap (tree, functions);
}
