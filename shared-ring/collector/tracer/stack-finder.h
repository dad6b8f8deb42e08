/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds the bounds of the stack that an address is on, by what the program said and the kernel. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared-ring/trie-writer.h"

/* A SondeTrieUser's find_stack: coroutines' first, then the signal stack, then the mapping. System
 * calls alone, so that signal handlers may call it. errno is left alone. */
bool sonde_stack_finder_find (uint64_t sp, SondeTrieRange *range);

/* The stack of a coroutine, that may lie beside others in one mapping. Of many the latest are
 * known. */
void sonde_stack_finder_add (uint64_t lo, uint64_t size_bytes);
