/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* C++ names as people write them. */
#include "symbols/demangle.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NAME_BYTES 4096

/* Of the C++ runtime; its header is C++. Source: Itanium C++ ABI, section 3.4. */
extern char *__cxa_demangle (const char *name, char *buffer, size_t *size, int *status);

char *
sonde_demangle (const char *name)
{
  char *result = NULL;
  int status;

  /* Without the prefix it would take "i" for the type int. */
  if (name[0] == '_' && name[1] == 'Z' && strnlen (name, MAX_NAME_BYTES + 1) <= MAX_NAME_BYTES)
    result = __cxa_demangle (name, NULL, NULL, &status);
  return result != NULL ? result : strdup (name);
}
