/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Made-up addresses for names that have no address of their own, or none that may be told. */
#include "daemon/capture/jit-names.h"

#include "protocol/frame.h"

struct SondeJitNames
{
  GHashTable *indices; /* name → index + 1 */
  GPtrArray *names;
};

SondeJitNames *
sonde_jit_names_new (void)
{
  SondeJitNames *self = g_new0 (SondeJitNames, 1);

  self->names = g_ptr_array_new_with_free_func (g_free);
  self->indices = g_hash_table_new (g_str_hash, g_str_equal);

  return self;
}

void
sonde_jit_names_free (SondeJitNames *self)
{
  if (self == NULL)
    return;

  g_hash_table_unref (self->indices);
  g_ptr_array_unref (self->names);
  g_free (self);
}

uint64_t
sonde_jit_names_intern (SondeJitNames *self, const char *name, gboolean *is_new)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->indices, name));

  *is_new = FALSE;
  if (index == 0 && self->names->len >= SONDE_JIT_NAMES_MAX)
    {
      index = SONDE_JIT_NAMES_MAX;
    }
  else if (index == 0)
    {
      gboolean last = self->names->len == SONDE_JIT_NAMES_MAX - 1;
      char *copy = g_strdup (last ? "[too many names]" : name);

      g_ptr_array_add (self->names, copy);
      index = self->names->len;
      g_hash_table_insert (self->indices, copy, GUINT_TO_POINTER (index));
      *is_new = TRUE;
    }

  return SONDE_JIT_ADDRESS_BASE + index - 1;
}

guint
sonde_jit_names_count (const SondeJitNames *self)
{
  return self->names->len;
}

const char *
sonde_jit_names_get (const SondeJitNames *self, guint index, uint64_t *address)
{
  if (index >= self->names->len)
    return NULL;

  *address = SONDE_JIT_ADDRESS_BASE + index;
  return g_ptr_array_index (self->names, index);
}
