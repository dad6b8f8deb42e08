/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each location of a capture a function. */
#include "client/names/symbol-resolver.h"

#include <stdlib.h>
#include <string.h>

#include "client/names/debug-files.h"
#include "client/names/module-list.h"
#include "client/base/text.h"
#include "symbols/demangle.h"

struct SondeSymbolResolver
{
  const SondeCaptureModel *model;
  gboolean inlines;
  gboolean lines;
  SondeModuleList *modules;
  GHashTable *by_name;  /* "NAME\nMODULE\nSOURCE" → number of a function */
  GPtrArray *functions; /* SondeFunction */
};

/* What is known of a location; the texts are of foreign origin. */
typedef struct
{
  char *name; /* owned */
  const char *module;
  SondeModule *file;   /* NULL: none that is here */
  guint64 vaddr;       /* in @file */
  gboolean is_in_file; /* lines of @file tell of it */
  gboolean is_made_up; /* the name: there is none */
} Place;

static void
place_clear (Place *place)
{
  g_free (place->name);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Place, place_clear)

static void
function_free (gpointer data)
{
  SondeFunction *function = data;

  g_free (function->name);
  g_free (function->module);
  g_free (function->source);
  g_free (function);
}

SondeSymbolResolver *
sonde_symbol_resolver_new (const SondeCaptureModel *model, const SondeSymbolOptions *options)
{
  SondeSymbolResolver *self = g_new0 (SondeSymbolResolver, 1);
  const char *directory = options != NULL ? options->debug_directory : NULL;

  self->model = model;
  self->inlines = options != NULL && options->inlines;
  self->lines = options != NULL && options->lines;
  self->modules
      = sonde_module_list_new (model, directory != NULL ? directory : SONDE_DEBUG_DIRECTORY,
                               options != NULL ? options->cache_folder : NULL);
  self->by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->functions = g_ptr_array_new_with_free_func (function_free);
  return self;
}

void
sonde_symbol_resolver_free (SondeSymbolResolver *self)
{
  if (self == NULL)
    return;
  sonde_module_list_free (self->modules);
  g_hash_table_unref (self->by_name);
  g_ptr_array_unref (self->functions);
  g_free (self);
}

static char *
dup_source (const SondeSymbolResolver *self, const SondeSourceFrame *frame)
{
  g_autofree char *file = NULL;

  if (!self->lines || frame == NULL || frame->file == NULL)
    return g_strdup ("");
  file = sonde_text_escape (frame->file, -1);
  return frame->line > 0 ? g_strdup_printf ("%s:%u", file, frame->line) : g_steal_pointer (&file);
}

/* Takes the foreign @name; @module may be NULL. */
static guint32
ensure_function (SondeSymbolResolver *self,
                 const char *name,
                 const char *module,
                 const SondeSourceFrame *frame)
{
  char *demangled = sonde_demangle (name);
  g_autofree char *shown = sonde_text_escape (demangled != NULL ? demangled : name, -1);
  g_autofree char *shown_module = sonde_text_escape (module != NULL ? module : "", -1);
  g_autofree char *source = dup_source (self, frame);
  g_autofree char *key = g_strdup_printf ("%s\n%s\n%s", shown, shown_module, source);
  SondeFunction *function;
  gpointer found;

  free (demangled);
  if (g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
    return GPOINTER_TO_UINT (found);

  function = g_new0 (SondeFunction, 1);
  function->name = g_steal_pointer (&shown);
  function->module = g_steal_pointer (&shown_module);
  function->source = g_steal_pointer (&source);
  g_hash_table_insert (self->by_name, g_steal_pointer (&key),
                       GUINT_TO_POINTER (self->functions->len));
  g_ptr_array_add (self->functions, function);
  return self->functions->len - 1;
}

static const char *
base_name (const char *path)
{
  const char *slash = strrchr (path, '/');

  return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static guint64
file_offset_of (const SondeLocation *where)
{
  return where->address - where->mapping->start + where->mapping->offset;
}

static void
find_file (SondeSymbolResolver *self, const SondeLocation *where, Place *place)
{
  if (where->mapping == NULL)
    return;
  place->file = sonde_module_list_ensure (self->modules, where->pid, where->mapping);
  place->is_in_file = place->file->file != NULL
                      && sonde_module_file_vaddr (place->file->file, where->mapping, where->address,
                                                  &place->vaddr);
}

static gboolean
find_symbol (const Place *place, SondeSymbol *symbol)
{
  return place->is_in_file && sonde_module_file_lookup (place->file->file, place->vaddr, symbol);
}

/* A location in a mapping: from the capture, from the file, or made of module and offset. */
static void
name_mapped (SondeSymbolResolver *self, const SondeLocation *where, Place *place)
{
  const SondeEmbeddedSymbols *symbols = sonde_capture_model_symbols (self->model);
  const char *name = NULL;
  const char *tag = NULL;
  gboolean is_embedded
      = symbols != NULL
        && sonde_embedded_symbols_lookup (symbols, where->pid, where->address, &name, &tag);
  SondeSymbol symbol;

  if (where->mapping == NULL || (is_embedded && !sonde_embedded_symbols_is_made_up (name, tag)))
    {
      place->name = g_strdup (name);
      place->module = tag;
      return;
    }
  place->module = base_name (where->mapping->path);
  if (find_symbol (place, &symbol))
    {
      place->name = g_strdup (symbol.name);
      return;
    }
  place->file->n_misses++;
  place->is_made_up = TRUE;
  if (is_embedded)
    place->name = g_strdup (name);
  else
    place->name
        = g_strdup_printf ("%s+0x%" G_GINT64_MODIFIER "x", place->module, file_offset_of (where));
}

static void
name_place (SondeSymbolResolver *self, const SondeLocation *where, Place *place)
{
  const char *jit = sonde_capture_model_jit_name (self->model, where->address);

  if (jit != NULL)
    place->name = g_strdup (jit);
  else
    {
      find_file (self, where, place);
      name_mapped (self, where, place);
    }
  if (place->name == NULL)
    place->name = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", where->address);
  if (where->in_kernel && place->module == NULL)
    place->module = "[kernel]";
}

/* Innermost first; NULL if nothing is known. They may know the name that no symbol had. */
static const GArray *
find_lines (SondeSymbolResolver *self, Place *place)
{
  const GArray *frames;
  const SondeSourceFrame *outermost;

  if (!(self->inlines || self->lines) || !place->is_in_file)
    return NULL;
  frames = sonde_module_file_lines (place->file->file, place->vaddr);
  if (frames == NULL || frames->len == 0)
    return NULL;
  outermost = &g_array_index (frames, SondeSourceFrame, frames->len - 1);
  if (place->is_made_up && outermost->function != NULL)
    {
      g_free (place->name);
      place->name = g_strdup (outermost->function);
    }
  return frames;
}

guint32
sonde_symbol_resolver_resolve (SondeSymbolResolver *self, guint32 location)
{
  g_auto (Place) place = { 0 };
  const GArray *lines;

  name_place (self, sonde_capture_model_location (self->model, location), &place);
  lines = find_lines (self, &place);
  return ensure_function (self, place.name, place.module,
                          lines != NULL ? &g_array_index (lines, SondeSourceFrame, 0) : NULL);
}

void
sonde_symbol_resolver_resolve_all (SondeSymbolResolver *self, guint32 location, GArray *functions)
{
  g_auto (Place) place = { 0 };
  const GArray *lines;
  guint32 number;

  if (!self->inlines)
    {
      number = sonde_symbol_resolver_resolve (self, location);
      g_array_append_val (functions, number);
      return;
    }
  name_place (self, sonde_capture_model_location (self->model, location), &place);
  lines = find_lines (self, &place);
  /* the outermost is the function that the symbol names */
  for (guint i = lines != NULL ? lines->len : 1; i > 0; i--)
    {
      const SondeSourceFrame *frame
          = lines != NULL ? &g_array_index (lines, SondeSourceFrame, i - 1) : NULL;
      gboolean is_outermost = lines == NULL || i == lines->len;
      const char *name = is_outermost ? place.name : frame->function;

      number = ensure_function (self, name != NULL ? name : "[inlined]", place.module, frame);
      g_array_append_val (functions, number);
    }
}

char *
sonde_symbol_resolver_find_range (SondeSymbolResolver *self,
                                  guint32 location,
                                  SondeSymbolRange *range)
{
  const SondeLocation *where = sonde_capture_model_location (self->model, location);
  g_auto (Place) place = { 0 };
  SondeSymbol symbol;

  find_file (self, where, &place);
  if (!find_symbol (&place, &symbol))
    return NULL;
  /* both may wrap: a file says what it likes */
  range->begin = where->address - (place.vaddr - symbol.begin);
  range->end = where->address + (symbol.end - place.vaddr);
  if (range->begin > where->address || range->end <= where->address)
    return NULL;
  return g_strdup (symbol.name);
}

guint32
sonde_symbol_resolver_n_functions (const SondeSymbolResolver *self)
{
  return self->functions->len;
}

const SondeFunction *
sonde_symbol_resolver_function (const SondeSymbolResolver *self, guint32 function)
{
  return g_ptr_array_index (self->functions, function);
}

void
sonde_symbol_resolver_append_misses (const SondeSymbolResolver *self, GString *out)
{
  sonde_module_list_append_misses (self->modules, out);
}
