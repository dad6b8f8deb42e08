/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Matches functions of the process by name, file and size with the lines of a region's filter. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * SECTION: function-filter
 *
 * The symbol tables of what is mapped are read when a filter is set, and of what is mapped later
 * when its first function asks. What is kept are addresses that differ from what their file's
 * functions without a symbol get. A line is "[!][MODULE-GLOB:]NAME-GLOB", where '*' and '?' mean
 * what they do for shells, or "size>=BYTES". The last one that matches decides; where none does, a
 * function is counted if the first line begins with '!'. A name matches as it is in the symbol
 * table, or as C++ and Rust spell it, with its parameters or without.
 */

/* @text: lines, of up to SONDE_TRIE_FILTER_BYTES. Without any all functions are wanted. Waits for
 * hooks that read symbols, so it is not for those of signal handlers. */
void sonde_function_filter_set (const char *text, size_t n_bytes);

/* From hooks, also in signal handlers. @may_read: make system calls. Returns: 1; 0: it is not; -1:
 * it is not known, as nobody may read symbols, or another thread does */
int sonde_function_filter_wants (uint64_t function, bool may_read);
