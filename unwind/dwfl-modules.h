/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tells a Dwfl of modules as the mappings of its process change. */
#pragma once

#include <elfutils/libdwfl.h>

#include "unwind/process-table.h"

#define SONDE_DWFL_MAX_MODULES 1024 /* libdwfl's list is walked for each one reported */
#define SONDE_DWFL_MAX_ENTRIES 4

typedef struct
{
  SondeUnwindModule *module; /* owned reference */
  uint64_t low;              /* the image's first page; libdwfl computes the bias from it */
  uint64_t high;
  uint64_t bias;
} SondeDwflModule;

typedef struct
{
  SondeDwflModule *modules; /* sorted by low, not overlapping */
  size_t n_modules;
  SondeDwflModule entries[SONDE_DWFL_MAX_ENTRIES]; /* borrowed; those with entry code without CFI */
  size_t n_entries;
} SondeDwflModules;

/* The callbacks never open a file: what libdwfl may see comes out of sonde_module_elf(). */
extern const Dwfl_Callbacks sonde_dwfl_callbacks;

/* Reports the modules of @process to @dwfl: only the new ones if none went, else all of them.
 * Errors: -ENOMEM. */
int sonde_dwfl_modules_update (SondeDwflModules *self, Dwfl *dwfl, const SondeProcess *process);
/* After dwfl_end(). */
void sonde_dwfl_modules_clear (SondeDwflModules *self);
/* See sonde_module_is_entry(). */
bool sonde_dwfl_modules_is_entry (const SondeDwflModules *self, uint64_t address);
