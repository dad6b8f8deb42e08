/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Demangles foreign bytes: what comes out has a bound. */
#include <stdlib.h>
#include <string.h>

#include "symbols/demangle.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"

#define MAX_RESULT_BYTES (16u << 20)

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  Input input = { data, size };
  char *name = input_dup_text (&input);
  char *result = sonde_demangle (name);

  if (result == NULL || strlen (result) > MAX_RESULT_BYTES)
    abort ();
  free (result);
  free (name);

  return 0;
}
