/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names of made-up addresses in a capture. */
#include "client/model/jit-names.h"

#include <string.h>

#include "client/base/id-map.h"

struct SondeJitNames
{
  SondeIdMap *ids;  /* address → index of names */
  GPtrArray *names; /* char *, in chunk */
  GStringChunk *chunk;
};

SondeJitNames *
sonde_jit_names_new (void)
{
  SondeJitNames *self = g_new0 (SondeJitNames, 1);

  self->ids = sonde_id_map_new ();
  self->names = g_ptr_array_new ();
  self->chunk = g_string_chunk_new (4096);
  return self;
}

void
sonde_jit_names_free (SondeJitNames *self)
{
  if (self == NULL)
    return;
  sonde_id_map_free (self->ids);
  g_ptr_array_unref (self->names);
  g_string_chunk_free (self->chunk);
  g_free (self);
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
      sonde_id_map_set (self->ids, address, self->names->len);
      g_ptr_array_add (self->names, g_string_chunk_insert_const (self->chunk, name));
      at += sizeof (guint64) + strlen (name) + 1;
    }
}

const char *
sonde_jit_names_lookup (const SondeJitNames *self, guint64 address)
{
  guint32 index;

  if (!sonde_id_map_lookup (self->ids, address, &index))
    return NULL;
  return g_ptr_array_index (self->names, index);
}
