/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Writes what a tool answers: an object with rows, as many as have room, and where they go on. */
#pragma once

#include "client/base/json.h"
#include "client/base/json-document.h"

/**
 * SECTION: mcp-answer
 *
 * An answer has at most %SONDE_MCP_ANSWER_BYTES. What has more rows ends with a member "next",
 * which the caller gives back as the argument "cursor"; "total-rows" tells how many there are.
 * Names come from what was profiled: they were escaped where they were read, and are cut here.
 */
#define SONDE_MCP_ANSWER_BYTES 8192u
#define SONDE_MCP_NAME_BYTES   240u /* of a name as it is shown; its middle is left out */

typedef struct
{
  GString *out; /* (owned) */
  SondeJson json;
  guint64 from; /* the first row that is asked for */
  guint64 n_rows;
  guint64 n_shown;
  gboolean is_full;
  gsize row_begin;        /* of the row that is written */
  gboolean row_has_value; /* what the writer knew before it */
} SondeMcpAnswer;

/* @cursor: (nullable): of an earlier answer; FALSE if none of ours looks so. */
gboolean sonde_mcp_answer_init (SondeMcpAnswer *self, const char *cursor, GError **error);
void sonde_mcp_answer_clear (SondeMcpAnswer *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (SondeMcpAnswer, sonde_mcp_answer_clear)

/* (transfer full): @name cut to so many bytes, at whole characters. */
char *sonde_mcp_cut (const char *name, gsize n_bytes);

/* Cuts @name, which is NULL where there is none: then there is no member either. */
void sonde_mcp_answer_add_name (SondeMcpAnswer *self, const char *member, const char *name);

/* Rows, as objects of an array. One that is not asked for, or has no room, is left out at its end.
 */
void sonde_mcp_answer_begin_rows (SondeMcpAnswer *self, const char *member);
void sonde_mcp_answer_begin_row (SondeMcpAnswer *self);
void sonde_mcp_answer_end_row (SondeMcpAnswer *self);
void sonde_mcp_answer_end_rows (SondeMcpAnswer *self);

/* (transfer full): the whole object; FALSE if the cursor is behind the last row. */
char *sonde_mcp_answer_finish (SondeMcpAnswer *self, GError **error);
