/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/model/jit-names.h"

#include "client/base/id-map.h"
#include "client/model/frame-parts.h"

typedef struct
{
  guint64 address;
  const char *name; /* of texts */
} Name;

struct SondeJitNames
{
  SondeBudget *budget;
  SondeTextPool *texts;
  SondeIdMap *ids; /* address → index of names */
  GArray *names;   /* Name, older ones of the same address among them */
};

SondeJitNames *
sonde_jit_names_new (SondeBudget *budget, SondeTextPool *texts)
{
  SondeJitNames *self = g_new0 (SondeJitNames, 1);

  self->budget = budget;
  self->texts = texts;
  self->ids = sonde_id_map_new ();
  self->names = g_array_new (FALSE, FALSE, sizeof (Name));
  return self;
}

void
sonde_jit_names_free (SondeJitNames *self)
{
  if (self == NULL)
    return;
  sonde_id_map_free (self->ids);
  g_array_unref (self->names);
  g_free (self);
}

static void
add (SondeJitNames *self, guint64 address, const char *name)
{
  Name added = { .address = address };
  guint32 index;

  if (sonde_id_map_lookup (self->ids, address, &index)
      && g_str_equal (g_array_index (self->names, Name, index).name, name))
    return;
  if (!sonde_budget_take (self->budget, SONDE_LIMIT_NAMES, 1))
    return;
  added.name = sonde_text_pool_add (self->texts, name, SONDE_MAX_PATH_BYTES);
  sonde_id_map_set (self->ids, address, self->names->len);
  g_array_append_val (self->names, added);
}

void
sonde_jit_names_copy (SondeJitNames *self, const SondeJitNames *source)
{
  for (guint i = 0; i < source->names->len; i++)
    {
      const Name *name = &g_array_index (source->names, Name, i);
      guint32 newest = i;

      if (sonde_id_map_lookup (source->ids, name->address, &newest) && newest == i)
        add (self, name->address, name->name);
    }
}

void
sonde_jit_names_add (SondeJitNames *self, const SondeFrameJitmap *frame)
{
  SondeFrameName name = { 0 };

  while (sonde_frame_next_name (frame, &name))
    add (self, name.address, name.name);
}

const char *
sonde_jit_names_lookup (const SondeJitNames *self, guint64 address)
{
  guint32 index;

  if (!sonde_id_map_lookup (self->ids, address, &index))
    return NULL;
  return g_array_index (self->names, Name, index).name;
}
