/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finds what allocates past our hooks, so that the profile says what it lacks. */
#pragma once

#include <stdbool.h>

#include "shared-ring/collector/thread-ring.h"

/* The domain of log lines that say so. */
#define SONDE_MEMORY_LOG_DOMAIN "sonde-memory"

/**
 * sonde_other_allocators_look:
 *
 * Once, when we are loaded: later a lock of the dynamic linker might be held by who waits for us.
 * It may allocate, and frees that again.
 *
 * Returns: whether malloc() is that of a program or library which stands before us, so that none of
 *   our hooks is ever called
 */
bool sonde_other_allocators_look (void);

/* A library that was loaded with RTLD_DEEPBIND calls the malloc() of its own libraries. @file: as
 * of dlopen() */
void sonde_other_allocators_note_deep (const char *file);

/**
 * sonde_other_allocators_tell:
 * @ring: of the calling thread, where no event is being made
 *
 * Says in log lines what was not said in this process yet: an allocator before us, one that has an
 * operator new of its own, libraries that were loaded with RTLD_DEEPBIND.
 */
void sonde_other_allocators_tell (SondeThreadRing *ring);
