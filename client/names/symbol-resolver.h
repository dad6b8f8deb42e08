/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each location of a capture its functions: several where some are inlined. */
#pragma once

#include "client/model/call-tree.h"
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

/* The modules of what interpreted programs run themselves, ended by NULL; the first is that of
 * names without a tag. */
extern const char *const sonde_interpreted_modules[];

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

/* Looks up all locations that there are. Equal functions have equal numbers. */
void sonde_symbol_resolver_find_all (SondeSymbolResolver *self);

/* Looks @location up, without what is inlined there, if it was not and @end_us of the monotonic
 * clock is not over. Returns: whether it has its @function (out). */
gboolean sonde_symbol_resolver_find (SondeSymbolResolver *self,
                                     guint32 location,
                                     gint64 end_us,
                                     guint32 *function);

/* Looks up those of @tree, without what is inlined there, until @end_us of the monotonic clock. */
void sonde_symbol_resolver_find_some (SondeSymbolResolver *self,
                                      const SondeCallTree *tree,
                                      gint64 end_us);

/* (transfer full): by location, after that, its function; @unnamed: of those that have none yet */
guint32 *sonde_symbol_resolver_dup_functions (const SondeSymbolResolver *self, guint32 unnamed);

/* The functions of @location, outermost first; @n: (out): how many: none for which
 * sonde_symbol_resolver_find_some() had no time */
guint32 *sonde_symbol_resolver_get (const SondeSymbolResolver *self, guint32 location, guint32 *n);

/* Takes the frames that inlined functions add to @tree, whose ids are locations, of the model's
 * budget (SONDE_LIMIT_INLINED). Without room all locations lose what is inlined there. */
void sonde_symbol_resolver_make_room (SondeSymbolResolver *self, const SondeCallTree *tree);

/* @tree with functions in the place of locations; (transfer full). */
SondeCallTree *sonde_symbol_resolver_expand (const SondeSymbolResolver *self,
                                             const SondeCallTree *tree);

/* Keeps functions, but not which location has which: no location may be asked for any more. */
void sonde_symbol_resolver_forget_locations (SondeSymbolResolver *self);

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
