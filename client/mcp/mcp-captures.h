/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Keeps the captures that were asked for, in a folder that nobody else sees and that goes with us.
 */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: mcp-captures
 *
 * Captures are called c1, c2 and so on. They lie in sonde-mcp/NUMBER of the user's run-time folder,
 * or, where there is none of his, of his caches. What a server that was killed left behind is
 * removed by the next one: each holds a lock on its folder.
 */
typedef struct SondeMcpCaptures SondeMcpCaptures;

#define SONDE_MCP_CAPTURES_MOST  16u
#define SONDE_MCP_CAPTURE_BYTES  (G_GINT64_CONSTANT (128) << 20) /* a recording ends there */
#define SONDE_MCP_CAPTURES_BYTES (G_GINT64_CONSTANT (256) << 20) /* older ones are removed */

/* Makes nothing yet. */
SondeMcpCaptures *sonde_mcp_captures_new (void);
void sonde_mcp_captures_free (SondeMcpCaptures *self); /* removes all */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMcpCaptures, sonde_mcp_captures_free)

/* (transfer full): the name of a capture that is to be; NULL: there is no place for it. The oldest
 * ones make room. */
char *sonde_mcp_captures_add (SondeMcpCaptures *self, GError **error);

/* Forgets the capture of that name, of which nothing came. */
void sonde_mcp_captures_remove (SondeMcpCaptures *self, const char *name);

/* (transfer full): where the capture of that name is, or is to be. */
char *sonde_mcp_captures_dup_path (const SondeMcpCaptures *self, const char *name);

/* Its size so far; 0: it is not there. */
gint64 sonde_mcp_captures_size (const SondeMcpCaptures *self, const char *name);

/**
 * sonde_mcp_captures_find:
 * @word: the name of a capture, or the absolute path of a file
 *
 * Returns: (transfer full): a path, or NULL with what is wrong with the word
 */
char *sonde_mcp_captures_find (const SondeMcpCaptures *self, const char *word, GError **error);
