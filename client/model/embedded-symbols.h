/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names that a capture carries in its embedded file "__symbols__". */
#pragma once

#include <glib.h>

#include "protocol/frame.h"

#define SONDE_EMBEDDED_SYMBOLS_PATH      "__symbols__"
#define SONDE_EMBEDDED_SYMBOLS_MAX_BYTES (128u << 20) /* a report keeps them twice */

typedef struct SondeEmbeddedSymbols SondeEmbeddedSymbols;

/**
 * sonde_embedded_symbols_new:
 * @bytes: (transfer full): the whole file, of foreign origin; records need not be sorted
 *
 * Records whose strings lie outside of the file or lack their NUL are left out; strings are cut
 * behind SONDE_MAX_PATH_BYTES.
 */
SondeEmbeddedSymbols *sonde_embedded_symbols_new (GByteArray *bytes);
void sonde_embedded_symbols_free (SondeEmbeddedSymbols *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeEmbeddedSymbols, sonde_embedded_symbols_free)

gsize sonde_embedded_symbols_size (const SondeEmbeddedSymbols *self);

/* The record @index, its strings checked; its offsets are into the file. */
const SondeSymbolRecord *sonde_embedded_symbols_get (const SondeEmbeddedSymbols *self, gsize index);

/* @name, @tag: (out) (transfer none): as below */
void sonde_embedded_symbols_texts (const SondeEmbeddedSymbols *self,
                                   const SondeSymbolRecord *record,
                                   const char **name,
                                   const char **tag);

/* What recorders embed where a file had no symbol: "TAG+0x1234". */
gboolean sonde_embedded_symbols_is_made_up (const char *name, const char *tag);

/* @index: (out): of the record that holds @address; FALSE if none does */
gboolean sonde_embedded_symbols_find (const SondeEmbeddedSymbols *self,
                                      gint32 pid,
                                      guint64 address,
                                      gsize *index);

/**
 * sonde_embedded_symbols_lookup:
 * @name: (out) (transfer none): may be invalid UTF-8
 * @tag: (out) (transfer none): the module's base name, or NULL
 */
gboolean sonde_embedded_symbols_lookup (const SondeEmbeddedSymbols *self,
                                        gint32 pid,
                                        guint64 address,
                                        const char **name,
                                        const char **tag);
