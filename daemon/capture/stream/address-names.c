/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/stream/address-names.h"

#include <string.h>

#include "protocol/frame.h"

#define TOO_MANY "[too many names]"

struct SondeAddressNames
{
  GHashTable *indices; /* name → index + 1, of made-up addresses */
  GHashTable *given;   /* uint64_t address, in boxes: those outside of the made-up ones */
  GPtrArray *names;
  GArray *addresses; /* uint64_t, of the names */
  gsize n_bytes;     /* of the names */
};

SondeAddressNames *
sonde_address_names_new (void)
{
  SondeAddressNames *self = g_new0 (SondeAddressNames, 1);

  self->names = g_ptr_array_new_with_free_func (g_free);
  self->addresses = g_array_new (FALSE, FALSE, sizeof (uint64_t));
  self->given = g_hash_table_new_full (g_int64_hash, g_int64_equal, g_free, NULL);
  self->indices = g_hash_table_new (g_str_hash, g_str_equal);

  return self;
}

void
sonde_address_names_free (SondeAddressNames *self)
{
  if (self == NULL)
    return;

  g_hash_table_unref (self->indices);
  g_hash_table_unref (self->given);
  g_array_unref (self->addresses);
  g_ptr_array_unref (self->names);
  g_free (self);
}

/* @name: (transfer full). Returns its index + 1. */
static guint
append (SondeAddressNames *self, char *name, uint64_t address)
{
  self->n_bytes += strlen (name) + 1;
  g_ptr_array_add (self->names, name);
  g_array_append_val (self->addresses, address);

  return self->names->len;
}

/* One place is left for the made-up name that says that there are too many. */
static gboolean
has_room (const SondeAddressNames *self, const char *name)
{
  return self->names->len < SONDE_ADDRESS_NAMES_MAX - 1
         && self->n_bytes + strlen (name) < SONDE_ADDRESS_NAMES_MAX_BYTES;
}

uint64_t
sonde_address_names_intern (SondeAddressNames *self, const char *name, gboolean *is_new)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->indices, name));

  *is_new = FALSE;
  if (index == 0 && !has_room (self, name))
    {
      name = TOO_MANY;
      index = GPOINTER_TO_UINT (g_hash_table_lookup (self->indices, name));
    }
  if (index == 0)
    {
      char *copy = g_strdup (name);

      index = append (self, copy, SONDE_JIT_ADDRESS_BASE + self->names->len);
      g_hash_table_insert (self->indices, copy, GUINT_TO_POINTER (index));
      *is_new = TRUE;
    }

  return SONDE_JIT_ADDRESS_BASE + index - 1;
}

gboolean
sonde_address_names_add (SondeAddressNames *self, uint64_t address, const char *name)
{
  if (!has_room (self, name)
      || !g_hash_table_add (self->given, g_memdup2 (&address, sizeof address)))
    return FALSE;
  append (self, g_strdup (name), address);

  return TRUE;
}

guint
sonde_address_names_count (const SondeAddressNames *self)
{
  return self->names->len;
}

const char *
sonde_address_names_get (const SondeAddressNames *self, guint index, uint64_t *address)
{
  if (index >= self->names->len)
    return NULL;

  *address = g_array_index (self->addresses, uint64_t, index);
  return g_ptr_array_index (self->names, index);
}
