/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Texts of a capture, equal ones kept once. */
#pragma once

#include "client/base/budget.h"

typedef struct SondeTextPool SondeTextPool;

/* @budget: of which SONDE_LIMIT_TEXT is taken; kept by the caller as long as the pool */
SondeTextPool *sonde_text_pool_new (SondeBudget *budget);
void sonde_text_pool_free (SondeTextPool *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeTextPool, sonde_text_pool_free)

/* As much of @text as @max_bytes hold, valid as long as the pool; SONDE_TRUNCATED if there is no
 * room left. */
const char *sonde_text_pool_add (SondeTextPool *self, const char *text, gsize max_bytes);
