/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each location of a capture a function. */
#pragma once

#include "client/model/capture-model.h"

/**
 * SECTION: symbol-resolver
 *
 * Names come, in this order, from the capture's JITMAP, from its embedded symbols, from the ELF
 * file on this machine if it is still the one that was mapped (same inode, or same build id) and
 * from its debug file, else they are made of module and offset, or of the address. What comes out
 * is escaped and safe to print. Function 0 is SONDE_TRUNCATED: of SONDE_LOCATION_TRUNCATED, and of
 * locations whose names have no room; no name is longer than SONDE_MAX_NAME_BYTES.
 */
typedef struct SondeSymbolResolver SondeSymbolResolver;

typedef struct
{
  gboolean inlines;            /* inlined functions are functions, too */
  gboolean lines;              /* functions are told apart by line: they have a source */
  const char *debug_directory; /* NULL: SONDE_DEBUG_DIRECTORY */
  const char *cache_folder;    /* where lines are kept for the next time; NULL: nowhere */
} SondeSymbolOptions;

typedef struct
{
  const char *name;   /* "long_add", "libfoo.so+0x1234", "[kernel]" */
  const char *module; /* "libc.so.6", "[kernel]", "" if unknown */
  const char *source; /* "adler32.c:82", "" if unknown or not asked for */
} SondeFunction;

/* An address of a location in a file on this machine. */
typedef struct
{
  guint64 begin; /* bytes, of the process: the symbol's first address */
  guint64 end;   /* bytes, of the process: the first one behind it */
} SondeSymbolRange;

/**
 * sonde_symbol_resolver_new:
 * @model: (transfer none): complete, and kept by the caller as long as the resolver
 * @options: (nullable): copied
 */
SondeSymbolResolver *sonde_symbol_resolver_new (const SondeCaptureModel *model,
                                                const SondeSymbolOptions *options);
void sonde_symbol_resolver_free (SondeSymbolResolver *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSymbolResolver, sonde_symbol_resolver_free)

/* Of the model, by now. */
guint32 sonde_symbol_resolver_n_locations (const SondeSymbolResolver *self);

/* Whether inlined functions were asked for. */
gboolean sonde_symbol_resolver_has_inlines (const SondeSymbolResolver *self);

/* The number of the function that holds @location; equal functions have equal numbers. */
guint32 sonde_symbol_resolver_resolve (SondeSymbolResolver *self, guint32 location);

/* Appends (guint32) the number of that function, and of those inlined there, outermost first. */
void
sonde_symbol_resolver_resolve_all (SondeSymbolResolver *self, guint32 location, GArray *functions);

/**
 * sonde_symbol_resolver_find_range:
 *
 * Looks for @location in its file alone, not in what the capture says.
 *
 * Returns: (transfer full): the name, not demangled, of foreign origin; NULL if there is none
 */
char *sonde_symbol_resolver_find_range (SondeSymbolResolver *self,
                                        guint32 location,
                                        SondeSymbolRange *range);

guint32 sonde_symbol_resolver_n_functions (const SondeSymbolResolver *self);
const SondeFunction *sonde_symbol_resolver_function (const SondeSymbolResolver *self,
                                                     guint32 function);

/* A line for each file with locations that have no name, and why: "libfoo.so: 12 places have no
 * name: stripped, and ..." */
void sonde_symbol_resolver_append_misses (const SondeSymbolResolver *self, GString *out);
