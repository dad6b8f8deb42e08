/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads in the ELF files of CPython and of the C library where a thread's frames are found. */
#pragma once

#include "daemon/capture/interpreter/runtime.h"

/**
 * SECTION: python-finder
 *
 * A thread's state hangs at a key of thread-specific data, whose number is in `_PyRuntime`; so it
 * is found whether or not the thread holds the global lock. Where that number is, and what the
 * structs behind it are like, a table has for each minor version; that the number is there the code
 * of PyGILState_GetThisThreadState() has to confirm. How the C library keeps thread-specific data
 * it says itself, for debuggers.
 */
/* As SondeRuntimeKind has them. */
bool sonde_python_has_name (const char *file_name);
int sonde_python_find (const SondeElfFile *file,
                       const char *file_name,
                       SondeRuntime *runtime,
                       const char **why);

/* Whether it may be the C library that it uses. */
bool sonde_python_has_name_of_libc (const char *file_name);
/* The fields of glibc. Errors: -ENOENT it does not tell */
int sonde_python_find_threads (int fd, SondeWalkLayout *layout);
