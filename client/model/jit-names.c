/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names of made-up addresses in a capture. */
#include "client/model/jit-names.h"

#include <string.h>

#include "client/base/id-map.h"

typedef struct
{
  guint64 address;
  const char *name; /* in chunk */
} Name;

struct SondeJitNames
{
  SondeIdMap *ids; /* address → index of names */
  GArray *names;   /* Name, older ones of the same address among them */
  GStringChunk *chunk;
};

SondeJitNames *
sonde_jit_names_new (void)
{
  SondeJitNames *self = g_new0 (SondeJitNames, 1);

  self->ids = sonde_id_map_new ();
  self->names = g_array_new (FALSE, FALSE, sizeof (Name));
  self->chunk = g_string_chunk_new (4096);
  return self;
}

void
sonde_jit_names_free (SondeJitNames *self)
{
  if (self == NULL)
    return;
  sonde_id_map_free (self->ids);
  g_array_unref (self->names);
  g_string_chunk_free (self->chunk);
  g_free (self);
}

static void
add (SondeJitNames *self, guint64 address, const char *name)
{
  const Name added = { address, g_string_chunk_insert_const (self->chunk, name) };

  sonde_id_map_set (self->ids, address, self->names->len);
  g_array_append_val (self->names, added);
}

SondeJitNames *
sonde_jit_names_dup (const SondeJitNames *self)
{
  SondeJitNames *copy = sonde_jit_names_new ();

  for (guint i = 0; i < self->names->len; i++)
    {
      const Name *name = &g_array_index (self->names, Name, i);
      guint32 newest = i;

      if (sonde_id_map_lookup (self->ids, name->address, &newest) && newest == i)
        add (copy, name->address, name->name);
    }
  return copy;
}

void
sonde_jit_names_add (SondeJitNames *self, const SondeFrameJitmap *frame)
{
  const guint8 *at = frame->data;

  for (guint32 i = 0; i < frame->n_names; i++)
    {
      const char *name = (const char *) at + sizeof (guint64);
      guint64 address;

      memcpy (&address, at, sizeof address);
      add (self, address, name);
      at += sizeof (guint64) + strlen (name) + 1;
    }
}

const char *
sonde_jit_names_lookup (const SondeJitNames *self, guint64 address)
{
  guint32 index;

  if (!sonde_id_map_lookup (self->ids, address, &index))
    return NULL;
  return g_array_index (self->names, Name, index).name;
}
