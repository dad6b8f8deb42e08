/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "client/names/symbol-resolver.h"

#include <stdlib.h>
#include <string.h>

#include "client/base/text-pool.h"
#include "client/base/text.h"
#include "client/model/frame-parts.h"
#include "client/names/debug-files.h"
#include "client/names/module-list.h"
#include "symbols/demangle.h"

#define FUNCTION_BYTES 100 /* that a function costs without its texts */

struct SondeSymbolResolver
{
  const SondeCaptureModel *model;
  gboolean inlines;
  gboolean lines;
  gboolean is_ours; /* the capture: Sonde made it, and what it made up has its meaning */
  SondeModuleList *modules;
  SondeBudget *budget;  /* of the model */
  GHashTable *known;    /* Function → itself */
  GPtrArray *functions; /* Function */
  GStringChunk *names;
  SondeTextPool *texts; /* modules and sources */
  guint32 *by_symbol;   /* of an embedded one, UNNAMED: not looked up yet; NULL: none was */
  GArray *by_location;  /* guint32: functions, outermost first; by location if */
  guint32 *starts;      /* is NULL, else from there on, of one more location than there are */
};

#define UNNAMED     G_MAXUINT32
#define AT(self, i) (g_array_index ((self)->by_location, guint32, (i)))

/* Its number stands beside it, so that one table finds both. */
typedef struct
{
  SondeFunction function; /* texts of the resolver's */
  guint32 number;
} Function;

/* What is known of a location; the texts are of foreign origin. */
typedef struct
{
  char *name; /* owned */
  const char *module;
  SondeListedModule *file; /* NULL: none that is here */
  guint64 vaddr;           /* in @file */
  gboolean is_in_file;     /* lines of @file tell of it */
  gboolean is_made_up;     /* the name: there is none */
  gsize symbol;            /* of the capture's own, + 1; 0: it is named by something else */
  char *script;            /* of a function of an interpreted program: its file; NULL: of none */
  guint script_line;       /* 0: not known */
} Place;

static void
place_clear (Place *place)
{
  g_free (place->name);
  g_free (place->script);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Place, place_clear)

static guint
hash_function (gconstpointer data)
{
  const Function *self = data;

  return (sonde_text_hash (self->function.name) * 31 + sonde_text_hash (self->function.module)) * 31
         + sonde_text_hash (self->function.source);
}

static gboolean
is_same_function (gconstpointer a, gconstpointer b)
{
  const SondeFunction *left = &((const Function *) a)->function;
  const SondeFunction *right = &((const Function *) b)->function;

  return g_str_equal (left->name, right->name) && g_str_equal (left->module, right->module)
         && g_str_equal (left->source, right->source);
}

static guint32
add_function (SondeSymbolResolver *self, const char *name, const char *module, const char *source)
{
  Function *function = g_new0 (Function, 1);

  function->function.name = g_string_chunk_insert (self->names, name);
  function->function.module = sonde_text_pool_add (self->texts, module, SONDE_MAX_PATH_BYTES);
  function->function.source = sonde_text_pool_add (self->texts, source, SONDE_MAX_PATH_BYTES);
  function->number = self->functions->len;
  g_ptr_array_add (self->functions, function);
  g_hash_table_add (self->known, function);
  return function->number;
}

SondeSymbolResolver *
sonde_symbol_resolver_new (const SondeCaptureModel *model, const SondeSymbolOptions *options)
{
  SondeSymbolResolver *self = g_new0 (SondeSymbolResolver, 1);
  const char *directory = options != NULL ? options->debug_directory : NULL;
  g_autoptr (GKeyFile) settings = sonde_capture_model_dup_settings (model);

  self->model = model;
  self->is_ours = settings != NULL;
  self->inlines = options != NULL && options->inlines;
  self->lines = options != NULL && options->lines;
  self->modules
      = sonde_module_list_new (model, directory != NULL ? directory : SONDE_DEBUG_DIRECTORY,
                               options != NULL ? options->cache_folder : NULL);
  self->budget = sonde_capture_model_budget (model);
  self->known = g_hash_table_new (hash_function, is_same_function);
  self->functions = g_ptr_array_new_with_free_func (g_free);
  self->names = g_string_chunk_new (4096);
  self->texts = sonde_text_pool_new (self->budget);
  self->by_location = g_array_new (FALSE, FALSE, sizeof (guint32));
  add_function (self, SONDE_TRUNCATED, "", "");
  return self;
}

void
sonde_symbol_resolver_free (SondeSymbolResolver *self)
{
  if (self == NULL)
    return;
  sonde_module_list_free (self->modules);
  g_hash_table_unref (self->known);
  g_ptr_array_unref (self->functions);
  g_string_chunk_free (self->names);
  sonde_text_pool_free (self->texts);
  g_free (self->by_symbol);
  sonde_symbol_resolver_forget_locations (self);
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

/* Escaped, and cut where it is longer than anybody reads. */
static char *
dup_shown (const char *foreign, gsize max_bytes)
{
  char *shown = sonde_text_escape (foreign, (gssize) strnlen (foreign, max_bytes + 1));

  if (strlen (shown) > max_bytes)
    strcpy (g_utf8_find_prev_char (shown, shown + max_bytes - strlen ("…")), "…");
  return shown;
}

/* Takes the foreign @name; @module may be NULL. */
static guint32
ensure_function (SondeSymbolResolver *self,
                 const char *name,
                 const char *module,
                 const SondeSourceFrame *frame)
{
  char *demangled;
  g_autofree char *shown = NULL;
  g_autofree char *shown_module = NULL;
  g_autofree char *source = NULL;
  const Function *known;
  Function wanted = { .number = 0 };

  if (self->budget->left[SONDE_LIMIT_FUNCTION_TEXT] < FUNCTION_BYTES + SONDE_MAX_NAME_BYTES)
    {
      self->budget->n_cut[SONDE_LIMIT_FUNCTION_TEXT]++;
      return SONDE_CALL_TRUNCATED;
    }
  demangled = sonde_demangle (name);
  shown = dup_shown (demangled != NULL ? demangled : name, SONDE_MAX_NAME_BYTES);
  free (demangled);
  shown_module = dup_shown (module != NULL ? module : "", SONDE_MAX_MODULE_BYTES);
  source = dup_source (self, frame);
  wanted.function = (SondeFunction){ shown, shown_module, source };
  known = g_hash_table_lookup (self->known, &wanted);
  if (known != NULL)
    return known->number;
  if (!sonde_budget_take (self->budget, SONDE_LIMIT_FUNCTION_TEXT,
                          strlen (shown) + strlen (source) + FUNCTION_BYTES))
    return SONDE_CALL_TRUNCATED;
  return add_function (self, shown, shown_module, source);
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

/* The last part of @path; of an interpreter's own program with the folder, so that "php" are the
 * functions of what it runs alone. */
static const char *
find_module (const char *path)
{
  const char *slash = strrchr (path, '/');
  const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;

  if (!g_strv_contains (sonde_interpreted_modules, name))
    return name;
  while (slash != NULL && slash > path && slash[-1] != '/')
    slash--;
  return slash != NULL ? slash : name;
}

/* A location in a mapping: from the capture, from the file, or made of module and offset. */
static void
name_mapped (SondeSymbolResolver *self, const SondeLocation *where, Place *place)
{
  const SondeEmbeddedSymbols *symbols
      = sonde_embedded_files_symbols (sonde_capture_model_files (self->model));
  const char *name = NULL;
  const char *tag = NULL;
  gsize index;
  gboolean is_embedded
      = symbols != NULL
        && sonde_embedded_symbols_find (symbols, where->pid, where->address, &index);
  SondeSymbol symbol;

  if (is_embedded)
    sonde_embedded_symbols_texts (symbols, sonde_embedded_symbols_get (symbols, index), &name,
                                  &tag);
  if (where->mapping == NULL || (is_embedded && !sonde_embedded_symbols_is_made_up (name, tag)))
    {
      place->symbol = is_embedded ? index + 1 : 0;
      place->name = g_strdup (name);
      place->module = tag;
      return;
    }
  place->module = find_module (where->mapping->path);
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
        = g_strdup_printf ("%.*s+0x%" G_GINT64_MODIFIER "x", SONDE_MAX_MODULE_BYTES, place->module,
                           where->address - where->mapping->start + where->mapping->offset);
}

const char *const sonde_interpreted_modules[] = { "python", "php", "ruby", NULL };

/* Of "usort [php]", what is in brackets; @len: (inout): of what is before */
static const char *
find_language (const char *name, gsize *len)
{
  for (guint i = 1; sonde_interpreted_modules[i] != NULL; i++)
    {
      g_autofree char *tag = g_strdup_printf (" [%s]", sonde_interpreted_modules[i]);

      if (g_str_has_suffix (name, tag))
        {
          *len -= strlen (tag);
          return sonde_interpreted_modules[i];
        }
    }
  return sonde_interpreted_modules[0];
}

/* "Parser.parse (json.py:12)": a function of an interpreted program, whose lines have an address
 * each. Source: docs/protocol.md, "Interpreted programs" */
static void
name_interpreted (Place *place, const char *name)
{
  const char *open = g_strrstr (name, " (");
  gsize len = strlen (name);
  const char *colon;
  guint64 line;

  place->module = find_language (name, &len);
  place->name = g_strndup (name, len);
  if (open == NULL || open >= name + len || name[len - 1] != ')')
    return;
  place->script = g_strndup (open + 2, len - 1 - (gsize) (open + 2 - name));
  colon = strrchr (place->script, ':');
  if (colon == NULL || !g_ascii_string_to_unsigned (colon + 1, 10, 1, G_MAXUINT, &line, NULL))
    return;
  place->script_line = (guint) line;
  place->script[colon - place->script] = '\0';
  g_free (place->name);
  place->name = g_strdup_printf ("%.*s (%s)", (int) (open - name), name, place->script);
}

/* Of the names that our worker makes up those of users' code, but for what says why a stack ends.
 */
static gboolean
is_interpreted (const SondeSymbolResolver *self, const SondeLocation *where, const char *name)
{
  return self->is_ours && !where->in_kernel
         && where->address - SONDE_JIT_ADDRESS_BASE <= G_MAXUINT32
         && (name[0] != '[' || g_str_has_prefix (name, "[unnamed")
             || g_str_has_prefix (name, "[interpreter]"));
}

static void
name_place (SondeSymbolResolver *self, const SondeLocation *where, Place *place)
{
  const char *jit = sonde_capture_model_jit_name (self->model, where->address);

  if (jit != NULL && is_interpreted (self, where, jit))
    name_interpreted (place, jit);
  else if (jit != NULL)
    {
      place->name = g_strdup (jit);
      if (sonde_is_made_code (where->address))
        place->module = "[jit]";
    }
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

static guint32
ensure_script (SondeSymbolResolver *self, const Place *place)
{
  const SondeSourceFrame frame = { .file = place->script, .line = place->script_line };

  return ensure_function (self, place->name, place->module, &frame);
}

/* The function that holds @location, which has a name. */
static guint32
find_function (SondeSymbolResolver *self, guint32 location)
{
  const SondeEmbeddedFiles *files = sonde_capture_model_files (self->model);
  const SondeLocation *where = sonde_capture_model_location (self->model, location);
  g_auto (Place) place = { 0 };
  const GArray *lines;
  guint32 *number;
  gsize n;

  name_place (self, where, &place);
  if (place.script != NULL)
    return ensure_script (self, &place);
  lines = find_lines (self, &place);
  if (place.symbol == 0 || lines != NULL || where->in_kernel)
    return ensure_function (self, place.name, place.module,
                            lines != NULL ? &g_array_index (lines, SondeSourceFrame, 0) : NULL);
  /* The function of a symbol that the capture carries: many places have the same, and a long name.
   */
  if (self->by_symbol == NULL)
    {
      n = sonde_embedded_symbols_size (sonde_embedded_files_symbols (files));
      self->by_symbol = g_new (guint32, n);
      memset (self->by_symbol, 0xff, n * sizeof *self->by_symbol);
    }
  number = &self->by_symbol[place.symbol - 1];
  if (*number == UNNAMED)
    *number = ensure_function (self, place.name, place.module, NULL);
  return *number;
}

/* Appends that function, and those inlined there, outermost first. */
static void
append_inlined (SondeSymbolResolver *self, guint32 location)
{
  g_auto (Place) place = { 0 };
  const GArray *lines;

  name_place (self, sonde_capture_model_location (self->model, location), &place);
  if (place.script != NULL)
    {
      guint32 number = ensure_script (self, &place);

      g_array_append_val (self->by_location, number);
      return;
    }
  lines = find_lines (self, &place);
  /* the outermost is the function that the symbol names */
  for (guint i = lines != NULL ? lines->len : 1; i > 0; i--)
    {
      const SondeSourceFrame *frame
          = lines != NULL ? &g_array_index (lines, SondeSourceFrame, i - 1) : NULL;
      gboolean is_outermost = lines == NULL || i == lines->len;
      const char *name = is_outermost ? place.name : frame->function;
      guint32 number
          = ensure_function (self, name != NULL ? name : "[inlined]", place.module, frame);

      g_array_append_val (self->by_location, number);
    }
}

void
sonde_symbol_resolver_find_all (SondeSymbolResolver *self)
{
  guint32 n_locations = sonde_capture_model_n_locations (self->model);

  if (self->inlines)
    self->starts = g_new (guint32, n_locations + 1);
  for (guint32 i = 0; i < n_locations; i++)
    {
      guint32 number = SONDE_CALL_TRUNCATED;

      if (self->starts != NULL)
        self->starts[i] = self->by_location->len;
      if (self->inlines && i != SONDE_LOCATION_TRUNCATED)
        {
          append_inlined (self, i);
          continue;
        }
      if (i != SONDE_LOCATION_TRUNCATED)
        number = find_function (self, i);
      g_array_append_val (self->by_location, number);
    }
  if (self->starts != NULL)
    self->starts[n_locations] = self->by_location->len;
}

gboolean
sonde_symbol_resolver_find (SondeSymbolResolver *self,
                            guint32 location,
                            gint64 end_us,
                            guint32 *function)
{
  const guint32 unnamed = UNNAMED;

  while (self->by_location->len < sonde_capture_model_n_locations (self->model))
    g_array_append_val (self->by_location, unnamed);
  if (location == SONDE_LOCATION_TRUNCATED)
    AT (self, location) = SONDE_CALL_TRUNCATED;
  if (AT (self, location) == UNNAMED && g_get_monotonic_time () < end_us)
    AT (self, location) = find_function (self, location);
  *function = AT (self, location);
  return *function != UNNAMED;
}

void
sonde_symbol_resolver_find_some (SondeSymbolResolver *self,
                                 const SondeCallTree *tree,
                                 gint64 end_us)
{
  guint32 function;

  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    if (!sonde_symbol_resolver_find (self, sonde_call_tree_node (tree, i)->id, end_us, &function))
      return;
}

guint32 *
sonde_symbol_resolver_dup_functions (const SondeSymbolResolver *self, guint32 unnamed)
{
  guint n = self->by_location->len;
  guint32 *functions = g_memdup2 (self->by_location->data, n * sizeof (guint32));

  for (guint i = 0; i < n; i++)
    if (functions[i] == UNNAMED)
      functions[i] = unnamed;
  return functions;
}

void
sonde_symbol_resolver_forget_locations (SondeSymbolResolver *self)
{
  g_clear_pointer (&self->by_location, g_array_unref);
  g_clear_pointer (&self->starts, g_free);
}

guint32 *
sonde_symbol_resolver_get (const SondeSymbolResolver *self, guint32 location, guint32 *n)
{
  *n = self->starts != NULL ? self->starts[location + 1] - self->starts[location]
                            : AT (self, location) != UNNAMED;
  return &AT (self, self->starts != NULL ? self->starts[location] : location);
}

void
sonde_symbol_resolver_make_room (SondeSymbolResolver *self, const SondeCallTree *tree)
{
  guint32 n_locations = sonde_capture_model_n_locations (self->model);
  guint64 n_inlined = 0;

  if (self->by_location->len == n_locations)
    return;
  for (guint32 i = 1; i < sonde_call_tree_n_nodes (tree); i++)
    {
      guint32 location = sonde_call_tree_node (tree, i)->id;

      n_inlined += self->starts[location + 1] - self->starts[location] - 1;
    }
  if (sonde_budget_take (self->budget, SONDE_LIMIT_INLINED, n_inlined))
    return;
  for (guint32 i = 0; i < n_locations; i++)
    AT (self, i) = AT (self, self->starts[i]);
  g_array_set_size (self->by_location, n_locations);
  g_clear_pointer (&self->starts, g_free);
}

SondeCallTree *
sonde_symbol_resolver_expand (const SondeSymbolResolver *self, const SondeCallTree *tree)
{
  const guint32 *functions = (const guint32 *) (void *) self->by_location->data;

  return self->starts != NULL ? sonde_call_tree_expand (tree, self->starts, functions)
                              : sonde_call_tree_remap (tree, functions);
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
  return &((const Function *) g_ptr_array_index (self->functions, function))->function;
}

void
sonde_symbol_resolver_append_misses (const SondeSymbolResolver *self, GString *out)
{
  sonde_module_list_append_misses (self->modules, out);
}
