/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "daemon/capture/names/function-names.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/fd.h"
#include "symbols/demangle.h"
#include "symbols/symbol-table.h"
#include "unwind/module.h"

struct SondeFunctionNames
{
  int fd; /* owned; -1: nothing but the file's name is known */
  char *file_name;
  SondeSymbolTable *table; /* NULL: it has none */
  SondeModuleStore *store; /* of one module; NULL until a symbol is missing for the first time */
  SondeUnwindModule *unwind_data; /* where its functions begin and end; NULL: unknown */
};

SondeFunctionNames *
sonde_function_names_new (int fd, const char *file_name)
{
  SondeFunctionNames *self = g_new0 (SondeFunctionNames, 1);

  self->fd = fd >= 0 ? fcntl (fd, F_DUPFD_CLOEXEC, 0) : -1;
  self->file_name = g_strdup (file_name);
  if (self->fd >= 0 && sonde_symbol_table_new (self->fd, &self->table) < 0)
    self->table = NULL;

  return self;
}

void
sonde_function_names_free (SondeFunctionNames *self)
{
  if (self == NULL)
    return;

  sonde_symbol_table_free (self->table);
  sonde_module_store_free (self->store);
  sonde_clear_fd (&self->fd);
  g_free (self->file_name);
  g_free (self);
}

static gboolean
find_bounds (SondeFunctionNames *self, uint64_t vaddr, uint64_t *begin, uint64_t *end)
{
  const SondeFileId id = { .inode = 1 };

  if (self->store == NULL && self->fd >= 0)
    {
      self->store = sonde_module_store_new (SONDE_MODULE_STORE_MAX_BYTES);
      if (self->store == NULL)
        return FALSE;
      if (sonde_module_store_load (self->store, &id, fcntl (self->fd, F_DUPFD_CLOEXEC, 0)) == 0)
        sonde_module_store_lookup (self->store, &id, &self->unwind_data);
    }

  return self->unwind_data != NULL
         && sonde_module_find_function (self->unwind_data, vaddr, begin, end) && vaddr >= *begin
         && vaddr < *end;
}

char *
sonde_function_names_find (SondeFunctionNames *self, uint64_t vaddr, uint64_t *begin, uint64_t *end)
{
  SondeSymbol symbol;

  if (self->table != NULL && sonde_symbol_table_lookup (self->table, vaddr, &symbol))
    {
      char *name = sonde_demangle (symbol.name);
      char *copy = g_strndup (name != NULL ? name : symbol.name, SONDE_FUNCTION_NAME_MAX);

      free (name);
      *begin = symbol.begin;
      *end = symbol.end;
      return copy;
    }
  if (!find_bounds (self, vaddr, begin, end))
    {
      *begin = vaddr;
      *end = vaddr + 1;
    }

  return g_strdup_printf ("%s+0x%" PRIx64, self->file_name, *begin);
}
