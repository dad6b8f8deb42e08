/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Reads in the ELF files of Ruby where a thread's frames are found. */
#pragma once

#include "daemon/capture/interpreter/runtime.h"

/**
 * SECTION: ruby-finder
 *
 * Each thread has a variable `ruby_current_ec`, which points to its state. Where it is in a
 * thread's memory the dynamic linker writes into a pair of words, which a relocation of the file
 * names. 3.3 does not export the variable: then the pair is the one that `rb_errinfo` uses. The
 * version is in the constants `ruby_api_version`, for which extensions are built; structs are the
 * same in all of 3.1, and in all of 3.3. Others are ones whose frames are not known.
 *
 * The evaluating function, `vm_exec_core`, is exported nowhere: it is by far the largest one that
 * `rb_vm_exec` calls; and where that is not exported either, the largest one that is called by what
 * `rb_iseq_eval` calls.
 */
bool sonde_ruby_has_name (const char *file_name);
/* As SondeRuntimeKind has them. */
int sonde_ruby_find (const SondeElfFile *file,
                     const char *file_name,
                     SondeRuntime *runtime,
                     const char **why);
int sonde_ruby_find_evaluator (int fd,
                               const SondeUnwindModule *module,
                               SondeRuntime *runtime,
                               const char **why);
