/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Speaks the Model Context Protocol over two descriptors, a message a line, and runs what is asked.
 */
#pragma once

#include <gio/gio.h>

/**
 * SECTION: mcp-server
 *
 * Messages are JSON-RPC 2.0, as the revision that both sides know has it. What cannot be answered
 * with a result is answered with an error that names the byte, the member or the argument; a call
 * that fails is answered as the protocol has it for those who may try again. Nothing that a client
 * sends, or does not read, takes more memory than the bounds in mcp-server.c.
 */
typedef struct SondeMcpServer SondeMcpServer;

typedef void (*SondeMcpServerDone) (gpointer user_data);

/* @done: is called when the client has closed its end, or cannot be reached. */
SondeMcpServer *
sonde_mcp_server_new (int in_fd, int out_fd, SondeMcpServerDone done, gpointer user_data);

/* Ends what runs, and removes the captures. */
void sonde_mcp_server_free (SondeMcpServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeMcpServer, sonde_mcp_server_free)
