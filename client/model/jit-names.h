/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names of made-up addresses in a capture. */
#pragma once

#include <glib.h>

#include "protocol/frame.h"

typedef struct SondeJitNames SondeJitNames;

/* Whether @address is a made-up one. */
static inline gboolean
sonde_jit_names_cover (guint64 address)
{
  return address >= SONDE_JIT_ADDRESS_BASE && address < 0xF000000000000000u;
}

SondeJitNames *sonde_jit_names_new (void);

/* Without the names that others have replaced. */
SondeJitNames *sonde_jit_names_dup (const SondeJitNames *self);
void sonde_jit_names_free (SondeJitNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeJitNames, sonde_jit_names_free)

/* @frame: accepted by sonde_frame_check(); its names replace older ones */
void sonde_jit_names_add (SondeJitNames *self, const SondeFrameJitmap *frame);

/* The name of @address, which may be invalid UTF-8, or NULL. */
const char *sonde_jit_names_lookup (const SondeJitNames *self, guint64 address);
