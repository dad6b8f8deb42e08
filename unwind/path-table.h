/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each path once, however many mappings name it. */
#pragma once

#include "unwind/hash.h"

typedef struct
{
  SondeHash paths;
  size_t n_bytes;
} SondePathTable;

/* One reference to the table's copy of @text; NULL on ENOMEM. */
const char *sonde_path_table_intern (SondePathTable *self, const char *text);
/* One more reference to a path of the table. */
const char *sonde_path_table_ref (const char *path);
void sonde_path_table_unref (SondePathTable *self, const char *path); /* accepts NULL */
/* All references must be gone. */
void sonde_path_table_clear (SondePathTable *self);
