/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A hash table of pointers to items, which have their keys. */
#pragma once

#include "base/hash.h"
#include "base/table.h"

typedef SondeTable SondeItemTable;

typedef bool (*SondeItemEqual) (const void *item, const void *key);

/* The first item with @hash that is @equal to @key; NULL if none. */
void *sonde_item_table_find (const SondeItemTable *self,
                             uint64_t hash,
                             SondeItemEqual equal,
                             const void *key);
/* Errors: -ENOMEM. The same item must not be added twice. */
int sonde_item_table_add (SondeItemTable *self, uint64_t hash, void *item);
void sonde_item_table_remove (SondeItemTable *self, uint64_t hash, const void *item);
/* All items in no order: start with *@position 0, NULL at the end. Nothing may be added or removed
 * meanwhile. */
void *sonde_item_table_next (const SondeItemTable *self, size_t *position);
