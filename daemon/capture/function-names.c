/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The functions of one module by name. */
#include "daemon/capture/function-names.h"

#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/fd.h"
#include "symbols/demangle.h"
#include "symbols/symbol-table.h"

struct SondeFunctionNames
{
  SondeModule *module;
  SondeSymbolTable *table; /* NULL: it has none */
  char *file_name;
};

/* The kernel maps the vdso without a file; a copy of ours is the same for all 64-bit processes. */
static int
open_vdso (void)
{
  const ElfW (Ehdr) *image = (const void *) getauxval (AT_SYSINFO_EHDR);
  sonde_autofd int fd = -1;
  gsize size_bytes;

  if (image == NULL)
    return -1;
  fd = memfd_create ("vdso", MFD_CLOEXEC);
  size_bytes = image->e_shoff + (gsize) image->e_shnum * image->e_shentsize;
  if (fd < 0 || write (fd, image, size_bytes) != (gssize) size_bytes)
    return -1;

  return sonde_steal_fd (&fd);
}

SondeFunctionNames *
sonde_function_names_new (SondeModule *module, const char *file_name)
{
  SondeFunctionNames *self = g_new0 (SondeFunctionNames, 1);
  int fd = sonde_module_fd (module);
  sonde_autofd int vdso = fd < 0 ? open_vdso () : -1;

  self->module = sonde_module_ref (module);
  self->file_name = g_strdup (file_name);
  if (sonde_symbol_table_new (fd < 0 ? vdso : fd, &self->table) < 0)
    self->table = NULL;

  return self;
}

void
sonde_function_names_free (SondeFunctionNames *self)
{
  if (self == NULL)
    return;

  sonde_symbol_table_free (self->table);
  sonde_module_unref (self->module);
  g_free (self->file_name);
  g_free (self);
}

const SondeModule *
sonde_function_names_module (const SondeFunctionNames *self)
{
  return self->module;
}

char *
sonde_function_names_find (const SondeFunctionNames *self,
                           uint64_t vaddr,
                           uint64_t *begin,
                           uint64_t *end)
{
  SondeSymbol symbol;

  if (self->table != NULL && sonde_symbol_table_lookup (self->table, vaddr, &symbol))
    {
      char *name = sonde_demangle (symbol.name);
      char *copy = g_strdup (name != NULL ? name : symbol.name);

      free (name);
      *begin = symbol.begin;
      *end = symbol.end;
      return copy;
    }
  if (!sonde_module_find_function (self->module, vaddr, begin, end) || vaddr < *begin
      || vaddr >= *end)
    {
      *begin = vaddr;
      *end = vaddr + 1;
    }

  return g_strdup_printf ("%s+0x%" PRIx64, self->file_name, *begin);
}
