/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The names of made-up addresses in a capture. */
#pragma once

#include "client/base/text-pool.h"
#include "protocol/frame.h"

typedef struct SondeJitNames SondeJitNames;

/* Whether @address is a made-up one. */
static inline gboolean
sonde_jit_names_cover (guint64 address)
{
  return address >= SONDE_JIT_ADDRESS_BASE && address < 0xF000000000000000u;
}

/* @budget: of which SONDE_LIMIT_NAMES is taken; @texts: both are kept by the caller as long as the
 * names */
SondeJitNames *sonde_jit_names_new (SondeBudget *budget, SondeTextPool *texts);

/* Adds those of @source, but for names that others have replaced. */
void sonde_jit_names_copy (SondeJitNames *self, const SondeJitNames *source);
void sonde_jit_names_free (SondeJitNames *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeJitNames, sonde_jit_names_free)

/* @frame: accepted by sonde_frame_check(); its names replace older ones */
void sonde_jit_names_add (SondeJitNames *self, const SondeFrameJitmap *frame);

/* The name of @address, which may be invalid UTF-8, or NULL. */
const char *sonde_jit_names_lookup (const SondeJitNames *self, guint64 address);
