/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Builds the embedded file "__symbols__". */
#pragma once

#include <glib.h>

typedef struct SondeSymbolsBuilder SondeSymbolsBuilder;

SondeSymbolsBuilder *sonde_symbols_builder_new (void);
void sonde_symbols_builder_free (SondeSymbolsBuilder *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeSymbolsBuilder, sonde_symbols_builder_free)

/* @begin, @end: bytes, both inclusive
 * @tag: (nullable): base name of the module. Does nothing once the file would be too large. */
void sonde_symbols_builder_add (SondeSymbolsBuilder *self,
                                gint32 pid,
                                guint64 begin,
                                guint64 end,
                                const char *name,
                                const char *tag);

/* Records; after sonde_symbols_builder_build() those that the file has. */
guint sonde_symbols_builder_size (const SondeSymbolsBuilder *self);

/* (transfer full): the file. Of records that overlap the one that begins later cuts the other, of
 * those that begin together the one added first holds. */
GByteArray *sonde_symbols_builder_build (SondeSymbolsBuilder *self);
