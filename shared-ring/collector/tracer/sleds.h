/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has functions with sleds call hooks while somebody wants to know of their calls. */
#pragma once

#include "shared-ring/trie-layout.h"

/**
 * SECTION: sleds
 *
 * Sleds of all that is loaded are on while there is a region whose mode is not SONDE_TRIE_OFF, else
 * they are as the compiler made them, and no hook is called. A thread of our own looks after them
 * in a process that has a region, whatever is in it by then: it sleeps on the region's epoch, and
 * looks once a second whether other libraries were loaded. What could not be switched on stands in
 * the region's header.
 *
 * Only while they are switched the text that they are in can be written to. Where the kernel
 * refuses that they stay as they are.
 *
 * Those of -fpatchable-function-entry are switched on before the program runs, or never, and not
 * off again: what they call looks whether there is a region.
 *
 * In a child of fork() all are as they were in its parent.
 */

/* Once, before the program runs: the first sonde_sleds_follow() is called before that, too. */
void sonde_sleds_init (void);

/* Of the process's new region, or NULL: it has none. When it is back all sleds are as that is
 * wanted, but in a child of fork(), where they are soon. Not from signal handlers. */
void sonde_sleds_follow (SondeTrieHeader *header);

/* There is no thread of ours any more when this is back: sleds stay as they are. Not from signal
 * handlers. */
void sonde_sleds_leave_alone (void);

/* The program is about to close itself by seccomp: they stay as they are. Any thread, and signal
 * handlers. */
void sonde_sleds_confine (void);

/* What sleds lead to. */
extern const char sonde_sled_stub_enter[] __attribute__ ((visibility ("hidden")));
extern const char sonde_sled_stub_tail[] __attribute__ ((visibility ("hidden")));
extern const char sonde_sled_stub_exit[] __attribute__ ((visibility ("hidden")));
extern const char sonde_sled_stub_begin[] __attribute__ ((visibility ("hidden")));
