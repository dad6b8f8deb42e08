/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every fuzz target implements. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Source: https://llvm.org/docs/LibFuzzer.html#fuzz-target. Aborts when an invariant breaks. */
int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);
