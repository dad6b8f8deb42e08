/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each location of a capture a function. */
#include "client/symbol-resolver.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/fd.h"
#include "client/text.h"
#include "symbols/demangle.h"
#include "symbols/symbol-table.h"

/* A local file; table is NULL if it has no symbols or is not the file that was mapped. */
typedef struct
{
  SondeSymbolTable *table;
} Module;

struct SondeSymbolResolver
{
  const SondeCaptureModel *model;
  GHashTable *modules;  /* "INODE PATH" → Module */
  GHashTable *by_name;  /* "NAME\nMODULE" → number of a function */
  GPtrArray *functions; /* SondeFunction */
};

static void
module_free (gpointer data)
{
  Module *module = data;

  sonde_symbol_table_free (module->table);
  g_free (module);
}

static void
function_free (gpointer data)
{
  SondeFunction *function = data;

  g_free (function->name);
  g_free (function->module);
  g_free (function);
}

SondeSymbolResolver *
sonde_symbol_resolver_new (const SondeCaptureModel *model)
{
  SondeSymbolResolver *self = g_new0 (SondeSymbolResolver, 1);

  self->model = model;
  self->modules = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, module_free);
  self->by_name = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->functions = g_ptr_array_new_with_free_func (function_free);
  return self;
}

void
sonde_symbol_resolver_free (SondeSymbolResolver *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->modules);
  g_hash_table_unref (self->by_name);
  g_ptr_array_unref (self->functions);
  g_free (self);
}

/* Opens @path only if it is the regular file with that inode. The path comes out of the capture, so
 * nothing is opened for reading before its type is known: opening a device or a FIFO has effects.
 */
static int
open_mapped_file (const char *path, guint64 inode)
{
  sonde_autofd int handle = open (path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
  g_autofree char *by_handle = g_strdup_printf ("/proc/self/fd/%d", handle);
  struct stat st;

  if (handle < 0 || inode == 0 || fstat (handle, &st) < 0 || !S_ISREG (st.st_mode)
      || st.st_ino != inode)
    return -1;
  return open (by_handle, O_RDONLY | O_CLOEXEC);
}

static SondeSymbolTable *
ensure_table (SondeSymbolResolver *self, const SondeMapping *mapping)
{
  g_autofree char *key
      = g_strdup_printf ("%" G_GUINT64_FORMAT " %s", mapping->inode, mapping->path);
  Module *module = g_hash_table_lookup (self->modules, key);

  if (module == NULL)
    {
      sonde_autofd int fd = open_mapped_file (mapping->path, mapping->inode);

      module = g_new0 (Module, 1);
      if (fd >= 0 && sonde_symbol_table_new (fd, &module->table) < 0)
        module->table = NULL;
      g_hash_table_insert (self->modules, g_steal_pointer (&key), module);
    }
  return module->table;
}

/* Takes the foreign @name; @module may be NULL. */
static guint32
ensure_function (SondeSymbolResolver *self, const char *name, const char *module)
{
  char *demangled = sonde_demangle (name);
  g_autofree char *shown = sonde_text_escape (demangled != NULL ? demangled : name, -1);
  g_autofree char *shown_module = sonde_text_escape (module != NULL ? module : "", -1);
  g_autofree char *key = g_strdup_printf ("%s\n%s", shown, shown_module);
  SondeFunction *function;
  gpointer found;

  free (demangled);
  if (g_hash_table_lookup_extended (self->by_name, key, NULL, &found))
    return GPOINTER_TO_UINT (found);

  function = g_new0 (SondeFunction, 1);
  function->name = g_steal_pointer (&shown);
  function->module = g_steal_pointer (&shown_module);
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

/* A location whose name is nowhere: module and offset into its file. */
static guint32
resolve_mapping (SondeSymbolResolver *self, const SondeLocation *location)
{
  const SondeMapping *mapping = location->mapping;
  SondeSymbolTable *table = ensure_table (self, mapping);
  guint64 file_offset = location->address - mapping->start + mapping->offset;
  g_autofree char *name = NULL;
  SondeSymbol symbol;
  guint64 vaddr;

  if (table != NULL && sonde_symbol_table_vaddr (table, file_offset, &vaddr)
      && sonde_symbol_table_lookup (table, vaddr, &symbol))
    return ensure_function (self, symbol.name, base_name (mapping->path));

  name = g_strdup_printf ("%s+0x%" G_GINT64_MODIFIER "x", base_name (mapping->path), file_offset);
  return ensure_function (self, name, base_name (mapping->path));
}

guint32
sonde_symbol_resolver_resolve (SondeSymbolResolver *self, guint32 location)
{
  const SondeLocation *where = sonde_capture_model_location (self->model, location);
  const SondeEmbeddedSymbols *symbols = sonde_capture_model_symbols (self->model);
  const char *jit = sonde_capture_model_jit_name (self->model, where->address);
  const char *kernel = where->in_kernel ? "[kernel]" : NULL;
  g_autofree char *address = NULL;
  const char *name;
  const char *tag;

  if (jit != NULL)
    return ensure_function (self, jit, kernel);
  if (symbols != NULL
      && sonde_embedded_symbols_lookup (symbols, where->pid, where->address, &name, &tag))
    return ensure_function (self, name, tag);
  if (where->mapping != NULL)
    return resolve_mapping (self, where);

  address = g_strdup_printf ("0x%" G_GINT64_MODIFIER "x", where->address);
  return ensure_function (self, address, kernel);
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
