/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads in the ELF files of CPython and of the C library where a thread's frames are found. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/walk.h"
#include "daemon/capture/interpreter/line-table.h"

/**
 * SECTION: python-finder
 *
 * A thread's state hangs at a key of thread-specific data, whose number is in `_PyRuntime`; so it
 * is found whether or not the thread holds the global lock. Where that number is, and what the
 * structs behind it are like, a table has for each minor version; that the number is there the code
 * of PyGILState_GetThisThreadState() has to confirm. How the C library keeps thread-specific data
 * it says itself, for debuggers.
 */
#define SONDE_PYTHON_MAX_EVALUATORS 4

typedef struct
{
  unsigned minor; /* of version 3 */
  uint64_t key;   /* here and below: virtual addresses in the file */
  uint64_t code_type;
  uint64_t text_type;
  uint64_t evaluators[SONDE_PYTHON_MAX_EVALUATORS][2]; /* begin, end: the evaluating function, and
                                                          room for other parts of it */
  size_t n_evaluators;
  uint64_t first_instruction; /* bytes, in a code object; of 3.11 and later */
  unsigned instruction_bytes; /* of what a frame counts */
  SondeLineTableKind lines;
  SondeWalkLayout layout; /* all but the fields of the C library */
} SondePython;

/* Whether a file of that name may be CPython, or its library. */
bool sonde_python_has_name (const char *file_name);
/* Whether it may be the C library that it uses. */
bool sonde_python_has_name_of_libc (const char *file_name);

/**
 * sonde_python_find:
 * @fd: stays the caller's; hostile
 * @file_name: for versions that say it nowhere else
 * @why: (out): a static phrase: why it is not one whose frames are known
 *
 * Returns: 0 or a negative errno: -ENOENT it is no CPython; -ENOTSUP one of another kind
 */
int sonde_python_find (int fd, const char *file_name, SondePython *python, const char **why);

/* The fields of glibc. Errors: -ENOENT it does not tell */
int sonde_python_find_threads (int fd, SondeWalkLayout *layout);
