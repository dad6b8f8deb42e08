/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of several profiles, equal ones once. */
#include "client/report/function-set.h"

#include "client/base/text.h"

struct SondeFunctionSet
{
  GPtrArray *functions; /* const SondeFunction */
  GHashTable *by_name;  /* "NAME\nMODULE\nSOURCE", without other newlines → number */
};

SondeFunctionSet *
sonde_function_set_new (void)
{
  SondeFunctionSet *self = g_new0 (SondeFunctionSet, 1);

  self->functions = g_ptr_array_new ();
  self->by_name = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  return self;
}

void
sonde_function_set_free (SondeFunctionSet *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->functions);
  g_hash_table_unref (self->by_name);
  g_free (self);
}

guint32 *
sonde_function_set_add (SondeFunctionSet *self, const SondeProfile *profile)
{
  guint32 n = sonde_profile_n_functions (profile);
  guint32 *numbers = g_new (guint32, n);

  for (guint32 i = 0; i < n; i++)
    {
      const SondeFunction *function = sonde_profile_function (profile, i);
      g_autofree char *key
          = g_strdup_printf ("%s\n%s\n%s", function->name, function->module, function->source);
      gpointer found;

      if (!g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
        {
          found = GUINT_TO_POINTER (self->functions->len);
          g_hash_table_insert (self->by_name, g_steal_pointer (&key), found);
          g_ptr_array_add (self->functions, (gpointer) function);
        }
      numbers[i] = GPOINTER_TO_UINT (found);
    }
  return numbers;
}

guint32
sonde_function_set_size (const SondeFunctionSet *self)
{
  return self->functions->len;
}

const SondeFunction *
sonde_function_set_get (const SondeFunctionSet *self, guint32 function)
{
  return g_ptr_array_index (self->functions, function);
}
