/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the separate debug file of an ELF file. */
#pragma once

#include <glib.h>

#include "symbols/debug-reference.h"

#define SONDE_DEBUG_DIRECTORY "/usr/lib/debug"
#define SONDE_PROGRAM_LINKS   "/usr/lib" /* Fedora's: ".build-id" below it leads to the programs */

typedef struct SondeDebugFiles SondeDebugFiles;

/* @directory: absolute, usually SONDE_DEBUG_DIRECTORY. A server is told the build ids of what was
 * profiled, so it is asked only where the user named one, in DEBUGINFOD_URLS. libdebuginfod keeps
 * what it got in its own cache, and heeds its other variables.
 * Source: debuginfod-client-config(7) */
SondeDebugFiles *sonde_debug_files_new (const char *directory);
void sonde_debug_files_free (SondeDebugFiles *self); /* accepts NULL */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (SondeDebugFiles, sonde_debug_files_free)

/**
 * sonde_debug_files_open:
 * @path: of the file that @reference was read from; only its folder and name are used
 *
 * @refusal: (inout) (nullable): the first file that was found but is another one's, and why it is
 *   not used, unless it is set already: "/usr/lib/debug/… has another build id"
 *
 * Looks below the directory by build id, which must be that of the file found; then by debuglink
 * beside the file, in ".debug" there, and below the directory, where the checksum must be right;
 * then asks the servers.
 *
 * Returns: a descriptor, or -1
 */
int sonde_debug_files_open (SondeDebugFiles *self,
                            const char *path,
                            const SondeDebugReference *reference,
                            char **refusal);

/* The same for the program or library itself, by build id alone: links below the directory and
 * below SONDE_PROGRAM_LINKS, then the servers. @name: for the progress */
int sonde_debug_files_open_program (SondeDebugFiles *self,
                                    const char *name,
                                    const SondeDebugReference *reference,
                                    char **refusal);

/* "no debug file in /usr/lib/debug for build id 12ab…", to complete a sentence. */
char *sonde_debug_files_describe_miss (const SondeDebugFiles *self,
                                       const SondeDebugReference *reference);
