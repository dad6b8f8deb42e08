/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A module of which there are many: the same code with frames of another size, and some static TLS.
 */
#include <stdlib.h>

#define TLS_BYTES 128

void allocate (void);

static _Thread_local volatile char own[TLS_BYTES] __attribute__ ((tls_model ("initial-exec")));
static void *volatile kept;

static void __attribute__ ((noinline)) allocate_inside (void)
{
  volatile char frame[NUMBER * 48];

  frame[0] = 1;
  kept = malloc (700000 + NUMBER);
  own[0] = frame[0];
  free (kept);
}

void
allocate (void)
{
  allocate_inside ();
  own[1] = 1;
}
