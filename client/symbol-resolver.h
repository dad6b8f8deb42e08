/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Gives each location of a capture a function. */
#pragma once

#include "client/capture-model.h"

/**
 * SECTION: symbol-resolver
 *
 * Names come, in this order, from the capture's JITMAP, from its embedded symbols, from the ELF
 * file on this machine if it is still the one that was mapped (same inode), else they are made of
 * module and offset, or of the address. What comes out is escaped and safe to print.
 */
typedef struct SondeSymbolResolver SondeSymbolResolver;

typedef struct
{
  char *name;   /* "long_add", "libfoo.so+0x1234", "[kernel]" */
  char *module; /* "libc.so.6", "[kernel]", "" if unknown */
} SondeFunction;

/* @model: (transfer none): complete, and kept by the caller as long as the resolver */
SondeSymbolResolver *sonde_symbol_resolver_new (const SondeCaptureModel *model);
void sonde_symbol_resolver_free (SondeSymbolResolver *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSymbolResolver, sonde_symbol_resolver_free)

/* The number of the function that holds @location; equal functions have equal numbers. */
guint32 sonde_symbol_resolver_resolve (SondeSymbolResolver *self, guint32 location);

guint32 sonde_symbol_resolver_n_functions (const SondeSymbolResolver *self);
const SondeFunction *sonde_symbol_resolver_function (const SondeSymbolResolver *self,
                                                     guint32 function);
