/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/base/budget.h"

#include "client/base/text.h"

static const struct
{
  const char *name;
  guint64 most;
  const char *one;
  const char *many;
} limits[] = {
#define SONDE_LIMIT(name, most, one, many) { #name, most, one, many },
  SONDE_LIMITS
#undef SONDE_LIMIT
};

void
sonde_budget_init (SondeBudget *self)
{
  *self = (SondeBudget){ 0 };
  for (guint i = 0; i < SONDE_N_LIMITS; i++)
    self->left[i] = limits[i].most;
}

char *
sonde_limit_dup_name (SondeLimit limit)
{
  return g_strdelimit (g_ascii_strdown (limits[limit].name, -1), "_", '-');
}

char *
sonde_budget_describe (const SondeBudget *self)
{
  g_autoptr (GString) out = g_string_new (NULL);

  for (guint i = 0; i < SONDE_N_LIMITS; i++)
    if (self->n_cut[i] > 0)
      {
        g_autofree char *cut = sonde_text_plural (self->n_cut[i], limits[i].one, limits[i].many);

        g_string_append_printf (out, "%s%s", out->len > 0 ? ", " : "", cut);
      }
  return out->len > 0 ? g_string_free (g_steal_pointer (&out), FALSE) : NULL;
}
