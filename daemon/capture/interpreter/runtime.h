/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The interpreters that are known: how their files are recognized, and what is told of them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/elf-file.h"
#include "daemon/base/walk.h"
#include "daemon/capture/interpreter/line-table.h"
#include "unwind/module.h"

/**
 * SECTION: runtime
 *
 * A kind of interpreter is a row here, a finder that reads its file, and a walk in walk.bpf.c.
 */
#define SONDE_RUNTIME_MAX_EVALUATORS 4

/* One version of an interpreter, as its file tells it. */
typedef struct
{
  SondeWalkKind kind;
  unsigned version;   /* the part of it that counts: 11 is Python 3.11, 802 is PHP 8.2 */
  uint64_t key;       /* here and below: virtual addresses in the file, see SondeWalkPlace */
  uint64_t code_type; /* 0: it has none */
  uint64_t text_type;
  uint64_t evaluators[SONDE_RUNTIME_MAX_EVALUATORS][2]; /* begin, end: the evaluating function, and
                                                           room for other parts of it */
  size_t n_evaluators;
  uint64_t first_instruction; /* bytes, in a code object; 0: frames count from that one on */
  unsigned instruction_bytes; /* of what a frame counts */
  SondeLineTableKind lines;
  SondeWalkLayout layout; /* all but the fields of the C library */
} SondeRuntime;

typedef struct
{
  const char *language; /* as users are told of it */
  bool needs_libc;      /* what its C library keeps of threads: glibc alone tells where */
  bool begins_early;   /* a function may be in the list before the evaluating function is entered */
  const char *tag;     /* behind the names of its functions */
  const char *outside; /* what code outside of functions is called */

  /* Whether a file of that name may be one, or its library. */
  bool (*has_name) (const char *file_name);
  /**
   * find:
   * @file: loaded; hostile
   * @file_name: for versions that say it nowhere else
   * @why: (out): a static phrase: why it is not one whose frames are known
   *
   * Returns: 0 or a negative errno: -ENOENT it is none; -ENOTSUP one of another kind
   */
  int (*find) (const SondeElfFile *file,
               const char *file_name,
               SondeRuntime *runtime,
               const char **why);
  /* NULL: what find() says is the evaluating function; else this finds it in what that calls, with
   * the same results. */
  int (*find_evaluator) (int fd,
                         const SondeUnwindModule *module,
                         SondeRuntime *runtime,
                         const char **why);
} SondeRuntimeKind;

/* By SondeWalkKind; that of SONDE_WALK_NONE is empty. */
extern const SondeRuntimeKind sonde_runtime_kinds[SONDE_N_WALK_KINDS];

/* The kind that a file of that name may be; SONDE_WALK_NONE: none */
SondeWalkKind sonde_runtime_guess (const char *file_name);

/* What find() of @kind says of a file. @fd: stays the caller's; @runtime: (out): not touched on
 * failure. Errors: those of find(), or -EBADMSG, -ENOMEM, or what pread() said: it cannot be read
 */
int sonde_runtime_find (
    SondeWalkKind kind, int fd, const char *file_name, SondeRuntime *runtime, const char **why);
