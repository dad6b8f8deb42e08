/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Interns the names of addresses that no file has, and makes up addresses for names without one. */
#pragma once

#include <glib.h>
#include <stdint.h>

/* Names of one session: bounds memory, and every reader's. Later ones share one address. */
#define SONDE_ADDRESS_NAMES_MAX       65536
#define SONDE_ADDRESS_NAMES_MAX_BYTES (32u << 20)

typedef struct SondeAddressNames SondeAddressNames;

SondeAddressNames *sonde_address_names_new (void);
void sonde_address_names_free (SondeAddressNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeAddressNames, sonde_address_names_free)

/* @is_new: (out): the name was not known; a JITMAP frame must come before the address is used. */
uint64_t sonde_address_names_intern (SondeAddressNames *self, const char *name, gboolean *is_new);

/* A name for an @address outside of the made-up ones. FALSE: it has one, or there are too many. */
gboolean sonde_address_names_add (SondeAddressNames *self, uint64_t address, const char *name);

guint sonde_address_names_count (const SondeAddressNames *self);
/* The @index-th name in the order in which they came; NULL behind the last. */
const char *sonde_address_names_get (const SondeAddressNames *self, guint index, uint64_t *address);
