/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps what functions of interpreted programs are called, by process and address. */
#pragma once

#include <glib.h>

#include "daemon/base/walk.h"
#include "daemon/capture/interpreter/runtime.h"

#define SONDE_CODE_TABLE_MAX_CODES 65536
#define SONDE_CODE_TABLE_MAX_BYTES (32u << 20)
#define SONDE_CODE_RECENT          16 /* a power of two */

/* A made-up address, as it was last asked for. */
typedef struct
{
  uint32_t at;
  uint32_t is_set;
  uint64_t made_up;
} SondeCodePlace;

typedef struct
{
  char *name; /* UTF-8, printable; with that of its class; "": it is outside of functions */
  char *file; /* the last part of its path, the same; with the folder of one that all have */
  uint32_t first_line;
  uint32_t first_instruction;
  uint8_t *lines;
  size_t lines_bytes;
  size_t n_bytes; /* that it takes */
  SondeCodePlace recent[SONDE_CODE_RECENT];
} SondeCode;

typedef struct SondeCodeTable SondeCodeTable;

SondeCodeTable *sonde_code_table_new (void);
void sonde_code_table_free (SondeCodeTable *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeCodeTable, sonde_code_table_free)

/* Takes the place of one at the same address. @record: a checked one. FALSE: there are too many */
gboolean sonde_code_table_add (SondeCodeTable *self, const SondeWalkCode *record);
/* NULL: it was not told of */
SondeCode *sonde_code_table_find (SondeCodeTable *self, int32_t pid, uint64_t address);
/* The process is over, or runs another program. */
void sonde_code_table_forget (SondeCodeTable *self, int32_t pid);

guint sonde_code_table_n_codes (const SondeCodeTable *self);
gsize sonde_code_table_bytes (const SondeCodeTable *self);

/* @at: see sonde_line_table_find(). Returns: (transfer full): "name (file:line)" and the tag of its
 * kind */
char *sonde_code_describe (const SondeCode *self, const SondeRuntime *runtime, int64_t at);
