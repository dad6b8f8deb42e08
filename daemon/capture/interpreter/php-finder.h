/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads in the ELF files of PHP where its frames are found. */
#pragma once

#include "daemon/capture/interpreter/runtime.h"

/**
 * SECTION: php-finder
 *
 * All of PHP's state is in `executor_globals`. What that and the structs behind it are like says a
 * text of its constants: the one that PHP compares before it loads an extension, which was compiled
 * for the same structs ("API20220829,NTS"). That the size of `executor_globals` is that of the
 * version is a second sign. Nothing is guessed: with threads, for debugging, or of a version that
 * the table has not, it is one whose frames are not known.
 */
bool sonde_php_has_name (const char *file_name);
/* As SondeRuntimeKind has it. */
int sonde_php_find (const SondeElfFile *file,
                    const char *file_name,
                    SondeRuntime *runtime,
                    const char **why);
