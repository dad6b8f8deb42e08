/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The programs whose stacks are unwound. */
#pragma once

#include <glib.h>

typedef struct
{
  const char *name;
  char **argv; /* NULL: it cannot run here */
  char *why_not;
} Workload;

/* @programs: the folder of our own ones; @scratch: an empty folder for generated input. Returns an
 * array of Workload. */
GArray *workloads_new (const char *programs, const char *scratch);
