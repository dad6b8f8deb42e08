/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Files from debuginfod servers, by build id. */
#pragma once

#include <glib.h>

/**
 * SECTION: debug-server
 *
 * A server is told the build ids of what was profiled, so it is asked only where the user named
 * one, in DEBUGINFOD_URLS. libdebuginfod keeps what it got in its own cache, and heeds its other
 * variables. Source: debuginfod-client-config(7)
 */
typedef struct SondeDebugServer SondeDebugServer;

/* Returns: NULL if no server is named */
SondeDebugServer *sonde_debug_server_new (void);
void sonde_debug_server_free (SondeDebugServer *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeDebugServer, sonde_debug_server_free)

/**
 * sonde_debug_server_open:
 * @build_id: in hexadecimal
 * @name: of the program, for the line of progress that a terminal gets
 *
 * Waits for the server. Returns: a descriptor of the debug file, or -1
 */
int sonde_debug_server_open (SondeDebugServer *self, const char *build_id, const char *name);
/* The same of the program or library itself. */
int
sonde_debug_server_open_program (SondeDebugServer *self, const char *build_id, const char *name);
