/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Made-up addresses for names that have no address of their own, or none that may be told. */
#pragma once

#include <glib.h>
#include <stdint.h>

/* Names of one session: bounds memory, and every reader's. Later ones share one address. */
#define SONDE_JIT_NAMES_MAX       65536
#define SONDE_JIT_NAMES_MAX_BYTES (32u << 20)

typedef struct SondeJitNames SondeJitNames;

SondeJitNames *sonde_jit_names_new (void);
void sonde_jit_names_free (SondeJitNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeJitNames, sonde_jit_names_free)

/* @is_new: (out): the name was not known; a JITMAP frame must come before the address is used. */
uint64_t sonde_jit_names_intern (SondeJitNames *self, const char *name, gboolean *is_new);

/* A name for an @address outside of the made-up ones. FALSE: it has one, or there are too many. */
gboolean sonde_jit_names_add (SondeJitNames *self, uint64_t address, const char *name);

guint sonde_jit_names_count (const SondeJitNames *self);
/* The @index-th name in the order in which they came; NULL behind the last. */
const char *sonde_jit_names_get (const SondeJitNames *self, guint index, uint64_t *address);
