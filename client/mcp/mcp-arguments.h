/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Describes and checks, by one table for both, what a tool may be given. */
#pragma once

#include "client/base/json.h"
#include "client/base/json-document.h"

typedef enum
{
  SONDE_MCP_TEXT,
  SONDE_MCP_WORD,    /* a text that is one of @words */
  SONDE_MCP_TEXTS,   /* an array of at least one */
  SONDE_MCP_INTEGER, /* from @least to @most */
  SONDE_MCP_NUMBER,
} SondeMcpType;

typedef struct
{
  const char *name;
  SondeMcpType type;
  const char *description;
  gboolean is_required;
  double least;
  double most;
  const char *const *words; /* the first one is what it is without the argument */
} SondeMcpArgument;

#define SONDE_MCP_MAX_TEXT_BYTES 4096u /* of one text */
#define SONDE_MCP_MAX_TEXTS      256u

/* @table ends with a row without a name. */
void
sonde_mcp_arguments_add_schema (SondeJson *json, const char *member, const SondeMcpArgument *table);

/* What came for a tool, once it was checked. */
typedef struct
{
  const SondeJsonDocument *document;
  guint32 object; /* whose members they are; absent: none */
} SondeMcpArguments;

/* The message says which argument is wrong, and what it has to be. */
gboolean sonde_mcp_arguments_check (const SondeMcpArguments *self,
                                    const SondeMcpArgument *table,
                                    GError **error);

/* What is not there: NULL, the first of the row's words, or @otherwise. */
const char *sonde_mcp_arguments_text (const SondeMcpArguments *self, const char *name);
const char *sonde_mcp_arguments_word (const SondeMcpArguments *self,
                                      const SondeMcpArgument *table,
                                      const char *name);
double
sonde_mcp_arguments_number (const SondeMcpArguments *self, const char *name, double otherwise);
