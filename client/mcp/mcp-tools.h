/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tools: which commands of sondectl each runs, and what it answers of what they print. */
#pragma once

#include "client/mcp/mcp-arguments.h"
#include "client/mcp/mcp-captures.h"
#include "client/mcp/mcp-child.h"

#define SONDE_MCP_MAX_STEPS 2u

typedef struct SondeMcpTool SondeMcpTool;

/* A call while it is worked on. */
typedef struct
{
  SondeMcpArguments arguments;
  SondeMcpCaptures *captures; /* (transfer none) */
  char *capture;              /* the one that it makes; NULL: none */
  char *printed;              /* the end of what a command that was recorded wrote */
  char *said;
  int wait_status;
  SondeJsonDocument *told[SONDE_MCP_MAX_STEPS]; /* what each step printed; NULL: no answer */
} SondeMcpWork;

void sonde_mcp_work_clear (SondeMcpWork *self);

/* (nullable): NULL if there is none of that name. */
const SondeMcpTool *sonde_mcp_tool_find (const char *name);

/* The member "tools" of the answer to tools/list. */
void sonde_mcp_tools_add_list (SondeJson *json);

/* Complains of arguments by name. */
gboolean
sonde_mcp_tool_check (const SondeMcpTool *self, const SondeMcpArguments *arguments, GError **error);

guint sonde_mcp_tool_n_steps (const SondeMcpTool *self);

/* How long it records, for who wants to know how far it is; 0: it does not. */
double sonde_mcp_tool_seconds (const SondeMcpTool *self, const SondeMcpArguments *arguments);

/**
 * sonde_mcp_tool_build:
 * @argv: the words of sondectl are added to it, and the NULL behind them
 * @options: (out): whose folder is that of an argument
 */
gboolean sonde_mcp_tool_build (const SondeMcpTool *self,
                               SondeMcpWork *work,
                               guint step,
                               GPtrArray *argv,
                               SondeMcpChildOptions *options,
                               GError **error);

/* (transfer full): a JSON object; NULL: it says why there is none */
char *sonde_mcp_tool_answer (const SondeMcpTool *self, const SondeMcpWork *work, GError **error);
