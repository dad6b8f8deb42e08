/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Ranks the several names of one address by which of them people expect. */
#pragma once

#include <string.h>

/* Fewer leading underscores, then the shorter one. Negative if @a is better, positive if @b is. */
static inline int
sonde_name_compare (const char *a, const char *b)
{
  size_t underscores_a = strspn (a, "_");
  size_t underscores_b = strspn (b, "_");
  size_t length_a;
  size_t length_b;

  if (underscores_a != underscores_b)
    return underscores_a < underscores_b ? -1 : 1;
  length_a = strlen (a);
  length_b = strlen (b);
  if (length_a != length_b)
    return length_a < length_b ? -1 : 1;
  return strcmp (a, b);
}
