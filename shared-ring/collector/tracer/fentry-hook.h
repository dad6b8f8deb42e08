/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Stands in for the hook that -pg -mfentry has functions call as they begin, and is what we write
 * into those of -fpatchable-function-entry. */
#pragma once

#include <stdint.h>

/* @function: as any hook tells it, where code is. Returns: where it begins, which is a little
 * before if it has an ENDBR64, that hooks are called behind. */
uint64_t sonde_fentry_begin (uint64_t function);
