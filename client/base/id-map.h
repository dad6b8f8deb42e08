/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A compact hash table from 64-bit keys to 32-bit numbers. */
#pragma once

#include <glib.h>

/* Keys may come from a hostile capture: the hash is seeded at random. Entries cannot be removed. */
typedef struct SondeIdMap SondeIdMap;

SondeIdMap *sonde_id_map_new (void);
SondeIdMap *sonde_id_map_new_sized (guint32 n); /* has room for so many */
SondeIdMap *sonde_id_map_dup (const SondeIdMap *self);
void sonde_id_map_free (SondeIdMap *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeIdMap, sonde_id_map_free)

/* @id is set only if @key is there. */
gboolean sonde_id_map_lookup (const SondeIdMap *self, guint64 key, guint32 *id);

/* Adds @key or replaces its number. */
void sonde_id_map_set (SondeIdMap *self, guint64 key, guint32 id);

/* The same of a key that is not there, without a look. */
void sonde_id_map_add (SondeIdMap *self, guint64 key, guint32 id);

guint32 sonde_id_map_size (const SondeIdMap *self);
