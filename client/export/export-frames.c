/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/export/export-frames.h"

#include "client/base/id-map.h"
#include "client/base/text.h"
#include "client/model/frame-parts.h"

/* A hostile capture may call the same address of a file something else in each of its processes. */
#define MAX_ALIKE 16

struct SondeExportFrames
{
  GArray *mappings;       /* SondeExportMapping */
  GPtrArray *addresses;   /* SondeIdMap, by mapping + 1: address → place + 1 */
  GHashTable *by_file;    /* "OFFSET INODE BUILD-ID PATH" → mapping + 1 */
  GHashTable *by_mapping; /* SondeModelMapping → mapping + 1 */
  GHashTable *by_module;  /* module of a function → mapping + 1 */
  GArray *places;         /* SondeExportPlace */
  GArray *frames;         /* SondeExportFrame */
  GHashTable *by_name;    /* "MAPPING NAME\nMODULE\nFILE" → whole + 1 */
  GArray *wholes;         /* guint32: a frame of each */
  const SondeSymbolResolver *resolver;
  guint32 *by_location; /* place; NULL: there are no locations */
};

static SondeExportFrames *
new_empty (const SondeSymbolResolver *resolver)
{
  SondeExportFrames *self = g_new0 (SondeExportFrames, 1);

  self->mappings = g_array_new (FALSE, FALSE, sizeof (SondeExportMapping));
  self->addresses = g_ptr_array_new_with_free_func ((GDestroyNotify) sonde_id_map_free);
  self->by_file = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->by_mapping = g_hash_table_new (NULL, NULL);
  self->by_module = g_hash_table_new (sonde_text_hash, g_str_equal);
  self->places = g_array_new (FALSE, FALSE, sizeof (SondeExportPlace));
  self->frames = g_array_new (FALSE, FALSE, sizeof (SondeExportFrame));
  self->by_name = g_hash_table_new_full (sonde_text_hash, g_str_equal, g_free, NULL);
  self->wholes = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->resolver = resolver;
  g_ptr_array_add (self->addresses, sonde_id_map_new ());
  return self;
}

void
sonde_export_frames_free (SondeExportFrames *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->mappings);
  g_ptr_array_unref (self->addresses);
  g_hash_table_unref (self->by_file);
  g_hash_table_unref (self->by_mapping);
  g_hash_table_unref (self->by_module);
  g_array_unref (self->places);
  g_array_unref (self->frames);
  g_hash_table_unref (self->by_name);
  g_array_unref (self->wholes);
  g_free (self->by_location);
  g_free (self);
}

static guint32
add_mapping (SondeExportFrames *self, const SondeExportMapping *mapping)
{
  g_array_append_vals (self->mappings, mapping, 1);
  g_ptr_array_add (self->addresses, sonde_id_map_new ());
  return self->mappings->len;
}

/* Number + 1. */
static guint32
ensure_file (SondeExportFrames *self, const SondeModelMapping *mapping)
{
  guint32 number = GPOINTER_TO_UINT (g_hash_table_lookup (self->by_mapping, mapping));
  g_autofree char *key = NULL;

  if (number > 0)
    return number;
  key = g_strdup_printf ("%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %s %s", mapping->offset,
                         mapping->build_id != NULL ? 0 : mapping->inode,
                         mapping->build_id != NULL ? mapping->build_id : "", mapping->path);
  number = GPOINTER_TO_UINT (g_hash_table_lookup (self->by_file, key));
  if (number == 0)
    {
      number = add_mapping (self,
                            &(SondeExportMapping){ mapping->path, mapping->build_id, mapping->start,
                                                   mapping->end, mapping->offset });
      g_hash_table_insert (self->by_file, g_steal_pointer (&key), GUINT_TO_POINTER (number));
    }
  g_hash_table_insert (self->by_mapping, (gpointer) mapping, GUINT_TO_POINTER (number));
  return number;
}

/* The same; 0: none. */
static guint32
ensure_module (SondeExportFrames *self, const char *module)
{
  guint32 number = GPOINTER_TO_UINT (g_hash_table_lookup (self->by_module, module));

  if (number == 0 && module[0] != '\0')
    {
      number = add_mapping (self, &(SondeExportMapping){ .path = module });
      g_hash_table_insert (self->by_module, (gpointer) module, GUINT_TO_POINTER (number));
    }
  return number;
}

/* @frame: the next one, for who is the first of it */
static guint32
ensure_whole (SondeExportFrames *self, guint32 mapping, guint32 function, guint32 frame)
{
  const SondeFunction *named = sonde_symbol_resolver_function (self->resolver, function);
  g_autofree char *key
      = g_strdup_printf ("%u %s\n%s\n%s", mapping, named->name, named->module, named->file);
  guint32 number = GPOINTER_TO_UINT (g_hash_table_lookup (self->by_name, key));

  if (number > 0)
    return number - 1;
  g_array_append_val (self->wholes, frame);
  g_hash_table_insert (self->by_name, g_steal_pointer (&key), GUINT_TO_POINTER (self->wholes->len));
  return self->wholes->len - 1;
}

static guint32
add_place (SondeExportFrames *self, SondeExportPlace place, const guint32 *functions)
{
  guint32 number = self->places->len;

  place.first = self->frames->len;
  for (guint32 i = 0; i < place.n_frames; i++)
    {
      SondeExportFrame frame
          = { number, functions[i],
              ensure_whole (self, place.mapping, functions[i], self->frames->len) };

      g_array_append_val (self->frames, frame);
    }
  g_array_append_val (self->places, place);
  return number;
}

static gboolean
has_functions (const SondeExportFrames *self,
               const SondeExportPlace *place,
               const guint32 *functions,
               guint32 n)
{
  for (guint32 i = 0; i < n && i < place->n_frames; i++)
    if (sonde_export_frames_frame (self, place->first + i)->function != functions[i])
      return FALSE;
  return place->n_frames == n;
}

/* The place of what has @key in the mapping @number, of those with the same functions; 0: none.
 * @last: (out): the last one that has that key, if there is any */
static guint32
find_place (const SondeExportFrames *self,
            guint32 number,
            guint64 key,
            const guint32 *functions,
            guint32 n,
            guint32 *last)
{
  guint32 place = 0;

  *last = 0;
  sonde_id_map_lookup (g_ptr_array_index (self->addresses, number), key, &place);
  for (guint i = 0; i < MAX_ALIKE && place != 0; i++)
    {
      const SondeExportPlace *at = sonde_export_frames_place (self, place);

      if (has_functions (self, at, functions, n))
        return place;
      *last = place;
      place = at->next;
    }
  return 0;
}

/* Memory of no file ("//anon") is another one in each process. */
static gboolean
is_file (const SondeModelMapping *mapping)
{
  return mapping != NULL && !g_str_has_prefix (mapping->path, "//");
}

static guint32
ensure_place (SondeExportFrames *self,
              const SondeCaptureModel *model,
              SondeSymbolResolver *resolver,
              guint32 location)
{
  const SondeLocation *where = sonde_capture_model_location (model, location);
  guint32 n;
  const guint32 *functions = sonde_symbol_resolver_get (resolver, location, &n);
  SondeExportPlace place = { .n_frames = n, .mapping = SONDE_EXPORT_NO_MAPPING };
  guint64 key = where->address;
  guint32 number;
  guint32 known;
  guint32 last;

  if (is_file (where->mapping))
    {
      number = ensure_file (self, where->mapping);
      place.address = where->address - where->mapping->start
                      + sonde_export_frames_mapping (self, number - 1)->start;
      key = place.address;
    }
  else
    {
      number
          = ensure_module (self, sonde_symbol_resolver_function (resolver, functions[0])->module);
      /* made-up ones say nothing, nor do those of another process */
      if (!sonde_is_jit_address (where->address))
        place.address = where->address;
    }
  known = find_place (self, number, key, functions, n, &last);
  if (known != 0)
    return known;
  place.mapping = number - 1; /* SONDE_EXPORT_NO_MAPPING of 0 */
  if (is_file (where->mapping))
    sonde_symbol_resolver_find_place (resolver, location, &place.file);
  known = add_place (self, place, functions);
  if (last == 0)
    sonde_id_map_set (g_ptr_array_index (self->addresses, number), key, known);
  else if (sonde_export_frames_place (self, last)->next == 0)
    g_array_index (self->places, SondeExportPlace, last).next = known;
  return known;
}

static void
add_truncated (SondeExportFrames *self)
{
  static const guint32 truncated = SONDE_CALL_TRUNCATED;

  add_place (self, (SondeExportPlace){ .n_frames = 1, .mapping = SONDE_EXPORT_NO_MAPPING },
             &truncated);
}

SondeExportFrames *
sonde_export_frames_new (const SondeCaptureModel *model, SondeSymbolResolver *resolver)
{
  SondeExportFrames *self = new_empty (resolver);
  guint32 n = sonde_capture_model_n_locations (model);

  add_truncated (self);
  self->by_location = g_new0 (guint32, n);
  for (guint32 i = 0; i < n; i++)
    if (i != SONDE_LOCATION_TRUNCATED)
      self->by_location[i] = ensure_place (self, model, resolver, i);
  return self;
}

SondeExportFrames *
sonde_export_frames_new_of_functions (const SondeSymbolResolver *resolver)
{
  SondeExportFrames *self = new_empty (resolver);

  add_truncated (self);
  for (guint32 i = 1; i < sonde_symbol_resolver_n_functions (resolver); i++)
    add_place (
        self,
        (SondeExportPlace){
            .n_frames = 1,
            .mapping
            = ensure_module (self, sonde_symbol_resolver_function (resolver, i)->module) - 1 },
        &i);
  return self;
}

guint32
sonde_export_frames_n_mappings (const SondeExportFrames *self)
{
  return self->mappings->len;
}

const SondeExportMapping *
sonde_export_frames_mapping (const SondeExportFrames *self, guint32 i)
{
  return &g_array_index (self->mappings, SondeExportMapping, i);
}

guint32
sonde_export_frames_n_places (const SondeExportFrames *self)
{
  return self->places->len;
}

const SondeExportPlace *
sonde_export_frames_place (const SondeExportFrames *self, guint32 i)
{
  return &g_array_index (self->places, SondeExportPlace, i);
}

guint32
sonde_export_frames_n_frames (const SondeExportFrames *self)
{
  return self->frames->len;
}

const SondeExportFrame *
sonde_export_frames_frame (const SondeExportFrames *self, guint32 i)
{
  return &g_array_index (self->frames, SondeExportFrame, i);
}

guint32
sonde_export_frames_n_wholes (const SondeExportFrames *self)
{
  return self->wholes->len;
}

guint32
sonde_export_frames_whole (const SondeExportFrames *self, guint32 i)
{
  return g_array_index (self->wholes, guint32, i);
}

const SondeExportPlace *
sonde_export_frames_find (const SondeExportFrames *self, guint32 location)
{
  return sonde_export_frames_place (self, self->by_location[location]);
}
