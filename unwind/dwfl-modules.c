/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unwind/dwfl-modules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int
find_elf (Dwfl_Module *dwfl_module,
          void **user_data,
          const char *name,
          Dwarf_Addr base,
          char **file_name,
          Elf **elf)
{
  SondeUnwindModule *module = *user_data;
  Elf *shared = module != NULL ? sonde_module_elf (module) : NULL;

  /* one more reference to it, which libdwfl gives back with elf_end() */
  if (shared != NULL)
    *elf = elf_begin (-1, ELF_C_READ, shared);
  return -1;
}

static int
find_debuginfo (Dwfl_Module *module,
                void **user_data,
                const char *name,
                Dwarf_Addr base,
                const char *file_name,
                const char *debuglink_file,
                GElf_Word debuglink_crc,
                char **debuginfo_file_name)
{
  return -1;
}

const Dwfl_Callbacks sonde_dwfl_callbacks = {
  .find_elf = find_elf,
  .find_debuginfo = find_debuginfo,
};

static int
compare_modules (const void *a, const void *b)
{
  const SondeDwflModule *left = a;
  const SondeDwflModule *right = b;

  if (left->low != right->low)
    return left->low < right->low ? -1 : 1;
  return left->high < right->high ? -1 : left->high > right->high;
}

/* An image whose range runs into the next one's loses the rest: there the other was mapped. */
static size_t
remove_overlaps (SondeDwflModule *modules, size_t n_modules)
{
  size_t n_kept = 0;

  for (size_t i = 0; i < n_modules; i++)
    {
      if (n_kept > 0 && modules[n_kept - 1].low == modules[i].low)
        continue;
      if (n_kept > 0 && modules[n_kept - 1].high > modules[i].low)
        modules[n_kept - 1].high = modules[i].low;
      modules[n_kept++] = modules[i];
    }
  return n_kept;
}

/* The images behind the mappings, each once, without references yet. */
static SondeDwflModule *
collect (const SondeProcess *process, size_t *n_modules)
{
  size_t n_mappings;
  const SondeProcessMapping *mappings = sonde_process_mappings (process, &n_mappings);
  SondeDwflModule *modules = calloc (n_mappings + 1, sizeof *modules);
  size_t n = 0;

  if (modules == NULL)
    return NULL;
  for (size_t i = 0; i < n_mappings && n < SONDE_DWFL_MAX_MODULES; i++)
    {
      SondeDwflModule *module = &modules[n];
      uint64_t low;
      uint64_t high;

      if (mappings[i].module == NULL
          || (n > 0 && modules[n - 1].module == mappings[i].module
              && modules[n - 1].bias == mappings[i].bias))
        continue;
      sonde_module_extent (mappings[i].module, &low, &high);
      *module = (SondeDwflModule){
        .module = mappings[i].module,
        .low = low + mappings[i].bias,
        .high = high + mappings[i].bias,
        .bias = mappings[i].bias,
      };
      if (module->low < module->high)
        n++;
    }
  qsort (modules, n, sizeof *modules, compare_modules);
  *n_modules = remove_overlaps (modules, n);
  return modules;
}

static bool
is_same (const SondeDwflModule *a, const SondeDwflModule *b)
{
  return a->module == b->module && a->low == b->low && a->high == b->high;
}

/* Is each of the old ones among the new ones? Both are sorted. */
static bool
only_adds (const SondeDwflModules *old, const SondeDwflModule *modules, size_t n_modules)
{
  size_t j = 0;

  for (size_t i = 0; i < old->n_modules; i++)
    {
      while (j < n_modules && !is_same (&old->modules[i], &modules[j]))
        j++;
      if (j++ == n_modules)
        return false;
    }
  return true;
}

static int
report (Dwfl *dwfl, const SondeDwflModule *module)
{
  Dwfl_Module *dwfl_module;
  void **user_data;
  char name[16];

  /* part of libdwfl's key, so that another file at the same place is another module */
  snprintf (name, sizeof name, "%u", sonde_module_id (module->module));
  dwfl_module = dwfl_report_module (dwfl, name, module->low, module->high);
  if (dwfl_module == NULL)
    return -ENOMEM;
  dwfl_module_info (dwfl_module, &user_data, NULL, NULL, NULL, NULL, NULL, NULL);
  *user_data = module->module;
  return 0;
}

static int
report_all (const SondeDwflModules *self, Dwfl *dwfl, const SondeDwflModule *modules, size_t n)
{
  bool adds = only_adds (self, modules, n);
  size_t j = 0;
  int r = 0;

  if (adds)
    dwfl_report_begin_add (dwfl);
  else
    dwfl_report_begin (dwfl);
  for (size_t i = 0; i < n && r == 0; i++)
    {
      if (adds && j < self->n_modules && is_same (&self->modules[j], &modules[i]))
        j++;
      else
        r = report (dwfl, &modules[i]);
    }
  dwfl_report_end (dwfl, NULL, NULL);
  return r;
}

int
sonde_dwfl_modules_update (SondeDwflModules *self, Dwfl *dwfl, const SondeProcess *process)
{
  SondeDwflModules old = *self;
  size_t n_modules;
  SondeDwflModule *modules = collect (process, &n_modules);
  int r;

  if (modules == NULL)
    return -ENOMEM;
  for (size_t i = 0; i < n_modules; i++)
    sonde_module_ref (modules[i].module);
  r = report_all (&old, dwfl, modules, n_modules);
  self->modules = modules;
  self->n_modules = n_modules;
  self->n_entries = 0;
  for (size_t i = 0; i < n_modules && self->n_entries < SONDE_DWFL_MAX_ENTRIES; i++)
    if (sonde_module_has_bare_entry (modules[i].module))
      self->entries[self->n_entries++] = modules[i];
  /* Only now: until dwfl_report_end() the Dwfl may have used them. */
  sonde_dwfl_modules_clear (&old);
  return r;
}

void
sonde_dwfl_modules_clear (SondeDwflModules *self)
{
  for (size_t i = 0; i < self->n_modules; i++)
    sonde_module_unref (self->modules[i].module);
  free (self->modules);
  *self = (SondeDwflModules){ 0 };
}

bool
sonde_dwfl_modules_is_entry (const SondeDwflModules *self, uint64_t address)
{
  for (size_t i = 0; i < self->n_entries; i++)
    if (sonde_module_is_entry (self->entries[i].module, address - self->entries[i].bias))
      return true;
  return false;
}
