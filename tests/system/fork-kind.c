/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A short program of one kind: built several times, with another KIND and everything else at the
 * same addresses. */
#define ROUNDS 300000

static void __attribute__ ((noinline)) KIND (void)
{
  for (volatile unsigned i = 0; i < ROUNDS; i++)
    ;
}

int
main (void)
{
  KIND ();
  return 0;
}
